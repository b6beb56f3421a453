"""Clusters that Ray's own launcher brings up, by `ray up` over SSH, with its autoscaler on the
head: machines of one's own, and what they have in common with clouds (aws.py, gcp.py)."""

from __future__ import annotations

import json
import math
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import Field, PrivateAttr

from sweepd.cluster import autoscaler
from sweepd.cluster.autoscaler import HOME
from sweepd.cluster.base import Check, Note, Work, has, needed
from sweepd.cluster.jobs import OnRay, connect
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid.placement import PAID_SECONDS, Nodes
from sweepd.grid.yamlfile import Keys

if TYPE_CHECKING:
    from sweepd.cluster.jobs import JobSubmissionClient

CLOSED = (
    "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$HOME/{token}; "
    'export RAY_TMPDIR="/tmp/sweepd-cluster-$(sha256sum "$RAY_AUTH_TOKEN_PATH" | head -c 8)"; '
    'mkdir -m 700 "$RAY_TMPDIR" 2> /dev/null; '
    '[ "$(stat -c "%u %a %F" "$RAY_TMPDIR")" = "$(id -u) 700 directory" ] || '
    '{{ echo "$RAY_TMPDIR is open to others: remove it" >&2; exit 1; }}; '
)
"""What precedes each command that starts Ray. It names the token, and the folder of Ray's sockets,
which nobody else may enter. Ray takes the path of the head's folder on all nodes, and the token is
the same on all."""
AGAIN = (
    "ray stop; find /tmp -maxdepth 1 -user $(id -u) -name 'sweepd-cluster-*' -print0 "
    "| xargs -0 rm -rf"
)
"""Ends this user's Rays on a node, and removes what they have left."""
START = {
    "head_start_ray_commands": [
        AGAIN,
        "ulimit -n 65536; ray start --head --port=6379 --object-manager-port=8076 "
        "--autoscaling-config=~/ray_bootstrap_config.yaml --dashboard-host=127.0.0.1",
    ],
    "worker_start_ray_commands": [
        AGAIN,
        "ulimit -n 65536; ray start --address=$RAY_HEAD_IP:6379 --object-manager-port=8076",
    ],
}
"""The commands that start Ray. They are Ray's own, except that Ray would open the dashboard to the
whole network and leave its logs behind."""
SETUP: dict[str, list[str]] = {f"{of}setup_commands": [] for of in ("", "head_", "worker_")}
"""The setup commands. They are empty, since the packages of Ray's examples are not needed."""
REQUIREMENTS = "requirements.txt"
"""The file in the cluster's folder that says what its nodes need."""
START_SECONDS = 60.0
"""The seconds that the dashboard of a cluster that has just come up may take to answer."""


class Launcher(OnRay):
    """A cluster file with a `ray:` section, which is what `ray up` reads. sweepd adds a folder to
    it. That holds a token, without which nobody gets in, and the versions of the packages here."""

    provider: ClassVar[str]
    """Ray's name for the provider of the nodes."""
    extra: ClassVar[str] = "cluster"
    """The extra of sweepd that the nodes and the launching machine need."""

    packages: tuple[str, ...] = ()
    """What to install on the nodes besides the packages of sweepd, as pip is told."""
    ray: dict[str, Any]

    _tunnel: autoscaler.Tunnel | None = PrivateAttr(default=None)

    def faults(self) -> Iterator[tuple[Keys, str]]:
        given = self.ray.get("provider")
        if isinstance(given, dict) and given.get("type", self.provider) != self.provider:
            yield ("ray", "provider", "type"), f"must be {self.provider} for this kind"
            return
        found = [(("ray", *keys), message) for keys, message in autoscaler.problems(self.config())]
        yield from found or self.own_faults()

    def own_faults(self) -> Iterator[tuple[Keys, str]]:
        """Yields what is wrong although Ray accepts it: where, and why."""
        for number, line in enumerate(self.packages):
            try:
                Requirement(line)
            except InvalidRequirement as error:
                said = str(error).partition("\n")[0]
                yield ("packages", number), f"{line!r}: {said}"
        if not re.fullmatch("[A-Za-z0-9_-]+", self._name):
            yield ("ray", "cluster_name"), "letters, digits, - and _ only: a folder is named so"

    def config(self) -> dict[str, Any]:
        """Returns what Ray is given: the `ray:` section, with sweepd's token and folder added."""
        made = deepcopy({**SETUP, **START, **self.ray})
        provider, mounts = made.get("provider", {}), made.get("file_mounts", {})
        if isinstance(provider, dict):
            made["provider"] = {"type": self.provider, **provider}
        if isinstance(mounts, dict):
            made["file_mounts"] = {**mounts, f"~/{HOME}/{self._name}": str(self._folder)}
        closed = CLOSED.format(token=f"{HOME}/{self._name}/token")
        for name in START:
            if isinstance(made[name], list):
                made[name] = [f"{closed}{command}" for command in made[name]]
        return made

    def checks(self, address: str = "") -> Iterator[Check]:
        yield from has("ssh", "rsync")

    def up(self, note: Note) -> None:
        self._fill_folder()
        options = []
        if not self._head_is_there():
            if wrong := [f"{one.check}: {one.detail}" for one in self.checks() if not one.ok]:
                raise EnvironmentFailure("\n".join(("nothing was started:", *wrong)))
        else:
            if failure := self._silent():
                note(f"{failure}: Ray is started there anew")
            else:
                options = ["--no-restart"]  # what runs there goes on
        autoscaler.run(self.config(), note, "up", "--no-config-cache", *options)
        self._tunnel = None  # the head may be another one now
        self.client(START_SECONDS)

    def check_imports(self, modules: Mapping[str, Path]) -> None:
        if REQUIREMENTS not in json.dumps(self.ray):
            return  # what its nodes install, or have already, only they know
        had = {*_all_packages(self._wanted())}
        owners = packages_distributions()
        for module, file in modules.items():
            names = owners.get(module, [])
            if names and not had.intersection(map(canonicalize_name, names)):
                raise UserError(
                    f"{file} imports {module}, which no node will have: write `packages: "
                    f"[{names[0]}]` in the cluster file"
                )

    def start(self, work: Work, note: Note) -> str:
        command, began = work.command(self.python), time.monotonic()
        if not self._head_is_there():
            self.up(note)
            command = f"export {PAID_SECONDS}={time.monotonic() - began:.0f}; {command}"
        elif failure := self._silent():
            raise EnvironmentFailure(
                f"{failure}; `sweepd cluster up` starts Ray there anew, which ends what it runs"
            )
        if self.after == "down":
            leave = shlex.join([self.python, "-m", "sweepd.cluster.leaving"])
            command += f"; code=$?; (setsid {leave} >~/sweepd-leaving.log 2>&1 </dev/null &)"
            command += "; exit $code"
        return self.submit(work, command)

    def status(self) -> list[dict[str, Any]]:
        types = self.types()
        rows: list[dict[str, Any]] = []
        for one in autoscaler.machines(self.config()):
            row = {"what": "node", "name": one.address, "type": one.type, "state": one.state}
            rows.append({**row, "price": types[one.type].price if one.type in types else None})
        if rows:
            try:
                rows += [row for row in super().status() if row["what"] == "job"]
            except EnvironmentFailure as failure:
                rows.append({"what": "job", "state": f"not known: {failure}"})
        return rows

    def down(self, note: Note) -> None:
        autoscaler.run(self.config(), note, "down")
        if left := autoscaler.machines(self.config()):
            names = ", ".join(one.address for one in left)
            raise EnvironmentFailure(f"cluster {self._name}: there still are {names}")
        if self._folder.exists():
            shutil.rmtree(self._folder)

    @property
    def _name(self) -> str:
        return str(self.ray.get("cluster_name", ""))

    @property
    def _folder(self) -> Path:
        return Path.home() / HOME / self._name

    @property
    def _token(self) -> Path:
        return self._folder / "token"

    def _fill_folder(self) -> None:
        """Makes the token, unless the cluster has one, and writes down which packages its nodes
        need: those installed here, unless the file asks for others. Raises UserError if the cluster
        is up and its token is not here."""
        if not self._token.exists() and autoscaler.machines(self.config()):
            raise UserError(
                f"cluster {self._name} is up, and its token is not in {self._token}: copy it from "
                "the machine that brought it up, or take the cluster down first"
            )
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._token.exists():
            self._token.touch(mode=0o600)
            self._token.write_text(secrets.token_hex(32))
        lines = ""
        for wanted in self._wanted():
            line, extras = str(wanted), f"[{','.join(sorted(wanted.extras))}]"
            with suppress(PackageNotFoundError):
                here = version(wanted.name)
                if not wanted.url and wanted.specifier.contains(here, prereleases=True):
                    # Without what follows a +, which names a build for this machine's hardware.
                    named = wanted.name + (extras if wanted.extras else "")
                    line = f"{named}=={Version(here).public}"
            lines += f"{line}\n"
        (self._folder / REQUIREMENTS).write_text(lines)

    def _wanted(self) -> list[Requirement]:
        """Returns what the nodes need: the packages of sweepd, and those that the file names."""
        return [*needed(self.extra), *map(Requirement, self.packages)]

    def client(self, patience: float = 0.0) -> JobSubmissionClient:
        """Returns a client of the API, for whose answer it waits up to `patience` seconds."""
        if not self._token.exists():
            raise EnvironmentFailure(
                f"cluster {self._name}: its token is not in {self._token}: copy it from the "
                "machine that brought the cluster up"
            )
        until = time.monotonic() + patience
        while True:
            try:
                self._tunnel = self._tunnel or autoscaler.tunnel(self.config())
                return connect(self._tunnel.address, self._token.read_text())
            except EnvironmentFailure:
                if time.monotonic() > until:
                    raise
                time.sleep(1)

    def _head_is_there(self) -> bool:
        return any(one.head for one in autoscaler.machines(self.config()))

    def _silent(self) -> EnvironmentFailure | None:
        """Returns why Ray on the head does not answer, or None if it does."""
        try:
            self.client()
        except EnvironmentFailure as failure:
            self._tunnel = None
            return failure
        return None


def _all_packages(wanted: Iterable[Requirement]) -> Iterator[str]:
    """Yields the names of these packages and of all that they need, as far as these are installed
    here."""
    seen: set[tuple[str, str]] = set()
    waiting = [(one.name, extra) for one in wanted for extra in ("", *one.extras)]
    while waiting:
        name, extra = waiting.pop()
        if (canonicalize_name(name), extra) in seen:
            continue
        seen.add((canonicalize_name(name), extra))
        yield canonicalize_name(name)
        try:
            needs = map(Requirement, requires(name) or [])
        except PackageNotFoundError:
            continue
        for one in needs:
            if not one.marker or one.marker.evaluate({"extra": extra}):
                waiting += [(one.name, more) for more in ("", *one.extras)]


ALONE = (
    "setsid flock -n /tmp/sweepd-alone bash -c 'left={first}; while [ $left -gt 0 ]; do sleep 60; "
    "if pgrep -x raylet; then left=10; else left=$((left - 1)); fi; done; "
    "sudo -n shutdown -h now || shutdown -h now' > /dev/null 2>&1 < /dev/null &"
)
"""A command, which Ray puts in parentheses. It leaves a process behind, which shuts the machine
down once no raylet has run there for ten minutes, or since its start for `first` minutes. So no
machine goes on costing whose setup failed, or whose head is gone."""


MANY_NODES = 20
"""The number of nodes above which an image with the packages is worth its making."""


class Cloud(Launcher):
    """Nodes that cost money: the head while the cluster is up, and each worker while it is up. One
    without a raylet shuts itself down."""

    starting: ClassVar[tuple[float, float]] = (180.0, 900.0)

    prices: dict[str, float]
    """The price in dollars an hour of each of the section's `available_node_types`."""

    def config(self) -> dict[str, Any]:
        made = super().config()
        alone = ALONE.replace("{first}", str(math.ceil(self.start_seconds / 60)))
        if isinstance(commands := made.get("initialization_commands", []), list):
            made["initialization_commands"] = [alone, *commands]
        return made

    def up(self, note: Note) -> None:
        most = sum(one.most for one in self.types().values())
        if most > MANY_NODES and self.ray.get("setup_commands"):
            note(f"up to {most} nodes will each install all packages: make an image that has them")
        super().up(note)

    def idle_seconds(self) -> float:
        return 60.0 * float(autoscaler.prepared(self.config())["idle_timeout_minutes"])

    def own_faults(self) -> Iterator[tuple[Keys, str]]:
        yield from super().own_faults()
        section = autoscaler.prepared(self.config())
        types = section["available_node_types"]
        for name in types.keys() - self.prices.keys():
            yield ("prices",), f"what does {name} cost an hour? 0 if nothing"
        for name in self.prices.keys() - types.keys():
            yield ("prices", name), f"no such node type: {', '.join(types)}"
        for name, price in self.prices.items():
            if price < 0:
                yield ("prices", name), "must not be negative"
        for name, one in types.items():
            if "CPU" not in one["resources"]:
                keys = ("ray", "available_node_types", name, "resources")
                yield keys, "how many cores? such as {CPU: 4, GPU: 1}; {CPU: 0} runs no trials"
        most = sum(one["max_workers"] for one in types.values())
        if most > section["max_workers"]:
            yield (
                ("ray", "max_workers"),
                f"the node types may have {most} workers, together more than these "
                f"{section['max_workers']}: say for each its own max_workers",
            )

    def types(self) -> Mapping[str, Nodes]:
        section = autoscaler.prepared(self.config())
        return {
            name: Nodes(
                most=one["max_workers"] + (name == section["head_node_type"]),
                cpus=one["resources"]["CPU"],
                gpus=one["resources"].get("GPU", 0),
                price=self.prices[name],
                least=one["min_workers"] + (name == section["head_node_type"]),
            )
            for name, one in section["available_node_types"].items()
        }


class OnPrem(Launcher):
    """A head and workers that are there anyway. `up` starts Ray on them, and `down` ends it."""

    provider: ClassVar[str] = "local"

    kind: Literal["onprem"]
    nodes: dict[str, Nodes] = Field(default_factory=dict)
    """What the machines have, by type of node. If empty, they have what Ray finds when the driver
    joins."""

    def types(self) -> Mapping[str, Nodes]:
        return self.nodes

    def status(self) -> list[dict[str, Any]]:
        known = autoscaler.machines(self.config())
        try:
            # Ray's provider knows of the workers only on the head, so Ray itself is asked here.
            return OnRay.status(self) if known else []
        except EnvironmentFailure:
            state = "Ray does not answer"
            return [{"what": "node", "name": one.address, "state": state} for one in known]
