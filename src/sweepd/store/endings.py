"""Which ending of a trial counts, and how the trials of a sweep stand.

Everybody asks here. The view `sweeps` of `sweepd.query` says how sweeps stand in SQL, since it is
evaluated only where a question names it. `tests/store/test_endings.py` checks that both agree.
"""

from collections import Counter
from collections.abc import Collection, Mapping

import pyarrow as pa

from sweepd.statuses import RAN, UNTRIED
from sweepd.store.schema import INT, column


def counting(trials: pa.Table) -> pa.Table:
    """Returns, of a table of endings, the one ending of each trial that counts. That is the ending
    of the highest attempt that ran to its end (`RAN`), or else of the highest attempt.

    So a trial that has run to its end stays so, whatever another store adds to it later.
    """
    return parted(trials)[0]


def parted(trials: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Returns the endings that count (`counting`), and the others."""
    ids, endings, attempts = (trials[name].to_pylist() for name in ("id", "status", "attempt"))
    if len(set(ids)) == len(ids):  # as in most stores
        return trials, trials.slice(0, 0)
    last: dict[str, tuple[bool, int, int]] = {}
    for row, (id_, status, attempt) in enumerate(zip(ids, endings, attempts, strict=True)):
        ending = (status in RAN, attempt, row)
        last[id_] = max(last.get(id_, ending), ending)
    count = {row for *_, row in last.values()}
    rows = ([r for r in range(trials.num_rows) if (r in count) is which] for which in (True, False))
    ended, others = (trials.take(column(numbers, INT)) for numbers in rows)
    return ended, others


def statuses(trials: pa.Table) -> dict[str, str]:
    """Returns, by a trial's id, the status of its ending that counts."""
    ended = counting(trials)
    return dict(zip(ended["id"].to_pylist(), ended["status"].to_pylist(), strict=True))


def in_reserve(on_demand: bool | None, seed: int, extra_seeds: Collection[int]) -> bool:
    """Whether a planned trial counts only once somebody has tried it: its seed is one of those that
    are kept for close calls, or it is planned `on_demand`."""
    return bool(on_demand) or seed in extra_seeds


def count_trials(
    plan: pa.Table, trials: pa.Table, extra_seeds: Mapping[str, Collection[int]]
) -> dict[str, Counter[str]]:
    """Returns how many trials of each sweep have which status, `UNTRIED` being one.

    extra_seeds: by the sweep's name, the seeds that are kept for close calls. A trial `in_reserve`
    is counted once an attempt of it has ended.
    """
    status_of = statuses(trials)
    counts: dict[str, Counter[str]] = {sweep: Counter() for sweep in extra_seeds}
    columns = (plan[name].to_pylist() for name in ("sweep", "id", "seed", "on_demand"))
    for sweep, id_, seed, on_demand in zip(*columns, strict=True):
        status = status_of.get(id_, UNTRIED)
        if status != UNTRIED or not in_reserve(on_demand, seed, extra_seeds[sweep]):
            counts[sweep][status] += 1
    return counts
