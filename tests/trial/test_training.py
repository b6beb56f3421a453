"""Training. A trial is a function of its settings and its seed. A snapshot continues it bitwise. A
longer run passes through the same weights. Each ending is what it says."""

import dataclasses
import gc
import io
import itertools
import math
import time
import weakref
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from over import finish, result_of, score_of, untimed
from torch.nn import functional as F

from sweepd.grid.registry import Entry, find, shipped
from sweepd.grid.settings import Evaluate, LrRule, Precision, Schedule, Stop, Train
from sweepd.models.base import Architecture
from sweepd.models.linear import Linear
from sweepd.models.sparse import Sparse
from sweepd.models.standard import Standard
from sweepd.tasks.adaptive_memory import AdaptiveMemory
from sweepd.tasks.arithmetic import Arithmetic
from sweepd.tasks.base import Split, Task
from sweepd.tasks.ed_local import LocalEditDistance
from sweepd.tasks.edit_distance import EditDistance
from sweepd.tasks.equation import Equation
from sweepd.tasks.fixed_memory import FixedMemory
from sweepd.tasks.lis import LIS
from sweepd.tasks.sparse_memory import SparseMemory
from sweepd.trial.generators import seed_torch
from sweepd.trial.runs import Result
from sweepd.trial.training import LOG_EVERY, AdamW, Stream, Training, generator, lr_factor

TASK = LIS(n=4, value_range=8)
EVALUATE = Evaluate(check_every=30, check_samples=32, verdict_samples=64)
MODELS: list[Architecture] = [
    Standard(d=8, layers=1, heads=2, dropout=0.2),
    Linear(d=8, layers=1, heads=2, dropout=0.2),
    Sparse(d=8, layers=1, heads=2, positions="learned"),
]


def started(
    architecture: Architecture = MODELS[0],
    train: Train | None = None,
    stop: Stop | None = None,
    seed: int = 0,
    task: Task = TASK,
    evaluate: Evaluate = EVALUATE,
) -> Training:
    train = train or Train(steps=60, batch_size=8, warmup=10)
    return Training(task, architecture, train, evaluate, stop or Stop(), seed, 1.0, "cpu")


LISTED: list[Task] = [
    LIS(n=4, value_range=8), LIS(n=4, value_range=8, cot=False), EditDistance(n=3, shorter=1),
    LocalEditDistance(n=3, shorter=1), Arithmetic(operators=2), Equation(unknowns=2),
    FixedMemory(longest=4, length=12), FixedMemory(longest=4, values="reals", length=12),
    AdaptiveMemory(longest=8, length=12), AdaptiveMemory(longest=8, values="reals", length=12),
    SparseMemory(length=12),
]  # fmt: skip
KINDS: list[Any] = [find("task", entry.name, Path()) for entry in shipped("task")]
EVERY_TASK = [*LISTED, *(kind() for kind in KINDS if kind not in set(map(type, LISTED)))]
SETTING = {"d": 8, "layers": 1, "heads": 2, "dropout": 0.2}


@pytest.mark.parametrize("entry", shipped("model"), ids=lambda entry: entry.name)
@pytest.mark.parametrize(
    ("schedule", "cut"), [*zip(get_args(Schedule), (2, 10, 14, 18), strict=True)]
)
def test_a_restored_snapshot_continues_bitwise(entry: Entry, schedule: Schedule, cut: int) -> None:
    train = Train(steps=20, batch_size=8, warmup=3, schedule=schedule)
    kind: Any = find("model", entry.name, Path())
    known = {name: value for name, value in SETTING.items() if name in entry.parameters}
    continues_bitwise(TASK, kind(**known), train, cut)


@pytest.mark.parametrize("task", EVERY_TASK, ids=repr)
def test_so_it_does_on_every_task(task: Task) -> None:
    continues_bitwise(task, MODELS[0], Train(steps=20, batch_size=8, warmup=3), cut=14)


def continues_bitwise(task: Task, architecture: Architecture, train: Train, cut: int) -> None:
    brief = Evaluate(check_every=LOG_EVERY, check_samples=8, verdict_samples=8)
    start = partial(started, architecture, train, task=task, evaluate=brief)
    whole = start()
    rows = finish(whole)
    first = start()
    before = []
    for row in first.advance():
        before.append(row)
        if first.step == cut:
            break
    torch.manual_seed(99)  # the global generator is nobody's state
    second = start()
    second.restore(second.read(first.snapshot()))
    after = finish(second)
    assert [untimed(row) for row in before if row is not None] + after == rows
    assert second.result == whole.result


def test_rows_and_checks_come_when_they_are_due() -> None:
    rows = finish(started())
    assert [row.step for row in rows] == list(range(LOG_EVERY, 61, LOG_EVERY))
    assert [row.step for row in rows if row.scores] == [30, 60]
    assert [row.columns["train_flops"] for row in rows] == [row.step for row in rows]


def test_real_targets_have_a_loss_alone() -> None:
    training = started(stop=Stop(success=0.5), task=SparseMemory(length=12))
    rows = finish(training)
    assert {row.columns[name] for row in rows for name in ("acc", "chain_acc")} == {None}
    assert rows[-1].columns["tokens"] == 60 * 8 * 12
    score = score_of(training)
    assert result_of(training).status == "completed" and math.isfinite(score.loss)
    assert (score.acc, score.correct, score.total) == (None, None, 64 * 12)


@pytest.mark.parametrize(
    ("task", "layers", "steps"),
    [
        (FixedMemory(memories=2, longest=4, symbols=2, length=16), 2, 400),
        (SparseMemory("polynomial", 1.0, length=16), 1, 200),
    ],
)
def test_memories_are_learned(task: Task, layers: int, steps: int) -> None:
    train = Train(steps=steps, batch_size=32)
    training = started(Standard(d=32, layers=layers, heads=2), train, task=task)
    finish(training)
    score = score_of(training)
    assert score.loss < 0.02 if score.acc is None else score.acc > 0.9  # of a variance of nearly 1


@pytest.mark.parametrize("schedule", ["wsd", "constant"])
def test_a_longer_run_passes_through_the_same_weights(schedule: Schedule) -> None:
    short, long = (
        Train(steps=steps, batch_size=8, warmup=10, schedule=schedule) for steps in (40, 80)
    )
    models = []
    for train in (short, long):
        training = started(train=train)
        for _ in training.advance():
            if training.step == short.trunk_end:
                models.append({k: v.clone() for k, v in training.model.state_dict().items()})
                break
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def test_seeds_differ_and_repeat() -> None:
    once, again, other = (finish(started(seed=seed)) for seed in (0, 0, 1))
    assert once == again != other


def test_divergence_is_an_ending_without_a_score() -> None:
    training = started(train=Train(steps=60, batch_size=8, lr=1e38, warmup=0, clip=1e38))
    rows = finish(training)
    assert result_of(training) == Result("diverged") and training.score is None
    assert not math.isfinite(rows[-1].columns["loss"])


def test_success_needs_the_verdict_to_confirm_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    train = Train(steps=120, batch_size=32, lr=1e-2, warmup=10)
    solved = started(train=train, stop=Stop(success=0.2))
    finish(solved)
    assert result_of(solved).status == "solved" and solved.step < 120
    score = score_of(solved)
    assert score.total == EVALUATE.verdict_samples
    assert score.acc is not None and score.acc >= 0.2

    unconfirmed = started(train=train, stop=Stop(success=0.2))
    monkeypatch.setattr(unconfirmed, "test_score", lambda: dataclasses.replace(score, correct=0))
    finish(unconfirmed)
    assert result_of(unconfirmed).status == "completed" and unconfirmed.step == 120


def test_a_budget_of_tokens_ends_at_the_first_step_that_reaches_it() -> None:
    each = TASK.batch(generator(0, Stream.DATA, 0), 8, Split.TRAIN).scored.sum()
    for tokens, step in [(1, 1), (each, 1), (each + 1, 2), (7 * each, 7), (30 * each, 30)]:
        training = started(stop=Stop(tokens=int(tokens)))
        rows = finish(training)
        assert (result_of(training).status, training.step, rows[-1].step) == (
            "completed",
            step,
            step,
        )
        assert rows[-1].scores["acc"] == score_of(training).acc
        assert score_of(training).total == EVALUATE.verdict_samples


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by a second whenever it is read."""
    ticks = itertools.count()
    monkeypatch.setattr("sweepd.trial.training.time.perf_counter", lambda: float(next(ticks)))


def test_a_budget_of_seconds_counts_training_over_all_attempts(ticking: None) -> None:
    """By this clock a step without a row takes one second, and a step with a row two."""
    training = started(stop=Stop(seconds=15.0))
    for row in training.advance():
        assert row is None or row.step == 10
        if training.step == 11:
            break
    assert training.seconds == 12.0
    later = started(stop=Stop(seconds=15.0))
    time.perf_counter()  # what lies between attempts, and between steps, is not counted
    later.restore(later.read(training.snapshot()))
    for _ in later.advance():
        time.perf_counter()
    assert (later.step, result_of(later).status, later.seconds) == (14, "completed", 16.0)


TRAINS = st.builds(
    Train,
    steps=st.integers(1, 300),
    warmup=st.integers(0, 100),
    decay=st.floats(0, 1),
    floor=st.floats(0, 1),
    schedule=st.sampled_from(["wsd", "cosine", "linear", "constant"]),
)


@given(TRAINS)
def test_learning_rate_schedules(train: Train) -> None:
    factors = [lr_factor(train, step) for step in range(train.steps)]
    assert all(0 <= factor <= 1 for factor in factors)
    warm = [(step + 1) / train.warmup if step < train.warmup else 1 for step in range(train.steps)]
    flat = min(train.decay_start, train.steps)
    assert factors[:flat] == warm[:flat]
    falling = [f / w for f, w in zip(factors[flat:], warm[flat:], strict=True)]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(falling))
    if falling:
        assert falling[-1] == pytest.approx(train.floor)


@given(TRAINS, st.integers(1, 300))
def test_a_trunk_does_not_depend_on_the_number_of_steps(train: Train, steps: int) -> None:
    """Up to the earlier trunk's end, both budgets prescribe the same rates."""
    if train.extensible:
        other = dataclasses.replace(train, steps=steps)
        for step in range(min(train.trunk_end, other.trunk_end)):
            assert lr_factor(train, step) == lr_factor(other, step)


def test_lr_rule_is_a_capped_power_of_the_width() -> None:
    rule = LrRule(base=5e-3, at_d=32, power=-0.5, max=1e-2)
    assert rule.at(32) == 5e-3
    assert rule.at(128) == pytest.approx(2.5e-3)
    assert rule.at(2) == 1e-2


def test_bf16_learns_from_products_in_bfloat16_with_weights_in_float32() -> None:
    train = Train(steps=60, batch_size=8, warmup=10)
    exact, rounded = (
        started(train=dataclasses.replace(train, precision=precision))
        for precision in get_args(Precision)
    )
    rows = [finish(run) for run in (exact, rounded)]
    assert rows[0] != rows[1]
    for one, other in zip(*rows, strict=True):
        assert math.isclose(one.columns["loss"], other.columns["loss"], rel_tol=0.05)
    assert {tensor.dtype for tensor in rounded.model.parameters()} == {torch.float32}
    seen: list[torch.dtype] = []
    hook = rounded.model.get_submodule("head").register_forward_hook(
        lambda *told: seen.append(told[2].dtype)
    )
    rounded.step -= 1
    rounded.train_step()
    rounded.check()
    hook.remove()
    assert seen[0] == torch.bfloat16 and set(seen[1:]) == {torch.float32}


def test_without_a_gpu_compile_changes_nothing() -> None:
    train = Train(steps=20, batch_size=8, warmup=3)
    assert finish(started(train=train)) == finish(
        started(train=dataclasses.replace(train, compile=True))
    )


def test_a_run_that_is_dropped_is_gone_at_once() -> None:
    """Its memory on a GPU is free at once too. The next trial of the process needs it."""
    training = started(train=Train(steps=5, batch_size=8))
    finish(training)
    gone = weakref.ref(training), weakref.ref(training.model)
    gc.disable()
    try:
        del training
        assert [found() for found in gone] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("seed", [0, 1, 2**32 + 5, 2**63 - 1])
def test_a_seed_gives_the_numbers_of_torch_s_own(seed: int) -> None:
    """`seed_torch` sets the same state as `torch.manual_seed`, which it replaces."""
    before = torch.get_rng_state()
    torch.manual_seed(seed)
    expected = torch.rand(7), torch.nn.functional.dropout(torch.ones(50))
    for device in (None, torch.device("cpu")):
        torch.rand(3)
        seed_torch(seed, device)
        again = torch.rand(7), torch.nn.functional.dropout(torch.ones(50))
        assert all(map(torch.equal, again, expected))
    torch.set_rng_state(before)


def parameters_after(optimizer: type[torch.optim.AdamW], steps: int = 20) -> list[torch.Tensor]:
    """Parameters after some clipped steps on random data, continued once from a snapshot."""
    generator = torch.Generator().manual_seed(0)
    slope = torch.nn.Parameter(torch.randn(8, 4, generator=generator))
    offset = torch.nn.Parameter(torch.zeros(4))
    new = partial(optimizer, [slope, offset], 1e-2, (0.9, 0.95), weight_decay=0.1, fused=True)
    steering = new()
    for step in range(steps):
        if step == steps // 2:
            saved = io.BytesIO()
            torch.save(steering.state_dict(), saved)
            saved.seek(0)
            steering = new()
            steering.load_state_dict(torch.load(saved))
        x = torch.randn(16, 8, generator=generator)
        loss = F.mse_loss(torch.addmm(offset, x, slope), x[:, :4])
        steering.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_([slope, offset], 0.5)
        steering.param_groups[0]["lr"] = 1e-2 / (step + 1)
        steering.step()
    return [slope.detach(), offset.detach()]


def test_the_numbers_of_adamw_are_those_of_torch() -> None:
    ours, theirs = parameters_after(AdamW), parameters_after(torch.optim.AdamW)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
