"""Scores on rows that are longer than those of training. They equal the scores of the longer task,
built and evaluated by hand, and are drawn as the test is. They do not change training. If a model
cannot be scored at such a length, nothing else is lost."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from faults import ran
from over import result_of, score_of
from simulated import drive, simulated
from torch import Tensor, nn

from sweepd.grid import lengths, registry
from sweepd.grid.plan import plan
from sweepd.grid.settings import Evaluate, Stop, Train
from sweepd.grid.spec import parse_grid
from sweepd.models.base import Architecture, Model
from sweepd.models.lin_rpe import LinRpe
from sweepd.models.linear import Linear
from sweepd.models.sparse import Sparse
from sweepd.models.standard import Standard
from sweepd.models.tmx import Tmx
from sweepd.search.seeds import Outcome, cells_of
from sweepd.search.staircase import search_of
from sweepd.store.store import Store
from sweepd.tasks.adaptive_memory import AdaptiveMemory
from sweepd.tasks.arithmetic import Arithmetic
from sweepd.tasks.base import Batch, Chains, ChainTask, Split, Task
from sweepd.tasks.ed_local import LocalEditDistance
from sweepd.tasks.edit_distance import EditDistance
from sweepd.tasks.equation import Equation
from sweepd.tasks.fixed_memory import FixedMemory
from sweepd.tasks.lis import LIS
from sweepd.tasks.sparse_memory import SparseMemory
from sweepd.trial.attempt import started
from sweepd.trial.other_lengths import ScoredLonger
from sweepd.trial.training import Stream, Training, generator

EVALUATE = Evaluate(check_every=10, check_samples=16, verdict_samples=40)
LIS4 = LIS(n=4, value_range=12)
EASY = LIS(n=1, value_range=200)
"""Learned in a few steps, and right for a part of the rows at twice its length."""
FAST = Train(steps=60, batch_size=16, warmup=5, lr=1e-2)
SMALL: dict[str, Any] = {"d": 8, "layers": 1, "heads": 2}
GRID = """\
name: a
task: {name: lis, n: 4, value_range: 12}
model: {name: standard, d: 8, heads: 2, layers: 1}
train: {steps: 20, batch_size: 8}
"""


def run(
    factors: Sequence[float] | None,
    task: Task = LIS4,
    model: Model | None = None,
    train: Train | None = None,
    stop: Stop | None = None,
) -> Training:
    """A run that has come to its end. factors: None for a plain `Training`."""
    settings = (
        *(task, model or Standard(**SMALL), train or Train(steps=20, batch_size=8, warmup=5)),
        *(EVALUATE, stop or Stop(), 3, 1.0, "cpu"),
    )
    training = Training(*settings) if factors is None else ScoredLonger(factors, *settings)
    for _ in training.advance():
        pass
    return training


def by_hand(training: Training, model: Model, there: Task, count: int) -> float:
    """The slow twin of a longer score: the trained weights in a larger model, one by one, and every
    row decoded token by token from its prompt, by running the model on all of it each time."""
    torch.manual_seed(0)
    task = training.task
    larger = model.build(len(there.vocab), task.L, there.capacity, torch.Generator())
    with torch.no_grad():
        for mine, trained in zip(larger.parameters(), training.model.parameters(), strict=True):
            mine.copy_(trained)
    larger.eval()
    sample = there.sample(generator(3, Stream.TEST, training.step), count, Split.TEST)
    with torch.no_grad():
        if isinstance(sample, Batch):
            outputs = larger(torch.from_numpy(sample.inputs))
            targets = torch.from_numpy(sample.targets)
            scored = torch.from_numpy(sample.scored)
            if sample.targets.dtype.kind == "f":
                return float(((outputs.squeeze(-1) - targets)[scored] ** 2).mean())
            return float((outputs.argmax(-1) == targets)[scored].float().mean())
        assert isinstance(sample, Chains) and isinstance(there, ChainTask)
        right = 0
        for row, prompt, length in zip(sample.tokens, sample.prompts, sample.lengths, strict=True):
            tokens = list(row[:prompt])
            while len(tokens) < there.capacity:
                following = int(larger(torch.tensor([tokens]))[0, -1].argmax())
                if there.words([following]) == ["<eos>"]:
                    wanted = there.answer(row[: length - 1])
                    right += there.separator in tokens and there.answer(tokens) == wanted
                    break
                tokens.append(following)
        return right / count


@pytest.mark.parametrize(
    ("task", "model"),
    [
        (EASY, Standard(**SMALL, positions="none")),
        (EASY, Linear(**SMALL, positions="none")),
        (LIS(n=4, value_range=12, cot=False), Sparse(**SMALL)),
        (Arithmetic(operators=2, modulus=2, cot=False), LinRpe(**SMALL)),
        (FixedMemory(1, longest=2, length=8, symbols=2), Tmx(**SMALL)),
        (FixedMemory(1, longest=2, length=8, values="reals"), Standard(**SMALL)),
        (AdaptiveMemory(1, longest=2, length=8, symbols=2), Standard(**SMALL, positions="rotary")),
    ],
    ids=str,
)
def test_a_longer_score_is_that_of_the_longer_task(task: Task, model: Model) -> None:
    training = run([1.5, 2.0], task, model, FAST)
    metric = "acc" if "acc" in task.metrics else "loss"
    for factor in (1.5, 2.0):
        there = lengths.longer(task, factor)
        count = EVALUATE.verdict_samples * task.L // there.L
        found = score_of(training).own[lengths.column(metric, factor)]
        assert found > 0
        assert found == pytest.approx(by_hand(training, model, there, count))


@pytest.mark.parametrize("model", [Standard(**SMALL), Sparse(**SMALL), Linear(**SMALL)], ids=str)
def test_at_its_own_length_it_is_the_test_score(model: Model) -> None:
    training = run([], model=model)
    assert isinstance(training, ScoredLonger)
    assert training.score_at(1.0) == score_of(training) == score_of(run(None, model=model))


def test_training_is_the_same_bit_by_bit() -> None:
    plain, longer = run(None), run([1.5, 2.0])
    for name, weight in plain.model.state_dict().items():
        assert torch.equal(weight, longer.model.state_dict()[name])
    own = score_of(longer).own
    assert list(own) == ["acc_1_5x", "acc_2x"]
    assert score_of(plain) == dataclasses.replace(score_of(longer), own={})
    assert score_of(plain).columns() == {
        name: value for name, value in score_of(longer).columns().items() if name not in own
    }
    assert longer.checks == plain.checks


def test_only_a_trial_that_asks_for_lengths_is_scored_longer() -> None:
    [off] = plan(parse_grid(GRID, "grid.yaml", (), Path())).trials
    [on] = plan(parse_grid(GRID, "grid.yaml", ["lengths=[2]"], Path())).trials
    assert type(started(off, Path(), "cpu")) is Training
    run = started(on, Path(), "cpu")
    assert isinstance(run, ScoredLonger) and run.factors == (2.0,)


def test_a_run_that_is_taken_up_at_its_end_or_solved_has_the_same_scores() -> None:
    whole = run([2.0])
    again = ScoredLonger(
        [2.0], LIS4, Standard(**SMALL), whole.train, EVALUATE, Stop(), 3, 1.0, "cpu"
    )
    again.restore(again.read(whole.snapshot()))
    assert score_of(again) == score_of(whole)
    solved = run([2.0], EASY, train=FAST, stop=Stop(success=0.5))
    assert result_of(solved).status == "solved" and solved.step < FAST.steps
    assert score_of(solved).own["acc_2x"] == cast(ScoredLonger, solved).score_at(2.0).acc


def test_what_diverges_has_no_scores() -> None:
    training = run([2.0], train=Train(steps=20, batch_size=8, lr=1e30, clip=1e30))
    assert result_of(training).status == "diverged" and training.score is None


@dataclasses.dataclass(frozen=True)
class Short(Architecture):
    """A user's model that takes no row that is longer than those of the task."""

    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> nn.Module:
        return Table(vocab, L)


class Table(nn.Module):
    def __init__(self, vocab: int, most: int) -> None:
        super().__init__()
        self.most, self.table = most, nn.Embedding(vocab, vocab)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        if tokens_BT.size(1) > self.most:
            raise RuntimeError("too long")
        logits: Tensor = self.table(tokens_BT)
        return logits


def test_a_model_that_breaks_on_longer_rows_keeps_its_test_score() -> None:
    training = run([1.5, 2.0], model=Short(d=1))
    result = result_of(training)
    assert result.status == "completed"
    assert score_of(training) == score_of(run(None, model=Short(d=1)))
    assert result.error is None and len(result.notes) == 2
    for note, name in zip(result.notes, ("acc_1_5x", "acc_2x"), strict=True):
        assert note.startswith(f"no {name}: ") and "RuntimeError: too long" in note


def untrained(task: Task, model: Model) -> ScoredLonger:
    return ScoredLonger([], task, model, Train(steps=20), EVALUATE, Stop(), 3, 1.0, "cpu")


@pytest.mark.parametrize(
    ("task", "factors"),
    [
        (LIS(n=4, value_range=9), (1.5, 2.0)), (LIS(n=4, value_range=8), (1.5,)),
        (LIS(n=4, value_range=16, cot=False), (1.5, 2.0)), (Arithmetic(operators=6), (1.5, 2.0)),
        (FixedMemory(2), (1.5, 2.0)), (AdaptiveMemory(2, values="reals"), (1.5, 2.0)),
        (SparseMemory(), (1.5, 2.0)), (EditDistance(n=3), ()), (LocalEditDistance(n=3), ()),
        (Equation(unknowns=2), ()),
    ],
    ids=str,
)  # fmt: skip
def test_what_each_task_allows(task: Task, factors: Sequence[float]) -> None:
    run = untrained(task, Standard(**SMALL))
    for factor in (1.5, 2.0):
        if factor in factors:
            assert run.score_at(factor).total
        else:
            with pytest.raises(ValueError, match=r"^the vocabulary of .* words in place of"):
                run.score_at(factor)


@pytest.mark.parametrize("entry", registry.shipped("model"), ids=lambda entry: entry.name)
def test_what_each_model_allows(entry: registry.Entry) -> None:
    kind: Any = registry.find("model", entry.name, Path())
    small = {name: value for name, value in SMALL.items() if name in entry.parameters}
    if "positions" not in entry.parameters:
        assert untrained(LIS4, kind(**small)).score_at(2.0).total
        return
    for positions in ("none", "sinusoidal"):
        assert untrained(LIS4, kind(**small, positions=positions)).score_at(2.0).total
    with pytest.raises(ValueError, match="the weight `position` depends on how long a row may be"):
        untrained(LIS4, kind(**small, positions="learned")).score_at(2.0)


def test_a_score_that_cannot_be_had_is_null_and_the_log_says_why(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path))
    sets = ["lengths=[2]", "model.positions=learned"]
    [trial] = plan(parse_grid(GRID, "grid.yaml", sets, Path())).trials
    attempt = ran(store, trial)
    [row] = store.read_trials().table.to_pylist()
    assert (row["status"], row["error"]) == ("completed", None) and row["acc"] is not None
    assert row.get("acc_2x") is None and attempt.report()["acc_2x"] is None
    assert "no acc_2x: the weight `position` depends on" in store.read_log(trial.id)


@pytest.mark.parametrize("search", ["grid", "staircase"])
def test_a_search_whose_goal_nobody_could_measure_ends_and_decides_nothing(search: str) -> None:
    made = simulated(f"search={search}", "lengths=[2]", "goal=acc_2x > 0.5")
    unmeasured = Outcome("completed", None, 16)
    ledger, _, _ = drive(lambda: search_of(made), lambda trial: unmeasured, slots=2)
    assert ledger
    assert {seeds.passes(ledger) for seeds in cells_of(made)} == {None}
