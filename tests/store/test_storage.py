"""What every place that keeps objects promises. It is tested on each kind of place: a local folder,
S3 and Cloud Storage. Covers `limits.py`.

The last two are moto's server, reached in two ways (`object_store.py`).
"""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.errors import UserError
from sweepd.store.storage import ASIDE, Folder, checked
from sweepd.store.store import _place


@pytest.fixture
def folder(place: str) -> Folder:
    found, _ = _place(place)
    found.make()
    return found


def names(folder: Folder, below: str = "") -> list[str]:
    return [file.name for file in folder.files(below)]


def test_put_replaces_and_create_does_not(folder: Folder) -> None:
    assert folder.is_empty()
    folder.put("a/b/x", b"1")
    folder.put("a/b/x", b"2")
    assert folder.read("a/b/x") == b"2"
    assert not folder.create("a/b/x", b"3")
    assert folder.create("a/b/y", b"3")
    assert folder.read("a/b/x") == b"2"
    assert not folder.is_empty()
    folder.delete(["a/b/x", "a/b/none"])
    folder.delete(["a/b/x"])
    folder.delete([])
    assert names(folder) == ["a/b/y"]
    with pytest.raises(FileNotFoundError):
        folder.read("a/b/x")


def test_parts_are_read(folder: Folder) -> None:
    folder.put("a/x", b"0123456789")
    assert folder.read_part("a/x", 0, 3) == b"012"
    assert folder.read_part("a/x", 4, 6) == b"456789"
    assert folder.read_part("a/x", 8, 6) == b"89"
    with pytest.raises(FileNotFoundError):
        folder.read_part("a/none", 0, 1)


def test_listings_go_down_in_order_and_only_where_asked(folder: Folder) -> None:
    for name in ("a/2", "a/1/z", "ab/1", "b"):
        folder.put(name, name.encode())
    assert names(folder) == ["a/1/z", "a/2", "ab/1", "b"]
    assert names(folder, "a") == ["1/z", "2"]
    assert names(folder, "nowhere") == []
    for after, rest in (("1/a", ["1/z", "2"]), ("1/z", ["2"]), ("2", [])):
        assert [file.name for file in folder.files("a", after)] == rest
    [file] = folder.files("ab")
    assert file.size == 4 and abs(file.written - folder.now()) < 60
    assert folder.where("ab/1") == f"{folder.address}/ab/1"


def test_a_version_tells_a_change(folder: Folder) -> None:
    folder.put("x", b"1")
    [before] = folder.files()
    [again] = folder.files()
    folder.put("x", b"2")
    [after] = folder.files()
    assert before.version == again.version
    assert after.version is None or after.version != before.version


def test_what_is_being_written_is_not_listed(folder: Folder) -> None:
    folder.put(f"a/{ASIDE}half", b"")
    assert folder.is_empty() or folder.files() == []
    assert [file.name for file in folder.asides()] == [f"a/{ASIDE}half"]
    folder.delete([f"a/{ASIDE}half"])
    assert folder.asides() == []


def test_one_of_many_creates_wins(folder: Folder) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: folder.create("x", str(i).encode()), range(32)))
    assert won.count(True) == 1
    assert folder.read("x") == str(won.index(True)).encode()


def test_appended_text_comes_back_in_order(folder: Folder, place: str) -> None:
    folder.append("logs/a", "é")
    folder.append("logs/a", "\udce9\n")
    folder.flush()
    another, _ = _place(place)
    for text in ("2\n", "3\n"):
        another.append("logs/a", text)
        another.flush()
    parts = [folder.read(f"logs/{name}") for name in names(folder, "logs")]
    assert b"".join(parts) == "é?\n2\n3\n".encode()


def test_large_objects_arrive_whole(folder: Folder) -> None:
    data = bytes(range(256)) * 50_000  # in parts, on an object store
    folder.put("x", data)
    assert folder.read("x") == data
    folder.put("x", b"")
    assert folder.read("x") == b""


def test_the_clock_of_the_place_moves_on(folder: Folder) -> None:
    before = folder.now()
    time.sleep(0.01)
    assert folder.now() >= before
    assert folder.files() == folder.asides() == []


@pytest.mark.parametrize("name", ["a", "0-b_c.pt", "x" * 100])
def test_names_that_may_be_part_of_a_path(name: str) -> None:
    assert checked(name) == name


@given(st.text(st.sampled_from("/\\. \n:é\0")) | st.just("x" * 101) | st.just(".hidden"))
def test_names_that_may_not(name: str) -> None:
    with pytest.raises(UserError, match="a name has"):
        checked(name)
