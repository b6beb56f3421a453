"""Metrics: which values each can have, and what a class may say of its own."""

from __future__ import annotations

import math

import pytest

from sweepd.grid.metrics import directions, fault, is_share, own, range_of


def test_accuracies_are_shares_and_nothing_is_known_of_a_user_s_metric() -> None:
    assert [name for name in ("acc", "chain_acc", "loss", "f1") if is_share(name)] == [
        *("acc", "chain_acc")
    ]
    assert range_of("loss") == (0, math.inf)
    assert range_of("f1") == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("metrics", "found", "added"),
    [
        (["acc", "loss"], {"acc": "up", "loss": "down"}, {}),
        ({"acc": "up", "far": "down"}, {"acc": "up", "far": "down"}, {"far": "down"}),
    ],
)
def test_which_way_each_is_better(
    metrics: object, found: dict[str, str], added: dict[str, str]
) -> None:
    assert fault(metrics) is None
    assert (directions(metrics), own(metrics)) == (found, added)


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        (["f1"], "do not say whether more of f1 is better"),
        ({}, "no mapping of names"),
        ({"F1": "up"}, "a name has small letters"),
        ({"f1_min": "up"}, "does not end in _min"),
        ({"f1": "more"}, "say 'up' if more is better"),
        ({"loss": "up"}, "everywhere, loss is 'down'"),
    ],
)
def test_what_no_class_may_say(metrics: object, told: str) -> None:
    assert told in (fault(metrics) or "")
