"""What sweepd hands to Slurm. The script is one that a shell can read, with the user's options in
it. What a cluster file should not say is refused. tests/machines/test_slurm.py runs it on a real
Slurm. Covers `cluster/slurm.py`."""

import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from inprocess import sweepd

from sweepd.cluster import load_cluster
from sweepd.cluster.base import Work
from sweepd.cluster.slurm import Slurm
from sweepd.errors import EnvironmentFailure
from sweepd.grid.placement import Resources
from sweepd.grid.yamlfile import GridError

READY = Path(__file__).parents[2] / "clusters/slurm.yaml"
WORK = Work("its", "/shared/it's results", ("launch", "grid.yaml"), Path())


def read(path: Path) -> Slurm:
    cluster = load_cluster(path)
    assert isinstance(cluster, Slurm)
    return cluster


def load(tmp_path: Path, text: str) -> Slurm:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    return read(path)


def script(cluster: Slurm) -> str:
    text = cluster.draft(WORK)
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return text


def test_the_script_of_the_ready_file() -> None:
    cluster = read(READY)
    text = script(cluster)
    options = set(re.findall("^#SBATCH (.*)$", text, re.MULTILINE))
    assert {"--nodes=4", "--cpus-per-task=32", "--exclusive", "--time=12:00:00"} <= options
    assert not any(option.startswith("--gpus") for option in options)
    assert "--min-nodes 4" in text and "127.0.0.1" not in text
    assert cluster.slots(Resources(cpus=2)) == 64


def test_a_dry_run_shows_plan_and_script(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text("{name: dry, task: {name: lis, n: 4}, model: {name: standard, d: 8}}")
    where = ("--cluster", str(READY), "--results", str(tmp_path / "results"))
    told = sweepd("launch", str(grid), "--dry-run", "--promote", *where, exits=0)
    plan, _, shown = told.out.partition("\n\n")
    assert plan.startswith("dry: 1 trials in 1 cells")
    assert shown.startswith("#!/bin/bash\n#SBATCH --job-name=sweepd-dry")
    assert "launch grid/grid.yaml --cluster cluster.yaml --results" in shown
    assert "--promote" in shown
    assert not (tmp_path / "results").exists()


def test_one_node_opens_no_port_and_cards_are_asked_for(tmp_path: Path) -> None:
    cluster = load(tmp_path, "{kind: slurm, folder: /shared, cpus: 8, gpus: a100:2, price: 3}")
    text = script(cluster)
    assert "head=127.0.0.1\nexport RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0" in text
    assert "#SBATCH --gpus-per-node=a100:2" in text and "--num-gpus=2" in text
    # Where there is something of that name already, be it another user's, Ray does not start.
    assert 'mkdir -m 700 "$RAY_TMPDIR" || return' in text
    assert cluster.cost(Resources(1, 0.5), 4, 3600, 7200) == (3.0, 6.0)


def test_any_name_reaches_the_commands_whole(tmp_path: Path) -> None:
    text = script(load(tmp_path, "{kind: slurm, folder: /shared, cpus: 8, python: /my env/python}"))
    [trap] = re.findall("^trap (.*) USR2$", text, re.MULTILINE)
    [command] = shlex.split(trap)
    assert shlex.split(command) == [
        *("/my env/python", "-m", "sweepd", "cancel", "its"),
        *("--results", "/shared/it's results", "&"),
    ]


def test_what_could_not_be_handed_over_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    (tmp_path / "package").mkdir()
    cluster = load(tmp_path, f"{{kind: slurm, folder: {tmp_path}/jobs, cpus: 8}}")
    with pytest.raises(EnvironmentFailure, match="no command sbatch"):
        cluster.submit(replace(WORK, folder=tmp_path / "package"), "job")
    assert not list((tmp_path / "jobs").iterdir())


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("{kind: slurm, folder: jobs, cpus: 8}", ["must match pattern"]),
        ("{kind: slurm, folder: /a b, cpus: 8}", ["must match pattern"]),
        ("{kind: slurm, folder: /a}", ["cpus: missing; write"]),
        ("{kind: slurm, folder: /a, cpus: 8, after: keep}", ["after: \"keep\": must be 'down'"]),
        ("{kind: slurm, folder: /a, cpus: 8, max_dollars: 5}", ["max_dollars: no node has a pri"]),
        ("{kind: slurm, folder: /a, cpus: 8, max_hours: -1}", ["max_hours: -1: must be great"]),
        ("{kind: slurm, folder: /a, cpus: 8, gpus: a100}", ['a100": must match']),
        ("{kind: slurm, folder: /a, cpus: 8, gpu: 1}", ["gpu: no such key"]),
        ("{kind: slurm, folder: /a, cpus: 8, sbatch: {nodes: 2}}", ["sbatch.nodes: sweepd sets"]),
        ("{kind: slurm, folder: /a, cpus: 8, sbatch: {exclusive: false}}", ["sbatch.exclusive"]),
        ("{kind: slurm, folder: /a, cpus: 8, sbatch: {p: main}}", ["sbatch.p: name the long form"]),
        ('{kind: slurm, folder: /a, cpus: 8, sbatch: {qos: "a\\nb"}}', ["sbatch.qos: one line"]),
    ],
)
def test_what_a_cluster_file_may_not_say(tmp_path: Path, text: str, problems: list[str]) -> None:
    with pytest.raises(GridError) as refused:
        load(tmp_path, text)
    assert all(problem in str(refused.value) for problem in problems), refused.value
