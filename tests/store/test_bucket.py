"""What is special about object stores: requests that fail, come late or are lost, and
credentials."""

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from object_store import Amazon, Answer, Fault, Objects, Proxy

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.store.bucket import ObjectFolder

DATA = bytes(range(256)) * 40


@pytest.fixture
def folder(s3: Proxy, bucket: str) -> ObjectFolder:
    """Whose `present` is there."""
    made = ObjectFolder(f"s3://{bucket}/results", request_seconds=0.5, retry_seconds=5)
    made.put("present", DATA)
    return made


def first(*faults: str) -> Fault:
    """The first requests fail so."""
    left = list(faults)
    return lambda method, path: left.pop(0) if left else None


def put(folder: ObjectFolder) -> bool:
    folder.put("present", DATA)
    return True


def delete(folder: ObjectFolder) -> bool:
    folder.delete(["absent"])
    return True


ACTS: dict[str, Callable[[ObjectFolder], object]] = {
    "read": lambda folder: folder.read("present") == DATA,
    "list": lambda folder: [file.name for file in folder.files()] == ["present"],
    "put": put,
    "create": lambda folder: folder.create("new", DATA),
    "swap": lambda folder: folder.swap("present", b"new", folder.get("present").version),
    "delete": delete,
}


@pytest.mark.parametrize("fault", ["refuse", "reset", "lose", "cut", "hang"])
def test_what_passes_is_tried_again_and_done_once(
    folder: ObjectFolder, s3: Proxy, fault: str
) -> None:
    """This also holds if the answer was lost: whoever created an object learns that it was the one
    who did."""
    for name, act in ACTS.items():
        s3.fault = first(fault)
        assert act(folder), name
    assert folder.read("new") == DATA and not folder.create("new", b"other")


@pytest.mark.parametrize("fault, seconds", [("refuse", 5.0), ("hang", 0.2)])
def test_what_does_not_pass_ends_with_address_and_reason(
    s3: Proxy, bucket: str, fault: str, seconds: float
) -> None:
    folder = ObjectFolder(f"s3://{bucket}/results", request_seconds=seconds, retry_seconds=0.2)
    s3.fault = lambda method, path: fault
    for act in ACTS.values():
        with pytest.raises(EnvironmentFailure, match=r"cannot \w+ s3://.*: \w+") as caught:
            act(folder)
        assert fault == "hang" or "SlowDown: Please reduce" in str(caught.value)


def refused(folder: ObjectFolder, way: Proxy, reason: str, most: int) -> None:
    """Every act is refused with so many requests at most."""
    for act in ACTS.values():
        before = len(way.requests)
        with pytest.raises(EnvironmentFailure, match=reason):
            act(folder)
        assert len(way.requests) <= before + most


def test_what_is_forbidden_is_not_tried_again(folder: ObjectFolder, s3: Proxy) -> None:
    s3.fault = lambda method, path: "forbid"
    refused(folder, s3, r"s3://.*: AccessDenied", 1)


@pytest.mark.usefixtures("s3")
def test_a_bucket_that_does_not_exist() -> None:
    folder = ObjectFolder("s3://no-such-bucket/results")
    for name, act in ACTS.items():
        if name != "delete":  # which S3 does not mind
            with pytest.raises(UserError, match="no-such-bucket/results: there is no such bucket"):
                act(folder)


@pytest.mark.parametrize("said", [None, "us-west-2"])
def test_the_region_of_a_bucket_is_found(
    amazon: Amazon, bucket: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This also holds where the environment says another one."""
    if said:
        monkeypatch.setenv("AWS_DEFAULT_REGION", said)
    folder = ObjectFolder(f"s3://{bucket}/results")
    folder.put("present", DATA)
    for name, act in ACTS.items():
        assert act(folder), name
    asked = len(amazon.requests)
    assert ObjectFolder(folder.address).read("present") == b"new"
    assert len(amazon.requests) == asked + 1, "a process asks for it once"


def test_a_region_that_nobody_tells_ends_at_once(amazon: Amazon, bucket: str) -> None:
    amazon.tells = False
    refused(ObjectFolder(f"s3://{bucket}/results"), amazon, "another region than asked", 2)


def test_a_store_that_overwrites_where_it_must_not_is_refused(
    objects: Objects, s3: Proxy, folder: ObjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.make()
    for ignored in ("if-none-match", "if-match"):

        def relay(
            method: str, path: str, headers: dict[str, str], body: bytes, ignored: str = ignored
        ) -> Answer:
            kept = {name: value for name, value in headers.items() if name.lower() != ignored}
            return objects.ask(method, path, kept, body)

        monkeypatch.setattr(s3, "relay", relay)
        with pytest.raises(EnvironmentFailure, match="ignores If-None-Match or If-Match"):
            folder.make()
    assert [file.name for file in folder.files()] == ["present"] and folder.asides() == []


def test_what_a_listing_shows_unchanged_is_fetched_once_while_there_is_room(
    folder: ObjectFolder, s3: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweepd.store.bucket.MOST_KEPT", 2 * len(DATA))

    def fetched(*names: str) -> int:
        before = s3.count("GET", "/results/")
        for file in folder.files():
            if file.name in names:
                assert folder.read(file.name, file.version) == expected.get(file.name, DATA)
        return s3.count("GET", "/results/") - before

    expected: dict[str, bytes] = {}
    folder.put("a", DATA)
    assert [fetched("a", "present") for _ in range(2)] == [2, 0]
    expected["present"] = b"new"
    folder.put("present", b"new")
    assert [fetched("a", "present") for _ in range(2)] == [1, 0]
    folder.put("b", DATA)
    folder.put("c", DATA)
    assert fetched("b", "c") == 2 and fetched("b", "c") == 0 and fetched("a") == 1


def test_of_two_that_swap_one_does(folder: ObjectFolder) -> None:
    version = folder.get("present").version
    assert folder.swap("present", b"a", version)
    assert folder.swap("present", b"b", version) is None
    assert folder.swap("absent", b"b", version) is None
    assert folder.read("present") == b"a"


def test_credentials_of_a_profile_are_found_by_boto3(
    s3: Proxy, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    keys = Path(tmp_path, "credentials")
    keys.write_text("[mine]\naws_access_key_id = PROFILE\naws_secret_access_key = secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    ObjectFolder(f"s3://{bucket}").put("x", b"")
    assert "Credential=PROFILE/" in s3.headers[-1]["authorization"]


def test_long_listings_are_read_to_their_end(folder: ObjectFolder, s3: Proxy) -> None:
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    folder = ObjectFolder(folder.address)  # which waits longer than half a second
    names = [f"a/{a:02d}{b:02d}" for a, b in itertools.product(range(11), range(100))]
    bucket, _, root = folder.address[5:].partition("/")
    for name in names:  # without a request for each
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(bucket, f"{root}/{name}", b"")
    assert [f"a/{file.name}" for file in folder.files("a")] == names
    folder.delete(names)
    assert folder.files("a") == []
    assert s3.count("POST", "delete") == 2  # a thousand each


@pytest.mark.parametrize("library", ["boto3", "obstore"])
def test_a_machine_has_the_credentials_of_its_role(
    amazon: Amazon, bucket: str, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """Without boto3 obstore asks for them. Requests beyond the rate are tried again."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_METADATA_ENDPOINT"):
        monkeypatch.setenv(name, amazon.url)
    monkeypatch.setenv("HOME", "/nowhere")
    if library == "obstore":
        monkeypatch.setitem(sys.modules, "boto3", None)
    amazon.most = 10
    folder = ObjectFolder(f"s3://{bucket}/results", retry_seconds=20)
    for number in range(12):
        folder.put(f"x{number}", DATA)
    assert len(folder.files()) == 12
    tokens = {given.get("x-amz-security-token") for given in amazon.headers}
    assert tokens == {"session", None} and amazon.dollars > 12 * 5e-6


@pytest.mark.parametrize("library", ["boto3", "obstore"])
@pytest.mark.parametrize(
    ("profile", "how"),
    [
        ("", "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("nothere", "The config profile (nothere) could not be found"),
    ],
)
def test_without_credentials_it_is_said_how_to_give_some(
    monkeypatch: pytest.MonkeyPatch, library: str, profile: str, how: str
) -> None:
    """A machine without a role refuses to be asked for one."""
    amazon = Amazon(Objects(), "us-west-2")
    amazon.fault = lambda method, path: "forbid"
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name in ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_METADATA_ENDPOINT"):
        monkeypatch.setenv(name, amazon.url)
    monkeypatch.setenv("HOME", "/nowhere")
    if profile:
        if library == "obstore":
            pytest.skip("without boto3 nobody reads profiles")
        monkeypatch.setenv("AWS_PROFILE", profile)
    if library == "obstore":
        monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(EnvironmentFailure) as refused:
        ObjectFolder("s3://bucket/results", retry_seconds=5).files()
    assert str(refused.value) == f"no credentials for s3://bucket/results: {how}"
    amazon.close()
