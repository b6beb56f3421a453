"""What was asked for. Each sweep has a folder with its frozen grid, its plan and `sweep.json`."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, Literal, Self

import pyarrow as pa

from sweepd.closest import closest
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.limits import FIELD, GOAL, LARGEST_INT, METRIC, PASS_RULES
from sweepd.listing import Row
from sweepd.store.schema import PLAN
from sweepd.store.storage import (
    DIGEST_KEY,
    FORMAT,
    MOST_TEXT,
    NO_DIGEST,
    Damaged,
    File,
    Folder,
    Result,
    Whole,
    check_digest,
    checked,
    each,
    from_json,
    is_name,
    to_json,
    with_digest,
)
from sweepd.store.tables import Read, look, to_parquet

INFO, GRID, PLANNED = "sweep.json", "grid.yaml", "plan.parquet"
SETTLES = ("factor", "least", "most")
SHAPE = {
    **dict.fromkeys(("created", "base", "goal", "pass", "search", "minimized"), str),
    "tune": [str],
    "accepted_for": {str: [str]},
    "extra_seeds": [int],
    "fresh_seeds": [int],
    "size_fields": {str: str},
    "task_fields": {str: [str]},
    "code_files": {str: {str: str}},
    "neutral": {kind: {str: {str: object}} for kind in ("task", "model")},
    "settle": Whole(dict.fromkeys(SETTLES, (int, float))),
    "metrics": {str: str},
    "own_classes": {str: {str: Whole({"where": str, "defaults": {str: object}})}},
    "sources": {str: Whole({"beside": {str: str}, "packages": {str: str}})},
}
"""The types of the fields that are read from `sweep.json`. Other keys, which later versions may
write, are ignored."""
GRID_ENDS = f"\n# {DIGEST_KEY}: {NO_DIGEST}\n"
"""The remark below a frozen grid, with its digest in place of the zeros."""


@dataclass(frozen=True, kw_only=True)
class SweepInfo:
    """What launches and questions need to know of a sweep besides its trials: `sweep.json`."""

    goal: str
    """The goal as the grid writes it, such as `acc > 0.9`."""
    pass_rule: str = "median"
    tune: tuple[str, ...] = ()
    """The nuisance axes, such as `train.lr`."""
    search: str = "grid"
    extra_seeds: tuple[int, ...] = ()
    """The seeds that only cells close to the goal get."""
    fresh_seeds: tuple[int, ...] = ()
    """The seeds that only confirm what passed."""
    base: str = "."
    """The folder from which the grid's own paths start. It is an absolute path on the machine that
    launched the sweep, and a cluster need not have it."""
    created: str = ""
    """The time at which the sweep was first saved (ISO 8601, UTC). The store fills it in."""
    accepted_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each other version of the code whose trials count, the versions in whose place they do.
    All are digests."""
    size_fields: Mapping[str, str] = field(default_factory=dict)
    """For each task, the field that is its size."""
    task_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each task, the columns that hold its fields."""
    code_files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each code that planned the sweep, the digests of its files."""
    neutral: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """By kind (`task` or `model`) and name, the columns of fields that came later, each with the
    value at which it changes nothing. Trials from before the field stand at that value."""
    settle: Mapping[str, float] | None = None
    """`factor`, `least` and `most` of the grid's `settle`, if it has one."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """The metrics that the user's own tasks and loops report besides acc and loss. Each is `up` or
    `down`, whichever is better."""
    minimized: str = "d"
    """The field whose least value the grid asks for; empty where there is none, or where there are
    several."""
    own_classes: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """The user's own classes by kind (`task`, `model`, `loop`) and by their name in results.
    `where` says where the class is, as the grid writes it. `defaults` holds the defaults of its
    fields."""
    sources: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    """For each code that planned the sweep, the user's own files, with the names that
    `Store.keep_source` gave them. Files `beside` the grid go by their path from its folder. Files
    of `packages` go by their path from the folder from which the package is imported. Those of the
    latest launch come last."""

    def accepts(self, code: str, present: str) -> bool:
        """Returns whether another version's trials count in place of the present code's."""
        return present in self.accepted_for.get(code, ())

    def class_of(self, kind: str, name: str) -> str:
        """Returns where the class is that results call `name`, as a grid writes it."""
        own = self.own_classes.get(kind, {}).get(name)
        return name if own is None else str(own["where"])

    def classes_of(
        self, task: str, model: str
    ) -> tuple[tuple[Literal["task", "model", "loop"], str], ...]:
        """Returns the classes that such trials run. Results name a loop as the model."""
        if model in self.own_classes.get("loop", {}):
            return (("loop", self.class_of("loop", model)),)
        return ("task", self.class_of("task", task)), ("model", self.class_of("model", model))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Returns the sweep that the content of a `sweep.json` describes. The content must have
        the types in SHAPE. Raises ValueError if it has no goal, or what no grid has."""
        if "goal" not in data:
            raise ValueError("it has no goal")
        known = {key: data[key] for key in SHAPE if key in data}
        if "pass" in known:
            known["pass_rule"] = known.pop("pass")
        for name in ("tune", "extra_seeds", "fresh_seeds"):
            known[name] = tuple(known.get(name, ()))
        for name in ("task_fields", "accepted_for"):
            known[name] = {key: tuple(values) for key, values in known.get(name, {}).items()}
        info = cls(**known)
        if wrong := next(faults(info), None):
            raise ValueError(f"not what a grid says: {wrong}")
        return info

    def to_json(self) -> dict[str, Any]:
        """Returns the content of `sweep.json`."""
        content = {key: getattr(self, "pass_rule" if key == "pass" else key) for key in SHAPE}
        return {key: value for key, value in content.items() if value is not None}


def changed_files(past: Mapping[str, str], present: Mapping[str, str]) -> set[str]:
    """Returns the files of a past code that the present code lacks or has otherwise. Both are as in
    `SweepInfo.code_files`. The files of sweepd itself go by that name where they counted one by one
    by their content, as they did before they had versions."""
    changed = {file for file, digest in past.items() if digest != present.get(file)}
    if any(file.startswith("sweepd/") for file in past):
        return changed
    return {"sweepd"} | changed.intersection(present)


def faults(info: SweepInfo) -> Iterator[str]:
    """Yields what a sweep says that no grid can say. What a `sweep.json` names becomes columns of
    questions and paths, wherever the file comes from."""
    if not _is_goal(info.goal):
        yield f"the goal {info.goal!r}"
    if info.pass_rule not in PASS_RULES:
        yield f"pass: {info.pass_rule!r}"
    for name, better in info.metrics.items():
        if not re.fullmatch(METRIC, name) or better not in ("up", "down"):
            yield f"the metric {name!r}: {better!r}"
    fields = [info.minimized or "d", *(name.rpartition(".")[2] for name in info.tune)]
    fields += [*info.size_fields.values(), *chain(*info.task_fields.values())]
    yield from (f"the field {name!r}" for name in fields if not re.fullmatch(FIELD, name))
    numbers: list[float] = [*info.extra_seeds, *info.fresh_seeds]
    numbers += [number for name, number in (info.settle or {}).items() if name in SETTLES]
    yield from (f"the number {n}" for n in numbers if not 0 <= n <= LARGEST_INT)
    if "\0" in info.base:
        yield f"the folder {info.base!r}"


def _is_goal(text: str) -> bool:
    goal = re.fullmatch(GOAL, text)
    try:
        return goal is not None and math.isfinite(float(goal["number"]))
    except ValueError:
        return False


def accepting(*acceptances: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    """Returns what a sweep accepts that accepts all of these (see `SweepInfo.accepted_for`)."""
    codes = sorted(set().union(*acceptances))
    return {c: tuple(sorted(set().union(*(one.get(c, ()) for one in acceptances)))) for c in codes}


BATCH = 10_000
"""The number of rows of a plan that are in memory at once as Python objects."""


class SweepFolder:
    """The sweeps of a store, each in `sweeps/<sweep>/`. A sweep exists once its `sweep.json`
    does, which is written last."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._listed: dict[str, str | None] = {}
        """For each sweep, the version of its sweep.json when it was last listed."""

    def save_sweep(
        self, name: str, grid_text: str, info: SweepInfo, plan_rows: Iterable[Row]
    ) -> None:
        """Makes or replaces a sweep. The time at which it was first `created` is filled in.
        Raises UserError for a name that cannot be a folder's."""
        rows = iter(plan_rows)
        parts = iter(lambda: [{**row, "sweep": name} for row in islice(rows, BATCH)], [])
        plan = PLAN.concat(map(PLAN.table, parts))
        try:
            created = self._info(name).created
        except (FileNotFoundError, ValueError):
            created = datetime.now(UTC).isoformat()
        self.write_sweep(name, grid_text, replace(info, created=created), plan)

    def write_sweep(self, name: str, grid_text: str, info: SweepInfo, plan: pa.Table) -> None:
        """Makes or replaces a sweep whose `created` and whose plan's `sweep` are filled in."""
        content = {"format": FORMAT, "name": name, **info.to_json()}
        grid = with_digest((grid_text + GRID_ENDS).encode())
        self.folder.put(_path(name, GRID), grid)
        self.folder.put(_path(name, PLANNED), to_parquet(plan, own_digest=True))
        self.folder.put(_path(name, INFO), to_json(content))
        self._listed.pop(name, None)

    def load_sweep(self, name: str) -> SweepInfo:
        """Returns what is known of a sweep besides its trials. Raises UserError if there is no
        such sweep, and EnvironmentFailure if it is damaged."""
        return self._load(name, INFO, lambda: self._info(name))

    def load_grid(self, name: str) -> str:
        """Returns the text of a sweep's frozen grid. Raises the errors of `load_sweep`."""
        return self._load(name, GRID, lambda: self.read_grid(name))

    def _load(self, name: str, file: str, read: Callable[[], Result]) -> Result:
        try:
            return read()
        except FileNotFoundError:
            if name not in (known := self.sweeps()):
                raise self._unknown(name, known) from None
            reason = "missing"
        except ValueError as error:
            reason = f"damaged: {error}"
        where = self.folder.where(_path(name, file))
        raise EnvironmentFailure(f"{where} is {reason}; launch it again")

    def sweeps(self) -> list[str]:
        """Returns the names of all sweeps in the order of creation, damaged ones first."""
        return list(self._infos(self.folder.files("sweeps")))

    def readable_sweeps(self) -> tuple[dict[str, SweepInfo], tuple[Damaged, ...]]:
        """Returns all sweeps that are not damaged, in the order of creation, and the files of
        those that are."""
        files = self.folder.files("sweeps")
        infos = self._infos(files)
        damaged = [info for info in infos.values() if isinstance(info, Damaged)]
        for file in files:  # which are no sweeps, and look as if they were
            name, _, last = file.name.rpartition("/")
            where = self.folder.where(f"sweeps/{file.name}")
            if not (file.fit or name):
                damaged.append(Damaged(where, "no folder of a sweep: no link is followed"))
            elif last == INFO and not is_name(name):
                damaged.append(Damaged(where, "no sweep can be called so"))
        return {n: info for n, info in infos.items() if isinstance(info, SweepInfo)}, (*damaged,)

    def read_plans(self, sweeps: Sequence[str] | None = None) -> Read:
        """Returns the planned trials of these sweeps or of all. Raises UserError for an unknown
        sweep."""
        files = {file.name: file for file in self.folder.files("sweeps")}
        known = list(self._infos(files.values()))
        if unknown := set(sweeps or ()).difference(known):
            raise self._unknown(min(unknown), known)

        def plan(name: str) -> pa.Table | Damaged:
            where, file = self.folder.where(_path(name, PLANNED)), files.get(f"{name}/{PLANNED}")
            if file is None:
                return Damaged(where, "missing")
            content = look(self.folder, "sweeps", file, PLAN, whole=True)
            if isinstance(content, Damaged):
                return content
            table = content.table
            if table is None or {name}.issuperset(table["sweep"].to_pylist()):
                return table
            return Damaged(where, "the plan of another sweep")

        plans = each(plan, list(dict.fromkeys(known if sweeps is None else sweeps)))
        damaged = tuple(one for one in plans if isinstance(one, Damaged))
        return Read(PLAN.concat(one for one in plans if not isinstance(one, Damaged)), damaged)

    def _infos(self, files: Iterable[File]) -> dict[str, SweepInfo | Damaged]:
        """Returns, by name as in `sweeps`, what the `sweep.json` among these files say, or what is
        wrong with them. Raises EnvironmentFailure if one cannot be read, which may be whole: it
        says which other sweeps' trials, code and rules count."""
        split = ((*file.name.rpartition("/"), file.version) for file in files)
        self._listed = {
            name: version for name, _, last, version in split if last == INFO and is_name(name)
        }

        def info(name: str) -> tuple[str, str, SweepInfo | Damaged]:
            try:
                read = self._info(name)
                return read.created, name, read
            except (FileNotFoundError, ValueError) as error:
                return "", name, Damaged(self.folder.where(_path(name, INFO)), str(error))

        infos = sorted(each(info, self._listed), key=lambda one: one[:2])
        return {name: one for _, name, one in infos}

    def _info(self, name: str) -> SweepInfo:
        """Returns what a `sweep.json` says. Raises FileNotFoundError if there is none, and
        ValueError if it is damaged."""
        content = from_json(self._text(name, INFO), SHAPE)
        if content.get("name", name) != name:
            raise ValueError("it is another sweep's")
        info = SweepInfo.from_json(content)
        if not info.created:
            raise ValueError("it does not say when the sweep was created")
        return info

    def read_grid(self, name: str) -> str:
        """Returns the text of a frozen grid. Raises FileNotFoundError if there is none, and
        ValueError if it is damaged."""
        # It was written before a sweep.json with a digest, so it has one then, if it was not cut.
        wanted, data = check_digest(self._text(name, INFO)), self._text(name, GRID)
        if check_digest(data):
            data = data[: -len(GRID_ENDS)]
        elif wanted:
            raise ValueError("truncated or changed: it does not end in its digest")
        return data.decode()

    def _text(self, name: str, file: str) -> bytes:
        version = self._listed.get(name) if file == INFO else None
        return self.folder.read(_path(name, file), version, MOST_TEXT)

    def _unknown(self, name: str, known: Sequence[str]) -> UserError:
        there = ", ".join(known) or "none"
        hint = closest(name, known)
        return UserError(f"no sweep {name!r} in {self.folder.address}{hint}; there are: {there}")


def _path(sweep: str, file: str) -> str:
    return f"sweeps/{checked(sweep)}/{file}"
