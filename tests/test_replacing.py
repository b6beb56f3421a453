"""Writing a file as a whole: a reader finds the old content or the new one, and a write that fails
changes nothing and leaves nothing behind."""

from pathlib import Path

import pytest

from sweepd.errors import EnvironmentFailure
from sweepd.replacing import replacing, write


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    for content in (b"first", b"", b"second"):
        write(out, content)
        assert out.read_bytes() == content and [*tmp_path.iterdir()] == [out]


def test_until_the_end_of_the_block_the_old_content_is_there(tmp_path: Path) -> None:
    (out := tmp_path / "table.csv").write_text("old")
    with replacing(out) as aside:
        aside.write_text("new")
        assert out.read_text() == "old" and aside.parent == out.parent
    assert out.read_text() == "new" and [*tmp_path.iterdir()] == [out]


def test_the_longest_name_that_a_folder_takes_is_written(tmp_path: Path) -> None:
    out = tmp_path / f"{'a' * 251}.csv"
    write(out, b"content")
    assert out.read_bytes() == b"content"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_fails_changes_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    (out := tmp_path / "table.csv").write_text("old")
    with pytest.raises(error), replacing(out) as aside:
        aside.write_text("half of the new con")
        raise error
    assert out.read_text() == "old" and [*tmp_path.iterdir()] == [out]


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    out = tmp_path / "nowhere" / "table.csv"
    with pytest.raises(
        EnvironmentFailure, match=f"cannot write {out}: there is no folder {out.parent}"
    ):
        write(out, b"content")
    (folder := tmp_path / "folder").mkdir()
    with pytest.raises(EnvironmentFailure, match=f"cannot write {folder}"):
        write(folder, b"content")
    assert [*tmp_path.iterdir()] == [folder]
