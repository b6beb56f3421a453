"""Checks of a model: it is causal, keeps rows apart, decodes as it trains, and costs and remembers
what it says.

A model that sees later tokens would still run, and its numbers would mean nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sweepd.check.cases import Wrong
from sweepd.check.tasks import seed_all
from sweepd.grid.costs import FLOAT_BYTES, costs, held_after, occupied, sparing_the_compiler
from sweepd.models.base import Model, can_decode, decoder
from sweepd.tasks.base import ChainTask, Split, Task
from sweepd.trial.training import Stream, generator, torch_seed

ROWS = 4
"""The number of rows that the model is given at a time."""
SAME, LIKE = 5e-5, 2e-3
"""The differences that rounding explains, as shares of the largest output. The first holds where
nothing but later tokens changed. The second holds where the same is computed in another order."""
JITTER = 0.05
"""The noise by which weights are moved first, since those that start at zero hide leaks."""
COUNTED = 0.02
"""The share by which FLOPs may differ from torch's count."""
STEPPED = 3
"""The number of tokens that are fed one by one before a state is measured."""
TORCHS_OWN = vars(nn.Module()).keys()
"""The attributes that every module has."""


class Network:
    """What an architecture builds, and rows (B, T) of the task. The checks are its methods: each
    relies on those before it, returns what it saw in words, and raises Wrong."""

    made: nn.Module
    """The module that the architecture builds."""

    def __init__(self, architecture: Model, task: Task) -> None:
        self.architecture, self.task = architecture, task
        self.vocab = len(task.vocab)
        batch = task.batch(generator(0, Stream.DATA, 0), ROWS, Split.TRAIN)
        self.rows = torch.from_numpy(batch.inputs)

    def check_weights(self) -> str:
        """Checks that the module holds all of its weights, and that the seed decides them."""
        seed_all(1)
        self.made = self._built()
        if not isinstance(self.made, nn.Module):
            raise Wrong(
                f"builds a {type(self.made).__name__}",
                "return a torch.nn.Module from `build`",
                "build",
            )
        for name, weight in self.made.named_parameters():
            if isinstance(weight, nn.UninitializedParameter):
                remedy = "say how large it is, as nn.Linear does, in place of nn.LazyLinear"
                raise Wrong(
                    f"has a weight without a shape ({name})", remedy, type(self.made).__init__
                )
            if weight.is_complex():
                raise Wrong(
                    f"has a complex weight ({name}), for which torch has no fused AdamW",
                    "keep real and imaginary part in one real weight whose last dimension is 2, "
                    "and read it by torch.view_as_complex",
                    type(self.made).__init__,
                )
        known = set(map(id, self.made.parameters()))
        for name, module in self.made.named_modules():
            for attribute, value in vars(module).items():
                held = () if attribute in TORCHS_OWN else _weights(value)
                if any(id(weight) not in known for weight in held):
                    where = ".".join(filter(None, (name, attribute)))
                    raise Wrong(
                        f"holds weights in a plain list or tensor ({where}), where neither the "
                        "optimizer nor a checkpoint sees them",
                        "make it an nn.ModuleList or an nn.Parameter",
                        type(module).__init__,
                        type(module),
                    )
        seed_all(2)
        again = self._built().state_dict()
        for name, value in self.made.state_dict().items():
            if not _close(value, again[name], 0.0):
                raise Wrong(
                    f"starts with other weights for the same seed ({name})",
                    "draw them from the generator that `build` is given",
                    "build",
                )
        seed_all(3)
        other = self._built(seed=1).state_dict()
        drawn = [name for name, value in again.items() if len(value.unique()) > 1]
        if drawn and all(_close(again[name], other[name], 0.0) for name in drawn):
            raise Wrong(
                "starts with the same weights for every seed",
                "draw them from the generator that `build` is given, and set no seed there",
                "build",
            )
        count = sum(parameter.numel() for parameter in self.made.parameters())
        if not count:
            remedy = "make layers, or nn.Parameter, in the module's __init__"
            raise Wrong("has no weights", remedy, type(self.made).__init__, "build")
        return f"{count:,} parameters, decided by the seed"

    def _built(self, seed: int = 0) -> nn.Module:
        initial = torch.Generator().manual_seed(torch_seed(seed, Stream.INIT, 0))
        return self.architecture.build(self.vocab, self.task.L, self.task.capacity, initial)

    def check_outputs(self) -> str:
        """Checks the shape of outputs, that none is NaN, and that the input is left as it is."""
        self.made.eval()
        given = self.rows.clone()
        outputs = self.made(self.rows)
        if not torch.equal(self.rows, given):
            self.rows = given
            raise Wrong(
                "changes the rows that it is given, which others read after it",
                "work on a copy: x = x.clone()",
            )
        if not isinstance(outputs, Tensor):
            raise Wrong(
                f"gives a {type(outputs).__name__} where a tensor of outputs is needed",
                "return the outputs alone",
            )
        wanted = (*self.rows.shape, self.vocab or 1)
        if tuple(outputs.shape) != wanted:
            raise Wrong(
                f"gives outputs of shape {tuple(outputs.shape)}; {wanted} is needed",
                "end in a layer of as many outputs as there are words, for every position",
            )
        if outputs.isnan().any():
            raise Wrong(
                "gives outputs that are no numbers (NaN) before any training",
                "look for a logarithm or root of what may be 0, or a softmax over -inf alone",
            )
        sums = outputs.sum(-1)
        if self.vocab > 1 and (outputs >= 0).all() and torch.allclose(sums, torch.ones_like(sums)):
            raise Wrong(
                "gives probabilities where logits are needed: the loss takes the softmax itself",
                "leave the softmax at the end out",
            )
        return f"{wanted}"

    def check_repeats(self) -> str:
        """Checks that in evaluation the same row gives the same outputs."""
        _stir(self.made)
        seed_all(1)
        first = self.made(self.rows)
        self.scale = max(1e-6, float(torch.where(first.isfinite(), first, 0).abs().max()))
        seed_all(1)
        again = self.made(self.rows)
        seed_all(2)
        other = self.made(self.rows)
        if not _close(first, again, SAME * self.scale):
            raise Wrong(
                "gives other outputs for the same row the second time: it keeps something from one "
                "call to the next",
                "compute everything in `forward` from its inputs, and keep nothing on `self`",
            )
        if not _close(first, other, SAME * self.scale):
            raise Wrong(
                "gives other outputs for the same row, in evaluation: it draws random numbers",
                "drop out by nn.Dropout, or F.dropout(x, p, self.training)",
            )
        self.outputs = first
        return "the same row gives the same outputs"

    def check_rows_apart(self) -> str:
        """Checks that a row changes no other row's outputs."""
        for changed in (0, len(self.rows) - 1):
            others = self.rows.clone()
            others[changed] = self._changed(others[changed])
            kept = torch.arange(len(others)) != changed
            difference = (self.made(others) - self.outputs)[kept].abs()
            if (difference > SAME * self.scale).any():
                raise Wrong(
                    "mixes the rows of a batch: changing one row changed another's outputs by "
                    f"{float(difference.nan_to_num().max()):.2g}",
                    "rows come as (B, T): give torch's layers batch_first=True, and normalise over "
                    "the last dimension alone",
                )
        return "no row sees another"

    def check_causal(self) -> str:
        """Checks that no later token changes an earlier output."""
        last, middle = self.rows.shape[1] - 1, self.rows.shape[1] // 2
        for first in dict.fromkeys((last, last - 1, middle + 1, middle, middle - 1, 3, 2, 1)):
            if not 1 <= first <= last:
                continue
            others = self.rows.clone()
            others[:, first:] = self._changed(others[:, first:])
            moved = (self.made(others) - self.outputs)[:, :first].abs().amax(dim=(0, 2))
            if (moved > SAME * self.scale).any():
                at = int(moved.nan_to_num().argmax())
                changed = f"token {last}" if first == last else f"tokens {first} to {last}"
                raise Wrong(
                    f"is not causal: changing {changed} changed the output at position {at} by "
                    f"{float(moved[at]):.2g}",
                    "a position may only see itself and those before it: mask attention, and read "
                    "no row backwards",
                )
        return "no later token changes an earlier output"

    def check_decoding(self) -> str:
        """Checks that decoding token by token gives what one pass over all tokens gives. It starts
        after prefixes of several lengths, and some rows leave on the way."""
        if not self._can_decode():
            return "no `prefill` and `step`: the prefix is run again for each token"
        count, length = self.rows.shape
        given = torch.tensor([1 + i * (length - 2) // count for i in range(count)])
        decoding = decoder(self.made)
        state = decoding.prefill(self.rows[:, : int(given.max())], given)
        left = torch.arange(count)
        steps = length - int(given.max())
        for fed in range(steps):
            at = given[left] + fed
            outputs, wanted = decoding.step(self.rows[left, at], state), self.outputs[left, at]
            if outputs.shape != wanted.shape:
                differs = (
                    f"`step` gives {tuple(outputs.shape)} where {tuple(wanted.shape)} is needed"
                )
            elif _close(outputs, wanted, LIKE * self.scale):
                differs = ""
            else:
                apart = (outputs - wanted).abs().amax(1)
                row = int(apart.argmax())
                differs = (
                    f"after `prefill` of {int(given[left][row])} tokens, `step` number {fed + 1} "
                    f"differs from `forward` by {float(apart[row]):.2g} at position {int(at[row])}"
                )
            if differs:
                raise Wrong(
                    f"decodes otherwise than it trains: {differs}",
                    "compute in `step` exactly what `forward` does with the last of these tokens",
                    "step",
                )
            if fed == 1 and len(left) > 2:
                left = left[::2]
                state = state.select(torch.arange(0, count, 2))
        return f"`step` gives what `forward` gives ({steps} steps)"

    def _can_decode(self) -> bool:
        """Returns whether the model has `prefill` and `step`, and rows of at least 3 tokens. Only
        chains make use of the two, so for other tasks they may raise NotImplementedError."""
        if not can_decode(self.made) or self.rows.shape[1] < 3:
            return False
        lengths = torch.ones(len(self.rows), dtype=torch.long)
        try:
            if not isinstance(self.task, ChainTask):
                decoding = decoder(self.made)
                decoding.step(self.rows[:, 1], decoding.prefill(self.rows[:, :1], lengths))
        except NotImplementedError:
            return False
        return True

    def check_state(self) -> str:
        """Checks that the decoding state after T and after 2T tokens has the bytes that results
        will tell: no more than it occupies after `prefill`, and no fewer than its different numbers
        take after `step`. It may hold a number twice, and have room for what comes."""
        if not self._can_decode():
            return "not measured without `prefill` and `step`"
        measured: list[str] = []
        for length in (self.task.L, 2 * self.task.L):
            asked = self.vocab, length, length + 1
            row = self.rows.flatten()
            row = row.repeat(-(-length // len(row)))[None, :length]
            try:
                stated = costs(self.architecture, *asked).state_bytes
                model = self.architecture.build(*asked, torch.Generator())
                _stir(model)
                most = occupied(held_after(model, row, length))
                tensors = held_after(model, row, max(1, length - STEPPED))
            except Exception:  # it may be for rows of at most T tokens
                if not measured:
                    raise
                break
            if stated is None:
                return f"cannot be measured for {length} tokens: results will not tell it"
            floats = [part.flatten().float() for part in tensors if part.is_floating_point()]
            numbers = set(torch.cat([torch.zeros(0), *floats]).tolist()) - {0.0}  # not written to
            least = FLOAT_BYTES * len(numbers)
            if not least <= stated <= most:
                raise Wrong(
                    f"states {stated:,} bytes of decoding state after {length} tokens, and "
                    f"{most if stated > most else least:,} are measured",
                    "let `state_bytes` count 4 bytes for each float that `prefill` and `step` keep "
                    "of one row, over all layers, or leave it out",
                    "state_bytes",
                )
            measured.append(f"{stated:,} bytes after {length} tokens")
        is_stated = self.architecture.state_bytes(self.vocab, self.task.L) is not None
        return ", ".join(measured + ["as stated"] * is_stated)

    def check_cost(self) -> str:
        """Checks that the FLOPs that the architecture states are those that torch counts."""
        asked = self.vocab, self.task.L
        try:
            with sparing_the_compiler():
                counted = list(Model.parts(self.architecture, *asked))
        except ValueError as error:
            return f"not compared: {error}"
        flops = sum(part.flops for part in counted)
        with_weights = sum(part.flops_weights for part in counted)
        if type(self.architecture).parts is Model.parts:
            left_out = ", ".join(self.architecture.uncounted(*asked))
            but = f", without {left_out}, which torch cannot count" if left_out else ""
            return f"{flops:,} FLOPs a row of {self.task.L} tokens, counted{but}"
        parts = list(self.architecture.parts(*asked))
        stated = sum(part.flops for part in parts)
        weighted = sum(part.flops_weights for part in parts)
        low, high = with_weights * (1 - COUNTED), flops * (1 + COUNTED)
        differing = None
        if self.vocab and not low <= weighted <= with_weights * (1 + COUNTED):
            differing = f"{weighted:,} FLOPs of products with weights", f"{with_weights:,}"
        elif not low <= stated <= high:
            differing = f"{stated:,} FLOPs", f"{with_weights:,} to {flops:,}"
        if differing:
            raise Wrong(
                f"states {differing[0]} for a row of {self.task.L} tokens, and torch counts "
                f"{differing[1]}",
                "count 2 FLOPs a multiply-add and every product once, or leave `parts` out",
                "parts",
            )
        return f"{stated:,} FLOPs a row of {self.task.L} tokens, as torch counts"

    def _changed(self, tokens: Tensor) -> Tensor:
        """Returns other tokens, or other numbers, at every position."""
        return (tokens + 1) % self.vocab if self.vocab else tokens + 1


def _stir(model: nn.Module) -> None:
    noise = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        if weight.is_floating_point() and weight.numel():
            size = JITTER * max(1.0, float(weight.abs().mean()))
            weight.add_(torch.randn(weight.shape, generator=noise, dtype=weight.dtype), alpha=size)


def _close(one: Tensor, other: Tensor, within: float) -> bool:
    return one.shape == other.shape and torch.allclose(
        one, other, rtol=0.0, atol=within, equal_nan=True
    )


def _weights(value: Any) -> list[Tensor]:
    """Returns the weights in an attribute of a module, also those within lists and mappings."""
    if isinstance(value, nn.Module):
        return list(value.parameters())
    if isinstance(value, Tensor):
        return [value] if value.requires_grad else []
    if isinstance(value, dict):
        value = list(value.values())
    return [w for one in value for w in _weights(one)] if isinstance(value, list | tuple) else []
