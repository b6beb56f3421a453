"""Writes a file at once: whoever reads it meanwhile sees the old file or the new one, whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from sweepd.errors import EnvironmentFailure


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """Yields a path beside a file, where its new content is to be written. It takes the file's
    place at the end of the block, unless the block fails. Raises EnvironmentFailure where the file
    can't be written."""
    aside = out.with_name(f".sweepd-{uuid4().hex}")
    try:
        yield aside
        aside.replace(out)
    except OSError as error:
        reason = error.strerror or str(error)
        if not out.parent.is_dir():
            reason = f"there is no folder {out.parent}"
        raise EnvironmentFailure(f"cannot write {out}: {reason}") from error
    finally:
        with suppress(OSError):
            aside.unlink()


def write(out: Path, content: bytes) -> None:
    """Makes or replaces a file, as `replacing` does."""
    with replacing(out) as aside:
        aside.write_bytes(content)
