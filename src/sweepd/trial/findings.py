"""What a check says of a user's class: that it is right, or what is wrong, where and what to do."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweepd.grid.fingerprint import PACKAGE, trial_files


@dataclass(frozen=True)
class Finding:
    """What one check found about one class in one setting.

    ok: whether it is right; None where the check did not look. detail: what was measured, or what
    is wrong and what to do. place: the file and line of what is wrong. raised: whether the user's
    code raised an error before the check could decide.
    """

    check: str
    subject: str
    setting: str
    ok: bool
    detail: str
    place: str = ""
    raised: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.subject} {self.detail}"


class Wrong(Exception):
    """A check has found something wrong.

    sign: a pattern of the line that is at fault. culprit: the class or function that contains that
    line. The user's class stands in for it where none is given, or where it is not the user's own.
    """

    def __init__(
        self,
        fault: str,
        remedy: str,
        sign: re.Pattern[str] | None = None,
        culprit: object = None,
    ) -> None:
        super().__init__(f"{fault}; {remedy}")
        self.sign, self.culprit = sign, culprit


@dataclass(frozen=True)
class Subject:
    """A class that is inspected. name: its name in results."""

    name: str
    found: type

    def place(self, sign: re.Pattern[str] | None = None, culprit: object = None) -> str:
        """Returns the file and line of the sign. It is looked for in the culprit, in the class and
        then in the class's files. Without a sign, or where it is not found, returns the file and
        line where the culprit or the class begins."""
        files = self.files()
        own = [one for one in (culprit, self.found) if one is not None and _file(one) in files]
        for one in own if sign else ():
            if line := line_of(one, sign):
                return f"{_file(one)}:{line}"
        for file in files if sign else ():
            for number, text in enumerate(file.read_text().splitlines(), 1):
                if sign and sign.search(text):
                    return f"{file}:{number}"
        one = own[0] if own else self.found
        return f"{_file(one)}:{line_of(one)}"

    def files(self) -> list[Path]:
        """Returns the user's files that the class runs, its own first. For a class of sweepd's it
        returns that class's file."""
        file = _file(self.found)
        found = [file, *trial_files(file, file)] if file.suffix == ".py" else [file]
        theirs = [path for path in found if not path.is_relative_to(PACKAGE)]
        return list(dict.fromkeys(theirs or [file]))


def _file(one: object) -> Path:
    try:
        return Path(inspect.getsourcefile(one) or "")  # type: ignore[arg-type]
    except TypeError:  # built in
        return Path()


def line_of(found: Any, sign: re.Pattern[str] | None = None) -> int:
    """Returns the number of the line in which a class or a function begins. With a sign, returns
    the number of the first line inside it where the sign is found. Returns 0 if there is no such
    line."""
    try:
        lines, first = inspect.getsourcelines(found)
    except (OSError, TypeError):  # made by other means than a class statement
        return 0
    sign = sign or re.compile(r"^\s*(class|def)\b")
    return next((first + i for i, text in enumerate(lines) if sign.search(text)), 0)
