"""Where a program tells its numbers (`loop: {program: …, rows: …}`), as the block says it.

`from` names the place: `stdout` (JSON lines, or text by `pattern`), `stderr`, `both`, a file that
the program writes (`*.csv`, or lines of JSON or text), `tensorboard` or `wandb`. `metrics` gives
the program's own names, `step` the name of its step, `final` one number that it tells at the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sweepd.closest import closest

OUTPUTS = {"stdout": ("stdout",), "stderr": ("stderr",), "both": ("stdout", "stderr")}
"""The outputs of a program that each of these values of `from` names."""
LOGGERS = ("tensorboard", "wandb")
KEYS = ("from", "pattern", "step", "metrics", "final")
NUMBER = (
    r"(?i:[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d{1,3}(?:_\d{3})+|\d+)(?:\.\d*)?(?:e[-+]?\d+)?"
    r"|\.\d+(?:e[-+]?\d+)?|nan|inf(?:inity)?)(?:\s?%)?)"
)
"""A regular expression for a number, as people print it: `1,000`, `3e-4`, `nan` or `93.1%`."""
WRAPPED = r"(?P<_{0}>(?:tensor|np\.\w+|array)\()?(?P<{0}>{1})(?![\w.]*\w){2}(?(_{0})[^()]*\))"
"""A number, or what Python prints of torch's and NumPy's: by name, number, and what ends it."""
IN_BRACES = re.compile(r"\{([A-Za-z_]\w*)\}")
EXAMPLES = "write the line with names in braces, such as 'step {step}: loss {loss}, acc {acc}'"


@dataclass(frozen=True)
class Pattern:
    """A line of text with numbers in it. names: of the numbers. strict: finds a row. loose: finds
    a line that looks like one whose numbers cannot be read."""

    names: tuple[str, ...]
    strict: re.Pattern[str]
    loose: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Reads a text in which names in braces are numbers, `.*` is anything, and blanks are any
        blanks; or a regular expression with named groups. Raises ValueError for a wrong one."""
        if "(?P<" in text:
            try:
                strict = re.compile(text)
            except re.error as error:
                raise ValueError(f"{text!r} is no regular expression: {error}") from None
            return cls(tuple(strict.groupindex), strict, strict)
        strict_parts, loose_parts, names = [], [], []
        parts = IN_BRACES.split(text)
        for i, part in enumerate(parts):
            if i % 2:
                if part in names:
                    raise ValueError(f"{text!r} names {part} twice")
                names.append(part)
                # `0,97` is no 0, unless the text itself goes on with a comma.
                comma = "" if parts[i + 1][:1] == "," else r"(?![,']\d)"
                # A number may be filled up with blanks, as by `{loss:8.3f}`.
                before = "" if parts[i - 1][-1:].isspace() else r"\s*"
                behind = "" if parts[i + 1][:1].isspace() else r"\s*"
                written = r"(?<![\w.])" + WRAPPED.format(part, NUMBER, comma)
                strict_parts.append(f"{before}{written}{behind}")
                loose_parts.append(rf"{before}\S+{behind}")
                continue
            # A number takes the `%` behind it along.
            part = re.sub(r"^\s?%", "", part) if i else part
            pieces = (re.escape(piece) for piece in part.split(".*"))
            literal = re.sub(r"(?:\\?\s)+", r"\\s+", ".*?".join(pieces))
            strict_parts.append(literal)
            loose_parts.append(literal)
        if not names:
            raise ValueError(f"{text!r} names no number; {EXAMPLES}")
        strict, loose = (re.compile("".join(parts)) for parts in (strict_parts, loose_parts))
        return cls(tuple(names), strict, loose)

    def rows(self, line: str) -> Iterator[dict[str, float]]:
        """Yields the numbers of each place of a line that the pattern fits."""
        for match in self.strict.finditer(line):
            with_values = {name: match[name] for name in self.names if match[name]}
            try:
                yield {name: number(text) for name, text in with_values.items()}
            except ValueError:
                continue

    def looks_like(self, line: str) -> bool:
        """Returns whether a line is written like a row, but for its numbers."""
        return bool(self.loose.search(line)) and not any(True for _ in self.rows(line))


def number(text: str) -> float:
    """Returns the number that a text shows: `1,000` is 1000 and `93%` is .93. Raises ValueError."""
    plain = text.strip()
    if not re.fullmatch(NUMBER, plain):
        raise ValueError(f"{text!r} is no number")
    plain = re.sub(r"[,_]", "", plain)
    # A share in decimals, so that 93.1% is .931 and not a neighbour of it.
    return float(Decimal(plain[:-1].strip()) / 100) if plain.endswith("%") else float(plain)


@dataclass(frozen=True)
class Rows:
    """How the numbers of a program are found.

    source: an output, a logger, or the pattern of a file's name. patterns: of lines of text; none
    where lines are JSON. step: the program's name of its step; None where a row may have a `step`
    and else counts as the n-th. theirs: for each metric, the program's name of it. final: for each
    metric that is told once at the end, how.
    """

    source: str = "stdout"
    patterns: tuple[Pattern, ...] = ()
    step: str | None = None
    theirs: Mapping[str, str] = field(default_factory=dict)
    final: Mapping[str, Pattern] = field(default_factory=dict)

    @classmethod
    def of(cls, block: Mapping[str, Any], metrics: Collection[str]) -> Rows:
        """Returns what a block of a grid says, which `faults` has found right."""
        return cls(
            block.get("from", "stdout").removeprefix("./").removeprefix("{dir}/"),
            tuple(map(Pattern.of, _list(block.get("pattern", [])))),
            block.get("step"),
            {name: block.get("metrics", {}).get(name, name) for name in metrics},
            {name: Pattern.of(text) for name, text in block.get("final", {}).items()},
        )

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs of the program in which rows are looked for."""
        return OUTPUTS.get(self.source, ())

    def ours(self, values: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the step and the metrics of a mapping with the program's own names, without the
        step where it has none, or None where it has no metric."""
        row = {}
        for name, key in self.theirs.items():
            # What is `valid.acc` to people is `valid/acc` in nested mappings.
            value = values.get(key, values.get(key.replace(".", "/")))
            if not _empty(value):
                row[name] = value
        if not row:
            return None
        step = values.get(self.step) if self.step else values.get("step", values.get("_step"))
        return row if _empty(step) else {"step": step, **row}


def _empty(value: object) -> bool:
    return value is None or value == ""


def faults(block: object, metrics: Collection[str]) -> Iterator[str]:
    """Yields what is wrong with the `rows` of a program with these metrics."""
    if not isinstance(block, dict):
        yield f"{block!r}: write a mapping with {', '.join(KEYS)}"
        return
    for key in block:
        if key not in KEYS:
            yield f"{key} is no key{closest(str(key), KEYS)}; there are {', '.join(KEYS)}"
    source, step = block.get("from", "stdout"), block.get("step", "step")
    texts, theirs, final = _list(block.get("pattern", [])), block.get("metrics"), block.get("final")
    if not isinstance(source, str) or not source.strip():
        yield f"from: {json.dumps(source)}: name {', '.join((*OUTPUTS, *LOGGERS))} or a file"
    elif source.startswith("/") or "{" in source.removeprefix("{dir}/"):
        yield (
            f"from: {source}: name the file by its path below the program's folder or {{dir}}, "
            "with * for what changes from trial to trial"
        )
    if not isinstance(step, str):
        yield f"step: {json.dumps(step)}: name the step as the program does"
    if not all(isinstance(text, str) for text in texts):
        yield f"pattern: {json.dumps(texts)}: {EXAMPLES}"
        return
    if texts and source in LOGGERS:
        yield f"pattern: it is for text, and {source} has names: use `metrics`"
    if texts and theirs:
        yield "metrics: a pattern names them itself; leave out one of the two"
    for key, names in (("metrics", theirs), ("final", final)):
        if names is not None and not isinstance(names, dict):
            yield f"{key}: {json.dumps(names)}: write a mapping of our names"
            return
        for name, text in (names or {}).items():
            if name not in metrics:
                yield f"{key}: {name} is none of its metrics{closest(str(name), metrics)}"
            elif not isinstance(text, str):
                yield f"{key}.{name}: {json.dumps(text)}: a text is needed"
    yield from _faults_of_patterns(texts, final or {}, metrics)


def _faults_of_patterns(
    texts: Sequence[str], final: Mapping[str, Any], metrics: Collection[str]
) -> Iterator[str]:
    """Yields what is wrong with patterns of lines, and of the numbers that are told at the end."""
    known, told = {*metrics, "step", "total"}, {*final}
    for key, text, own in (
        *(("pattern", text, None) for text in texts),
        *((f"final.{name}", text, name) for name, text in final.items() if isinstance(text, str)),
    ):
        try:
            names = Pattern.of(text).names
        except ValueError as error:
            yield f"{key}: {error}"
            return
        told |= {*names}
        if own and names != (own,):
            yield f"{key}: {text!r}: write {{{own}}} where the number stands"
        elif unknown := [name for name in names if name not in known]:
            yield f"{key}: {unknown[0]} is none of its metrics{closest(unknown[0], known)}"
    if texts and (missing := [name for name in metrics if name not in told]):
        yield f"pattern: nothing tells {missing[0]}: name it in a pattern or in `final`"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
