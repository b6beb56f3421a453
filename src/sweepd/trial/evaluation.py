"""How good a model is on a sample: chains by decoding, all other targets where they stand.

A chain counts by its final answer, greedily decoded to <eos>. Greedy decoding reproduces the
reference chain if and only if the teacher-forced argmax is right at every chain position, <eos>
included. So one parallel pass settles every row without an error; the others agree with the
reference up to their first error and are decoded from there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sweepd.models.base import decoder
from sweepd.tasks.base import EOS, IGNORE, Batch, Chains, ChainTask, Task

ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class Score:
    """Counts over one sample of `total` chains, or of `total` single targets; loss: mean over all
    targets, see `loss_of`.

    chain_correct is None without chains, and correct where targets are real numbers. An interval
    that takes `total` answers for independent is right for chains, which are; several targets of
    one row share inputs, so for those it is the narrowest that it can be.
    """

    total: int
    correct: int | None
    chain_correct: int | None
    loss: float

    @property
    def acc(self) -> float | None:
        return None if self.correct is None else self.correct / self.total

    @property
    def chain_acc(self) -> float | None:
        return None if self.chain_correct is None else self.chain_correct / self.total

    def columns(self) -> dict[str, float | None]:
        """All of it, as columns of `trials`."""
        return {**asdict(self), "acc": self.acc, "chain_acc": self.chain_acc}


def loss_of(
    outputs_BTV: Tensor, targets_BT: Tensor, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor:
    """Cross entropy in nats where targets are ids, squared error where they are real numbers."""
    if targets_BT.is_floating_point():
        scored_BT = ~targets_BT.isnan()
        outputs = outputs_BTV.squeeze(-1)[scored_BT]
        return F.mse_loss(outputs.float(), targets_BT[scored_BT], reduction=reduction)
    logits = outputs_BTV.flatten(0, 1).float()
    return F.cross_entropy(logits, targets_BT.flatten(), ignore_index=IGNORE, reduction=reduction)


@torch.inference_mode()
def evaluate(model: nn.Module, task: Task, sample: Chains | Batch) -> Score:
    """Score `model` on a sample of the task; the model is left in the mode it came in."""
    was_training = model.training
    model.eval()
    if isinstance(sample, Chains):
        assert isinstance(task, ChainTask)
        score = score_chains(model, task, sample)
    else:
        score = score_targets(model, sample)
    model.train(was_training)
    return score


def score_targets(model: nn.Module, batch: Batch) -> Score:
    """Every target counts by itself: one parallel pass settles it."""
    device = next(model.parameters()).device
    real = batch.targets.dtype.kind == "f"
    total, correct, loss_sum = int(batch.scored.sum()), 0, 0.0
    for start in range(0, len(batch.inputs), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        targets_BT = torch.from_numpy(batch.targets[rows]).to(device)
        outputs_BTV = model(torch.from_numpy(batch.inputs[rows]).to(device))
        loss_sum += loss_of(outputs_BTV, targets_BT, "sum").item()
        correct += int((outputs_BTV.argmax(-1) == targets_BT).sum())
    return Score(total, None if real else correct, None, loss_sum / total)


def score_chains(model: nn.Module, task: ChainTask, chains: Chains) -> Score:
    """A row counts if its answer is right, whatever precedes it; its chain if all of it is."""
    correct = chain_correct = tokens = 0
    loss = 0.0
    for start in range(0, len(chains.tokens), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        part = Chains(chains.tokens[rows], chains.prompts[rows], chains.lengths[rows])
        first_error, loss_sum, count = teacher_forced(model, part)
        wrong = np.flatnonzero(first_error >= 0)
        chain_correct += len(part.tokens) - len(wrong)
        correct += len(part.tokens) - len(wrong)
        correct += sum(
            task.answer(row) == task.answer(part.tokens[i, : part.lengths[i] - 1].tolist())
            for i, row in zip(
                wrong, decode(model, task, part.tokens[wrong], first_error[wrong] + 1), strict=True
            )
            if row is not None
        )
        loss += loss_sum
        tokens += count
    return Score(len(chains.tokens), correct, chain_correct, loss / tokens)


def teacher_forced(model: nn.Module, chains: Chains) -> tuple[np.ndarray, float, int]:
    """One parallel pass over the reference rows.

    Returns (B,) the first position whose argmax misses its target (-1 where none does), the
    summed loss in nats, and the number of target tokens.
    """
    device = next(model.parameters()).device
    batch = chains.batch()
    targets_BT = torch.from_numpy(batch.targets).to(device)
    logits_BTV = model(torch.from_numpy(batch.inputs).to(device))
    loss_sum = loss_of(logits_BTV, targets_BT, "sum").item()
    counted_BT = targets_BT != IGNORE
    miss_BT = (logits_BTV.argmax(-1) != targets_BT) & counted_BT
    first = torch.where(miss_BT.any(1), miss_BT.int().argmax(1), -1)
    return first.cpu().numpy(), loss_sum, int(counted_BT.sum())


def decode(
    model: nn.Module, task: ChainTask, tokens: np.ndarray, given: np.ndarray
) -> list[list[int] | None]:
    """Greedily continue each row of `tokens` (B, T) after its first `given` (B,) tokens.

    Returns, per row, prompt and continuation without <eos>; None where no <eos> came within the
    task's capacity. Each row stands at its own position; rows leave as they end.
    """
    done: list[list[int] | None] = [None] * len(tokens)
    if not len(tokens):
        return done
    device = next(model.parameters()).device
    rows = np.full((len(tokens), task.capacity), -1)
    longest = int(given.max())
    rows[:, :longest] = tokens[:, :longest]
    # All but the last given token fill the state; feeding that one asks for what follows it.
    decoding = decoder(model)
    state = decoding.prefill(
        torch.from_numpy(tokens[:, : longest - 1]).to(device),
        torch.from_numpy(given - 1).to(device),
    )
    alive, at = np.arange(len(tokens)), given.copy()
    while len(alive):
        fed = torch.from_numpy(rows[alive, at[alive] - 1]).to(device)
        following = decoding.step(fed, state).argmax(-1).cpu().numpy()
        ended = following == EOS
        for i in alive[ended]:
            done[i] = rows[i, : at[i]].tolist()
        room = at[alive] < task.capacity - 1
        rows[alive[room], at[alive[room]]] = following[room]
        at[alive] += 1
        stay = ~ended & room
        alive = alive[stay]
        if not stay.all() and len(alive):
            state = state.select(torch.from_numpy(np.flatnonzero(stay)).to(device))
    return done
