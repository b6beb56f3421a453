"""LSTM (Hochreiter & Schmidhuber 1997): a recurrent network whose gates keep and overwrite a cell.

Equations as in torch.nn.LSTM. Shape suffixes: B rows, T positions, D = d, S layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sweepd.models._backbone import NumberEmbedding
from sweepd.models.base import Architecture, Part, State

VERSION = 1


@dataclass(frozen=True)
class Lstm(Architecture):
    """Embedding, layers of LSTM, output; it remembers 2d numbers a layer, however long the row.

    Source: Hochreiter & Schmidhuber 1997, with forget gates (Gers et al. 2000). First weights are
    torch's; forget gates begin with a bias of 1 (Jozefowicz et al. 2015).

    Family: recurrence

    Examples:
        x (B, T, d) → for each layer, gates i, f, g, o (B, T, 4d) → cell f · c + i · g → o ·
        tanh(cell) → (B, T, d)
    """

    layers: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.layers <= 1000:
            raise ValueError(f"layers = {self.layers}: must be from 1 to 1000")

    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> LstmNet:
        return LstmNet(vocab, self.d, self.layers)

    def parts(self, vocab: int, L: int) -> list[Part]:
        weights = {"gates": self.layers * 8 * self.d**2, "head": self.d * (vocab or 1)}
        weights |= {} if vocab else {"embedding": self.d}
        return [Part(name, 2 * number * L, 2 * number * L) for name, number in weights.items()]

    def state_bytes(self, vocab: int, L: int) -> int:
        return 4 * self.layers * 2 * self.d

    def kept_floats(self, vocab: int, L: int) -> tuple[int, int]:
        """Returns the floats of a sequence, as measured of torch 2.13 on a CPU, whose LSTM keeps a
        workspace besides its gates: 18 to 23 d for each position and layer, of which 20 are taken.
        The ends keep log-probabilities, an id and the loss."""
        return (self.layers * 20 * self.d + self.d + (vocab or 1) + 4) * L, 0


class LstmNet(nn.Module):
    """The state of a layer is its output h and its cell c, each (B, d)."""

    def __init__(self, vocab: int, d: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, d) if vocab else NumberEmbedding(d)
        for parameter in self.embedding.parameters():
            nn.init.normal_(parameter)
        self.lstm = nn.LSTM(d, d, layers, batch_first=True)
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("bias_hh"):
                nn.init.ones_(parameter[d : 2 * d])
        self.head = nn.Linear(d, vocab or 1)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Returns logits (B, T, V), or (B, T, 1) where rows are real numbers."""
        h_BTD, _ = self.lstm(self.embedding(tokens_BT))
        logits_BTV: Tensor = self.head(h_BTD)
        return logits_BTV

    def prefill(self, tokens_BT: Tensor, lengths_B: Tensor) -> State:
        # A packed row has at least one position; rows of none get a state of zeros afterwards.
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(tokens_BT), lengths_B.clamp(min=1).cpu(), True, enforce_sorted=False
        )
        _, state_SBD = self.lstm(packed)
        fed_1B1 = (lengths_B > 0)[None, :, None]
        memory = tuple((part_SBD * fed_1B1).transpose(0, 1) for part_SBD in state_SBD)
        return State(lengths_B.clone(), [memory])

    def step(self, tokens_B: Tensor, state: State) -> Tensor:
        h_SBD, c_SBD = (part.transpose(0, 1).contiguous() for part in state.memories[0])
        h_B1D, after_SBD = self.lstm(self.embedding(tokens_B[:, None]), (h_SBD, c_SBD))
        state.memories[0] = tuple(part_SBD.transpose(0, 1) for part_SBD in after_SBD)
        state.position += 1
        logits_BV: Tensor = self.head(h_B1D[:, 0])
        return logits_BV
