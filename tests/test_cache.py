"""What is put into the user's cache folder comes back as it was, or not at all."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from sweepd import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sweepd"


def test_what_is_kept_comes_back_unless_it_was_changed(folder: Path) -> None:
    assert cache.recall("a/x") is None
    cache.keep("a/x", b"one")
    cache.keep("a/y", b"")
    assert (cache.recall("a/x"), cache.recall("a/y")) == (b"one", b"")
    cache.keep("a/x", b"two")
    assert cache.recall("a/x") == b"two"
    (folder / "a" / "x").write_bytes(b"else")
    assert cache.recall("a/x") is None
    assert sorted(path.name for path in (folder / "a").iterdir()) == ["x", "y"]


def test_a_file_comes_back_unless_it_was_changed(folder: Path) -> None:
    name = cache.keep_file("a", lambda path: path.write_bytes(b"one"), 3)
    assert name and cache.keep_file("a", lambda path: path.write_bytes(b"one"), 3) == name
    path = cache.recall_file(name)
    assert path and path.read_bytes() == b"one" and list((folder / "a").iterdir()) == [path]
    path.write_bytes(b"two")
    assert cache.recall_file(name) is None
    with pytest.raises(ValueError, match="half"):
        cache.keep_file("b", half, 3)
    assert cache.keep_file("b", lambda path: path.write_bytes(b"four"), 3) == ""
    assert cache.keep_file("b", Path.read_bytes, 3) is None
    assert list((folder / "b").iterdir()) == []


def half(path: Path) -> None:
    path.write_bytes(b"1")
    path.with_name(f"{path.name}.wal").write_bytes(b"2")
    raise ValueError("half of it")


def test_the_longest_unused_goes_first(folder: Path) -> None:
    writes = [partial(Path.write_bytes, data=data) for data in (b"11", b"2")]
    names = [cache.keep_file("a", write, 3) for write in writes]
    for age, name in enumerate(names):
        assert name
        os.utime(folder / name, (1000 - age, 1000 - age))
    cache.bound("a", 3)
    assert all(name and cache.recall_file(name) for name in names)
    cache.note_use(*filter(None, names[1:]))
    cache.bound("a", 2)
    assert [name and cache.recall_file(name) is not None for name in names] == [False, True]
    cache.bound("none", 2)
    (folder / "a" / ".being-written").write_bytes(b"333")
    cache.bound("a", 0)
    assert [path.name for path in (folder / "a").iterdir()] == [".being-written"]


def test_others_are_forgotten(folder: Path) -> None:
    cache.forget_others("a", {"x"})
    for name in ("a/x", "a/y", "b/y"):
        cache.keep(name, b"1")
    cache.forget_others("a", {"x"})
    assert [cache.recall(name) for name in ("a/x", "a/y", "b/y")] == [b"1", None, b"1"]


def test_a_cache_that_cannot_be_written_stays_empty(folder: Path) -> None:
    folder.write_text("a file in its place")
    cache.keep("a/x", b"one")
    cache.forget_others("a", {"x"})
    assert cache.keep_file("a", lambda path: path.write_bytes(b"one"), 3) is None
    cache.note_use("a/x")
    cache.bound("a", 0)
    assert cache.recall("a/x") is None and cache.recall_file("a/x") is None
    assert folder.read_text() == "a file in its place"
