"""What the judge says, and that everybody who asks it says the same of a cell: questions of every
verb, with every pass rule, the search and the board. Over made endings, and over the committed
stores."""

import math
import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_store import FakeStore, planned
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import settling

from sweepd.cli.board import Board, TrialState, maps
from sweepd.grid.options import PASS_RULES, Goal, PassRule
from sweepd.grid.plan import Plan
from sweepd.judge.cells import RULES, as_bool, decide, over_budgets, over_rates
from sweepd.judge.seeds import by_budget, known, of_one, pooled
from sweepd.query.answers import answer
from sweepd.query.database import Views, connect
from sweepd.run.driver import sweep_info
from sweepd.search.seeds import Outcome
from sweepd.search.staircase import search_of
from sweepd.store.store import Store
from sweepd.store.sweeps import SweepInfo

ROOT = Path(__file__).parents[2]
STORES = sorted(path.parent for path in ROOT.glob("results/**/sweeps") if any(path.iterdir()))
QUESTION = "min d where acc > 0.9"
INF = math.inf
GOAL = Goal("acc", ">", 0.9)
PLANS = (
    ("task.n=[4, 6]", "model.d=[4, 8, 16]", "settle.most=2000"),
    ("task.n=[4, 6]", "model.d=[4, 8]", "settle.most=2000", "tune=[train.lr]",
     "train.lr=[1e-3, 3e-3]"),
    ("task.n=[4, 6]", "model.d=[4, 8]", "settle=off", "seeds={start: 3, max: 4}"),
)  # fmt: skip


class Ended(FakeStore):
    """A store in memory with a sweep of a plan, of which these trials have ended."""

    def __init__(self, made: Plan, outcomes: Mapping[str, Outcome]) -> None:
        super().__init__()
        self.made, self.outcomes = made, outcomes
        self.info = sweep_info(made)
        self.add_sweep("s", list(made.rows()))
        for trial in made.trials:
            if outcome := outcomes.get(trial.id):
                totals = {"total": outcome.total, "correct": 0}
                self.end(trial.row(), outcome.status, **{"acc": outcome.score, **totals})

    def load_sweep(self, name: str) -> SweepInfo:
        return self.info


def drawn(made: Plan, seed: int, share: float = 0.6) -> dict[str, Outcome]:
    """Endings of some of a plan's trials. Wide models do better, and seeds scatter."""
    rng = random.Random(seed)
    outcomes = {}
    for trial in made.trials:
        if rng.random() < share * (0.5 if trial.on_demand else 1):
            d = trial.values.model["d"]
            score = round(min(1.0, max(0.0, 0.87 + 0.02 * math.log2(d) + rng.gauss(0, 0.06))), 3)
            status = rng.choice(["completed"] * 6 + ["solved", "stopped", "diverged"])
            if status == "diverged" or (status == "solved" and score <= 0.9):
                outcomes[trial.id] = Outcome("diverged")
            else:
                outcomes[trial.id] = Outcome(status, score, 1024)
    return outcomes


MADE = st.tuples(st.sampled_from([settling(*sets) for sets in PLANS]), st.integers(0, 10**6))


def views_of(store: Any, **choices: Any) -> Views:
    return connect(store, code=lambda task, model: None, **choices)


def rows(views: Views, text: str = QUESTION) -> list[dict[str, Any]]:
    return answer(views, text).rows


def least(row: Mapping[str, Any], column: str) -> float:
    return INF if row[column] is None else float(row[column])


def laws_hold(views: Views, by_rule: Mapping[PassRule, Views], text: str) -> None:
    """The least values of some, most and all seeds rise, and each is what its rule says."""
    found = rows(views, text)
    for row in found:
        assert least(row, "least_any") <= least(row, "least_median") <= least(row, "least_all")
    for rule in RULES:
        asked = rows(by_rule[rule], text)
        columns = (f"least_{rule}", f"least_{rule}_verdict")
        assert [tuple(row[name] for name in columns) for row in found] == [
            (row["value"], row["verdict"]) for row in asked
        ], rule


@settings(max_examples=6)
@given(MADE, st.sampled_from([QUESTION, "min d where acc > 0.9 and acc_min > 0.85",
                              "min d where acc < 0.95", "min flops where acc > 0.9"]))  # fmt: skip
def test_each_rule_says_what_its_column_says(drawn_of: tuple[Plan, int], text: str) -> None:
    made, seed = drawn_of
    store = Ended(made, drawn(made, seed))
    by_rule = {rule: views_of(store, seeds=rule) for rule in RULES}
    laws_hold(views_of(store), by_rule, text)


@cache
def committed(folder: Path, rule: str | None = None) -> Views:
    return views_of(Store.open(str(folder)), seeds=rule)


@pytest.mark.parametrize("folder", STORES, ids=lambda folder: folder.name)
def test_committed_stores_keep_the_laws(folder: Path) -> None:
    views = committed(folder)
    laws_hold(views, {rule: committed(folder, rule) for rule in RULES}, QUESTION)
    assert_verbs_agree(views)


def states(views: Views) -> dict[int, str]:
    """What `min` says of each cell by its number: that of the cells that share its value."""
    return {cell["cell"]: cell["state"] for cell in answer(views, QUESTION).cells}


def assert_verbs_agree(views: Views) -> None:
    """`frontier`, `max` and `best` count a cell as passing if and only if `min` does. `best` ranks
    scores, so it leaves out a cell that passes with a score that its seeds still leave open."""
    of_min = answer(views, QUESTION)
    numbers = {cell["cell"]: cell for cell in of_min.cells}
    for cell in answer(views, "frontier flops, acc where acc > 0.9").cells:
        if cell["cell"] in numbers:
            assert numbers[cell["cell"]]["state"] == "passed"
    passing = {(row["task"], row["model"]) for row in of_min.rows if row["value"] is not None}
    assert {(row["task"], row["model"]) for row in rows(views, "max d where acc > 0.9")} == passing
    won = {(row["task"], row["model"]) for row in rows(views, "best d where acc > 0.9")}
    assert won <= passing


@settings(max_examples=8)
@given(MADE)
def test_verbs_search_and_board_never_differ(drawn_of: tuple[Plan, int]) -> None:
    made, seed = drawn_of
    outcomes = drawn(made, seed)
    store = Ended(made, outcomes)
    views = views_of(store)
    assert_verbs_agree(views)

    # Of each place, by its d and size, what questions say.
    asked = {(cell["value"], cell["size"]): cell["state"] for cell in answer(views, QUESTION).cells}
    board = Board.of("s", store.info, made.rows())
    ended = {id_: TrialState(o.status, 0, o.score) for id_, o in outcomes.items()}
    [places] = maps(Board(**{**vars(board), "states": ended})).values()
    for at, state in asked.items():
        place = places[at].mark if at in places else "untried"
        assert (place == "passed") == (state == "passed"), at
        assert (place == "failed") == (state == "failed"), at

    search = search_of(made)
    search.learn(outcomes, ())
    for stair in search.stairs:
        for size, d in stair.cells:
            passes = stair.passes((size, d), outcomes, ())
            if passes is not None:  # else the search may want more than has ended
                assert passes == (asked[d, size] == "passed")


@settings(max_examples=8)
@given(MADE, st.randoms())
def test_neither_order_nor_another_line_changes_a_row(
    drawn_of: tuple[Plan, int], rng: random.Random
) -> None:
    made, seed = drawn_of
    outcomes = drawn(made, seed)
    before = rows(views_of(Ended(made, outcomes)))
    shuffled = Ended(made, outcomes)
    rng.shuffle(shuffled.plan)
    rng.shuffle(shuffled.endings)
    assert rows(views_of(shuffled)) == before
    beside = Ended(made, outcomes)
    for row in [*beside.plan]:
        beside.plan.append(as_another_model(row))
    beside.endings += [as_another_model(row) for row in beside.endings if rng.random() < 0.5]
    after = rows(views_of(beside))
    assert [row for row in after if row["model"] == "standard"] == before


def as_another_model(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same trial of another model."""
    renamed = {name: f"{row[name]}-other" for name in ("id", "trunk", "config")}
    return {**row, **renamed, "model": "other"}


@settings(max_examples=20)
@given(MADE, st.sampled_from([*PASS_RULES]), st.data())
def test_one_more_trial_moves_a_value_to_its_own_side_only(
    drawn_of: tuple[Plan, int], rule: str, data: st.DataObject
) -> None:
    made, seed = drawn_of
    outcomes = drawn(made, seed)
    waiting = [trial for trial in made.trials if trial.id not in outcomes]
    trial = data.draw(st.sampled_from(waiting))
    passed = data.draw(st.booleans())
    more = {**outcomes, trial.id: Outcome("completed", 0.97 if passed else 0.5, 1024)}
    [before, after] = (rows(views_of(Ended(made, each), seeds=rule)) for each in (outcomes, more))
    for old, new in zip(before, after, strict=True):
        if passed:
            assert least(new, "value") <= least(old, "value")
        else:
            assert least(new, "value") >= least(old, "value")


SCORES = st.lists(st.sampled_from([-INF, 0.0, 0.25, 0.5, 0.9, 0.95, 1.0]), min_size=1, max_size=6)


@given(st.lists(SCORES, min_size=1, max_size=4), st.sampled_from(PASS_RULES))
def test_cells_are_pooled_together_as_each_alone(cells: Sequence[list[float]], rule: Any) -> None:
    of = np.repeat(np.arange(len(cells)), [len(scores) for scores in cells])
    flat = np.array([score for scores in cells for score in scores])
    order = np.random.default_rng(0).permutation(len(flat))
    found = pooled(flat[order], of[order], len(cells), rule, "up")
    assert found.tolist() == [of_one(scores, rule, "up") for scores in cells]


def test_what_one_ending_says() -> None:
    statuses = ["completed", "solved", "diverged", "stopped", "failed", None, "completed"]
    scores = known(statuses, [0.9, 0.95, 0.4, 0.3, np.nan, np.nan, np.nan], 0.0, 1.0)
    assert scores.at_worst.tolist() == [0.9, 0.95, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert scores.at_best.tolist() == [0.9, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    assert np.nan_to_num(scores.seen, nan=-1).tolist() == [0.9, 0.95, 0.0, 0.3, -1, -1, -1]


def test_what_a_seed_has_done_by_a_budget() -> None:
    """One that passed has passed. One that has not run there has at least what it had."""
    ended = ["completed", None, "completed", None]
    one = known(ended, [0.95, np.nan, 0.5, np.nan], 0.0, 1.0)
    reached = by_budget(one, "up")
    assert reached.at_worst.tolist() == [0.95, 0.95, 0.95, 0.95]
    assert reached.at_best.tolist() == [0.95, 1.0, 0.95, 1.0]


@pytest.mark.parametrize(
    ("outcomes", "decisive", "budgets", "rates"),
    [
        ([-1, 0, 1], 1, 1, 1),
        ([-1, 0], 1, -1, 0),
        ([0, 0], 1, 0, 0),
        ([-1, -1], 1, -1, -1),
        ([1, 0], -1, 1, 0),  # the condition asks for bad scores, so all have to meet it
        ([1, -1], -1, -1, -1),
    ],
)
def test_over_budgets_what_is_open_undoes_nothing_and_over_rates_all_must_fail(
    outcomes: list[int], decisive: int, budgets: int, rates: int
) -> None:
    one = np.zeros(len(outcomes), np.int64)
    assert over_budgets(np.array(outcomes), one, 1, decisive).tolist() == [budgets]
    assert over_rates(np.array(outcomes), one, 1, decisive).tolist() == [rates]


@pytest.mark.parametrize(
    ("rule", "passes"), [("any", True), ("median", None), ("all", False), ("mean", False)]
)
def test_a_seed_that_may_do_either_decides_nothing(rule: Any, passes: bool | None) -> None:
    assert as_bool(decide(GOAL, rule, (0.95, 0.5, 0.0), (0.95, 0.5, 1.0))) is passes


def test_a_minimised_score_is_put_together_by_each_rule() -> None:
    made = settling(*PLANS[2])
    store = Ended(made, drawn(made, 3))
    for trial, ending in zip(made.trials, store.endings, strict=False):
        ending["loss"] = round(0.1 + 0.01 * trial.seed, 3)
    by_rule = {rule: views_of(store, seeds=rule) for rule in RULES}
    columns = [f"least_{rule}" for rule in RULES]
    [found, *others] = (
        [[row[name] for name in columns] for row in rows(views, "min loss where acc > 0.5")]
        for views in (views_of(store), *by_rule.values())
    )
    assert all(other == found for other in others)
    for number, rule in enumerate(RULES):
        values = [row["value"] for row in rows(by_rule[rule], "min loss where acc > 0.5")]
        assert values == [of_row[number] for of_row in found]


def test_fields_may_be_named_like_what_the_judge_says() -> None:
    named: dict[str, Any] = {"rule": "x", "outcome": 1, "pooled": 3, "vote": 2, "steps": 10}
    store = FakeStore()
    for d in (8, 16):
        store.add_sweep(f"s{d}", [trial := planned(d=d, **named)])
        store.end(trial, "completed", 0.95 if d == 16 else 0.5)
    text = "min d by rule, outcome, pooled where acc > 0.9 and outcome = 1 and pooled > 2"
    [row] = rows(views_of(store), text)
    assert (row["rule"], row["value"], row["fail"]) == ("x", 16, 8)
