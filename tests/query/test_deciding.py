"""Rows of `min` in a sweep that settles its answers: how hard the next smaller value was tried, up
to how many steps it is forecast to fail, and what some seeds and all seeds reach. The search and
the questions judge the same trials in the same way."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import SETTLING, drive, settling, truth

from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.judge.cells import RULES
from sweepd.query.answers import answer, ask
from sweepd.query.database import CELLS, Answer, Views, connect
from sweepd.query.deciding import LEAST_COLUMNS, TRIED_COLUMNS
from sweepd.run.driver import sweep_info
from sweepd.search.seeds import Outcome
from sweepd.search.staircase import search_of
from sweepd.search.stairs import Stair
from sweepd.store.store import Store

TUNED = ("tune=[train.lr]", "train.lr=[0.001, 0.003, 0.01]")


def width(trial: Trial) -> int:
    return int(str(trial.axes["d"]))


_saved: dict[str, Path] = {}
"""Where the sweep of each grid was saved. The next store copies it: a plan takes long to write."""


def stored(planned: Plan, ledger: dict[str, Outcome], folder: Path) -> Store:
    store, grid = Store.create(str(folder)), planned.grid.resolved_text()
    if grid in _saved:
        shutil.copytree(_saved[grid], folder / "sweeps" / "s")
    else:
        store.save_sweep("s", grid, sweep_info(planned), planned.rows())
        _saved[grid] = folder / "sweeps" / "s"
    store.write_trials(
        [
            {
                **trial.row(), "attempt": 1001, "sweep": "s", "status": outcome.status,
                planned.grid.goal.metric: outcome.score, "total": outcome.total,
                "step": trial.train.steps, "seconds": trial.train.steps / 10,
            }
            for trial in planned.trials
            if (outcome := ledger.get(trial.id))
        ]
    )  # fmt: skip
    return store


def views(store: Store) -> Views:
    return connect(store, code=lambda task, model: None, sweeps=["s"], needed=CELLS)


def asked(store: Store, text: str = "min d where acc > 0.9") -> Answer:
    return answer(views(store), text)


def by_the_search(planned: Plan, stair: Stair, ledger: dict[str, Outcome]) -> dict[int, Any]:
    """The same three columns from the search's own records."""
    settle, found = planned.grid.settle, {}
    assert settle is not None
    passes = {at: stair.passes(at, ledger, ()) for at in stair.cells}
    known = {at: told for at, told in passes.items() if told is not None}
    for size, at in stair.answers(known, ledger, ()).items():
        steps = at.passing[1].steps if at.passing else None
        found[int(size)] = at.value, steps, stair.forecast(at, settle, ledger).holds_to
    return found


@given(
    st.integers(0, 10_000),
    st.booleans(),
    st.sampled_from(["median", "all", "mean"]),
    st.sampled_from([None, 0.0, 0.05, 0.2]),
    st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=16, derandomize=True)
def test_questions_say_what_the_search_knows(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    tuned: bool,
    rule: str,
    diverged: float | None,
    stuck: float,
) -> None:
    """The goal is a loss where some trials may diverge (`diverged`), else an accuracy. Seeds that
    are stuck refuse what others pass."""
    goal = "acc > 0.9" if diverged is None else "loss < 0.3"
    planned = settling(f"pass={rule}", f"goal={goal}", *(TUNED if tuned else ()))
    outcome_of = truth(seed, diverged=diverged, stuck=stuck)
    ledger, _, search = drive(lambda: search_of(planned), outcome_of)
    store = stored(planned, ledger, tmp_path_factory.mktemp("store"))
    rows = asked(store, f"min d where {goal}").rows
    [stair] = search.stairs
    expected = by_the_search(planned, stair, ledger)
    told = {row["size"]: (row["value"], row["steps"], row["holds_to"]) for row in rows}
    contradict = {row["size"] for row in rows if row["verdict"] == "not monotone"}
    for size in expected.keys() - contradict:
        assert told[size] == expected[size], rows


def ended(planned: Plan, score: Callable[[Trial], float | None], folder: Path) -> Store:
    """A store with the trials that have a score."""
    outcomes = {t.id: Outcome("completed", at, 4096) for t in planned.trials if (at := score(t))}
    return stored(planned, outcomes, folder)


def searched(planned: Plan, score: Callable[[Trial], float], folder: Path) -> Store:
    """A store with the trials that the search wants where they have these scores."""
    ledger, _, _ = drive(
        lambda: search_of(planned), lambda trial: Outcome("completed", score(trial), 4096)
    )
    return stored(planned, ledger, folder)


def one_size(tmp_path: Path, accs: dict[tuple[int, int], list[float]]) -> Store:
    """What the search has found where these are the scores of the seeds, by d and steps."""

    def score(trial: Trial) -> float:
        scores = accs[width(trial), trial.train.steps]
        return scores[trial.seed % len(scores)]

    return searched(settling("task.n=8", "model.d=[4, 8]"), score, tmp_path)


FLAT = {(4, steps): [0.5] for steps in (1000, 2000, 4000, 8000, 16_000)}
PASSES = {(8, 1000): [0.95]}


def test_a_row_with_a_forecast(tmp_path: Path) -> None:
    [row] = asked(one_size(tmp_path, FLAT | PASSES)).rows
    assert (row["value"], row["verdict"]) == (8, "exact")
    assert (row["holds_to"], row["why"]) == (16_000, "forecast to fail to 16000 steps")
    assert (row["steps"], row["fail_steps"], row["gain"], row["rates"]) == (1000, 4000, 0, 1)
    assert (row["least_any"], row["least_median"], row["least_all"]) == (8, 8, 8)


def test_a_row_is_judged_by_the_options_of_its_own_sweep(tmp_path: Path) -> None:
    """A later sweep of another task, which trains for few steps at most, changes nothing."""
    store = one_size(tmp_path, FLAT | PASSES)
    of_lis = "{name: lis, n: [4, 6, 8], value_range: 32}"
    text = SETTLING.replace("name: s\n", "name: other\n")
    text = text.replace(of_lis, "{name: edit_distance, n: [2]}").replace("steps: 1000", "steps: 9")
    text = text.replace("least: 2000", "least: 20").replace("most: 16000", "most: 36")
    other = plan(parse_grid(text, "other.yaml", (), Path()))
    store.save_sweep("other", other.grid.resolved_text(), sweep_info(other), other.rows())
    question = "min d where acc > 0.9 and task = 'lis'"
    [row] = ask(store, question, code=lambda task, model: None).rows
    assert (row["value"], row["holds_to"]) == (8, 16_000)


def test_a_row_that_moves_says_what_the_next_doubling_takes(tmp_path: Path) -> None:
    """There are three seeds. Each continues from the start of its decay, which is .2 of the run,
    and takes .1 s a step."""
    rising = dict(zip((1000 << i for i in range(5)), (0.5, 0.6, 0.72, 0.82, 0.87), strict=True))
    store = one_size(tmp_path, {(4, steps): [score] for steps, score in rising.items()} | PASSES)
    [row] = asked(store).rows
    assert row["holds_to"] is None
    assert row["why"] == "+0.050 a doubling, 0.030 missing; 32000 steps take some 1.6 h"


def test_where_more_training_helps_the_value_falls(tmp_path: Path) -> None:
    rising = {(4, 1000): [0.6], (4, 2000): [0.8], (4, 4000): [0.92]}
    store = one_size(tmp_path, rising | PASSES)
    [row] = asked(store).rows
    assert (row["value"], row["steps"], row["holds_to"]) == (4, 4000, None)
    assert row["verdict"] == "at most", "the grid has no smaller value"
    curve = asked(store, "min d by steps where acc > 0.9").rows
    assert [(r["steps"], r["value"]) for r in curve] == [(1000, 8), (2000, 8), (4000, 4)]


def test_a_seed_that_passed_counts_at_larger_budgets(tmp_path: Path) -> None:
    """One seed passes at once and is not trained further. The others pass later, so the cell
    passes."""
    late = {
        (4, 1000): [0.95, 0.5, 0.5],
        (4, 2000): [0, 0.6, 0.6],
        (4, 4000): [0, 0.93, 0.7, 0.95, 0.95],
    }
    [row] = asked(one_size(tmp_path, late | PASSES)).rows
    assert (row["value"], row["steps"]) == (4, 4000)
    assert row["least_any"] == 4 and row["least_all"] == 8


def test_seeds_that_disagree_have_no_forecast(tmp_path: Path) -> None:
    stuck = {(4, steps): [0.98, 0.3, 0.3] for steps in (1000, 2000, 4000, 8000, 16_000)}
    [row] = asked(one_size(tmp_path, stuck | PASSES)).rows
    assert (row["value"], row["holds_to"]) == (8, None) and "close" in row["why"]
    assert (row["least_any"], row["least_any_verdict"]) == (4, "at most")


@pytest.mark.parametrize("question", ["min d where d < acc", "min d where acc between 0.2 and 0.4"])
def test_a_condition_that_is_no_goal_has_no_forecast(tmp_path: Path, question: str) -> None:
    [row] = asked(one_size(tmp_path, FLAT | PASSES), question).rows
    assert row["holds_to"] is None and row["gain"] is None


def test_a_frontier_has_the_best_score_of_all_budgets(tmp_path: Path) -> None:
    rising = {(4, 1000): [0.5], (4, 2000): [0.6], (4, 4000): [0.7], (4, 8000): [0.7]}
    rows = asked(one_size(tmp_path, FLAT | rising | PASSES), "frontier d, acc").rows
    assert [(row["d"], row["acc"]) for row in rows] == [(4, 0.7), (8, 0.95)]


def assert_at_most(value: int, answer: Answer) -> None:
    """What some, most and all seeds reach is known from above alone."""
    [row] = answer.rows
    kinds = {row["verdict"], *(row[f"least_{rule}_verdict"] for rule in RULES)}
    assert (row["value"], kinds) == (value, {"at most"})


def test_a_rate_that_has_not_run_leaves_the_least_of_its_seeds_open(tmp_path: Path) -> None:
    planned = settling(
        "task.n=8", "model.d=[4, 8]", "train.lr=[0.001, 0.003]", "tune=[train.lr]", "settle=off"
    )

    def score(trial: Trial) -> float | None:
        return 0.95 if width(trial) == 8 else 0.5 if trial.axes["lr"] == 0.001 else None

    assert_at_most(8, asked(ended(planned, score, tmp_path)))


def test_a_bad_score_is_one_at_every_rate(tmp_path: Path) -> None:
    """d = 4 scores less than .9 at both rates, d = 2 at the first one alone."""
    rates = ("train.lr=[0.001, 0.003]", "tune=[train.lr]", "settle=off", "search=grid")
    planned = settling("task.n=8", "model.d=[2, 4]", *rates)

    def score(trial: Trial) -> float:
        return 0.95 if (trial.axes["d"], trial.axes["lr"]) == (2, 0.003) else 0.5

    store = ended(planned, score, tmp_path)
    [row] = asked(store, "min d where acc < 0.9").rows
    assert row["value"] == 4
    assert [row[f"least_{rule}"] for rule in RULES] == [4, 4, 4]
    [row] = asked(store).rows
    assert [row["value"], row["least_all"]] == [2, 2]


def test_a_smaller_size_may_need_a_longer_budget(tmp_path: Path) -> None:
    """d = 8 passes at n = 4 with 2000 steps only, and at n = 6 with 1000. Nothing contradicts."""

    def score(trial: Trial) -> float:
        late = trial.size == 4 and trial.train.steps == 1000
        return {4: 0.1, 8: 0.5 if late else 0.99, 16: 0.99}[width(trial)]

    planned = settling("task.n=[4, 6]", "model.d=[4, 8, 16]")
    rows = asked(searched(planned, score, tmp_path)).rows
    assert [(row["value"], row["steps"], row["verdict"], row["holds_to"]) for row in rows] == [
        (8, 2000, "exact", 32_000),
        (8, 1000, "exact", 16_000),
    ]


TOLD = {
    *("value", "fail", "verdict", "inferred", "passed", "close", "edge"),
    *TRIED_COLUMNS, *LEAST_COLUMNS,
} - {"steps"}  # fmt: skip


@given(seed=st.integers(0, 999), tune=st.booleans(), ended=st.floats(0, 1))
@settings(max_examples=8)
def test_within_a_budget_an_answer_is_that_of_the_trials_with_no_more_steps(
    tmp_path_factory: pytest.TempPathFactory, seed: int, tune: bool, ended: float
) -> None:
    """This holds while a search goes on, too. Within the largest budget it is the answer of all."""
    planned = settling(*(TUNED if tune else ()))
    ledger, trials, _ = drive(lambda: search_of(planned), truth(seed))
    cut = {trial.id: ledger[trial.id] for trial in trials[: round(ended * len(trials))]}
    store = stored(planned, cut, tmp_path_factory.mktemp("store"))
    same = views(store)
    curve = answer(same, "min d by n, steps where acc > 0.9").rows
    for budget in {row["steps"] for row in curve}:
        within = {row["n"]: [row[name] for name in TOLD] for row in curve if row["steps"] == budget}
        rows = answer(same, f"min d by n where steps <= {budget} and acc > 0.9").rows
        assert within == {row["n"]: [row[name] for name in TOLD] for row in rows}
    whole = answer(same, "min d by n where acc > 0.9").rows
    last = {row["n"]: row for row in curve if row["steps"] == max(row["steps"] for row in curve)}
    for row in whole:
        assert [last[row["n"]][name] for name in TOLD] == [row[name] for name in TOLD]


def budgets(tmp_path: Path, accs: dict[tuple[int, int, int], float]) -> Store:
    """A store in which all seeds of a cell have the same accuracy, by n, d and steps. What is
    missing did not run."""
    planned = settling("task.n=[4, 6]", "model.d=[8, 16]")

    def score(trial: Trial) -> float | None:
        asked = trial.seed in planned.grid.seeds
        return accs.get((trial.size, width(trial), trial.train.steps)) if asked else None

    return ended(planned, score, tmp_path)


def test_a_fail_with_fewer_steps_than_a_larger_size_needed_contradicts_nothing(
    tmp_path: Path,
) -> None:
    short = {(4, 8, 1000): 0.5, (4, 16, 1000): 0.99, (6, 8, 1000): 0.5, (6, 8, 2000): 0.99}
    rows = asked(budgets(tmp_path / "short", short), "min d by n where acc > 0.9").rows
    assert [(row["value"], row["verdict"]) for row in rows] == [(16, "exact"), (8, "at most")]
    rows = asked(
        budgets(tmp_path / "long", {**short, (4, 8, 2000): 0.5}), "min d by n where acc > 0.9"
    ).rows
    assert [(row["value"], row["verdict"]) for row in rows] == [(16, "exact"), (8, "not monotone")]


def test_a_fail_contradicts_a_pass_of_its_own_budget_also_beside_shorter_ones(
    tmp_path: Path,
) -> None:
    """d = 8 passes at n = 6 with 200 steps, and fails at n = 4 with 100 and with 200."""

    def score(trial: Trial) -> float:
        solves = (trial.size, trial.axes["d"], trial.train.steps) == (6, 8, 200)
        return 0.95 if solves else 0.5

    planned = settling("task.n=[4, 6]", "model.d=[4, 8]", "train.steps=[100, 200]", "settle=off")
    store = ended(planned, score, tmp_path)
    for text in ("min d by n", "min d by n, steps", "min d by n where steps = 200"):
        assert "not monotone" in [row["verdict"] for row in asked(store, text).rows], text


def test_a_fail_contradicts_a_pass_at_its_own_rate_also_beside_rates_that_ran_shorter(
    tmp_path: Path,
) -> None:
    def score(trial: Trial) -> float | None:
        best = trial.axes["lr"] == 0.003
        if trial.train.steps > 1000 and not (best and trial.axes["d"] == 8):
            return None
        if trial.size == 6 and trial.train.steps > 2000:
            return None
        return 0.95 if (trial.size, trial.train.steps) == (6, 2000) else 0.5

    planned = settling("task.n=[4, 6]", "model.d=[4, 8]", *TUNED)
    rows = asked(ended(planned, score, tmp_path), "min d by n").rows
    assert [(r["value"], r["verdict"]) for r in rows] == [(None, "above"), (8, "not monotone")]


def test_a_row_about_a_budget_uses_what_happened_within_it(tmp_path: Path) -> None:
    """At n = 4, d = 8 fails with 1000 steps and passes with 2000. So at n = 6, where it did not
    run, it is inferred to fail with 1000 steps, and with 2000 nothing is known of it."""
    accs = {(4, 8, 1000): 0.5, (4, 8, 2000): 0.99, (4, 16, 1000): 0.99, (6, 16, 1000): 0.99}
    rows = asked(budgets(tmp_path, accs), "min d by n, steps where acc > 0.9").rows
    told = {row["steps"]: (row["verdict"], row["fail"]) for row in rows if row["n"] == 6}
    assert (told[1000], told[2000]) == (("bracketed", 8), ("at most", None))


def test_a_cell_that_diverges_however_long_it_is_trained_is_forecast_to_fail(
    tmp_path: Path,
) -> None:
    def outcome_of(trial: Trial) -> Outcome:
        return Outcome("diverged") if trial.axes["d"] == 4 else Outcome("completed", 0.1, 1024)

    planned = settling("task.n=8", "model.d=[4, 8]", "goal=loss < 0.3")
    ledger, trials, _ = drive(lambda: search_of(planned), outcome_of)
    assert max(trial.train.steps for trial in trials) == 4000  # four times what d = 8 needed
    [row] = asked(stored(planned, ledger, tmp_path), "min d where loss < 0.3").rows
    assert (row["value"], row["verdict"], row["holds_to"]) == (8, "exact", 16_000)
    assert (row["gain"], row["missing"]) == (0.0, None)


def test_what_some_seeds_reach_is_judged_by_the_budgets_too(tmp_path: Path) -> None:
    """d = 8 passes with 2000 steps, and d = 16 failed with 1000 alone."""
    accs = {(8, 1000): 0.5, (8, 2000): 0.95, (16, 1000): 0.5}
    planned = settling("task.n=8", "model.d=[8, 16]")

    def score(trial: Trial) -> float | None:
        return accs.get((width(trial), trial.train.steps)) if trial.seed < 3 else None

    assert_at_most(8, asked(ended(planned, score, tmp_path)))


def test_of_an_even_number_of_seeds_the_median_is_that_of_the_pass_rule(tmp_path: Path) -> None:
    planned = settling("task.n=8", "model.d=[4, 8]", "seeds=[0, 1, 2, 3]", "settle=off")
    accs = {4: [0.1] * 4, 8: [0.5, 0.86, 0.96, 0.97]}
    store = ended(planned, lambda t: accs[width(t)][t.seed] if t.seed < 4 else None, tmp_path)
    [row] = asked(store).rows
    assert (row["value"], row["least_median"], row["least_median_verdict"]) == (8, 8, "exact")


def test_cells_with_fewer_than_three_seeds_say_what_seeds_reach(tmp_path: Path) -> None:
    """d = 4 has one seed, which passes, in a sweep of its own. Each least value is what its rule
    says of all cells."""
    planned = settling("task.n=8", "model.d=[8, 16]", "settle=off")
    store = ended(planned, lambda trial: 0.95, tmp_path)
    one = settling("name=one", "task.n=8", "model.d=[4]", "seeds=[0]", "settle=off")
    store.save_sweep("one", one.grid.resolved_text(), sweep_info(one), one.rows())
    [alone] = one.trials
    ending = {"attempt": 1001, "sweep": "one", "status": "completed", "acc": 0.95, "total": 4096}
    store.write_trials([alone.row() | ending])
    [row] = ask(store, "min d where acc > 0.9", code=lambda task, model: None).rows
    least = [row[f"least_{rule}"] for rule in RULES]
    assert (row["value"], least) == (4, [4, 4, 4])
