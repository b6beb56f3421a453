"""What a test score is made of. Loss and accuracy by position are compared with sums that are taken
one by one. How many independent answers the targets of a row are worth is compared with simulated
rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.trial.evaluation import Profile, worth_of


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
    from sweepd.intervals import wilson

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
