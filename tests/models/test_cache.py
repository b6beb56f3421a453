"""The cache of keys and values: it is enlarged rarely, and keeps what it holds."""

import torch

from sweepd.models._cache import widened


def test_the_cache_grows_by_half_and_keeps_what_it_holds() -> None:
    cache = torch.randn(2, 4, 10, 8)
    assert widened(cache, 10) is cache
    wider = widened(cache, 11)
    assert wider.shape == (2, 4, 15, 8)
    assert torch.equal(wider[:, :, :10], cache)
    assert widened(cache, 40).size(2) == 40
