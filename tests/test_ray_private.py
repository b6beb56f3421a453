"""The private parts of Ray that sweepd uses still exist. If an upgrade of Ray drops one, a test
fails here, in one line."""

import re
import signal
import sys
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
import ray
from ray import ObjectRef
from ray.air.execution._internal import actor_manager
from ray.air.execution.resources.resource_manager import ResourceManager
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.tune.execution import tune_controller
from ray.tune.experiment import Trial
from ray.tune.search import search_generator
from ray.tune.utils import callback

from sweepd import ray_private
from sweepd.errors import EnvironmentFailure

SOURCE = Path(ray_private.__file__).parent
NEEDED = {
    "ray._private.ray_constants:ENABLE_RAY_CLUSTER": ray_private.shut_off,
    "ray.job_config:JobConfig": ray_private.shut_off,
    "ray._private.utils:set_sigterm_handler": ray_private.starting,
    "ray._private.node:Node.start_monitor": ray_private.starting,
    "ray._private.node:Node.start_api_server": ray_private.starting,
    "ray._private.node:Node.start_log_monitor": ray_private.starting,
    "ray._private.node:wait_for_persisted_port": ray_private.starting,
    "ray._private.utils:get_dashboard_dependency_error": ray_private.starting,
    "ray._private.services:ConsolePopen": ray_private.starting,
    "ray.train._internal.storage:StorageContext.trial_driver_staging_path": (
        ray_private.forget_ended
    ),
    "ray.train._internal.storage:StorageContext.trial_working_directory": ray_private.forget_ended,
    "ray.tune.experiment:Trial.generate_id": ray_private.running,
    "ray.air.execution._internal.actor_manager:RayActorManager._actor_task_failed": (
        ray_private.running
    ),
    "ray.tune.experiment:Trial._get_default_result_or_future": ray_private.running,
    "ray.tune.execution.class_cache:ENV_VARS_TO_PROPAGATE": ray_private.running,
    "ray._private.worker:_global_node": ray_private.workers_that_did_not_start,
    "ray._private.node:Node.get_logs_dir_path": ray_private.workers_that_did_not_start,
    "ray.autoscaler._private.util:prepare_config": ray_private.prepare_cluster,
    "ray.autoscaler._private.util:validate_config": ray_private.validate_cluster,
    "ray.autoscaler._private.providers:_get_node_provider": ray_private.node_provider,
}


@pytest.mark.parametrize("name", NEEDED)
def test_ray_still_has(name: str) -> None:
    module, _, attributes = name.partition(":")
    try:
        reduce(getattr, attributes.split("."), import_module(module))
    except (ImportError, AttributeError):
        user = NEEDED[name].__name__
        pytest.fail(f"ray {ray.__version__} has no {name}: see ray_private.{user}", pytrace=False)


def test_ray_still_adds_the_drivers_folder_to_the_list_that_stays_empty() -> None:
    config = ray_private.shut_off()
    config._py_driver_sys_path.extend(["/somewhere"])
    assert list(config._get_proto_job_config().py_driver_sys_path) == []
    text = Path(ray._private.worker.__file__).read_text()
    assert "job_config._py_driver_sys_path.extend(" in text, "see shut_off"


def test_ray_still_takes_its_address_from_the_constant() -> None:
    text = Path(ray._private.services.__file__).read_text()
    assert "if not ray_constants.ENABLE_RAY_CLUSTER" in text, "see shut_off"


def test_tune_still_keeps_the_actor_of_a_trial() -> None:
    trial = Trial("sweepd-no-such-trainable", stub=True)
    assert ray_private.actor_of(trial) is None


def test_tune_still_waits_for_workers_that_save_before_it_kills_them() -> None:
    text = Path(tune_controller.__file__).read_text()
    assert f"self.{ray_private._SAVING}: int = 10" in text, "see give_time_to_save"
    assert f"< self.{ray_private._SAVING}" in text, "see give_time_to_save"
    controller = SimpleNamespace(**{ray_private._SAVING: 10})
    for seconds, waits in ((5.0, 10), (60.0, 60.0), (20.0, 60.0)):
        ray_private.give_time_to_save(SimpleNamespace(_tune_controller=controller), seconds)
        assert vars(controller)[ray_private._SAVING] == waits
    ray_private.give_time_to_save(object(), 60.0)  # of another Tune


def test_tune_still_holds_ended_trials_where_they_can_be_dropped(tmp_path: Path) -> None:
    """A trial is dropped once it has ended and its actor is free, and the last one stays. Its
    folders go with it, but not what somebody has put there."""
    text = Path(tune_controller.__file__).read_text()
    for name in ("_trials", "_trial_to_actor", *ray_private._HOLD_TRIALS):
        assert re.search(rf"self\.{name}: .*= ", text), f"{name}: see forget_ended"
    assert "choose_trial_to_run(self._wrapped())" in text, "see forget_ended"
    runs, let_go, stops, last = trials = [Trial("whatever", stub=True) for _ in range(4)]
    for number, trial in enumerate(trials):
        paths = {name: tmp_path / f"{name} {number}" for name in ray_private._FOLDERS}
        for path in paths.values():
            path.mkdir()
        vars(trial)["storage"] = SimpleNamespace(**paths)
    (tmp_path / f"{ray_private._FOLDERS[0]} 1" / "error.txt").touch()
    for trial in (let_go, stops, last):
        trial.set_status(Trial.TERMINATED)  # type: ignore[no-untyped-call]
    held = {name: {let_go, last} for name in ray_private._HOLD_TRIALS}
    controller = SimpleNamespace(_trials=[*trials], _trial_to_actor={runs: 1, stops: 2}, **held)
    ended: dict[Trial, None] = dict.fromkeys([let_go, stops, last])
    ray_private.forget_ended(SimpleNamespace(_tune_controller=controller), ended)
    assert controller._trials == [runs, stops, last] and list(ended) == [stops, last]
    assert list(held.values()) == [{last}] * len(held)
    assert not (tmp_path / f"{ray_private._FOLDERS[1]} 1").exists()
    assert len([*tmp_path.iterdir()]) == 2 * len(trials) - 1
    ray_private.forget_ended(object(), ended)  # of another Tune
    text = Path(callback.__file__).read_text()
    assert "isinstance(c, TrialProgressCallback) for c in" in text, "see NoProgress"


def test_no_two_trials_of_a_run_have_one_name() -> None:
    """Tune's own names are random. Here chance has them all alike."""

    def names() -> set[str]:
        return {Trial("whatever", stub=True).trial_id for _ in range(20)}

    with patch("uuid.uuid4", return_value=UUID(int=7)):
        assert len(names()) == 1
        with ray_private.running():
            assert len(names()) == 20
    text = Path(search_generator.__file__).read_text()
    assert "trial_id = Trial.generate_id()" in text, "see running"


def test_without_its_module_tune_fails_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, actor_manager.__name__, None)
    own = actor_manager.RayActorManager._actor_task_failed
    with ray_private.running():
        assert actor_manager.RayActorManager._actor_task_failed is own


def test_a_loss_that_is_no_actors_error_is_that_of_one_actor() -> None:
    """Ray's own manager ends the run for it."""
    heard: list[tuple[object, Exception]] = []
    actor = SimpleNamespace(actor_id=1, _on_error=lambda *told: heard.append(told))
    task = SimpleNamespace(_tracked_actor=actor, _on_error=None)
    killed = OutOfMemoryError("1 worker(s) were killed")  # type: ignore[no-untyped-call]

    def fails() -> None:
        with patch.object(actor_manager.RayActorManager, "_cleanup_actor"):
            manager: Any = actor_manager.RayActorManager(ResourceManager())
            manager._actor_task_failed(tracked_actor_task=task, exception=killed)

    with pytest.raises(RuntimeError, match="unexpected"):
        fails()
    trial = Trial("whatever", stub=True)
    trial._default_result_or_future = ObjectRef.nil()
    with ray_private.running():
        fails()
        with patch("ray.get", side_effect=killed):
            assert set(trial.last_result) == {"trial_id"}
    [(lost, error)] = heard
    assert lost is actor and isinstance(error, RayActorError)
    assert str(error) == "OutOfMemoryError: 1 worker(s) were killed"


def test_sigterm_is_kept_only_while_ray_starts() -> None:
    def ours(number: int, frame: object) -> None:
        """Does nothing."""

    before, theirs = signal.signal(signal.SIGTERM, ours), ray._private.utils.set_sigterm_handler
    try:
        with ray_private.starting({}):
            vars(ray._private.utils)["set_sigterm_handler"](lambda number, frame: None)
            assert signal.getsignal(signal.SIGTERM) is ours
        assert ray._private.utils.set_sigterm_handler is theirs
    finally:
        signal.signal(signal.SIGTERM, before)


def test_without_a_private_ray_no_worker_has_not_started() -> None:
    assert ray_private.workers_that_did_not_start() == (0, "")


SETS_UP = """
2026-11-27 11:23:22,548\tINFO updater.py:469 -- \x1b[36m[6/7]\x1b[39m Running setup commands
2026-11-27 11:23:22,548\tINFO updater.py:490 -- (1/2) pip install x
2026-11-27 11:23:22,548\tVINFO command_runner.py:399 -- Running `pip install x`
curl: (6) no host
curl: (6) no host
2026-11-27 11:23:22,636\tINFO log_timer.py:25 -- NodeUpdater: 10.0.0.12: Setup commands failed
2026-11-27 11:23:22,640\tERR updater.py:179 -- !!!
2026-11-27 11:23:22,641\tERR updater.py:191 -- Full traceback: Traceback (most recent call last):
  File "/ray/autoscaler/_private/command_runner.py", line 407, in run
           ^^^^^^^^^^^^^^^^^
click.exceptions.ClickException: SSH command failed.

2026-11-27 11:23:22,641\tERR updater.py:193 -- Error message: SSH command failed.
"""


def test_why_no_node_comes_is_read_from_the_autoscalers_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines are those of Ray 2.60, whose `ray status` names the type that failed alone."""
    assert ray_private.autoscaler_news() == []
    node = SimpleNamespace(get_logs_dir_path=lambda: str(tmp_path))
    monkeypatch.setattr("ray._private.worker._global_node", node)
    assert ray_private.autoscaler_news() == []
    refused = "Failed to launch 1 nodes of type core: An error occurred (VcpuLimitExceeded) when …"
    lines = ["INFO node_provider.py:485 -- Launching 1 nodes of type core."]
    lines += [f"2026-11-26 18:33:56,215\tINFO node_provider.py:491 -- {refused}"] * 2
    (tmp_path / "monitor.log").write_text("\n".join(lines))
    (tmp_path / "monitor.out").write_text(SETS_UP)
    failing = ["(1/2) pip install x", "curl: (6) no host"]
    assert ray_private.autoscaler_news() == [refused, "[6/7] Running setup commands", *failing]


def test_the_schema_and_the_defaults_of_cluster_files() -> None:
    schema = ray_private.cluster_schema()
    assert {"cluster_name", "provider", "auth"} <= schema["properties"].keys()
    config = {"cluster_name": "c", "provider": {"type": "aws", "region": "us-east-1"}}
    prepared = ray_private.prepare_cluster({**config, "auth": {"ssh_user": "ubuntu"}})
    assert prepared["available_node_types"] and prepared["head_node_type"]
    ray_private.validate_cluster(prepared)


def test_a_ray_that_has_dropped_what_keeps_others_out_is_not_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER")
    with pytest.raises(EnvironmentFailure, match=r"ray [\d.]+ has no ENABLE_RAY_CLUSTER"):
        ray_private.shut_off()


def test_private_parts_are_used_in_one_file_only() -> None:
    private = re.compile(r"\bray[\w.]*\._private\b|temporary_state|_py_driver_sys_path")
    users = {path.name for path in SOURCE.rglob("*.py") if private.search(path.read_text())}
    assert users == {"ray_private.py"}


def test_ray_marks_the_exit_of_a_worker_that_it_tells_to_end() -> None:
    raylet: Any = ray._raylet
    with pytest.raises(SystemExit) as told:
        raylet.raise_sys_exit_with_custom_error_message("SIGTERM", exit_code=1)
    assert ray_private.is_told_to_end(told.value)
    assert not ray_private.is_told_to_end(SystemExit(1))
