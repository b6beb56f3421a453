"""The cluster files for Ray's launcher: what is refused before any money is spent, and what is
handed to Ray. tests/machines brings the clusters themselves up. Covers `cluster/autoscaler.py`
and `cluster/launcher.py`."""

import json
import os
import secrets
import shutil
import stat
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.session import Session
from botocore.validate import ParamValidator
from cluster.ready import CLUSTERS, program, written
from googleapiclient.discovery_cache import get_static_doc
from inprocess import sweepd
from packaging.requirements import Requirement
from waiting import wait_until

from sweepd.cluster import autoscaler, load_cluster
from sweepd.cluster.aws import AWS
from sweepd.cluster.base import Work
from sweepd.cluster.gcp import GCP
from sweepd.cluster.launcher import START, Cloud, OnPrem
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid.placement import Nodes, Resources
from sweepd.grid.yamlfile import GridError

KINDS = ("aws", "gcp", "onprem")
Ready = Callable[[str], AWS | GCP | OnPrem]
"""Reads a ready file that was filled in."""
GRID = "task: {name: lis, n: 4}\nmodel: {name: standard, d: 8}\nseeds: [0, 1]\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def load(path: Path) -> AWS | GCP | OnPrem:
    cluster = load_cluster(path)
    assert isinstance(cluster, AWS | GCP | OnPrem)
    return cluster


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], AWS | GCP | OnPrem]:
    folder = tmp_path_factory.mktemp("ready")
    return lambda kind: load(written(folder, kind))


def test_ready_files_grow_from_a_head_that_runs_no_trials(ready: Ready) -> None:
    for kind in ("aws", "gcp"):
        cluster = ready(kind)
        assert isinstance(cluster, Cloud)
        types = cluster.types()
        assert types["head"] == Nodes(1, 0, 0, cluster.prices["head"], least=1)
        assert types["gpu"] == Nodes(8, 8, 1, cluster.prices["gpu"], least=0)
        assert cluster.slots(cluster.per_trial) == 32
        # All of them also while they start, and the workers while they are idle.
        an_hour = cluster.prices["head"] + 8 * cluster.prices["gpu"]
        low, high = cluster.cost(cluster.per_trial, 32, 3600, 7200)
        assert low == pytest.approx(an_hour * (1 + 180 / 3600))
        assert high == pytest.approx(an_hour * (2 + (900 + 5 * 60) / 3600))
        assert cluster.cost(cluster.per_trial, 0, 0, 0) == (0, 0)
        with pytest.raises(UserError, match="8 GPUs"):
            cluster.slots(Resources(1, 8))


def test_amazon_knows_every_field_of_the_ready_nodes(ready: Ready) -> None:
    shape = Session().get_service_model("ec2").operation_model("RunInstances").input_shape
    for one in ready("aws").ray["available_node_types"].values():
        asked = {**one["node_config"], "MinCount": 1, "MaxCount": 1}
        report = ParamValidator().validate(asked, shape)
        assert not report.has_errors(), report.generate_report()


def test_google_knows_every_field_of_the_ready_nodes(ready: Ready) -> None:
    schemas = json.loads(get_static_doc("compute", "v1"))["schemas"]
    types: dict[str, type | tuple[type, ...]] = {"boolean": bool, "string": (str, int)}

    def check(value: object, schema: dict[str, Any]) -> None:
        schema = schemas[schema["$ref"]] if "$ref" in schema else schema
        if isinstance(value, dict):
            assert schema["type"] == "object"
            for name, inner in value.items():
                check(inner, schema["properties"][name])
        elif isinstance(value, list):
            assert schema["type"] == "array"
            for inner in value:
                check(inner, schema["items"])
        else:
            assert value in schema.get("enum", [value])
            assert isinstance(value, types[schema["type"]])

    for one in ready("gcp").ray["available_node_types"].values():
        check(one["node_config"], schemas["Instance"])


@pytest.mark.parametrize(
    ("kind", "old", "new", "where", "why"),
    [
        ("aws", "kind: aws", "kind: aws\nzone: a", "zone", "no such key"),
        ("aws", "  max_workers: 8\n  idle", "  max_worker: 8\n  idle", "ray", "max_worker"),
        ("aws", "  idle_timeout_minutes: 5", "  idle_timeout_minutes: soon", "minutes", "soon"),
        ("aws", "{CPU: 8, GPU: 1}", "{CPU: four}", "gpu.resources.CPU", "four"),
        ("aws", "{CPU: 8, GPU: 1}", "{GPU: 1}", "gpu.resources", "how many cores"),
        ("aws", "  gpu: 1.21", "  cpu: 1.21", "prices.cpu", "no such node type: head, gpu"),
        ("aws", "  gpu: 1.21", "  gpu: -1", "prices.gpu", "negative"),
        ("aws", "  gpu: 1.21\n", "", "prices", "what does gpu cost"),
        ("aws", "type: aws", "type: gcp", "provider.type", "must be aws"),
        ("aws", "max_workers: 8\n  idle", "max_workers: 4\n  idle", "ray.max_workers", "8 workers"),
        ("aws", "head_node_type: head", "head_node_type: boss", "ray", "head_node_type"),
        ("aws", "cluster_name: sweepd", "cluster_name: ../up", "ray.cluster_name", "letters"),
        ("gcp", "  cluster_name: sweepd\n", "", "ray", "cluster_name"),
        ("aws", "{Name: sweepd}      #", "{Name: other}  #", "gpu.node_config", "name it for head"),
        ("onprem", "kind: onprem", "kind: onprem\npackages: [a b]", "packages[0]", "a b"),
        ("onprem", ", worker_ips: [192.168.1.11, 192.168.1.12]", "", "ray", "worker_ips"),
        ("onprem", "ssh_user: me", "user: me", "ray.auth", "user"),
        ("onprem", "kind: onprem", "kind: onprem\nprices: {machine: 1}", "prices", "no such key"),
    ],
)
def test_refused_with_the_place(
    tmp_path: Path, kind: str, old: str, new: str, where: str, why: str
) -> None:
    path = written(tmp_path, kind, old, new)
    with pytest.raises(GridError) as refused:
        load_cluster(path)
    assert any(
        f"{path}:" in line and where in line and why in line
        for line in str(refused.value).splitlines()
    ), refused.value


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("aws", ("my-bucket", "ami-00000000000000000")),
        ("gcp", ("my-bucket", "my-project")),
        ("kuberay", ("my-bucket", "my-registry")),
        ("slurm", ("my-shared-folder", "my-partition")),
        ("onprem", ("my-shared-folder", "my-head", "my-worker", "my-name")),
    ],
)
def test_a_ready_file_that_was_not_filled_in_is_refused(
    tmp_path: Path, kind: str, names: tuple[str, ...]
) -> None:
    (tmp_path / "grid.yaml").write_text(GRID)
    where = (str(tmp_path / "grid.yaml"), "--cluster", str(CLUSTERS / f"{kind}.yaml"))
    for command in (["plan"], ["launch", "--dry-run"], ["launch", "--yes"]):
        answer = sweepd(*command, *where, watched=True)
        assert answer.code == 2 and "socket" not in str(answer.deeds), answer
        for name in names:
            assert f"{name} stands for one of yours" in answer.err


@pytest.mark.parametrize("rubbish", ["3", "[]", "{}", "{provider: 3}", "{provider: {type: [a]}}"])
@pytest.mark.parametrize("kind", KINDS)
def test_rubbish_is_refused(tmp_path: Path, kind: str, rubbish: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(f"kind: {kind}\nprices: {{}}\nray: {rubbish}\n")
    with pytest.raises(GridError):
        load_cluster(path)


@pytest.mark.parametrize("kind", KINDS)
def test_ray_starts_with_the_token_and_is_seen_on_the_head_alone(kind: str, ready: Ready) -> None:
    cluster = ready(kind)
    config = autoscaler.prepared(cluster.config())
    name = cluster.ray["cluster_name"]
    token = f"RAY_AUTH_TOKEN_PATH=$HOME/.sweepd/clusters/{name}/token;"
    starts = config["head_start_ray_commands"] + config["worker_start_ray_commands"]
    assert all(command.startswith(f"export RAY_AUTH_MODE=token {token}") for command in starts)
    assert "--dashboard-host=127.0.0.1" in config["head_start_ray_commands"][-1]
    assert config["head_setup_commands"] == cluster.ray["setup_commands"]
    assert not config["provider"].get("cache_stopped_nodes")


def test_ray_starts_in_a_folder_of_its_own(tmp_path: Path) -> None:
    """On each node, whatever Ray is started by: the command is run, with an `echo` as Ray."""
    path = written(
        tmp_path,
        "onprem",
        "  setup_commands:",
        "  worker_start_ray_commands: [echo $RAY_TMPDIR]\n  setup_commands:",
    )
    config = load(path).config()
    token = tmp_path / ".sweepd/clusters/lab/token"
    token.parent.mkdir(parents=True)
    token.write_text(secrets.token_hex())

    def starts(command: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HOME": str(tmp_path)}
        shell = ("bash", "-c", f"umask 0; ({command})")
        return subprocess.run(shell, env=environment, capture_output=True, text=True)

    [command] = config["worker_start_ray_commands"]
    folder = Path(starts(command).stdout.strip())
    try:
        assert folder.parent == Path("/tmp") and folder.name.startswith("sweepd-cluster-")
        assert stat.S_IMODE(folder.lstat().st_mode) == 0o700
        assert starts(command).stdout.strip() == str(folder)  # on the next node, or once more
        folder.chmod(0o755)
        assert starts(command).returncode and "is open to others" in starts(command).stderr
        folder.rmdir()
        folder.symlink_to(tmp_path)
        assert starts(command).returncode and not starts(command).stdout
        folder.unlink()
        if os.getuid() == 0:
            folder.mkdir(mode=0o700)
            os.chown(folder, 65534, 65534)
            assert starts(command).returncode and not starts(command).stdout
    finally:
        folder.rmdir() if folder.is_dir() and not folder.is_symlink() else folder.unlink()


def test_what_an_earlier_ray_has_left_on_a_node_is_removed(tmp_path: Path) -> None:
    ray = tmp_path / "ray"  # whose `stop` would end all of the machine's
    ray.write_text("#!/bin/sh\n")
    ray.chmod(0o755)
    (tmp_path / "find").write_text(f'#!/bin/sh\nshift; exec {shutil.which("find")} {tmp_path} "$@"')
    (tmp_path / "find").chmod(0o755)
    for name in ("sweepd-cluster-12345678/ray/session", "sweepd-ray-12345678"):
        (tmp_path / name).mkdir(parents=True)
    path = f"{tmp_path}:{os.environ['PATH']}"
    again = START["head_start_ray_commands"][0]
    subprocess.run(["bash", "-c", again], env={**os.environ, "PATH": path}, check=True)
    assert [one.name for one in tmp_path.glob("sweepd*")] == ["sweepd-ray-12345678"]


def test_start_commands_of_ones_own_run_with_the_token_too(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "onprem",
        "  setup_commands:",
        "  head_start_ray_commands: [mine]\n  setup_commands:",
    )
    [command] = load(path).config()["head_start_ray_commands"]
    assert command.startswith("export RAY_AUTH_MODE=token ") and command.endswith("; mine")


def test_a_cluster_has_a_folder_with_its_token_and_its_packages(
    home: Path, ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ready("aws")
    monkeypatch.setattr(autoscaler, "machines", lambda config: [])
    cluster._fill_folder()
    folder = home / ".sweepd/clusters/sweepd"
    assert cluster.config()["file_mounts"] == {"~/.sweepd/clusters/sweepd": str(folder)}
    token = (folder / "token").read_text()
    assert len(token) == 64 and token not in json.dumps(cluster.config())
    assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(autoscaler._written(cluster.config())).stat().st_mode) == 0o600
    wanted = [Requirement(line) for line in (folder / "requirements.txt").read_text().split()]
    assert {"ray", "torch", "obstore", "boto3"} <= {one.name for one in wanted}
    assert {"default"} in [one.extras for one in wanted if one.name == "ray"]
    assert all(str(one.specifier).startswith("==") and "+" not in str(one) for one in wanted)

    cluster._fill_folder()
    assert (folder / "token").read_text() == token
    there = autoscaler.Machine("i-1", "10.0.0.1", "head", "up-to-date", head=True)
    monkeypatch.setattr(autoscaler, "machines", lambda config: [there])
    cluster._fill_folder()
    (folder / "token").unlink()
    with pytest.raises(UserError, match="copy it from"):
        cluster._fill_folder()


@pytest.mark.parametrize("minutes", [0, 3])
def test_a_node_without_a_raylet_shuts_itself_down(
    tmp_path: Path, ready: Ready, minutes: int
) -> None:
    """Here a minute is no time, and a raylet runs for the first minutes."""
    for name, text in (
        ("sleep", "echo $1 >> slept"),
        ("pgrep", f"test $(wc -l < slept) -le {minutes}"),
        ("sudo", "test $2 = shutdown && touch down"),
    ):
        program(tmp_path / name, f"#!/bin/bash\ncd {tmp_path}\n{text}\n")
    [command] = ready("aws").config()["initialization_commands"]
    command = command.replace("/tmp/sweepd-alone", str(tmp_path / "lock"))
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for _ in range(2):  # `ray up` may run it again
        as_ray_does = f"true && ({command})"
        subprocess.run(["bash", "-c", as_ray_does], check=True, env=path)
    wait_until((tmp_path / "down").exists, 20)
    left = 20 if not minutes else minutes + 10
    assert (tmp_path / "slept").read_text() == "60\n" * left


def test_packages_of_ones_own_are_installed_and_others_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of the tests has scikit-learn, and sweepd asks for no such thing."""
    monkeypatch.setattr(autoscaler, "machines", lambda config: [])
    (tmp_path / "far.py").write_text(
        "import json, numpy\nfrom sklearn import svm\nfrom dataclasses import dataclass\n"
        "from sweepd.tasks.lis import LIS\n@dataclass(frozen=True)\nclass Far(LIS):\n    pass\n"
    )
    (tmp_path / "grid.yaml").write_text(GRID.replace("lis", "far.py:Far"))
    launch = ("launch", "--dry-run", str(tmp_path / "grid.yaml"), "--cluster")
    answer = sweepd(*launch, str(written(tmp_path, "onprem")))
    assert answer.code == 2 and "far.py imports sklearn, which no node will have" in answer.err
    assert "write `packages: [scikit-learn]` in the cluster file" in answer.err
    named = "kind: onprem\npackages: [scikit-learn, 'einops>=0.7', 'numpy<1']"
    path = written(tmp_path, "onprem", "kind: onprem", named)
    assert sweepd(*launch, str(path)).code == 0
    cluster = load(path)
    cluster._fill_folder()
    wanted = (tmp_path / ".sweepd/clusters/lab/requirements.txt").read_text().split()
    assert f"scikit-learn=={version('scikit-learn')}" in wanted
    assert {"einops>=0.7", "numpy<1"} <= {*wanted}


def test_a_launch_restarts_no_ray_that_others_may_use(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ready("onprem")
    there = autoscaler.Machine("h", "10.0.0.1", "", "up-to-date", head=True)

    def no_way(config: dict[str, Any]) -> None:
        raise EnvironmentFailure("no way to its head")

    monkeypatch.setattr(autoscaler, "machines", lambda config: [])
    cluster._fill_folder()
    monkeypatch.setattr(autoscaler, "machines", lambda config: [there])
    monkeypatch.setattr(autoscaler, "tunnel", no_way)
    monkeypatch.setattr(autoscaler, "run", lambda *_: pytest.fail("it was restarted"))
    work = Work("far", "/results", ("launch", "grid.yaml"), Path())
    with pytest.raises(EnvironmentFailure, match="no way to its head; `sweepd cluster up`"):
        cluster.start(work, print)


@pytest.mark.parametrize("ending", ["raise SystemExit('no route')", "print('no route')"])
def test_a_head_that_ssh_does_not_reach_is_told(
    ready: Ready, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(autoscaler, "TUNNEL", ending)
    with pytest.raises(EnvironmentFailure, match="no way to its head by SSH: no route"):
        autoscaler.tunnel(ready("onprem").config())


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_asks_no_cloud(tmp_path: Path, kind: str) -> None:
    (tmp_path / "grid.yaml").write_text(GRID)
    cluster = written(tmp_path, kind)
    where = ("--cluster", str(cluster), "--results", str(tmp_path / "results"))
    for command in (["plan"], ["launch", "--dry-run"]):
        answer = sweepd(*command, str(tmp_path / "grid.yaml"), *where, watched=True)
        assert answer.code == 0 and answer.deeds is not None, answer
        assert "socket" not in str(answer.deeds), answer
    [row] = json.loads(sweepd("plan", str(tmp_path / "grid.yaml"), *where, "--json").out)
    assert row["slots"] == (12 if kind == "onprem" else 32)
    # No trial on a GPU was recorded, so its time is not known. What starts and ends costs already.
    assert row["seconds_high"] is None and (row["cost_low"] > 0.04) == (kind != "onprem")
    on_cores = ("--set", "resources={cpus: 1}")
    refused = sweepd("plan", str(tmp_path / "grid.yaml"), *where, *on_cores)
    assert refused.code == 2 and "the cards would idle" in refused.err, refused


def test_the_ready_files_share_their_setup() -> None:
    """The setups differ in nothing but the cluster's name. So what is mended in one must be mended
    in all."""
    setups = {
        "\n".join(section["setup_commands"]).replace(f"clusters/{section['cluster_name']}/", "NAME")
        for section in (yaml.safe_load((CLUSTERS / f"{k}.yaml").read_text())["ray"] for k in KINDS)
    }
    assert len(setups) == 1
