"""Every use of Ray's private parts, so that an upgrade of Ray has one file to look at.

Each function says what it is for and what happens without the private part. Ray is imported in
the functions: the engine makes settings that Ray reads when it is imported.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from subprocess import Popen, list2cmdline
from typing import Any

from sweepd.errors import EnvironmentFailure


def shut_off() -> Any:
    """Makes a Ray that this process starts open its ports on the loopback interface only, as Ray
    does by itself on macOS. Returns a `JobConfig` for `ray.init` that keeps workers from searching
    the driver's current folder for modules, where a file of any name would be imported in place of
    a library.

    There are no public settings for either. Ray is not started without them, since others could
    reach the ports. Raises EnvironmentFailure if Ray has dropped one.
    """
    from ray._private import ray_constants
    from ray.job_config import JobConfig

    class Empty(list[str]):
        """A list of folders that stays empty."""

        def extend(self, folders: Iterable[str]) -> None:
            """Adds nothing."""

    config = JobConfig()
    for owner, name in ((ray_constants, "ENABLE_RAY_CLUSTER"), (config, "_py_driver_sys_path")):
        if not hasattr(owner, name):
            raise _missing(name)
    ray_constants.ENABLE_RAY_CLUSTER = False
    config._py_driver_sys_path = Empty()
    return config


def _missing(name: str) -> EnvironmentFailure:
    import ray

    return EnvironmentFailure(
        f"ray {ray.__version__} has no {name}, which sweepd needs: install a version of ray that "
        "sweepd was tested with (constraints.txt)"
    )


@contextmanager
def starting(processes: dict[str, Popen[bytes]]) -> Iterator[None]:
    """Makes a Ray that is started within the block start little, and leave signals to its caller.
    Its GCS and its raylet, without which nothing can run, are added to `processes` by their names
    as soon as they are started.

    It runs nothing but its GCS and a raylet with its agents. Ray would also start its autoscaler,
    its dashboard, and the monitor of logs that the driver does not print. These take half of the
    CPU time and of the seconds of a start, since `ray.init` waits for the dashboard even where it
    is turned off. The dashboard's agent is the one of a Ray that was installed without the
    dashboard. It serves no pages and collects no metrics.

    A SIGTERM in these seconds is not handled by Ray, whose handler ends the process with exit code
    15. Ray's processes are in process groups of their own. A SIGTERM to the whole group of a
    launch, as `timeout`, systemd and Slurm send it, or a terminal that closes, would end Ray before
    the trials have saved.

    Ray waits for the port of its GCS without letting other threads of this process run, which could
    see that it has died.

    A raylet's agents would go on for a minute where it is killed, and hold open the output of this
    process, for whose end others may wait. The kernel ends them with it.

    There are no public settings for this. Without the private parts Ray starts and does it all, and
    `processes` stays as it is: where one of its processes dies, Ray ends this process itself, after
    up to a minute and with the exit code that stands for failed trials.
    """
    from ray._private import node, services, utils
    from ray._private.node import Node

    def nothing(owner: object, **_: object) -> None:
        """Starts no process."""

    theirs: Any = getattr(services, "ConsolePopen", None)

    def popen(command: list[str], **options: Any) -> Any:
        if sys.platform == "linux":
            dying = list2cmdline([sys.executable, "-ISc", _DYING])
            command = [_AGENT.sub(rf"\1{dying} ", word) for word in command]
        process = theirs(command, **options, process_group=0)
        if (name := Path(command[0]).name) in VITAL:
            processes[name] = process
        return process

    def port(*of: Any, timeout_ms: int) -> int:
        until = time.monotonic() + timeout_ms / 1000
        while True:
            try:
                return int(their_port(*of, timeout_ms=0))
            except RuntimeError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)

    their_port: Any = getattr(node, "wait_for_persisted_port", None)
    spared = {"start_monitor": nothing, "start_api_server": nothing, "start_log_monitor": nothing}
    with (
        _changed(utils, get_dashboard_dependency_error=lambda: ImportError("not wanted")),
        _changed(utils, set_sigterm_handler=lambda handler: None),
        _changed(Node, **spared),
        _changed(services, ConsolePopen=popen),
        _changed(node, wait_for_persisted_port=port),
    ):
        yield


_DYING = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
"""A program that becomes another one, which dies with its parent (Linux's PR_SET_PDEATHSIG, with
SIGKILL)."""
_AGENT = re.compile("^(--[a-z_]+_agent_command=)")
"""How the arguments begin by which a raylet knows how to start its agents."""
VITAL = ("gcs_server", "raylet")
"""The names of the processes without which a Ray can run nothing."""


@contextmanager
def running() -> Iterator[None]:
    """Makes Tune number the trials of its run within the block, take each loss of a worker for the
    failure of one trial, and hand no keys to workers.

    Tune would name each trial by eight random hexadecimal digits, and end the whole run where two
    that run at the same time have one name: in every fifth sweep of 100,000 trials on 10,000 slots.
    Where Ray kills a worker since its node has little memory left, the error is no `RayActorError`.
    Tune counts on that, both where a call of the worker fails and where it asks for a trial's first
    result, and ends the whole run.

    Tune would copy AWS_SECRET_ACCESS_KEY and its like into the runtime environment of its workers,
    which Ray's agents write into logs that everybody may read. The workers of this machine have
    them from the driver, and each node of a cluster has its own.

    There is no public way to do so. Without the private parts the former may happen. Raises
    EnvironmentFailure without the part that holds the names of the keys.
    """
    from ray.exceptions import RayActorError, RayError, RayTaskError
    from ray.tune.execution import class_cache
    from ray.tune.experiment import Trial

    def failed(manager: Any, tracked_actor_task: Any, exception: Exception) -> None:
        if not isinstance(exception, RayActorError | RayTaskError):
            exception = RayActorError(error_msg=f"{type(exception).__name__}: {exception}")
        tune_failed(manager, tracked_actor_task, exception)

    def first_result(trial: Any) -> Any:
        try:
            return tune_first_result(trial)
        except RayError:
            trial._default_result_or_future = None
            return None

    if not hasattr(class_cache, _HANDED_OVER):
        raise _missing(_HANDED_OVER)
    without_keys = {name for name in getattr(class_cache, _HANDED_OVER) if name.startswith("RAY_")}
    tune_first_result: Any = getattr(Trial, _FIRST_RESULT, None)
    tune_failed: Any = None
    numbers = count()
    with ExitStack() as stack:
        with suppress(ImportError):
            from ray.air.execution._internal.actor_manager import RayActorManager

            tune_failed = getattr(RayActorManager, _FAILED, None)
            stack.enter_context(_changed(RayActorManager, **{_FAILED: failed}))
        own = {"generate_id": lambda: f"{next(numbers):08}", _FIRST_RESULT: first_result}
        stack.enter_context(_changed(Trial, **own))
        stack.enter_context(_changed(class_cache, **{_HANDED_OVER: without_keys}))
        yield


_FAILED, _FIRST_RESULT = "_actor_task_failed", "_get_default_result_or_future"
"""What Tune calls when a call of an actor has failed, and for the result of a trial that has not
reported."""
_HANDED_OVER = "ENV_VARS_TO_PROPAGATE"
"""The names of the environment variables that Tune hands to its workers."""


def workers_that_did_not_start() -> tuple[int, str]:
    """Returns how often Ray has given up on a worker of this machine that did not start, and the
    end of what they and Ray said of it. Ray starts another each time, for ever, and tells nobody.

    Without the private parts, returns 0. A launch then waits for ever, and says so on its line.
    """
    said = _log("raylet.err")
    return said.count(_NOT_STARTED), said.strip()[-_MOST_SAID:]


_NOT_STARTED = "have not registered within the timeout"
"""What Ray's raylet says of such a worker, a minute after it was started."""
_MOST_SAID = 1000


def has_a_place() -> bool:
    """Returns whether Ray holds a place on a node for a trial of this process.

    The public table has the groups of all jobs, and the id of each ends with that of its job.
    Without that, a node whose workers do not start passes for a busy one, and is waited for.
    """
    import ray

    job: str = ray.get_runtime_context().get_job_id()
    groups = ray.util.placement_group_table().items()
    return any(id_.endswith(job) and about["state"] == "CREATED" for id_, about in groups)


def last_words(account: str) -> str:
    """Returns what a worker of this machine has written to its standard error, or "" if that is not
    known. account: what Ray says of its end, which names its process and its machine.

    There is no public way to read it. Without the private part, nothing says why a worker died.
    """
    import ray

    pid = re.search(r"^\s*pid: (\d+)$", account, re.MULTILINE)
    at = re.search(r"^\s*ip: (\S+)$", account, re.MULTILINE)
    here = not at or at[1] == ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    return _log(f"worker-*-{pid[1]}.err") if pid and here else ""


def _log(pattern: str, last: int = 0) -> str:
    """Returns a file in which Ray logs on this machine, or its last bytes. "" if there is none."""
    from ray._private import worker

    node: Any = getattr(worker, "_global_node", None)
    with suppress(AttributeError, OSError, ValueError):
        [file] = Path(node.get_logs_dir_path()).glob(pattern)
        return file.read_bytes()[-last:].decode(errors="replace")
    return ""


def session_folder() -> Path | None:
    """Returns the folder of this node in which Ray keeps its files as long as it runs. Without the
    private part, None: what one process of a node finds out, each then finds out for itself."""
    from ray._private import worker

    node: Any = getattr(worker, "_global_node", None)
    with suppress(AttributeError):
        return Path(node.get_session_dir_path())
    return None


def is_told_to_end(error: BaseException) -> bool:
    """Returns whether Ray has raised an error in a worker that got a SIGTERM, as when its node is
    taken away. It is a SystemExit like a user's own.

    There is no public sign of it. Without the private part it passes for a user's own.
    """
    return hasattr(error, "ray_terminate_msg")


def actor_of(tune_trial: Any) -> Any:
    """Returns the handle of the actor that runs one of Tune's trials.

    Tune's callbacks and schedulers are given trials without their actors. There is no public way
    to kill the actor of a trial that hangs, or to call it.
    """
    return tune_trial.temporary_state.ray_actor


def give_time_to_save(tune_controller: Any, seconds: float) -> None:
    """Has Tune wait at least so long, where a run is interrupted, for workers to save what they
    train. A worker saves once its slice is over, and Tune kills those that take over ten seconds.

    tune_controller: what Tune hands to a scheduler. There is no public way to say so. Without the
    private part, trials whose workers were killed go on from their last checkpoint.
    """
    controller = getattr(tune_controller, "_tune_controller", None)
    if hasattr(controller, _SAVING):
        setattr(controller, _SAVING, max(getattr(controller, _SAVING), seconds))


_SAVING = "_actor_force_cleanup_timeout"
"""Where Tune's controller has the seconds after which it kills a worker that is to stop."""


def forget_ended(tune_controller: Any, ended: dict[Any, None]) -> None:
    """Drops these of Tune's trials, which have ended, from Tune's lists and from `ended`. Otherwise
    each stays to the end of a run, with its settings and results, some 10 KiB, and nobody asks for
    them. The two empty folders that Tune made for each on this machine are deleted, too, which it
    leaves behind for good. The last trial stays, since Tune reads its files where it knows of no
    trial. So do those whose actor Tune has not let go yet.

    tune_controller: what Tune hands to a scheduler. There is no public way to drop trials. Without
    the private parts they stay.
    """
    held = vars(getattr(tune_controller, "_tune_controller", object))
    if held.keys() >= {"_trials", "_trial_to_actor", *_HOLD_TRIALS}:
        for trial in list(ended)[:-1]:
            if trial.is_finished() and trial not in held["_trial_to_actor"]:
                del ended[trial]
                held["_trials"].remove(trial)
                for name in _HOLD_TRIALS:
                    held[name].discard(trial)
                for name in _FOLDERS:
                    with suppress(AttributeError, RuntimeError, OSError):  # none, or not empty
                        Path(getattr(trial.storage, name)).rmdir()


_HOLD_TRIALS = ("_live_trials", "_stopped_trials", "_failed_trials", "_trials_to_cache")
"""The sets of Tune's controller, beside its list of trials, in which a trial stays once it has
ended."""
_FOLDERS = ("trial_driver_staging_path", "trial_working_directory")
"""Where a trial's storage has the paths of its folders on this machine. A worker of another machine
has its own there."""


def cluster_schema() -> dict[str, Any]:
    """Returns the JSON Schema of the cluster launcher's files, which Ray does not export."""
    import ray.autoscaler

    file = Path(ray.autoscaler.__file__).with_name("ray-schema.json")
    return dict(json.loads(file.read_text()))


def prepare_cluster(config: dict[str, Any]) -> dict[str, Any]:
    """Returns a cluster's config with Ray's defaults for its provider filled in, as `ray up` does.

    The public `ray.autoscaler.sdk.create_or_update_cluster` does so too, but it starts machines.
    """
    from ray.autoscaler._private.util import prepare_config

    return dict(prepare_config(config))


def validate_cluster(config: dict[str, Any]) -> None:
    """Raises what `ray up` would raise about a prepared config, before anything is started."""
    from ray.autoscaler._private.util import validate_config

    validate_config(config)


def node_provider(config: Mapping[str, Any]) -> Any:
    """Returns Ray's interface to the machines of a cluster: `non_terminated_nodes`, `node_tags`,
    `external_ip`, `internal_ip` and `terminate_nodes`.

    The public `ray status` knows only nodes on which Ray runs. This one also knows those that
    start, have failed, or were left behind, which cost money too.
    """
    from ray.autoscaler._private.providers import _get_node_provider

    return _get_node_provider(config["provider"], config["cluster_name"])


def choose_subnets(config: dict[str, Any]) -> dict[str, Any]:
    """Returns a prepared config of Amazon's with the subnets that `ray up` would choose: those that
    the file names, or else all that map public addresses in one network. Raises what Ray raises
    where there is none.

    There is no public way to ask, and `ray up` starts machines.
    """
    from ray.autoscaler._private.aws import config as aws

    for prepare in (
        aws._configure_from_launch_template,
        aws._configure_from_network_interfaces,
        aws._configure_subnet,
    ):
        config = prepare(config)
    return config


def first_key_pair(config: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the name of the key pair that `ray up` would make on Amazon, and the path of its key.
    There is no public way to ask."""
    from ray.autoscaler._private.aws.config import key_pair

    named = config["provider"].get("key_pair", {}).get("key_name")
    pair: Any = key_pair
    name, path = pair(0, config["provider"]["region"], named)
    return name, path


def autoscaler_news() -> list[str]:
    """Returns what the autoscaler of the Ray that was joined last said about nodes that it could
    not start, and the last lines of what it runs on those that it sets up. Only the machine on
    which it runs knows, which is the head's.

    `ray status` and the State API name the nodes that failed, and leave out why. Without the
    private part, returns an empty list.
    """
    log, out = (_COLOUR.sub("", _log(f"monitor.{kind}", 100_000)) for kind in ("log", "out"))
    words = _RAYS_OWN.sub("", out).splitlines()
    running = [line[-200:].strip() for line in words if line.strip()]
    # Each once: several nodes are set up at a time.
    last = [[*dict.fromkeys(reversed(one))][:3] for one in (_NO_NODE.findall(log), running)]
    return [line for lines in last for line in reversed(lines)]


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NO_NODE = re.compile(r"Failed to launch .*|failed to install ray.*|Ray installation failed.*")
_RAYS_OWN = re.compile(
    r"^\S+ \S+\t(?:V+INFO|V*ERR|WARN|INFO log_timer)\b.*\n(?:  .*\n|[\w.]+: .*\n\n)*"
    r"|^\S+ \S+\tINFO \S+ -- ",
    re.MULTILINE,
)
"""What the autoscaler says beside the commands that it runs, tracebacks included, and what it puts
before the name of each."""


HEAD_CONFIG = Path("~/ray_bootstrap_config.yaml")
"""The file on the head of a cluster of Ray's launcher in which Ray leaves the cluster's config."""


def nodes_and_types() -> list[tuple[str, Mapping[str, float]]]:
    """Returns the nodes that cost money now: the type of each, and its resources, where these are
    known. On the head of a cluster in a cloud that is what the cloud itself lists: also nodes that
    boot, those whose setup fails, and those that Ray has lost. Elsewhere it is what the Ray that
    was joined, if any, and its autoscaler know.

    The public `ray.nodes` says no types, and nothing of nodes that are starting. Without the
    private part only nodes that are up are returned, and "" as their types.
    """
    import ray

    try:
        config = json.loads(HEAD_CONFIG.expanduser().read_text())
        if config["provider"]["type"] != "local":
            from ray.autoscaler.tags import TAG_RAY_USER_NODE_TYPE

            provider = node_provider(config)
            ids = provider.non_terminated_nodes({})
            return [(provider.node_tags(one).get(TAG_RAY_USER_NODE_TYPE, ""), {}) for one in ids]
    except Exception:  # no such head, or its cloud does not answer now
        pass
    if not ray.is_initialized():
        return []
    try:
        from ray.autoscaler.v2.sdk import get_cluster_status

        found = get_cluster_status(ray.get_runtime_context().gcs_address)
        every = (*found.active_nodes, *found.idle_nodes, *found.pending_nodes)
        return [(one.ray_node_type_name, one.total_resources()) for one in every]
    except Exception:  # Ray raises whatever it likes, and this is asked again
        nodes: list[Any] = ray.nodes()  # type: ignore[no-untyped-call]
        return [("", node["Resources"]) for node in nodes if node["Alive"]]


@contextmanager
def _changed(owner: object, **parts: object) -> Iterator[None]:
    """Gives a module or a class these parts in place of its own for the block. A part that it does
    not have is not added."""
    theirs = {name: vars(owner)[name] for name in parts if name in vars(owner)}
    for name in theirs:
        setattr(owner, name, parts[name])
    try:
        yield
    finally:
        for name, part in theirs.items():
            setattr(owner, name, part)
