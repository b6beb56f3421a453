"""A read that fails is tried again. If it still fails, the command ends with exit code 3, and never
with an answer that has less. This holds for every command, and for each file and folder of a store
that it reads, of which some are tried here, and all by `make torture`. Damaged is only what was
read and is wrong."""

import errno
import random
from pathlib import Path

import pytest
from commands import COMMANDS, answered, filled
from hypothesis import settings
from object_store import Proxy
from reading import failing_reads

from sweepd.store.store import Store

REASONS = (errno.ESTALE, errno.EIO, errno.EMFILE, errno.EACCES)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("read")
    return folder, filled(folder)


@pytest.fixture
def here(made: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    monkeypatch.chdir(made[0])
    monkeypatch.setenv("SWEEPD_RESULTS", str(made[0] / "results"))
    return made


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_cannot_be_read_ends_a_command_or_changes_nothing(
    command: tuple[str, ...], here: tuple[Path, str]
) -> None:
    folder, trial = here
    root, reasons = str(folder / "results"), random.Random(" ".join(command))
    with failing_reads(lambda path: False) as read:
        whole, written = answered(command, folder, trial)
    assert whole.code == 0, whole
    places = sorted(
        {path for path in read if path.startswith(root)} - {f"{root}/sweepd-store.json"}
    )
    places = [place for place in places if "/locks" not in place]
    for place in reasons.sample(places, min(len(places), settings().max_examples // 25)):
        reason = reasons.choice(REASONS)
        with failing_reads(place.__eq__, reason, times=2):
            once, anew = answered(command, folder, trial)
        assert (once.code, once.out) == (0, whole.out), (place, once)
        assert anew.keys() == written.keys()
        with failing_reads(place.__eq__, reason):
            never, partly = answered(command, folder, trial)
        assert never.code == 3 and place in never.err, (place, never)
        assert not never.out and "Traceback" not in never.err and "damaged" not in never.err
        assert partly.items() <= written.items() or command[0] == "merge"


@pytest.mark.parametrize("command", ["sql", "merge"])
def test_a_bucket_that_fails_ends_a_command_or_changes_nothing(
    command: str, here: tuple[Path, str], s3: Proxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, of objects. A fault that lasts is an outage, or a refusal."""
    folder, _ = here
    monkeypatch.setattr("sweepd.store.bucket.RETRY_SECONDS", 0.5)
    address = f"s3://{bucket}/results"
    there, mine = Store.create(address), Store.open(str(folder / "results"))
    for file in mine.folder.files():
        if not file.name.startswith("locks/"):
            there.folder.put(file.name, mine.folder.read(file.name))
    words = {
        "sql": ("sql", *COMMANDS[0][1:], "--results", address),
        "merge": ("merge", address, "--results", "OUT/results"),
    }[command]
    whole, _ = answered(words, folder, "")
    assert whole.code == 0
    for part in ("/trials/", "sweep.json", "launches/", "plan.parquet"):
        left = [2]

        def fault(method: str, path: str, part: str = part, left: list[int] = left) -> str | None:
            if method != "GET" or part not in path or not left[0]:
                return None
            left[0] -= 1
            return "reset"

        s3.fault = fault
        once, _ = answered(words, folder, "")
        assert (once.code, once.out) == (0, whole.out), (part, once)
        for kind in ("forbid", "reset"):

            def lasting(method: str, path: str, part: str = part, kind: str = kind) -> str | None:
                return kind if method == "GET" and part in path else None

            s3.fault = lasting
            never, _ = answered(words, folder, "")
            if command == "merge" or part == "/trials/":
                assert never.code == 3 and not never.out, (part, never)
            else:
                assert (never.code, never.out) in ((3, ""), (0, whole.out))
        s3.fault = lambda method, path: None
