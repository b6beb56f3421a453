"""Sparse attention: its tiles compute the masked equation. Also tested are the rule for B, and its
pairs, which are counted one by one."""

import pytest
import torch
from gradients import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.models.sparse import SHORT, BlockRule, Sparse, SparseAttention

sizes = {
    "block": st.integers(1, 24),
    "k": st.integers(1, 3),
    "c_share": st.floats(0, 1),
    "T": st.integers(1, 200),
}


def attended(i: int, block: int, k: int, c: int) -> set[int]:
    """Keys of query i, all 1-based: the definition, word for word."""
    local = {j for j in range(1, i + 1) if i - k * block < j <= i}
    summaries = {j for j in range(1, i + 1) if (j - 1) % block >= block - c}
    return local | summaries


def mask(T: int, block: int, k: int, c: int) -> torch.Tensor:
    visible = torch.zeros(T, T, dtype=torch.bool)
    for i in range(1, T + 1):
        visible[i - 1, [j - 1 for j in attended(i, block, k, c)]] = True
    return visible


def summaries_in(block: int, c_share: float) -> int:
    return max(1, round(c_share * block))


@settings(max_examples=60)
@given(**sizes, heads=st.sampled_from([1, 2]), head_dim=st.sampled_from([1, 3, 8]))
def test_tiles_equal_the_masked_equation(
    block: int, k: int, c_share: float, T: int, heads: int, head_dim: int
) -> None:
    c = summaries_in(block, c_share)
    layer = SparseAttention(heads * head_dim, heads, block, k, c, capacity=T + T % 7).double()
    qkv = torch.randn(3, 2, heads, T, head_dim, dtype=torch.float64, requires_grad=True)
    q, k_, v = qkv
    scores = (q @ k_.mT / head_dim**0.5).masked_fill(~mask(T, block, k, c), -torch.inf)
    fast, slow = layer.attend(q, k_, v), scores.softmax(-1) @ v
    assert_same(fast, slow, [qkv])


@pytest.mark.parametrize("T", [40, 150])
def test_a_block_of_the_whole_length_is_standard_attention(T: int) -> None:
    layer = Sparse(d=16, block=150).attention(L=150, capacity=150)
    q, k, v = torch.randn(3, 2, 4, T, 4)
    full = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(layer.attend(q, k, v), full)


@settings(max_examples=40)
@given(**sizes)
def test_costs_are_the_attended_pairs(block: int, k: int, c_share: float, T: int) -> None:
    L, c, d = max(T, block), summaries_in(block, c_share), 4
    architecture = Sparse(d=d, block=block, k=k, c=c)
    pairs = sum(len(attended(i, block, k, c)) for i in range(1, L + 1))
    assert [flops for _, flops in architecture.attention_flops(L)] == [2 * d * pairs] * 2
    ring = range(max(1, L - k * block + 1), L + 1)
    kept = attended(L, block, k, c) | set(ring)
    assert architecture.memory_floats(L) == 2 * d * len(kept)


def test_work_grows_as_the_window_and_the_summaries_do() -> None:
    """The number of keys that a query is multiplied with is never the length, except in one short
    tile."""
    for L in (505, 2048, 8192):
        layer = Sparse(d=4, heads=1).attention(L, capacity=L)
        assert isinstance(layer, SparseAttention)
        window, keys = (
            layer.window,
            layer.keys_of_tiles(torch.randn(1, 1, L, 4), -(-L // layer.tile)),
        )
        assert keys.size(3) <= 3 * window + L // layer.block
        assert layer.short == max(SHORT, 2 * window)


def test_the_block_follows_the_tasks_length() -> None:
    published = {87: 8, 221: 8, 355: 16, 505: 16}
    others = {1: 1, 3: 1, 4: 2, 15: 2, 16: 4, 63: 4, 64: 8, 1024: 32}
    for L, block in (published | others).items():
        assert Sparse(d=8).block_at(L) == block
    assert Sparse(d=8, block=5).block_at(87) == 5


def test_impossible_values_are_refused() -> None:
    for wrong in ({"block": 0}, {"k": 0}, {"c": 0}):
        with pytest.raises(ValueError, match="must be at least 1"):
            Sparse(d=8, **wrong)  # type: ignore[arg-type]
    generator = torch.Generator()
    with pytest.raises(ValueError, match="block = 30 is larger than L = 20"):
        Sparse(d=8, block=30).build(vocab=5, L=20, capacity=40, generator=generator)
    with pytest.raises(ValueError, match="c = 5 is larger than the block, 4 at L = 20"):
        Sparse(d=8, c=5).build(vocab=5, L=20, capacity=40, generator=generator)


def test_a_block_may_keep_its_ratio_to_the_root_of_the_length() -> None:
    assert [Sparse(d=8).block_at(L) for L in (15, 16, 64)] == [2, 4, 8]
    rule = Sparse(d=8, block=BlockRule(of_sqrt=1))
    assert [rule.block_at(L) for L in (1, 15, 16, 19, 64)] == [1, 4, 4, 4, 8]
    assert Sparse(d=8, block=BlockRule(of_sqrt=2)).block_at(64) == 16
    with pytest.raises(ValueError, match="must be above 0"):
        BlockRule(of_sqrt=0)
