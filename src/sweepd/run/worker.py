"""The processes in which Ray Tune runs trials.

An actor runs a trial in slices of a second or a little more. Between slices it reports results, and
interruptions and schedulers reach it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import socket
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import ray
from ray import tune

from sweepd.errors import EnvironmentFailure, SweepdError, UserError
from sweepd.grid.fingerprint import Class, is_program
from sweepd.grid.placement import Resources, torchs_share
from sweepd.ray_private import session_folder
from sweepd.run.hanging import stepping
from sweepd.run.own_code import as_launched, launch_copy
from sweepd.run.trying import NO_CARD, tried
from sweepd.store.store import Store
from sweepd.trial.attempt import FLUSH_SECONDS, Attempt, log_line
from sweepd.trial.workplace import LaunchCopy

PR_SET_PDEATHSIG = 1
"""The option of Linux's prctl(2) that sets which signal a process gets when its parent dies."""
LEAST_SLICE_SECONDS = 1.0
"""The seconds that a trial trains between two reports, if few enough trials run at once."""
REPORTS_SHARE = 1 / 3
"""The most of the driver's time that reports are to take."""
REPORT_SECONDS = 1.1e-3
"""The seconds of the driver's CPU that a report takes (docs/performance.md)."""
FLUSHES_A_SECOND = 10.0
"""The most objects of metrics a second that are to be written besides those at checkpoints."""
UNFIT_SECONDS = 2.0
"""The seconds that a worker whose card cannot be used takes to say so, besides a slice."""
NOTHING: dict[str, Any] = {"report": {}, "failure": None, "unfit": None, "checks": [], "done": True}
"""What a worker says that has no trial to report of. The report of a trial stands apart, since a
metric of the user's may have any of these names."""
SLICES_TO_HANG = 4
"""The least slices in `hang_seconds`: by the reports between them it is told which trial hangs."""


def slice_seconds(slots: int, hang_seconds: float) -> float:
    """Returns how long a trial trains between two reports where `slots` trials run at once."""
    seconds = max(LEAST_SLICE_SECONDS, slots * REPORT_SECONDS / REPORTS_SHARE)
    return min(seconds, hang_seconds / SLICES_TO_HANG) if hang_seconds else seconds


def flush_seconds(slots: int) -> float:
    """Returns how long metric rows wait to be written where `slots` trials run at once. Each write
    is an object, to which all later listings come."""
    return max(FLUSH_SECONDS, slots / FLUSHES_A_SECOND)


@dataclass(frozen=True)
class LaunchSpec:
    """What every worker gets of a launch, without the trials: 100,000 of them have some 160 MB."""

    address: str
    sweep: str
    base: Path
    launch: int
    metric: str
    """The metric of the goal, which the rules that give up on trials watch."""
    checkpoint_seconds: float
    hang_seconds: float
    """The seconds that a trial may go without a step before it is killed; 0 means for ever."""
    attempt: type[Attempt]
    """The class that runs a trial. A simulation brings its own."""
    codes: frozenset[str]
    """The digests of the versions of the code that this launch runs."""
    classes: tuple[tuple[Class, ...], ...]
    """The classes of the trials, each combination once."""
    imports: tuple[str, ...]
    """The modules of others that the user's files import."""
    record: Mapping[str, Any] | None
    """The store's record of this launch; None where all workers run on this machine. By this
    record, a worker on another machine sees that it reaches the same store."""
    slice_seconds: float
    """The seconds that a trial trains between two reports, unless a rule waits for a check."""
    flush_seconds: float
    """The seconds that metric rows wait for others or for a checkpoint, with which they go too."""


class Worker(tune.Trainable):
    """An actor that runs one attempt after another. Each begins with its first step, and not when
    the actor is set up: between the two, Tune may give the trial to another actor that is free."""

    def setup(self, config: dict[str, Any], spec: LaunchSpec) -> None:  # type: ignore[override]
        if spec.hang_seconds:  # the driver's watchdog begins only after this method
            faulthandler.dump_traceback_later(spec.hang_seconds, exit=True)
        # This process dies with its parent, Ray's raylet. A driver that is killed takes its Ray
        # with it, and so this worker at once. Ray alone would take seconds, in which a trial could
        # end although the next driver has begun it anew.
        if sys.platform == "linux":
            prctl = ctypes.CDLL(None, use_errno=True).prctl
            prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
            if prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
        # `os._exit` tells on standard error that it was called, and where. Nothing else knows why
        # the process is gone.
        process, leave = os.getpid(), os._exit

        def told(status: int) -> NoReturn:
            try:
                if os.getpid() == process and sys.__stderr__:  # and not one that it has forked
                    sys.__stderr__.write(f"os._exit({status})\n")
                    faulthandler.dump_traceback(sys.__stderr__, all_threads=False)
            finally:
                leave(status)

        os._exit = told
        import torch

        self.spec = spec
        self.store = Store.open(spec.address)
        self.device = config["device"]
        torch.set_num_threads(config["threads"])
        self.unfit = ""
        of_programs = all(is_program(where) for classes in spec.classes for _, where in classes)
        if config["gpus"] and not of_programs:  # a program uses its cards itself
            from sweepd.trial.gpu import take_share

            try:
                total = torch.cuda.get_device_properties(0).total_memory
                take_share(torchs_share(config["gpus"], total))
                ones = torch.ones(64, 64, device="cuda")
                if (ones @ ones).sum().item() != 64**3:
                    raise RuntimeError("a product of ones came out wrong")
            except (RuntimeError, AssertionError) as error:
                self.unfit = f"{here()}: torch {torch.__version__} cannot use its card: {error}"
        self.attempt: Attempt | None = None
        self.reached = False
        self.base: Path | None = None
        self.launch_copy: LaunchCopy | None = None
        self.held = ExitStack()
        faulthandler.cancel_dump_traceback_later()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        return True

    def step(self) -> dict[str, Any]:
        if self.unfit:
            # Slower than the reports of trials that run elsewhere, so that one such node among
            # others does not end the launch.
            time.sleep(self.spec.slice_seconds + UNFIT_SECONDS)
            return {**NOTHING, "unfit": self.unfit}
        try:
            attempt = self.attempt = self.attempt or self._begin()
            if attempt is None:  # its card cannot be used
                return self.step()
            news = attempt.news()  # checks of an earlier attempt are reported before any training
            if not news:
                with stepping(self.spec.hang_seconds, attempt.note):
                    attempt.advance(self.spec.slice_seconds)
                news = attempt.news()
        except EnvironmentFailure as failure:  # no fault of the trial: the whole run ends
            self.attempt = None
            return {**NOTHING, "failure": str(failure)}
        return {
            **NOTHING,
            "report": attempt.report(),
            "checks": [(check.step, check.scores.get(self.spec.metric)) for check in news],
            "saved": attempt.saved,
            "done": attempt.status is not None,
        }

    def give_up(self) -> None:
        """Ends the attempt as `stopped`: a rule of the driver has given up on the trial."""
        assert self.attempt is not None
        self.attempt.give_up()

    def cleanup(self) -> None:
        """Ends an unfinished attempt as `interrupted`, since Tune takes this actor away."""
        if self.attempt:
            self.attempt.interrupt()
            self.attempt = None

    def _begin(self) -> Attempt | None:
        """Returns the attempt of the trial that Tune has given, or None with `unfit` set."""
        if self.spec.record and not self.reached:  # a node may have come after the probe
            reach(self.spec.address, self.spec.launch, self.spec.record, self.spec.imports)
            self.reached = True
        spec, bundle = self.spec, self.config.pop("bundle")  # of which no report tells
        [trial], [number] = bundle.trials, bundle.attempts

        def note(line: str) -> None:
            self.store.append_log(trial.id, log_line(number, line))
            self.store.flush_logs()

        # The user's code is loaded here and not in `setup`, where it is no trial's fault if the
        # worker dies.
        with stepping(spec.hang_seconds, note):
            if trial.program and not (self.launch_copy or trial.program.in_place):
                self.launch_copy = launch_copy(
                    spec.sweep, spec.base, spec.codes, self.store, spec.launch
                )
            if self.base is None:
                self.base, self.said = as_launched(
                    spec.sweep, spec.classes, spec.base, spec.codes, self.store, self.held
                )
            if self.said:
                note(self.said)
            if trial.program and (spec.record or self.config["gpus"]):
                card = bool(self.config["gpus"])
                code, said = tried(trial.loop_where, self.base, session_folder(), card=card)
                if code == NO_CARD:
                    self.unfit = f"{here()}: the program cannot use its card: {said}"
                    return None
                if code:
                    raise EnvironmentFailure(f"{here()} cannot run the program: {said}")
            attempt = spec.attempt(
                self.store,
                trial,
                number,
                spec.sweep,
                self.base,
                self.device,
                spec.checkpoint_seconds,
                Resources(self.config["threads"], self.config["gpus"]),
                spec.hang_seconds,
                spec.flush_seconds,
                self.launch_copy,
            )
            attempt.begin()
        return attempt


def here() -> str:
    """Returns the name of this node, as people look for it."""
    ip = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    return f"node {socket.gethostname()} ({ip})"


def reach(
    address: str, launch: int, record: Mapping[str, Any], imports: Collection[str] = ()
) -> None:
    """Checks that this node reads in the results the `record` that the driver of a launch wrote
    there, that the node can write, and that it has the modules that the user's files import. Raises
    EnvironmentFailure, with this node's name, if not."""
    if missing := [name for name in imports if find_spec(name) is None]:
        raise EnvironmentFailure(
            f"{here()} has no module {', '.join(missing)}, which your code imports: name what to "
            "install in the cluster file (`packages`), or have it in the node's image"
        )
    try:
        store = Store.open(address)
        same = store.launch(launch) == record
        store.check_writable()
    except (FileNotFoundError, UserError):
        same = False
    except SweepdError as error:
        raise EnvironmentFailure(f"{here()}: {error}") from None
    if not same:
        raise EnvironmentFailure(
            f"{here()}: {address} is another folder there than where the driver runs; name storage "
            "that every node shares"
        )
