"""What every cluster file says, and what sweepd asks of every kind of cluster. Two kinds are here:
this machine, and what queues have in common to which each sweep is handed as a job."""

import math
import os
import re
import secrets
import shlex
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import requires
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from packaging.requirements import Requirement
from pydantic import BaseModel, ConfigDict, Field

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid.placement import Nodes, Placement, Resources, by_type, idle_cards, no_room, slots
from sweepd.grid.yamlfile import Keys

Note = Callable[[str], None]
"""A function that is called with each line that tells people what is going on."""


@dataclass(frozen=True)
class Check:
    """Something that a launch depends on, and whether it is as it must be."""

    check: str
    ok: bool
    detail: str
    """What was found, and what to do where it is not `ok`."""


class ClusterFile(BaseModel, ABC):
    """What every cluster file may say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    starting: ClassVar[tuple[float, float]] = (0.0, 0.0)
    """The seconds that a node takes from when it is asked for until it runs trials, low and high.
    It is paid for meanwhile."""

    results: str | None = None
    """The folder or address of the results, if `--results` does not say."""
    per_trial: Resources = Resources()
    """The resources that one trial occupies where the grid says `resources: auto`."""
    start_seconds: Annotated[float, Field(gt=0)] = 1200.0
    """The seconds for which no trial may run, since no node comes, until the launch ends."""
    max_dollars: Annotated[float, Field(gt=0)] | None = None
    """The most dollars that the nodes of one launch may cost, by the prices that the file names."""
    max_hours: Annotated[float, Field(gt=0)] | None = None
    """The most hours that one launch may take."""

    def faults(self) -> Iterator[tuple[Keys, str]]:
        """Yields what is wrong with the file besides its types: where, and why. Uses no network."""
        yield from ()

    def check_results(self, address: str) -> None:
        """Raises UserError if the cluster's nodes cannot reach results at this address."""

    @abstractmethod
    def types(self) -> Mapping[str, Nodes]:
        """Returns what the cluster has or may grow to, by type of node. The mapping is empty if
        only the cluster itself knows."""

    def slots(self, per_trial: Resources) -> int:
        """Returns how many trials run at once, or 0 if that is not known from here.

        Raises UserError if no node can ever hold one, and if all that can have cards for which it
        does not ask.
        """
        types = self.types()
        count = slots(types, per_trial)
        if types and not count:
            raise UserError(no_room(per_trial, types.values()))
        if idle := idle_cards(types, per_trial):
            raise UserError(idle)
        return count

    def placement(self, per_trial: Resources) -> Placement:
        """Returns where a driver in this process runs trials that each occupy `per_trial`."""
        return Placement(per_trial)

    def cost(
        self, per_trial: Resources, at_once: int, seconds_low: float, seconds_high: float
    ) -> tuple[float, float]:
        """Returns the least and the most dollars for `at_once` trials at a time.

        The least is that of `seconds_low` on the nodes that are cheapest per trial. The most is
        that of `seconds_high` on the dearest. Nodes that are always there count even if they run no
        trials. Both count the time in which nodes start, and the most also that in which they idle.
        """
        if not at_once:
            return 0.0, 0.0
        types = self.types()
        able = [types[name] for name, count in by_type(types, per_trial).items() if count]
        able.sort(key=lambda one: one.price / one.held(per_trial))
        low, high = self.starting
        dollars = []
        longest = seconds_high + high + self.idle_seconds()
        for order, seconds in ((able, seconds_low + low), (able[::-1], longest)):
            an_hour = sum(one.least * one.price for one in types.values() if one not in able)
            left = at_once
            for one in order:
                count = max(one.least, min(one.most, math.ceil(left / one.held(per_trial))))
                left = max(0, left - count * one.held(per_trial))
                an_hour += count * one.price
            dollars.append(an_hour * seconds / 3600 if an_hour else 0.0)
        return dollars[0], dollars[1]

    def idle_seconds(self) -> float:
        """Returns the seconds for which a node stays, and is paid for, that runs nothing any
        more."""
        return 0.0


@dataclass(frozen=True)
class Work:
    """A sweep to hand over."""

    sweep: str
    results: str
    arguments: tuple[str, ...]
    """The arguments of `python -m sweepd`, which is to be run in `folder`."""
    folder: Path
    """The folder that `pack` has filled. It is gone once `start` has returned."""

    def command(self, python: str) -> str:
        """Returns the shell command that drives the sweep."""
        return shlex.join([python, "-m", "sweepd", *self.arguments])


class Remote(ClusterFile):
    """A cluster to which a launch hands a sweep. The driver runs there, and goes on without the
    process that launched it.

    What fails raises EnvironmentFailure. `note` is told what happens.
    """

    lasting: ClassVar[bool] = True
    """Whether the cluster is there before and after the sweeps that run on it."""

    after: Literal["keep", "down"] = "down"
    """What happens to the cluster when a sweep has ended, however it ended."""
    python: str = "python"
    """The name or path of the command that runs Python on the cluster's nodes."""

    def checks(self, address: str = "") -> Iterator[Check]:
        """Yields what a launch depends on outside this program and can be looked at for nothing.
        address: that of the results."""
        yield from ()

    def check_python(self) -> Check:
        """Returns whether the nodes have `python`, as far as that is known from here."""
        said = f"`{self.python}` is looked for on a node before its first trial"
        return Check("python on the nodes", True, said)

    @abstractmethod
    def up(self, note: Note) -> None:
        """Brings the cluster up. One that is up already is changed to what its file says now."""

    @abstractmethod
    def find(self, sweep: str, results: str) -> str | None:
        """Returns the job that drives a sweep there now, or None if there is none."""

    @abstractmethod
    def start(self, work: Work, note: Note) -> str:
        """Starts the sweep's driver. A cluster that is down is brought up first. Returns the
        driver's job."""

    @abstractmethod
    def follow(self, job: str, note: Note) -> int:
        """Tells `note` what a driver has printed and prints, until it ends. Returns its exit
        code."""

    def draft(self, work: Work) -> str:
        """Returns the text that hands a sweep over, or "" where no text does."""
        return ""

    def check_imports(self, modules: Mapping[str, Path]) -> None:
        """Raises UserError if it is known from here that the nodes lack one of these modules, which
        come with the file of the user's that imports each."""

    @abstractmethod
    def status(self) -> list[dict[str, Any]]:
        """Returns the nodes and jobs of the cluster: rows of `what` (node, job), `name`, `type`,
        `state` and `price`, in dollars an hour."""

    @abstractmethod
    def down(self, note: Note) -> None:
        """Takes down all that costs money."""

    def check_results(self, address: str) -> None:
        if address.partition("://")[0] not in ("s3", "gs") and not Path(address).is_absolute():
            raise UserError(
                f"{address}: the nodes of a cluster do not see a folder of this machine; name "
                "storage that they all reach (s3://… or gs://…, or the absolute path of a shared "
                "folder) with `results:` in the cluster file or --results"
            )


class Local(ClusterFile):
    """A private Ray on this machine for as long as the launch runs, or one that runs already."""

    kind: Literal["local"]
    ray: str | None = None
    """The address of a Ray cluster to join, or `auto` for the one on this machine. With it, a
    driver that was handed over finds its cluster."""
    nodes: dict[str, Nodes] = Field(default_factory=dict)
    """The nodes to which that Ray cluster may grow, by type."""

    def types(self) -> Mapping[str, Nodes]:
        return self.nodes

    def placement(self, per_trial: Resources) -> Placement:
        dollars, hours = self.max_dollars or math.inf, self.max_hours or math.inf
        return Placement(per_trial, self.ray, self.nodes, self.start_seconds, dollars, hours)

    def slots(self, per_trial: Resources) -> int:
        if self.nodes or self.ray:
            return super().slots(per_trial)
        cards = 0
        if per_trial.gpus:
            import torch  # takes a second, which is spent only on trials with a GPU

            cards = torch.cuda.device_count()
        machine = Nodes(most=1, cpus=len(os.sched_getaffinity(0)), gpus=cards)
        if not machine.held(per_trial):
            raise EnvironmentFailure(no_room(per_trial, [machine]))
        return machine.held(per_trial)


class InProcess(Local):
    """The process of the launch itself, which runs one trial after the other."""

    def slots(self, per_trial: Resources) -> int:
        return 1


class Batch(Remote):
    """A queue where each sweep is a job with nodes of its own. They go back when the job has
    ended."""

    lasting: ClassVar[bool] = False

    def start(self, work: Work, note: Note) -> str:
        if waiting := self.find(work.sweep, work.results):
            note(f"sweep {work.sweep} is in the queue already, as it was then, as job {waiting}")
            return waiting
        readable = re.sub("[^a-z0-9]+", "-", work.sweep.lower())
        # With the token at most 47 small letters, digits and hyphens.
        name = f"sweepd-{readable}"[:38].rstrip("-")
        return self.submit(work, f"{name}-{secrets.token_hex(4)}")

    @abstractmethod
    def submit(self, work: Work, job: str) -> str:
        """Hands a sweep over as a job of this name, which no other job has. Returns the job."""


def has(*commands: str) -> Iterator[Check]:
    """Yields a check for each of these commands."""
    for name in commands:
        found = shutil.which(name)
        yield Check(name, bool(found), found or "there is no such command here: install it")


def writable(name: str, folder: Path) -> Check:
    """Returns whether a folder can be written from here, or can be made in one that can."""
    ok, said = os.access(folder, os.W_OK | os.X_OK), "can be written from here"
    if not folder.exists():
        above = folder.parent
        ok, said = above != above.parent and os.access(above, os.W_OK), "will be made by a launch"
    said = said if ok else "is not there, or cannot be written from here"
    return Check(name, ok, f"{folder} {said}")


def needed(extra: str) -> list[Requirement]:
    """Returns what sweepd asks for, with one of its extras."""
    every = map(Requirement, requires("sweepd") or [])
    return [one for one in every if not one.marker or one.marker.evaluate({"extra": extra})]


def tell(*command: str, text: str | None = None, seconds: float | None = None) -> str:
    """Runs a command, with a text on its stdin if one is given, and returns what it prints. Raises
    EnvironmentFailure, with what the command says, if it fails, is not there, or takes longer."""
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True, timeout=seconds
        )
    except FileNotFoundError:
        raise EnvironmentFailure(f"there is no command {command[0]} on this machine") from None
    except subprocess.TimeoutExpired:
        raise EnvironmentFailure(f"{command[0]} took longer than {seconds:g} s") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip()
        raise EnvironmentFailure(f"{' '.join(command[:3])}: {said}") from error
    return done.stdout
