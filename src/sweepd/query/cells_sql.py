"""The SQL that makes cells out of trials.

The schema `raw` holds what was read: the tables of the store (`planned`, `attempts`, `metrics`),
the `parents` of attempts, the `sweeps`, and whose trials count (`counted`). From these it makes
`endings` (of the trials that count), `plans`, the `members` of cells, the `rules` that decide a
cell, `outcomes` by seed, `bounds` and `cells`.

A score that is not known yet lies in an interval, the columns `<score>_least` and `<score>_most`
of `raw.bounds`. That table has one row for each seed of a cell, and one with a null `seed` for
the cell as a whole, by its pass rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf, isfinite

from sweepd.grid.metrics import BETTER, Better, range_of
from sweepd.grid.options import MEAN_DIGITS, Goal, PassRule
from sweepd.statuses import DONE, RAN, STATUSES

GOAL_COST = "flops_to_goal"
"""The column of the training FLOPs that a trial took to meet its goal. They are computed from the
metrics, so `cells` has the column only once the metrics have been read."""
ScoreDirections = Mapping[str, Better]
"""The scores of trials, and which way each of them is better."""
MEASURED: ScoreDirections = BETTER
"""The scores that the row of any trial has. The row of a user's own task or loop may have
others."""
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
COSTS = ("params", "flops", "flops_weights", "state_bytes", "train_bytes", "train_flops")
"""The columns of `cells` that are known before a trial runs."""

_FILED = ("raw.planned", "raw.attempts")
_DONE = f"status IN {DONE}"
_COUNTS = ", ".join(f"count(*) FILTER (status = '{status}') AS {status}" for status in STATUSES)
_IN_RESERVE = (
    "(coalesce(plan.on_demand, false) OR coalesce(list_contains(s.extra_seeds, plan.seed), false))"
)
"""SQL that says whether a planned trial of the sweep `s` runs only where an answer depends on
it."""
_AT_CHECKS = (
    "(coalesce(metrics.step % endings.check_every = 0, true) OR metrics.step = endings.step)"
)
_CHECKED = {"loss": _AT_CHECKS}
"""SQL that says, by metric, whether a row of the metrics belongs to a check. Other metrics need no
such test. They are measured at checks only, or at each step of a user's own loop, which has no
`check_every`."""


def quoted(name: str) -> str:
    """Returns a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def least(score: str) -> str:
    """Returns the column of `raw.bounds` with the least value that a score may turn out to have."""
    return f"{score}_least"


def most(score: str) -> str:
    """Returns the column of `raw.bounds` with the greatest value that a score may turn out to
    have."""
    return f"{score}_most"


def told_apart_sql() -> str:
    """Returns SQL that makes `config` differ wherever the names of tasks or models do.

    In sweepd 0.1.0 `config` left out the file of a user's class, so two classes of one name in two
    files have it in common.
    """
    rows = " UNION ".join(f"SELECT config, task, model FROM {name}" for name in _FILED)
    told_apart = "".join(
        f"UPDATE {name} SET config = concat_ws(' ', config, task, model) "
        "WHERE config IN (FROM raw.shared);"
        for name in _FILED
    )
    return f"""
    CREATE TABLE raw.shared AS SELECT config FROM ({rows}) GROUP BY config HAVING count(*) > 1;
    {told_apart}
    DROP TABLE raw.shared;
    """


def endings_sql(selected: str) -> str:
    """Returns the SQL of the views `attempts` and `trials`, over the attempts for which `selected`,
    an SQL condition, holds.

    `raw.newest` has for each trial the attempt that counts. That is the newest one that ran, or the
    newest of all if none ran.
    """
    counting = f"coalesce(max(attempt) FILTER (status IN {RAN}), max(attempt))"
    return f"""
    CREATE TABLE raw.newest AS
        SELECT id, {counting} AS attempt FROM raw.attempts WHERE {selected} GROUP BY id;
    CREATE VIEW attempts AS FROM raw.attempts WHERE {selected};
    CREATE VIEW trials AS FROM raw.attempts SEMI JOIN raw.newest USING (id, attempt);
    """


def members_sql(plan_axes: Sequence[str], trial_axes: Sequence[str], member: str) -> str:
    """Returns the SQL of the members of each cell, and of the tables that they are made from and
    judged by: `raw.endings`, `raw.plans`, `raw.members` and `raw.rules`.

    member: the column that tells members apart, `config`, or `id` where cells differ by code. Costs
    are the planned ones, or the trial's own where there is no plan. A cell whose trials all run on
    demand is left out until one of them is done.
    """
    code = ["code"] if member == "id" else []
    shared = ["task", "model", "size", "L", *code]
    identity = ", ".join(map(quoted, dict.fromkeys([*shared, *plan_axes, *trial_axes])))
    plan_columns = [member, *shared, *plan_axes, "seed", *COSTS]
    ran = ", ".join(map(quoted, [member, *shared, *trial_axes, "seed", *COSTS]))
    return f"""
    CREATE TABLE raw.endings AS FROM trials SEMI JOIN (
            SELECT arg_max(id, (coalesce({_DONE}, false), attempt)) AS id
            FROM trials SEMI JOIN raw.counted USING (task, model, code) GROUP BY {member}
        ) USING (id);
    ALTER TABLE raw.endings ADD COLUMN IF NOT EXISTS check_every BIGINT;

    CREATE TABLE raw.plans AS
        SELECT plan.*, coalesce(list_contains(s.fresh_seeds, plan.seed), false) AS fresh
        FROM raw.planned AS plan LEFT JOIN raw.sweeps AS s ON plan.sweep = s.name
        WHERE NOT (fresh OR coalesce(list_contains(s.extra_seeds, plan.seed), false))
            OR {member} IN (SELECT {member} FROM raw.endings WHERE {_DONE});

    CREATE TABLE raw.members AS
        SELECT dense_rank() OVER (ORDER BY {identity}) AS cell, * FROM (
            SELECT {", ".join(_any_value(name, member) for name in plan_columns)},
                bool_and(coalesce(on_demand, false)) AS on_demand, bool_and(fresh) AS fresh
            FROM raw.plans GROUP BY {member}
            UNION ALL BY NAME
            SELECT {ran}, false AS on_demand, false AS fresh
            FROM raw.endings ANTI JOIN raw.planned USING ({member})
        );
    DELETE FROM raw.members WHERE cell IN (
        SELECT cell FROM raw.members GROUP BY cell HAVING bool_and(
            on_demand AND {member} NOT IN (SELECT {member} FROM raw.endings WHERE {_DONE})
        )
    );

    CREATE TABLE raw.rules AS
        SELECT cell, coalesce(arg_max(s.pass, s.number), 'median') AS pass,
            arg_max(s.goal, s.number) AS goal,
            arg_max(s.name, s.number) FILTER (s.settles) AS settles
        FROM raw.members LEFT JOIN raw.plans USING ({member})
            LEFT JOIN raw.sweeps AS s ON sweep = s.name
        GROUP BY cell;
    """


def sweeps_sql() -> str:
    """Returns the SQL of the view `sweeps`, which says how each selected sweep stands."""
    return f"""
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


def makers_sql(ids: str) -> str:
    """Returns a SELECT of the given ids, and of all trials whose checkpoints these have continued.

    ids: a SELECT of ids.
    """
    return f"""
        WITH RECURSIVE wanted AS (
            {ids}
            UNION
            SELECT parent FROM wanted JOIN raw.parents USING (id) WHERE parent IS NOT NULL
        )
        FROM wanted
    """


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
    first check that meets the goal of its cell (`flops`), and its last recorded step (`last_step`).

    A loss in the metrics is that of a training batch. It is looked at only where there is a check.
    """
    read = dict(_readable(goals, scores))
    met = "".join(
        f" WHEN '{text}' THEN {_CHECKED.get(goal.metric, 'true')} AND metrics."
        f"{quoted(goal.metric)} {goal.comparison} {goal.threshold!r}"
        for text, goal in read.items()
    )
    known = ", ".join(f"'{text}'" for text in ["", *read])  # neither list below may be empty
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


def cells_sql(
    identity: Iterable[str], member: str, scores: ScoreDirections, rules: Collection[PassRule]
) -> str:
    """Returns the SQL of `cells`, and of the tables that say what is known of these scores.

    If GOAL_COST is one of them, run `reached_sql` first. rules: all pass rules in `raw.rules`.
    """
    with_goal = GOAL_COST in scores
    reached = "LEFT JOIN raw.reached ON reached.id = endings.id" if with_goal else ""
    never = f"REPLACE (nullif({GOAL_COST}, 'inf') AS {GOAL_COST})" if with_goal else ""
    bounds = [bound(score) for score in scores for bound in (least, most)]
    ends = [
        f"{pool}({quoted(score)}) AS {name}" for name, (score, pool) in extremes(scores).items()
    ]
    known = ", ".join(f"{sql} AS {name}" for name, sql in pooled_bounds(scores, rules).items())
    rest = [name for name in identity if name != "steps"]
    steps = "members.steps" if "steps" in identity else "0"
    family = f"dense_rank() OVER (ORDER BY {', '.join(f'members.{quoted(n)}' for n in rest)})"
    carried = ["status", "correct", "total", "worth", "commonest", *scores, *bounds]
    return f"""
    CREATE OR REPLACE TABLE raw.own AS
        SELECT cell, pass, members.seed, members.on_demand, members.fresh, status, correct, total,
            coalesce(independent, total) AS worth, commonest, seconds,
            {family} AS family, {steps} AS steps,
            {", ".join(_score_sql(*score) for score in scores.items())}
        FROM raw.members JOIN raw.rules USING (cell)
            LEFT JOIN raw.endings USING ({member}) {reached};

    CREATE OR REPLACE TABLE raw.outcomes AS
        SELECT own.* EXCLUDE (family, steps, on_demand, fresh)
            REPLACE ({", ".join(_carried(name, scores) for name in carried)}),
            shorter.seed IS NOT NULL AS carried
        FROM raw.own ASOF LEFT JOIN (
            SELECT *, true AS carries FROM raw.own WHERE {_DONE}
        ) AS shorter ON own.family = shorter.family AND own.seed = shorter.seed
            AND own.steps > shorter.steps
            AND carries = (own.on_demand AND NOT coalesce(own.{_DONE}, false))
        WHERE NOT own.fresh;

    CREATE OR REPLACE TABLE raw.bounds AS
        WITH pooled AS (SELECT cell, {known} FROM raw.outcomes GROUP BY cell)
        FROM pooled
        UNION ALL BY NAME
        SELECT seed, pooled.* REPLACE ({", ".join(f"outcomes.{b} AS {b}" for b in bounds)})
        FROM raw.outcomes JOIN pooled USING (cell);

    CREATE OR REPLACE TABLE raw.fresh AS
        SELECT own.seed, bounds.* EXCLUDE (seed)
            REPLACE ({", ".join(f"own.{b} AS {b}" for b in bounds)})
        FROM raw.own JOIN raw.bounds USING (cell)
        WHERE own.fresh AND bounds.seed IS NULL AND own.{_DONE};

    CREATE OR REPLACE TABLE raw.cells AS
        SELECT * FROM (
            SELECT cell, {", ".join(map(quoted, identity))},
                {", ".join(f"max({cost}) AS {cost}" for cost in COSTS)}
            FROM raw.members GROUP BY ALL
        ) JOIN (
            SELECT cell, any_value(pass) AS pass, count(*) AS seeds,
                count(*) FILTER ({_DONE}) AS ended, {_COUNTS},
                {", ".join(f"{pooled(s, b, rules)} AS {quoted(s)}" for s, b in scores.items())},
                {", ".join(ends)},
                sum(correct)::BIGINT AS correct, sum(total)::BIGINT AS total,
                sum(worth)::BIGINT AS worth, max(worth) AS worth_of_one,
                max(commonest) AS commonest, avg(seconds) AS seconds
            FROM raw.outcomes GROUP BY cell
        ) USING (cell);
    CREATE OR REPLACE VIEW cells AS
        SELECT * EXCLUDE (cell, worth, worth_of_one) {never} FROM raw.cells ORDER BY cell;
    """


def _readable(goals: Iterable[str], scores: ScoreDirections) -> Iterator[tuple[str, Goal]]:
    """Yields each goal that the metrics can decide, after its text, which holds no quotes."""
    for text in goals:
        try:
            goal = Goal.parse(text)
        except ValueError:
            continue
        if goal.metric in scores and isfinite(goal.threshold):
            yield text, goal


def _ends(score: str, better: Better) -> tuple[str, str]:
    """Returns the worst and the best value that a trial's score can have, in SQL."""
    known = (0.0, inf) if score == GOAL_COST else range_of(score)
    low, high = (f"'{end}'::DOUBLE" for end in known)
    return (high, low) if better == "down" else (low, high)


def _any_value(name: str, member: str) -> str:
    return quoted(name) if name == member else f"any_value({quoted(name)}) AS {quoted(name)}"


def _carried(name: str, scores: ScoreDirections) -> str:
    """Returns the SQL of one column of `raw.outcomes`.

    A seed that was planned on demand, and has not run at its cell's budget, has what it reached
    with its largest smaller budget. It counts as solved there, since a pass stays a pass
    (`search.ladder`).
    """
    value = f"shorter.{quoted(name)}"
    if name == "status":
        value = "'solved'"
    for score, better in scores.items():
        if name == (least if better == "down" else most)(score):
            value = _ends(score, better)[1]
        elif name in (least(score), most(score)):
            value = f"shorter.{quoted(score)}"
    own = quoted(name)
    return f"CASE WHEN shorter.seed IS NULL THEN own.{own} ELSE {value} END AS {own}"


def _score_sql(score: str, better: Better) -> str:
    """Returns the SQL of three columns: what a trial measured, and the least and the greatest value
    that its score may turn out to have.

    A completed trial has the score that it measured. A solved one has that or a better one. A
    diverged one has the worst there is. Any other trial may still get any score. The cost of
    reaching the goal is known once the goal was met, and is infinite if it never was.
    """
    worst, best = _ends(score, better)
    if score == GOAL_COST:
        never = "status IN ('completed', 'diverged') AND reached.last_step >= endings.step"
        seen = f"coalesce(reached.flops, CASE WHEN {never} THEN {worst} END)"
        low, high = f"coalesce({seen}, {best})", f"coalesce({seen}, {worst})"
    else:
        column = f"endings.{quoted(score)}"
        measured = f"(CASE WHEN NOT isnan({column}) THEN {column} END)"
        seen = f"""CASE WHEN status = 'diverged' THEN {worst}
            WHEN status IN ('completed', 'solved', 'stopped') THEN {measured} END"""
        at_worst = f"CASE WHEN status IN ('completed', 'solved') THEN {measured} END"
        at_best = f"CASE status WHEN 'completed' THEN {measured} WHEN 'diverged' THEN {worst} END"
        low, high = f"coalesce({at_worst}, {worst})", f"coalesce({at_best}, {best})"
        if better == "down":
            low, high = high, low
    columns = {score: seen, least(score): low, most(score): high}
    return ", ".join(f"({sql})::DOUBLE AS {quoted(name)}" for name, sql in columns.items())


def pooled_bounds(scores: ScoreDirections, rules: Collection[PassRule]) -> dict[str, str]:
    """Returns the columns of `raw.bounds` for a cell as a whole, each with the SQL that makes it
    from those of the cell's seeds."""
    both = (least, most)
    own = {
        bound(score): pooled(bound(score), better, rules)
        for score, better in scores.items()
        for bound in both
    }
    return own | {
        bound(name): f"{pool}({bound(score)})"
        for name, (score, pool) in extremes(scores).items()
        for bound in both
    }


def pooled(score: str, better: Better, rules: Collection[PassRule]) -> str:
    """Returns SQL that makes one number of a column of the seeds, by the pass rule of their cell.

    rules: all that a cell may have. The median of an even count is the mean of the two middle
    values: the middle one in rising order, and the middle one in falling order. `all` takes the
    worst seed and `any` the best. If a seed that diverged has an infinitely bad score, the mean is
    as bad, and so is the median of two infinite values that differ. `search.pooling` applies the
    same rules.
    """
    column = quoted(score)
    worst, best, bad = ("max", "min", "inf") if better == "down" else ("min", "max", "-inf")
    middle = f"(quantile_disc({column}, 0.5) - quantile_disc(-{column}, 0.5)) / 2"
    infinite = f"'{bad}'::DOUBLE"
    by_rule: dict[PassRule, str] = {
        "median": f"if(isnan({middle}), {infinite}, {middle})",
        "mean": f"if(bool_or({column} = {infinite}), {infinite}, "
        f"round(avg({column}), {MEAN_DIGITS}))",
        "all": f"{worst}({column})",
        "any": f"{best}({column})",
    }
    cases = "".join(f" WHEN '{rule}' THEN {by_rule[rule]}" for rule in rules)
    return f"CASE any_value(pass){cases} END"
