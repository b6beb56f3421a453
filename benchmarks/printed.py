"""How benchmarks print. Several of them use this."""

from __future__ import annotations

from collections.abc import Iterable

from sweepd.intervals import wilson


def section(title: str, lines: Iterable[str]) -> None:
    print(f"\n{title}\n", flush=True)
    for line in lines:
        print(line.rstrip(), flush=True)


def share(part: int, total: int, digits: int = 1) -> str:
    """Returns a share with its Wilson interval, as text of one width."""
    wide = 6 + digits
    if not total:
        return f"{'-':>{3 * wide + 2}}"
    ends = "-".join(f"{end:{wide - 1}.{digits}%}" for end in wilson(part / total, total))
    return f"{part / total:{wide}.{digits}%} ({ends})"
