"""Training on a GPU. Recorded steps are those of the step itself, runs repeat bit for bit, states
move between devices, and a trial keeps to its share of the memory. Without a GPU all of it is
skipped. `pytest --noconftest tests/trial/test_gpu.py` needs no more than torch, pytest and sweepd.
Covers `trial/batches.py`. Batches on a CPU are tested in test_training.py."""

import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from over import finish
from torch import Tensor

from sweepd.grid.registry import find, shipped
from sweepd.grid.settings import Evaluate, Precision, Stop, Train
from sweepd.models.base import Model, Transformer
from sweepd.models.standard import Standard
from sweepd.tasks.adaptive_memory import AdaptiveMemory
from sweepd.tasks.arithmetic import Arithmetic
from sweepd.tasks.base import Batch, Split, Task
from sweepd.tasks.lis import LIS
from sweepd.trial import gpu
from sweepd.trial.training import AHEAD, Batches, Training

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

NAMES = [entry.name for entry in shipped("model")]
LIS_TASK = LIS(n=8)
TASKS: list[Task] = [LIS_TASK, AdaptiveMemory(longest=8, length=40)]
MODEL = Standard(d=16, layers=2, heads=2)


@pytest.fixture(autouse=True)
def repeating() -> Iterator[None]:
    gpu.take_share(1.0)
    gpu.repeat(strictly=True)
    yield
    torch.use_deterministic_algorithms(False)


def started(
    task: Task = LIS_TASK, model: Model = MODEL, device: str = "cuda", **settings: Any
) -> Training:
    train = Train(**{"steps": 60, "batch_size": 16, "warmup": 10} | settings)
    evaluation = Evaluate(check_every=25, check_samples=32, verdict_samples=64)
    return Training(task, model, train, evaluation, Stop(), 0, 1.0, device)


def weights(training: Training) -> list[Tensor]:
    return [tensor.cpu() for tensor in training.model.state_dict().values()]


def same(one: Training, other: Training) -> bool:
    return all(map(torch.equal, weights(one), weights(other)))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
@pytest.mark.parametrize("name", NAMES)
def test_it_repeats_and_so_it_does_recorded(name: str, task: Task, precision: Precision) -> None:
    model = find("model", name, Path())(d=16, layers=2, heads=2, dropout=0.1)
    runs = [
        started(task, model, precision=precision, compile=recorded)
        for recorded in (False, False, True)
    ]
    rows = [finish(run) for run in runs]
    assert rows[0] == rows[1] == rows[2]
    assert same(runs[0], runs[1]) and same(runs[0], runs[2])
    assert runs[2].update.recordings  # type: ignore[attr-defined]


def test_batches_of_many_shapes_are_recorded_each() -> None:
    task, runs = Arithmetic(operators=3), []
    for recorded in (False, True):
        runs.append(started(task, compile=recorded, steps=100))
        finish(runs[-1])
    assert same(*runs)
    shapes = {runs[0].batches.take(step).inputs.shape for step in range(gpu.WARM_UP, 100)}
    assert len(runs[1].update.recordings) == len(shapes)  # type: ignore[attr-defined]


def test_real_numbers_are_recorded_too() -> None:
    task = AdaptiveMemory(longest=8, length=40, values="reals")
    runs = [started(task, compile=recorded) for recorded in (False, True)]
    assert finish(runs[0]) == finish(runs[1]) and same(*runs)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("cut", [2, 37])
def test_a_state_continues_bitwise(recorded: bool, cut: int) -> None:
    whole, first, second = (started(compile=recorded) for _ in range(3))
    finish(whole)
    for _ in first.advance():
        if first.step == cut:
            break
    second.restore(second.read(first.snapshot()))
    finish(second)
    assert same(whole, second) and second.result == whole.result


@pytest.mark.parametrize(("before", "after"), [("cuda", "cpu"), ("cpu", "cuda")])
@pytest.mark.parametrize("recorded", [False, True])
def test_a_state_moves_between_devices(before: str, after: str, recorded: bool) -> None:
    first, second = (started(device=device, compile=recorded) for device in (before, after))
    for _ in first.advance():
        if first.step == 30:
            break
    second.restore(second.read(first.snapshot()))
    finish(second)
    alone = started(device="cpu")
    finish(alone)
    assert second.result and second.result.status == "completed" and second.step == 60
    for one, other in zip(weights(second), weights(alone), strict=True):
        assert torch.allclose(one, other, atol=1e-2)


def test_a_gpu_learns_as_the_cpu_does() -> None:
    on = {device: finish(started(device=device, steps=30)) for device in ("cuda", "cpu")}
    for one, other in zip(on["cuda"], on["cpu"], strict=True):
        assert math.isclose(one.columns["loss"], other.columns["loss"], rel_tol=1e-3)
        for name in ("step", "tokens", "lr"):
            assert one.columns[name] == other.columns[name]


def test_weights_and_optimizer_stay_float32_in_bf16() -> None:
    run = started(precision="bf16", compile=True)
    finish(run)
    assert {tensor.dtype for tensor in run.model.parameters()} == {torch.float32}
    moments = [state["exp_avg"] for state in run.optimizer.state.values()]
    assert {moment.dtype for moment in moments} == {torch.float32}
    exact = started()
    finish(exact)
    assert not same(run, exact)


def test_no_step_waits_for_the_gpu() -> None:
    """Only a recorded row, at each tenth step, reads a number back."""
    run = started(steps=100)
    rows = run.advance()
    for _ in range(11):
        next(rows)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(8):
            next(rows)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_batches_come_in_order_whatever_step_is_asked_for() -> None:
    drawn: list[int] = []

    def draw(step: int) -> Batch:
        drawn.append(step)
        return Batch(np.full((2, 3), step), np.full((2, 3), step + 1))

    batches = Batches(draw, torch.device("cuda"))
    for step in (7, 8, 9):
        fed = batches.take(step)
        assert fed.inputs.device.type == "cuda" and fed.scored == 6
        assert fed.inputs.eq(step).all() and fed.targets.eq(step + 1).all()
    batches.ahead.shutdown()  # type: ignore[union-attr]
    assert drawn == list(range(7, 10 + AHEAD - 1))


def test_what_a_task_raises_comes_out_of_the_step_that_needs_it() -> None:
    def draw(step: int) -> Batch:
        if step == 2:
            raise ValueError("no more")
        return LIS_TASK.batch(np.random.default_rng(step), 4, Split.TRAIN)

    batches = Batches(draw, torch.device("cuda"))
    batches.take(0), batches.take(1)
    with pytest.raises(ValueError, match="no more"):
        batches.take(2)


@dataclass(frozen=True)
class Peeking(Standard):
    """Reads a result while it computes, which can't be recorded."""

    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> Transformer:
        net = super().build(vocab, L, capacity, generator)
        net.register_forward_hook(lambda _, __, outputs: outputs * float(outputs.isfinite().all()))
        return net


def test_what_cannot_be_recorded_says_so() -> None:
    with pytest.raises(RuntimeError, match="captur") as found:
        finish(started(model=Peeking(d=16, layers=1, heads=2), compile=True))
    assert found.value.__notes__ == [gpu.NOT_RECORDED]


def test_a_trial_keeps_to_its_share_of_the_memory() -> None:
    """This runs in a process of its own, since the process keeps its small share."""
    code = (
        "import torch; from sweepd.trial.gpu import take_share; take_share(0.01)\n"
        "try: torch.empty(2**30, device='cuda', dtype=torch.float32)\n"
        "except torch.OutOfMemoryError as error: print('held', error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("held")
