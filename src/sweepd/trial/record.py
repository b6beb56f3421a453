"""What a store has of one trial: its settings, its curve, its code, and a grid that repeats it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path
from typing import Any

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid import lengths
from sweepd.grid.fingerprint import current_code
from sweepd.grid.options import column
from sweepd.grid.program import KEYS, is_derived
from sweepd.grid.registry import result_name
from sweepd.grid.spec import SETTINGS
from sweepd.grid.yamlfile import dump, parse
from sweepd.listing import SHORT_ID
from sweepd.statuses import UNTRIED
from sweepd.store.endings import counting
from sweepd.store.store import Store, SweepInfo
from sweepd.store.sweeps import changed_files

OUTCOME = ("acc", "loss", "chain_acc", "step", "seconds", "parent", "error", "host", "torch")
"""The columns of an ending that a record shows."""
COSTS = ("params", "flops", "flops_weights", "state_bytes", "train_flops")


@dataclass(frozen=True)
class TrialRecord:
    """What a store has of one trial. settings: the fields of each block of the grid. curve: its
    rows of `metrics` by step; those of its parents come before its own. sources: the text of the
    user's files as they ran (bytes that are none are escaped, as Python does with file names), by
    the path from the grid's folder, or from the folder from which the package is imported."""

    id: str
    sweep: str
    status: str
    code: str
    seed: int
    lengths: str | None
    """The multiples of its length at which the trial was to be scored too, as a list in YAML."""
    settings: Mapping[str, Mapping[str, Any]]
    outcome: Mapping[str, Any]
    curve: tuple[Mapping[str, Any], ...]
    metrics: tuple[str, ...]
    """The metrics of the curve that the user's own task or loop reports besides acc and loss."""
    code_files: Mapping[str, str]
    changed: tuple[str, ...]
    """The files of the code that are different now or are gone."""
    sources: Mapping[str, str]
    grid: str
    """A grid of this trial alone, as YAML. Beside the same code it gives a trial of the same id."""

    def checks(self) -> list[Mapping[str, Any]]:
        """Returns the rows of the curve that have a score, and the last row in any case."""
        scores = ("acc", *self.metrics)
        return [
            row
            for row in self.curve
            if any(row.get(name) is not None for name in scores) or row is self.curve[-1]
        ]


def record_of(store: Store, start: str) -> TrialRecord:
    """Returns the record of the trial whose id begins with `start`. Raises UserError where not
    exactly one does, or where the sweep no longer has its task or model, and EnvironmentFailure
    where its sweep or its code is damaged."""
    id_ = store.find_trial(start)
    planned = [row for row in store.read_plans().table.to_pylist() if row["id"] == id_]
    endings = {row["id"]: row for row in counting(store.read_trials().table).to_pylist()}
    ending = endings.get(id_, {})
    # A trial of an earlier code, or of a former grid, is in no plan any more.
    row = max(planned or [ending], key=lambda one: one["sweep"] == ending.get("sweep"))
    sweep, info = row["sweep"], store.load_sweep(row["sweep"])
    # The frozen grid has all values of the sweep. This trial's values are in its row.
    where = f"{store.address}/sweeps/{sweep}/grid.yaml"
    frozen = parse(store.load_grid(sweep), where).data
    factors = row.get(lengths.COLUMN)
    try:
        kinds = ("loop", "stop") if "loop" in frozen else ("task", "model", *SETTINGS)
        settings = {kind: _block(frozen[kind], kind, row, info) for kind in kinds}
        alone = {**frozen, **settings, "seeds": [row["seed"]], "search": "grid", "settle": "off"}
        if factors or frozen.get(lengths.KEY):
            alone[lengths.KEY] = json.loads(factors or "[]")
    except UserError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        why = f"it does not fit trial {id_} ({type(error).__name__}: {error})"
        raise EnvironmentFailure(f"{where} is damaged: {why}") from error
    now = current_code(info.classes_of(row["task"], row["model"]), Path(info.base))
    code_files = info.code_files.get(row["code"], {})
    # Rows of its parents come before its first own row. Of a step for which several attempts have a
    # row, the newest attempt's is taken.
    curve: dict[int, Mapping[str, Any]] = {}
    whose: str | None = id_
    seen = set()  # a damaged store may name a trial as its own forebear
    while whose and whose not in seen:
        seen.add(whose)
        rows = store.read_metrics([whose]).table.to_pylist()
        rows.sort(key=lambda row: int(row["attempt"]))
        own = {row["step"]: row for row in rows if row["id"] == whose}
        first = min(curve, default=None)
        curve |= {step: row for step, row in own.items() if first is None or step < first}
        whose = endings.get(whose, {}).get("parent")
    files = info.sources.get(row["code"], {})
    return TrialRecord(
        id=id_,
        sweep=sweep,
        status=ending.get("status", UNTRIED),
        code=row["code"],
        seed=row["seed"],
        lengths=factors,
        settings=settings,
        outcome={name: ending.get(name) for name in (*info.metrics, *OUTCOME)}
        | {name: row.get(name) for name in COSTS},
        curve=tuple(curve[step] for step in sorted(curve)),
        metrics=tuple(n for n in info.metrics if any(n in row for row in curve.values())),
        code_files=code_files,
        changed=tuple(sorted(changed_files(code_files, now.files)))
        if now
        else ("its files are gone",),
        sources={
            name: store.read_source(digest).decode(errors="surrogateescape")
            for name, digest in {**files.get("beside", {}), **files.get("packages", {})}.items()
        },
        grid=dump(alone),
    )


def _block(written: Any, kind: str, row: Mapping[str, Any], info: SweepInfo) -> dict[str, Any]:
    """Returns a block of the grid with the trial's values. written: the block, or several blocks of
    which the trial has one. Raises UserError if the sweep no longer has the trial's class."""
    blocks = written if isinstance(written, list) else [written]
    if kind not in SETTINGS:
        called = row["model" if kind == "loop" else kind]
        base = Path(info.base)
        blocks = [b for b in blocks if called == (b.get("as") or result_name(b["name"], base))]
        if not blocks:
            raise UserError(
                f"{row['id']}: sweep {row['sweep']} has no {kind} {called} any more, so nobody "
                "knows its fields; the trial's rows are in the view `attempts` (`sweepd sql`)"
            )
    values: dict[str, Any] = {}
    about = {"name", "as"}
    if "program" in blocks[0]:
        about = {name for name, value in blocks[0].items() if name in KEYS or is_derived(value)}
    for name, of_sweep in blocks[0].items():
        value = row.get(column(kind, name))
        if kind not in SETTINGS and name in about:
            value = of_sweep
        elif value is None and kind != "stop" and "status" in row:
            continue  # an ending has no column for a field that came later
        elif kind in SETTINGS and isinstance(value, str):
            # Results hold rules as JSON, and in a column that has rules, numbers as text.
            with suppress(ValueError):
                value = json.loads(value)
        values[name] = value
    return values


def changed_settings(one: TrialRecord, other: TrialRecord) -> Iterator[tuple[str, str, Any, Any]]:
    """Yields the block, the field and both values of each setting in which two trials differ."""
    for block in dict.fromkeys((*one.settings, *other.settings)):
        mine, theirs = (of.settings.get(block, {}) for of in (one, other))
        for name in _differing(mine, theirs):
            yield block, name, mine.get(name), theirs.get(name)
    for name in ("seed", "lengths"):
        if (mine := getattr(one, name)) != (theirs := getattr(other, name)):
            yield "", name, mine, theirs


def changed_code(one: TrialRecord, other: TrialRecord) -> Iterator[str]:
    """Yields the lines in which the user's files of two trials differ, from the other's to the
    one's, and names those of sweepd that differ."""
    for name in dict.fromkeys((*other.sources, *one.sources)):
        before, after = (of.sources.get(name, "").splitlines() for of in (other, one))
        was, now = (f"{of.id[:SHORT_ID]} {name}" for of in (other, one))
        yield from difflib.unified_diff(before, after, was, now, lineterm="")
    ours = set(_differing(other.code_files, one.code_files)) - {*one.sources, *other.sources}
    yield from (f"other code of sweepd: {name}" for name in sorted(ours))


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [name for name in dict.fromkeys((*one, *other)) if one.get(name) != other.get(name)]


def write_out(record: TrialRecord, folder: Path) -> None:
    """Writes a trial's own grid, and the user's files that it runs, to a new folder. Raises
    UserError if the folder is not empty, or if a file would lie outside of it, and
    EnvironmentFailure if the folder cannot be written."""
    try:
        if folder.exists() and any(folder.iterdir()):
            raise UserError(f"{folder} is not empty: name a new folder")
        for name, text in {**record.sources, "grid.yaml": record.grid}.items():
            path = Path(normpath(folder.absolute() / name))
            if not path.is_relative_to(folder.absolute()):
                raise UserError(
                    f"{name} lies above the grid's folder; `sweepd resume` puts it back"
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode(errors="surrogateescape"))
            path.chmod(0o755 if name in record.sources else 0o644)  # a program may be run
    except OSError as error:
        raise EnvironmentFailure(f"cannot write {folder}: {error.strerror}") from error
