"""Programs as people have them, each in a folder of its own under `programs`: its files, its grid,
and what must come out. All run in one sweep, which is interrupted while the last one trains."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import yaml
from shell import ONE_AT_A_TIME, SharedShell

PROGRAMS = Path(__file__).parent / "programs"
NEEDS = {"scikit-learn": find_spec("sklearn"), "binary": shutil.which("cc")}
"""What some of them need on this machine. They are left out where it is not there."""


def test_what_comes_out(tmp_path: Path) -> None:
    shell, blocks, wanted = SharedShell(tmp_path), [], {}
    for folder in sorted(PROGRAMS.iterdir()):
        if NEEDS.get(folder.name, True):
            shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
            block = yaml.safe_load((folder / "grid.yaml").read_text())["loop"]
            blocks.append(block)
            wanted[block["as"]] = json.loads((folder / "comes_out.json").read_text())
    if NEEDS["binary"]:
        subprocess.run(["cc", "-o", "root", "root.c"], cwd=tmp_path, check=True)
    resources = yaml.safe_load(ONE_AT_A_TIME)  # the last and longest runs alone
    grid = {"loop": blocks, "seeds": [0], "goal": "loss < 2", "resources": {**resources, "cpus": 2}}
    shell.write("grid.yaml", yaml.safe_dump(grid))

    # What trains the longest comes last. It is interrupted once it has saved itself.
    first = shell.start("launch", "grid.yaml", "--yes")
    while first.poll() is None and not list(tmp_path.glob("sweepd-results/checkpoints/*/*")):
        time.sleep(0.05)
    first.send_signal(signal.SIGTERM)
    told = first.communicate(timeout=shell.timeout)
    assert first.returncode == 130, told
    [cut] = shell.sql("SELECT * FROM attempts WHERE status = 'interrupted'")
    assert cut["model"] == "gpt" and 10 <= cut["step"] < 60 and cut["error"] is None
    shell.run_alone("launch", "grid.yaml", "--yes")
    rows = shell.sql("SELECT * FROM trials ORDER BY loss")
    came_out = {
        name: [{c: row[c] for c in fields} for row, fields in zip(ours, wanted[name], strict=True)]
        for name in wanted
        if (ours := [row for row in rows if row["model"] == name])
    }
    assert came_out == wanted

    # It went on where it had saved itself, with the numbers of a run that nobody interrupts.
    logged = shell.run("logs", cut["id"]).stdout
    assert int(re.findall(r"resumed at (\d+)", logged)[0]) >= cut["step"]
    (tmp_path / "alone").mkdir()
    alone = [sys.executable, "nanogpt.py", "--n-embd=32", "--max-iters=60", "--seed=0"]
    said = subprocess.check_output([*alone, "--out-dir=alone"], cwd=tmp_path, text=True)
    [undisturbed] = [json.loads(line)["loss"] for line in said.splitlines() if '"step": 60' in line]
    assert [row["loss"] for row in rows if row["model"] == "gpt"] == [undisturbed]
