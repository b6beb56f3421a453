"""A grid for a command of which nothing is known but what it printed and wrote when it ran once
(`sweepd init --from-command`). What is guessed stands in a comment beside it.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweepd.errors import UserError
from sweepd.grid.foreign import TAKEN
from sweepd.grid.metrics import BETTER
from sweepd.grid.rows import NUMBER, Pattern, number
from sweepd.limits import METRIC

STEPS = ("step", "global_step", "_step", "iteration", "iter", "it", "epoch", "update")
"""What programs call their steps, the likeliest first."""
FOLDERS = re.compile(r"(out|output|save|log|result|work|run|checkpoint)s?_?(dir|path|folder)?")
"""A pattern of the flags that name a folder to write to."""
DOWN = re.compile(r"loss|bpb|ppl|perplexity|error|err$|mse|mae|nll|wer|cer|fid")
"""A pattern of the names of metrics of which less is better."""
UP = re.compile(r"acc|f1|auc|score|bleu|rouge|recall|precision|reward|return|iou|map$|em$")
WORD = r"[A-Za-z][\w/.@-]*"
LABELLED = re.compile(rf"((?:{WORD} )?{WORD})(\s*[:=]\s*|\s+)(?<![\w.])({NUMBER})(?![\w.]*\w)(?!/)")
"""A pattern of a number with one or two words in front of it, such as `val loss 0.5`."""
LAST_LINES = 3
"""How many of its last lines a message shows where no number was found."""
MOST_METRICS = 4
"""The most metrics of a grid that is written."""


@dataclass
class Shown:
    """What a command printed and wrote. lines: of both outputs. objects: the rows with names, of
    JSON, CSV and `wandb.log`, by where: `stdout`, `wandb` or a file. events: the last number of
    each tag in TensorBoard's files."""

    lines: Sequence[str] = ()
    objects: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    events: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Guess:
    """Where the numbers are: the block `rows`, the metrics with a value of each, and why."""

    rows: dict[str, Any]
    values: Mapping[str, float]
    because: str


def guesses(shown: Shown) -> Iterator[Guess]:
    """Yields where numbers were found, the surest place first."""
    for where, every in shown.objects.items():
        yield from _named(where, every, f"{len(every)} rows with names in {where}")
    if shown.events:
        names = _ours(shown.events)
        rows = {"from": "tensorboard", "metrics": {k: v for k, v in names.items() if k != v}}
        values = {ours: shown.events[theirs] for ours, theirs in names.items()}
        yield Guess(rows, values, f"TensorBoard's files have {', '.join(names.values())}")
    yield from _printed(shown.lines)


def _named(where: str, every: Sequence[Mapping[str, Any]], because: str) -> Iterator[Guess]:
    """Yields the guess of rows that have names, if they have a metric."""
    last: dict[str, float] = {}
    for values in every:
        last |= {str(k): float(v) for k, v in values.items() if _is_number(v)}
    step = next((name for name in STEPS if name in last), None)
    names = _ours({k: v for k, v in last.items() if k != step and k not in STEPS})
    if not names:
        return
    rows: dict[str, Any] = {"from": where}
    if step and step not in ("step", "_step"):
        rows["step"] = step
    if theirs := {ours: name for ours, name in names.items() if ours != name}:
        rows["metrics"] = theirs
    values = {ours: last[name] for ours, name in names.items()}
    yield Guess(rows, values, because)


def _printed(lines: Sequence[str]) -> Iterator[Guess]:
    """Yields the guess of lines of text: of the shape that has a step or stands often, with the
    most numbers that look like metrics, and of such numbers that stand once, at the end."""
    shapes: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for line in lines:
        shapes[tuple(match[1] for match in LABELLED.finditer(line))].append(line)
    final: dict[str, str] = {}
    last: dict[str, float] = {}
    patterns: list[tuple[bool, int, int, str, str]] = []
    for same in shapes.values():
        names, line = _ours_of(same[-1]), same[-1]
        if "step" in names.values() or (names and len(same) > 1):
            stepped = "step" in names.values()
            patterns.append((stepped, len(names), len(same), _pattern(line, names), line))
            continue
        for label, name in names.items():
            final[name] = _pattern(line, {label: name})
            last |= next(Pattern.of(final[name]).rows(line), {})
    for stepped, _, often, text, line in sorted(patterns, reverse=True):
        row = next(Pattern.of(text).rows(line), {})
        values = {name: value for name, value in row.items() if name != "step"}
        if values and (stepped or not last):  # a bar tells less than what stands at the end
            more = {name: at_end for name, at_end in final.items() if name not in values}
            rows = {"pattern": text, **({"final": more} if more else {})}
            because = f"{often} line{'s' * (often > 1)} like {line.strip()!r}"
            yield Guess(rows, {**last, **values}, because)
    if last:
        yield Guess({"final": final}, last, "numbers that stand once, behind a word")


def _pattern(line: str, names: Mapping[str, str]) -> str:
    """Returns the pattern of a line: from its first number that counts to its last, with all other
    numbers left open. names: for each word in front of a number, what we call it."""
    parts, at, begun = [], 0, False
    for match in LABELLED.finditer(line):
        name = names.get(match[1])
        if name is None:
            continue
        between = line[at : match.start()] if begun else ""
        if begun:
            parts.append(between if not re.search(r"\d", between) else _opened(between))
        parts.append(f"{match[1]}{match[2]}{{{name}}}")
        at, begun = match.end(), True
        if line[at : at + 1] == "%":
            at += 1
    return "".join(parts)


def _opened(text: str) -> str:
    """Returns a text in which what changes from line to line is left open."""
    end = re.search(r"\W*$", text)
    return f".*{end[0] if end else ''}"


def _ours_of(line: str) -> dict[str, str]:
    """Returns what we call the words in front of the numbers of a line: `step`, or metrics."""
    labelled = [(match[1], number(match[3])) for match in LABELLED.finditer(line)]
    counted = Counter(label for label, _ in labelled)
    once = {label: value for label, value in labelled if counted[label] == 1}
    step = next((x for name in STEPS for x in once if x.lower().split()[-1] == name), None)
    names = {theirs: ours for ours, theirs in _ours(once).items() if theirs != step}
    return {**({step: "step"} if step else {}), **names} if names else {}


def _ours(values: Mapping[str, float]) -> dict[str, str]:
    """Returns, by names that results may have, those that look like metrics: a score by its name,
    of held-out data first."""
    fitting = [name for name in values if UP.search(name.lower()) or DOWN.search(name.lower())]
    fitting.sort(key=lambda name: not re.search(r"val|test|eval", name.lower()))
    ours: dict[str, str] = {}
    for theirs in fitting[:MOST_METRICS]:
        name = re.sub(r"[^a-z0-9]+", "_", theirs.lower()).strip("_")
        name = {"accuracy": "acc"}.get(name, name)
        if name == "acc" and values[theirs] > 1:  # in percent, as another metric may be
            name = "accuracy"
        if name in TAKEN and name not in BETTER:
            name = f"own_{name}"
        if re.fullmatch(METRIC, name) and name not in ours:
            ours[name] = theirs
    return ours


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def better(metric: str) -> str:
    return "down" if DOWN.search(metric) and not UP.search(metric) else "up"


def of_words(words: Sequence[str]) -> tuple[list[str], dict[str, Any], list[str]]:
    """Returns the words of a command with fields in braces, the fields with the values that stand
    there, and a sentence for each guess. A number becomes a field, by the name of its flag."""
    fields: dict[str, Any] = {}
    sentences: list[str] = []
    made: list[str] = []
    flag = ""
    for word in words:
        form = re.fullmatch(r"(-{0,2}[A-Za-z][\w.-]*)=(.*)", word)
        name, value = (form[1], form[2]) if form else (flag, word)
        bare = re.sub(r"\W", "_", name.lstrip("-")).strip("_").lower()
        front = f"{form[1]}=" if form else ""
        flag = word if re.fullmatch(r"--?[A-Za-z][\w-]*", word) else ""
        word = word.replace("{", "{{").replace("}", "}}")
        if not bare and made and _numeric(value):
            bare = f"argument_{1 + sum(field.startswith('argument_') for field in fields)}"
        if not bare or flag:
            made.append(word)
        elif bare == "seed" or bare.endswith("_seed"):
            made.append(f"{front}{{seed}}")
        elif FOLDERS.fullmatch(bare) and not _numeric(value):
            made.append(f"{front}{{dir}}")
            sentences.append(f"{name} {value}: taken for the folder to which it writes")
        elif _numeric(value):
            taken = {*TAKEN, *fields}
            while bare in taken or not bare.isidentifier():
                bare = f"p_{bare}"
            fields[bare] = _number_of(value)
            made.append(f"{front}{{{bare}}}")
        else:
            made.append(word)
    return made, fields, sentences


def _numeric(value: str) -> bool:
    return _number_of(value) is not None


def _number_of(text: str) -> float | None:
    """Returns the finite number that a word of a command is, as `3e-4` or `.5`, or None."""
    for kind in (int, float):
        with suppress(ValueError):
            value = kind(text)
            return value if math.isfinite(value) and "_" not in text else None
    return None


def grid_text(command: str, guess: Guess) -> tuple[str, list[str]]:
    """Returns the text of a grid that runs a command, with a comment for each guess, and what
    people should look at, a sentence each. Raises UserError for a command that no shell splits."""
    try:
        words, fields, sentences = of_words(shlex.split(command))
    except ValueError as error:
        raise UserError(f"--from-command {command!r}: {error}") from None
    script = next((word for word in words if word.endswith((".py", ".sh"))), words[0])
    stem = re.sub(r"\W", "_", Path(script).stem)
    metrics = {name: better(name) for name in guess.values}
    goal = next((name for name, way in metrics.items() if way == "up"), next(iter(metrics)))
    way = metrics[goal]
    last = guess.values[goal]
    share = 0 <= last <= 1 and way == "up"
    sign = ">" if way == "up" else "<"
    quoted = [shlex.quote(word) if re.search(r"[\s'\"\\]", word) else word for word in words]
    lines = [
        f"name: {stem}",
        "loop:",
        f"  program: {json.dumps(' '.join(quoted))}",
        f"  as: {stem}",
        f"  task: {stem}                 # what it learns: a name of your own",
        "  # It told " + ", ".join(f"{name} {value:.4g}" for name, value in guess.values.items()),
        f"  metrics: {_flow(metrics)}    # is more, or less, of each better?",
    ]
    lines += [f"  # {guess.because}", f"  rows: {_flow(guess.rows)}"]
    for name, value in fields.items():
        lines.append(f"  {name}: [{json.dumps(value)}]")
    lines += ["seeds: [0]", f"goal: {goal} {sign} {0.9 if share else last:.4g}    # a guess"]
    if not any("{seed}" in word for word in words):
        sentences.append("it takes no seed: see `seeds` in docs/program.md for more than one")
    if not fields:
        sentences.append(
            "it has no number that could vary: write {width} and the like into its command, or see "
            "`set` (constants) and `template` (config files) in docs/program.md"
        )
    else:
        sentences.append(f"write more values of {', '.join(fields)}: each is a field of the grid")
    sentences.append(f"when does a trial pass? `goal: {goal} {sign} …` is a guess")
    return "\n".join(lines) + "\n", sentences


def _flow(value: Any) -> str:
    """Returns plain data as YAML on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(each)}" for name, each in value.items()) + "}"
    text = str(value)
    return text if re.fullmatch(r"[A-Za-z_][\w./*-]*", text) else json.dumps(text)


def looked_for(shown: Shown) -> str:
    """Returns what was looked for, where no number was found."""
    wrote = ", ".join(shown.objects) or "no file of rows"
    last = "".join(f"\n  {line.strip()}" for line in shown.lines if line.strip())
    last = "\n".join(last.splitlines()[-LAST_LINES:])
    return (
        f"it printed {len(shown.lines)} lines and wrote {wrote}, and no number with a name was "
        "found: looked for JSON lines, wandb.log, CSV, TensorBoard's files, and text such as "
        "`loss 0.5` or `acc: 93%`; write the grid from `sweepd init --own program`, with `rows`"
        + (f"; it printed last:\n{last}" if last else "")
    )
