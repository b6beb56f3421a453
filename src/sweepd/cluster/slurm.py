"""Slurm, where each sweep is a batch job. Ray's own `symmetric-run` starts a Ray on its nodes."""

import getpass
import json
import math
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt

from sweepd.cluster.base import Batch, Check, Note, Work, has, needed, tell, writable
from sweepd.errors import EnvironmentFailure
from sweepd.grid.placement import PAID_SECONDS, Nodes
from sweepd.grid.yamlfile import Keys

ONE_NODE = """\
head=127.0.0.1
export RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 # ports on the loopback interface only"""
NODES = "head=$(hostname -I | cut -d ' ' -f 1)"
ALONE = "unshare --user --map-current-user --pid --fork --kill-child --mount-proc"
DRIVER = f"""\
export {PAID_SECONDS}=$(($(date +%s) - SWEEPD_PAID_SINCE))
{{command}} >> {{folder}}/log 2>&1 &
driver=$! asked=
while kill -0 $driver 2> /dev/null; do
  # Once: asked again, a driver leaves without saving.
  if [ ! "$asked" ] && [ -e {{folder}}/stop ]; then asked=yes; kill $driver; fi
  sleep 1
done
wait $driver
code=$?
if [ $code = 143 ]; then code=130; fi # it had not begun
echo $code > {{folder}}/code"""
"""Runs the driver, and asks it to end once there is a file `stop`."""
LONGEST_TMPDIR = 36
"""The most bytes of the folder of a Ray (as in run/engine.py)."""
REGISTER_SECONDS = 60.0, 10.0
"""The seconds in which a worker must have come up: Ray's own, and more for each of a node."""
IMAGE_FILE = re.compile(r"\.sif$|^(docker|oras|library)://")
"""A pattern of the images that Apptainer runs. Others are for `srun --container-image`, which
NVIDIA's pyxis adds to Slurm."""
PROBE = """
import json, platform, sys
from importlib.metadata import PackageNotFoundError, version
lacks, had = [], {}
for name in sys.argv[1:]:
    try:
        had[name] = version(name)
    except PackageNotFoundError:
        lacks.append(name)
print(json.dumps([platform.python_version(), had, lacks]))
"""
PROBE_SECONDS = 120.0
EXTRA = "cluster"
POLL_SECONDS, LONGEST_POLL = 2.0, 60.0
"""The seconds after which the files of a job are looked at again, and the most after which Slurm is
asked: many sites ban who asks it every other second."""
SAVING_SECONDS = 150.0
"""The seconds that `down` waits for drivers to save what runs."""
SIGHT_SECONDS = 60.0
"""The seconds that a shared folder may take to show what a node has written."""
PENDING, ENDED = "PENDING", ("COMPLETED", "FAILED")
"""The state of jobs that wait, and the states of jobs whose script has come to its end."""
KILLED = (
    *("BOOT_FAIL", "CANCELLED", "DEADLINE", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED"),
    "TIMEOUT",
)
OURS = {
    *("job-name", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "chdir"),
    *("output", "error", "open-mode", "no-kill", "signal", "array", "wrap", "wait", "test-only"),
}
"""The options of sbatch that the script depends on. A cluster file must not set them."""


class Slurm(Batch):
    """Slurm, by its commands on this machine, and a folder that this machine and all nodes see."""

    kind: Literal["slurm"]
    folder: Annotated[str, Field(pattern=r"^/[\w./+-]*$")]
    """The folder for the code, the script, the token and the output of each job."""
    nodes: Annotated[int, Field(ge=1)] = 1
    """The number of nodes of one job."""
    min_nodes: Annotated[int, Field(ge=1)] | None = None
    """The number of nodes with which the job may begin. None stands for all of them."""
    image: Annotated[str, Field(pattern=r"^[\w./:@#+-]+$")] | None = None
    """The image in which the driver and the workers run: a file (.sif) or an address (docker://…)
    for Apptainer, or what `srun --container-image` takes."""
    cpus: Annotated[int, Field(ge=1)]
    """The number of cores of a node."""
    gpus: Annotated[str, Field(pattern=r"^([\w.-]+:)?\d+$", coerce_numbers_to_str=True)] = "0"
    """The number of GPUs of a node, after their type if one is named, as in `a100:4`."""
    price: Annotated[float, Field(ge=0)] = 0.0
    """The price of a node in dollars an hour."""
    setup: str = ""
    """Shell commands that run before Ray is started, such as `module load cuda`."""
    sbatch: dict[str, Literal[True] | StrictInt | str] = Field(default_factory=dict)
    """Further options of sbatch, such as `partition: main`. An option without a value is `true`.
    `gres` takes the place of the `gpus-per-node` that is asked for where there are cards."""
    after: Literal["down"] = "down"

    def faults(self) -> Iterator[tuple[Keys, str]]:
        if self.min_nodes and self.min_nodes > self.nodes:
            yield ("min_nodes",), f"a job has {self.nodes} nodes"
        for name, value in self.sbatch.items():
            if name in OURS:
                yield ("sbatch", name), "sweepd sets this itself"
            elif not re.fullmatch("[a-z][a-z-]+", name):
                yield ("sbatch", name), "name the long form of an option, without its --"
            elif not str(value).isprintable():
                yield ("sbatch", name), "one line of text is wanted"

    def types(self) -> Mapping[str, Nodes]:
        return {"node": Nodes(self.nodes, self.cpus, self._cards(), self.price, self._least)}

    def checks(self, address: str = "") -> Iterator[Check]:
        yield from has("sbatch", "squeue", "scancel", "scontrol")
        yield writable("folder", Path(self.folder))
        with suppress(EnvironmentFailure):
            old = "select/cons_tres" not in tell("scontrol", "show", "config")
            if self._cards() and old and "gres" not in self.sbatch:
                gres = f"`sbatch: {{gres: gpu:{self.gpus}}}`"
                yield Check("cards", False, f"this Slurm has no --gpus-per-node: write {gres}")
        way = "nodes without a way to the internet can run it, but nothing like wandb"
        results = address or self.results or str(Path(self.folder).parent)
        if "://" not in results:
            yield writable("shared results", Path(results))
        else:
            way = f"every node must reach {results}, and at many sites none reaches anything"
        yield Check("internet", True, way)

    def check_python(self) -> Check:
        """Returns whether there is a Python with the packages of sweepd, as far as this machine
        sees it. It is in a folder that the nodes share, or in the image."""
        what, names = "python on the nodes", [one.name for one in needed(EXTRA)]
        inside = self._inside([self.folder])
        if self.image and not inside:
            return Check(what, True, f"{self.python} of {self.image}: not known from here")
        command = f"{self.setup}\n{inside} {shlex.quote(self.python)} -c {shlex.quote(PROBE)} "
        command += shlex.join(names)
        try:
            said = tell("bash", "-c", command, seconds=PROBE_SECONDS)
            version, had, lacks = json.loads(said.splitlines()[-1])
        except (EnvironmentFailure, ValueError, IndexError) as failure:
            last = str(failure).strip().splitlines()[-1]
            return Check(what, False, f"{self.python} does not run as this machine sees it: {last}")
        if lacks:
            install = f"`{self.python} -m pip install 'sweepd[{EXTRA}]'`"
            return Check(what, False, f"{self.python} lacks {', '.join(lacks)}: {install}")
        known = f"{version}, ray {had.get('ray')}, torch {had.get('torch')}"
        return Check(what, True, f"{self.python}: {known}, as this machine sees it")

    def up(self, note: Note) -> None:
        note(f"{tell('scontrol', 'ping').strip()}; it brings nodes up as jobs start")

    def find(self, sweep: str, results: str) -> str | None:
        wanted = {"sweep": sweep, "results": results}
        return next((job for job in self._live() if self._work(job) == wanted), None)

    def submit(self, work: Work, job: str) -> str:
        folder = self._at(job)
        try:
            folder.parent.mkdir(exist_ok=True)  # and not above it, as where nothing is mounted
            folder.mkdir(mode=0o700)
            shutil.copytree(work.folder, folder / "package")
            (folder / "log").touch()
            (folder / "token").touch(mode=0o600)
            (folder / "token").write_text(secrets.token_hex())
            named = {"sweep": work.sweep, "results": work.results}
            (folder / "work.json").write_text(json.dumps(named))
            (folder / "job.sh").write_text(self._script(work, job))
        except OSError as error:
            raise EnvironmentFailure(f"{error.filename}: {error.strerror}") from error
        try:
            tell("sbatch", str(folder / "job.sh"))
        except EnvironmentFailure:
            shutil.rmtree(folder)
            raise
        return job

    def draft(self, work: Work) -> str:
        return self._script(work, f"sweepd-{work.sweep}")

    def follow(self, job: str, note: Note) -> int:
        ending, told, moved = self._at(job) / "exit", "", time.monotonic()
        state, pause, asked = "", POLL_SECONDS, -math.inf
        with (self._at(job) / "log").open(errors="replace") as log:
            while True:
                if time.monotonic() - asked >= pause:
                    try:
                        state, _ = self._jobs().get(job, ("gone", 0))
                    except EnvironmentFailure as failure:  # the job goes on although it is not seen
                        state = str(failure)
                    asked = time.monotonic()
                    pause = min(2 * pause, LONGEST_POLL) if state == told else POLL_SECONDS
                code = ending.read_text() if ending.exists() else ""
                at = log.tell()  # read last, so that it holds all that came before
                while (line := log.readline()).endswith("\n"):
                    note(line[:-1])
                    at = log.tell()
                log.seek(at)  # a line that is not whole yet is read again
                if code.strip():
                    if int(code) == EnvironmentFailure.exit_code:
                        note(f"see also {self._at(job)}/slurm.log")
                    return int(code)
                if state != told:
                    note(f"Slurm: job {job}: {state}")
                    told, moved = state, time.monotonic()
                late = time.monotonic() - moved > SIGHT_SECONDS
                if state in KILLED or (late and state in ("gone", *ENDED)):
                    raise EnvironmentFailure(
                        f"job {job} was ended ({state}); the same launch goes on with its sweep. "
                        f"Its output: {self._at(job)}/slurm.log"
                    )
                time.sleep(POLL_SECONDS)

    def status(self) -> list[dict[str, Any]]:
        rows = []
        for job, (state, nodes) in self._live().items():
            price = 0.0 if state == PENDING else nodes * self.price
            row = {"what": "job", "name": job, "type": self._work(job).get("sweep")}
            rows.append({**row, "state": state, "price": price})
        return rows

    def down(self, note: Note) -> None:
        live = self._live()
        for job, (state, _) in live.items():
            note(f"ending job {job}")
            _scancel(job, *(() if state == PENDING else ("--batch", "--signal=USR2")))
        until, pause = time.monotonic() + SAVING_SECONDS, POLL_SECONDS
        endings = [self._at(job) / "exit" for job, (state, _) in live.items() if state != PENDING]
        while not all(map(Path.exists, endings)) and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        while (live := self._live()) and time.monotonic() < until:
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_POLL)
        for job in live:
            _scancel(job)

    def _live(self) -> dict[str, tuple[str, int]]:
        over = (*ENDED, *KILLED)
        return {job: of for job, of in self._jobs().items() if of[0] not in over}

    def _jobs(self) -> dict[str, tuple[str, int]]:
        """Returns the state and the number of nodes of each job that Slurm still knows and that has
        its files in `folder`."""
        of = ("--states=all", f"--user={getpass.getuser()}", "--format=%j|%T|%D")
        lines = tell("squeue", "--noheader", *of).splitlines()
        found = (line.rsplit("|", 2) for line in lines)
        return {job: (state, int(nodes)) for job, state, nodes in found if self._work(job)}

    def _work(self, job: str) -> dict[str, str]:
        """Returns the sweep and the results of a job. They are empty if it is none of sweepd's."""
        try:
            found: dict[str, str] = json.loads((self._at(job) / "work.json").read_text())
        except (OSError, ValueError):
            return {}
        return found

    def _cards(self) -> int:
        return int(self.gpus.rpartition(":")[2])

    @property
    def _least(self) -> int:
        return self.min_nodes or self.nodes

    def _inside(self, folders: Sequence[str], more: str = "") -> str:
        """Returns the words before a command that runs it in Apptainer, if that runs the image.
        more: further options, in the words of a shell."""
        if not self.image or not IMAGE_FILE.search(self.image):
            return ""
        apptainer = "$(command -v apptainer || command -v singularity || echo apptainer)"
        options = f"--pid --bind {shlex.quote(','.join(folders))}{' --nv' * bool(self._cards())}"
        return f"{apptainer} exec {options}{more} {self.image}"

    def _at(self, job: str) -> Path:
        return Path(self.folder) / job

    def _script(self, work: Work, job: str) -> str:
        """Returns the batch script of a sweep: `slurm.sh` with what its braces name."""
        folder = self._at(job)
        options: dict[str, str | int] = {
            "job-name": job,
            "nodes": self.nodes if self._least == self.nodes else f"{self._least}-{self.nodes}",
            "ntasks-per-node": 1,
            "cpus-per-task": self.cpus,
            **({"gpus-per-node": self.gpus} if self._cards() and "gres" not in self.sbatch else {}),
            "chdir": f"{folder}/package",
            "output": f"{folder}/slurm.log",
            "open-mode": "append",
            "no-kill": True,
            "requeue": True,
            "signal": "B:USR1@180",
            **self.sbatch,
        }
        lines = []
        for name, value in options.items():
            said = "" if value is True else f"={shlex.quote(str(value))}"
            lines.append(f"#SBATCH --{name}{said}")
        shared = [self.folder, *([] if "://" in work.results else [work.results])]
        inside, outside = self._inside(shared, ' --bind "$RAY_TMPDIR"'), ""
        if self.image and not inside:
            mounts = ",".join(f"{path}:{path}" for path in (*shared, "/tmp"))
            container = (f"--container-image={self.image}", f"--container-mounts={mounts}")
            outside = shlex.join(container)
        text = (files("sweepd.cluster") / "slurm.sh").read_text(encoding="utf-8")
        least, each = REGISTER_SECONDS
        return text.format(
            options="\n".join(lines),
            setup=self.setup,
            python=shlex.quote(self.python),
            folder=folder,
            network=ONE_NODE if self.nodes == 1 else NODES,
            # symmetric-run waits for exactly so many, or for none.
            wanted=self.nodes if self._least == self.nodes else 1,
            cpus=self.cpus,
            gpus=self._cards(),
            register=f"{least + each * self.cpus:g}",
            longest=LONGEST_TMPDIR,
            alone="" if self.image else ALONE,
            inside=inside,
            outside=outside,
            driver=shlex.quote(DRIVER.format(command=work.command(self.python), folder=folder)),
        )


def _scancel(job: str, *how: str) -> None:
    tell("scancel", f"--user={getpass.getuser()}", f"--name={job}", *how)
