"""What the store asks of a place that keeps its objects. `local.py` and `bucket.py` are such
places.

The modules above them speak of whole objects by relative name (`trials/x.parquet`). They do not
know which kind of place they are in.
"""

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.limits import NAME
from sweepd.listing import shown

FORMAT = 1
"""The version of the layout of a store (docs/store.md). A store of a higher version is refused."""
ASIDE = ".aside-"
"""The beginning of the names of files that are still being written. Only `asides` lists these
files."""
DIGEST_LENGTH = 32
MOST_BYTES, MOST_TEXT = 2**31, 2**26
"""The most bytes of an object that is read whole, and of one that holds JSON or a grid. A larger
one is damage, since nobody writes such a one, and it would fill the memory."""
READERS = 16
"""The number of files that are read at once."""
Item = TypeVar("Item")
Result = TypeVar("Result")


class Unfit(ValueError):
    """What lies under a name is no object of a store: a link, a pipe, a device, or too large. It is
    damage, and was not read."""


@dataclass(frozen=True)
class File:
    """An object as a listing shows it."""

    name: str
    """The name of the object below the folder that was listed, with slashes."""
    size: int
    """The size in bytes."""
    written: float
    """The time of writing in seconds since 1970, by the clock of the place."""
    version: str | None
    """A text that differs where the content does; None if the place cannot tell without reading the
    object."""
    fit: bool = True
    """False for a link, a pipe or a device. It is listed so that it can be named, and never
    read."""


@dataclass(frozen=True)
class Damaged:
    """A file, or rows of one, that were read and are wrong. It is left as it is."""

    path: str
    reason: str

    def __str__(self) -> str:
        return shown(f"{self.path}: {self.reason}")


class Folder(Protocol):
    """Objects that appear whole or not at all, and last once the call that wrote them returns.

    What fails raises EnvironmentFailure with the object's address and the reason, after some tries.
    So who gets an answer has read all that is there. On a disk no link below the folder is
    followed: reading one raises Unfit, and to list or write through one fails.
    """

    address: str
    """The absolute address, which means the same in every process."""

    def where(self, name: str) -> str:
        """Returns the address of an object."""

    def make(self) -> None:
        """Makes the folder itself if it is missing and can be made."""

    def now(self) -> float:
        """Returns the time by the clock that dates files. It writes to learn it, so it also tells
        whether one can write."""

    def is_empty(self) -> bool:
        """Returns whether nothing lies here or below."""

    def read(self, name: str, version: str | None = None, most: int = MOST_BYTES) -> bytes:
        """Returns the content of an object. Raises FileNotFoundError if there is no such object,
        and Unfit if it is none or has more than `most` bytes.

        version: that of a listing, if it has one. What was read of that version before may then be
        returned again.
        """

    def read_part(self, name: str, start: int, length: int) -> bytes:
        """Returns `length` bytes (at least 1) of an object from byte `start`, or fewer where it
        ends. Raises FileNotFoundError if there is no such object, and Unfit if it is none. Several
        threads may call it at once."""

    def listed(self, below: str = "", after: str = "") -> list[File]:
        """Returns `files` and `asides` together."""

    def files(self, below: str = "", after: str = "") -> list[File]:
        """Returns all that lies in a folder or below, sorted by name, or only what comes after a
        name. Returns nothing if there is no such folder."""
        return [file for file in self.listed(below, after) if not is_aside(file.name)]

    def asides(self) -> list[File]:
        """Returns what writers are writing, or left behind when they died."""
        return [file for file in self.listed() if is_aside(file.name)]

    def put(self, name: str, data: bytes) -> None:
        """Makes `name` hold `data`, in place of what it held."""

    def create(self, name: str, data: bytes) -> bool:
        """Makes `name` hold `data` unless it exists. Returns False where it exists."""

    def append(self, name: str, text: str) -> None:
        """Adds text to a log, which is the file `name`.log or a folder `name` of files.

        This is the one write that is not durable at once. `flush` makes it so.
        """

    def flush(self) -> None:
        """Writes out what was appended."""

    def delete(self, names: Collection[str]) -> None:
        """Deletes these objects. Nothing happens to a name that is gone already."""


def each(function: Callable[[Item], Result], items: Collection[Item]) -> list[Result]:
    """Returns what a function makes of each of these, in their order. Threads work on `READERS` of
    them at a time, since on an object store each read waits for a round trip. Raises the first
    error."""
    if len(items) < 2:  # to start a thread takes longer than to read a small file
        return [function(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor  # which takes a while

    with ThreadPoolExecutor(min(READERS, len(items))) as pool:
        return list(pool.map(function, items))


def is_name(name: str) -> bool:
    """Returns whether a name from outside may be part of a path."""
    return re.fullmatch(NAME, name) is not None


def checked(name: str) -> str:
    """Returns a name from outside that may be part of a path. Raises UserError if it may not."""
    if not is_name(name):
        raise UserError(
            f"{name!r}: a name has 1 to 100 letters, digits, '.', '_' and '-', and no '.' in front"
        )
    return name


def digest(data: bytes) -> str:
    """Returns hexadecimal digits that tell whether data is what was written."""
    return hashlib.blake2b(data, digest_size=DIGEST_LENGTH // 2).hexdigest()


def unsealed(stored: bytes) -> bytes:
    """Returns data without its digest behind it. Raises ValueError if it is damaged."""
    data, written = stored[:-DIGEST_LENGTH], stored[-DIGEST_LENGTH:]
    if digest(data).encode() != written:
        raise ValueError("truncated or changed: it does not end in its digest")
    return data


DIGESTED = re.compile(rb"sweepd\.digest(.{2,4}?)([0-9a-f]{%d})" % DIGEST_LENGTH, re.DOTALL)
"""The digest that a file holds of itself: that of its bytes with zeros in the digest's place. It
follows this key in JSON, in a remark of YAML and in the metadata of Parquet. The last one
counts."""
DIGEST_KEY, NO_DIGEST = "sweepd.digest", "0" * DIGEST_LENGTH


def with_digest(data: bytes) -> bytes:
    """Returns a file that ends in `DIGEST_KEY` and `NO_DIGEST` with its digest in place of that."""
    *_, place = DIGESTED.finditer(data)
    return data[: place.start(2)] + digest(data).encode() + data[place.end(2) :]


def check_digest(data: bytes) -> bool:
    """Returns whether a file holds its digest, as those of earlier versions do not. Raises
    ValueError if it is another one."""
    places = [*DIGESTED.finditer(data)]
    if not places:
        return False
    place = places[-1]
    blank = data[: place.start(2)] + NO_DIGEST.encode() + data[place.end(2) :]
    if digest(blank).encode() != place[2]:
        raise ValueError("truncated or changed: its digest is another")
    return True


def to_json(info: Mapping[str, Any]) -> bytes:
    """Returns an object as JSON with its digest."""
    text = json.dumps({**info, DIGEST_KEY: NO_DIGEST}, indent=1, ensure_ascii=False)
    return with_digest(text.encode(errors="replace") + b"\n")


class Whole(dict[str, Any]):
    """A shape (see `from_json`) of a mapping that has all of these keys."""


def from_json(data: bytes, shape: Any) -> Any:
    """Returns what JSON text holds, without its digest. Raises ValueError if the text is not JSON,
    if its digest is another, or if it is not of this shape.

    A shape is a type; `[shape]` for a list; `{str: shape}` for a mapping of names; or a mapping
    that gives the shapes of some keys, or of keys that must be there (`Whole`). Numbers are
    finite, and texts can be written as UTF-8.
    """
    check_digest(data)
    try:
        content = json.loads(data, parse_constant=_refuse)
        json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not _fits(content, shape):
        raise ValueError("not what was saved")
    if isinstance(content, dict):
        content.pop(DIGEST_KEY, None)
    return content


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


def _fits(value: object, shape: Any) -> bool:
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(item, shape[0]) for item in value)
    if not isinstance(shape, dict):
        return isinstance(value, shape) and (shape is not int or not isinstance(value, bool))
    if not isinstance(value, dict) or (
        isinstance(shape, Whole) and not shape.keys() <= value.keys()
    ):
        return False
    return all(_fits(item, shape.get(key, shape.get(str, object))) for key, item in value.items())


def aside_name() -> str:
    return ASIDE + uuid.uuid4().hex


def is_aside(name: str) -> bool:
    return name.rpartition("/")[2].startswith(ASIDE)


def failure(what: str, where: str, reason: str) -> EnvironmentFailure:
    return EnvironmentFailure(f"cannot {what} {where}: {reason}")
