"""Files that say what a paper claims (`claims/*.yaml`), checked like grids. docs/query.md explains
them; `sweepd.query.claims` judges them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Literal

import duckdb
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sweepd.closest import closest
from sweepd.errors import UserError
from sweepd.grid import lengths
from sweepd.grid.fingerprint import PACKAGE
from sweepd.grid.options import OF_ANSWERS, OF_CELLS, RESERVED, column
from sweepd.grid.starters import shipped_grids
from sweepd.grid.yamlfile import Document, GridError, Keys, parse, read, refuse_invalid
from sweepd.query.cells_sql import COSTS, SCORES
from sweepd.query.expressions import TRUE
from sweepd.query.parser import TOKEN, Question
from sweepd.query.parser import parse as parse_question
from sweepd.query.sandbox import sandbox

FOLDER = PACKAGE / "claims"
ALIASES = {"paper": "yang2024"}
"""Other names of files that ship."""
_COMPARISON = re.compile(r"\s*(.+?)\s*(>=|<=|<>|=|>|<)\s*(.+?)\s*")
_OPERAND = re.compile(
    r"(?P<number>-?\d*\.?\d+(?:e[-+]?\d+)?)|'(?P<text>[^']*)'"
    r"|(?:(?P<times>\d*\.?\d+) *\* *)?(?P<other>other\.)?(?P<name>[A-Za-z_]\w*)"
)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Control(_Part):
    """The same question where the paper claims nothing, such as to another model."""

    ask: str
    holds: str = ""
    """What should hold there; if it does not, nobody can tell about the claim. Without it the rows
    are held against what the claim says, and only shown."""


class Claim(_Part):
    says: str
    grid: str = ""
    """The grid that measures it: the name of one that ships, or the path of a file."""
    ask: str
    holds: str
    """What every row of the answer must meet, such as `exponent > 0.25`."""
    beside: dict[str, Any] = {}
    """The row that each row is held against: that with these values, and the same in all else."""
    control: Control | None = None
    at: dict[str, Any] = {}
    """The settings that the claim speaks of: a value, a list of values, or either by task."""
    every: str = ""
    """The column of which the claim needs every value in `at`."""
    bound: Literal["lower", "upper", "both"] = "both"
    """What theory gives. More than an upper bound contradicts nothing."""


class PublishedTable(_Part):
    says: str
    grid: str
    """A grid that ships and plans each row's trial: our count of its FLOPs stands beside it."""
    ask: str
    """A question for the least d. Its rows are matched with those below by the columns of both."""
    rows: tuple[dict[str, Any], ...]
    """Each with `d`, and with `published_gflops` of one forward pass."""


class Paper(_Part):
    paper: str
    at: dict[str, Any] = {}
    """The settings of all claims that have none of their own."""
    exponents: dict[str, dict[str, str]] = {}
    """What theory gives for the exponent of d in L, up to logarithms, by model and task."""
    claims: tuple[Any, ...] = Field(min_length=1)
    """Each a `Claim`."""
    tables: tuple[PublishedTable, ...] = ()


def shipped_claims() -> dict[str, Path]:
    """Returns the files of claims that come with sweepd, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


def predictions() -> dict[tuple[str, str], str]:
    """Returns the exponents of d in L that the shipped files give, by task and model."""
    exponents = {}
    for path in shipped_claims().values():
        if "\nexponents:" in (text := read(path)):  # reading YAML takes a while
            for model, tasks in parse(text, str(path)).data["exponents"].items():
                exponents.update({(task, model): exponent for task, exponent in tasks.items()})
    return exponents


def load_claims(where: str, columns: Collection[str] = ()) -> Paper:
    """Returns the claims of a file, or of one that sweepd ships, by its name. columns: those of the
    store, which may be of users' own classes. Raises GridError with all that is wrong with the
    file."""
    where, shipped = ALIASES.get(where, where), shipped_claims()
    path = shipped.get(where, Path(where))
    if not path.suffix:
        hint = closest(where, shipped)
        raise UserError(f"no claims ship as {where}{hint}: name a file, or {', '.join(shipped)}")
    document = parse(read(path), str(path))
    paper: Paper = _checked(document, (), document.data, Paper)
    claims = []
    parts = document.data.get("claims")
    for number, raw in enumerate(parts if isinstance(parts, list) else ()):
        keys = ("claims", number)
        if claim := _checked(document, keys, raw, Claim):
            if paper and "at" not in raw:
                claim = claim.model_copy(update={"at": paper.at})
            claims.append(claim)
            if where not in shipped:  # tests check those that ship
                for inner, message in _faults(claim, path.parent, columns):
                    document.refuse((*keys, *inner), message)
    if document.problems:
        raise GridError(document.problems)
    return paper.model_copy(update={"claims": tuple(claims)})


def _checked(document: Document, keys: Keys, raw: Any, kind: type[BaseModel]) -> Any:
    """A part of a file as its class, or None where the document refuses it."""
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        refuse_invalid(document, error, kind, keys)
    return None


def _faults(claim: Claim, base: Path, columns: Collection[str]) -> Iterator[tuple[Keys, str]]:
    """Yields what is wrong with a claim besides its types: where, and why."""
    grids, con = shipped_grids(), sandbox()
    if claim.grid and claim.grid not in grids and not (base / claim.grid).is_file():
        yield ("grid",), f"no such grid{closest(claim.grid, grids)}; name one that ships, or a file"
    if claim.every and claim.every not in claim.at:
        yield ("every",), f"say in `at` which values of {claim.every} are needed"
    named: list[tuple[Keys, str]] = [(("at", name), name) for name in claim.at]
    named += [(("beside", name), name) for name in claim.beside]
    asked: list[tuple[Keys, str, str]] = [((), claim.ask, claim.holds)]
    if control := claim.control:
        asked.append((("control",), control.ask, control.holds or claim.holds))
    for keys, ask, holds in asked:
        tokens = TOKEN.findall(ask.lower()) or [""]
        known = {*OF_ANSWERS.get(tokens[0], ()), *RESERVED, *OF_CELLS, *SCORES, *tokens, *claim.at}
        try:
            for side in [side for left, _, right in comparisons(holds) for side in (left, right)]:
                if side["name"] and side["name"] not in known:
                    hint = closest(side["name"], known)
                    yield (*keys, "holds"), f"the answer has no {side['name']}{hint}"
                if side["other"] and not claim.beside:
                    yield (*keys, "holds"), "`other` needs a row: write `beside: {model: …}`"
        except UserError as error:
            yield (*keys, "holds"), str(error)
        try:
            question = parsed(ask, con)
        except UserError as error:
            yield (*keys, "ask"), str(error)
            continue
        if question.verb in ("min", "fit") and question.where is None:
            yield (*keys, "ask"), "say when a cell passes, as in `where acc > 0.9`"
        nodes = [*(node for _, node in question.expressions), question.where or TRUE]
        words = {*(question.by or ()), question.along or "d"}
        named += [((*keys, "ask"), name) for name in words.union(*(n.columns for n in nodes))]

    # A name that is no column is wrong where it is like one, or a text without quotes. Any other
    # may be of a user's own class, of which no sweep is there yet.
    real = {*columns, *RESERVED, *OF_CELLS, *COSTS, *SCORES, "d"}
    real |= {name for _, name in named if lengths.is_column(name)}
    if all(name in real for _, name in named):
        return
    from sweepd.grid.registry import parameters, shipped
    from sweepd.grid.spec import SETTINGS

    every = [*shipped("task"), *shipped("model")]
    real |= {column(kind, field) for kind, one in SETTINGS.items() for field in parameters(one)}
    real = real.union(*(entry.parameters for entry in every))
    for keys, name in named:
        hint = "" if name in real else closest(name, real)
        if name in {entry.name for entry in every} - real:
            hint = f"; a text stands in quotes: '{name}'"
        if hint:
            yield keys, f"no column {name}{hint}"


def parsed(text: str, con: duckdb.DuckDBPyConnection) -> Question:
    """Returns the question of a text, where every word may be a column, or raises UserError."""
    words = [token.strip('"') for token in TOKEN.findall(text)]
    return parse_question(text, [word for word in words if word.isidentifier()], {}, con)


def comparisons(holds: str) -> list[tuple[re.Match[str], str, re.Match[str]]]:
    """Returns the comparisons that a text joins with `and`: two sides and the operator between. A
    side has a number, a text, or the name of a column (of the other row, or times a factor). For
    anything else it raises UserError."""
    joined = []
    for part in re.split(r"\s+and\s+", holds.strip()):
        match = _COMPARISON.fullmatch(part)
        left, right = (_OPERAND.fullmatch(match[side]) if match else None for side in (1, 3))
        if not match or not left or not right:
            raise UserError(f"{part!r} is no comparison, such as `value > 2 * other.value`")
        joined.append((left, match[2], right))
    return joined
