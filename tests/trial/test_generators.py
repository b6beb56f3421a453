"""Seeds of torch's generators: `seed_torch` sets the same state as `torch.manual_seed`, which it
replaces."""

from __future__ import annotations

import pytest
import torch

from sweepd.trial.generators import seed_torch


@pytest.mark.parametrize("seed", [0, 1, 2**32 + 5, 2**63 - 1])
def test_it_gives_the_numbers_of_torch_s_own(seed: int) -> None:
    before = torch.get_rng_state()
    torch.manual_seed(seed)
    expected = torch.rand(7), torch.nn.functional.dropout(torch.ones(50))
    for device in (None, torch.device("cpu")):
        torch.rand(3)
        seed_torch(seed, device)
        found = torch.rand(7), torch.nn.functional.dropout(torch.ones(50))
        assert all(map(torch.equal, found, expected))
    torch.set_rng_state(before)
