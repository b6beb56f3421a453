"""A GPT over characters, as nanoGPT has one. It saves itself when it looks at its loss and at
SIGTERM, and goes on from there."""

import argparse
import json
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--n-embd", type=int, required=True)
parser.add_argument("--n-head", type=int, default=2)
parser.add_argument("--block-size", type=int, default=16)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--lr", type=float, default=1e-2)
parser.add_argument("--max-iters", type=int, default=40)
parser.add_argument("--eval-interval", type=int, default=10)
parser.add_argument("--seed", type=int, default=1337)
parser.add_argument("--out-dir", type=Path, required=True)
parser.add_argument("--pause", type=float, default=0.0)
args = parser.parse_args()

torch.manual_seed(args.seed)
torch.set_num_threads(1)
text = Path("input.txt").read_text()
characters = sorted(set(text))
data = torch.tensor([characters.index(character) for character in text])


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        split = (*x.shape[:2], self.heads, -1)
        q, k, v = (
            part.view(split).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, 2)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.between(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(len(characters), args.n_embd)
        self.places = nn.Embedding(args.block_size, args.n_embd)
        self.blocks = nn.Sequential(Block(args.n_embd, args.n_head), nn.LayerNorm(args.n_embd))
        self.head = nn.Linear(args.n_embd, len(characters))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.tokens(ids) + self.places.weight[: ids.shape[1]]))


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
at, first = args.out_dir / "ckpt.pt", 0
if at.exists():
    state = torch.load(at)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["generator"])
    first = state["iter"]
    print(f"resumed at {first}")


def save(done: int) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**state, "generator": torch.get_rng_state(), "iter": done}, args.out_dir / "new")
    (args.out_dir / "new").replace(at)
    (args.out_dir / "checkpoint").write_text(str(done))


asked_to_end = False


def end(*_: object) -> None:
    global asked_to_end
    asked_to_end = True


signal.signal(signal.SIGTERM, end)
for iteration in range(first + 1, args.max_iters + 1):
    starts = torch.randint(len(data) - args.block_size, (args.batch_size, 1))
    ids = data[starts + torch.arange(args.block_size + 1)]
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    time.sleep(args.pause)
    if iteration % args.eval_interval == 0:
        print(f"iter {iteration}: loss {loss.item():.4f}")
        print(json.dumps({"step": iteration, "loss": loss.item()}))
    if asked_to_end or iteration % args.eval_interval == 0:
        save(iteration)
    if asked_to_end:
        sys.exit(1)
