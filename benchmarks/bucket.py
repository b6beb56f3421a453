"""What looks at many trials on S3 cost: requests, dollars and seconds.

    python benchmarks/bucket.py [--trials 100000] [--slots 1000] [--seconds 600] [--every 30]

A server on loopback lists objects as S3 does: 1000 a request, each of which takes 30 ms and costs
what Amazon asks for a list ($5 a million). Its objects are those of metrics that so many trials
leave, which run on so many slots for so many seconds and write so often. Only their names exist.

The first look lists all of them, as that of a question and of a driver that begins does. The next
one is a driver's, a minute after it has compacted.
"""

from __future__ import annotations

import argparse
import bisect
import os
import threading
import time
from collections.abc import Sequence
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import overload
from urllib.parse import parse_qs, urlparse

from sweepd.run.driver import COMPACTION_SECONDS
from sweepd.store.bucket import ObjectFolder
from sweepd.store.tables import LATE_SECONDS

PAGE, LATENCY, DOLLARS = 1000, 0.03, 5e-6


class Names(Sequence[str]):
    """The names of files of metrics, in their order, the last of them written just now."""

    def __init__(self, count: int, an_hour: float) -> None:
        self.count, self.an_hour, self.last = count, an_hour, time.time()

    def __len__(self) -> int:
        return self.count

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(self.count))]
        written = self.last - (self.count - at) * 3600 / self.an_hour
        return f"results/metrics/{written:010.0f}-{at:064x}-{at:032x}.parquet"


class Bucket(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    names: Names
    requests = 0

    def do_GET(self) -> None:
        time.sleep(LATENCY)
        type(self).requests += 1
        asked = {name: values[0] for name, values in parse_qs(urlparse(self.path).query).items()}
        after = asked.get("continuation-token") or asked.get("start-after", "")
        start = bisect.bisect_right(self.names, after)
        page = self.names[start : start + PAGE]
        more = start + PAGE < len(self.names)
        token = f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if more else ""
        objects = "".join(
            f"<Contents><Key>{name}</Key><Size>9000</Size><ETag>&quot;{name[-40:-8]}&quot;</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for name in page
        )
        body = (
            f"<ListBucketResult><KeyCount>{len(page)}</KeyCount>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{objects}</ListBucketResult>"
        ).encode()
        self.send_response(200)
        self.send_header("Date", formatdate(usegmt=True))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--slots", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--every", type=float, default=30)
    asked = parser.parse_args()
    files = int(asked.trials * asked.seconds / asked.every)
    Bucket.names = Names(files, asked.slots * 3600 / asked.every)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    folder = ObjectFolder("s3://bucket/results")
    recent = f"{Bucket.names.last - LATE_SECONDS - COMPACTION_SECONDS:010.0f}"
    print(f"{asked.trials:,} trials, {files:,} files of metrics")
    for what, after in (("the first look", ""), ("the next look", recent)):
        Bucket.requests, began = 0, time.monotonic()
        found = len(folder.files("metrics", after))
        took = time.monotonic() - began
        print(
            f"{what}: {found:,} files, {Bucket.requests:,} requests, "
            f"${Bucket.requests * DOLLARS:.5f}, {took:.1f} s"
        )


if __name__ == "__main__":
    main()
