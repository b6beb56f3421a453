"""The boundary of one line of the grid, found without trying every cell.

A line holds the cells that differ in two axes only. One is the minimised axis (the width d). The
other is the axis along which the problem grows (the size). The boundary is assumed to be
monotone: a width that fails at one size also fails at larger sizes. The walk (saddleback search;
Dijkstra, Bird 2006) starts at the smallest size and width. After a cell that passes it goes to
the next size, after one that fails to the next width. So rows + columns - 1 cells decide the
line, and no width above the boundary is tried.

Every function here depends on what is known, not on how it came to be known. So it makes no
difference whether a search was interrupted, or whether another sweep has run half of it.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Literal

Position = tuple[float, float]
"""A position on a line: a size and a width."""
Known = Mapping[Position, bool | None]
"""The positions that are decided. True means that the position passed, and False that it failed.
None means that it stays undecided, for example where trials failed or were stopped early. The walk
then goes on as after a failure, but answers do not call it one."""
Role = Literal["walk", "spot check", "widened", "speculation"]

MOST_BOUNDARIES = 300
"""The most of a line's possible boundaries that `boundaries` goes through."""


@dataclass(frozen=True)
class SearchLine:
    """One line of the grid. costs: of each position. spot_checks: cells on either side to check."""

    costs: Mapping[Position, float]
    spot_checks: int

    @cached_property
    def rows(self) -> list[tuple[float, list[float]]]:
        """Each size with its widths, both in rising order."""
        widths = defaultdict(list)
        for size, width in sorted(self.costs):
            widths[size].append(width)
        return list(widths.items())

    def wanted(self, known: Known) -> list[Position]:
        """Returns the unknown positions that the answer needs now: none when it is complete."""
        _, step = self.walk(known)
        needed = [step] if step else self.checks(known)
        needed += self.around_contradictions(known)
        return [position for position in dict.fromkeys(needed) if position not in known]

    def walk(self, known: Known) -> tuple[list[Position], Position | None]:
        """Returns the known positions that the walk passes through, and the next, if any."""
        path: list[Position] = []
        failed = -math.inf
        """The largest width that failed at a smaller size."""
        for size, widths in self.rows:
            outcomes = {width: known[size, width] for width in widths if (size, width) in known}
            here = max((w for w, passed in outcomes.items() if passed is False), default=-math.inf)
            for width in widths:
                if outcomes.get(width):
                    path.append((size, width))
                    break
                if width <= failed:
                    continue
                if width not in outcomes:
                    if width < here:
                        continue
                    return path, (size, width)
                path.append((size, width))
                failed = width
            failed = max(failed, here)
        return path, None

    def checks(self, known: Known) -> list[Position]:
        """Returns cells off the finished staircase that test the assumption. On either side of
        the boundary they are the nearest ones, and of equally near ones the cheapest. They
        include the next smaller width of each size that has a pass. Were its failure only
        inferred, the boundary could climb but never fall."""
        if not self.spot_checks:
            return []
        path, _ = self.walk(known)
        above: list[tuple[int, float, Position]] = []
        below: list[tuple[int, float, Position]] = []
        inferred: list[Position] = []
        for size, widths in self.rows:
            passed = [i for i, width in enumerate(widths) if known.get((size, width))]
            boundary = min(passed, default=len(widths))
            for i, width in enumerate(widths):
                if (position := (size, width)) not in path:
                    side = above if i > boundary else below
                    side.append((abs(i - boundary), self.costs[position], position))
                    if passed and i == boundary - 1:
                        inferred.append(position)
        nearest = [p for side in (above, below) for *_, p in sorted(side)[: self.spot_checks]]
        return list(dict.fromkeys([*nearest, *inferred]))

    def around_contradictions(self, known: Known) -> list[Position]:
        """Returns the neighbours of every two cells that contradict the assumption: one failed, and
        the other passed with at most the same width, at the same size or a larger one."""
        failures = [position for position, passed in known.items() if passed is False]
        around: dict[Position, None] = {}
        for position, passed in known.items():
            for failure in failures if passed else ():
                if failure[0] <= position[0] and failure[1] >= position[1]:
                    around |= dict.fromkeys((*self._beside(failure), *self._beside(position)))
        return list(around)

    def _beside(self, position: Position) -> Iterator[Position]:
        """Yields the next positions in either direction at the same size, and at the same width."""
        for axis in (0, 1):
            same = sorted(p for p in self.costs if p[1 - axis] == position[1 - axis])
            at = same.index(position)
            yield from same[max(0, at - 1) : at] + same[at + 1 : at + 2]

    def forecast(self, known: Known, least: float) -> Iterator[tuple[Position, float]]:
        """Yields positions that the walk may need after the one that it needs now, each with its
        chance. The chance is `least` or more."""
        _, step = self.walk(known)
        if step is None or least > 1:
            return
        passes = self.chance(step)
        for passed, chance in ((True, passes), (False, 1 - passes)):
            if chance >= least:
                then = {**known, step: passed}
                _, following = self.walk(then)
                if following:
                    yield following, chance
                for position, share in self.forecast(then, least / chance):
                    yield position, chance * share

    def chance(self, step: Position) -> float:
        """Returns how likely it is that the walk's next position passes, if all monotone
        boundaries that agree with what is known are equally likely."""
        sizes = sum(size >= step[0] for size, _ in self.rows)
        widths = sum(p[0] == step[0] and p[1] >= step[1] for p in self.costs)
        return sizes / (sizes + widths)

    def roles(self, tried: Collection[Position], known: Known) -> dict[Position, Role]:
        """Returns what each tried position was for, judged by what is known now."""
        path, step = self.walk(known)
        checks = self.checks(known) if step is None else []
        widened = self.around_contradictions(known)

        def role(position: Position) -> Role:
            if position in path or position == step:
                return "walk"
            if position in checks:
                return "spot check"
            return "widened" if position in widened else "speculation"

        return {position: role(position) for position in tried}

    def complete(self, known: Known, passes: Callable[[Position], bool]) -> dict[Position, bool]:
        """Returns what the search tries besides the known, if `passes` gives the outcomes."""
        tried: dict[Position, bool] = {}
        while wanted := self.wanted({**known, **tried}):
            tried |= {position: passes(position) for position in wanted}
        return tried

    def boundaries(self) -> Iterator[Callable[[Position], bool]]:
        """Yields every monotone boundary, as a function that says whether a position passes. If
        there are more than `MOST_BOUNDARIES`, yields the extreme ones and a fixed sample."""
        sizes = [size for size, _ in self.rows]
        choices = [*sorted({width for _, width in self.costs}), math.inf]
        count = len(sizes)
        boundaries: Iterable[tuple[float, ...]] = combinations_with_replacement(choices, count)
        if math.comb(count + len(choices) - 1, count) > MOST_BOUNDARIES:
            sample = [(choice,) * count for choice in choices]
            sample += [(choices[0],) * (count - 1) + (choice,) for choice in choices]
            generator = random.Random(0)
            for _ in range(MOST_BOUNDARIES - len(sample)):
                # Stars and bars: each monotone sequence is as likely as any other.
                bars = sorted(generator.sample(range(len(choices) - 1 + count), count))
                sample.append(tuple(choices[bar - i] for i, bar in enumerate(bars)))
            boundaries = sample
        for minima in boundaries:
            least = dict(zip(sizes, minima, strict=True))
            yield lambda position, least=least: position[1] >= least[position[0]]  # type: ignore[misc]
