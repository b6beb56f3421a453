"""KubeRay: each sweep is a RayJob, for which its operator makes a Ray cluster of pods."""

from __future__ import annotations

import base64
import io
import json
import re
import subprocess
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from sweepd.closest import closest
from sweepd.cluster.base import Batch, Check, Note, Work, tell
from sweepd.cluster.jobs import STOPPING
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid.placement import Nodes
from sweepd.grid.yamlfile import Keys, dump

MOUNT, PACKAGE = "/sweepd", "package.zip"
"""The folder in the pods that holds the code that was sent, and the name of its file there."""
MOST_BYTES = 1_000_000
"""The most bytes that a ConfigMap holds, as a round number."""
LABEL = "app.kubernetes.io/managed-by=sweepd"
SWEEP, RESULTS = "sweepd/sweep", "sweepd/results"
"""The annotations of a job that name its sweep and its results."""
COMING = ("new", "Initializing")
"""The stages of jobs whose head has not come. One that a queue of Kubernetes' holds has others."""
ENDED = ("Complete", "Failed", "ValidationFailed")
"""The stages of jobs that are over. Before a job's submitter has run there is no output."""
GONE = "gone"
ENDING_SECONDS = 600
"""The seconds after `max_hours` in which a driver saves what runs, before KubeRay ends the job."""
POLL_SECONDS = 2.0
TELL_SECONDS = 60.0
"""The seconds after which it is said again which pods wait, and for what."""


class _Part(BaseModel):
    """A part of a RayClusterSpec. Its fields are what sweepd reads. KubeRay judges the rest."""

    model_config = ConfigDict(extra="allow", frozen=True, alias_generator=to_camel)


def _amount(quantity: str | int | float) -> float:
    """Returns a quantity of Kubernetes as a number, where `500m` is a half. Raises ValueError for
    what is none."""
    text = str(quantity)
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


class Limits(_Part):
    cpu: Annotated[str | int | float, AfterValidator(lambda it: (_amount(it), it)[1])]


class PodResources(_Part):
    limits: Limits


class Container(_Part):
    image: str
    resources: PodResources


class Pod(_Part):
    containers: Annotated[list[Container], Field(min_length=1)]
    """The containers of the pod. The first is the one in which Ray runs."""


class PodTemplate(_Part):
    spec: Pod


class Group(_Part):
    """Pods of one kind, such as the head's."""

    template: PodTemplate
    ray_start_params: dict[str, str] = Field(default_factory=dict)

    def nodes(self, least: int, most: int, price: float) -> Nodes:
        limits = self.template.spec.containers[0].resources.limits
        extra = (limits.model_extra or {}).items()
        gpus = sum(_amount(value) for name, value in extra if name.endswith("/gpu"))
        told = {"num-cpus": limits.cpu, "num-gpus": gpus, **self.ray_start_params}
        cpus, gpus = (_amount(told[name]) for name in ("num-cpus", "num-gpus"))
        return Nodes(most, ceil(cpus), gpus, price, least)


class Workers(Group):
    group_name: str
    min_replicas: Annotated[int, Field(ge=0)] = 0
    max_replicas: Annotated[int, Field(ge=1)]


class RayCluster(_Part):
    ray_version: str
    """The version of Ray. KubeRay asks for a token where it knows that this version does."""
    head_group_spec: Group
    worker_group_specs: list[Workers]


class KubeRay(Batch):
    """KubeRay, by kubectl as it is set up on this machine."""

    starting: ClassVar[tuple[float, float]] = (30.0, 600.0)

    kind: Literal["kuberay"]
    context: str | None = None
    """The context of kubectl; None stands for the current one."""
    namespace: str = "default"
    prices: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """The price of a pod in dollars an hour, by the name of its group. The group of the head is
    `head`."""
    ray: RayCluster
    """A RayClusterSpec, as KubeRay defines it."""
    after: Literal["keep", "down"] = "down"
    """Whether the pods of a sweep stay when it has ended, so that people can look at them."""

    def faults(self) -> Iterator[tuple[Keys, str]]:
        groups = ("head", *(group.group_name for group in self.ray.worker_group_specs))
        for name in self.prices:
            if name not in groups:
                yield ("prices", name), f"no such group{closest(name, groups)}"

    def types(self) -> Mapping[str, Nodes]:
        nodes = {"head": self.ray.head_group_spec.nodes(1, 1, self.prices.get("head", 0.0))}
        for group in self.ray.worker_group_specs:
            name, price = group.group_name, self.prices.get(group.group_name, 0.0)
            nodes[name] = group.nodes(group.min_replicas, group.max_replicas, price)
        return nodes

    def checks(self, address: str = "") -> Iterator[Check]:
        try:
            self._get("rayjobs")
            self._kubectl("auth", "can-i", "create", "rayjobs")
            yield Check("kuberay", True, f"RayJobs can be made in namespace {self.namespace}")
        except EnvironmentFailure as failure:
            yield Check("kuberay", False, str(failure).splitlines()[-1])  # before it stands a log

    def idle_seconds(self) -> float:
        options = (self.ray.model_extra or {}).get("autoscalerOptions", {})
        return float(options.get("idleTimeoutSeconds", 60))

    def up(self, note: Note) -> None:
        self._get("rayjobs")
        note(f"KubeRay is in namespace {self.namespace}; it brings pods up as jobs start")

    def find(self, sweep: str, results: str) -> str | None:
        wanted = {SWEEP: sweep, RESULTS: results}
        live = (job["metadata"] for job in self._jobs() if _stage(job) not in ENDED)
        ours = (one["name"] for one in live if wanted.items() <= one["annotations"].items())
        return next(ours, None)

    def submit(self, work: Work, job: str) -> str:
        package = _zipped(work.folder)
        if len(package) > MOST_BYTES:
            raise UserError(
                f"the code to send has {len(package):,} bytes packed, and a ConfigMap holds "
                f"{MOST_BYTES:,}: have large files of yours in the image"
            )
        made = self._create(self._job(work, job))
        code = _code(job, base64.b64encode(package).decode())
        owner = {name: made[name] for name in ("apiVersion", "kind")}
        owner |= {name: made["metadata"][name] for name in ("name", "uid")}
        code["metadata"]["ownerReferences"] = [owner]  # it is deleted with its owner
        try:
            self._create(code)
        except EnvironmentFailure:
            self._kubectl("delete", "rayjob", job)
            raise
        return job

    def draft(self, work: Work) -> str:
        job = f"sweepd-{work.sweep}"
        package = f"({len(_zipped(work.folder)):,} bytes)"
        return f"{dump(self._job(work, job))}---\n{dump(_code(job, package))}"

    def follow(self, job: str, note: Note) -> int:
        told, shown, began, over = "", 0, time.monotonic(), threading.Event()
        threading.Thread(target=self._tell_of_pods, args=(job, note, over), daemon=True).start()
        try:
            while True:
                try:
                    found = self._job_now(job)
                    stage = _stage(found)
                except EnvironmentFailure as failure:  # the job goes on although it can't be seen
                    found, stage = {}, str(failure)
                if stage != told:
                    note(f"KubeRay: job {job}: {stage}")
                    told = stage
                if stage in ("Running", *ENDED):
                    shown = self._pass_on(job, shown, note)
                if stage in (GONE, *ENDED):
                    # Ray tells the driver's exit code in words alone.
                    status = found.get("status", {})
                    if status.get("jobStatus") == "SUCCEEDED":
                        return 0
                    said = status.get("message") or status.get("reason") or "it was deleted"
                    if code := re.search(r"exit code (\d+)", said):
                        return int(code[1])
                    raise EnvironmentFailure(
                        f"job {job}: {said}; the same launch goes on with its sweep"
                    )
                if stage in COMING and time.monotonic() - began > self.start_seconds:
                    why = "; ".join(self._waiting(found)) or stage
                    self._kubectl("delete", "rayjob", job)
                    raise EnvironmentFailure(
                        f"job {job} had no head within {self.start_seconds:g} s (start_seconds): "
                        f"{why}; it was deleted, so that no pod comes later"
                    )
                time.sleep(POLL_SECONDS)
        finally:
            over.set()

    def _tell_of_pods(self, job: str, note: Note, over: threading.Event) -> None:
        """Tells `note` once a minute which pods of a job wait, and for what, until `over` is
        set."""
        while not over.wait(TELL_SECONDS):
            with suppress(EnvironmentFailure):
                for line in self._waiting(self._job_now(job)):
                    note(line)

    def _waiting(self, job: Mapping[str, Any]) -> Iterator[str]:
        """Yields the pods of a job that wait, each with the last warning about it."""
        cluster = job.get("status", {}).get("rayClusterName")
        pods = self._get("pods", f"--selector=ray.io/cluster={cluster}") if cluster else []
        waiting = {p["metadata"]["name"] for p in pods if p["status"]["phase"] == "Pending"}
        warned = {
            event["involvedObject"]["name"]: event["message"]
            for event in (self._get("events") if waiting else [])
            if event["type"] == "Warning"
        }
        for name in sorted(waiting):
            yield f"pod {name} waits: {warned.get(name, 'Kubernetes does not say why')}"

    def _job_now(self, job: str) -> dict[str, Any]:
        return next((one for one in self._jobs() if one["metadata"]["name"] == job), {})

    def status(self) -> list[dict[str, Any]]:
        jobs = self._jobs()
        clusters = [one.get("status", {}).get("rayClusterName") for one in jobs]
        of = f"--selector=ray.io/cluster in ({','.join(filter(None, clusters))})"
        rows = []
        for job in jobs:
            name, sweep = job["metadata"]["name"], job["metadata"]["annotations"][SWEEP]
            rows.append({"what": "job", "name": name, "type": sweep, "state": _stage(job)})
        for pod in self._get("pods", of):
            name, labels = pod["metadata"]["name"], pod["metadata"]["labels"]
            is_head = labels["ray.io/node-type"] == "head"
            group = "head" if is_head else labels["ray.io/group"]
            row = {"what": "node", "name": name, "type": group, "state": pod["status"]["phase"]}
            rows.append({**row, "price": self.prices.get(group, 0.0)})
        return rows

    def down(self, note: Note) -> None:
        note(self._kubectl("delete", "rayjobs", f"--selector={LABEL}").strip())

    def _job(self, work: Work, job: str) -> dict[str, Any]:
        """Returns the manifest of a sweep's RayJob."""
        cluster = self.ray.model_dump(by_alias=True, exclude_unset=True)
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            pod = group["template"]["spec"]
            volumes, mounts = pod.get("volumes", []), pod["containers"][0].get("volumeMounts", [])
            pod["volumes"] = [*volumes, {"name": "sweepd", "configMap": {"name": job}}]
            ours = {"name": "sweepd", "mountPath": MOUNT, "readOnly": True}
            pod["containers"][0]["volumeMounts"] = [*mounts, ours]
        annotations, deadline = {SWEEP: work.sweep, RESULTS: work.results}, {}
        if self.max_hours:  # the driver ends by itself before, where it and its head still live
            seconds = ceil(3600 * self.max_hours + self.start_seconds + ENDING_SECONDS)
            deadline["activeDeadlineSeconds"] = seconds
        runtime = {"working_dir": f"file://{MOUNT}/{PACKAGE}", "env_vars": STOPPING}
        return {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {**_metadata(job), "annotations": annotations},
            "spec": {
                "entrypoint": work.command(self.python),
                "runtimeEnvYAML": dump(runtime),
                "shutdownAfterJobFinishes": self.after == "down",
                "backoffLimit": 0,  # KubeRay would begin again what was cancelled, too
                **deadline,
                "rayClusterSpec": {"authOptions": {"mode": "token"}, **cluster},
            },
        }

    def _jobs(self) -> list[dict[str, Any]]:
        return self._get("rayjobs", f"--selector={LABEL}")

    def _pass_on(self, job: str, shown: int, note: Note) -> int:
        """Tells `note` what a job's submitter prints, except the lines shown before, until it or
        kubectl ends. Returns how many lines were shown so far."""
        command = (*self._command(), "logs", "--follow", f"job/{job}")
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as logs:
            assert logs.stdout
            count = 0
            try:
                for count, line in enumerate(logs.stdout, 1):
                    if count > shown:
                        note(line.rstrip("\n"))
            finally:
                logs.terminate()
        return max(shown, count)

    def _create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        text = self._kubectl("create", "--filename=-", "--output=json", text=json.dumps(manifest))
        made: dict[str, Any] = json.loads(text)
        return made

    def _get(self, *what: str) -> list[dict[str, Any]]:
        text = self._kubectl("get", *what, "--output=json")
        found: list[dict[str, Any]] = json.loads(text)["items"]
        return found

    def _kubectl(self, *arguments: str, text: str | None = None) -> str:
        return tell(*self._command(), *arguments, text=text)

    def _command(self) -> list[str]:
        context = [f"--context={self.context}"] if self.context else []
        return ["kubectl", *context, f"--namespace={self.namespace}"]


def _metadata(job: str) -> dict[str, Any]:
    name, _, value = LABEL.partition("=")
    return {"name": job, "labels": {name: value}}


def _code(job: str, package: str) -> dict[str, Any]:
    """Returns the manifest of the ConfigMap with the code."""
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    return {**kind, "metadata": _metadata(job), "binaryData": {PACKAGE: package}}


def _zipped(folder: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder))
    return packed.getvalue()


def _stage(job: Mapping[str, Any]) -> str:
    stage: str = job.get("status", {}).get("jobDeploymentStatus", "") if job else GONE
    return stage or "new"
