"""Our AdamW computes the same numbers as torch's, also after it is continued from a snapshot. It
does not load torch's compiler."""

from __future__ import annotations

import io
import subprocess
import sys
from functools import partial

import torch
from torch.nn import functional as F

from sweepd.trial.training import AdamW


def trained(optimizer: type[torch.optim.AdamW], steps: int = 20) -> list[torch.Tensor]:
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


def test_the_numbers_are_those_of_torch() -> None:
    ours, theirs = trained(AdamW), trained(torch.optim.AdamW)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


TRAIN = """
import sys
from sweepd.grid.settings import Evaluate, Stop, Train
from sweepd.models.standard import Standard
from sweepd.tasks.lis import LIS
from sweepd.trial.training import Training

train, evaluate = Train(steps=2, batch_size=4), Evaluate(check_samples=8, verdict_samples=8)
model = Standard(d=4, layers=1, heads=1, dropout=0.1)
for _ in Training(LIS(n=2), model, train, evaluate, Stop(), 0, 1.0, "cpu").advance():
    pass
assert "torch._dynamo" not in sys.modules
"""


def test_a_trial_does_not_load_the_compiler() -> None:
    subprocess.run([sys.executable, "-c", TRAIN], check=True)
