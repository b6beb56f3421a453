"""What the trials of each cell say of its scores, by the rules of `sweepd.judge`, as tables.

`raw.bounds` has a row for each seed that counts in a cell. A score that is not known yet lies in an
interval, the columns `<score>_least` and `<score>_most`. A row with a null `seed` has the interval
of the cell's score, put together by a pass rule (POOLED_BY): its own, or `median`. `raw.cells` has
a row for each cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from sweepd.judge.seeds import Bools, Floats, Ints, Scores, by_budget, ends, known, pooled
from sweepd.query.cells_sql import (
    COSTS,
    GOAL_COST,
    OF_RAW,
    ScoreDirections,
    bounds_of,
    extremes,
    outcomes_sql,
    quoted,
)
from sweepd.statuses import DONE, STATUSES

POOLED_BY = "pass rule"
"""The column of `raw.bounds` with the rule of a row that is no seed. No field has such a name."""
COUNTS = ("correct", "total", "worth", "commonest", "seconds")
"""What a trial says besides its scores."""


@dataclass(frozen=True)
class Seeds:
    """The seeds that count in cells, in arrays of shape (seeds,) that are sorted by cell.

    scores: what is known of each score, by its name. counts: COUNTS by name, with NaN for null.
    """

    cell: Ints
    seed: Ints
    fresh: Bools
    status: npt.NDArray[np.object_]
    scores: Mapping[str, Scores]
    counts: Mapping[str, Floats]


def lay_out(
    con: duckdb.DuckDBPyConnection, identity: Iterable[str], member: str, scores: ScoreDirections
) -> None:
    """Makes or replaces `raw.bounds`, `raw.cells` and the view `cells`. The tables that
    `members_sql` makes must be there. If GOAL_COST is one of the scores, so must `raw.reached`."""
    identity = [*identity]
    table = con.execute(outcomes_sql(identity, member, scores)).fetchnumpy()
    rules = dict(con.execute("SELECT cell, pass FROM raw.rules").fetchall())
    passes = np.array([rules[cell] for cell in range(1, len(rules) + 1)], object)
    seeds = _seeds(table, scores)
    whole = ("correct", "total", "worth", "worth_of_one")
    _copy(con, "raw.pooled", _pooled(seeds, passes, scores), whole)
    _copy(con, "raw.bounds", _bounds(seeds, passes, scores), ("seed",))
    columns = [*scores, *extremes(scores)]
    shown = ("seeds", "ended", *STATUSES, *columns, "correct", "total", "worth", "worth_of_one")
    never = f"REPLACE (nullif({GOAL_COST}, 'inf') AS {GOAL_COST})" if GOAL_COST in scores else ""
    con.execute(f"""
    CREATE OR REPLACE TABLE raw.cells AS
        SELECT cell, {", ".join(map(quoted, [*identity, *COSTS]))},
            {", ".join(map(quoted, ["pass", *shown, "commonest", "seconds"]))}
        FROM raw.settings JOIN raw.pooled USING (cell);
    CREATE OR REPLACE VIEW cells AS
        SELECT * EXCLUDE ({", ".join(OF_RAW)}) {never} FROM raw.cells ORDER BY cell;
    """)


def _copy(
    con: duckdb.DuckDBPyConnection, name: str, columns: Mapping[str, Any], whole: Iterable[str]
) -> None:
    """Makes or replaces a table of the database with these columns, where NaN is null. whole: the
    columns of whole numbers that may be null. (Through Arrow, pandas would be imported first.)"""
    con.register("columns", columns)
    casts = ", ".join(f"{column}::BIGINT AS {column}" for column in whole)
    con.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * REPLACE ({casts}) FROM columns")
    con.unregister("columns")


def _seeds(table: Mapping[str, Any], scores: ScoreDirections) -> Seeds:
    """Returns the seeds that count, made of the trials that `outcomes_sql` names. A cell whose
    trials were all planned on demand has, of each seed, what it has done by the cell's budget."""
    numbers = {
        name: np.ma.filled(table[name].astype(np.float64), np.nan)
        for name in (*scores, *COUNTS, "steps")
    }
    cell, seed, family, fresh, on_demand = (
        np.asarray(table[name]) for name in ("cell", "seed", "family", "fresh", "on_demand")
    )
    status = np.ma.filled(table["status"], None)
    at_ends = {name: (np.inf, 0.0) for name in scores if name == GOAL_COST}
    at_ends |= {name: ends(name, scores[name]) for name in scores if name != GOAL_COST}
    said = {}
    for name in scores:
        # The cost of reaching the goal is known once the goal was met, and infinite if it never is.
        how = (
            np.where(
                np.isnan(numbers[name]),
                np.array(None),
                np.where(np.isinf(numbers[name]), "diverged", "completed"),
            )
            if name == GOAL_COST
            else status
        )
        said[name] = known(how, numbers[name], *at_ends[name])
    counts = {name: numbers[name] for name in COUNTS}
    longer = np.ones(int(cell.max(initial=0)) + 1, bool)
    np.logical_and.at(longer, cell, on_demand)
    carries = longer[cell]
    if not carries.any():
        return Seeds(cell, seed, fresh, status, said, counts)

    # The trials of cells that differ in their budgets alone, in arrays of shape (families, budgets,
    # seeds), which hold the number of a row, or -1.
    rows = np.isin(family, family[carries]).nonzero()[0]
    place = (
        np.unique(family[rows], return_inverse=True)[1],
        _rank_within(family[rows], numbers["steps"][rows]),
        _rank_within(family[rows], seed[rows]),
    )
    row = np.full([int(ranks.max()) + 1 for ranks in place], -1)
    row[place] = rows
    done = (row >= 0) & np.isin(status, DONE)[row]
    budget = np.arange(row.shape[1])[None, :, None]
    latest = np.maximum.accumulate(np.where(done, budget, -1), axis=1)
    source = np.where(latest >= 0, np.take_along_axis(row, latest.clip(0), axis=1), row)
    cell_at = np.full(row.shape[:2], -1)
    cell_at[place[:2]] = cell[rows]
    counting = (source >= 0) & longer[cell_at][:, :, None] & (cell_at >= 0)[:, :, None]
    reached = {}
    for name, (worst, best) in at_ends.items():
        seen, at_worst, at_best = (each[row] for each in said[name])
        alone = Scores(
            np.where(done, seen, np.nan),
            np.where(done, at_worst, worst),
            np.where(done, at_best, best),
        )
        reached[name] = by_budget(alone, scores[name], axis=1)

    of_cell = np.broadcast_to(cell_at[:, :, None], row.shape)[counting]
    take, own = source[counting], ~carries
    carried = cell[take] != of_cell
    cells = np.concatenate([cell[own], of_cell])
    order = np.lexsort((np.concatenate([seed[own], seed[take]]), cells))

    def both(values: Any, of_longer: Any) -> Any:
        return np.concatenate([values[own], of_longer])[order]

    for name, of_budget in reached.items():
        said[name] = Scores(
            *(both(v, r[counting]) for v, r in zip(said[name], of_budget, strict=True))
        )
    # A seed that has not run at the budget counts there as one that stopped when it was solved.
    with_status = both(status, np.where(carried, "solved", status[take]))
    of_counts = {name: both(values, values[take]) for name, values in counts.items()}
    seconds = both(counts["seconds"], np.where(carried, np.nan, counts["seconds"][take]))
    return Seeds(
        cells[order],
        both(seed, seed[take]),
        both(fresh, fresh[take]),
        with_status,
        said,
        {**of_counts, "seconds": seconds},
    )


def _rank_within(group: Ints, value: Any) -> Ints:
    """Returns for each row the rank of its value among the different values of its group."""
    pairs, inverse = np.unique(np.stack([group, value], axis=1), axis=0, return_inverse=True)
    first = np.searchsorted(pairs[:, 0], pairs[:, 0])
    ranks: Ints = (np.arange(len(pairs)) - first)[inverse.ravel()]
    return ranks


def _by_rule(values: Floats, seeds: Seeds, passes: npt.NDArray[np.object_], better: Any) -> Floats:
    """Returns one number of each cell, by its pass rule, of shape (cells,)."""
    result = np.full(len(passes), np.nan)
    for rule in set(passes):
        which = passes == rule
        result[which] = pooled(values, seeds.cell - 1, len(passes), rule, better)[which]
    return result


def _pooled(
    seeds: Seeds, passes: npt.NDArray[np.object_], scores: ScoreDirections
) -> dict[str, Any]:
    """Returns what the seeds of each cell say together."""
    cells = len(passes)
    starts = np.searchsorted(seeds.cell, np.arange(1, cells + 1))

    def count(which: Any) -> Any:
        return np.bincount(seeds.cell[which] - 1, minlength=cells)

    def total(name: str) -> Any:
        values = seeds.counts[name]
        some = ~np.isnan(values)
        sums = np.bincount(seeds.cell[some] - 1, values[some], minlength=cells)
        return np.where(count(some) > 0, sums, np.nan)

    def most(values: Floats) -> Floats:
        return np.fmax.reduceat(values, starts) if cells else values

    def least(values: Floats) -> Floats:
        return np.fmin.reduceat(values, starts) if cells else values

    columns: dict[str, Any] = {
        "cell": np.arange(1, cells + 1),
        "pass": passes,
        "seeds": count(slice(None)),
        "ended": count(np.isin(seeds.status, DONE)),
        **{status: count(seeds.status == status) for status in STATUSES},
    }
    for name in ("correct", "total", "worth"):
        columns[name] = total(name)
    columns["worth_of_one"] = most(seeds.counts["worth"])
    columns["commonest"] = most(seeds.counts["commonest"])
    timed = count(~np.isnan(seeds.counts["seconds"]))
    columns["seconds"] = total("seconds") / np.maximum(timed, 1)
    for name, better in scores.items():
        columns[name] = _by_rule(seeds.scores[name].seen, seeds, passes, better)
    for name, (score, pool) in extremes(scores).items():
        columns[name] = (least if pool == "min" else most)(seeds.scores[score].seen)
    return columns


def _bounds(
    seeds: Seeds, passes: npt.NDArray[np.object_], scores: ScoreDirections
) -> dict[str, Any]:
    """Returns the rows of `raw.bounds`: those of the cells by their own rules, then those of the
    other cells by `median`, and then those of the seeds."""
    cells, others = len(passes), (passes != "median").nonzero()[0]
    starts = np.searchsorted(seeds.cell, np.arange(1, cells + 1))
    cell = np.concatenate([np.arange(1, cells + 1), others + 1, seeds.cell])
    of_cells, of_seeds = cells + len(others), len(seeds.cell)
    columns: dict[str, Any] = {
        "cell": cell,
        POOLED_BY: np.concatenate([passes, np.array(["median"] * len(others) + [None] * of_seeds)]),
        "seed": np.concatenate([np.full(of_cells, np.nan), seeds.seed]),
        "fresh": np.concatenate([np.zeros(of_cells, bool), seeds.fresh]),
    }
    medians = np.full(cells, "median", object)
    own: dict[str, Floats] = {}
    for name, better in scores.items():
        _, *sides = seeds.scores[name]
        in_order = sides if better == "up" else sides[::-1]
        for bound, side in zip(bounds_of(name), in_order, strict=True):
            own[bound] = side
            of_cell, of_median = (_by_rule(side, seeds, p, better) for p in (passes, medians))
            columns[bound] = np.concatenate([of_cell, of_median[others], side])
    for name, (score, pool) in extremes(scores).items():
        extreme = np.minimum if pool == "min" else np.maximum
        for bound, of_score in zip(bounds_of(name), bounds_of(score), strict=True):
            of_cell = extreme.reduceat(own[of_score], starts) if cells else own[of_score]
            columns[bound] = of_cell[cell - 1]
    return columns
