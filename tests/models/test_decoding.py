"""Decoding that computes the whole prefix again for each token. It is the slow twin of every
model's own `step`."""

import pytest
import torch
from torch import Tensor, nn

from sweepd.models._decoding import Rerun
from sweepd.models.base import Architecture, decoder
from sweepd.models.linear import Linear
from sweepd.models.sparse import Sparse
from sweepd.models.standard import Standard
from sweepd.models.tmx import Tmx

VOCAB, CAPACITY = 13, 40


class Sums(nn.Module):
    """Causal without a `step`: the logits are running sums of embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, VOCAB)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        logits_BTV: Tensor = self.embedding(tokens_BT).cumsum(1)
        return logits_BTV


def test_a_model_that_steps_is_its_own_decoder() -> None:
    model = Standard(16).build(VOCAB, 20, CAPACITY, torch.Generator())
    assert decoder(model) is model
    plain = Sums()
    found = decoder(plain)
    assert isinstance(found, Rerun) and found.model is plain


@pytest.mark.parametrize("kind", [Standard, Sparse, Linear, Tmx])
def test_rerunning_gives_what_steps_give(kind: type[Architecture]) -> None:
    """The rows are at different positions, there is rubbish behind their prompts, and one row
    leaves half-way."""
    model = kind(16).build(VOCAB, 20, CAPACITY, torch.Generator().manual_seed(0)).double().eval()
    tokens = torch.randint(VOCAB, (3, CAPACITY), generator=torch.Generator().manual_seed(1))
    lengths, rows = torch.tensor([0, 7, 4]), torch.arange(3)
    with torch.no_grad():
        full = model(tokens)
        ways = [decoder(model), Rerun(model)]
        states = [way.prefill(tokens[:, :7], lengths) for way in ways]
        for step in range(20):
            if step == 10:
                rows = torch.tensor([2, 1])
                states = [state.select(rows) for state in states]
            at = lengths[rows] + step
            for way, state in zip(ways, states, strict=True):
                torch.testing.assert_close(way.step(tokens[rows, at], state), full[rows, at])
                assert torch.equal(state.position, at + 1)
    assert lengths.tolist() == [0, 7, 4]


def test_a_prompt_without_tokens_can_be_continued() -> None:
    sums = Sums()
    model = Rerun(sums)
    state = model.prefill(torch.empty(2, 0, dtype=torch.long), torch.tensor([0, 0]))
    logits = model.step(torch.tensor([3, 5]), state)
    torch.testing.assert_close(logits, sums.embedding.weight[[3, 5]])
