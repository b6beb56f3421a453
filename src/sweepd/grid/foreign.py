"""A sweep of another program becomes a grid of a program: its parameters become fields, and the
words that it would pass become a command with these fields in braces."""

from __future__ import annotations

import json
import keyword
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from sweepd.grid.axes import range_values
from sweepd.grid.fingerprint import FOLDERS
from sweepd.grid.metrics import BETTER
from sweepd.grid.options import OF_CELLS, OF_SQL, RESERVED
from sweepd.grid.program import GIVEN, KEYS, is_derived
from sweepd.grid.yamlfile import dump, shown
from sweepd.limits import LARGEST_INT, METRIC, text_in_column

TAKEN = (*KEYS, *GIVEN, *RESERVED, *OF_CELLS, *OF_SQL, *keyword.kwlist, "cost")
"""The names that no field may have. A parameter of such a name gets `p_` in front."""
SEEDS = re.compile(r"(?i)(.*[\W_])?(random|rand|rng|global|manual)?_?(seed|random_state)")
"""The names of parameters that are seeds."""
POINTS = 5
"""The number of values of a range for which its file names none."""

Encode = Callable[[Any], str | None]
"""Writes a value as a word of the command, or a part of a word. None leaves the word out."""
Piece = str | tuple[str, Encode]
"""A part of a word: a text as it is, or a parameter and how its value is written."""


@dataclass
class Parameter:
    """A parameter of the other program's sweep. name: how that program calls it."""

    name: str
    values: list[Any]
    range: dict[str, Any] | None = None
    """The range, where the values are those of one."""
    comment: str = ""
    """What the grid says above its field."""


def span(low: float, high: float, scale: str) -> dict[str, Any]:
    """Returns a range between two numbers, as a grid writes it. Of few whole numbers it has all."""
    whole = "integers" in scale
    points = min(POINTS, int(high) - int(low) + 1) if whole else POINTS
    ends = (int(low), int(high)) if whole else (float(low), float(high))
    return {"from": ends[0], "to": ends[1], "points": points, "scale": scale}


@dataclass
class Draft:
    """A grid in the making. parameters: by name, in their order. words: those of the command.
    script: the file that is run, for the names in results. files: what its result depends on."""

    parameters: Mapping[str, Parameter]
    words: Sequence[Sequence[Piece]]
    script: str
    files: Sequence[str]
    name: str
    metric: str
    goal_up: bool | None
    notes: list[str] = field(default_factory=list)
    """What a user has to know, a sentence each."""
    last: Sequence[str] = ()
    """The last words of the command, with braces as a grid has them."""
    logger: str = ""
    """Where the program tells its numbers, as `from` of `rows` has it, where that is known."""

    def text(self) -> str:
        """Returns the text of the grid. What it cannot say is then among the notes."""
        encodes: dict[str, list[Encode]] = {name: [] for name in self.parameters}
        for word in self.words:
            for piece in word:
                if not isinstance(piece, str):
                    encodes[piece[0]].append(piece[1])
        seed = self._seed(encodes)
        fields: dict[str, Any] = {}
        seeds: list[int] = [0]
        templates: dict[str, list[str]] = {}
        comments: dict[str, str] = {}
        taken = {name.lower() for name in TAKEN}
        for name, parameter in self.parameters.items():
            values = self._distinct(parameter, encodes[name])
            if name == seed:
                seeds, called = values, "seed"
            else:
                called = re.sub(r"\W", "_", name.lstrip("+~"))
                bad_steps = called == "steps" and not all(map(_is_budget, values))
                while called.lower() in taken or not called.isidentifier() or bad_steps:
                    called, bad_steps = f"p_{called}", False
                taken.add(called.lower())
            written, templates[name] = self._written(name, called, values, encodes[name])
            if name == seed:
                continue
            if parameter.range and written == values:
                fields[called] = parameter.range
            else:
                fields[called] = written[0] if len(written) == 1 else written
            if parameter.comment:
                comments[called] = parameter.comment
        command = " ".join(map(_quoted, [*self._command(templates), *self.last]))
        return self._dumped(command, fields, seeds, comments)

    def _seed(self, encodes: Mapping[str, list[Encode]]) -> str | None:
        """Returns the parameter whose values are the seeds of the trials, or None."""
        names = [
            name
            for name, parameter in self.parameters.items()
            if SEEDS.fullmatch(name)
            and encodes[name]
            and all(type(v) is int and 0 <= v <= LARGEST_INT for v in parameter.values)
            and fits([f(parameter.values[0]) for f in encodes[name]], parameter.values[0])
        ]
        if "seed" in names:
            return "seed"
        return names[0] if names else None

    def _distinct(self, parameter: Parameter, encodes: Sequence[Encode]) -> list[Any]:
        """Returns the values that give different words."""
        by_words: dict[Any, Any] = {}
        for value in parameter.values:
            words = tuple(encode(value) for encode in encodes) or repr(value)
            if words in by_words:
                self.notes.append(f"{parameter.name} has {shown(value)} twice: it is tried once")
            by_words.setdefault(words, value)
        return list(by_words.values())

    def _written(
        self, name: str, called: str, values: list[Any], encodes: Sequence[Encode]
    ) -> tuple[list[Any], list[str]]:
        """Returns the values of a field, and a template for each place in which it stands."""
        mixed = {type(value) for value in values} == {int, float}
        forms: list[Encode | None] = [None, str, *encodes]
        forms += [lambda v, encode=encode: (encode(v) or "")[1:-1] for encode in (str, *encodes)]  # type: ignore[misc]
        for form in forms[mixed:]:
            written = [value if form is None else form(value) for value in values]
            if not all(map(_may_be_value, written)) or any(map(is_derived, written)):
                continue
            if len({text_in_column(value) for value in written}) < len(written):
                continue
            found = [template(called, [f(v) for v in values], written) for f in encodes]
            if None not in found:
                if mixed:
                    self.notes.append(
                        f"{name} has whole numbers among others, so that its values are texts, "
                        f"which questions cannot put in order: where the program takes 1.0 for 1, "
                        "write them all as numbers"
                    )
                return written, [one for one in found if one is not None]
        self.notes.append(f"no field can have the values of {name}, {shown(values)}: write others")
        return [str(value) for value in values], [f"{{{called}}}"] * len(encodes)

    def _command(self, templates: Mapping[str, list[str]]) -> list[str]:
        """Returns the words of the command, with the fields in braces."""
        waiting = {name: iter(found) for name, found in templates.items()}
        return [
            "".join(
                _escaped(piece) if isinstance(piece, str) else next(waiting[piece[0]])
                for piece in word
            )
            for word in self.words
        ]

    def _dumped(
        self, command: str, fields: dict[str, Any], seeds: list[int], comments: Mapping[str, str]
    ) -> str:
        measured = re.sub(r"\W", "_", self.metric).lower()
        reserved = {*RESERVED, *OF_CELLS, *OF_SQL} - BETTER.keys()
        if not re.fullmatch(METRIC, measured) or measured in reserved:
            measured = re.sub(r"[^a-z0-9_]", "_", f"m_{measured}")[:50]
            measured = measured if re.fullmatch(METRIC, measured) else f"{measured}_score"
        up = BETTER.get(measured, "up" if self.goal_up else "down") == "up"
        if measured in BETTER and self.goal_up is not None and up != self.goal_up:
            measured, up = f"m_{measured}", self.goal_up
        stem = re.sub(r"[^\w-]", "_", PurePath(self.script).stem, flags=re.ASCII)[:90]
        shipped = {path.stem for folder in FOLDERS.values() for path in folder.glob("*.py")}
        if stem in shipped or not re.match("[A-Za-z_]", stem):
            stem = f"p_{stem}"
        name = re.sub(r"[^\w.-]", "_", self.name or stem, flags=re.ASCII).lstrip(".")[:100] or stem
        files = [path for path in self.files if not PurePath(path).is_absolute()]
        if len(files) < len(self.files):
            self.notes.append(
                f"{self.script} is an absolute path, so no edit of it makes new trials, and no "
                "other machine gets it: put the grid beside it and name it by a relative path"
            )
        loop = {
            "program": command,
            "as": stem,
            "task": name,
            "metrics": {measured: "up" if up else "down"},
            **({"files": files} if files else {}),
        }
        if self.logger:
            theirs = {measured: self.metric} if measured != self.metric else {}
            loop["rows"] = {"from": self.logger, **({"metrics": theirs} if theirs else {})}
        loop |= fields
        goal = f"{measured} {'>' if up else '<'} 0.5"
        text = dump({"name": name, "loop": loop, "seeds": seeds, "goal": goal})
        for called, comment in comments.items():
            text = re.sub(rf"(?m)^  {called}:", lambda m, c=comment: f"  # {c}\n{m[0]}", text)  # type: ignore[misc]
        self.notes.append(f"its goal is a guess: when does a trial pass, by {measured}?")
        if not self.logger:
            self.notes.append(
                f"say in `rows` where it tells {measured}: in its text, a file, TensorBoard or "
                "wandb.log (docs/program.md)"
            )
        return text


def template(called: str, words: Sequence[str | None], values: Sequence[Any]) -> str | None:
    """Returns what stands in the command for a field, so that each value becomes its word, or None
    if nothing does. A word of None is one that is left out, where the value is null."""
    alone = None in words
    texts = [_text(value) for value in values]
    first = next((i for i, word in enumerate(words) if word is not None), None)
    if first is None:
        return f"{{{called}}}" if {*values} == {None} else None
    word = words[first] or ""
    before = "" if alone else word[: word.rfind(texts[first])] if texts[first] in word else word
    after = "" if alone else word[len(before) + len(texts[first]) :]
    for text, value, word_ in zip(texts, values, words, strict=True):
        if word_ is None:
            if value is not None:
                return None
        elif word_ != before + text + after or (value is None and not (before or after)):
            return None
    return f"{_escaped(before)}{{{called}}}{_escaped(after)}"


def fits(words: Sequence[str | None], value: int) -> bool:
    """Returns whether each of these words has a whole number in it as it is."""
    return all(word is not None and str(value) in word for word in words)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _may_be_value(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) <= LARGEST_INT
    return value is None or isinstance(value, str)


def _is_budget(value: Any) -> bool:
    return type(value) is int and value > 0


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _quoted(word: str) -> str:
    return shlex.quote(word) if not word or re.search(r"[\s'\"\\]", word) else word


def of_range(name: str, spread: dict[str, Any], comment: str) -> Parameter:
    """Returns the parameter whose values are those of a range."""
    return Parameter(name, list(range_values(spread)), spread, comment)
