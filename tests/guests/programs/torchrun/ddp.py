"""Two processes of torchrun train one layer by gloo. The first of them reports."""

import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import sweepd

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int)
parser.add_argument("--steps", type=int)
parser.add_argument("--seed", type=int)
args = parser.parse_args()

dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(args.seed)
model = DistributedDataParallel(torch.nn.Linear(args.width, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(args.seed + dist.get_rank())  # each has data of its own
for step in range(1, args.steps + 1):
    inputs = torch.randn(64, args.width)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach()
    dist.all_reduce(total)
    if dist.get_rank() == 0 and step % 10 == 0:
        sweepd.report(step=step, loss=total.item() / dist.get_world_size())
dist.destroy_process_group()
