"""What finds a pass for the least FLOPs where a width fails at its first budget.

    python benchmarks/effort.py RESULTS [--trials FILE.csv] [--only-ask]

The grids in benchmarks/effort/ have twelve cells of four tasks, with one rate and three seeds. Each
is launched as it is, and once for each knob of KNOBS: twice and four times the steps, three other
seeds, twice and half the rate, another weight decay, another beta2. The knob `cut` trains the model
of twice the width for the first budget, cuts its weights down, and trains these for as long again.

Printed is, for each knob: its training FLOPs in times those of the cell at its first budget, and of
how many cells that fail there the median of the seeds passes with it, and any seed at all. A run
with more steps continues the shorter one, but counts whole. `--trials` writes every trial as CSV.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
import yaml
from processes import sweepd
from torch import nn

from sweepd.grid.plan import plan
from sweepd.grid.spec import load_grid, parse_grid
from sweepd.models._backbone import Attention
from sweepd.trial.attempt import started
from sweepd.trial.training import Training

GRIDS = sorted((Path(__file__).parent / "effort").glob("*.yaml"))
GOAL = 0.9
BASE, CUT = "as it is", "cut"
KNOBS: Mapping[str, str] = {
    BASE: "",
    "2 times the steps": "train.steps=2000",
    "4 times the steps": "train.steps=4000",
    "3 other seeds": "seeds=[3,4,5]",
    "twice the rate": "train.lr={twice}",
    "half the rate": "train.lr={half}",
    "weight decay .1": "train.weight_decay=0.1",
    "beta2 .95": "train.beta2=0.95",
}
COLUMNS = "task, model, size, d, lr, seed, steps, status, acc, loss, train_flops"
Row = dict[str, Any]


def launch(results: Path) -> None:
    """Trains what has not been trained yet."""
    for number, grid in enumerate(GRIDS):
        rate: Any = plan(load_grid(grid)).trials[0].axes["lr"]
        for at, knob in enumerate(KNOBS.values()):
            sets = [f"name=effort_{number}_{at}"]
            sets += [knob.format(twice=2 * rate, half=rate / 2)] if knob else []
            options = [part for text in sets for part in ("--set", text)]
            sweepd("launch", grid, *options, "--results", results, "--yes")


def trained(results: Path) -> Iterator[Row]:
    for number in range(len(GRIDS)):
        for at, knob in enumerate(KNOBS):
            sql = f"SELECT {COLUMNS} FROM trials WHERE sweep = 'effort_{number}_{at}' ORDER BY ALL"
            for row in json.loads(sweepd("sql", sql, "--results", results, "--json")):
                yield {"knob": knob, **row}


def cut_down() -> Iterator[Row]:
    """Yields a trial for each seed of each cell, which begins with the weights of a model of twice
    the width that was trained as long."""
    torch.set_num_threads(1)
    for grid in GRIDS:
        wider = yaml.safe_load(grid.read_text())
        for block in wider["model"] if isinstance(wider["model"], list) else [wider["model"]]:
            block["d"] = [
                2 * d for d in ([block["d"]] if isinstance(block["d"], int) else block["d"])
            ]
        wide_trials = plan(parse_grid(yaml.safe_dump(wider), "wider.yaml", (), Path())).trials
        wide_of = {(t.model_name, t.axes["d"], t.seed): t for t in wide_trials}
        for trial in plan(load_grid(grid)).trials:
            d: Any = trial.axes["d"]
            wide = started(wide_of[trial.model_name, 2 * d, trial.seed], Path(), "cpu")
            run = started(trial, Path(), "cpu")
            assert isinstance(wide, Training) and isinstance(run, Training)
            deque(wide.advance(), 0)
            with torch.no_grad():
                cut(run.model, wide.model)
            deque(run.advance(), 0)
            assert run.result is not None
            yield {
                "knob": CUT,
                "task": trial.task_name,
                "model": trial.model_name,
                "size": trial.size,
                "d": d,
                "lr": trial.axes["lr"],
                "seed": trial.seed,
                "steps": trial.train.steps,
                "status": run.result.status,
                "acc": run.result.columns.get("acc"),
                "loss": run.result.columns.get("loss"),
                "train_flops": wide.train_flops + run.train_flops,
            }


def cut(narrow: nn.Module, wide: nn.Module) -> None:
    """Gives a model the first features of each weight of a wider one: of queries, keys, values and
    what is read, the first of each head."""
    for name, weight in narrow.named_parameters():
        weight.copy_(wide.get_parameter(name)[tuple(map(slice, weight.shape))])
    for name, mixer in narrow.named_modules():
        if isinstance(mixer, Attention):
            source = wide.get_submodule(name)
            assert isinstance(source, Attention)
            d, heads = mixer.out.in_features, mixer.heads
            at, into = 0, 0
            for many, few in zip(source.widths, mixer.widths, strict=True):  # q, k and v
                every, part = slice(at, at + many), slice(into, into + few)
                weight_HED = source.qkv.weight[every].unflatten(0, (heads, -1))
                bias_HE = source.qkv.bias[every].unflatten(0, (heads, -1))
                mixer.qkv.weight[part] = weight_HED[:, : few // heads, :d].flatten(0, 1)
                mixer.qkv.bias[part] = bias_HE[:, : few // heads].flatten()
                at, into = at + many, into + few
            out_DHE = source.out.weight.unflatten(1, (heads, -1))[:d, :, : d // heads]
            mixer.out.weight.copy_(out_DHE.flatten(1))


def table(rows: list[Row]) -> Iterator[str]:
    """Yields the scores of each cell with each knob, and what each knob found."""
    cells: dict[tuple[Any, ...], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        cells[row["task"], row["size"], row["model"], row["d"]][row["knob"]].append(row)
    found: dict[str, list[tuple[float, float, bool, bool]]] = defaultdict(list)
    for (task, size, model, d), by_knob in cells.items():
        base = by_knob[BASE]
        at_first = median(row["acc"] for row in base)
        yield f"{task}, size {size}, {model}, d = {d}" + (": passes" if at_first > GOAL else "")
        for knob, tried in by_knob.items():
            scores = [row["acc"] for row in sorted(tried, key=lambda row: (row["lr"], row["seed"]))]
            times = sum(row["train_flops"] for row in tried) / sum(r["train_flops"] for r in base)
            shown = " ".join(f"{score:.3f}" for score in scores)
            yield f"  {knob:20}{times:5.2f} times the FLOPs  {shown}"
            if at_first <= GOAL:
                gain, most = median(scores) - at_first, max(scores)
                found[knob].append((times, gain, median(scores) > GOAL, most > GOAL))
    yield ""
    yield f"{'':20}{'FLOPs':>8}{'gain':>8}{'median passes':>16}{'any seed':>12}"
    for knob, told in found.items():
        times, gains, passed, any_seed = zip(*told, strict=True)
        yield (
            f"{knob:20}{fmean(times):8.2f}{fmean(gains):+8.3f}"
            f"{f'{sum(passed)} of {len(told)}':>16}{f'{sum(any_seed)} of {len(told)}':>12}"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("results", type=Path)
    arguments.add_argument("--trials", type=Path, help="the CSV in which every trial is kept")
    arguments.add_argument("--only-ask", action="store_true", help="read that CSV, train nothing")
    given = arguments.parse_args()
    if given.only_ask:
        with given.trials.open() as lines:
            rows: list[Row] = [
                {
                    k: float(v) if k in ("acc", "lr", "train_flops", "seed") else v
                    for k, v in row.items()
                }
                for row in csv.DictReader(lines)
            ]
    else:
        launch(given.results)
        rows = [*trained(given.results), *cut_down()]
    if given.trials and not given.only_ask:
        with given.trials.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
