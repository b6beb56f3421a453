"""The SQL that makes cells out of trials.

The schema `raw` holds what was read: the tables of the store (`planned`, `superseded`, `metrics`;
`trials` lies outside of it), the `parents` of attempts, the `sweeps`, and, where not all trials
count, whose do (`counted`). From these it makes `endings` (of the trials that count), the
`settings` that tell cells apart, the `members` of cells, the `rules` that decide a cell, `outcomes`
by seed, `pooled` by cell, `bounds` and `cells`.

A score that is not known yet lies in an interval, the columns `<score>_least` and `<score>_most`
of `raw.bounds`. That table has one row for each seed of a cell, and one with a null `seed` for
the cell as a whole, by its pass rule. `raw.fresh` has the same for the fresh seeds that confirm a
pass, each at its largest budget that is not above the cell's. It ran `here` or with fewer steps.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite

from sweepd.grid.metrics import BETTER, Better, range_of
from sweepd.grid.options import MEAN_DIGITS, Goal
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
    greater than any number.) `search.seeds` and `sweepd.limits` say the same of a score in Python.
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
        SELECT cell, coalesce(latest.pass, 'median') AS pass, latest.goal, settling.name AS settles,
            len(settling.fresh_seeds) AS fresh
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


def cells_sql(identity: Iterable[str], member: str, scores: ScoreDirections) -> str:
    """Returns the SQL of `cells`, and of the tables that say what is known of these scores. If
    GOAL_COST is one of them, run `reached_sql` first."""
    with_goal = GOAL_COST in scores
    never = f"REPLACE (nullif({GOAL_COST}, 'inf') AS {GOAL_COST})" if with_goal else ""
    reached = "LEFT JOIN raw.reached ON reached.id = endings.id" if with_goal else ""
    bounds = [bound for score in scores for bound in bounds_of(score)]
    own: dict[str, str] = {}
    aggregates: dict[str, str] = {}
    carried = {n: f"shorter.{quoted(n)}" for n in ("correct", "total", "worth", "commonest")}
    carried["status"] = "'solved'"
    for score, better in scores.items():
        # What a trial measured, and the worst and the best that its score may turn out to be. A
        # completed trial has the score that it measured. A solved one has that or a better one. A
        # diverged one has the worst there is. Any other trial may still get any score. The cost of
        # reaching the goal is known once the goal was met, and is infinite if it never was.
        least, most = bounds_of(score)
        ends = (0.0, inf) if score == GOAL_COST else range_of(score)
        names, (worst, best) = (score, least, most), (f"'{end}'::DOUBLE" for end in ends)
        if better == "down":
            names, worst, best = (score, most, least), best, worst
        if score == GOAL_COST:
            over = "status IN ('completed', 'diverged') AND reached.last_step >= endings.step"
            seen = f"coalesce(reached.flops, CASE WHEN {over} THEN {worst} END)"
            at_worst = at_best = seen
        else:
            value = measured(f"endings.{quoted(score)}")
            seen = f"""CASE WHEN status = 'diverged' THEN {worst}
                WHEN status IN ('completed', 'solved', 'stopped') THEN {value} END"""
            at_worst = f"CASE WHEN status IN ('completed', 'solved') THEN {value} END"
            at_best = f"""CASE status WHEN 'completed' THEN {value}
                WHEN 'diverged' THEN {worst} END"""
        known = f"coalesce({at_worst}, {worst})", f"coalesce({at_best}, {best})"
        own |= zip(names, (seen, *known), strict=True)
        # A seed that was planned on demand, and has not run at its cell's budget, has what it
        # reached with its largest smaller budget. It counts as solved there, since a pass stays a
        # pass (`search.stairs.Ladder`).
        shorter = f"shorter.{quoted(score)}"
        carried |= zip(names, (shorter, shorter, best), strict=True)
        aggregates |= {name: pooled(name, better) for name in names}
    end_bounds: dict[str, str] = {}
    for name, (score, pool) in extremes(scores).items():
        aggregates[name] = f"{pool}({quoted(score)})"
        of_score = (f"{pool}({bound})" for bound in bounds_of(score))
        end_bounds |= zip(bounds_of(name), of_score, strict=True)
    aggregates |= end_bounds
    measures = (f"({sql})::DOUBLE AS {quoted(name)}" for name, sql in own.items())
    replaced = (
        f"CASE WHEN shorter.seed IS NULL THEN own.{quoted(n)} ELSE {value} END AS {quoted(n)}"
        for n, value in carried.items()
    )
    steps = "settings.steps" if "steps" in identity else "0"
    return f"""
    CREATE OR REPLACE TABLE raw.own AS
        SELECT cell, pass, members.seed, members.on_demand, members.fresh, status, correct, total,
            coalesce(independent, total) AS worth, commonest, seconds, endings.train_flops,
            family, {steps} AS steps, {", ".join(measures)}
        FROM raw.members JOIN raw.rules USING (cell) JOIN raw.settings USING (cell)
            LEFT JOIN raw.endings USING ({member}) {reached};

    CREATE OR REPLACE TABLE raw.outcomes AS
        SELECT own.* EXCLUDE (family, steps, on_demand, fresh)
            REPLACE ({", ".join(replaced)}), shorter.seed IS NOT NULL AS carried
        FROM raw.own ASOF LEFT JOIN (
            SELECT *, true AS carries FROM raw.own WHERE {_DONE}
        ) AS shorter ON own.family = shorter.family AND own.seed = shorter.seed
            AND own.steps > shorter.steps
            AND carries = (own.on_demand AND NOT coalesce(own.{_DONE}, false))
        WHERE NOT own.fresh;

    CREATE OR REPLACE TABLE raw.pooled AS
        SELECT cell, any_value(pass) AS pass, count(*) AS seeds,
            count(*) FILTER ({_DONE}) AS ended, {_COUNTS},
            sum(correct)::BIGINT AS correct, sum(total)::BIGINT AS total,
            sum(worth)::BIGINT AS worth, max(worth) AS worth_of_one,
            max(commonest) AS commonest, avg(seconds) AS seconds,
            {", ".join(f"{sql} AS {quoted(name)}" for name, sql in aggregates.items())}
        FROM raw.outcomes GROUP BY cell;

    CREATE OR REPLACE TABLE raw.bounds AS
        SELECT NULL::BIGINT AS seed, cell, {", ".join([*bounds, *end_bounds])} FROM raw.pooled
        UNION ALL
        SELECT seed, cell, {", ".join(f"outcomes.{b}" for b in bounds)}, {", ".join(end_bounds)}
        FROM raw.outcomes JOIN raw.pooled USING (cell);

    CREATE OR REPLACE TABLE raw.fresh AS
        SELECT ran.seed, cells.cell, ran.steps = cells.steps AS here,
            {", ".join(f"ran.{b}" for b in bounds)}, {", ".join(end_bounds)}
        FROM (SELECT DISTINCT cell, family, steps FROM raw.own) AS cells
            JOIN (FROM raw.own WHERE fresh AND {_DONE}) AS ran
                ON ran.family = cells.family AND ran.steps <= cells.steps
            JOIN raw.pooled ON pooled.cell = cells.cell
        QUALIFY row_number() OVER (PARTITION BY cells.cell, ran.seed ORDER BY ran.steps DESC) = 1;

    CREATE OR REPLACE TABLE raw.cells AS
        SELECT cell, {", ".join(map(quoted, [*identity, *COSTS]))},
            pass, seeds, ended, {", ".join(STATUSES)},
            {", ".join(map(quoted, [*scores, *extremes(scores)]))},
            correct, total, worth, worth_of_one, commonest, seconds
        FROM raw.settings JOIN raw.pooled USING (cell);

    CREATE OR REPLACE VIEW cells AS
        SELECT * EXCLUDE ({", ".join(OF_RAW)}) {never} FROM raw.cells ORDER BY cell;
    """


def pooled(column: str, better: Better) -> str:
    """Returns the SQL that makes one number of a column of a cell's seeds, by its rule (`pass`).

    The median of an even count is the mean of the two middle values: the middle one in rising
    order, and the middle one in falling order. If a seed that diverged has an infinitely bad score,
    the mean is as bad, and so is the median of two infinite values that differ. `search.seeds`
    applies the same rules.
    """
    seeds = quoted(column)
    worst, best, bad = ("max", "min", "inf") if better == "down" else ("min", "max", "-inf")
    infinite = f"'{bad}'::DOUBLE"
    mean = f"round(avg({seeds}), {MEAN_DIGITS})"
    twice = f"(quantile_disc({seeds}, 0.5) - quantile_disc(-{seeds}, 0.5))"
    return f"""CASE any_value(pass)
        WHEN 'median' THEN if(isnan({twice}), {infinite}, {twice} / 2)
        WHEN 'mean' THEN if(bool_or({seeds} = {infinite}), {infinite}, {mean})
        WHEN 'all' THEN {worst}({seeds}) WHEN 'any' THEN {best}({seeds}) END"""
