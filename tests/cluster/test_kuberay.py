"""What sweepd hands to KubeRay, and how it talks to kubectl. A program (kubectl.py) stands in for
kubectl, so no Kubernetes is asked. If $SWEEPD_RAYJOB_CRD is the path of ray.io_rayjobs.yaml from a
release of KubeRay, the manifests are checked against its schema. Covers `cluster/package.py`."""

import base64
import io
import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.ready import filled, program, written

from sweepd.cluster import kuberay, load_cluster
from sweepd.cluster.base import Work
from sweepd.cluster.kuberay import KubeRay
from sweepd.cluster.package import pack
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid.placement import Resources
from sweepd.grid.spec import parse_grid
from sweepd.grid.yamlfile import GridError

GRID = "{name: A_Sweep.1, task: {name: lis, n: 4}, model: {name: standard, d: 8}}"
RESULTS = "s3://bucket/results"


@pytest.fixture
def cluster(tmp_path: Path) -> KubeRay:
    cluster = load_cluster(written(tmp_path, "kuberay"))
    assert isinstance(cluster, KubeRay)
    return cluster


@pytest.fixture
def work(tmp_path: Path, cluster: KubeRay) -> Work:
    folder = tmp_path / "package"
    folder.mkdir()
    path = pack(parse_grid(GRID, "grid.yaml", [], tmp_path), cluster, folder)
    return Work("A_Sweep.1", RESULTS, ("launch", path), folder)


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its folder, where tests say how jobs end and what is refused."""
    double = Path(__file__).with_name("kubectl.py")
    program(tmp_path / "bin/kubectl", f'#!/bin/sh\nexec {sys.executable} {double} "$@"')
    folder = tmp_path / "kubernetes"
    folder.mkdir()
    (folder / "refused").write_text("")
    (folder / "ending").write_text('{"jobStatus": "SUCCEEDED"}')
    monkeypatch.setenv("KUBECTL", str(folder))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(kuberay, "POLL_SECONDS", 0.0)
    return folder


def made(folder: Path, kind: str) -> Any:
    return json.loads((folder / f"{kind}.json").read_text())


def test_a_launch_from_hand_over_to_ending(cluster: KubeRay, work: Work, kubectl: Path) -> None:
    told: list[str] = []
    job = cluster.start(work, told.append)
    assert len(job) <= 47 and job.startswith("sweepd-a-sweep-1-")
    assert cluster.start(work, told.append) == job and "in the queue already" in told[-1]
    assert {(row["what"], row["type"], row.get("price")) for row in cluster.status()} == {
        ("job", "A_Sweep.1", None),
        ("node", "cores", 0.4),
    }
    assert cluster.follow(job, told.append) == 0
    assert told[-2:] == ["waiting for pods", "[1/1] completed"]
    assert cluster.find(work.sweep, RESULTS) is None
    assert cluster.start(work, told.append) != job
    cluster.down(told.append)
    assert not list(kubectl.glob("*.json"))
    calls = [json.loads(line) for line in (kubectl / "calls").read_text().splitlines()]
    assert all(call[0] == "--namespace=default" for call in calls)


def test_the_code_that_is_sent_runs_and_goes_with_its_job(
    cluster: KubeRay, work: Work, kubectl: Path
) -> None:
    job = cluster.start(work, print)
    sent, rayjob = made(kubectl, "ConfigMap"), made(kubectl, "RayJob")
    [owner] = sent["metadata"]["ownerReferences"]
    assert (owner["name"], owner["uid"]) == (job, "uid of RayJob")
    package = zipfile.ZipFile(io.BytesIO(base64.b64decode(sent["binaryData"]["package.zip"])))
    held = package.namelist()
    assert {"sweepd/__main__.py", "sweepd/tasks/lis.py", "grid/grid.yaml", "cluster.yaml"} <= {
        *held
    }
    runtime = yaml.safe_load(rayjob["spec"]["runtimeEnvYAML"])
    assert rayjob["spec"]["activeDeadlineSeconds"] == 24 * 3600 + 1200 + 600
    assert rayjob["spec"]["backoffLimit"] == 0
    spec = rayjob["spec"]["rayClusterSpec"]
    assert spec["authOptions"] == {"mode": "token"}
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        [volume], [mount] = pod["volumes"], pod["containers"][0]["volumeMounts"]
        assert volume["configMap"]["name"] == job and volume["name"] == mount["name"]
        assert runtime["working_dir"] == f"file://{mount['mountPath']}/package.zip"
    assert "token" not in cluster.draft(work).replace("{mode: token}", "")


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ({"jobStatus": "FAILED", "message": "command failed with exit code 130, last logs"}, 130),
        ({"jobStatus": "FAILED", "message": "the head was lost"}, "the head was lost"),
        ({"reason": "SubmissionFailed"}, "SubmissionFailed"),
    ],
)
def test_how_a_job_ends(
    cluster: KubeRay, work: Work, kubectl: Path, ending: dict[str, str], code: int | str
) -> None:
    (kubectl / "ending").write_text(json.dumps(ending))
    job = cluster.start(work, print)
    if isinstance(code, int):
        assert cluster.follow(job, print) == code
    else:
        with pytest.raises(EnvironmentFailure, match=code):
            cluster.follow(job, print)


def test_pods_that_find_no_place_are_told_and_given_up(
    cluster: KubeRay, work: Work, kubectl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kubectl / "stuck").touch()
    monkeypatch.setattr(kuberay, "TELL_SECONDS", 0.2)
    hasty = cluster.model_copy(update={"start_seconds": 6.0})
    told: list[str] = []
    job = hasty.start(work, told.append)
    why = "pod pod-1 waits: 0/3 nodes are available: 3 Insufficient cpu."
    with pytest.raises(EnvironmentFailure, match="had no head within 6 s") as failed:
        hasty.follow(job, told.append)
    assert why in told and why in str(failed.value)
    assert not list(kubectl.glob("*.json")), "pods would come later, and cost"


@pytest.mark.parametrize("refused", ["RayJob", "ConfigMap"])
def test_what_kubernetes_refuses_is_told_and_leaves_no_job_without_its_code(
    cluster: KubeRay, work: Work, kubectl: Path, refused: str
) -> None:
    (kubectl / "refused").write_text(refused)
    with pytest.raises(EnvironmentFailure, match="no such thing"):
        cluster.start(work, print)
    assert not list(kubectl.glob("*.json"))


def test_more_code_than_a_configmap_holds(cluster: KubeRay, work: Work, kubectl: Path) -> None:
    (work.folder / "large.bin").write_bytes(os.urandom(1_000_000))
    with pytest.raises(UserError, match="a ConfigMap holds"):
        cluster.start(work, print)


def test_what_a_launch_needs_of_kubernetes(cluster: KubeRay, kubectl: Path) -> None:
    [check] = cluster.checks()
    assert check.ok and check.detail == "RayJobs can be made in namespace default"
    (kubectl / "refused").write_text("auth")
    [check] = cluster.checks()
    assert not check.ok and check.detail == "Error from server (Forbidden): no"


def test_no_kubectl(cluster: KubeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EnvironmentFailure, match="no command kubectl"):
        cluster.status()


def test_what_the_pods_hold_and_cost(cluster: KubeRay) -> None:
    types = cluster.types()
    assert [(name, one.most, one.cpus, one.gpus, one.price) for name, one in types.items()] == [
        ("head", 1, 0, 0, 0.1),
        ("cores", 8, 8, 0, 0.4),
        ("cards", 4, 8, 1, 1.2),
    ]
    assert cluster.slots(Resources(1, 0.5)) == 8
    low, high = cluster.cost(Resources(1, 0.5), 8, 3600, 3600)
    assert low == pytest.approx((0.1 + 4 * 1.2) * (1 + 30 / 3600))
    assert high == pytest.approx((0.1 + 4 * 1.2) * (1 + (600 + 120) / 3600))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("  rayVersion: 2.60.0\n", "", "ray.rayVersion: missing; write"),
        ("    maxReplicas: 8\n", "", "ray.workerGroupSpecs[0].maxReplicas: missing; write"),
        ("cpu: 8, memory: 16Gi}, req", "cpu: many}, req", "workerGroupSpecs[0].template.spec.cont"),
        ("prices: {head: 0.10, cores", "prices: {head: 0.10, core", "prices.core: no such group"),
        ("kind: kuberay", "kind: kuberay\nnodes: 2", "nodes: no such key"),
    ],
)
def test_what_a_cluster_file_may_not_say(tmp_path: Path, old: str, new: str, problem: str) -> None:
    text = filled("kuberay")
    assert old in text
    (tmp_path / "cluster.yaml").write_text(text.replace(old, new))
    with pytest.raises(GridError) as refused:
        load_cluster(tmp_path / "cluster.yaml")
    assert problem in str(refused.value)


@pytest.mark.skipif("SWEEPD_RAYJOB_CRD" not in os.environ, reason="no schema of KubeRay was named")
def test_the_manifest_keeps_to_kuberays_schema(cluster: KubeRay, work: Work, kubectl: Path) -> None:
    from jsonschema import Draft202012Validator

    crd = yaml.load(Path(os.environ["SWEEPD_RAYJOB_CRD"]).read_text(), yaml.CSafeLoader)
    [version] = [one for one in crd["spec"]["versions"] if one["name"] == "v1"]
    validator = Draft202012Validator(strict(version["schema"]["openAPIV3Schema"]))
    cluster.start(work, print)
    manifest = made(kubectl, "RayJob")
    assert not [f"{error.json_path}: {error.message}" for error in validator.iter_errors(manifest)]
    manifest["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["contaners"] = []
    assert len(list(validator.iter_errors(manifest))) == 1


def strict(schema: Any) -> Any:
    """A schema that refuses what it does not name, as Kubernetes does."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(part) for name, part in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        found |= {"type": ["integer", "string"]}
    open_ended = "additionalProperties" in schema or schema.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        found["additionalProperties"] = schema.get("additionalProperties", bool(open_ended))
    return found
