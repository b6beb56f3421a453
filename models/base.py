"""All that a model may build on: `from sweepd.models.base import Architecture, …`.

A model needs torch and this file, nothing else. There are four base classes. `Model` needs `build`
alone, which returns a module from ids (B, T) to logits (B, T, V). `Architecture` is a `Model` with
a width d. `TransformerArchitecture` needs an `Attention`, `RecurrentArchitecture` a `Recurrence`.
"""

from __future__ import annotations

from sweepd.models._architecture import Architecture, Model
from sweepd.models._backbone import (
    Attention,
    Memory,
    Mixer,
    Positions,
    State,
    Transformer,
    read,
    rotated,
    sinusoids,
)
from sweepd.models._cache import CachedAttention
from sweepd.models._counting import Part
from sweepd.models._decoding import Decoder, can_decode, decoder
from sweepd.models._recurrence import (
    Recurrence,
    RecurrentArchitecture,
    at_least_float32,
    gated_step,
    gated_sums,
    without_autocast,
)
from sweepd.models._transformer import TransformerArchitecture

VERSION = 1
__all__ = [
    "Architecture",
    "Attention",
    "CachedAttention",
    "Decoder",
    "Memory",
    "Mixer",
    "Model",
    "Part",
    "Positions",
    "Recurrence",
    "RecurrentArchitecture",
    "State",
    "Transformer",
    "TransformerArchitecture",
    "at_least_float32",
    "can_decode",
    "decoder",
    "gated_step",
    "gated_sums",
    "read",
    "rotated",
    "sinusoids",
    "without_autocast",
]
