"""The ledger says which planned trials are done, still to do, failed, or done by another code. The
search hands trials out, and tries failed ones again. Covers `search/base.py` and
`search/estimate.py`."""

from collections.abc import Collection
from math import inf
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.search.base import GridSearch
from sweepd.search.estimate import ENOUGH, bills, trial_seconds
from sweepd.search.ledger import standing
from sweepd.search.seeds import Outcome
from sweepd.store.schema import TRIALS
from sweepd.trial.attempt import ledger_columns

GRID = "task: {name: lis, n: 6}\nmodel: {name: standard, d: 8}\nseeds: [0, 1, 2, 3, 4, 5]\n"
PLAN = plan(parse_grid(GRID, "grid.yaml", [], Path()))


def ended(trial: Trial, attempt: int, status: str, **changes: Any) -> dict[str, Any]:
    return {**ledger_columns(trial, attempt, "s"), "status": status, **changes}


def test_what_another_code_did_can_be_taken_over() -> None:
    first, second, *_ = PLAN.trials
    old = {"id": "0" * 20, "code": "oldcode", "trunk": "1" * 20}
    table = TRIALS.table(
        [ended(first, 1, "completed", **old), ended(second, 1, "failed", **{**old, "id": "2" * 20})]
    )
    found = standing(PLAN.trials, table)
    assert found.other.keys() == {first.id} and not found.done
    kept = found.accepting(PLAN, lambda code, present: code == "another")
    # The order says which of a cell's seeds are its first, and which only confirm a pass.
    assert kept.trials == PLAN.trials and not kept.accepted
    taken = found.accepting(PLAN, lambda code, present: (code, present) == ("oldcode", first.code))
    ids = {trial.id for trial in PLAN.trials} - {first.id} | {old["id"]}
    assert {trial.id for trial in taken.trials} == ids
    assert [trial.id for trial in taken.trials][1:] == [trial.id for trial in PLAN.trials][1:]
    assert [trial.code for trial in standing(taken.trials, table).done] == ["oldcode"]
    assert taken.accepted == {"oldcode": {first.code}}


def test_of_two_other_codes_the_one_that_is_accepted_counts_in_whatever_order_they_lie() -> None:
    first, *_ = PLAN.trials
    rows = [
        ended(first, attempt, "completed", id=str(attempt) * 20, code=code)
        for attempt, code in ((1, "a"), (2, "b"))
    ]
    for order in (rows, rows[::-1]):
        found = standing(PLAN.trials, TRIALS.table(order))
        assert [one["code"] for one in found.other[first.id]] == ["b", "a"]
        of_a = found.accepting(PLAN, lambda code, present: code == "a")
        assert {trial.code for trial in of_a.trials} == {first.code, "a"}
        both = found.accepting(PLAN, lambda code, present: True)
        assert both.accepted == {"b": {first.code}}
        assert {trial.code for trial in both.trials} == {first.code, "b"}


def test_failed_trials_are_tried_again_after_the_others() -> None:
    search = searching([trial.id for trial in PLAN.trials[:3]])
    order = []
    while (trial := search.next()) is not None:
        order.append(PLAN.trials.index(trial))
        assert not search.finished
        search.ended(trial, Outcome("failed" if trial == PLAN.trials[0] else "completed"))
    assert order == [0, 1, 2, 0]
    assert search.finished and search.abandoned == {PLAN.trials[0].id}
    assert search.wanted() == list(PLAN.trials[3:]), "which are another driver's to run"


def test_a_search_waits_for_what_is_out() -> None:
    search = searching([PLAN.trials[0].id])
    trial = search.next()
    assert trial is not None and search.next() is None and not search.finished
    search.ended(trial, Outcome("failed"))
    assert search.next() is trial


def test_close_calls_get_further_seeds_on_the_whole_grid_too() -> None:
    grid = GRID.replace("[0, 1, 2, 3, 4, 5]", "{start: 1, max: 4}")
    search = GridSearch(plan(parse_grid(grid, "grid.yaml", [], Path())))
    search.learn({}, {trial.id for trial in search.plan.trials})
    seeds = []
    for acc in (0.91, 0.95):
        assert len(search.wanted()) == 1
        trial = search.next()
        assert trial is not None
        seeds.append(trial.seed)
        search.ended(trial, Outcome("completed", acc, 1024))
    assert seeds == [0, 1] and search.finished and not search.wanted()


def searching(mine: Collection[str]) -> GridSearch:
    search = GridSearch(PLAN)
    search.learn({}, set(mine))
    return search


def test_estimates_follow_recorded_times() -> None:
    low, high = sweep_seconds(TRIALS.concat([]))
    one_low, one_high = trial_seconds(1000, PLAN.trials[0].effort)
    assert (low, high) == (6 * one_low / 2, 6 * one_high / 2)
    middle = (one_low + one_high) / 2
    rows = [
        ended(PLAN.trials[0], i, "completed", step=1000, train_flops=PLAN.trials[0].train_flops,
              seconds=7 * middle)
        for i in range(ENOUGH)
    ]  # fmt: skip
    low, high = sweep_seconds(TRIALS.table(rows))
    # Trials on cores say nothing of trials on a card, nor the other way round.
    assert sweep_seconds(TRIALS.table(rows), gpus=0.25) == (0, inf)
    on_cards = TRIALS.table([{**row, "card": "NVIDIA H100", "seconds": middle} for row in rows])
    assert sweep_seconds(on_cards, gpus=0.25)[1] == pytest.approx(6 * middle / 2)
    assert sweep_seconds(on_cards) == (6 * one_low / 2, 6 * one_high / 2)
    # A few of another kind of card are no outliers: the plan may run on either.
    slow = TRIALS.table([{**row, "card": "NVIDIA L4", "seconds": 9 * middle} for row in rows])
    found = sweep_seconds(TRIALS.concat([*[on_cards] * 20, slow]), gpus=0.25)
    assert found == pytest.approx((6 * middle / 2, 6 * 9 * middle / 2))
    assert abs(low / (6 * 7 * middle / 2) - 1) < 1e-9 and abs(high / low - 1) < 1e-9


def sweep_seconds(recorded: pa.Table, gpus: float = 0.0) -> tuple[float, float]:
    bill = bills(searching([]), 2, recorded, gpus)["grid"]
    return bill.seconds_low, bill.seconds_high
