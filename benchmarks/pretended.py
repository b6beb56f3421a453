"""Thousands of slots on one machine, for a driver to feed. benchmarks/scale.py measures with them.

The driver, Ray Tune and the calls between processes are real. All workers live in one process and
train nothing: a slice is a wait. What a slot costs the driver beside that is left out, which is
Ray's placement group and process for it.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import sweepd.run.engine as engine  # makes Ray's settings, so it comes before Ray

import ray  # isort: skip
from ray.tune.execution import tune_controller  # isort: skip
from ray.air.execution.resources.request import AcquiredResources  # isort: skip
from ray.air.execution.resources.resource_manager import ResourceManager  # isort: skip


class Host:
    """The process in which all workers live."""

    def __init__(self, seconds: float) -> None:
        from ray.tune.registry import _ParameterRegistry

        self.seconds = seconds
        self.made: Any = None
        self.workers: dict[int, Any] = {}
        # They share what all are given.
        patch.object(_ParameterRegistry, "get", cache(_ParameterRegistry.get)).start()

    async def start(self, slot: int, worker: list[Any], given: dict[str, Any]) -> None:
        self.made = self.made or await worker[0]  # once, and not a class for each
        self.workers[slot] = self.made(**given)

    async def call(self, slot: int, method: str, *given: Any, **named: Any) -> Any:
        if method == "train":
            await asyncio.sleep(self.seconds * random.uniform(0.2, 1.8))  # no two in step
        with patch.object(os, "fsync"):  # which would be most of the time, and is not the driver's
            return getattr(self.workers[slot], method)(*given, **named)


class Slot:
    """What Tune takes for the handle of an actor."""

    def __init__(self, host: Any, slot: int, worker: Any, given: dict[str, Any]) -> None:
        self._host, self._slot = host, slot
        self.__ray_ready__ = _method(partial(host.start.remote, slot, [worker], given))

    def __getattr__(self, name: str) -> SimpleNamespace:
        return _method(partial(self._host.call.remote, self._slot, name))


def _method(remote: Any) -> SimpleNamespace:
    return SimpleNamespace(remote=remote)


class Slots(ResourceManager):
    """Resources for so many trials at once, each a slot."""

    def __init__(self, host: Any, count: int) -> None:
        self.host, self.free = host, count
        self.requested = self.started = 0
        self.stored = cache(ray.put)

    def request_resources(self, resource_request: Any) -> None:
        self.requested += 1

    def cancel_resource_request(self, resource_request: Any) -> None:
        self.requested -= 1

    def has_resources_ready(self, resource_request: Any) -> bool:
        return bool(self.requested and self.free)

    def acquire_resources(self, resource_request: Any) -> AcquiredResources:
        self.requested -= 1
        self.free -= 1
        return Acquired(resource_request, self)

    def free_resources(self, acquired_resource: Any) -> None:
        self.free += 1

    def clear(self) -> None:
        """There is nothing to give back."""


class Acquired(AcquiredResources):
    """The resources of one slot."""

    def __init__(self, request: Any, slots: Slots) -> None:
        super().__init__(request)
        self.slots = slots

    def annotate_remote_entities(self, entities: list[Any]) -> list[Any]:
        [actor] = entities
        worker = self.slots.stored(actor.__ray_metadata__.modified_class)

        def start(**given: Any) -> Slot:
            self.slots.started += 1
            return Slot(self.slots.host, self.slots.started, worker, given)

        return [_method(start)]


@contextmanager
def slots(count: int, seconds: float) -> Iterator[None]:
    """Makes `engine.run` find so many slots within the block, where a slice takes so long."""
    if not ray.is_initialized():
        engine.start_ray(None, sys.exit)
    host = ray.remote(Host).options(num_cpus=0, max_concurrency=10 * count).remote(seconds)
    kill = ray.kill
    with (
        patch.object(tune_controller, "PlacementGroupResourceManager", lambda: Slots(host, count)),
        patch.object(engine, "at_once", lambda placement: count),
        patch.object(ray, "kill", lambda slot: None),  # at the end, of slots that stop late
    ):
        yield
    kill(host)  # type: ignore[arg-type]
