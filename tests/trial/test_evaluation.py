"""Evaluation, the fast way and the obvious way. The fast way makes one parallel pass, and decodes a
row only from its first error on. The obvious way decodes every row from its prompt, by full forward
passes. Both count the same. Targets without a chain are counted one by one. Loss and accuracy by
position are compared with sums that are taken one by one. How many independent answers the targets
of a row are worth is compared with simulated rows."""

import copy
import json
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sweepd.grid.settings import Evaluate, Stop, Train
from sweepd.intervals import wilson
from sweepd.models.base import Architecture
from sweepd.models.linear import Linear
from sweepd.models.sparse import Sparse
from sweepd.models.standard import Standard
from sweepd.tasks.adaptive_memory import AdaptiveMemory
from sweepd.tasks.arithmetic import Arithmetic
from sweepd.tasks.base import EOS, IGNORE, ChainTask, Split, Task
from sweepd.tasks.edit_distance import EditDistance
from sweepd.tasks.fixed_memory import FixedMemory
from sweepd.tasks.lis import LIS
from sweepd.tasks.sparse_memory import SparseMemory
from sweepd.trial.evaluation import ROWS_AT_ONCE, Profile, decode, evaluate, loss_of, worth_of
from sweepd.trial.training import Training

TASKS: list[ChainTask] = [
    LIS(n=4, value_range=8),
    Arithmetic(operators=2, modulus=5),
    EditDistance(n=3),
]
MODELS: list[Architecture] = [
    Standard(d=8, layers=1, heads=2),
    Linear(d=8, layers=1, heads=2),
    Sparse(d=8, layers=1, heads=2),
]


def trained(task: Task, architecture: Architecture, steps: int = 150) -> nn.Module:
    """A model that is right sometimes: its rows fail at all sorts of places."""
    return copy.deepcopy(_trained(task, architecture, steps))


@cache
def _trained(task: Task, architecture: Architecture, steps: int) -> nn.Module:
    train = Train(steps=steps, batch_size=16, schedule="constant", lr=1e-2)
    evaluation = Evaluate(check_every=10**6, verdict_samples=1)
    training = Training(task, architecture, train, evaluation, Stop(), 0, 1.0, "cpu")
    for _ in training.advance():
        pass
    return training.model.eval()


@torch.inference_mode()
def decoded_plainly(model: nn.Module, task: Task, prompt: list[int]) -> list[int] | None:
    """Greedy decoding by a full forward pass for every token; None without <eos> in time."""
    row = list(prompt)
    while len(row) < task.capacity:
        following = int(model(torch.tensor([row]))[0, -1].argmax())
        if following == EOS:
            return row
        row.append(following)
    return None


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
@pytest.mark.parametrize("architecture", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("steps", [1, 150])
def test_counts_equal_those_of_plain_decoding(
    task: ChainTask, architecture: Architecture, steps: int
) -> None:
    model = trained(task, architecture, steps).double()
    chains = task.sample(np.random.default_rng(3), 40, Split.TEST)
    correct = chain_correct = 0
    for tokens, prompt, length in zip(chains.tokens, chains.prompts, chains.lengths, strict=True):
        reference = tokens[: length - 1].tolist()
        row = decoded_plainly(model, task, reference[:prompt])
        chain_correct += row == reference
        correct += row is not None and task.answer(row) == task.answer(reference)
    score = evaluate(model, task, chains)
    assert (score.total, score.correct, score.chain_correct) == (40, correct, chain_correct)


def test_loss_is_the_mean_over_chain_tokens() -> None:
    task = TASKS[1]
    model = trained(task, MODELS[0]).double()
    chains = task.sample(np.random.default_rng(0), 300, Split.CHECK)
    batch = chains.batch()
    with torch.inference_mode():
        logs = model(torch.from_numpy(batch.inputs)).log_softmax(-1).numpy()
    rows, columns = np.nonzero(batch.targets != IGNORE)
    expected = -logs[rows, columns, batch.targets[rows, columns]].mean()
    assert evaluate(model, task, chains).loss == pytest.approx(expected)


@pytest.mark.parametrize("architecture", MODELS, ids=lambda model: type(model).__name__)
def test_rows_decode_alike_alone_and_together(architecture: Architecture) -> None:
    """Rows start at their own positions and leave the batch as they end. The other rows of the
    batch change nothing."""
    task = TASKS[2]
    model = trained(task, architecture).double()
    chains = task.sample(np.random.default_rng(5), 25, Split.TRAIN)
    given = chains.prompts + np.arange(25) % 3
    together = decode(model, task, chains.tokens, given)
    for i, row in enumerate(together):
        [alone] = decode(model, task, chains.tokens[i : i + 1], given[i : i + 1])
        assert alone == row == decoded_plainly(model, task, chains.tokens[i, : given[i]].tolist())


@pytest.mark.parametrize("architecture", MODELS, ids=lambda model: type(model).__name__)
def test_ids_without_a_chain_count_one_by_one(architecture: Architecture) -> None:
    task = AdaptiveMemory(memories=1, longest=4, symbols=3, length=12)
    model = trained(task, architecture, 60)
    batch = task.sample(np.random.default_rng(0), ROWS_AT_ONCE + 40, Split.TEST)
    with torch.inference_mode():
        logs = model(torch.from_numpy(batch.inputs)).log_softmax(-1).numpy()
    correct = total = loss = 0
    for row, targets in zip(logs, batch.targets, strict=True):
        for t in range(task.longest, task.length):
            total += 1
            correct += row[t].argmax() == targets[t]
            loss -= row[t, targets[t]]
    score = evaluate(model, task, batch)
    assert (score.total, score.correct) == (total, correct)
    assert score.acc == correct / total
    assert score.loss == pytest.approx(loss / total, rel=1e-4)
    assert score.chain_correct is score.chain_acc is None


@pytest.mark.parametrize("task", [FixedMemory(longest=4, values="reals", length=12),
                                  SparseMemory(length=12)], ids=repr)  # fmt: skip
def test_real_numbers_have_a_mean_squared_error_and_no_accuracy(task: Task) -> None:
    model = trained(task, MODELS[0], 60)
    batch = task.sample(np.random.default_rng(0), ROWS_AT_ONCE + 40, Split.TEST)
    with torch.inference_mode():
        outputs = model(torch.from_numpy(batch.inputs)).squeeze(-1).numpy()
    score = evaluate(model, task, batch)
    assert score.total == np.isfinite(batch.targets).sum()
    assert score.loss == pytest.approx(np.nanmean((outputs - batch.targets) ** 2), rel=1e-4)
    assert score.correct is score.acc is score.chain_correct is score.chain_acc is None


@pytest.mark.parametrize("kind", ["ids", "reals"])
def test_no_loss_and_no_gradient_where_there_is_no_target(kind: str) -> None:
    if kind == "ids":
        outputs, targets = torch.randn(2, 3, 5), torch.tensor([[1, IGNORE, 4], [IGNORE, 0, 2]])
    else:
        outputs = torch.randn(2, 3, 1)
        targets = torch.tensor([[1.0, torch.nan, 4.0], [torch.nan, 0.0, 2.0]])
    outputs.requires_grad_()
    mean = loss_of(outputs, targets)
    torch.testing.assert_close(mean, loss_of(outputs, targets, "sum") / 4)
    mean.backward()  # type: ignore[no-untyped-call]  # torch has no types for it
    unscored = torch.tensor([[False, True, False], [True, False, False]])
    assert outputs.grad is not None
    assert (outputs.grad[unscored] == 0).all()
    assert (outputs.grad[~unscored] != 0).any(-1).all()


def test_evaluation_leaves_the_mode_as_it_was() -> None:
    task, model = TASKS[0], trained(TASKS[0], MODELS[0], 1)
    chains = task.sample(np.random.default_rng(1), 4, Split.CHECK)
    for training in (True, False):
        model.train(training)
        evaluate(model, task, chains)
        assert model.training is training


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_profile_holds_the_means_of_every_position(seed: int, from_first: bool) -> None:
    rng = np.random.default_rng(seed)
    losses, right = rng.random((9, 6)), rng.random((9, 6)) < 0.5
    scored = rng.random((9, 6)) < 0.6
    first = scored.argmax(axis=1) if from_first else None
    profile = Profile.empty(6)
    for rows in (slice(0, 4), slice(4, 9)):
        part = None if first is None else first[rows]
        profile.add(losses[rows], right[rows], scored[rows], part)
    for position, (loss, acc) in enumerate(
        zip(
            json.loads(profile.means(profile.loss)),
            json.loads(profile.means(profile.right)),
            strict=True,
        )
    ):
        there = [
            (losses[i, t], right[i, t])
            for i in range(9)
            for t in range(6)
            if scored[i, t] and t - (first[i] if first is not None else 0) == position
        ]
        if there:
            assert loss == pytest.approx(np.mean([one for one, _ in there]), rel=1e-3)
            assert acc == pytest.approx(np.mean([one for _, one in there]), rel=1e-3, abs=1e-3)
        else:
            assert loss is acc is None


def test_a_loss_that_is_no_number_is_null() -> None:
    profile = Profile.empty(2)
    profile.add(np.array([[np.nan, 1.0]]), None, np.array([[True, True]]))
    assert json.loads(profile.means(profile.loss)) == [None, 1.0]


def test_rows_that_stand_or_fall_together_are_worth_one_answer_each() -> None:
    rng = np.random.default_rng(0)
    whole = rng.random(400) < 0.8
    targets = np.full(400, 16)
    assert worth_of(whole * 16, targets) == pytest.approx(400, rel=0.01)
    single = (rng.random((400, 16)) < 0.8).sum(axis=1)
    assert worth_of(single, targets) > 0.8 * 6400


def test_the_interval_of_hanging_rows_holds_the_truth() -> None:
    rng = np.random.default_rng(1)
    held = []
    for _ in range(300):
        of_row = rng.beta(4, 1, size=200)  # each row is easier or harder than others: .8 on average
        right = rng.binomial(16, of_row)
        low, high = wilson(right.sum() / 3200, worth_of(right, np.full(200, 16)))
        held.append(low <= 0.8 <= high)
    assert 0.92 <= np.mean(held) <= 0.98


def test_all_right_or_none_counts_rows() -> None:
    targets = np.array([3, 3, 0, 2])
    assert worth_of(targets, targets) == worth_of(0 * targets, targets) == 3
