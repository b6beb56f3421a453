"""Google Cloud, by Ray's launcher."""

from __future__ import annotations

from typing import ClassVar, Literal

from sweepd.cluster.cloud import Cloud


class GCP(Cloud):
    """Instances of Compute Engine. Credentials and network are found as Google's library and Ray
    find them."""

    provider: ClassVar[str] = "gcp"
    extra: ClassVar[str] = "gcp"

    kind: Literal["gcp"]
