"""The SQL that makes cells out of trials.

The schema `raw` holds what was read: the tables of the store (`planned`, `superseded`, `metrics`;
`trials` lies outside of it), the `parents` of attempts, the `sweeps`, and, where not all trials
count, whose do (`counted`). From these it makes `endings` (of the trials that count), the
`settings` that tell cells apart, the `members` of cells, and the `rules` that decide a cell. What
the members say together is no matter of SQL (`query.evidence`).
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

from sweepd.grid.metrics import BETTER, Better
from sweepd.grid.options import Goal
from sweepd.statuses import DONE, STATUSES

GOAL_COST = "flops_to_goal"
"""The column of the training FLOPs that a trial took to meet its goal. They are computed from the
metrics, so `cells` has the column only once the metrics have been read."""
ScoreDirections = Mapping[str, Better]
"""The scores of trials, and which way each of them is better."""
MEASURED: ScoreDirections = BETTER
"""The scores that the row of any trial has. That of a user's own task or loop may have others."""
OF_TRIALS: ScoreDirections = {**MEASURED, GOAL_COST: "down"}
"""The scores that any trial may have, with the one that is computed from its metrics."""


def extremes(scores: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Returns the columns of `cells` that hold extremes of scores over seeds. For each column it
    gives the score and which extreme (min or max) it holds."""
    shown = (score for score in scores if score not in ("chain_acc", GOAL_COST))
    return {f"{score}_{pool}": (score, pool) for score in shown for pool in ("min", "max")}


EXTREMES = extremes(MEASURED)
SCORES = (*OF_TRIALS, *EXTREMES)
"""The columns of `cells` that may still change as more seeds end."""
OF_RAW = ("cell", "worth", "worth_of_one")
"""The columns of `raw.cells` that `cells` leaves out."""
MEMBERS = "members of the cell"
"""The column of `raw.settings` that lists its `raw.members`. No field has a name with spaces."""
COSTS = ("params", "flops", "flops_weights", "state_bytes", "train_bytes", "train_flops")
"""The columns of `cells` that are known before a trial runs."""

_DONE = f"status IN {DONE}"
_COUNTS = ", ".join(f"count(*) FILTER (status = '{status}') AS {status}" for status in STATUSES)


def _is_in(seeds: str) -> str:
    """Returns SQL that says whether a planned trial has one of these seeds of its sweep, `s`."""
    return f"coalesce(list_contains(s.{seeds}, plan.seed), false)"


_IN_RESERVE = f"(coalesce(plan.on_demand, false) OR {_is_in('extra_seeds')})"
"""SQL: does a planned trial of the sweep `s` run only where an answer depends on it?"""


def quoted(name: str) -> str:
    """Returns a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def measured(score: str) -> str:
    """Returns SQL of a score that is null where it is no number: NaN or infinite. It meets no goal,
    passes no condition and is no best value, as if nothing had been measured. (To DuckDB, NaN is
    greater than any number.) `judge.seeds` and `sweepd.limits` say the same of a score in Python.
    """
    return f"(CASE WHEN isfinite({score}) THEN {score} END)"


def bounds_of(score: str) -> tuple[str, str]:
    """Returns the columns of `raw.bounds` with the least and the greatest value that a
    score may turn out to have."""
    return f"{score}_least", f"{score}_most"


def members_sql(
    identity: Sequence[str],
    plan_axes: Sequence[str],
    trial_axes: Sequence[str],
    member: str,
    counted: str,
) -> str:
    """Returns the SQL of the members of each cell, and of the tables that they are made from and
    judged by: `raw.endings`, `raw.settings`, `raw.members` and `raw.rules`.

    identity: the columns that tell cells apart. Only `raw.settings` has them, so that each is
    looked at once for each cell and not once for each trial. Costs are the planned ones, or the
    trial's own where there is no plan. A cell whose trials all run on demand is left out until one
    of them is done. Cells of one `family` differ in their steps alone. member: the column that
    tells members apart, `config`, or `id` where cells differ by code. counted: what follows
    `trials` in SQL so that only trials of the code that counts are left.
    """
    shared = ["task", "model", "size", "L", *(["code"] if member == "id" else [])]
    columns = [member, *shared, *plan_axes, "seed", *COSTS]
    planned = ", ".join(f"plan.{quoted(name)}" for name in columns)
    ran = ", ".join(map(quoted, [member, *shared, *trial_axes, "seed", *COSTS]))
    same = ", ".join(map(quoted, identity))
    family = ", ".join(quoted(name) for name in identity if name != "steps")
    of_member = ", ".join(f"{name}: {name}" for name in (member, "seed", "on_demand", "fresh"))
    members, done = quoted(MEMBERS), quoted("is done")
    fresh, extra = _is_in("fresh_seeds"), _is_in("extra_seeds")
    checks = "" if "check_every" in trial_axes else ", NULL::BIGINT AS check_every"
    return f"""
    CREATE TABLE raw.latest AS
        SELECT arg_max(id, (coalesce({_DONE}, false), attempt)) AS id
        FROM trials {counted} GROUP BY {member};
    CREATE TABLE raw.endings AS SELECT *{checks} FROM trials SEMI JOIN raw.latest USING (id);

    CREATE TABLE raw.settings AS
        SELECT row_number() OVER (ORDER BY {same}) AS cell,
            dense_rank() OVER (ORDER BY {family}) AS family, *
        FROM (
            SELECT {same}, {", ".join(f"max({cost}) AS {cost}" for cost in COSTS)},
                list({{{of_member}}}) AS {members},
                max(latest_sweep) AS latest_sweep, max(settling_sweep) AS settling_sweep
            FROM (
                SELECT {planned}, by_member.* EXCLUDE (latest)
                FROM raw.planned AS plan JOIN (
                    SELECT arg_max(plan.row, coalesce(s.number, -1)) AS latest,
                        bool_and(coalesce(plan.on_demand, false)) AS on_demand,
                        bool_and({fresh}) AS fresh, bool_or({done}) AS {done},
                        max(s.number) AS latest_sweep,
                        max(s.number) FILTER (s.settles) AS settling_sweep
                    FROM (
                        SELECT {member}, sweep, seed, on_demand, rowid AS row,
                            {member} IN (
                                SELECT {member} FROM raw.endings WHERE {_DONE}
                            ) AS {done}
                        FROM raw.planned
                    ) AS plan LEFT JOIN raw.sweeps AS s ON plan.sweep = s.name
                    WHERE {done} OR NOT ({fresh} OR {extra})
                    GROUP BY plan.{member}
                ) AS by_member ON plan.rowid = by_member.latest
                UNION ALL BY NAME
                SELECT {ran}, false AS on_demand, false AS fresh, true AS {done}
                FROM raw.endings ANTI JOIN raw.planned USING ({member})
            ) GROUP BY {same} HAVING bool_or({done} OR NOT on_demand)
        );
    CREATE TABLE raw.members AS
        SELECT cell, unnest({members}, recursive := true) FROM raw.settings;
    CREATE TABLE raw.rules AS
        SELECT cell, coalesce(latest.pass, 'median') AS pass, latest.goal, settling.name AS settles
        FROM raw.settings LEFT JOIN raw.sweeps AS latest ON latest_sweep = latest.number
            LEFT JOIN raw.sweeps AS settling ON settling_sweep = settling.number;
    """


SWEEPS = f"""
    CREATE VIEW sweeps AS
        SELECT s.name, any_value(s.created) AS created, any_value(s.goal) AS goal,
            any_value(s.pass) AS pass, any_value(s.search) AS search,
            count(id) AS trials, count(*) FILTER ({_DONE}) AS ended, {_COUNTS}
        FROM raw.sweeps AS s LEFT JOIN (
            SELECT plan.sweep, plan.on_demand, plan.seed, id, trials.status
            FROM raw.planned AS plan LEFT JOIN trials USING (id)
        ) AS plan ON plan.sweep = s.name AND (status IS NOT NULL OR NOT {_IN_RESERVE})
        GROUP BY s.name, s.number ORDER BY s.number;
"""
"""SQL of the view `sweeps`, which says how each selected sweep stands."""


def lineage_sql(of: str) -> str:
    """Returns the SQL of `lineage`, for a recursive WITH. For each trial of the table `of` it names
    the trials whose metrics count as its own (`maker`), and the step before which they do
    (`until`, null if all do).

    A trial that continued another one's checkpoint shares the rows of that one, its `parent`, up
    to the first row of its own. An attempt that recorded no row made no step.
    """
    return f"""starts AS (
            SELECT a.id, a.parent, coalesce(min(m.step), max(a.step) + 1, 0) AS step
            FROM raw.parents AS a
                LEFT JOIN raw.metrics AS m ON m.id = a.id AND m.attempt <= a.attempt
            WHERE a.parent IS NOT NULL GROUP BY a.id, a.parent
        ), lineage AS (
            SELECT id AS trial, id AS maker, NULL::BIGINT AS until FROM {of}
            UNION
            SELECT trial, starts.parent, least(until, starts.step)
            FROM lineage JOIN starts ON starts.id = maker
        )"""


def reached_sql(goals: Iterable[str], member: str, scores: ScoreDirections) -> str:
    """Returns the SQL of `raw.reached`. For each trial that ended, it has the training FLOPs at the
    first check that meets the goal of its cell (`flops`), and its last step (`last_step`)."""
    # A loss counts at checks alone, since that of any other row is of a training batch. Other
    # metrics are measured at checks only, or at each step of a user's own loop, which has no
    # `check_every`.
    at_check = (
        "(coalesce(metrics.step % endings.check_every = 0, true) OR metrics.step = endings.step)"
    )
    met, known = "", "''"  # neither list below may be empty
    for text in dict.fromkeys(goals):
        try:
            goal = Goal.parse(text)
        except ValueError:
            continue
        if goal.metric in scores and isfinite(goal.threshold):  # then its text holds no quotes
            met += (
                f" WHEN '{text}' THEN {at_check if goal.metric == 'loss' else 'true'} AND "
                f"{measured(f'metrics.{quoted(goal.metric)}')} {goal.comparison} {goal.threshold!r}"
            )
            known += f", '{text}'"
    return f"""
    CREATE OR REPLACE TABLE raw.reached AS
        WITH RECURSIVE {lineage_sql("raw.endings")}
        SELECT trial AS id, max(metrics.step) AS last_step,
            min(metrics.train_flops) FILTER (CASE rules.goal WHEN '' THEN false{met} END) AS flops
        FROM lineage JOIN raw.endings ON endings.id = trial
            JOIN raw.members USING ({member}) JOIN raw.rules USING (cell)
            JOIN metrics ON metrics.id = maker AND (until IS NULL OR metrics.step < until)
        WHERE rules.goal IN ({known}) GROUP BY trial;
    """


def outcomes_sql(identity: Iterable[str], member: str, scores: ScoreDirections) -> str:
    """Returns the SQL of the trials of each cell with these scores, sorted by cell and seed."""
    columns = {name: f"endings.{quoted(name)}" for name in scores}
    reached = ""
    if GOAL_COST in scores:
        over = "status IN ('completed', 'diverged') AND reached.last_step >= endings.step"
        columns[GOAL_COST] = f"coalesce(reached.flops, CASE WHEN {over} THEN 'inf'::DOUBLE END)"
        reached = "LEFT JOIN raw.reached ON reached.id = endings.id"
    steps = "try_cast(settings.steps AS DOUBLE)" if "steps" in identity else "NULL"
    return f"""
    SELECT cell, family, coalesce({steps}, 0) AS steps, members.seed, members.fresh,
        members.on_demand, status, correct, total, coalesce(independent, total) AS worth, commonest,
        seconds, {", ".join(f"{sql} AS {quoted(name)}" for name, sql in columns.items())}
    FROM raw.members JOIN raw.settings USING (cell) LEFT JOIN raw.endings USING ({member}) {reached}
    ORDER BY cell, members.seed"""
