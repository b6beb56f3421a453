"""Ray Tune runs the trials, on a private Ray of this machine or on one that runs already.

Tune's own state is disposable, since a sweep is continued by a new Tune run over the trials that
have not ended. This module makes settings that Ray reads when it is imported, so it must be
imported before anything else that imports Ray.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import secrets
import shlex
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from subprocess import Popen
from typing import Any, NoReturn

from sweepd.errors import EnvironmentFailure

SETTINGS = {
    # Nothing reads Tune's own records, so it writes no CSV, JSON and TensorBoard files and no state
    # snapshots (each rewrites one JSON of all trials), and does not change the working directory.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "100000000",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # Signals are the driver's to handle.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Workers started ahead lack Tune's environment, and so are never used.
    "RAY_prestart_worker_first_driver": "0",
    # Long enough for Ray to say whether it was a worker or its node that no longer answers.
    "RAY_timeout_ms_task_wait_for_death_info": "60000",
}
os.environ.update({name: value for name, value in SETTINGS.items() if name not in os.environ})
if sys.flags.optimize > 1:
    raise EnvironmentFailure(
        "PYTHONOPTIMIZE=2 (python -OO) leaves out what Ray reads: unset it, or set it to 1"
    )
if os.environ.pop("PYTHONWARNINGS", None):  # a warning that is an error ends Ray's processes
    warnings.resetwarnings()
    warnings.simplefilter("ignore")

import ray  # noqa: E402 (its settings are read on import)
from ray import tune  # noqa: E402
from ray.exceptions import RayError  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

from sweepd import ray_private  # noqa: E402
from sweepd.grid.fingerprint import is_program  # noqa: E402
from sweepd.grid.placement import Nodes, Placement, idle_cards, no_room, slots  # noqa: E402
from sweepd.grid.trials import Trial  # noqa: E402
from sweepd.grid.user_classes import imports_of_others  # noqa: E402
from sweepd.run import ray_folder  # noqa: E402
from sweepd.run.runner import Listener  # noqa: E402
from sweepd.run.tune_hooks import (  # noqa: E402
    AT_A_LOSS,
    TELL_SECONDS,
    NoProgress,
    Rules,
    Suggestions,
    Supervisor,
    no_worker,
)
from sweepd.run.worker import LaunchSpec, Worker, flush_seconds, reach, slice_seconds  # noqa: E402
from sweepd.search.base import Search  # noqa: E402
from sweepd.store.store import Store  # noqa: E402
from sweepd.trial.attempt import Attempt  # noqa: E402

LOOK_SECONDS = 0.2
"""The seconds after which the driver checks again that the processes of a private Ray still run."""
_processes: dict[str, Popen[bytes]] = {}
"""The GCS and the raylet of the private Ray that this process has started."""


def start_ray(address: str | None, lost: Callable[[str], NoReturn]) -> None:
    """Joins the Ray at an address. Without an address, starts a private one on this machine, which
    nobody else sees: its ports are open on the loopback interface only, and ask for a token that
    other users do not have. If one of its processes dies meanwhile, `lost` is told. Raises
    EnvironmentFailure if there is no Ray to join, or if it did not start."""
    where: dict[str, Any] = {"address": address}
    if not address:
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex()
        folder = ray_folder.new_folder()
        _processes.clear()
        atexit.register(_end_ray, folder, os.getpid())
        where = {
            "address": "local",
            "job_config": ray_private.shut_off(),
            "include_dashboard": False,
            "_temp_dir": str(folder / "ray"),  # which Ray opens to everybody, unlike what is above
        }
        # Ray hands the path of the interpreter to a shell as it is.
        if (quoted := shlex.quote(sys.executable)) != sys.executable:
            where["runtime_env"] = {"py_executable": quoted}
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        with ray_private.starting(_processes), _watching(lost):
            ray.init(**where, **quiet)
    except (Exception, SystemExit) as error:  # Ray raises bare ones where a process starts slowly
        what = f"no Ray to join at {address}" if address else "Ray did not start"
        raise EnvironmentFailure(f"{what}: {error}") from error
    logging.getLogger("ray.tune.tune").setLevel(logging.CRITICAL)  # lost workers are ours to report
    for number, handler in handlers.items():  # Ray's C++ part would abort the process on SIGTERM
        signal.signal(number, handler)


@contextlib.contextmanager
def _watching(lost: Callable[[str], NoReturn]) -> Iterator[None]:
    """Tells `lost`, which ends this process, if a process of a private Ray dies within the block.
    Ray itself would end this one, after up to a minute, with the exit code that stands for failed
    trials."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            for name, process in tuple(_processes.items()):
                if (code := process.poll()) is not None and not over.is_set():
                    lost(f"Ray's {name} has died ({code})")

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _end_ray(folder: Path, process: int) -> None:
    """Ends this process's private Ray, and removes what it has left. process: the id of the process
    that started it, and not one that it has forked."""
    if os.getpid() == process:
        ray.shutdown()
        ray_folder.remove(folder)


def at_once(placement: Placement) -> int:
    """Returns how many trials run at once, now or when Ray has grown. Raises EnvironmentFailure if
    no node can hold one, since Ray itself would wait for larger nodes and say nothing, or if all
    nodes of a Ray that was joined have cards for which no trial asks."""
    here, grown = _sizes(), placement.nodes
    # Of nodes that are there anyway, those with cards count, too.
    now = sum(one.held(placement.per_trial) for one in here.values())
    count = max(now, slots(grown, placement.per_trial))
    if not count:
        raise EnvironmentFailure(no_room(placement.per_trial, [*here.values(), *grown.values()]))
    if placement.ray and not grown and (idle := idle_cards(here, placement.per_trial)):
        raise EnvironmentFailure(idle)
    return count


def _alive() -> dict[str, dict[str, Any]]:
    """What Ray says of each node that is alive, by its id."""
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return {node["NodeID"]: node for node in nodes if node["Alive"]}


def _sizes() -> dict[str, Nodes]:
    each = ((name, node["Resources"]) for name, node in _alive().items())
    return {name: Nodes(1, size.get("CPU", 0), size.get("GPU", 0)) for name, size in each}


def _leave_to_guards(trials: Sequence[Trial]) -> None:
    """Has the Ray that starts now spare the children of a worker that ends, where all trials are
    programs. Each has guards, which would die before the program, and end it themselves."""
    if all(is_program(trial.loop_where) for trial in trials):
        os.environ.setdefault("RAY_kill_child_processes_on_worker_exit", "0")


def run(
    search: Search,
    trials: Sequence[Trial],
    store: Store,
    launch: int,
    placement: Placement,
    listener: Listener,
    stopping: threading.Event,
    attempt: type[Attempt] = Attempt,
) -> None:
    """Runs the search of these trials to its end, or until `stopping` is set. The ledger says how
    trials ended. attempt: the class that runs a trial. A simulation brings its own. Raises
    EnvironmentFailure if results can't be written. Whatever runs is then interrupted."""
    grid, per_trial = search.plan.grid, placement.per_trial
    imports = tuple(imports_of_others(grid))
    _leave_to_guards(trials)
    if not ray.is_initialized():
        listener.preparing(f"joining Ray at {placement.ray}" if placement.ray else "starting Ray")
        start_ray(placement.ray, listener.lost_ray)
    elif all(process.poll() is not None for process in _processes.values()):
        _processes.clear()  # that Ray was shut down, and this is another
    record = store.launch(launch) if placement.ray else None
    # All nodes that are there must reach the results and have the modules that the user's files
    # import. Nodes that come later are asked by their workers.
    nodes = _alive() if placement.ray else {}
    asked, question = {}, ray.remote(reach)
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        at_node = question.options(num_cpus=0, scheduling_strategy=there)
        asked[at_node.remote(store.address, launch, record, imports)] = node
    began = told = time.monotonic()
    while asked and not stopping.is_set():
        for answer in ray.wait(list(asked), timeout=1.0)[0]:
            node = asked.pop(answer)
            try:
                ray.get(answer)
            except RayError as error:
                if node in _alive():  # a node that is lost by now is no obstacle
                    name = nodes[node]["NodeManagerHostname"]
                    reason = getattr(error, "cause", None)  # by the node, without its traceback
                    raise EnvironmentFailure(str(reason or f"node {name}: {error}")) from error
        now = time.monotonic()
        if asked and now - told >= min(TELL_SECONDS, placement.start_seconds):
            told = now
            one = nodes[next(iter(asked.values()))]["NodeManagerHostname"]
            silent = f"{len(asked)} of {len(nodes)} nodes do not answer, {one} among them"
            waits = f"{silent}: {no_worker(now - began)}"
            listener.preparing(waits)
            if now - began >= placement.start_seconds:
                raise EnvironmentFailure(waits + AT_A_LOSS)
    most = at_once(placement)
    spec = LaunchSpec(
        store.address,
        grid.name,
        grid.base,
        launch,
        grid.goal.metric,
        grid.checkpoint_seconds,
        grid.hang_seconds,
        attempt,
        frozenset(search.plan.codes),
        tuple(dict.fromkeys(trial.classes for trial in trials)),
        imports,
        record,
        slice_seconds(most, grid.hang_seconds),
        flush_seconds(most),
    )
    resources = {
        "threads": max(1, int(per_trial.cpus)),
        "device": "cuda" if per_trial.gpus else "cpu",
        "gpus": per_trial.gpus,
    }

    def has_room() -> bool:
        return any(one.held(per_trial) for one in _sizes().values())

    supervisor = Supervisor(search, store, listener, stopping, placement, has_room)
    # All slots fill at once. Older Tunes wait for each worker before they start the next.
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(most)
    beside = next(reversed(ray_folder.held), None)
    with tempfile.TemporaryDirectory(prefix="sweepd-tune-", dir=beside) as scratch:
        tuner = tune.Tuner(
            tune.with_resources(
                tune.with_parameters(Worker, spec=spec),
                {"cpu": per_trial.cpus, "gpu": per_trial.gpus},
            ),
            tune_config=tune.TuneConfig(
                search_alg=Suggestions(search, launch, resources),
                scheduler=Rules(grid, trials, search.in_full, spec.slice_seconds),
                num_samples=-1,
                max_concurrent_trials=most,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                name="sweep",
                storage_path=scratch,
                callbacks=[supervisor, NoProgress()],
                stop=supervisor,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                failure_config=tune.FailureConfig(max_failures=0),
                verbose=0,
            ),
        )
        listener.preparing("starting workers, which import torch")
        # On standard output Ray prints pages about a lost node.
        muted = contextlib.redirect_stdout(None)
        with _watching(listener.lost_ray), muted, ray_private.running():
            tuner.fit()
    if failure := supervisor.failure:
        waiting = store.spilled()
        if waiting and str(waiting) not in failure:
            failure += f"; what could not be written waits in {waiting}"
        raise EnvironmentFailure(f"{failure}; launch again once that is mended")
