"""What sweepd hands to Slurm. The script is one that a shell can read, with the user's options in
it. What a cluster file should not say is refused. tests/machines/test_slurm.py runs it on a real
Slurm. Covers `cluster/slurm.py`."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cluster.ready import program, written
from inprocess import sweepd
from waiting import wait_until

from sweepd.cluster import load_cluster
from sweepd.cluster.base import Work
from sweepd.cluster.slurm import Slurm
from sweepd.errors import EnvironmentFailure
from sweepd.grid.placement import Resources
from sweepd.grid.yamlfile import GridError

ONE = "{kind: slurm, folder: /shared, cpus: 8"
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


def test_the_script_of_the_ready_file(tmp_path: Path) -> None:
    cluster = read(written(tmp_path, "slurm"))
    text = script(cluster)
    options = set(re.findall("^#SBATCH (.*)$", text, re.MULTILINE))
    assert {"--nodes=4", "--cpus-per-task=32", "--exclusive", "--time=12:00:00"} <= options
    assert not any(option.startswith("--gpus") for option in options)
    assert "--min-nodes 4" in text and "127.0.0.1" not in text
    assert cluster.slots(Resources(cpus=2)) == 64


def test_a_dry_run_shows_plan_and_script(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text("{name: dry, task: {name: lis, n: 4}, model: {name: standard, d: 8}}")
    ready = written(tmp_path, "slurm")
    where = ("--cluster", str(ready), "--results", str(tmp_path / "results"))
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
    text = script(load(tmp_path, f"{ONE}, python: /my env/python}}"))
    [driver] = re.findall(r"-- bash -c (.*?)\n    if", text, re.DOTALL)
    [lines] = shlex.split(driver)
    [command] = [line for line in lines.splitlines() if line.endswith("&")]
    log = f"/shared/sweepd-{WORK.sweep}/log"
    assert shlex.split(command) == [
        *("/my env/python", "-m", "sweepd", *WORK.arguments, ">>", log, "2>&1", "&"),
    ]


def lines_of(tmp_path: Path, more: str) -> str:
    return script(load(tmp_path, f"{ONE}, {more}}}"))


def test_cards_are_asked_for_as_the_site_knows_them(tmp_path: Path) -> None:
    text = lines_of(tmp_path, "gpus: 'a100:2', sbatch: {gres: 'gpu:a100:2'}")
    assert "#SBATCH --gres=gpu:a100:2" in text and "gpus-per-node" not in text


def test_a_job_begins_with_fewer_nodes(tmp_path: Path) -> None:
    text = lines_of(tmp_path, "nodes: 4, min_nodes: 2")
    # symmetric-run would wait for exactly so many nodes, and for ever where more have come.
    assert "#SBATCH --nodes=2-4" in text and "--min-nodes 1 " in text


def test_workers_have_time_to_come_from_a_shared_folder(tmp_path: Path) -> None:
    assert "RAY_worker_register_timeout_seconds=140\n" in lines_of(tmp_path, "nodes: 2")


def test_an_image_is_run_by_apptainer_or_pyxis(tmp_path: Path) -> None:
    text = lines_of(tmp_path, "gpus: 1, image: /shared/own.sif")
    bound = "'/shared,/shared/it'\"'\"'s results'"
    assert f'exec --pid --bind {bound} --nv --bind "$RAY_TMPDIR" /shared/own.sif bash' in text
    text = lines_of(tmp_path, "image: nvcr.io#nvidia/pytorch:25.01-py3")
    assert "--container-image=nvcr.io#nvidia/pytorch:25.01-py3" in text
    assert "/tmp:/tmp" in text and "unshare" not in text and "exec --pid" not in text


def test_slurm_is_asked_ever_more_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that waits for an hour, in which a follower asks once a minute, of all jobs at once."""
    calls, now = [], [0.0]

    def tell(*command: str, **_: object) -> str:
        calls.append((now[0], command))
        return "job|PENDING|1\nother|PENDING|1\n"

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] > 3600:
            (tmp_path / "job/exit").write_text("0\n")

    monkeypatch.setattr("sweepd.cluster.slurm.tell", tell)
    monkeypatch.setattr("sweepd.cluster.slurm.time.sleep", sleep)
    monkeypatch.setattr("sweepd.cluster.slurm.time.monotonic", lambda: now[0])
    cluster = load(tmp_path, f"{{kind: slurm, folder: {tmp_path}, cpus: 8}}")
    for job in ("job", "other"):
        (tmp_path / job).mkdir()
        (tmp_path / job / "work.json").write_text('{"sweep": "s", "results": "/r"}')
        (tmp_path / job / "log").touch()
    assert cluster.follow("job", print) == 0
    assert 60 <= len(calls) <= 70
    assert calls[-1][0] - calls[-2][0] >= 60 and calls[1][0] - calls[0][0] == 2


def test_ray_has_its_folder_where_slurm_says_and_it_is_gone_at_the_end(tmp_path: Path) -> None:
    """Also where Slurm asks all processes to end. A long path is none for Ray's sockets."""
    text = lines_of(tmp_path, "nodes: 2")
    around = text[text.index("around() {") : text.index("# USR1 comes")]
    node = "node() { sleep $PAUSE & echo $RAY_TMPDIR; touch $RAY_TMPDIR/file; wait; }\n"
    for usual in ("/tmp/own", f"/tmp/{'o' * 40}"):
        Path(usual).mkdir(exist_ok=True)
        for pause in ("0", "60"):
            environment = {"PATH": os.environ["PATH"], "PAUSE": pause, "SLURM_JOB_ID": "77"}
            process = subprocess.Popen(
                ["bash", "-c", f"{node}{around}around"],
                env={**environment, "SLURM_TMPDIR": usual, "TMPDIR": "/nowhere"},
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            assert process.stdout
            folder = Path(process.stdout.readline().strip())
            assert folder == Path("/tmp" if len(usual) > 40 else usual, "sweepd-77-0")
            if pause == "60":
                wait_until((folder / "file").exists)
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=30)
            assert not folder.exists()
        Path(usual).rmdir()


SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
SLURM_NODEID=0 exec "$@"
"""
APPTAINER = """#!/bin/bash
# An image has a PATH of its own, and sees what is bound.
while [[ $1 == exec || $1 == --* ]]; do
  if [ "$1" = --bind ]; then shift; ls -d ${1//,/ } > /dev/null || exit 254; fi
  shift
done
export IN_IMAGE=$1 PATH=/usr/bin:/bin
shift
exec "$@"
"""
RAY = """#!/bin/bash
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
DRIVER = """#!/bin/bash
trap 'echo saving; exit 130' TERM
echo "$* in $IN_IMAGE and $RAY_TMPDIR"
sleep $PAUSE & wait $!
"""


@pytest.mark.parametrize("pause", [0, 60])
def test_the_script_from_its_beginning_to_its_end(tmp_path: Path, pause: int) -> None:
    """With programs in place of srun, Apptainer, Ray and the driver, which is asked to end where it
    would take a minute."""
    for name, text in (("srun", SRUN), ("apptainer", APPTAINER)):
        program(tmp_path / "bin" / name, text)
    for name, text in (("ray", RAY), ("python", DRIVER)):
        program(tmp_path / "image" / name, text)
    (tmp_path / "own.sif").touch()
    job = tmp_path / "jobs/sweepd-its"
    (job / "package").mkdir(parents=True)
    cluster = load(
        tmp_path,
        f"{{kind: slurm, folder: {tmp_path}/jobs, cpus: 2, image: {tmp_path}/own.sif, "
        f"python: {tmp_path}/image/python}}",
    )
    work = replace(WORK, results=str(tmp_path))
    environment = {"SLURM_JOB_ID": "78", "SLURM_CPUS_PER_TASK": "2", "PAUSE": str(pause)}
    process = subprocess.Popen(
        ["bash", "-c", cluster.draft(work)],
        cwd=job / "package",
        env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", **environment},
    )
    log = job / "log"
    wait_until(lambda: log.exists() and "in" in log.read_text(), process=None)
    if pause:
        assert Path("/tmp/sweepd-78-0").exists()
        process.send_signal(signal.SIGUSR2)
    assert process.wait(timeout=60) == 0
    began = f"-m sweepd launch grid.yaml in {tmp_path}/own.sif and /tmp/sweepd-78-0\n"
    assert log.read_text() == began + "saving\n" * bool(pause)
    assert (job / "exit").read_text() == f"{130 if pause else 0}\n"
    assert not Path("/tmp/sweepd-78-0").exists()


GOOD = """
import sys
from importlib import metadata
metadata.version = lambda name: "9"
exec(sys.argv.pop(2))
"""


def test_doctor_looks_at_the_folder_and_at_the_python_of_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python` is looked for as the job would find it: after `setup`."""
    for name in ("sbatch", "squeue", "scancel"):
        program(tmp_path / "commands" / name, "#!/bin/sh\nexit 1\n")
    program(tmp_path / "commands/scontrol", "#!/bin/sh\necho SelectType = select/linear\n")
    program(tmp_path / "own/mypython", f"#!/bin/sh\nexec {sys.executable} -c '{GOOD}' \"$@\"\n")
    program(tmp_path / "bare/mypython", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    monkeypatch.setenv("PATH", f"{tmp_path / 'commands'}:{os.environ['PATH']}")

    def wrong(folder: Path, python: str, more: str = "", results: str = "r") -> dict[str, str]:
        text = f"{{kind: slurm, folder: {folder}, cpus: 8, results: {tmp_path}/{results}, "
        (tmp_path / "cluster.yaml").write_text(f"{text}python: {python}{more}}}")
        answer = sweepd("doctor", "--cluster", str(tmp_path / "cluster.yaml"), "--json")
        rows = {row["check"]: row for row in json.loads(answer.out)}
        assert "of this machine" in rows["python"]["detail"]
        return {name: row["detail"] for name, row in rows.items() if not row["ok"]}

    setup = f", setup: 'export PATH={tmp_path}/own:$PATH'"
    assert wrong(tmp_path / "jobs", "mypython", setup) == {}
    told = wrong(tmp_path / "not/there", "nothere", results="not/mounted/r")
    assert told.keys() == {"folder", "shared results", "python on the nodes"}
    assert "is not there" in told["folder"] and "nothere" in told["python on the nodes"]
    told = wrong(Path("/nothing"), f"{tmp_path}/bare/mypython", ", gpus: 'a100:4'")
    assert "lacks" in told["python on the nodes"] and "ray" in told["python on the nodes"]
    assert "`sbatch: {gres: gpu:a100:4}`" in told["cards"] and "folder" in told
    with pytest.raises(EnvironmentFailure, match="No such file"):
        load(tmp_path, "{kind: slurm, folder: /not/there, cpus: 8}").submit(WORK, "job")
    assert not Path("/not").exists()


def test_plan_says_which_slots_work(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        "{task: {name: lis, n: 4}, model: {name: standard, d: [4, 8]}, seeds: 12}".replace(
            "12", str(list(range(12)))
        )
    )
    results = ("--results", str(tmp_path / "results"))
    for kind, said in (
        ("slurm", "24 at once (slots: 128 on node), 104 slots stay empty"),
        ("kuberay", "24 at once (slots: 64 on cores), 40 slots stay empty, none on cards, whose"),
    ):
        path = str(written(tmp_path, kind))
        told = sweepd("plan", str(grid), "--cluster", path, *results, exits=0)
        assert said in told.err, told
        told = sweepd("plan", str(grid), "--cluster", path, *results, "--json", exits=0)
        assert json.loads(told.out)[0]["at_once"] == 24
    cards = written(tmp_path, "slurm", "gpus: 0  ", "gpus: a100:4  ")
    told = sweepd("plan", str(grid), "--cluster", str(cards), *results, exits=2)
    assert "the cards would idle" in told.err


def test_the_most_dollars_hold_for_the_longest_time(tmp_path: Path) -> None:
    """A dollar a second: Ray's start and settling cost, too."""
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        "{task: {name: lis, n: [4, 6]}, model: {name: standard, d: [4, 8]}, "
        "train: {steps: 100}, search: staircase, "
        "goal: acc > 0.9, seeds: [0, 1, 2], "
        "settle: {factor: 4, least: 200, most: 400}}"
    )
    path = tmp_path / "cluster.yaml"
    path.write_text("{kind: slurm, folder: /shared, cpus: 1, price: 3600}")
    where = ("--cluster", str(path), "--results", str(tmp_path / "results"), "--json")
    [row] = json.loads(sweepd("plan", str(grid), *where, exits=0).out)
    assert row["settle_most_seconds_high"] > 0
    assert row["cost_high"] == pytest.approx(row["seconds_high"])
    assert row["cost_low"] == pytest.approx(row["seconds_low"])


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
        ("{kind: slurm, folder: /a, cpus: 8, nodes: 2, min_nodes: 3}", ["min_nodes: a job has 2"]),
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
