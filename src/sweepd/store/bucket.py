"""Objects of a bucket (`s3://bucket/prefix` and `gs://bucket/prefix`), by way of obstore.

pyarrow.fs was not taken. It has no conditional put, so no exclusive creation and no lease. When
it closes a stream that failed, it leaves a short object. It has no request time-out on Linux.
"""

from __future__ import annotations

import os
import re
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import GCSStore, S3Store

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.store.storage import (
    MOST_BYTES,
    File,
    Folder,
    Unfit,
    aside_name,
    failure,
    is_aside,
)

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

REQUEST_SECONDS = 30.0
"""The seconds that one request may take. Large objects are sent in parts, with one request for
each."""
RETRY_SECONDS = 60.0
"""The seconds for which a failed request is tried again, with growing pauses."""
LONGEST_PAUSE = 5.0
MOST_KEPT = 2**28
"""The most bytes of objects that a process keeps, so as not to fetch them again."""

_REFUSED = re.compile(r"status code: 4(?!08|29)\d\d")
"""A pattern of errors with which the store refuses a request. It would answer the same again."""
_BUSY = re.compile(r"status code: (5|408|429)")
"""A pattern of errors that pass."""
_ROLE = re.compile(r"//169\.254\.169\.254|/latest/(api/token|meta-data)|computeMetadata")
"""A pattern of errors of a machine whose role is asked for, as a last resort, and that has none."""
_ELSEWHERE = re.compile(
    "status code: 301|without LOCATION|PermanentRedirect|AuthorizationHeaderMalformed"
    "|IllegalLocationConstraint"
)
"""A pattern of Amazon's errors about a request that was made for another region than the bucket's.
They do not pass either."""

_Result = TypeVar("_Result")


class Object(NamedTuple):
    data: bytes
    version: str
    written: float
    """The time of writing in seconds since 1970, by the store's clock. This may have whole seconds
    only."""


class ObjectFolder(Folder):
    """The objects below an address of a bucket (see `storage.Folder`). It also compares and
    swaps, which only object stores can.

    Addresses and credentials come from the environment (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, …;
    GOOGLE_APPLICATION_CREDENTIALS, …), from the machine's role, and, where boto3 is installed, from
    the profiles of ~/.aws. So does the region (AWS_REGION). Where the bucket is in another one,
    that one is found out.
    """

    def __init__(
        self,
        address: str,
        request_seconds: float = REQUEST_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Raises UserError for an address of another form. Asks the store nothing yet."""
        self.address = address.rstrip("/")
        self._scheme, _, rest = address.partition("://")
        self._bucket, _, self._prefix = rest.rstrip("/").partition("/")
        wrong = self._prefix and {"", ".", ".."}.intersection(self._prefix.split("/"))
        if wrong or not self._bucket:
            raise UserError(f"{address}: an address is {self._scheme}://bucket/prefix")
        self._request_seconds, self._retry_seconds = request_seconds, retry_seconds
        self._region = _regions.get(self.address)
        self._store = self._connect()
        # What a conditional put compares: S3 the ETag, GCS the generation.
        self._version_key = "e_tag" if isinstance(self._store, S3Store) else "version"
        self._unwritten: defaultdict[str, list[str]] = defaultdict(list)
        self._log_parts: dict[str, int] = {}
        self._kept: dict[str, tuple[str, bytes]] = {}
        """The version and the content of objects that were read, the oldest first."""
        self._kept_bytes, self._keeping = 0, threading.Lock()

    def where(self, name: str) -> str:
        return f"{self.address}/{name}" if name else self.address

    def make(self) -> None:
        """Makes nothing, but checks that the store can be used. A folder is there as soon as
        something is in it, and buckets are the user's. Raises EnvironmentFailure if the store
        overwrites where it was told not to, as some that speak S3 do. Exclusive creation and
        leases depend on that."""
        probe = aside_name()
        made = self.create(probe, b"1")
        try:
            if not made or self.create(probe, b"2") or self.swap(probe, b"3", version="1"):
                raise failure("use", self.address, "it ignores If-None-Match or If-Match")
        finally:
            self.delete([probe])

    def now(self) -> float:
        probe = aside_name()
        self.put(probe, b"")
        try:
            return self.get(probe).written
        finally:
            self.delete([probe])

    def is_empty(self) -> bool:
        def is_empty() -> bool:
            pages = obstore.list(self._store)  # the first page is enough
            return all(is_aside(meta["path"]) for page in pages for meta in page)

        return self._trying("list", "", is_empty)

    def read(self, name: str, version: str | None = None, most: int = MOST_BYTES) -> bytes:
        if version is None:
            return self.get(name, most).data
        known, data = self._kept.get(name, ("", b""))
        if known == version:
            return data
        data = self.get(name, most).data
        with self._keeping:
            self._kept_bytes += len(data) - len(self._kept.pop(name, ("", b""))[1])
            self._kept[name] = version, data
            while self._kept_bytes > MOST_KEPT:
                self._kept_bytes -= len(self._kept.pop(next(iter(self._kept)))[1])
        return data

    def read_part(self, name: str, start: int, length: int) -> bytes:
        def get_range() -> bytes:
            return bytes(obstore.get_range(self._store, name, start=start, length=length))

        return self._trying("read", name, get_range)

    def get(self, name: str, most: int = MOST_BYTES) -> Object:
        """Returns the object. Raises FileNotFoundError if there is no such object, and Unfit if it
        has more than `most` bytes."""

        def get() -> Object:
            answer = obstore.get(self._store, name)
            meta = answer.meta
            if meta["size"] > most:
                raise Unfit(f"larger than {most:,} bytes")
            version = str(meta[self._version_key])  # type: ignore[literal-required]
            return Object(bytes(answer.bytes()), version, meta["last_modified"].timestamp())

        return self._trying("read", name, get)

    def put(self, name: str, data: bytes) -> None:
        self._trying("write", name, lambda: obstore.put(self._store, name, data))

    def create(self, name: str, data: bytes) -> bool:
        return self.swap(name, data, None) is not None

    def swap(self, name: str, data: bytes, version: str | None) -> str | None:
        """Makes `name` hold `data` if its version is still this one. None stands for no object.

        Returns its new version, or None if it was another one. A try whose answer was lost may
        have done it, so every call marks what it writes and looks for its own mark.
        """
        mark = uuid.uuid4().hex
        mode: Any = "create" if version is None else {self._version_key: version}

        def put() -> str | None:
            try:
                done = obstore.put(self._store, name, data, mode=mode, attributes={"mark": mark})
                return str(done[self._version_key])  # type: ignore[literal-required]
            except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
                if isinstance(error, FileNotFoundError) and version is None:
                    raise  # not even a bucket
                with suppress(FileNotFoundError):
                    there = obstore.get(self._store, name, options={"head": True})
                    if there.attributes.get("mark") == mark:
                        return str(there.meta[self._version_key])  # type: ignore[literal-required]
                return None

        return self._trying("write", name, put)

    def append(self, name: str, text: str) -> None:
        self._unwritten[name].append(text)

    def flush(self) -> None:
        for name in list(self._unwritten):
            data = "".join(self._unwritten[name]).encode(errors="replace")
            part = self._log_parts.get(name) or len(self.files(name)) + 1
            while not self.create(f"{name}/{part:06d}.log", data):
                part += 1
            self._log_parts[name] = part + 1
            del self._unwritten[name]

    def delete(self, names: Collection[str]) -> None:
        def delete() -> None:
            try:
                obstore.delete(self._store, list(names))
            except FileNotFoundError:  # a store that deletes one by one stops at a missing one
                for name in names:
                    with suppress(FileNotFoundError):
                        obstore.delete(self._store, name)

        if names:
            self._trying("delete", min(names), delete)

    def listed(self, below: str = "", after: str = "") -> list[File]:
        skipped = len(below) + 1 if below else 0
        offset = (f"{below}/{after}" if below else after) if after else None

        def every_page() -> list[File]:
            files = []
            for page in obstore.list(self._store, below or None, offset=offset):
                for meta in page:
                    name, written = meta["path"][skipped:], meta["last_modified"].timestamp()
                    files.append(File(name, meta["size"], written, meta["e_tag"]))
            return sorted(files, key=lambda file: file.name)

        return self._trying("list", below, every_page)

    def _trying(self, what: str, name: str, act: Callable[[], _Result]) -> _Result:
        """Returns what `act` returns, and tries again after errors that may pass. obstore itself
        tries again only where a request changes nothing by being sent twice. Other requests are
        tried again here, and so are reads whose answer broke off. Raises UserError if there is no
        such bucket, and EnvironmentFailure if the store refuses or the time for trying is over."""
        until, delay = time.monotonic() + self._retry_seconds, 0.1
        while True:
            store = self._store
            try:
                return act()
            except (BaseError, OSError, ValueError) as error:
                if "NoSuchBucket" in str(error):
                    raise UserError(f"{self.address}: there is no such bucket") from error
                if isinstance(error, FileNotFoundError | Unfit):
                    raise
                if _ROLE.search(str(error)) and not _BUSY.search(str(error)):
                    raise EnvironmentFailure(
                        f"no credentials for {self.address}: {self._how}"
                    ) from error
                failed = failure(what, self.where(name), _reason(error))
                if _ELSEWHERE.search(str(error)):
                    self._move(store, failed)
                    continue
                if _REFUSED.search(str(error)):
                    raise failed from error
                if time.monotonic() + delay > until:
                    raise failed from error
            time.sleep(delay)
            delay = min(2 * delay, LONGEST_PAUSE)

    def _move(self, asked: ObjectStore, error: EnvironmentFailure) -> None:
        """Connects to the region in which the bucket is, unless another thread has done so since
        the connection `asked` was made. Raises `error`, with what is known of the region, if that
        region was asked already."""
        with _moving:
            if self._store is not asked:
                return
            # Amazon tells the region to whoever asks, also without credentials.
            endpoint = os.environ.get("AWS_ENDPOINT_URL", "https://s3.amazonaws.com").rstrip("/")
            request = Request(f"{endpoint}/{self._bucket}", method="HEAD")
            try:
                with urlopen(request, timeout=self._request_seconds) as answer:
                    region = answer.headers.get("x-amz-bucket-region")
            except HTTPError as refusal:  # a private bucket's, which names the region all the same
                region = refusal.headers.get("x-amz-bucket-region")
            except OSError:
                region = None
            if not region or region == self._region:
                known = f"it is in {region}" if region else "which one, the store does not say"
                raise type(error)(f"{error} (the bucket is in another region than asked; {known})")
            self._region = _regions[self.address] = str(region)
            self._store = self._connect()

    def _connect(self) -> ObjectStore:
        client: ClientConfig = {
            "timeout": timedelta(seconds=self._request_seconds),
            "connect_timeout": timedelta(seconds=min(5.0, self._request_seconds)),
            "allow_http": True,  # a user who names an http:// endpoint means it
        }
        retry: RetryConfig = {
            "max_retries": 10 if self._retry_seconds else 0,
            "retry_timeout": timedelta(seconds=self._retry_seconds),
            "backoff": {"max_backoff": timedelta(seconds=LONGEST_PAUSE)},
        }
        options: dict[str, Any] = {"prefix": self._prefix or None}
        options |= {"client_options": client, "retry_config": retry}
        try:
            if self._scheme == "gs":
                return GCSStore(self._bucket, **options)
            if self._region:
                options["region"] = self._region
            # Only boto3 can read the credentials of an AWS profile or single sign-on. It is not
            # asked where the environment gives credentials or says that none are needed.
            if not {"AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE"}.intersection(os.environ):
                options |= _from_boto3(self.address, retry)
            return S3Store(self._bucket, **options)
        except (BaseError, OSError, ValueError) as error:
            raise EnvironmentFailure(f"cannot open {self.address}: {_reason(error)}") from error

    @property
    def _how(self) -> str:
        """How to give credentials for such a bucket."""
        if self._scheme == "gs":
            return (
                "run `gcloud auth application-default login`, or set "
                "GOOGLE_APPLICATION_CREDENTIALS to the file of a key"
            )
        return "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


def _from_boto3(address: str, retry: RetryConfig) -> dict[str, Any]:
    """Returns the option with the credentials that boto3 knows, if it is installed and knows some.
    If not, there may still be a machine's role, which is asked for only once more. Raises
    EnvironmentFailure for a profile that is not there."""
    try:
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        return {}
    try:
        return {"credential_provider": Boto3CredentialProvider()}
    except ValueError:
        retry["max_retries"] = 1
        return {}
    except BotoCoreError as error:
        raise EnvironmentFailure(f"no credentials for {address}: {error}") from None


_moving = threading.Lock()
_regions: dict[str, str] = {}
"""The regions of the buckets, by address, that are not where the environment says."""


def _reason(error: Exception) -> str:
    """Returns what the store itself said, or else the first line of the client's message."""
    text = str(error)
    if said := re.search(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", text, re.DOTALL):
        return f"{said[1]}: {said[2]}"
    return text.partition("\n")[0][:500] or type(error).__name__
