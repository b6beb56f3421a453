"""Processes to be killed, forked from one that has imported torch and compiled the task already.

with Zygote() as zygote:
    zygote.run(root, told, at=17)  # the process dies at its 17th step (`torture.crash`)
    zygote.run(root, told, after=0.05)  # killed from outside after so many seconds
    zygote.run(root, told, merge=other)  # merges that store, in place of a launch
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import deque
from pathlib import Path
from typing import Any, Self

from torture import tiny
from torture.crash import Crash

from sweepd.store import merging
from sweepd.store.store import Store


class Zygote:
    """A process that runs `torture.tiny` in one child after another."""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torture.zygote"],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def start(self, root: Path, told: Path, **order: Any) -> None:
        """order: at, power, after (seconds), checkpoint_seconds, merge (a store)."""
        assert self.process.stdin
        line = json.dumps({"root": str(root), "told": str(told), **order})
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def result(self) -> tuple[bool, list[str]]:
        """Whether the child came to its end (else it was killed), and the steps that it took.
        A child that failed by itself raises here."""
        assert self.process.stdout
        answer = json.loads(self.process.stdout.readline())
        assert answer["status"] in (0, signal.SIGKILL), answer
        return answer["status"] == 0, answer["steps"]

    def run(self, root: Path, told: Path, **order: Any) -> tuple[bool, list[str]]:
        self.start(root, told, **order)
        return self.result()


def _child(order: dict[str, Any], steps: Path) -> None:
    root = Path(order["root"])
    crash = Crash(root, order.get("at"), order.get("power"))
    crash.install()
    if "merge" in order:
        store = Store.create(str(root))
        deque(merging.merge(store, Store.open(order["merge"]), {}, []), maxlen=0)
    else:
        tiny.run(root, Path(order["told"]), order.get("checkpoint_seconds", tiny.EVERY_STEP))
    steps.write_text(json.dumps(crash.names))


def _serve() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        tiny.run(Path(scratch, "warm"), Path(scratch, "told"))
        steps = Path(scratch, "steps")
        for line in sys.stdin:
            order = json.loads(line)
            steps.unlink(missing_ok=True)
            if not (pid := os.fork()):
                try:
                    _child(order, steps)
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            if "after" in order:
                time.sleep(order["after"])
                os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            taken = json.loads(steps.read_text()) if steps.exists() else []
            sys.stdout.write(json.dumps({"status": status, "steps": taken}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    _serve()
