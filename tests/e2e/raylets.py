"""A Ray cluster of several raylets on this machine. The arguments are the cores of the head, and
those of each node, where `4/8` is a node of four cores that claims to have eight cards.

It prints the address of its dashboard, and that of Ray. It kills a node for each line that it
reads, and all of them at the end of its input. It is a program of its own so that it has an
environment of its own, and leaves nothing behind in the process of a test.
"""

import socket
import sys
from tempfile import gettempdir, mkdtemp

from ray.cluster_utils import Cluster


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> None:
    head, *others = [tuple(map(int, one.split("/"))) for one in sys.argv[1:]]
    port = free_port()
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": head[0],
            "include_dashboard": True,
            "dashboard_host": "127.0.0.1",
            "dashboard_port": port,
            "dashboard_agent_listen_port": free_port(),
            "_system_config": {
                "health_check_initial_delay_ms": 0,
                "health_check_period_ms": 1000,
                "health_check_timeout_ms": 2000,
                "health_check_failure_threshold": 3,
            },
        },
    )
    # A folder each: Ray unpacks what a job brings below it, once a node.
    nodes = [
        cluster.add_node(num_cpus=cpus, num_gpus=sum(gpus), temp_dir=mkdtemp(dir=gettempdir()))
        for cpus, *gpus in others
    ]
    print(f"http://127.0.0.1:{port} {cluster.address}", flush=True)  # noqa: T201
    for _ in sys.stdin:
        cluster.remove_node(nodes.pop(), allow_graceful=False)
    cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
