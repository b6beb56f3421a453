"""Several trials of one shape in one process: with their weights stacked, and one after the other.

    python benchmarks/stacked.py

The seeds and rates of a cell share every shape, so one call could train them together: `vmap` over
stacked weights, on batches of their own, each with its own clipping. This measures what that would
gain on one core, for models up to d = 32 and rows of up to 23 tokens. It measures forward pass,
backward pass, clipping and AdamW. It leaves out data and checks, which stacking does not change.
The peer trains the same trials one after the other, a step each, as sweepd does. Rounds alternate.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from sweepd.grid.settings import Train
from sweepd.models.base import Model
from sweepd.models.linear import Linear
from sweepd.models.sparse import Sparse
from sweepd.models.standard import Standard
from sweepd.tasks.base import Split, Task
from sweepd.tasks.lis import LIS
from sweepd.trial.evaluation import loss_of
from sweepd.trial.training import AdamW, updated

STEPS = 10
"""In a round, of each trial."""
TRAIN = Train()
MODELS = (Standard, Linear, Sparse)


def steps(
    kind: type[Standard] | type[Linear] | type[Sparse], d: int, n: int, trials: int
) -> tuple[Callable[[], None], Callable[[], None]]:
    """Returns two functions that each take a step of all trials: stacked, and one after the
    other."""
    task = LIS(n=n, value_range=16)
    model = kind(d=d, layers=2, heads=2, positions="learned")
    step, inputs, targets = stacked_step(task, model, trials, 64)
    nets = [built(task, model, seed) for seed in range(trials)]
    optimizers = [AdamW(net.parameters(), lr=1e-3, fused=True) for net in nets]

    def stacked() -> None:
        step(inputs, targets)

    def alone() -> None:
        for net, optimizer, x, y in zip(nets, optimizers, inputs, targets, strict=True):
            updated(net, optimizer, TRAIN, x, y)

    return stacked, alone


def built(task: Task, model: Model, seed: int) -> nn.Module:
    drawn = torch.Generator().manual_seed(seed)
    return model.build(len(task.vocab), task.L, task.capacity, drawn)


def stacked_step(
    task: Task, model: Model, trials: int, batch_size: int, device: str = "cpu"
) -> tuple[Callable[[Tensor, Tensor], Tensor], Tensor, Tensor]:
    """Returns a step of that many trials at once, and a batch for each: inputs and targets (trials,
    rows, T). The step returns the sum of the losses before it."""
    batches = [
        task.batch(np.random.default_rng(seed), batch_size, Split.TRAIN) for seed in range(trials)
    ]
    inputs = torch.stack([torch.from_numpy(batch.inputs) for batch in batches]).to(device)
    targets = torch.stack([torch.from_numpy(batch.targets) for batch in batches]).to(device)
    frozen, buffers = stack_module_state(
        [built(task, model, seed).to(device) for seed in range(trials)]
    )
    weights = {name: each.detach().clone().requires_grad_() for name, each in frozen.items()}
    shape = built(task, model, 0).to("meta")
    on_card = device == "cuda"
    optimizer = AdamW(list(weights.values()), lr=1e-3, fused=True, capturable=on_card)

    def loss_of_one(
        own: dict[str, Tensor], fixed: dict[str, Tensor], x: Tensor, y: Tensor
    ) -> Tensor:
        return loss_of(functional_call(shape, (own, fixed), (x,)), y)

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        losses = vmap(loss_of_one)(weights, buffers, inputs, targets)
        optimizer.zero_grad()
        losses.sum().backward()
        gradients = [each.grad for each in weights.values() if each.grad is not None]
        norms = torch.stack([each.flatten(1).norm(dim=1) for each in gradients]).norm(dim=0)
        scale = (TRAIN.clip / (norms + 1e-6)).clamp(max=1.0)
        for each in gradients:
            each.mul_(scale.view(-1, *[1] * (each.dim() - 1)))
        optimizer.step()
        total: Tensor = losses.detach().sum()
        return total

    return step, inputs, targets


def seconds(step: Callable[[], None]) -> float:
    started = time.process_time()
    for _ in range(STEPS):
        step()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=6, help="how many are stacked")
    parser.add_argument("--widths", type=int, nargs="+", default=[4, 8, 16, 32])
    parser.add_argument("--sizes", type=int, nargs="+", default=[6, 10])
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{given.trials} trials stacked, times as fast as one after the other (CPU time)")
    for kind in MODELS:
        for d in given.widths:
            for n in given.sizes:
                stacked, alone = steps(kind, d, n, given.trials)
                seconds(stacked), seconds(alone)
                ratios = []
                for _ in range(given.rounds):
                    slow = seconds(alone)
                    ratios.append(slow / seconds(stacked))
                print(
                    f"{kind.__name__:<9} d={d:<3} n={n:<3} {median(ratios):.2f} times "
                    f"({min(ratios):.2f} to {max(ratios):.2f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
