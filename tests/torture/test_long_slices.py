"""Slices of training as long as on thousands of slots. An interrupt waits until they are over, so
that workers save what they train. Covers `give_time_to_save` of `ray_private.py`."""

import signal
from pathlib import Path

from shell import Shell
from waiting import wait_until

LONG = """
import sys
if any(word.endswith("sweepd") for word in sys.orig_argv):
    import sweepd.run.worker
    sweepd.run.worker.LEAST_SLICE_SECONDS = 40.0
"""
"""Tells a driver that trials train for so long between two reports. Python runs it in each
process."""


def test_what_a_long_slice_has_trained_is_saved(tmp_path: Path) -> None:
    shell = Shell(tmp_path, environment={"PYTHONPATH": str(tmp_path)})
    shell.write("sitecustomize.py", LONG)
    shell.write(
        "grid.yaml",
        "name: long\ntask: {name: lis, n: 20, value_range: 64}\n"
        "model: {name: standard, d: 32, layers: 1, heads: 1}\n"
        "train: {steps: 1000000}\nresources: {cpus: 1}\n",
    )
    launch = shell.start("launch", "grid.yaml", "--yes")
    results = tmp_path / "sweepd-results"
    wait_until(lambda: any(results.glob("metrics/*.parquet")), 400, launch)
    launch.send_signal(signal.SIGINT)
    _, told = launch.communicate(timeout=120)
    assert launch.returncode == 130, told
    [attempt] = shell.sql("SELECT status, step FROM attempts")
    [newest] = shell.sql("SELECT max(step) AS step FROM metrics")
    assert attempt["status"] == "interrupted" and attempt["step"] >= newest["step"] > 0
