"""The tables that people see of `sweepd query`, printed by the command line over a real store.
Covers `query/readable.py`.

What `min` prints without --wide is in tests/query/test_pivot.py.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_store import FakeStore, as_present, planned
from inprocess import sweepd

from sweepd.store.store import Store


@pytest.fixture
def printed(tmp_path: Path) -> Callable[..., list[str]]:
    """What `sweepd query --wide` prints, in lines of words: of the sweep s, with two widths and
    two seeds, or of the sweep tuned, with two rates."""
    fake, results = FakeStore(), str(tmp_path / "results")
    trials = [planned(d=d, seed=seed) for d in (8, 16) for seed in range(2)]
    rates = [planned(12, lr=lr) for lr in ("0.01", "0.02")]
    about = {"base": str(tmp_path), "accepted_for": as_present()}
    fake.add_sweep("s", trials, **about)
    fake.add_sweep("tuned", rates, tune=["train.lr"], **about)
    for trial, acc in zip(trials, (0.5, 0.6, 0.95, 0.93), strict=True):
        fake.end(trial, "completed", acc, loss=1 - acc)
    fake.end(trials[0], "diverged", attempt=2000)
    for trial, acc in zip(rates, (0.92, 0.95), strict=True):
        fake.end(trial, "completed", acc)
    fake.save(results)

    def query(text: str, sweep: str = "s") -> list[str]:
        answer = sweepd("query", text, "--wide", "--sweep", sweep, "--results", results, exits=0)
        return [" ".join(line.split()) for line in answer.out.splitlines()]

    return query


def test_the_table_shows_what_the_condition_is_about(printed: Callable[..., list[str]]) -> None:
    before, after = "task size L model value fail verdict failed with passed", "inferred at"
    tried = "0.25 times the FLOPs, one rate; not trained for 2000 steps"
    row = f"lis 8 19 standard 16 8 exact {tried} 2 of 2"
    both = row.replace(tried, "the question is not about one score")
    of_acc, acc = "acc 95% seeds' acc", "0.940 (close) 0.875 … 0.972 0.930 … 0.950"
    of_loss, loss = "loss seeds' loss", "0.06 0.05 … 0.07"
    assert printed("min d where acc > 0.9") == [
        f"{before} {of_acc} {after}",
        f"{row} {acc} 0",
    ]
    assert printed("min d where loss < 0.1") == [
        f"{before} {of_loss} {after}",
        f"{row} {loss} 0",
    ]
    assert printed("min d where loss < 0.1 and acc > 0.5") == [
        f"{before} {of_acc} {of_loss} {after}",
        f"{both} {acc.replace(' (close)', '')} {loss} 0",
    ]


def test_a_value_that_is_known_from_above_only_says_so(printed: Callable[..., list[str]]) -> None:
    [_, row] = printed("min d by size where acc > 0.9 and d = 16")
    assert row.startswith("lis 8 standard ≤ 16 at most the grid has no smaller value 2 of 2")
    [_, row] = printed("min loss by size where acc > 0.9")
    assert row.startswith(
        "lis 8 standard ≤ 0.06 at most the question is not about one score 2 of 2"
    )


def test_an_accuracy_in_percent_is_refused(printed: Callable[..., list[str]]) -> None:
    with pytest.raises(AssertionError, match=r"did you mean 0\.9\?"):
        printed("min d where acc>90")


def test_a_seed_that_diverged_is_named(printed: Callable[..., list[str]]) -> None:
    [_, row] = printed("min d by size where loss < 0.1 and d = 8")
    assert row == "lis 8 standard 8 above not trained for 2000 steps 0 of 2 0.4 … diverged 0"


def test_the_frontier_has_its_interval_like_min(printed: Callable[..., list[str]]) -> None:
    assert printed("frontier flops, acc") == [
        "task size L model flops acc d seeds 95% seeds' acc at",
        "lis 8 19 standard 29192 0.300 (chain 0.000) 8 2 0.219 … 0.396 0.000 … 0.600",
        "lis 8 19 standard 116752 0.940 16 2 0.875 … 0.972 0.930 … 0.950",
    ]
    assert printed("frontier params, loss") == [
        "task size L model params loss d seeds seeds' loss at",
        "lis 8 19 standard 3072 0.06 16 2 0.05 … 0.07",
    ]


def test_a_best_rate_at_the_edge_of_its_range_is_named(printed: Callable[..., list[str]]) -> None:
    header, row = printed("min d where acc > 0.9", "tuned")
    assert header.endswith("inferred at edge")
    assert row.endswith('0 {"lr": "0.02"} lr')
    header, row = printed("frontier d, acc", "tuned")
    assert header.endswith("seeds' acc at edge") and row.endswith("lr")


def test_what_was_not_tried_is_told_in_each_form(tmp_path: Path) -> None:
    fake, results = FakeStore(), str(tmp_path / "results")
    trials = [planned(d=d) for d in (8, 16)]
    fake.add_sweep("s", trials, base=str(tmp_path), accepted_for=as_present())
    fake.end(trials[1], "completed", 0.95)
    fake.save(results)
    for form, is_noted in (("--sweep=s", False), ("--wide", True), ("--json", True)):
        told = sweepd("query", "min d where acc > 0.9", form, "--results", results, exits=0)
        assert ("untried: 1 of 2 cells" in told.err) is is_noted
        assert ("in 1 of 2 cells" in told.out) is not is_noted


def test_ctrl_c_ends_a_question_as_it_ends_everything(tmp_path: Path) -> None:
    """DuckDB makes an error of its own of the signal."""
    address = str(tmp_path / "results")
    Store.create(address)
    text = "SELECT count(*) AS trials FROM range(1000000000000), range(1000)"
    command = [sys.executable, "-u", "-c", INTERRUPTIBLE, "sql", text, "--results", address]
    asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert asked.stdout is not None and asked.stdout.readline() == "asked\n"
    time.sleep(0.5)
    asked.send_signal(signal.SIGINT)
    _, said = asked.communicate(timeout=60)
    assert asked.returncode == 130 and "Traceback" not in said


INTERRUPTIBLE = """
from sweepd.query.database import Views
select = Views.sql
def sql(views, text):
    print("asked")
    return select(views, text)
Views.sql = sql
from sweepd.cli import main
main()
"""
