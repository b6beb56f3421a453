"""How Tune hears which slot has news: each future is handled once it has arrived, in the order of
arrival, and one that was discarded never is. Ray is real. Covers `told_of_arrivals` of
`ray_private.py`; its twin is Ray's own way, which looks at all futures."""

from __future__ import annotations

import subprocess
import sys

FUTURES = """
import asyncio
from collections import defaultdict

from sweepd import ray_private
from sweepd.run import engine

import ray
from ray.air.execution._internal import actor_manager
from ray.air.execution.resources.placement_group import PlacementGroupResourceManager


class Slots:
    async def begin(self):
        self.allowed = defaultdict(asyncio.Event)

    async def report(self, number, fails=False):
        await self.allowed[number].wait()
        if fails:
            raise ValueError(number)
        return number

    async def allow(self, number):
        self.allowed[number].set()


class Group:
    # A placement group, which is there once report 5 is. It is the request for itself.

    def to_placement_group(self):
        return self

    def ready(self):
        return slots.report.remote(5)


class Resources(PlacementGroupResourceManager):
    def clear(self):
        pass


def begun():
    ray.get(slots.begin.remote())
    resources, group = Resources(), Group()
    resources.request_resources(group)
    return resources, group, actor_manager.RayActorManager(resources)


def handled():
    resources, group, manager = begun()
    assert not resources.has_resources_ready(group)
    heard, kinds = [], (manager._actor_state_events, manager._actor_task_events)
    for number in (7, 3, 9, 1, 8, 2, 6, 4):
        events, future = kinds[number % 2], slots.report.remote(number, number % 3 == 0)
        told = lambda error, number=number: heard.append((number, "failed"))
        events.track_future(future, heard.append, told)
        if number in (2, 8):
            events.discard_future(future)
    moved = slots.report.remote(10)  # as Tune does with a worker that is to stop
    kinds[1].track_future(moved, heard.append)
    kinds[1].discard_future(moved)
    kinds[0].track_future(moved, heard.append)
    for number in range(1, 11):
        before = len(heard)
        slots.allow.remote(number)
        if number not in (2, 5, 8):
            assert manager.next(timeout=60.0) and len(heard) == before + 1
    assert resources._request_to_ready_pgs[group] == {group}
    kinds[1].track_future(slots.report.remote(11), heard.append)
    assert not manager.next(timeout=0.2)
    return heard


engine.start_ray(None)
slots = ray.remote(Slots).options(num_cpus=0, max_concurrency=64).remote()
with ray_private.told_of_arrivals():
    ours = handled()
theirs = handled()
assert ours == theirs == [1, (3, "failed"), 4, (6, "failed"), 7, (9, "failed"), 10], (ours, theirs)

with ray_private.told_of_arrivals():  # in the order of arrival, where several wait to be handled
    _, _, manager = begun()
    heard, numbers = [], (3, 1, 4, 2)
    futures = {number: slots.report.remote(number) for number in (1, 2, 3, 4)}
    for future in futures.values():
        manager._actor_task_events.track_future(future, heard.append)
    for number in numbers:
        slots.allow.remote(number)
        ray.get(futures[number])
    for _ in numbers:
        assert manager.next(timeout=60.0)
assert heard == list(numbers), heard
"""


def test_each_future_is_handled_once_in_the_order_of_arrival() -> None:
    subprocess.run([sys.executable, "-c", FUTURES], check=True, timeout=300)
