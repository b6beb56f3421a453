"""Slurm, where each sweep is a batch job. Ray's own `symmetric-run` starts a Ray on its nodes."""

import getpass
import json
import os
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt

from sweepd.cluster.base import Batch, Check, Note, Work, has, tell
from sweepd.errors import EnvironmentFailure
from sweepd.grid.placement import Nodes
from sweepd.grid.yamlfile import Keys

ONE_NODE = """\
head=127.0.0.1
export RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 # ports on the loopback interface only"""
NODES = "head=$(hostname -I | cut -d ' ' -f 1)"
POLL_SECONDS = 2.0
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
    cpus: Annotated[int, Field(ge=1)]
    """The number of cores of a node."""
    gpus: Annotated[str, Field(pattern=r"^([\w.-]+:)?\d+$", coerce_numbers_to_str=True)] = "0"
    """The number of GPUs of a node, after their type if one is named, as in `a100:4`."""
    price: Annotated[float, Field(ge=0)] = 0.0
    """The price of a node in dollars an hour."""
    setup: str = ""
    """Shell commands that run before Ray is started, such as `module load cuda`."""
    sbatch: dict[str, Literal[True] | StrictInt | str] = Field(default_factory=dict)
    """Further options of sbatch, such as `partition: main`. An option without a value is `true`."""
    after: Literal["down"] = "down"

    def faults(self) -> Iterator[tuple[Keys, str]]:
        for name, value in self.sbatch.items():
            if name in OURS:
                yield ("sbatch", name), "sweepd sets this itself"
            elif not re.fullmatch("[a-z][a-z-]+", name):
                yield ("sbatch", name), "name the long form of an option, without its --"
            elif not str(value).isprintable():
                yield ("sbatch", name), "one line of text is wanted"

    def types(self) -> Mapping[str, Nodes]:
        return {"node": Nodes(self.nodes, self.cpus, self._cards(), self.price, self.nodes)}

    def checks(self) -> Iterator[Check]:
        yield from has("sbatch", "squeue", "scancel", "scontrol")
        can = os.access(self.folder, os.W_OK) or not Path(self.folder).exists()
        yield Check("folder", can, f"{self.folder}{'' if can else ' cannot be written from here'}")

    def up(self, note: Note) -> None:
        note(f"{tell('scontrol', 'ping').strip()}; it brings nodes up as jobs start")

    def find(self, sweep: str, results: str) -> str | None:
        wanted = {"sweep": sweep, "results": results}
        return next((job for job in self._live() if self._work(job) == wanted), None)

    def submit(self, work: Work, job: str) -> str:
        folder = self._at(job)
        try:
            folder.mkdir(mode=0o700, parents=True)
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
        with (self._at(job) / "log").open(errors="replace") as log:
            while True:
                try:
                    state, _ = self._jobs().get(job, ("gone", 0))
                except EnvironmentFailure as failure:  # the job goes on although it can't be seen
                    state = str(failure)
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
        for job, (state, _) in self._live().items():
            note(f"ending job {job}")
            _scancel(job, *(() if state == PENDING else ("--batch", "--signal=USR2")))
        until = time.monotonic() + SAVING_SECONDS
        while self._live() and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        for job in self._live():
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

    def _at(self, job: str) -> Path:
        return Path(self.folder) / job

    def _script(self, work: Work, job: str) -> str:
        """Returns the batch script of a sweep: `slurm.sh` with what its braces name."""
        folder = self._at(job)
        options: dict[str, str | int] = {
            "job-name": job,
            "nodes": self.nodes,
            "ntasks-per-node": 1,
            "cpus-per-task": self.cpus,
            **({"gpus-per-node": self.gpus} if self._cards() else {}),
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
        command, sweepd = work.command(self.python), (self.python, "-m", "sweepd")
        which = (work.sweep, "--results", work.results)
        text = (files("sweepd.cluster") / "slurm.sh").read_text(encoding="utf-8")
        return text.format(
            options="\n".join(lines),
            setup=self.setup,
            python=shlex.quote(self.python),
            folder=folder,
            network=ONE_NODE if self.nodes == 1 else NODES,
            cancel=shlex.quote(f"{shlex.join([*sweepd, 'cancel', *which])} &"),
            nodes=self.nodes,
            cpus=self.cpus,
            gpus=self._cards(),
            driver=shlex.quote(f"{command} >> {folder}/log 2>&1; echo $? > {folder}/code"),
        )


def _scancel(job: str, *how: str) -> None:
    tell("scancel", f"--user={getpass.getuser()}", f"--name={job}", *how)
