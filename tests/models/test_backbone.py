"""The transformer that all architectures share. It is causal, and decoding gives the same as the
full pass. Rows may leave a batch, and dropout works."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.models._backbone import Transformer, rotated, sinusoids
from sweepd.models.base import TransformerArchitecture
from sweepd.models.delta import Delta
from sweepd.models.dot_free import DotFree
from sweepd.models.gla import Gla
from sweepd.models.hybrid import Hybrid
from sweepd.models.lin_rpe import LinRpe
from sweepd.models.linear import Linear
from sweepd.models.log_rpe import LogRpe
from sweepd.models.mamba2 import Mamba2
from sweepd.models.sparse import Sparse
from sweepd.models.standard import Standard
from sweepd.models.tmx import Tmx
from sweepd.models.window import Window

VOCAB, CAPACITY = 13, 150

ARCHITECTURES = [
    Standard(16, layers=2), Standard(16, layers=2, positions="rotary"), Linear(16, layers=2),
    Linear(16, layers=2, feature_map="relu", positions="none"), Sparse(16, layers=2),
    Sparse(16, layers=2, heads=2, block=6, k=2, c=3, positions="learned"),
    Sparse(16, layers=2, block=5, c=5), Sparse(16, layers=2, block=1),
    Sparse(16, layers=2, positions="rotary"), LinRpe(16, layers=2), LogRpe(16, layers=2, heads=2),
    LogRpe(16, layers=2, positions="rotary"), DotFree(16, layers=2),
    DotFree(16, layers=2, heads=2, rpe="lin", positions="learned"), Tmx(16, layers=2),
    Tmx(16, layers=2, heads=2, rpe="lin"), Window(16, layers=2, width=5),
    Window(16, layers=2, width=60, positions="rotary"), Gla(16, layers=2),
    Gla(16, layers=2, heads=2, gate="fixed"), Delta(16, layers=2),
    Delta(16, layers=2, heads=2, negative_eigenvalues=True), Mamba2(16, layers=2),
    Mamba2(16, layers=2, heads=2, state=5), Hybrid(16, layers=3, mixers="linear window(width=8)"),
]  # fmt: skip
every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES, ids=repr)


def built(architecture: TransformerArchitecture, L: int = 50) -> Transformer:
    generator = torch.Generator().manual_seed(0)
    return architecture.build(VOCAB, L, CAPACITY, generator).double().eval()


def tokens(rows: int, length: int) -> torch.Tensor:
    return torch.randint(VOCAB, (rows, length), generator=torch.Generator().manual_seed(1))


@every_architecture
def test_a_later_token_changes_no_earlier_output(architecture: TransformerArchitecture) -> None:
    model, rows = built(architecture), tokens(1, CAPACITY)
    for at in (0, 1, 63, 64, 100, CAPACITY - 1):
        changed = rows.clone()
        changed[0, at] = (rows[0, at] + 1) % VOCAB
        before, after = model(rows), model(changed)
        torch.testing.assert_close(before[:, :at], after[:, :at])
        assert not torch.allclose(before[:, at], after[:, at])


@every_architecture
def test_a_prefix_gives_the_same_logits(architecture: TransformerArchitecture) -> None:
    model, rows = built(architecture), tokens(2, CAPACITY)
    full = model(rows)
    for length in (1, 31, 64, 65, 97):
        torch.testing.assert_close(model(rows[:, :length]), full[:, :length])


@every_architecture
@settings(max_examples=8)
@given(lengths=st.lists(st.integers(0, 60), min_size=1, max_size=4), steps=st.integers(1, 80))
def test_decoding_equals_the_full_pass(
    architecture: TransformerArchitecture, lengths: list[int], steps: int
) -> None:
    """The rows are at different positions, their prompts are padded with rubbish, and one row
    leaves half-way."""
    model, rows = built(architecture), torch.arange(len(lengths))
    sequence = tokens(len(lengths), CAPACITY)
    with torch.no_grad():
        full = model(sequence)
        position = torch.tensor(lengths)
        prompts = sequence[:, : max([1, *lengths])]
        rubbish = torch.arange(prompts.size(1)) >= position[:, None]
        state = model.prefill(prompts.masked_fill(rubbish, 0), position)
        for step in range(steps):
            if step == steps // 2 and len(rows) > 1:
                state = state.select(torch.arange(1, len(rows)))
                rows, position = rows[1:], position[1:]
            logits = model.step(sequence[rows, position], state)
            torch.testing.assert_close(logits, full[rows, position])
            position = position + 1
            assert torch.equal(state.position, position)


@every_architecture
def test_selected_rows_are_copies_in_the_order_asked_for(
    architecture: TransformerArchitecture,
) -> None:
    model, rows = built(architecture), tokens(3, 40)
    with torch.no_grad():
        state = model.prefill(rows, torch.tensor([40, 7, 20]))
        swapped = state.select(torch.tensor([2, 0]))
        kept = state.select(torch.tensor([True, False, True]))
        first = model.step(torch.tensor([1, 2, 3]), state)
        torch.testing.assert_close(model.step(torch.tensor([3, 1]), swapped), first[[2, 0]])
        torch.testing.assert_close(model.step(torch.tensor([1, 3]), kept), first[[0, 2]])
    assert state.position.tolist() == [41, 8, 21]
    assert swapped.position.tolist() == [21, 41]


@every_architecture
def test_bfloat16_autocast_stays_near(architecture: TransformerArchitecture) -> None:
    model, rows = built(architecture).float(), tokens(2, 100)
    with torch.no_grad():
        exact = model(rows)
        with torch.autocast("cpu", torch.bfloat16):
            rough = model(rows)
            state = model.prefill(rows[:, :90], torch.tensor([90, 50]))
            stepped = model.step(rows[[0, 1], [90, 50]], state)
    # Keys of length 1 are short vectors scaled up, and the rounding of these with them.
    atol = 0.2 if isinstance(architecture, Delta) else 0.1
    torch.testing.assert_close(rough.float(), exact, atol=atol, rtol=0)
    torch.testing.assert_close(stepped.float(), exact[[0, 1], [90, 50]], atol=atol, rtol=0)


def test_dropout_is_random_in_training_only() -> None:
    model, rows = built(Standard(16, dropout=0.5)), tokens(1, 10)
    assert torch.equal(model(rows), model(rows))
    model.train()
    assert not torch.allclose(model(rows), model(rows))


def test_sinusoids_are_those_of_the_paper() -> None:
    table = sinusoids(50, 6)
    for position in (0, 1, 49):
        for i in range(3):
            angle = torch.tensor(position / 10000 ** (2 * i / 6))
            torch.testing.assert_close(table[position, 2 * i], angle.sin())
            torch.testing.assert_close(table[position, 2 * i + 1], angle.cos())
    assert sinusoids(4, 3).shape == (4, 3)


@settings(max_examples=20)
@given(query=st.integers(0, 90), key=st.integers(0, 90), shift=st.integers(0, 9))
def test_rotation_multiplies_pairs_as_complex_numbers(query: int, key: int, shift: int) -> None:
    """This is the form of Su et al. It makes products depend on differences of positions only."""
    q, k = torch.randn(2, 6, dtype=torch.float64)
    waves = sinusoids(100, 6).double()
    theta = 10000 ** (-torch.arange(0, 6, 2) / 6)
    q_C, k_C = (torch.view_as_complex(x.unflatten(0, (3, 2))) for x in (q, k))
    slow = (q_C * k_C.conj() * torch.exp(1j * (query - key) * theta)).sum().real
    for at in (0, shift):
        fast = rotated(q, waves[query + at]) @ rotated(k, waves[key + at])
        torch.testing.assert_close(fast, slow, atol=1e-4, rtol=0)


def test_rotary_queries_and_keys_are_turned_and_values_are_not() -> None:
    plain = Standard(16).attention(20, 30)
    turning = Standard(16).attention(20, 30)
    turning.load_state_dict(plain.state_dict())
    turning.rotate(30)
    x = torch.randn(2, 20, 16)
    q, k, v = plain.split(x)
    waves = sinusoids(30, 4)[:20]
    for found, expected in zip(
        turning.split(x), (rotated(q, waves), rotated(k, waves), v), strict=True
    ):
        torch.testing.assert_close(found, expected)


def test_positions_are_not_stored_in_checkpoints_unless_learned() -> None:
    stored = {
        kind: [
            name
            for name in built(Standard(16, positions=kind)).state_dict()
            if name.endswith(("position", "rotation"))
        ]
        for kind in ("sinusoidal", "learned", "rotary", "none")
    }
    assert stored == {"sinusoidal": [], "learned": ["position"], "rotary": [], "none": []}
    for architecture in (Sparse(16), Tmx(16)):
        names = built(architecture).state_dict()
        assert not any(name.endswith(("mask", "waves", "keys")) for name in names)
