"""Amazon Web Services, by Ray's launcher."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from sweepd.cluster.cloud import Cloud


class AWS(Cloud):
    """Instances of EC2. Credentials and network are found as boto3 and Ray find them."""

    provider: ClassVar[str] = "aws"
    extra: ClassVar[str] = "aws"

    kind: Literal["aws"]

    def config(self) -> dict[str, Any]:
        made = super().config()
        if isinstance(made["provider"], dict):
            # Ray would only stop nodes. Their disks would go on costing, and be listed nowhere.
            made["provider"].setdefault("cache_stopped_nodes", False)
        return made
