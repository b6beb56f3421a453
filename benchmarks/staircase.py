"""The staircase search beside the whole grid, on a simulated ensemble of accuracy surfaces.

    python benchmarks/staircase.py [--ensemble 5000] [--seed 0]

The peer is the whole grid with the same outcomes (surfaces.py says how they are drawn). This
compares the least d that passes at each size, what its verdict claims, and the trials, training
FLOPs and time that it took. Answers come from a fast twin of the question. On some surfaces of
every setting the question itself is asked through a store, and must say the same. docs/search.md
says what the columns mean. The outcome lies in results/staircase.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
from printed import section, share
from surfaces import (
    SIZES,
    WIDTHS,
    Run,
    Setting,
    Surface,
    answers,
    asked,
    contradicted,
    draw,
    least_possible,
    run,
    voted,
)

from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import load_grid
from sweepd.grid.trials import Trial
from sweepd.query.minima import Verdict
from sweepd.search import staircase
from sweepd.search.base import GridSearch
from sweepd.search.seeds import Outcome
from sweepd.search.staircase import StaircaseSearch
from sweepd.search.stairs import Stair

REFERENCE = Setting("6 x 4, median of 3 seeds")
SETTINGS = (
    REFERENCE,
    replace(REFERENCE, name="  1 slot", slots=1),
    replace(REFERENCE, name="  8 slots", slots=8),
    replace(REFERENCE, name="  32 slots", slots=32),
    replace(REFERENCE, name="  no spot checks", spot_checks=0),
    replace(REFERENCE, name="  3 spot checks", spot_checks=3),
    replace(REFERENCE, name="  5% of trials fail", failing=0.05),
    replace(REFERENCE, name="6 x 4, all of 3 seeds", rule="all"),
    replace(REFERENCE, name="6 x 4, any of 3 seeds", rule="any"),
    replace(REFERENCE, name="6 x 4, mean of 3 seeds", rule="mean"),
    replace(REFERENCE, name="6 x 4, 1 seed", seeds="[0]"),
    replace(REFERENCE, name="6 x 4, 1 to 5 seeds", seeds="{start: 1, max: 5}"),
    replace(REFERENCE, name="5 x 4", widths=WIDTHS[:5]),
    replace(REFERENCE, name="4 x 3", sizes=SIZES[:3], widths=WIDTHS[:4]),
    replace(REFERENCE, name="8 x 8", sizes=tuple(range(2, 18, 2)), widths=(16, *WIDTHS, 2048)),
    replace(REFERENCE, name="6 x 1", sizes=SIZES[:1]),
)
"""d by sizes; 2 slots where none are named."""
ASKED = 100
"""Surfaces of each setting that are also asked about through a store."""
PAPER = Path(__file__).parents[1] / "grids/paper_table2.yaml"
TABLE_2 = {
    "standard": (64, 128, 128, 128),
    "sparse": (128, 256, 256, 256),
    "linear": (256, 512, 512, 512),
}
"""Least widths that P1's Table 2 implies for arithmetic, size by size."""
CLAIMS = ("exact", "bracketed", "at most", "above", "open", "not monotone")
ROLES = ("walk", "spot check", "widened", "speculation")


def flops_of(trial: Trial) -> float:
    return trial.train_flops


def one_unit(trial: Trial) -> float:
    return 1.0


@dataclass(frozen=True)
class Line:
    """One line of a plan with a surface: both searches at their ends, and what they say."""

    stair: Stair
    surface: Surface
    ours: Run
    whole: Run

    def answers(self) -> tuple[dict[float, Verdict], dict[float, Verdict], dict[float, Verdict]]:
        """Returns, each by size, the staircase's answers, the whole grid's, and those of the
        surface without noise."""
        votes = (voted(self.stair, each.search) for each in (self.ours, self.whole))
        ours, whole = map(answers, votes)
        return ours, whole, answers(self.surface.truth)


def holds(verdict: Verdict, least: float | None, contradiction: bool) -> bool:
    """Returns whether what a verdict claims is so. `least` is what counts as the least width, and
    `contradiction` says whether anything contradicts that the frontier is monotone. `open` claims
    nothing, so it always holds."""
    match verdict.kind:
        case "exact" | "bracketed":
            return least == verdict.value
        case "at most":
            assert verdict.value is not None
            return least is not None and least <= verdict.value
        case "above":
            return least is None
        case "not monotone":
            return contradiction
    return True


@dataclass
class Tally:
    """What is counted over the surfaces of one setting. Shares are of the whole grid's."""

    shares: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    same: dict[tuple[bool, str], Counter[bool]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    """by whether the surface is monotone, and size or line: whether the least width is the same"""
    claims: dict[tuple[bool, str], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    """by whether the surface is monotone, and claim: in how many sizes which comparison holds"""
    roles: Counter[str] = field(default_factory=Counter)
    """FLOPs by what the cell was tried for, and those of the grid"""

    def add(self, line: Line) -> None:
        for name in ("trials", "flops", "time"):
            self.shares[name].append(getattr(line.ours, name) / getattr(line.whole, name))
        grid = line.whole.search
        possible = least_possible(line.stair, voted(line.stair, grid), grid.outcomes)
        self.shares["possible"].append(possible / line.whole.flops)
        self.add_roles(line)
        monotone = not contradicted(line.surface.truth)
        seen = contradicted(voted(line.stair, grid))
        ours, whole, truth = line.answers()
        agree = [ours[size].value == whole[size].value for size in ours]
        self.same[monotone, "size"].update(agree)
        self.same[monotone, "line"][all(agree)] += 1
        for size, verdict in ours.items():
            count = self.claims[monotone, verdict.kind]
            count["all"] += 1
            count["same"] += verdict.value == whole[size].value
            count["grid"] += holds(verdict, whole[size].value, seen)
            count["truth"] += holds(verdict, truth[size].value, not monotone)
            count["grid by truth"] += whole[size].value == truth[size].value

    def add_roles(self, line: Line) -> None:
        search = line.ours.search
        assert isinstance(search, StaircaseSearch)
        [known] = search.known
        tried = {
            position: sum(flops_of(t) for t in seeds.trials if t.id in search.outcomes)
            for position, [seeds] in line.stair.cells.items()
        }
        found = line.stair.line.roles([p for p, flops in tried.items() if flops], known)
        for position, role in found.items():
            self.roles[role] += tried[position]
        self.roles["grid"] += line.whole.flops


def lines_of(
    setting: Setting, planned: Plan, count: int, rng: np.random.Generator
) -> Iterator[Line]:
    rules = planned.grid.search
    assert not isinstance(rules, str)
    for _ in range(count):
        search = StaircaseSearch(planned, rules)
        [stair] = search.stairs
        surface = draw(stair, rng, setting.failing)
        ours = run(search, surface.outcomes, setting.slots, flops_of)
        whole = run(GridSearch(planned), surface.outcomes, setting.slots, flops_of)
        yield Line(stair, surface, ours, whole)


def tallied(setting: Setting, count: int, rng: np.random.Generator) -> Tally:
    print(setting.name, file=sys.stderr)
    planned, tally = setting.planned(), Tally()
    first: list[Line] = []
    for line in lines_of(setting, planned, count, rng):
        tally.add(line)
        if len(first) < ASKED:
            first.append(line)
    ours, whole, _ = zip(*(line.answers() for line in first), strict=True)
    assert asked(planned, [line.ours.search for line in first]) == list(ours), "the twins differ"
    assert asked(planned, [line.whole.search for line in first]) == list(whole), "the twins differ"
    return tally


def three(shares: Sequence[float]) -> str:
    """Returns the median, the 90th percentile and the worst, as text."""
    return "".join(f"{share:7.1%}" for share in np.quantile(shares, [0.5, 0.9, 1]))


def spending(tallies: dict[Setting, Tally]) -> Iterator[str]:
    three_names = f"{'median':>7}{'90%':>7}{'worst':>7}"
    yield f"{'':28}{'trials':^21}  {'training FLOPs':^21} {'least':>7}  {'time':^21}"
    yield f"{'':28}{three_names}  {three_names} {'shown':>7}  {three_names}"
    for setting, tally in tallies.items():
        trials, flops, time = (three(tally.shares[name]) for name in ("trials", "flops", "time"))
        least = np.median(tally.shares["possible"])
        yield f"{setting.name:28}{trials}  {flops} {least:7.1%}  {time}"


def agreement(tallies: dict[Setting, Tally]) -> Iterator[str]:
    yield f"{'':28}{'monotone: sizes':27}{'lines':27}{'not monotone: sizes':27}{'lines':27}"
    for setting, tally in tallies.items():
        counts = (
            tally.same[monotone, what] for monotone in (True, False) for what in ("size", "line")
        )
        shares = "   ".join(share(count[True], count.total(), 2) for count in counts)
        yield f"{setting.name:28}{shares}"


def verdicts(tally: Tally) -> Iterator[str]:
    yield (
        f"{'':15}{'':>8}{'sizes':>8}  {'right, by the whole grid':28}{'same d':>8}"
        f"{'right, by the':>15}{'the grid,':>11}"
    )
    yield f"{'':61}{'as it':>8}{'latent surface':>15}{'by that':>11}"
    for monotone in (True, False):
        for claim in CLAIMS:
            if total := (count := tally.claims[monotone, claim])["all"]:
                what = "monotone" if monotone else "not"
                shares = (count[name] / total for name in ("same", "truth", "grid by truth"))
                same, truth, by_grid = (f"{one:.1%}" for one in shares)
                grid = share(count["grid"], total, 2) if claim != "open" else "claims nothing"
                yield (f"{claim:15}{what:>8}{total:8}  {grid:28}{same:>8}{truth:>15}{by_grid:>11}")


def roles(tallies: dict[Setting, Tally]) -> Iterator[str]:
    yield f"{'':28}" + "".join(f"{role:>12}" for role in ROLES)
    for setting, tally in tallies.items():
        shares = (tally.roles[role] / tally.roles["grid"] for role in ROLES)
        yield f"{setting.name:28}" + "".join(f"{share:12.2%}" for share in shares)


def timed(setting: Setting, count: int, seed: int) -> tuple[list[float], list[float], list[float]]:
    """Returns three lists over surfaces: the search's time with trials of one unit, its time as a
    share of the whole grid's with trials that last as their FLOPs do, and its FLOPs as a share of
    the grid's."""
    planned, rng = setting.planned(), np.random.default_rng(seed)
    rules = planned.grid.search
    assert not isinstance(rules, str)
    units, times, flops = [], [], []
    for _ in range(count):
        search = StaircaseSearch(planned, rules)
        drawn = [draw(stair, rng).outcomes for stair in search.stairs]
        outcomes = {id_: outcome for line in drawn for id_, outcome in line.items()}
        units.append(run(search, outcomes, setting.slots, one_unit).time)
        search = StaircaseSearch(planned, rules)
        ours = run(search, outcomes, setting.slots, flops_of)
        whole = run(GridSearch(planned), outcomes, setting.slots, flops_of)
        times.append(ours.time / whole.time)
        flops.append(ours.flops / whole.flops)
    return units, times, flops


def times(count: int, seed: int) -> Iterator[str]:
    yield (
        f"{'lines':>5}{'slots':>7}{'grid':>7}{'in units of a trial':^30}"
        f"{'share of the grid’s time':^30}{'share of its FLOPs':^24}"
    )
    halves = f"{'without':>14}{'with':>8}{'':8}"
    yield f"{'':19}{halves}{halves}{halves}"
    for lines in (1, 6):
        for slots in (2, 8, 32):
            setting = replace(REFERENCE, lines=lines, slots=slots)
            without, guessing = (
                timed(replace(setting, speculate=speculate), count, seed)
                for speculate in ("false", "true")
            )
            trials = len(setting.planned().trials)
            cells = [
                f"{np.median(a):{form}}{np.median(b):{form[1:]}}{'':8}"
                for form, a, b in zip(
                    (">14.0f", ">14.1%", ">14.1%"), without, guessing, strict=True
                )
            ]
            yield f"{lines:5}{slots:7}{-(-trials // slots):7}" + "".join(cells)


def guesses(count: int, seed: int) -> Iterator[str]:
    yield f"{'least chance':14}{'units of a trial':>18}{'share of time':>16}{'of FLOPs':>12}"
    setting = replace(REFERENCE, slots=8)
    for least in (0.4, 0.5, 0.6, 0.75, 1.1):
        with patch.object(staircase, "WORTH_A_GUESS", least):
            units, times, flops = (np.mean(each) for each in timed(setting, count, seed))
        what = f"{least:.2f}" if least <= 1 else "no guesses"
        yield f"{what:14}{units:18.2f}{times:16.1%}{flops:12.1%}"


def table_2(count: int, rng: np.random.Generator) -> Iterator[str]:
    """Yields the share of each model's grid that the search takes on the frontiers that P1's Table
    2 implies, without noise."""
    planned = plan(load_grid(PAPER, ["search=staircase"]))
    for slots in (1, 8):
        rules = planned.grid.search
        assert not isinstance(rules, str)
        search = StaircaseSearch(planned, rules)
        edges = {model: dict(zip(SIZES, least, strict=True)) for model, least in TABLE_2.items()}
        outcomes = {
            t.id: Outcome(
                "completed", 0.99 if t.axes["d"] >= edges[t.model_name][t.size] else 0.5, 10_000
            )
            for t in planned.trials
        }
        run(search, outcomes, slots, flops_of)
        for stair in search.stairs:
            trials = [t for cells in stair.cells.values() for t in cells[0].trials]
            ran = [t for t in trials if t.id in search.outcomes]
            total = sum(map(flops_of, trials))
            votes = {p: seeds.passes(outcomes) for p, [seeds] in stair.cells.items()}
            least = least_possible(stair, votes, outcomes) / total
            share = sum(map(flops_of, ran)) / total
            counts = f"{slots:6}{len(ran):8} of {len(trials)}"
            yield f"{trials[0].model_name:10}{counts}{share:10.1%}{least:12.1%}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--ensemble", type=int, default=5000, help="surfaces a setting")
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    count, few = given.ensemble, max(1, given.ensemble // 10)
    section("P1's Table 2", table_2(count, np.random.default_rng(given.seed)))
    tallies = {
        setting: tallied(setting, count, np.random.default_rng([given.seed, i]))
        for i, setting in enumerate(SETTINGS)
    }
    section("spending", spending(tallies))
    section("agreement", agreement(tallies))
    section("roles", roles(tallies))
    for setting, tally in tallies.items():
        section(setting.name, verdicts(tally))
    section("times", times(few, given.seed))
    section("guesses", guesses(few, given.seed))


if __name__ == "__main__":
    main()
