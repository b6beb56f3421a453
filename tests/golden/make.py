"""What each version of ours does, as numbers: `make golden` writes them to golden.json.

A unit is a file of ours that states a VERSION. Its cases are the rows of a task; the first weights,
five steps of training and a score of a model; and what becomes of classes as users write them
(users.py) with the bases, the training and the runners. Where these change, the version must.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from golden import users
from torch import nn

from sweepd.grid.fingerprint import PACKAGE
from sweepd.grid.placement import Resources
from sweepd.grid.plan import plan
from sweepd.grid.registry import find, parameters, shipped
from sweepd.grid.settings import Evaluate, LrRule, Stop, Train
from sweepd.grid.spec import parse_grid
from sweepd.models.base import Model, can_decode, decoder
from sweepd.tasks.base import Batch, Chains, Split, Task
from sweepd.trial.attempt import started
from sweepd.trial.other_lengths import ScoredLonger
from sweepd.trial.program import ProgramRun
from sweepd.trial.training import Training

KEPT = Path(__file__).with_name("golden.json")
CLOSE = 1e-4
"""How far a number may be off. What is counted must be exact."""
AGAIN = "run `make golden` and commit golden.json"
Case = Callable[[], Any]

TASKS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "adaptive_memory": ({"levels": 2, "length": 24}, {"length": 24, "values": "reals"}),
    "arithmetic": ({}, {"operators": 1}, {"cot": False}),
    "copy": ({"n": 8},),
    "dyck": ({},),
    "ed_local": ({}, {"cot": False}),
    "edit_distance": ({}, {"cot": False}),
    "equation": ({}, {"unknowns": 2, "modulus": 5, "cot": False}),
    "fixed_memory": ({"longest": 8, "length": 24}, {"length": 24, "values": "reals"}),
    "k_hop": ({"length": 24},),
    "lis": ({}, {"n": 8, "value_range": 16}, {"n": 8, "value_range": 16, "cot": False}),
    "lookup": ({"n": 8},),
    "mqar": ({"pairs": 2},),
    "parity": ({},),
    "sparse_memory": ({"length": 24}, {"length": 24, "kernel": "polynomial"}),
    "word_problem": ({"n": 8}, {"n": 8, "group": "Z60"}),
}
"""The settings of each shipped task that are held."""
FURTHER: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "sparse": ({"block": 4, "k": 2, "c": 2},),
    "window": ({"width": 4},),
    "mamba2": ({"state": 4},),
    "hybrid": ({"mixers": "gla window standard"},),
}
"""Settings of shipped models besides the default one and the alternatives of their own fields."""


TOLD = {
    "program": f"{sys.executable} program.py {{width}} {{seed}}",
    "as": "told",
    "task": "told",
    "metrics": {"acc": "up", "loss": "down"},
    "width": 8,
}


def units() -> dict[str, dict[str, Case]]:
    """The cases of each file of ours that states a version."""
    found: dict[str, dict[str, Case]] = {
        "tasks/base.py": {
            "chains": partial(rows, users.Sums()),
            "chains left out": partial(rows, users.Sums(cot=False)),
            "targets": partial(rows, users.Before()),
            "memory": partial(rows, users.Lagged(length=24)),
            "real numbers": partial(rows, users.Lagged(length=24, values="reals")),
        },
        "models/base.py": {name: partial(outputs, model) for name, model in own_models()},
        "trial/training.py": dict(trainings()),
        "trial/own_loop.py": {"draws": partial(run_of, {"name": "users.py:Draws"})},
        "trial/program.py": {"told": partial(run_of, TOLD)},
    }
    for entry in shipped("task"):
        kind = find("task", entry.name, Path())
        found[f"tasks/{entry.name}.py"] = {
            str(given): partial(rows, kind(**given)) for given in TASKS.get(entry.name, ({},))
        }
    for entry in shipped("model"):
        found[f"models/{entry.name}.py"] = {
            str(given): partial(trained, users.Sums(), model)
            for given, model in shipped_models(find("model", entry.name, Path()), entry.name)
        }
    return found


def own_models() -> Iterator[tuple[str, Model]]:
    for positions in ("sinusoidal", "learned", "rotary", "none"):
        model = users.Softmax(8, layers=1, heads=2, positions=positions)
        yield positions, model
    yield "dropout", users.Softmax(8, layers=2, heads=2, dropout=0.2)
    yield "recurrence", users.Decaying(8, layers=2, heads=2)
    yield "torch", users.Plain(8)


def shipped_models(kind: Any, name: str) -> Iterator[tuple[dict[str, Any], Model]]:
    """A small model of a kind, with each alternative of each of its own fields."""
    fields = parameters(kind)
    small = {"d": 8, "layers": 2, "heads": 2}
    first = kind(**{field: value for field, value in small.items() if field in fields})
    changes: list[Mapping[str, Any]] = [{}, *FURTHER.get(name, ())]
    for field, parameter in fields.items():
        if field in vars(kind).get("__annotations__", {}) and field != "positions":
            choices = (False, True) if parameter.type is bool else get_args(parameter.type)
            if all(isinstance(choice, str | bool) for choice in choices):
                changes += ({field: each} for each in choices if each != parameter.default)
    yield from ((dict(given), replace(first, **given)) for given in changes)


def rows(task: Task) -> dict[str, Any]:
    """300 rows of each split, as 12 hex digits. Of real targets the places are exact, and the sums
    close, since processors differ in the last digits."""
    found: dict[str, Any] = {}
    for split in Split:
        sample: Chains | Batch = task.sample(np.random.default_rng(7), 300, split)
        batch = task.batch(np.random.default_rng(7), 300, split)
        parts = [batch.inputs, batch.targets]
        if isinstance(sample, Chains):
            parts += [sample.tokens, sample.prompts, sample.lengths]
        digest = hashlib.sha256()
        for part in parts:
            real_targets = part is batch.targets and part.dtype.kind == "f"
            held = np.isnan(part) if real_targets else part
            digest.update(str((held.dtype, held.shape)).encode())
            digest.update(np.ascontiguousarray(held).data)
        found[split.name] = digest.hexdigest()[:12]
        if batch.targets.dtype.kind == "f":
            found[f"{split.name} targets"] = summary(np.nan_to_num(batch.targets))
    return found


def summary(numbers: Any) -> list[float]:
    """The root of the mean square of numbers, and their mean product with a wave, which their order
    changes."""
    flat = np.asarray(numbers, dtype=np.float64).ravel()
    wave = np.cos(1.0 + np.arange(len(flat)))
    found = np.sqrt((flat**2).mean()), (flat * wave).mean()
    return [float(f"{each:.7g}") for each in found]


def weights(model: nn.Module) -> dict[str, Any]:
    return {
        name: [*map(int, each.shape), *summary(each.detach())]
        for name, each in model.state_dict().items()
    }


def outputs(architecture: Model) -> dict[str, Any]:
    """The first weights of a model, and what it gives for tokens and for numbers."""
    found: dict[str, Any] = {}
    for vocab in (7, 0):
        model = architecture.build(vocab, 10, 40, torch.Generator().manual_seed(3))
        found |= {f"{vocab} {name}": value for name, value in weights(model).items()}
        ids = (torch.arange(2 * 36).reshape(2, 36) * 5) % 7
        x = ids if vocab else ids.float() - 3
        torch.manual_seed(5)
        found[f"{vocab} in training"] = summary(model(x).detach())
        model.eval()
        found[f"{vocab} out"] = summary(model(x).detach())
        if can_decode(model):
            by_step = decoder(model)
            state = by_step.prefill(x[:, :30], torch.tensor([30, 20]))
            stepped = [by_step.step(x[:, at], state).detach() for at in range(30, 36)]
            found[f"{vocab} stepped"] = summary(torch.stack(stepped))
    return found


SMALL = Train(steps=5, batch_size=16, warmup=2, decay=0.4, lr=1e-2)
OFTEN = Evaluate(check_every=2, check_samples=16, verdict_samples=64)


def trained(
    task: Task,
    model: Model,
    train: Train = SMALL,
    stop: Stop = Stop(),  # noqa: B008 (it is frozen)
    factors: tuple[float, ...] = (),
) -> dict[str, Any]:
    """The first weights, each step of training, the last weights and the score."""
    torch.set_num_threads(1)
    settings = (task, model, train, OFTEN, stop, 3, 1.0, "cpu")
    run = ScoredLonger(factors, *settings) if factors else Training(*settings)
    found: dict[str, Any] = {"first": weights(run.model)}
    steps: list[list[Any]] = []
    while run.result is None:
        if run.step < 4 and stop == Stop():
            lr, loss = run.train_step()
            steps.append([lr, loss.item()])
        else:
            for row in run.advance():
                columns = row.columns if row else {}
                steps.append([columns.get(name) for name in ("step", "loss", "acc", "tokens")])
    # Of the weights only their sizes: where a gradient is 0, its sign is chance.
    sizes = {name: value[-2] for name, value in weights(run.model).items()}
    result = {
        name: value for name, value in run.result.columns.items() if not isinstance(value, str)
    }
    return found | {"steps": steps, "sizes": sizes, "ended": run.result.status, "score": result}


def trainings() -> Iterator[tuple[str, Case]]:
    chains, targets, reals = users.Sums(), users.Before(), users.Lagged(length=24, values="reals")
    plain = users.Plain(8)
    for name, task in {"chains": chains, "targets": targets, "reals": reals}.items():
        yield name, partial(trained, task, plain)
    for change in (
        *({"schedule": name} for name in ("cosine", "linear", "constant")),
        {"lr": LrRule(base=5e-3, at_d=32), "floor": 0.5},
        {"clip": 0.1, "beta1": 0.5, "beta2": 0.9},
        {"weight_decay": 0.5, "warmup": 0},
    ):
        train = replace(SMALL, **change)  # type: ignore[arg-type]
        yield str(change), partial(trained, targets, plain, train)
    yield "solved", partial(trained, targets, plain, SMALL, Stop(success=0.01))
    yield "tokens", partial(trained, targets, plain, SMALL, Stop(tokens=200))
    yield "lengths", partial(trained, chains, plain, SMALL, Stop(), (2.0,))


def run_of(loop: Mapping[str, Any]) -> dict[str, Any]:
    """The rows and the result of a user's own loop, or of a program."""
    base = Path(__file__).parent
    text = json.dumps({"loop": loop, "seeds": [7], "goal": "acc > 0.5"})
    [trial] = plan(parse_grid(text, "grid.yaml", [], base)).planned
    if trial.program:
        run: Any = ProgramRun(trial, base, Resources(1, 0), 0.0, str(os.getpid()))
    else:
        run = started(trial, base, "cpu")
    found = [row.columns for row in run.advance() if row]
    if trial.program:
        run.close()
    times = ("seconds", "train_flops")
    steps = [{name: value for name, value in row.items() if name not in times} for row in found]
    return {"steps": steps, "ended": run.result.status, "score": dict(run.result.columns)}


def differences(kept: Any, now: Any, at: str = "") -> Iterator[str]:
    """What differs between two results: numbers by more than CLOSE, all else at all."""
    if isinstance(kept, dict) and isinstance(now, dict):
        for name in dict.fromkeys((*kept, *now)):
            yield from differences(kept.get(name), now.get(name), f"{at} {name}")
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        for i, (one, other) in enumerate(zip(kept, now, strict=True)):
            yield from differences(one, other, f"{at}[{i}]")
    elif isinstance(kept, float) and isinstance(now, float):
        if not abs(kept - now) <= CLOSE * max(1.0, abs(kept)):
            yield f"{at}: {now!r}, not {kept!r}"
    elif kept != now:
        yield f"{at}: {now!r}, not {kept!r}"


@cache
def kept() -> dict[str, Any]:
    return dict(json.loads(KEPT.read_text()))


def stated(unit: str) -> str:
    """The line that states the version of a file of ours, or "" if there is none."""
    lines = (PACKAGE / unit).read_text().splitlines()
    return next((line for line in lines if line.startswith("VERSION = ")), "")


def changes(unit: str) -> list[str]:
    """What a unit does otherwise than golden.json says, in the cases that are there."""
    past = kept()["does"][unit]["cases"]
    now = {name: case for name, case in units()[unit].items() if name in past}
    return [
        f"{name}:{each}"
        for name, case in now.items()
        for each in differences(past[name], json.loads(json.dumps(case())))
    ]


def below(unit: str) -> list[str]:
    """The other units that are part of what a unit's cases do, and of the code of its trials."""
    folder, _, name = unit.partition("/")
    if name == "base.py" or folder == "tasks" or unit.endswith(("own_loop.py", "program.py")):
        return []
    bases = ["tasks/base.py", "models/base.py"]
    return bases if unit == "trial/training.py" else [*bases[:1], "trial/training.py"]


def fault(unit: str, changes: Callable[[str], list[str]] = changes) -> str | None:
    """What must be done about a unit, or None. A change below it is not its own."""
    past = kept()["does"].get(unit)
    if not stated(unit):
        return f"{unit} states no version; write `VERSION = 1` below its imports"
    if past is None or units()[unit].keys() != past["cases"].keys():
        return f"not all of {unit} is kept; {AGAIN}"
    found = changes(unit)
    if past["version"] != stated(unit):
        return f"{unit} has a new version; {AGAIN}"
    if not found:
        return None
    for lower in below(unit):
        if changes(lower):
            return fault(lower, changes)
    return (
        f"{unit} does something else than its version says: bump the version of {unit}, run "
        "`make golden` and commit golden.json, or undo the change\n" + "\n".join(found[:10])
    )


def pins() -> dict[str, str]:
    return {name: version(name).partition("+")[0] for name in ("torch", "numpy")}


def write() -> None:
    """Writes golden.json. Exits with what is wrong where a unit changed and its version did not,
    unless another torch or numpy was pinned."""
    if KEPT.exists() and kept()["made with"] == pins():
        once = cache(changes)
        faults = {fault(unit, once) or AGAIN for unit in units()}
        if wrong := sorted(each for each in faults if not each.endswith(AGAIN)):
            sys.exit("\n".join(wrong))
    does = {
        unit: {"version": stated(unit), "cases": {name: case() for name, case in cases.items()}}
        for unit, cases in sorted(units().items())
    }
    KEPT.write_text(
        "".join(
            [
                f'{{"made with": {json.dumps(pins())},\n"does": {{',
                ",".join(f"\n{json.dumps(unit)}: {_text(does[unit])}" for unit in does),
                "\n}}\n",
            ]
        )
    )


def _text(does: Mapping[str, Any]) -> str:
    """JSON with a line for each case."""
    lines = (f"\n  {json.dumps(name)}: {json.dumps(case)}" for name, case in does["cases"].items())
    return f'{{"version": {json.dumps(does["version"])}, "cases": {{{",".join(lines)}\n}}}}'


if __name__ == "__main__":
    write()
