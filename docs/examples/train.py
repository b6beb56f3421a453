"""A script that knows nothing of sweepd but its rows: a network of one layer tells blobs apart."""

import argparse
import json
from pathlib import Path

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int)
parser.add_argument("--lr", type=float)
parser.add_argument("--classes", type=int)
parser.add_argument("--steps", type=int)
parser.add_argument("--seed", type=int)
parser.add_argument("--dir", type=Path)
args = parser.parse_args()

torch.manual_seed(args.seed)
centres = torch.randn(args.classes, 16)
model = torch.nn.Sequential(
    torch.nn.Linear(16, args.width), torch.nn.ReLU(), torch.nn.Linear(args.width, args.classes)
)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
saved, first = args.dir / "state.pt", 1
if saved.exists():  # go on from there
    state = torch.load(saved)
    model.load_state_dict(state["model"])
    first = state["step"] + 1


def batch(rows):
    labels = torch.randint(args.classes, (rows,))
    return centres[labels] + torch.randn(rows, 16), labels


for step in range(first, args.steps + 1):
    inputs, labels = batch(64)
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == args.steps:
        inputs, labels = batch(500)
        acc = (model(inputs).argmax(1) == labels).float().mean().item()
        print(json.dumps({"step": step, "acc": acc, "loss": loss.item(), "total": 500}))
        torch.save({"model": model.state_dict(), "step": step}, args.dir / "new")
        (args.dir / "new").replace(saved)
        (args.dir / "checkpoint").write_text(str(step))  # says: the folder may be kept
