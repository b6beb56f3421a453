"""Runs a command once, in a folder of its own, and collects what it printed and wrote, so that a
grid can be guessed from it (`grid.guessing`)."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sweepd.errors import UserError
from sweepd.grid.guessing import Shown
from sweepd.trial.output import CONTROLS, json_objects, python_objects
from sweepd.trial.program import started
from sweepd.trial.row_sources import EVENTS, STAND_INS, flat, items
from sweepd.trial.workplace import LaunchCopy, Workplace, name_of

GRACE_SECONDS = 5.0
"""The seconds that the command has to end once its time is over."""
LOOK_SECONDS = 0.2
LAST_LINES = 5
"""How many of its last lines a message shows where it fails."""


def tried(command: str, base: Path, seconds: float) -> tuple[Shown, bool]:
    """Runs a command in a copy of a folder for at most `seconds`. Returns what it showed, and
    whether it was ended. Raises UserError where it fails before that."""
    words = shlex.split(command)
    key = name_of("tried", os.getpid())
    copy = LaunchCopy.of(base, key)
    place = Workplace(f"tried-{key}", base, copy)
    try:
        told = place.folder / "rows"
        told.touch()
        guard, output = started(place, words, GRACE_SECONDS, [STAND_INS], {})
        assert guard.stdin
        until, ended, lines = time.monotonic() + seconds, False, []
        while output.open:
            if line := output.next(LOOK_SECONDS):
                lines.append(line)
            if not ended and time.monotonic() > until:
                ended = True
                guard.stdin.write(b"t")
                guard.stdin.flush()
        code = guard.wait()
        texts = [CONTROLS.sub("", line.text) for line in lines]
        if code and not ended:
            last = "\n".join(text for text in texts if text.strip()).splitlines()[-LAST_LINES:]
            raise UserError(f"{command} ended with exit code {code}:\n" + "\n".join(last))
        shown = Shown(texts)
        printed = [v for line in lines if line.source == "stdout" for v in _objects(line.text)]
        logged = [json.loads(line) for line in told.read_text().splitlines()]
        for where, every in (("stdout", printed), ("wandb", logged)):
            if every:
                shown.objects[where] = every
        for name, file in place.written():
            _read(shown, name, file)
        return shown, ended
    finally:
        place.close()
        copy.close()


def _read(shown: Shown, name: str, file: Path) -> None:
    """Adds what a file that the command wrote says."""
    # A folder or a file with a number in its name is another one each time.
    pattern = "/".join("*" if re.search(r"\d", part) else part for part in name.split("/"))
    if EVENTS in name:
        try:
            from tensorboard.backend.event_processing import event_accumulator
        except ImportError:
            return
        events = event_accumulator.EventAccumulator(str(file), size_guidance={"scalars": 0})
        events.Reload()
        shown.events |= {tag: events.Scalars(tag)[-1].value for tag in events.Tags()["scalars"]}
    elif file.suffix in (".csv", ".tsv", ".jsonl", ".json", ".ndjson"):
        every: list[Mapping[str, Any]] = []
        for item in items(file, name, ended=True):
            every += _objects(item) if isinstance(item, str) else [item]
        if every:
            shown.objects[pattern] = every


def _objects(line: str) -> Iterator[Mapping[str, Any]]:
    """Yields the JSON objects of a line that have a number."""
    try:
        plain = CONTROLS.sub("", line)
        every = [flat(value) for value in (*json_objects(plain), *python_objects(plain))]
    except UserError:
        return
    for values in every:
        if any(isinstance(value, int | float) for value in values.values()):
            yield values
