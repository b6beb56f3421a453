"""Every kind of figure. Its data is what the answer says. The schema of Vega-Lite accepts it."""

import math
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import looped
import pytest
from fake_store import FakeStore, now, planned
from questions import grid, ran

from sweepd.errors import UserError
from sweepd.figures.kinds import KINDS, Questions
from sweepd.figures.panels import MOST_PANELS, NothingToDraw
from sweepd.figures.render import drawn
from sweepd.figures.style import OTHERS, SHIPPED, WIDTHS, Look, marks, ordered
from sweepd.grid.registry import shipped
from sweepd.listing import Row
from sweepd.query.database import connect

LOOK = Look(WIDTHS["two"])


def of(store: FakeStore, **choices: Any) -> Questions:
    return Questions(connect(store, code=now), **choices)


def rows(asked: Questions, kind: str) -> list[Row]:
    drawing = KINDS[kind].draw(asked)(LOOK)
    return [row for rows in drawing.data.values() for row in rows]


def parts(found: list[Row], *names: str) -> list[Row]:
    return [row for row in found if row.get("part") in names]


@pytest.mark.parametrize("kind", KINDS)
def test_a_chart_fits_the_schema_and_speaks_of_data_that_is_there(
    kind: str, asked: Questions
) -> None:
    drawing = KINDS[kind].draw(asked)(LOOK)
    specification = drawing.chart.to_dict()  # altair validates
    assert named(specification) == set(drawing.data) and all(drawing.data.values())


def named(specification: Any) -> set[str]:
    """The names of all data that a specification speaks of."""
    if isinstance(specification, list):
        return set().union(*map(named, specification))
    if not isinstance(specification, dict):
        return set()
    own = specification.get("data")
    here = {own["name"]} if isinstance(own, dict) else set()
    return here.union(*map(named, specification.values()))


def test_the_heatmap_has_every_cell_with_its_score_and_state(asked: Questions) -> None:
    shown = {
        (row["model"], row["size"], row["value"]): (row["score"], row["state"])
        for row in parts(rows(asked, "heatmap"), "cell")
    }
    cells = asked.least.answer.cells
    assert shown == {(c["model"], c["size"], c["value"]): (c["acc"], c["state"]) for c in cells}
    assert shown["sparse", 64, 64] == (None, "untried")
    assert shown["sparse", 64, 8] == (None, "inferred")
    assert shown["sparse", 64, 16][0] is not None  # stopped, yet its score is shown
    assert {state for _, state in shown.values()} == {"passed", "failed", "inferred", "untried"}


def test_the_frontier_of_the_heatmap_lies_below_what_passed(asked: Questions) -> None:
    flat = parts(rows(asked, "heatmap"), "flat 1")
    answers = asked.least.answer.rows
    assert {(row["model"], row["size"]): row["value"] for row in flat} == {
        (row["model"], row["size"]): row["value"] for row in answers if row["value"] is not None
    }
    assert {row["forecast"] for row in flat} == {"no forecast"}
    steps = {
        (row["size"], row["value"], row["to"]) for row in parts(rows(asked, "heatmap"), "step 1 1")
    }
    assert steps == {(16, 16, 32), (32, 32, 64)}  # of linear: the others do not grow


def test_min_draws_bars_arrows_and_laws(asked: Questions) -> None:
    found = rows(asked, "min")
    bars = {(row["y"], row["to"]) for row in parts(found, "bar") if row["model"] == "linear"}
    assert bars == {(16, 8), (32, 16), (64, 32)}
    [up] = parts(found, "above")
    assert (up["model"], up["y"]) == ("sparse", 32)
    assert len(parts(found, "point")) == sum(
        r["value"] is not None for r in asked.least.answer.rows
    )
    law = next(row for row in asked.laws.answer.rows if row["model"] == "linear")
    for point in (row for row in parts(found, "fitted law") if row["model"] == "linear"):
        assert point["y"] == pytest.approx(law["factor"] * point["x"] ** law["exponent"])
    ends = [row for row in parts(found, "theory's exponent") if row["model"] == "linear"]
    assert ends[-1]["y"] / ends[0]["y"] == pytest.approx((ends[-1]["x"] / ends[0]["x"]) ** 0.5)


def test_a_law_that_is_drawn_leaves_no_bar() -> None:
    """5 to 8, 9 to 16 twice and 17 to 32: the fitted line runs above 16 at the third size."""
    least = {8: 8, 16: 16, 32: 16, 64: 32}
    cells = {(n, d): 0.95 if d >= least[n] else 0.5 for n in least for d in (4, 8, 16, 32, 64)}
    found = rows(of(grid(cells)), "min")
    bars = {row["x"]: (row["to"], row["y"]) for row in parts(found, "bar")}
    line = {row["x"]: row["y"] for row in parts(found, "fitted law")}
    (first, low), *_, (last, high) = sorted(line.items())
    slope = math.log(high / low) / math.log(last / first)
    for x, (failed, passed) in bars.items():
        assert failed <= low * (x / first) ** slope <= passed * (1 + 1e-9)


def test_open_ends_and_contradictions_are_marked() -> None:
    passing = {(8, 16), (8, 32), (10, 16)}
    cells = {(n, d): 0.95 if (n, d) in passing else 0.5 for n in (8, 10, 12) for d in (8, 16, 32)}
    found = rows(of(grid({**cells, (8, 8): None})), "min")
    lines = ("bar", "band", "fitted law", "theory's exponent")
    assert [(row["part"], row["y"]) for row in found if row["part"] not in lines] == [
        ("point", 16), ("at most", 16), ("point", 16), ("contradiction", 16), ("above", 32),
    ]  # fmt: skip


def test_fit_has_an_interval_and_a_prediction_for_each_law(asked: Questions) -> None:
    found = rows(asked, "fit")
    laws = {row["model"]: row for row in asked.laws.answer.rows}
    for row in parts(found, "law"):
        law = laws.pop(row["model"])
        assert (row["x"], row["low"], row["high"]) == (law["exponent"], law["low"], law["high"])
    assert not laws
    assert {(row["model"], row["x"]) for row in parts(found, "theory")} == {
        ("standard", 0), ("linear", 0.5), ("sparse", 0.5),
    }  # fmt: skip


def test_the_frontier_has_the_answers_rows(asked: Questions) -> None:
    found = {
        (row["model"], row["size"], row["cost"], row["score"]) for row in rows(asked, "frontier")
    }
    assert found == {
        (row["model"], f"n = {row['size']}", row["train_flops"], row["acc"])
        for row in asked.unbeaten.answer.rows
    }


def test_settle_has_the_seeds_of_both_cells_of_each_row(asked: Questions) -> None:
    found = parts(rows(asked, "settle"), "seed")
    one = [row for row in found if (row["model"], row["size"]) == ("linear", "n = 16")]
    shown = {(row["value"], row["role"].split()[1]) for row in one}
    assert shown == {(32, "least"), (16, "next")}
    goals = {row["score"] for row in parts(rows(asked, "settle"), "goal")}
    assert goals == {0.9}


def test_curves_have_every_check_and_the_end_of_what_ended_early(asked: Questions) -> None:
    found = rows(asked, "curves")
    checks = {trial: len(curve) for trial, curve in asked.curves.items()}
    assert set(checks.values()) == {5}
    assert len(parts(found, "curve")) == sum(checks.values())
    ended = [t for of in asked.trials.values() for t in of if t["status"] in ("solved", "stopped")]
    assert {row["trial"] for row in parts(found, "end")} == {trial["id"] for trial in ended}


def test_models_look_the_same_in_all_figures() -> None:
    assert len({colour for colour, _ in (*SHIPPED.values(), *OTHERS)}) == len(SHIPPED) + len(OTHERS)
    assert len({shape for _, shape in SHIPPED.values()}) == len(SHIPPED)
    assert set(SHIPPED) == {entry.name for entry in shipped("model")}
    models = ordered(["mine", "linear", "standard", "mine", "a"])
    assert models == ["standard", "linear", "a", "mine"]
    for models in (["linear"], ["standard", "linear"], ["linear", "mine"]):
        assert marks(models)[models.index("linear")] == SHIPPED["linear"]


def test_a_figure_of_all_models_is_no_wider_than_its_columns() -> None:
    trials = [planned(n, d, model=m) for n in (8, 16, 32) for d in (8, 16) for m in SHIPPED]
    asked = of(ran(trials, lambda trial: 0.95 if trial["d"] > 8 else 0.5))
    picture = drawn(KINDS["min"].draw(asked), "t", "svg", "two").decode()
    found = re.search(r'width="([\d.]+)pt"', picture)
    assert found and float(found[1]) == pytest.approx(WIDTHS["two"], abs=4)
    assert all(f">{model}</text>" in picture for model in SHIPPED)


def test_a_column_that_differs_makes_a_problem_of_its_own() -> None:
    trials = [planned(n, d, heads=heads) for n in (8, 10) for d in (8, 16) for heads in (1, 2)]
    store = ran(trials, lambda trial: 0.95 if trial["d"] > 8 else 0.5)
    drawing = KINDS["heatmap"].draw(of(store))(LOOK)
    assert list(drawing.data) == ["lis, heads = 1", "lis, heads = 2"]


def test_the_rows_of_a_heatmap_rise_where_the_frontier_does_not() -> None:
    """The steps of the frontier name the widths in another order. The rows of the heatmap stay in
    the order of the widths."""
    cells = {(4, 2): 0.0, (4, 4): 0.95, (4, 8): 0.96, (4, 16): 0.98, (5, 4): 0.7, (5, 8): None}
    cells |= {(5, 16): 0.97, (6, 4): 0.7, (6, 8): 0.94, (6, 16): None}
    picture = drawn(KINDS["heatmap"].draw(of(grid(cells))), "t", "svg", "two").decode()
    labels = re.findall(r'translate\([^)]*,(\d+(?:\.\d+)?)\)"[^>]*>(2|4|8|16)</text>', picture)
    heights = {int(text): float(y) for y, text in labels if text in ("2", "8", "16")}
    assert sorted(heights, key=heights.__getitem__) == [16, 8, 2]


def test_a_line_of_settle_is_one_seed_at_one_rate() -> None:
    trials = [
        planned(8, d, seed=seed, lr=lr, steps=steps)
        for d in (8, 16)
        for seed in (0, 1)
        for lr in ("0.01", "0.02")
        for steps in (100, 200)
    ]
    settle = {"factor": 4.0, "least": 100.0, "most": 800.0}
    store = ran(trials, lambda t: 0.95 if t["d"] > 8 else 0.5, tune=["train.lr"], settle=settle)
    found = parts(rows(of(store), "settle"), "seed")
    lines = Counter((row["value"], row["seed"], row["at"]) for row in found)
    assert len(lines) == 8 and set(lines.values()) == {2}


def test_what_cannot_be_drawn_says_why(asked: Questions) -> None:
    nothing = replace(asked, where="size > 1000")
    with pytest.raises(NothingToDraw, match="min d where size > 1000"):
        KINDS["heatmap"].draw(nothing)
    with pytest.raises(NothingToDraw, match="a fit needs 3"):
        KINDS["fit"].draw(replace(asked, where="size <= 16"))(LOOK)
    many = grid({(n, 8): 0.95 if n == 4 else None for n in range(4, 5 + MOST_PANELS)})
    with pytest.raises(UserError, match="--where"):
        KINDS["settle"].draw(of(many))(LOOK)
    with pytest.raises(UserError, match="d - 8 is 0 or less somewhere"):
        KINDS["frontier"].draw(replace(asked, cost="d - 8"))(LOOK)


@pytest.mark.parametrize("kind", ["heatmap", "min", "settle", "frontier", "curves"])
def test_a_goal_of_loss_is_drawn_as_loss_and_what_diverged_has_none(kind: str) -> None:
    store = FakeStore()
    trials = [planned(n, d, steps=100) for n in (8, 16) for d in (8, 16)]
    store.add_sweep("s", trials, goal="loss < 0.1")
    for trial, loss in zip(trials, (math.inf, 0.05, 0.3, 0.08), strict=True):
        store.end(trial, "completed" if loss < 1 else "diverged", None, loss=loss, step=100)
        store.steps.append({"id": trial["id"], "attempt": 1000, "step": 50, "loss": loss + 0.1})
    found = rows(of(store), kind)
    assert all(math.isfinite(n) for row in found for n in row.values() if isinstance(n, float))
    shown = {row["score"] for row in found if "score" in row}
    assert kind == "min" or {0.05, 0.3} <= shown or {0.15000000000000002} <= shown
    if kind == "heatmap":
        [diverged] = [row for row in found if row.get("shown") == "div."]
        assert (diverged["size"], diverged["value"], diverged["score"]) == (8, 8, None)


# A training loop of the user's own: its metric, against the size, since a loop has no L


def curved() -> FakeStore:
    made = looped.store(looped.CELLS, minimized="hidden")
    made.steps = [
        {"id": row["id"], "attempt": 1000, "step": step, "f1": step / 20, "seconds": 1.0}
        for row in made.plan
        for step in (5, 10)
    ]
    return made


def test_what_is_minimised_and_against_what() -> None:
    asked = of(curved())
    assert asked.texts == {"min": "min hidden", "fit": "fit hidden ~ size"}
    assert asked.least.score == "f1"
    assert rows(of(curved(), cost="hidden"), "frontier")


@pytest.mark.parametrize("kind", ["heatmap", "min", "settle", "curves"])
def test_each_kind_shows_a_metric_of_a_loop(kind: str) -> None:
    drawing = KINDS[kind].draw(of(curved()))(LOOK)
    assert any(drawing.data.values())
    assert ("hidden" if kind == "min" else "f1") in str(drawing.chart.to_dict())


def test_sweeps_that_minimise_different_things() -> None:
    made = curved()
    made.add_sweep("t", [planned(8, 16)])
    made.end(planned(8, 16), "completed", 0.95)
    told = r"the least of hidden \(s\), d \(t\): name it \(--of\), or name one sweep"
    with pytest.raises(UserError, match=told):
        rows(of(made), "heatmap")
    assert rows(of(made, of="d", where="acc > 0.9"), "heatmap")
    made.infos["t"]["minimized"] = ""
    with pytest.raises(UserError, match="sweep t has no d, no staircase, and not just one number"):
        rows(of(made), "heatmap")
