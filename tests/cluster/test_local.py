"""This machine as a place to run trials: how many it holds at once, and what it refuses."""

import os

import pytest
import torch

from sweepd.cluster import Local
from sweepd.errors import EnvironmentFailure
from sweepd.grid.placement import Resources

CORES = len(os.sched_getaffinity(0))


def test_it_holds_a_trial_a_core() -> None:
    here = Local(kind="local")
    assert here.slots(Resources()) == CORES
    assert here.slots(Resources(cpus=0.5)) == 2 * CORES


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(EnvironmentFailure, match=r"asks for 1 core and 1 GPU, and the largest"):
        Local(kind="local").slots(Resources(gpus=1))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert Local(kind="local").slots(Resources(cpus=0.1, gpus=0.5)) == 2


def test_more_cores_than_there_are_are_refused() -> None:
    with pytest.raises(EnvironmentFailure, match=rf"the largest node has {CORES} cores"):
        Local(kind="local").slots(Resources(cpus=CORES + 1))
