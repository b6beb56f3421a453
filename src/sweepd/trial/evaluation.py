"""How good a model is on a sample. Chains are decoded; all other targets are judged at their own
positions.

A chain is judged by its final answer, greedily decoded to <eos>. Greedy decoding reproduces the
reference chain if and only if the teacher-forced argmax is right at every chain position, <eos>
included. So one parallel pass settles every row without an error. The others agree with the
reference up to their first error and are decoded from there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sweepd.grid import metrics
from sweepd.models.base import decoder
from sweepd.tasks.base import EOS, IGNORE, Batch, Chains, ChainTask, Flags, IntArray, Rows, Task
from sweepd.trial.user_values import numbers, shown, unusable

ROWS_AT_ONCE = 256
DIGITS = 4
"""The number of significant digits of the stored means by position."""


@dataclass(frozen=True, eq=False)
class Profile:
    """Sums over rows at each position (T,): of targets, of their losses, of those right."""

    count: npt.NDArray[np.float64]
    loss: npt.NDArray[np.float64]
    right: npt.NDArray[np.float64]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Profile):
            return NotImplemented
        ours, theirs = (self.count, self.loss, self.right), (other.count, other.loss, other.right)
        return all(map(np.array_equal, ours, theirs))

    __hash__ = None  # type: ignore[assignment]  # sums grow

    @classmethod
    def empty(cls, positions: int) -> Profile:
        return cls(*(np.zeros(positions) for _ in range(3)))

    def add(
        self,
        losses: npt.NDArray[np.floating],
        right: Flags | None,
        scored: Flags,
        first: npt.NDArray[np.intp] | None = None,
    ) -> None:
        """Adds rows: (B, T) losses, whether each target is right, and whether there is a target.

        right: None for real numbers. first: (B,) the position of each row that counts as 0; without
        it, a row's first position does.
        """
        row, at = np.nonzero(scored)
        position = at if first is None else at - first[row]
        np.add.at(self.count, position, 1)
        np.add.at(self.loss, position, losses[row, at])
        if right is not None:
            np.add.at(self.right, position, right[row, at])

    def means(self, sums: npt.NDArray[np.float64]) -> str:
        """Returns a JSON array of the mean at each position of `loss`, or of `right`, which is for
        targets that are ids. It is null where there is no target, or where the mean is not
        finite."""
        last = int(np.flatnonzero(self.count).max(initial=-1)) + 1
        means = [
            float(f"{total / count:.{DIGITS}g}") if count else None
            for total, count in zip(sums[:last], self.count[:last], strict=True)
        ]
        return json.dumps([m if m is not None and np.isfinite(m) else None for m in means])


@dataclass(frozen=True)
class Score:
    """Counts over one sample.

    total: the number of chains. Without chains it is the number of targets, or of rows where
    `Task.right` judges rows. correct: the number of right answers; None where nothing is right or
    wrong, as with real numbers. chain_correct: the number of right chains; None without chains.
    loss: the mean over all targets (see `loss_of`). independent: the number of independent answers
    that the sample is worth, at most `total`. There are fewer where several targets of one row
    share inputs. commonest: the accuracy of always giving the commonest answer; None for real
    numbers. profile: loss and accuracy by position. own: the task's own metrics.
    """

    total: int
    correct: int | None
    chain_correct: int | None
    loss: float
    independent: int
    commonest: float | None
    profile: Profile
    own: Mapping[str, float] = field(default_factory=dict)

    @property
    def acc(self) -> float | None:
        return None if self.correct is None else self.correct / self.total

    @property
    def chain_acc(self) -> float | None:
        return None if self.chain_correct is None else self.chain_correct / self.total

    def columns(self) -> dict[str, float | str | None]:
        """Returns the score as columns of `trials`."""
        return {
            "acc": self.acc,
            "chain_acc": self.chain_acc,
            "correct": self.correct,
            "chain_correct": self.chain_correct,
            "total": self.total,
            "independent": self.independent,
            "commonest": self.commonest,
            "loss": self.loss,
            "loss_at": self.profile.means(self.profile.loss),
            "acc_at": None if self.correct is None else self.profile.means(self.profile.right),
            **self.own,
        }


def loss_of(
    outputs_BTV: Tensor, targets_BT: Tensor, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor:
    """Returns the cross entropy in nats where targets are ids, and the squared error where they are
    real numbers. It is the mean or the sum over all targets."""
    if targets_BT.is_floating_point():
        scored_BT = ~targets_BT.isnan()
        missed_BT = torch.where(scored_BT, outputs_BTV.squeeze(-1).float() - targets_BT, 0.0)
        total = missed_BT.square().sum()
        return total / scored_BT.sum() if reduction == "mean" else total
    logits = outputs_BTV.flatten(0, 1).float()
    return F.cross_entropy(logits, targets_BT.flatten(), ignore_index=IGNORE, reduction=reduction)


def losses_of(outputs_BTV: Tensor, targets_BT: Tensor) -> np.ndarray:
    """Returns (B, T) what each target adds to the sum of `loss_of`; where none is, anything."""
    if targets_BT.is_floating_point():
        squared = (outputs_BTV.squeeze(-1).float() - targets_BT) ** 2
        return squared.cpu().numpy()
    flat = F.cross_entropy(
        outputs_BTV.flatten(0, 1).float(),
        targets_BT.flatten(),
        ignore_index=IGNORE,
        reduction="none",
    )
    return flat.view(targets_BT.shape).cpu().numpy()


@torch.inference_mode()
def evaluate(model: nn.Module, task: Task, sample: Chains | Batch) -> Score:
    """Returns the score of `model` on a sample of the task. The model's mode stays as it was."""
    was_training = model.training
    model.eval()
    if isinstance(sample, Chains):
        assert isinstance(task, ChainTask)
        score = score_chains(model, task, sample)
    else:
        score = score_targets(model, task, sample)
    model.train(was_training)
    return score


def score_targets(model: nn.Module, task: Task, batch: Batch) -> Score:
    """Returns the score of a sample without chains: each target at its own position."""
    device = next(model.parameters()).device
    real = batch.targets.dtype.kind == "f"
    scored, found = batch.scored, np.zeros_like(batch.targets)
    loss_sum, losses = 0.0, np.zeros(found.shape)
    for start in range(0, len(batch.inputs), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        targets_BT = torch.from_numpy(batch.targets[rows]).to(device)
        outputs_BTV = model(torch.from_numpy(batch.inputs[rows]).to(device))
        loss_sum += loss_of(outputs_BTV, targets_BT, "sum").item()
        losses[rows] = losses_of(outputs_BTV, targets_BT)
        given_BT = outputs_BTV.squeeze(-1) if real else outputs_BTV.argmax(-1)
        found[rows] = given_BT.cpu().numpy()
    loss, own = loss_sum / int(scored.sum()), own_scores(task, found, batch)
    right, profile = right_of(task, found, batch), Profile.empty(found.shape[1])
    if right is None:
        profile.add(losses, None, scored)
        return Score(int(scored.sum()), None, None, loss, int(scored.sum()), None, profile, own)
    profile.add(losses, right if right.ndim == 2 else right[:, None] & scored, scored)
    hits, counted = per_row(right, scored)
    total, correct = int(counted.sum()), int(hits.sum())
    commonest = None if real else commonest_target(task, [batch])[1]
    return Score(total, correct, None, loss, worth_of(hits, counted), commonest, profile, own)


def right_of(task: Task, found: Rows, batch: Batch) -> Flags | None:
    """Returns what the task's `right` gives. Raises Unusable if it gives something else."""
    right = task.right(found, batch)
    shapes = batch.targets.shape, batch.targets.shape[:1]
    if right is None or (
        isinstance(right, np.ndarray) and right.dtype == np.bool_ and right.shape in shapes
    ):
        return right
    wanted = f"it must return an array of bool, {shapes[0]} or {shapes[1]}"
    raise unusable(task, "right", f"returned {shown(right)}; {wanted}")


def own_scores(task: Task, found: Any, wanted: Any) -> dict[str, float]:
    """Returns the task's own metrics, which its `scores` reports. Raises Unusable if `scores`
    reports others than its `metrics` name, or what is no number.

    found, wanted: as for `Task.scores`, but the answers of chains are ids.
    """
    names = metrics.own(task.metrics)
    if not names:
        return {}
    if isinstance(task, ChainTask):
        found, wanted = (
            [None if ids is None else task.words(ids) for ids in answers]
            for answers in (found, wanted)
        )
    return numbers(task, "scores", task.scores(found, wanted), names)


def per_row(right: Flags, scored: Flags) -> tuple[IntArray, IntArray]:
    """Returns (B,) how much is right in each row, and (B,) out of how much. Targets are counted if
    `right` is (B, T), and rows if it is (B,)."""
    if right.ndim == 1:
        counted: Flags = np.asarray(scored.any(axis=1))
        return (right & counted).astype(np.int64), counted.astype(np.int64)
    hits: IntArray = np.sum(right & scored, axis=1)
    targets: IntArray = np.sum(scored, axis=1)
    return hits, targets


def worth_of(right: npt.NDArray[np.integer], targets: npt.NDArray[np.integer]) -> int:
    """Returns how many independent answers would have the sampling error of these, which is at most
    the number of targets.

    right, targets: (B,) how many targets of each row are right, and how many it has. The error of
    the share is estimated over rows, which are independent, as in the variance of a ratio of sums
    (Cochran 1977, 6.4). Where all targets are right, or none, the rows do not show how far the
    answers within a row depend on each other. Then each row counts as one answer.
    """
    total, rows = int(targets.sum()), int((targets > 0).sum())
    share = right.sum() / total
    if not 0 < share < 1 or rows < 2:
        return rows
    variance = ((right - share * targets) ** 2).sum() / total**2 * rows / (rows - 1)
    return total if variance == 0 else max(1, min(total, int(share * (1 - share) / variance)))


def commonest_target(task: Task, batches: Sequence[Batch]) -> tuple[int, float]:
    """Returns the id of the commonest target, and the accuracy of always giving it."""
    targets = np.concatenate([batch.targets[batch.scored] for batch in batches])
    ids, counts = np.unique(targets, return_counts=True)
    always = int(ids[counts.argmax()])
    correct = total = 0
    for batch in batches:
        right = right_of(task, np.full_like(batch.targets, always), batch)
        assert right is not None
        hits, counted = per_row(right, batch.scored)
        correct, total = correct + int(hits.sum()), total + int(counted.sum())
    return always, correct / total


def score_chains(model: nn.Module, task: ChainTask, chains: Chains) -> Score:
    """Returns the score of a sample of chains. A row is correct if its answer is right, whatever
    precedes the answer. Its chain is correct if all of it is right."""
    correct = chain_correct = tokens = 0
    loss = 0.0
    answers: list[tuple[int, ...]] = []
    given: list[tuple[int, ...] | None] = []
    profile = Profile.empty(chains.tokens.shape[1])
    for start in range(0, len(chains.tokens), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        part = Chains(chains.tokens[rows], chains.prompts[rows], chains.lengths[rows])
        wanted = [
            task.answer(row[: length - 1].tolist())
            for row, length in zip(part.tokens, part.lengths, strict=True)
        ]
        answers += wanted
        first_error, loss_sum, count = teacher_forced(model, part, profile)
        wrong = np.flatnonzero(first_error >= 0)
        chain_correct += len(part.tokens) - len(wrong)
        found: list[tuple[int, ...] | None] = [*wanted]
        decoded = decode(model, task, part.tokens[wrong], first_error[wrong] + 1)
        for i, row in zip(wrong, decoded, strict=True):
            found[i] = None if row is None else task.answer(row)
        given += found
        correct += sum(one == other for one, other in zip(found, wanted, strict=True))
        loss += loss_sum
        tokens += count
    total = len(chains.tokens)
    commonest = max(Counter(answers).values()) / total
    own = own_scores(task, given, answers)
    return Score(total, correct, chain_correct, loss / tokens, total, commonest, profile, own)


def teacher_forced(
    model: nn.Module, chains: Chains, profile: Profile | None = None
) -> tuple[np.ndarray, float, int]:
    """Runs one parallel pass over the reference rows, and adds it to `profile`, if that is given.
    There, each row's first target is at position 0.

    Returns (B,) the first position at which the argmax misses the target (-1 where none does), the
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
    if profile is not None:
        scored, right = batch.scored, ~miss_BT.cpu().numpy()
        profile.add(losses_of(logits_BTV, targets_BT), right, scored, scored.argmax(axis=1))
    return first.cpu().numpy(), loss_sum, int(counted_BT.sum())


def decode(
    model: nn.Module, task: ChainTask, tokens: np.ndarray, given: np.ndarray
) -> list[list[int] | None]:
    """Greedily continues each row of `tokens` (B, T) after its first `given` (B,) tokens.

    Returns, for each row, the given tokens and their continuation without <eos>; None where no
    <eos> came within the task's capacity. Each row is at its own position, and leaves the batch
    when it ends.
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
