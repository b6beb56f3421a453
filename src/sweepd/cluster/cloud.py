"""What the clouds of Ray's launcher have in common: nodes of several types, each at a price."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sweepd.cluster import autoscaler
from sweepd.cluster.launcher import Launcher
from sweepd.grid.placement import Nodes
from sweepd.grid.yamlfile import Keys


class Cloud(Launcher):
    """Nodes that cost money: the head while the cluster is up, and each worker while it is up."""

    prices: dict[str, float]
    """The price in dollars an hour of each of the section's `available_node_types`."""

    def own_faults(self) -> Iterator[tuple[Keys, str]]:
        yield from super().own_faults()
        section = autoscaler.prepared(self.config())
        types = section["available_node_types"]
        for name in types.keys() - self.prices.keys():
            yield ("prices",), f"what does {name} cost an hour? 0 if nothing"
        for name in self.prices.keys() - types.keys():
            yield ("prices", name), f"no such node type: {', '.join(types)}"
        for name, price in self.prices.items():
            if price < 0:
                yield ("prices", name), "must not be negative"
        for name, one in types.items():
            if "CPU" not in one["resources"]:
                keys = ("ray", "available_node_types", name, "resources")
                yield keys, "how many cores? such as {CPU: 4, GPU: 1}; {CPU: 0} runs no trials"
        most = sum(one["max_workers"] for one in types.values())
        if most > section["max_workers"]:
            yield (
                ("ray", "max_workers"),
                f"the node types may have {most} workers, together more than these "
                f"{section['max_workers']}: say for each its own max_workers",
            )

    def types(self) -> Mapping[str, Nodes]:
        section = autoscaler.prepared(self.config())
        return {
            name: Nodes(
                most=one["max_workers"] + (name == section["head_node_type"]),
                cpus=one["resources"]["CPU"],
                gpus=one["resources"].get("GPU", 0),
                price=self.prices[name],
                least=one["min_workers"] + (name == section["head_node_type"]),
            )
            for name, one in section["available_node_types"].items()
        }
