"""What a user's code prints while its trial runs."""

from __future__ import annotations

import io

MOST_PRINTED = 2**20
"""The most characters of what an attempt prints that go to its log. There is a limit because a
flood of output must not fill the disk."""


class Printed(io.TextIOBase):
    """Holds what a trial prints, the first MOST_PRINTED characters of it."""

    def __init__(self) -> None:
        self.room = MOST_PRINTED
        self.parts: list[str] = []

    def write(self, text: str) -> int:
        if self.room > 0:
            self.parts.append(text[: self.room])
            self.room -= len(text)
            if self.room <= 0:
                self.parts.append("\n(what it printed after this is left out)\n")
        return len(text)

    def taken(self) -> str:
        """Returns what was printed since the last call."""
        text, self.parts = "".join(self.parts), []
        return text
