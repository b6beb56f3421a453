"""Takes a cluster down, unless another sweep runs on it. It runs on the cluster's head when a sweep
has ended there and its file says `after: down`. Whoever follows the sweep takes the cluster down at
once. This is for when nobody does."""

from __future__ import annotations

import json
import time

from sweepd.cluster import autoscaler, jobs

GRACE_SECONDS = 60.0
"""The seconds that whoever follows the sweep has to read its last lines."""


def main() -> None:
    time.sleep(GRACE_SECONDS)
    client = jobs.connect(f"http://127.0.0.1:{autoscaler.DASHBOARD_PORT}")
    if not any(row["what"] == "job" for row in jobs.status(client)):
        config = json.loads(autoscaler.HEAD_CONFIG.expanduser().read_text())
        autoscaler.end_from_head(config)


if __name__ == "__main__":
    main()
