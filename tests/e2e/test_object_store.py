"""A sweep whose results are on S3, by the command line. It is launched, and a second driver is
refused. It is taken over from a driver that stood still, and in the end it is asked.
tests/store/test_store.py takes over from one that was killed."""

import re
import signal
import sys

import pytest
from e2e.conftest import Running
from object_store import Objects, Proxy
from shell import ONE_AT_A_TIME, SharedShell
from waiting import wait_until

from sweepd.store import leases

GRID = f"""
name: remote
task:  {{name: mine.py:Slow, n: 2, value_range: 64}}
model: {{name: standard, d: [4, 8], layers: 1, heads: 1}}
train: {{steps: 16, batch_size: 4}}
evaluate: {{check_every: 8, check_samples: 8, verdict_samples: 16}}
resources: {ONE_AT_A_TIME}
goal: acc >= 0
checkpoint_seconds: 0.5
"""
KEYS = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"
SECRET = "not-for-everybody"
"""What the environment of each launch has as each of these. moto lets everybody in."""
TERM, RENEW = 5.0, 1.0
SHORT_TERM = f"""
from sweepd.store import leases
leases.TERM_SECONDS, leases.RENEW_SECONDS = {TERM}, {RENEW}
import sweepd.cli
sweepd.cli.main()
"""


@pytest.fixture
def remote(
    mine: SharedShell, s3: Proxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> SharedShell:
    """Runs sweepd with its results in a bucket, and with leases of few seconds."""
    monkeypatch.setenv("SWEEPD_RESULTS", f"s3://{bucket}/results")
    for name in KEYS:
        monkeypatch.setenv(name, SECRET)
    mine.write("grid.yaml", GRID)
    monkeypatch.setattr(leases, "TERM_SECONDS", TERM)
    monkeypatch.setattr(leases, "RENEW_SECONDS", RENEW)
    mine.command = [sys.executable, "-c", SHORT_TERM]
    return mine


def test_a_sweep_on_s3(
    remote: SharedShell, running: Running, s3: Proxy, bucket: str, objects: Objects
) -> None:
    first = running(remote.start("launch", "grid.yaml", "--yes"))
    wait_until(lambda: s3.count("PUT", "/launches/") >= 1, process=first)
    refused = remote.run("launch", "grid.yaml", "--yes", exits=3).stderr
    assert "another driver holds it" in refused and str(first.pid) in refused
    [row] = remote.rows("status")
    assert row["running"] is True

    wait_until(lambda: s3.count("PUT", "/checkpoints/") >= 1, process=first)
    first.send_signal(signal.SIGSTOP)
    second = running(remote.start("resume"))
    wait_until(lambda: s3.count("PUT", "/launches/") >= 2, process=second)
    first.send_signal(signal.SIGCONT)
    _, told = first.communicate(timeout=120)
    assert first.returncode == 3 and "another took over" in told, told
    remote.write("go", "")
    _, told = second.communicate(timeout=remote.timeout)
    assert second.returncode == 0, told
    [row] = remote.rows("status")
    assert (row["completed"], row["running"]) == (2, False)
    assert "nothing to do" in remote.run("resume", "remote").stderr

    trials = remote.sql("SELECT id, step FROM trials")
    assert [row["step"] for row in trials] == [16] * 2
    [row] = remote.sql("SELECT count(*) AS rows, count(DISTINCT (id, step)) AS steps FROM metrics")
    assert row["rows"] == row["steps"]
    log = remote.run("logs", trials[0]["id"]).stdout
    assert re.findall(r"completed at step 16", log) == ["completed at step 16"]
    [row] = remote.rows("query", "min d")
    assert (row["size"], row["value"], row["verdict"]) == (2, 4, "at most")
    assert not list(remote.folder.glob("sweepd-results"))
    written = {path for method, path in s3.requests if method == "PUT"}
    stored = {path: objects.ask("GET", path, {}, b"")[2] for path in written}
    assert any("/launches/" in path for path in written)
    assert not [path for path, content in stored.items() if SECRET.encode() in content]


def test_an_address_that_is_not_there(remote: SharedShell, bucket: str) -> None:
    for address in ("s3://no-such-bucket/results", f"s3://{bucket}/else"):
        for command in (["status"], ["query", "min d"]):
            told = remote.run(*command, "--results", address, exits=2).stderr
            assert address in told
    told = remote.run("launch", "grid.yaml", "--results", "s3://no-such-bucket/x", exits=2).stderr
    assert "no such bucket" in told
