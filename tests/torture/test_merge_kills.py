"""A merge is killed at every step of writing, or by power cuts, and harms neither store. When the
same command runs again, the result is as if nothing had happened.

The two stores of `torture.tiny` began as one. One trial ran in both, and each has one trial more.
"""

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from torture.zygote import Zygote

from sweepd.store.store import Store

Content = dict[str, Any]


class Pair(NamedTuple):
    ours: Path
    theirs: Path
    steps: list[str]
    """of writing, that a merge takes which is not disturbed"""
    expected: Content
    """what it leaves"""


def content(root: Path) -> Content:
    """All that a store holds, launches by what they say, since numbers are given anew."""
    store = Store.open(str(root))
    endings, metrics = store.read_trials(), store.read_metrics()
    assert endings.damaged == metrics.damaged == ()
    found = {
        "endings": _counted(endings.table, "id", "attempt", "status", "ended"),
        "metrics": _counted(metrics.table, "id", "attempt", "step", "loss", "seconds"),
    }
    assert all(set(counter.values()) <= {1} for counter in found.values())
    return {
        **found,
        "sweeps": sorted(store.sweeps()),
        "kept": sorted(str(p.relative_to(root)) for p in root.glob("checkpoints/**/*.pt")),
        "launches": len(list(store.launches())),
    }


def _counted(table: pa.Table, *columns: str) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(table[name].to_pylist() for name in columns), strict=True))


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as zygote:
        yield zygote


@pytest.fixture(scope="module")
def pair(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    root = tmp_path_factory.mktemp("pair")
    ours, theirs = root / "ours", root / "theirs"
    ended, _ = zygote.run(ours, root / "told", at="open trials (aside)")
    assert not ended  # one trial trained, and its ending is not written
    shutil.copytree(ours, theirs)
    for store in (ours, theirs):
        ended, _ = zygote.run(store, root / f"{store.name}.told")
        assert ended
    whole = root / "whole"
    shutil.copytree(ours, whole)
    ended, steps = zygote.run(whole, root / "told", merge=str(theirs))
    assert ended and steps
    return Pair(ours, theirs, steps, content(whole))


def survive(zygote: Zygote, pair: Pair, root: Path, **kill: Any) -> int:
    """Kill a merge, look at both stores, and merge again. Returns whether it died."""
    before, theirs = content(pair.ours), content(pair.theirs)
    store = root / "ours"
    shutil.copytree(pair.ours, store)
    ended, _ = zygote.run(store, root / "told", merge=str(pair.theirs), **kill)
    halfway = content(store)
    for what in ("endings", "metrics"):
        assert before[what] <= halfway[what] <= pair.expected[what]
    again, _ = zygote.run(store, root / "told", merge=str(pair.theirs))
    assert again and content(store) == pair.expected
    assert content(pair.theirs) == theirs
    nothing, steps = zygote.run(store, root / "told", merge=str(pair.theirs))
    assert nothing and content(store) == pair.expected and len(steps) <= len(pair.steps)
    return not ended


def test_at_every_step_of_writing(zygote: Zygote, pair: Pair, tmp_path: Path) -> None:
    for at, name in enumerate(pair.steps):
        root = tmp_path / str(at)
        root.mkdir()
        assert survive(zygote, pair, root, at=at), name


@pytest.mark.parametrize("seed", range(20))
def test_power_cuts_at_random_steps(zygote: Zygote, pair: Pair, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    assert survive(zygote, pair, tmp_path, at=rng.randrange(len(pair.steps)), power=rng.random())
