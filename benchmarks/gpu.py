"""Training on a GPU: tokens a second by width, several trials on one card, and what repeats.

    python benchmarks/gpu.py             # all of it, on the first GPU of this machine
    python benchmarks/gpu.py launch      # a sweep on shares of the card, killed and resumed
    python benchmarks/gpu.py steps       # one trial: ours, recorded, in bf16; beside a plain loop
    python benchmarks/gpu.py trials      # several processes on the card, without MPS and with it
    python benchmarks/gpu.py stacked     # many models in one process, stacked in one recorded graph
    python benchmarks/gpu.py repeats     # each model: twice, and recorded, to the same weights?

`make gpu` runs the tests on the card and all of these, in eight minutes at the most: no part begins
after `--minutes`, and what was left out is said.

`steps` trains one model (three layers, LIS) in four ways, in turn. `recorded` replays each step as
a CUDA graph (`train.compile`). The peer is the loop that one writes by hand: it draws a batch,
copies it, steps, and reads the loss every ten steps. Its model is the same. `trials` runs as many
processes as `--trials` says, all at once, and adds their tokens. The utilisation is what nvidia-smi
says: the share of time in which any kernel ran. TFLOP/s are those that sweepd counts: three forward
passes a step. `stacked` gives as many models of one shape each their batch (vmap over their
weights), and records one step of all, without drawing. No launch does that.

`--device cpu` runs all of it without a GPU. Its figures then say nothing of a GPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from processes import SWEEPD, sweepd
from stacked import stacked_step
from torch.nn import functional as F

from sweepd.grid.costs import costs, train_flops
from sweepd.grid.registry import find, shipped
from sweepd.grid.settings import Evaluate, Precision, Stop, Train
from sweepd.models.base import Model
from sweepd.models.standard import Standard
from sweepd.tasks.adaptive_memory import AdaptiveMemory
from sweepd.tasks.base import IGNORE, Split, Task
from sweepd.tasks.lis import LIS
from sweepd.trial.gpu import Recorded, repeat, take_share
from sweepd.trial.training import Stream, Training, generator

WAYS: dict[str, dict[str, Any]] = {
    "ours": {},
    "recorded": {"compile": True},
    "bf16": {"precision": "bf16", "compile": True},
}
WARM_UP = 12
"""Steps before the clock starts."""
NEVER = 10**9
HUNGRY = """
from dataclasses import dataclass

import torch
from sweepd.models.standard import Standard


@dataclass(frozen=True)
class Hungry(Standard):
    \"\"\"Takes so many bytes more in each step.\"\"\"

    extra: int = 0

    def build(self, *given):
        net = super().build(*given)

        def eat(net, given):
            torch.empty(self.extra, dtype=torch.uint8, device=given[0].device)

        net.register_forward_pre_hook(eat)
        return net
"""
GRID = """
name: shares
task: {name: lis, n: N, value_range: 64}
model: {name: hungry.py:Hungry, d: 32, layers: 2, heads: 2, extra: [1, 2, 4, 1000000000000000]}
train: {steps: STEPS, batch_size: 16}
checkpoint_seconds: 0.2
resources: {cpus: 1, gpus: GPUS}
"""


def training(
    task: Task,
    model: Model,
    device: str,
    batch_size: int = 64,
    steps: int = NEVER,
    seed: int = 0,
    precision: Precision = "fp32",
    compile: bool = False,
) -> Training:
    train = Train(steps=steps, batch_size=batch_size, lr=1e-3, precision=precision, compile=compile)
    evaluation = Evaluate(check_every=NEVER, check_samples=64, verdict_samples=64)
    return Training(task, model, train, evaluation, Stop(), seed, 1.0, device)


def plain(task: Task, model: Model, device: str, batch_size: int) -> Callable[[], None]:
    """Returns a step of the loop that one writes by hand."""
    net = model.build(len(task.vocab), task.L, task.capacity, torch.Generator()).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    done = 0

    def step() -> None:
        nonlocal done
        batch = task.batch(generator(0, Stream.DATA, done), batch_size, Split.TRAIN)
        logits = net(torch.from_numpy(batch.inputs).to(device))
        targets = torch.from_numpy(batch.targets).to(device)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        done += 1
        if done % 10 == 0:
            loss.item()

    return step


def stepping(run: Training) -> Callable[[], None]:
    """Returns a step of ours, as a trial takes it."""
    rows = run.advance()
    return lambda: next(rows) and None


def finish(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def steps_a_second(step: Callable[[], None], seconds: float, device: str) -> float:
    finish(device)
    started, count = time.perf_counter(), 0
    while time.perf_counter() < started + seconds:
        for _ in range(10):
            step()
        count += 10
        finish(device)
    return count / (time.perf_counter() - started)


def compare_steps(given: argparse.Namespace) -> None:
    task = LIS(n=given.n)
    print(
        f"LIS n={given.n}, {given.batch_size} rows of {task.L} tokens a batch, standard, 3 layers"
    )
    print("steps a second (median of the rounds; in brackets: times the peer, least and greatest)")
    print(
        f"{'d':>5} {'peer':>8}  " + "  ".join(f"{way:>26}" for way in WAYS) + "   tokens/s TFLOP/s"
    )
    for d in given.widths:
        model = Standard(d=d, layers=3, heads=max(1, d // 64))
        ways: dict[str, Callable[[], None]] = {
            "peer": plain(task, model, given.device, given.batch_size)
        }
        for way, settings in WAYS.items():
            run = training(task, model, given.device, given.batch_size, **settings)
            ways[way] = stepping(run)
        for step in ways.values():
            for _ in range(WARM_UP):
                step()
        rounds = [
            {way: steps_a_second(step, given.seconds, given.device) for way, step in ways.items()}
            for _ in range(given.rounds)
        ]
        line = f"{d:>5} {median(one['peer'] for one in rounds):>8.1f}  "
        for way in WAYS:
            ratios = [one[way] / one["peer"] for one in rounds]
            told = f"({median(ratios):.2f}: {min(ratios):.2f} to {max(ratios):.2f})"
            line += f"{median(one[way] for one in rounds):>8.1f} {told:>18} "
        best = max(median(one[way] for one in rounds) for way in WAYS)
        counted = costs(model, len(task.vocab), task.L, task.capacity)
        flops = best * train_flops(counted.flops, given.batch_size)
        line += f" {best * given.batch_size * task.L:>9.3g} {flops / 1e12:>7.2f}"
        print(line, flush=True)


def in_process(
    at_once: int, d: int, given: argparse.Namespace, settings: dict[str, Any], ready: Any, told: Any
) -> None:
    """Runs one of several trials on the card, and tells its steps a second."""
    prepare(given.device, 1 / at_once)
    task = LIS(n=given.n)
    model = Standard(d=d, layers=3, heads=max(1, d // 64))
    step = stepping(training(task, model, given.device, given.batch_size, **settings))
    for _ in range(WARM_UP):
        step()
    finish(given.device)
    ready.wait()
    told.put(steps_a_second(step, 4 * given.seconds, given.device))
    ready.wait()


@contextmanager
def watched(device: str) -> Iterator[list[float]]:
    """Within this block, collects what nvidia-smi says of the first card's utilisation, in
    percent."""
    seen: list[float] = []
    if device != "cuda":
        yield seen
        return
    wanted = ("--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
    asked = ["nvidia-smi", "-i", "0", *wanted]
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            said = subprocess.run(asked, capture_output=True, text=True, check=True)
            seen.append(float(said.stdout))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join()


def several_trials(given: argparse.Namespace) -> None:
    shared_by_turns(given)
    if given.device == "cuda" and shutil.which("nvidia-cuda-mps-control"):
        print("the same with NVIDIA's MPS")
        with sharing():
            shared_by_turns(given)
    else:
        print("with NVIDIA's MPS: not run, since it is not here")


def shared_by_turns(given: argparse.Namespace) -> None:
    print("several trials at once on one card, each a process with its share of the memory")
    print(f"{'d':>5} {'trials':>6} {'way':>9} {'steps/s each':>12} {'steps/s in all':>14} "
          f"{'tokens/s':>9} {'utilisation':>11}")  # fmt: skip
    spawning = multiprocessing.get_context("spawn")
    for d in given.widths[::3]:
        for way in ("ours", "recorded"):
            for at_once in given.trials:
                ready, told = spawning.Barrier(at_once + 1), spawning.Queue()
                args = (at_once, d, given, WAYS[way], ready, told)
                processes = [spawning.Process(target=in_process, args=args) for _ in range(at_once)]
                for process in processes:
                    process.start()
                ready.wait()
                with watched(given.device) as seen:
                    rates = [told.get() for _ in processes]
                ready.wait()
                for process in processes:
                    process.join()
                tokens = sum(rates) * given.batch_size * LIS(n=given.n).L
                used = f"{median(seen):.0f}%" if seen else "unknown"
                print(f"{d:>5} {at_once:>6} {way:>9} {median(rates):>12.1f} {sum(rates):>14.1f} "
                      f"{tokens:>9.3g} {used:>11}", flush=True)  # fmt: skip


@contextmanager
def sharing() -> Iterator[None]:
    """Runs NVIDIA's MPS of our own for the block."""
    with tempfile.TemporaryDirectory() as folder:
        own = {f"CUDA_MPS_{name}_DIRECTORY": folder for name in ("PIPE", "LOG")}
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env={**os.environ, **own}, check=True)
        os.environ |= own
        try:
            yield
        finally:
            subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", check=True)
            for name in own:
                del os.environ[name]


def launch(given: argparse.Namespace) -> int:
    """Four trials share a card through Ray. One lacks memory; the launch is killed and resumed."""
    print("a sweep on four shares of the card, killed once with SIGKILL, and resumed")
    gpus = 0.25 if given.device == "cuda" else 0
    with tempfile.TemporaryDirectory() as folder:
        text = GRID.replace("N,", f"{given.n},").replace("STEPS", str(given.steps))
        Path(folder, "hungry.py").write_text(HUNGRY)
        Path(folder, "grid.yaml").write_text(text.replace("GPUS", str(gpus)))

        def start(*command: str) -> subprocess.Popen[str]:
            return subprocess.Popen(
                [SWEEPD, *command],
                cwd=folder,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

        began = time.monotonic()
        first = start("launch", "grid.yaml", "--yes")
        while first.poll() is None and not [*Path(folder).glob("sweepd-results/checkpoints/*/*")]:
            time.sleep(0.1)
        if first.poll() is not None:
            told = first.communicate()[0]
            print(f"  WRONG: the launch ended before its first checkpoint:\n{told}", flush=True)
            return 1
        print(f"  first checkpoint after {time.monotonic() - began:.0f} s; killed")
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        said, _ = start("resume", "shares", "--yes").communicate()
        asked = "SELECT status, error, count(*) AS n FROM trials GROUP BY ALL"
        rows = json.loads(sweepd("sql", asked, "--json", "--results", f"{folder}/sweepd-results"))
        for row in rows:
            print(f"  {row['n']} {row['status']} {row['error'] or ''}")
        done = {row["status"]: row["n"] for row in rows}
        right = done == {"completed": 3, "failed": 1}
        told = "as it must be" if right else f"WRONG: {said[-2000:]}"
        print(f"  {told}, after {time.monotonic() - began:.0f} s", flush=True)
        return 0 if right else 1


def stacked(given: argparse.Namespace) -> None:
    print("models of one shape in one process: steps a second of each, and of all")
    print(
        f"{'d':>5} {'models':>6} {'alone, recorded':>16} {'stacked':>9} {'in all':>9} {'gain':>6}"
    )
    task = LIS(n=given.n)
    for d in given.widths[:3]:
        model = Standard(d=d, layers=3, heads=max(1, d // 64))
        run = stepping(training(task, model, given.device, given.batch_size, compile=True))
        for _ in range(WARM_UP):
            run()
        alone = steps_a_second(run, given.seconds, given.device)
        for count in given.models:
            step, x, y = stacked_step(task, model, count, given.batch_size, given.device)
            step = Recorded(step) if given.device == "cuda" else step
            run = partial(step, x, y)
            for _ in range(WARM_UP):
                run()
            each = steps_a_second(run, given.seconds, given.device)
            print(f"{d:>5} {count:>6} {alone:>16.1f} {each:>9.1f} {each * count:>9.1f} "
                  f"{each * count / alone:>6.2f}", flush=True)  # fmt: skip


def trained(task: Task, name: str, device: str, **settings: Any) -> list[torch.Tensor]:
    """Returns the weights after 40 steps."""
    model = find("model", name, Path())(d=32, layers=2, heads=2)
    run = training(task, model, device, steps=40, **settings)
    for _ in run.advance():
        pass
    return list(run.model.state_dict().values())


def prepare(device: str, gpus: float) -> None:
    """Does what a worker does before a trial of ours."""
    torch.set_num_threads(1)
    if device == "cuda":
        take_share(gpus)
        repeat(strictly=True)


def repeats(given: argparse.Namespace) -> None:
    print("after 40 steps, twice the same: are the weights the same to the last bit?")
    print(f"{'model':<10} {'task':<14} precision  twice  recorded")
    for entry in shipped("model"):
        for task in (LIS(n=given.n), AdaptiveMemory()):
            for precision in ("fp32", "bf16"):
                one, other, recorded = (
                    trained(task, entry.name, given.device, precision=precision, compile=by_graph)
                    for by_graph in (False, False, True)
                )
                twice, graph = (
                    "yes" if all(map(torch.equal, one, them)) else "NO"
                    for them in (other, recorded)
                )
                task_name = type(task).__name__
                print(
                    f"{entry.name:<10} {task_name:<14} {precision:<9}  {twice:<5}  {graph}",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="some of the above; default: all")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--widths", type=int, nargs="+", default=[32, 64, 128, 256, 512, 1024])
    parser.add_argument("--trials", type=int, nargs="+", default=[1, 4, 8, 16])
    parser.add_argument("--models", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--steps", type=int, default=3000, help="of the trials of `launch`")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    given = parser.parse_args()
    if given.device == "cuda":
        if not torch.cuda.is_available():
            raise SystemExit("this machine has no GPU that torch can use; nothing was measured")
        print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}")
    began = time.monotonic()
    parts: dict[str, Callable[[argparse.Namespace], int | None]] = {
        "launch": launch,  # first, since it alone must find the card free
        "steps": compare_steps,
        "trials": several_trials,
        "stacked": stacked,
        "repeats": repeats,
    }
    wrong = 0
    for part in given.parts or parts:
        if time.monotonic() > began + 60 * given.minutes:
            print(f"{part}: left out, since the time is over")
            continue
        if part != "launch":
            prepare(given.device, 1.0)
        wrong = parts[part](given) or wrong
    sys.exit(wrong)


if __name__ == "__main__":
    main()
