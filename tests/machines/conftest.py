"""A cluster of one's own: machines with an sshd each, and a shell that stands beside them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_E2E = Path(__file__).parents[1] / "e2e/conftest.py"
_spec = importlib.util.spec_from_file_location("e2e_conftest", _E2E)
assert _spec and _spec.loader
e2e = importlib.util.module_from_spec(_spec)
sys.modules["e2e_conftest"] = e2e
_spec.loader.exec_module(e2e)
running = e2e.running

NEEDED = ("sshd", "ssh", "rsync", "ip", "unshare", "nsenter")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Three machines at 10.99.0.11 to 13, and a shell in the folder that they share, /mnt."""
    path = os.environ["PATH"] + ":/usr/sbin"
    if missing := [name for name in NEEDED if not shutil.which(name, path=path)]:
        pytest.skip(f"needs {', '.join(missing)}")
    if os.geteuid():
        pytest.skip("only root makes network namespaces")
    folder = tmp_path_factory.mktemp("lab")
    program = [sys.executable, Path(__file__).with_name("lab.py"), folder, "3"]
    process = subprocess.Popen(
        ["unshare", "--net", "--mount", *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline() == "up\n"
    enter = ("nsenter", "--target", str(process.pid), "--net", "--mount", f"--wd={folder}")
    yield e2e.Shell(folder, (*enter, e2e.SWEEPD), {"HOME": "/home/me"})
    process.communicate()
