"""Where a program tells its numbers: patterns of text, names, and what is refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.grid.rows import Pattern, Rows, faults, number


@pytest.mark.parametrize(
    ("text", "line", "rows"),
    [
        (
            "step {step}: .*loss {loss}, acc {acc}",
            "step 100: lr 0.1, loss 0.5, acc 0.93",
            [{"step": 100, "loss": 0.5, "acc": 0.93}],
        ),
        (
            "Step {step} | Validation bpb: {bpb}",
            "Step 00250 | Validation bpb: 0.87",
            [{"step": 250, "bpb": 0.87}],
        ),
        ("val_bpb: {bpb}", "\tval_bpb:   0.998", [{"bpb": 0.998}]),
        ("copy; len {step}: {acc} +- ", "copy; len 40: 0.9 +- 0.1", [{"step": 40, "acc": 0.9}]),
        ("Network score: {acc}", "Network score: 97%", [{"acc": 0.97}]),
        ("acc {acc}%", "acc 93.1%", [{"acc": 0.931}]),
        ("tokens {step} loss {loss}", "tokens 1,000,000 loss 3e-4", [{"step": 1e6, "loss": 3e-4}]),
        ("loss={loss}", "a loss=1 b loss=2", [{"loss": 1}, {"loss": 2}]),
        ("loss {loss}", "loss 12.5.3", []),
        (r"ep(?P<step>\d+).*?f1 (?P<f1>\S+)", "ep3 x f1 0.5", [{"step": 3, "f1": 0.5}]),
    ],
)
def test_a_pattern_finds_the_numbers_of_a_line(
    text: str, line: str, rows: list[dict[str, float]]
) -> None:
    assert list(Pattern.of(text).rows(line)) == rows


def test_a_diverged_number_is_no_number() -> None:
    [row] = Pattern.of("loss {loss}").rows("loss nan")
    assert math.isnan(row["loss"])


@given(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["{!r}", "{:.3e}", "{:,.4f}"])
)
def test_numbers_are_read_as_python_prints_them(value: float, form: str) -> None:
    text = form.format(value)
    assert number(text) == float(text.replace(",", ""))
    [row] = Pattern.of("x {x};").rows(f"x {text};")
    assert row["x"] == number(text)


def test_a_line_that_looks_like_a_row_and_is_none_is_seen() -> None:
    pattern = Pattern.of("step {step}: loss {loss}")
    assert pattern.looks_like("step 5: loss n/a")
    assert not pattern.looks_like("step 5: loss 1") and not pattern.looks_like("hello")


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"pattern": "step {step} loss {los}"}, "los is none of its metrics (did you mean loss?)"),
        ({"pattern": "step {step}"}, "nothing tells loss"),
        ({"pattern": "nothing"}, "names no number"),
        ({"frm": "stdout"}, "frm is no key"),
        ({"from": 3}, "name stdout"),
        ({"from": "/tmp/metrics.csv"}, "below the program's folder"),
        ({"from": "out-{width}/metrics.csv"}, "for what changes from trial to trial"),
        ({"metrics": {"acc": "valid/acc"}}, "acc is none of its metrics"),
        ({"from": "wandb", "pattern": "{loss}"}, "it is for text"),
        ({"final": {"loss": "score {acc}"}}, "write {loss} where the number stands"),
        ({"pattern": "(?P<loss>"}, "no regular expression"),
    ],
)
def test_a_wrong_block_is_refused(block: dict[str, object], said: str) -> None:
    assert any(said in fault for fault in faults(block, ["loss"])), list(faults(block, ["loss"]))


def test_names_of_the_program_become_ours() -> None:
    rows = Rows.of({"step": "global_step", "metrics": {"acc": "valid/accuracy"}}, ["acc", "loss"])
    told = {"global_step": 7, "valid/accuracy": 0.5, "loss": 1.0, "lr": 3}
    assert rows.ours(told) == {"step": 7, "acc": 0.5, "loss": 1.0}
    assert rows.ours({"global_step": 7, "lr": 3}) is None
    assert rows.ours({"loss": "", "valid/accuracy": 1}) == {"acc": 1}
