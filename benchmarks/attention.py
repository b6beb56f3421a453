"""How positions meet in a model, beside the plain form of the same, forward and backward.

    OMP_NUM_THREADS=1 python benchmarks/attention.py [--rounds 9] [--device cpu] [--longest 2048]

sparse and window: tiles of queries, against scaled dot-product attention over all keys, causal or
masked. linear: chunks, against the same sum with its (T, T) weights masked. gla, delta and mamba2:
chunks of a whole layer, against the layer's own steps, one position after the other; lstm: torch's,
against the same. The layers of hybrid are these. Both sides alternate in one run. A line gives the
median milliseconds of each and how many times faster ours is. On the CPU these are milliseconds of
processor time, so that a busy machine matters less.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from sweepd.models.base import Attention, Mixer, Recurrence, TransformerArchitecture
from sweepd.models.delta import Delta
from sweepd.models.gla import Gla
from sweepd.models.linear import Linear, elu_features
from sweepd.models.mamba2 import Mamba2
from sweepd.models.sparse import Sparse
from sweepd.models.window import Window

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]

TOKENS = 4096
"""Tokens a batch, whatever their length."""
HEADS = 4
SHAPES = [(23, 8), (87, 8), (221, 16), (505, 8), (505, 32), (2048, 32)]
"""(T, head dim)"""


def dense_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def dense_linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (elu_features(q) @ elu_features(k).mT).tril()
    return (weights @ v) / weights.sum(-1, keepdim=True)


def dense_window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    age = torch.arange(q.size(2), device=q.device)[:, None] - torch.arange(q.size(2))
    near = (age >= 0) & (age < Window.width)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=near)


DENSE: list[tuple[type[TransformerArchitecture], Attend]] = [
    (Sparse, dense_softmax),
    (Linear, dense_linear),
    (Window, dense_window),
]
STEPPED: list[type[TransformerArchitecture]] = [Gla, Delta, Mamba2]


def step_by_step(layer: Mixer, x_BTD: Tensor) -> Tensor:
    _, memory = layer.prefill(x_BTD[:, :1], torch.zeros(len(x_BTD), dtype=torch.long))
    reads = []
    for t in range(x_BTD.size(1)):
        read_BD, memory = layer.step(x_BTD[:, t], memory, torch.full((len(x_BTD),), t))
        reads.append(read_BD)
    return torch.stack(reads, dim=1)


def one_by_one(lstm: nn.LSTM, x_BTD: Tensor) -> Tensor:
    reads, state = [], None
    for t in range(x_BTD.size(1)):
        read_B1D, state = lstm(x_BTD[:, t : t + 1], state)
        reads.append(read_B1D)
    return torch.cat(reads, dim=1)


def milliseconds(run: Callable[[Tensor], Tensor], inputs: Tensor) -> float:
    """Returns the milliseconds of one forward and backward pass."""
    inputs = inputs.detach().requires_grad_()
    clock = time.perf_counter if inputs.is_cuda else time.process_time
    started = clock()
    torch.autograd.grad(run(inputs).sum(), inputs)
    if inputs.is_cuda:
        torch.cuda.synchronize()
    return 1000 * (clock() - started)


def of_parts(attend: Attend) -> Callable[[Tensor], Tensor]:
    """Returns `attend` of a fused projection's output (B, T, 3, H, E)."""
    return lambda qkv: attend(*(part.transpose(1, 2) for part in qkv.unbind(2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--longest", type=int, default=2048, help="leave out longer sequences")
    arguments = parser.parse_args()
    rounds, device = arguments.rounds, arguments.device
    print(f"{'model':8} {'T':>5} {'E':>3} {'ours ms':>9} {'plain ms':>9} {'ratio':>6}")

    def line(name: str, T: int, E: int, inputs: Tensor, *sides: Callable[[Tensor], Tensor]) -> None:
        for side in sides:
            milliseconds(side, inputs)  # warm up
        times = [[milliseconds(side, inputs) for side in sides] for _ in range(rounds)]
        ours, plain = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"{name:8} {T:5} {E:3} {ours:9.2f} {plain:9.2f} {plain / ours:6.2f}", flush=True)

    for T, E in (shape for shape in SHAPES if shape[0] <= arguments.longest):
        rows, d = max(1, TOKENS // T), HEADS * E
        for kind, dense in DENSE:
            attention = kind(d, heads=HEADS).attention(L=T, capacity=T).to(device)
            assert isinstance(attention, Attention)
            qkv = torch.randn(rows, T, 3, HEADS, E, device=device)
            line(kind.__name__.lower(), T, E, qkv, of_parts(attention.attend), of_parts(dense))
        for kind in STEPPED:
            layer = kind(d, heads=HEADS).attention(L=T, capacity=T).to(device)
            assert isinstance(layer, Recurrence)
            layer.initialise(torch.Generator().manual_seed(0))
            x = torch.randn(rows, T, d, device=device)
            line(kind.__name__.lower(), T, E, x, layer, partial(step_by_step, layer))
        lstm = nn.LSTM(d, d, batch_first=True).to(device)
        x = torch.randn(rows, T, d, device=device)
        line("lstm", T, E, x, lambda x: lstm(x)[0], partial(one_by_one, lstm))  # noqa: B023


if __name__ == "__main__":
    main()
