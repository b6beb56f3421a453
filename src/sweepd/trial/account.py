"""What is known of one trial: its settings, its curve, its code, and how to run it again."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path
from typing import Any

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid import lengths
from sweepd.grid.axes import plain
from sweepd.grid.fingerprint import current_code
from sweepd.grid.parameters import parameters
from sweepd.grid.parts import column
from sweepd.grid.registry import result_name
from sweepd.grid.spec import SETTINGS
from sweepd.grid.yamlfile import dump, parse
from sweepd.listing import SHORT_ID
from sweepd.statuses import UNTRIED
from sweepd.store.endings import counting
from sweepd.store.store import Store, SweepInfo

OUTCOME = ("acc", "loss", "chain_acc", "step", "seconds", "parent", "error", "host", "torch")
"""The columns of an ending that an account shows."""
COSTS = ("params", "flops", "flops_weights", "state_bytes", "train_flops")
Settings = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Account:
    """What a store has of one trial.

    settings: the fields of each block of the grid. curve: its rows of `metrics` by step; those of
    its parents come before its own. sources: the text of the user's files as they ran. Each file is
    named by its path from the grid's folder. A file of a package is named by its path from the
    folder from which the package is imported.
    """

    id: str
    sweep: str
    status: str
    code: str
    seed: int
    lengths: str | None
    """The multiples of its length at which the trial was to be scored too, as a list in YAML."""
    settings: Settings
    outcome: Mapping[str, Any]
    curve: tuple[Mapping[str, Any], ...]
    metrics: tuple[str, ...]
    """The metrics of the curve that the user's own task or loop reports besides acc and loss."""
    code_files: Mapping[str, str]
    changed: tuple[str, ...]
    """The files of the code that are different now, were added or are gone."""
    sources: Mapping[str, str]
    grid: str
    """A grid of this trial alone, as YAML."""
    command: str
    """The command that launches the trial again. It gets the same id as long as the code is the
    same."""

    def checks(self) -> list[Mapping[str, Any]]:
        """Returns the rows of the curve that have a score, and the last row in any case."""
        scores = ("acc", *self.metrics)
        return [
            row
            for row in self.curve
            if any(row.get(name) is not None for name in scores) or row is self.curve[-1]
        ]


def account_of(store: Store, start: str) -> Account:
    """Returns what is known of the trial whose id begins with `start`.

    Raises UserError where not exactly one id begins so, or where the trial's sweep no longer has
    its task or model. Raises EnvironmentFailure where its sweep or its code is damaged.
    """
    id_ = store.find_trial(start)
    planned = [row for row in store.read_plans().table.to_pylist() if row["id"] == id_]
    endings = {row["id"]: row for row in counting(store.read_trials().table).to_pylist()}
    ending = endings.get(id_, {})
    # A trial of an earlier code, or of a former grid, is in no plan any more.
    row = max(planned or [ending], key=lambda one: one["sweep"] == ending.get("sweep"))
    sweep, info = row["sweep"], store.load_sweep(row["sweep"])
    frozen = parse(store.load_grid(sweep), f"{store.address}/sweeps/{sweep}/grid.yaml").data
    kinds = ("loop", "stop") if "loop" in frozen else ("task", "model", *SETTINGS)
    settings = {kind: _block(frozen, kind, row, info) for kind in kinds}
    classes = info.classes_of(row["task"], row["model"])
    now = current_code(classes, Path(info.base))
    code_files = info.code_files.get(row["code"], {})
    curve = tuple(_curve(store, id_, endings))
    own = {kind: _named(kind, block) for kind, block in settings.items()}
    factors = row.get(lengths.COLUMN)
    alone = {**own, "seeds": [row["seed"]], "search": "grid", "settle": "off"}
    if factors or frozen.get(lengths.KEY):
        alone[lengths.KEY] = json.loads(factors or "[]")
    return Account(
        id=id_,
        sweep=sweep,
        status=ending.get("status", UNTRIED),
        code=row["code"],
        seed=row["seed"],
        lengths=factors,
        settings=settings,
        outcome={name: ending.get(name) for name in (*info.metrics, *OUTCOME)}
        | {name: row.get(name) for name in COSTS},
        curve=curve,
        metrics=tuple(name for name in info.metrics if any(name in row for row in curve)),
        code_files=code_files,
        changed=tuple(_changed(code_files, now.files)) if now else ("its files are gone",),
        sources=dict(_sources(store, info, row["code"])),
        grid=dump({**frozen, **alone}),
        command=_command(store, sweep, info, alone),
    )


def changed_settings(one: Account, other: Account) -> Iterator[tuple[str, str, Any, Any]]:
    """Yields the block, the field and both values of each setting in which two trials differ."""
    for block in dict.fromkeys((*one.settings, *other.settings)):
        mine, theirs = (of.settings.get(block, {}) for of in (one, other))
        for name in dict.fromkeys((*mine, *theirs)):
            if mine.get(name) != theirs.get(name):
                yield block, name, mine.get(name), theirs.get(name)
    for name in ("seed", "lengths"):
        if (mine := getattr(one, name)) != (theirs := getattr(other, name)):
            yield "", name, mine, theirs


def changed_code(one: Account, other: Account) -> Iterator[str]:
    """Yields the lines in which the code of two trials differs, from the other's to the one's. Of
    the user's files it yields what differs in them. Of sweepd's own files it names those that
    differ."""
    for name in dict.fromkeys((*other.sources, *one.sources)):
        before, after = (of.sources.get(name, "").splitlines() for of in (other, one))
        yield from difflib.unified_diff(
            before,
            after,
            f"{other.id[:SHORT_ID]} {name}",
            f"{one.id[:SHORT_ID]} {name}",
            lineterm="",
        )
    ours = set(_changed(other.code_files, one.code_files)) - {*one.sources, *other.sources}
    yield from (f"other code of sweepd: {name}" for name in sorted(ours))


def write_out(account: Account, folder: Path) -> None:
    """Writes a trial's own grid, and the user's files that it runs, to a new folder. Raises
    UserError if the folder is not empty, or if a file would lie outside of it, and
    EnvironmentFailure if the folder cannot be written."""
    try:
        _write_out(account, folder)
    except OSError as error:
        raise EnvironmentFailure(f"cannot write {folder}: {error.strerror}") from error


def _write_out(account: Account, folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty: name a new folder")
    for name, text in {**account.sources, "grid.yaml": account.grid}.items():
        path = Path(normpath(folder.absolute() / name))
        if not path.is_relative_to(folder.absolute()):
            raise UserError(f"{name} lies above the grid's folder; `sweepd resume` puts it back")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _block(frozen: Any, kind: str, row: Mapping[str, Any], info: SweepInfo) -> dict[str, Any]:
    """Returns the fields of one block. A task, a model or a loop also has its `name` and, where the
    grid gives one, its alias `as`. Raises UserError if the sweep no longer has the class."""
    blocks = frozen[kind] if isinstance(frozen[kind], list) else [frozen[kind]]
    if kind in SETTINGS:
        fields, named = list(parameters(SETTINGS[kind])), {}
    else:
        base = Path(info.base)
        called = row["model" if kind == "loop" else kind]
        named_so = (
            block
            for block in blocks
            if called == (block.get("as") or result_name(block["name"], base))
        )
        block = next(named_so, None)
        if block is None:
            raise UserError(
                f"{row['id']}: sweep {row['sweep']} has no {kind} {called} any more, so nobody "
                "knows its fields; the trial's rows are in the view `attempts` (`sweepd sql`)"
            )
        # An ending has no column for a field that its class got later.
        later = {name for name in block if "status" in row and row.get(column(kind, name)) is None}
        fields = [name for name in block if name not in {"name", "as", *later}]
        named = {name: block[name] for name in ("name", "as") if name in block}
    return named | {name: _read(kind, row.get(column(kind, name))) for name in fields}


def _read(kind: str, value: Any) -> Any:
    """Returns a value as a grid has it. Results hold rules as JSON. In a column that has rules,
    they hold numbers as text."""
    if kind in SETTINGS and isinstance(value, str):
        with suppress(ValueError):
            return json.loads(value)
    return value


def _named(kind: str, block: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a block as it is written in a grid. Settings with their defaults are left out."""
    if kind not in SETTINGS:
        return dict(block)
    defaults = {name: plain(p.default) for name, p in parameters(SETTINGS[kind]).items()}
    return {name: value for name, value in block.items() if value != defaults[name]}


def _changed(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    names = dict.fromkeys((*then, *now))
    return [name for name in names if then.get(name) != now.get(name)]


def _curve(
    store: Store, id_: str, endings: Mapping[str, Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Returns a trial's rows of metrics by step. Rows of its parents come before its first own row.
    Where several attempts have a row for a step, the newest attempt's is taken."""
    found: dict[int, Mapping[str, Any]] = {}
    whose: str | None = id_
    seen = set()  # a damaged store may name a trial as its own forebear
    while whose and whose not in seen:
        seen.add(whose)
        own: dict[int, Mapping[str, Any]] = {}
        for row in sorted(store.read_metrics([whose]).table.to_pylist(), key=_attempt):
            if row["id"] == whose:
                own[row["step"]] = row
        first = min(found, default=None)
        found |= {step: row for step, row in own.items() if first is None or step < first}
        whose = endings.get(whose, {}).get("parent")
    return [found[step] for step in sorted(found)]


def _attempt(row: Mapping[str, Any]) -> int:
    return int(row["attempt"])


def _sources(store: Store, info: SweepInfo, code: str) -> Iterator[tuple[str, str]]:
    kept = info.sources.get(code, {})
    for name, digest in {**kept.get("beside", {}), **kept.get("packages", {})}.items():
        yield name, store.read_source(digest).decode(errors="replace")


def _command(store: Store, sweep: str, info: SweepInfo, alone: Mapping[str, Any]) -> str:
    """Returns the command that launches a grid of this sweep with all blocks set. It names the grid
    file that was launched, where that still exists, since the user's files lie beside it. Otherwise
    it names the frozen grid, which lies in the store."""
    sets = [
        option for name, value in alone.items() for option in ("--set", f"{name}={_flow(value)}")
    ]
    return shlex.join(["sweepd", "launch", _grid_file(store, sweep, info), *sets])


def _grid_file(store: Store, sweep: str, info: SweepInfo) -> str:
    for launch in reversed(store.launches()):
        words = launch.get("command", [])
        if launch.get("sweep") == sweep and "launch" in words:
            for word in words[words.index("launch") + 1 :]:
                if word.endswith((".yaml", ".yml")) and not word.startswith("-"):
                    path = Path(info.base, Path(word).name)
                    if path.is_file():
                        return str(path)
    return f"{store.address}/sweeps/{sweep}/grid.yaml"


def _flow(value: Any) -> str:
    """Returns a value as YAML in one line."""
    return value if isinstance(value, str) else json.dumps(value)
