"""What the figures of Yang et al. 2024 (arXiv 2402.13934) claim, judged by what a store measured.

A claim is judged by every comparison that was made at the paper's settings, and by no other. What
was seen at other settings is shown, but does not count. A control puts the claim about the
efficient models to the standard model, of which the paper does not claim it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sweepd.query.comparisons import (
    ENOUGH_D,
    LOCALITY,
    Comparison,
    alike,
    easier,
    enough,
    faster,
    growing,
    growth_of,
    imperfect,
    larger,
    widths_of,
)
from sweepd.query.paper import SIZES, Measured, TableRow

COLUMNS = ("kind", "claim", "status", "evidence", "control")
MOST_SHOWN = 6
"""How many comparisons of one kind the evidence spells out at most."""
EFFICIENT = ("linear", "sparse")


def claims(measured: Measured) -> list[TableRow]:
    """Returns each claim with its status, the evidence, and the control where it has one.

    The status counts the comparisons at the paper's settings. supported: all speak for the claim.
    partly supported: some do, none speaks against it, and the others do not tell. mixed: some speak
    for it and some against. contradicted: some speak against it and none for it. undecided: none
    tells. at other settings: there are comparisons, but none at the paper's settings. not measured:
    there is no comparison at all.
    """
    widths, laws = widths_of(measured), growth_of(measured)
    grows = list(growing(laws, "standard"))
    return [
        _claim("sparse needs a larger d than standard", larger(widths, "sparse")),
        _claim("linear needs a larger d than standard", larger(widths, "linear")),
        _claim("min d of sparse grows with the size", growing(laws, "sparse"), grows),
        _claim("min d of linear grows with the size", growing(laws, "linear"), grows),
        _claim(
            f"min d grows faster on less local tasks: {' > '.join(LOCALITY)}",
            faster(laws, *EFFICIENT),
            faster(laws, "standard"),
        ),
        _claim(
            "linear and sparse need a smaller d on ed_local than on edit_distance",
            easier(widths, *EFFICIENT),
            easier(widths, "standard"),
        ),
        _claim(f"standard manages every size with d up to {ENOUGH_D}", enough(widths)),
        _claim(
            f"sparse does not reach 100% on lis with n from {min(SIZES['lis'])}",
            imperfect(measured),
        ),
        _claim("5 layers are like 3 on edit_distance", alike(widths)),
    ]


def _claim(
    text: str, comparisons: Iterable[Comparison], control: Iterable[Comparison] = ()
) -> TableRow:
    found = list(comparisons)
    own = [one for one in found if one.of_paper]
    elsewhere = [one for one in found if not one.of_paper]
    status = "not measured"
    if found:
        status = _status(own) if own else "at other settings"
    evidence = [_evidence(own)] if own else []
    if elsewhere:
        evidence.append(f"At other settings: {_evidence(elsewhere)}")
    controls = list(control)
    return {
        "kind": "claim",
        "claim": text,
        "status": status,
        "evidence": ". ".join(evidence) or "no two cells to compare",
        "control": _evidence(controls) if controls else None,
    }


def _status(comparisons: Sequence[Comparison]) -> str:
    sides = {one.holds for one in comparisons}
    if {True, False} <= sides:
        return "mixed"
    if False in sides:
        return "contradicted"
    if True in sides:
        return "partly supported" if None in sides else "supported"
    return "undecided"


def _evidence(comparisons: Sequence[Comparison]) -> str:
    """Returns in words how many comparisons speak for a claim, speak against it or do not tell. It
    spells out the first MOST_SHOWN of each kind."""
    told = []
    for word, side in (("for", True), ("against", False), ("undecided", None)):
        if found := [one.text for one in comparisons if one.holds is side]:
            more = "; …" * (len(found) > MOST_SHOWN)
            told.append(f"{len(found)} {word}: {'; '.join(found[:MOST_SHOWN])}{more}")
    return ". ".join(told)
