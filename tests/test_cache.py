"""What is put into the user's cache folder comes back as it was, or not at all."""

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


def test_a_cache_that_cannot_be_written_stays_empty(folder: Path) -> None:
    folder.write_text("a file in its place")
    cache.keep("a/x", b"one")
    assert cache.recall("a/x") is None
    assert folder.read_text() == "a file in its place"
