"""Sparse and linear attention beside the dense products they replace, forward and backward.

    OMP_NUM_THREADS=1 python benchmarks/attention.py [--rounds 9] [--device cpu] [--longest 2048]

sparse: tiles of queries, against causal scaled dot-product attention over all keys. linear: chunks,
against the same sum with its (T, T) weights masked. Both sides alternate in one run. A line gives
the median milliseconds of each and how many times faster ours is. On the CPU these are milliseconds
of processor time, so that a busy machine matters less.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from sweepd.models.base import Architecture
from sweepd.models.linear import Linear, elu_features
from sweepd.models.sparse import Sparse

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


PEERS: list[tuple[str, type[Architecture], Attend]] = [
    ("sparse", Sparse, dense_softmax),
    ("linear", Linear, dense_linear),
]


def milliseconds(attend: Attend, qkv: Tensor) -> float:
    """Returns the milliseconds of one forward and backward pass, from a fused projection's output
    (B, T, 3, H, E)."""
    qkv = qkv.detach().requires_grad_()
    q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
    clock = time.perf_counter if qkv.is_cuda else time.process_time
    started = clock()
    torch.autograd.grad(attend(q, k, v).sum(), qkv)
    if qkv.is_cuda:
        torch.cuda.synchronize()
    return 1000 * (clock() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--longest", type=int, default=2048, help="leave out longer sequences")
    arguments = parser.parse_args()
    print(f"{'model':8} {'T':>5} {'E':>3} {'ours ms':>9} {'dense ms':>9} {'ratio':>6}")
    for name, kind, dense in PEERS:
        for T, E in (shape for shape in SHAPES if shape[0] <= arguments.longest):
            attention = kind(HEADS * E, heads=HEADS).attention(L=T, capacity=T)
            ours = attention.to(arguments.device).attend
            qkv = torch.randn(max(1, TOKENS // T), T, 3, HEADS, E, device=arguments.device)
            milliseconds(ours, qkv), milliseconds(dense, qkv)  # warm up
            times = [
                (milliseconds(ours, qkv), milliseconds(dense, qkv)) for _ in range(arguments.rounds)
            ]
            fast, slow = (statistics.median(column) for column in zip(*times, strict=True))
            print(f"{name:8} {T:5} {E:3} {fast:9.2f} {slow:9.2f} {slow / fast:6.2f}", flush=True)


if __name__ == "__main__":
    main()
