"""Takes a cluster down, unless another sweep runs on it. It runs on the cluster's head when a sweep
has ended there and its file says `after: down`. Whoever follows the sweep takes the cluster down at
once. This is for when nobody does."""

import json
import subprocess
import time

from sweepd.cluster import autoscaler, jobs
from sweepd.ray_private import HEAD_CONFIG

POLL_SECONDS = 5.0
GRACE_SECONDS = 60.0
"""The seconds that whoever follows the sweep has to read its last lines."""


def main() -> None:
    time.sleep(GRACE_SECONDS)
    client = jobs.connect(f"http://127.0.0.1:{autoscaler.DASHBOARD_PORT}")
    if any(jobs.drivers(client)):
        return
    # First Ray ends, so that it starts no more nodes, then all workers, then this machine.
    config = json.loads(HEAD_CONFIG.expanduser().read_text())
    subprocess.run([*autoscaler.RAY, "stop"], check=True)
    while workers := [one.id for one in autoscaler.machines(config) if not one.head]:
        with autoscaler.asking(config) as provider:
            provider.terminate_nodes(workers)
        time.sleep(POLL_SECONDS)
    with autoscaler.asking(config) as provider:
        provider.terminate_nodes([one.id for one in autoscaler.machines(config)])


if __name__ == "__main__":
    main()
