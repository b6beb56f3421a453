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
from torch.func import functional_call, stack_module_state, vmap

from sweepd.grid.settings import Train
from sweepd.models.linear import Linear
from sweepd.models.sparse import Sparse
from sweepd.models.standard import Standard
from sweepd.tasks.base import Split
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
    task, seeds = LIS(n=n, value_range=16), range(trials)
    model = kind(d=d, layers=2, heads=2, positions="learned")

    def build(seed: int) -> torch.nn.Module:
        drawn = torch.Generator().manual_seed(seed)
        return model.build(len(task.vocab), task.L, task.capacity, drawn)

    batches = [task.batch(np.random.default_rng(seed), 64, Split.TRAIN) for seed in seeds]
    inputs = torch.stack([torch.from_numpy(batch.inputs) for batch in batches])
    targets = torch.stack([torch.from_numpy(batch.targets) for batch in batches])
    nets = [build(seed) for seed in seeds]
    optimizers = [AdamW(net.parameters(), lr=1e-3, fused=True) for net in nets]

    def alone() -> None:
        for net, optimizer, x, y in zip(nets, optimizers, inputs, targets, strict=True):
            updated(net, optimizer, TRAIN, x, y)

    frozen, buffers = stack_module_state([build(seed) for seed in seeds])
    weights = {name: each.detach().clone().requires_grad_() for name, each in frozen.items()}
    shape = build(0).to("meta")
    optimizer = AdamW(list(weights.values()), lr=1e-3, fused=True)

    def loss_of_one(
        own: dict[str, torch.Tensor],
        fixed: dict[str, torch.Tensor],
        x: torch.Tensor,
        y: torch.Tensor,
    ) -> torch.Tensor:
        return loss_of(functional_call(shape, (own, fixed), (x,)), y)

    def stacked() -> None:
        losses = vmap(loss_of_one)(weights, buffers, inputs, targets)
        optimizer.zero_grad()
        losses.sum().backward()
        gradients = [each.grad for each in weights.values() if each.grad is not None]
        norms = torch.stack([each.flatten(1).norm(dim=1) for each in gradients]).norm(dim=0)
        scale = (TRAIN.clip / (norms + 1e-6)).clamp(max=1.0)
        for each in gradients:
            each.mul_(scale.view(-1, *[1] * (each.dim() - 1)))
        optimizer.step()

    return stacked, alone


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
