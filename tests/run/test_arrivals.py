"""How Tune hears which slot has news: each future is handled once it has arrived, in the order of
arrival, and one that was discarded never is. Ray is real. Covers `told_of_arrivals` of
`ray_private.py`; its twin is Ray's own way, which looks at all futures."""

from __future__ import annotations

import subprocess
import sys

FUTURES = """
import asyncio
import time

from sweepd import ray_private
from sweepd.run import engine

import ray
from ray.air.execution._internal import actor_manager

GAP = 0.05


class Slots:
    async def reports(self, number, fails):
        await asyncio.sleep(GAP * number)
        if fails:
            raise ValueError(number)
        return number


class Resources:
    # One, which is there after a while.

    def __init__(self, slots):
        self.futures, self.updates = [slots.reports.remote(5, False)], 0

    def get_resource_futures(self):
        return self.futures

    def update_state(self):
        self.futures, self.updates = [], self.updates + 1


def handled(slots):
    resources, heard = Resources(slots), []
    manager = actor_manager.RayActorManager(resources)
    kinds = manager._actor_state_events, manager._actor_task_events
    for number in (7, 3, 9, 1, 8, 2, 6, 4):
        events, future = kinds[number % 2], slots.reports.remote(number, number % 3 == 0)
        told = lambda error, number=number: heard.append((number, "failed"))
        events.track_future(future, heard.append, told)
        if number in (2, 8):
            events.discard_future(future)
    moved = slots.reports.remote(10, False)  # as Tune does with a worker that is to stop
    kinds[1].track_future(moved, heard.append)
    kinds[1].discard_future(moved)
    kinds[0].track_future(moved, heard.append)
    while len(heard) < 7:
        before = len(heard), time.monotonic()
        happened = manager.next(timeout=10.0)
        assert happened and len(heard) == before[0] + 1 and time.monotonic() - before[1] < 5
    assert resources.updates == 1
    kinds[1].track_future(slots.reports.remote(1000, False), heard.append)
    before = time.monotonic()
    assert not manager.next(timeout=0.2) and time.monotonic() - before >= 0.19
    return heard


engine.start_ray(None)
slots = ray.remote(Slots).options(num_cpus=0, max_concurrency=64).remote()
ray.get(slots.reports.remote(0, False))
with ray_private.told_of_arrivals():
    ours = handled(slots)
theirs = handled(slots)
assert ours == theirs == [1, (3, "failed"), 4, (6, "failed"), 7, (9, "failed"), 10], (ours, theirs)

ready = [slots.reports.remote(number, False) for number in (1, 2, 3, 4)]
with ray_private.told_of_arrivals():  # in the order of arrival, where several wait to be handled
    heard, manager = [], actor_manager.RayActorManager(Resources(slots))
    for future in ready:
        manager._actor_task_events.track_future(future, heard.append)
    time.sleep(10 * GAP)
    while len(heard) < 4:
        assert manager.next(timeout=10.0)
assert heard == [1, 2, 3, 4]
"""


def test_each_future_is_handled_once_in_the_order_of_arrival() -> None:
    subprocess.run([sys.executable, "-c", FUTURES], check=True, timeout=120)
