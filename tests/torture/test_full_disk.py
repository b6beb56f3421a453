"""A sweep whose disk is full, by the command line. It ends with the reason and loses nothing. It
goes on when there is room again."""

import subprocess
import sys
from pathlib import Path

import pytest
from shell import Shell

GRID = """
name: full
task:  {name: lis, n: 3, value_range: 16}
model: {name: standard, d: 32, layers: 2, heads: 2}
train: {steps: 60, batch_size: 8}
evaluate: {check_samples: 16, verdict_samples: 16}
checkpoint_seconds: 0.2
"""
SCRIPT = """
mkdir disk && mount -t tmpfs -o size=400k tmpfs disk || exit 77
sweepd launch grid.yaml --yes; echo "launched: $?"
sweepd status full; echo "asked: $?"
mount -o remount,size=50m disk
sweepd resume; echo "resumed: $?"
sweepd sql "SELECT status, step FROM attempts ORDER BY attempt" --csv
"""


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(tmp_path)
    shell.write("grid.yaml", GRID)
    monkeypatch.setenv("SWEEPD_RESULTS", str(shell.folder / "disk" / "results"))
    monkeypatch.setenv("SWEEPD_RESCUE", str(shell.folder / "rescue"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", SCRIPT],
        cwd=shell.folder,
        capture_output=True,
        text=True,
    )
    if "unshare failed" in done.stderr or done.returncode == 77:
        pytest.skip(f"this machine lets nobody mount: {done.stderr}")
    out, err = done.stdout, done.stderr
    assert "launched: 3\n" in out and "asked: 0\n" in out and "resumed: 0\n" in out, out + err
    assert "No space left on device" in err and str(shell.folder / "rescue") in err, err
    assert "took in" in err and "Traceback" not in err, err
    interrupted, completed = out.splitlines()[-2:]
    assert interrupted.startswith("interrupted,") and completed == "completed,60"
    assert 0 < int(interrupted.partition(",")[2]) < 60
