"""The SQL that makes cells of trials.

Schema `raw` holds the tables of the store (`planned`, `attempts`, `metrics`), `parents` of
attempts, `sweeps` and `counted`, and what is made of them: `endings` (of the trials that count),
`plans`, `members` of cells, `rules` (what decides a cell), `outcomes` by seed, `bounds`, `cells`.

A score yet to come lies in an interval, the columns `<score>_least` and `<score>_most` of
`raw.bounds`: by seed and, where `seed` is null, by pass rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sweepd.grid.options import MEAN_DIGITS
from sweepd.statuses import DONE, STATUSES

GOAL_COST = "flops_to_goal"
"""Told from the metrics, so it is there only once they are read."""
ENDS = {
    "acc": ("0", "1"),
    "chain_acc": ("0", "1"),
    "loss": ("'inf'::DOUBLE", "0"),
    GOAL_COST: ("'inf'::DOUBLE", "0"),
}
"""The worst and the best that each score of a trial can be."""
MEASURED = ("acc", "chain_acc", "loss")
"""Those that its row holds."""
FALLING = ("loss", GOAL_COST)
"""How the names of scores begin that are better where they are less."""
EXTREMES = {
    f"{score}_{pool}": (score, pool) for score in ("acc", "loss") for pool in ("min", "max")
}
"""Columns of `cells` with the extremes of a score over seeds: which score, and which extreme."""
SCORES = (*ENDS, *EXTREMES)
"""Columns of `cells` that seeds yet to come may change."""
COSTS = ("params", "flops", "flops_weights", "state_bytes", "train_bytes", "train_flops")
"""Columns of `cells` that are known before a trial runs."""

_FILED = ("raw.planned", "raw.attempts")
_DONE = f"status IN {DONE}"
_COUNTS = ", ".join(f"count(*) FILTER (status = '{status}') AS {status}" for status in STATUSES)
_GOAL = re.compile(r"(?P<metric>acc|chain_acc|loss) (>=|<=|>|<) -?\d+(\.\d+)?(e[+-]?\d+)?")
"""A goal as sweeps have it."""
_AT_CHECKS = "(metrics.step % endings.check_every = 0 OR metrics.step = endings.step)"
_CHECKED = {"acc": "true", "chain_acc": "true", "loss": _AT_CHECKS}
"""Which rows of the metrics are of a check, by metric: accuracies are measured nowhere else."""


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def least(score: str) -> str:
    """The column of `raw.bounds` with the least value that a score may turn out to have."""
    return f"{score}_least"


def most(score: str) -> str:
    """The column of `raw.bounds` with the greatest value that a score may turn out to have."""
    return f"{score}_most"


def told_apart_sql() -> str:
    """Make `config` differ where names do. In sweepd 0.1.0 it left out the file of a user's class:
    two of one name in two files have it in common."""
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
    """The views of what ended, of the attempts for which `selected` holds."""
    return f"""
    CREATE VIEW attempts AS FROM raw.attempts WHERE {selected};
    CREATE VIEW trials AS FROM attempts
        QUALIFY row_number() OVER (PARTITION BY id ORDER BY attempt DESC) = 1;
    CREATE VIEW metrics AS FROM raw.metrics
        QUALIFY row_number() OVER (PARTITION BY id, step ORDER BY attempt DESC) = 1;
    """


def members_sql(plan_axes: Sequence[str], trial_axes: Sequence[str], member: str) -> str:
    """The members of each cell, told apart by `member` (config, or id with code), and `sweeps`.

    Costs are the planned ones: the trial's own where there is no plan.
    """
    code = ["code"] if member == "id" else []
    shared = ["task", "model", "size", "L", *code]
    identity = ", ".join(map(quoted, dict.fromkeys([*shared, *plan_axes, *trial_axes])))
    planned, ran = (
        ", ".join(map(quoted, [member, *shared, *own, "seed", *COSTS]))
        for own in (plan_axes, trial_axes)
    )
    return f"""
    CREATE TABLE raw.endings AS FROM trials SEMI JOIN raw.counted USING (task, model, code)
        QUALIFY row_number() OVER (PARTITION BY {member} ORDER BY {_DONE} DESC, attempt DESC) = 1;

    CREATE TABLE raw.plans AS
        SELECT planned.* FROM raw.planned LEFT JOIN raw.sweeps AS s ON sweep = s.name
        WHERE NOT coalesce(list_contains(s.extra_seeds, seed), false)
            OR {member} IN (SELECT {member} FROM raw.endings WHERE {_DONE});

    CREATE TABLE raw.members AS
        SELECT dense_rank() OVER (ORDER BY {identity}) AS cell, * FROM (
            SELECT DISTINCT ON ({member}) {planned} FROM raw.plans
            UNION ALL BY NAME
            SELECT {ran} FROM raw.endings ANTI JOIN raw.planned USING ({member})
        );

    CREATE TABLE raw.rules AS
        SELECT cell, coalesce(arg_max(s.pass, s.number), 'median') AS pass,
            arg_max(s.goal, s.number) AS goal
        FROM raw.members LEFT JOIN raw.plans USING ({member})
            LEFT JOIN raw.sweeps AS s ON sweep = s.name
        GROUP BY cell;

    CREATE VIEW sweeps AS
        SELECT s.name, any_value(s.created) AS created, any_value(s.goal) AS goal,
            any_value(s.pass) AS pass, any_value(s.search) AS search,
            count(plans.{member}) AS trials, count(*) FILTER ({_DONE}) AS ended, {_COUNTS}
        FROM raw.sweeps AS s LEFT JOIN raw.plans ON sweep = s.name
            LEFT JOIN raw.endings USING ({member})
        GROUP BY s.name, s.number ORDER BY s.number;
    """


def makers_sql(ids: str) -> str:
    """Those of a SELECT of ids, and of all trials whose checkpoints they go back to."""
    return f"""
        WITH RECURSIVE wanted AS (
            {ids}
            UNION
            SELECT parent FROM wanted JOIN raw.parents USING (id) WHERE parent IS NOT NULL
        )
        FROM wanted
    """


def reached_sql(goals: Iterable[str], member: str) -> str:
    """`raw.reached`: of each trial that ended, the training FLOPs at the first check that meets its
    cell's goal (`flops`), and its last recorded step.

    A trial that continued another one's checkpoint shares its rows up to there: all of its attempts
    name that one as `parent`, and one without a row stood where it ended. Losses are those of
    training batches, read where there are checks.
    """
    read = {goal: match for goal in goals if (match := _GOAL.fullmatch(goal))}
    met = "".join(
        f" WHEN '{goal}' THEN {_CHECKED[match['metric']]} AND metrics.{goal}"
        for goal, match in read.items()
    )
    known = ", ".join(f"'{goal}'" for goal in ["", *read])  # neither list below may be empty
    return f"""
    CREATE OR REPLACE TABLE raw.reached AS
        WITH RECURSIVE starts AS (
            SELECT a.id, a.parent, coalesce(min(m.step), max(a.step) + 1, 0) AS step
            FROM raw.parents AS a
                LEFT JOIN raw.metrics AS m ON m.id = a.id AND m.attempt <= a.attempt
            WHERE a.parent IS NOT NULL GROUP BY a.id, a.parent
        ), lineage AS (
            SELECT id AS trial, id AS maker, NULL::BIGINT AS until FROM raw.endings
            UNION
            SELECT trial, starts.parent, least(until, starts.step)
            FROM lineage JOIN starts ON starts.id = maker
        )
        SELECT trial AS id, max(metrics.step) AS last_step,
            min(metrics.train_flops) FILTER (CASE rules.goal WHEN '' THEN false{met} END) AS flops
        FROM lineage JOIN raw.endings ON endings.id = trial
            JOIN raw.members USING ({member}) JOIN raw.rules USING (cell)
            JOIN metrics ON metrics.id = maker AND (until IS NULL OR metrics.step < until)
        WHERE rules.goal IN ({known}) GROUP BY trial;
    """


def cells_sql(identity: Iterable[str], member: str, scores: Sequence[str]) -> str:
    """`cells`, and what is known of these scores; with GOAL_COST among them after `reached_sql`."""
    with_goal = GOAL_COST in scores
    reached = "LEFT JOIN raw.reached ON reached.id = endings.id" if with_goal else ""
    never = f"REPLACE (nullif({GOAL_COST}, 'inf') AS {GOAL_COST})" if with_goal else ""
    bounds = [bound(score) for score in scores for bound in (least, most)]
    extremes = [f"{pool}({score}) AS {name}" for name, (score, pool) in EXTREMES.items()]
    known = ", ".join(f"{sql} AS {name}" for name, sql in pooled_bounds(scores).items())
    return f"""
    CREATE OR REPLACE TABLE raw.outcomes AS
        SELECT cell, pass, members.seed, status, correct, total, seconds,
            {", ".join(map(_score_sql, scores))}
        FROM raw.members JOIN raw.rules USING (cell)
            LEFT JOIN raw.endings USING ({member}) {reached};

    CREATE OR REPLACE TABLE raw.bounds AS
        WITH pooled AS (SELECT cell, {known} FROM raw.outcomes GROUP BY cell)
        FROM pooled
        UNION ALL BY NAME
        SELECT seed, pooled.* REPLACE ({", ".join(f"outcomes.{b} AS {b}" for b in bounds)})
        FROM raw.outcomes JOIN pooled USING (cell);

    CREATE OR REPLACE TABLE raw.cells AS
        SELECT * FROM (
            SELECT cell, {", ".join(map(quoted, identity))},
                {", ".join(f"max({cost}) AS {cost}" for cost in COSTS)}
            FROM raw.members GROUP BY ALL
        ) JOIN (
            SELECT cell, any_value(pass) AS pass, count(*) AS seeds,
                count(*) FILTER ({_DONE}) AS ended, {_COUNTS},
                {", ".join(f"{pooled(score)} AS {score}" for score in scores)},
                {", ".join(extremes)},
                sum(correct)::BIGINT AS correct, sum(total)::BIGINT AS total,
                max(total) AS total_of_one, avg(seconds) AS seconds
            FROM raw.outcomes GROUP BY cell
        ) USING (cell);
    CREATE OR REPLACE VIEW cells AS
        SELECT * EXCLUDE (cell, total_of_one) {never} FROM raw.cells ORDER BY cell;
    """


def _score_sql(score: str) -> str:
    """What a trial measured, and the least and most that its score may turn out to be.

    Completed: as measured. Solved: at least as good. Diverged: the worst. Else: anything. A cost
    of reaching the goal is known once the goal was met, and infinite if it never was.
    """
    worst, best = ENDS[score]
    if score == GOAL_COST:
        never = "status IN ('completed', 'diverged') AND reached.last_step >= endings.step"
        seen = f"coalesce(reached.flops, CASE WHEN {never} THEN {worst} END)"
        low, high = f"coalesce({seen}, {best})", f"coalesce({seen}, {worst})"
    else:
        measured = f"(CASE WHEN NOT isnan(endings.{score}) THEN endings.{score} END)"
        seen = f"""CASE WHEN status = 'diverged' THEN {worst}
            WHEN status IN ('completed', 'solved', 'stopped') THEN {measured} END"""
        worse = f"CASE WHEN status IN ('completed', 'solved') THEN {measured} END"
        better = f"CASE status WHEN 'completed' THEN {measured} WHEN 'diverged' THEN {worst} END"
        worse, better = f"coalesce({worse}, {worst})", f"coalesce({better}, {best})"
        low, high = (better, worse) if score in FALLING else (worse, better)
    columns = {score: seen, least(score): low, most(score): high}
    return ", ".join(f"({sql})::DOUBLE AS {name}" for name, sql in columns.items())


def pooled_bounds(scores: Iterable[str]) -> dict[str, str]:
    """The columns of `raw.bounds` for a cell, each made from those for its seeds."""
    both = (least, most)
    own = {bound(score): pooled(bound(score)) for score in scores for bound in both}
    return own | {
        bound(name): f"{pool}({bound(score)})"
        for name, (score, pool) in EXTREMES.items()
        for bound in both
    }


def pooled(column: str) -> str:
    """A column of the seeds as one number, by the cell's pass rule.

    The median of an even count is the mean of the two middle values, written so that it holds
    for infinite ones. `all` takes the worst seed and `any` the best.
    """
    worst, best = ("max", "min") if column.startswith(FALLING) else ("min", "max")
    values = f"list_sort(list({column}) FILTER ({column} IS NOT NULL))"
    middle = f"({values}[(count({column}) + 1) // 2] + {values}[count({column}) // 2 + 1]) / 2"
    mean = f"round(avg({column}), {MEAN_DIGITS})"
    return f"""CASE any_value(pass) WHEN 'mean' THEN {mean} WHEN 'all' THEN {worst}({column})
        WHEN 'any' THEN {best}({column}) ELSE {middle} END"""
