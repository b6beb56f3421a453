"""The documentation as tests read it: its pages, their fenced blocks, and the commands in these."""

import re
import shlex
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
SKILL = ROOT / "src" / "sweepd" / "SKILL.md"
"""What `sweepd skill` prints."""
MANUAL = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    SKILL,
)
"""The pages that explain sweepd as it is now."""
PAGES = (*MANUAL, ROOT / "CHANGELOG.md", *sorted((ROOT / "results").glob("*/README.md")))
_FENCE = re.compile(r"\s*```(\w*)\s*")


@dataclass(frozen=True)
class Block:
    """A fenced block. line: of its first line of text."""

    page: Path
    line: int
    language: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """A command line that a page shows. output: the lines below it, where it follows a `$`."""

    place: str
    text: str
    output: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)

    def __str__(self) -> str:
        return f"{self.place} {shlex.join(self.words)}"


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    """The fenced blocks of a page."""
    read: list[Block] = []
    language: str | None = None
    inside: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if fence := _FENCE.fullmatch(line):
            if language is None:
                language, inside = fence[1], []
            else:
                read.append(Block(page, number - len(inside), language, tuple(inside)))
                language = None
        elif language is not None:
            inside.append(line)
    assert language is None, f"{name(page)}: a fenced block has no end"
    return tuple(read)


@cache
def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"(?ms)^\s*```.*?^\s*```\s*$", "", page.read_text())


@cache
def spans(page: Path) -> tuple[str, ...]:
    """What stands between backticks in the prose of a page."""
    return tuple(re.findall(r"`([^`\n]+)`", prose(page)))


@cache
def commands(page: Path) -> tuple[Shown, ...]:
    """The command lines of a page: every line of its `sh` blocks, and in blocks without a language
    the lines that begin with `$`, with what was printed."""
    shown: list[Shown] = []
    for block in blocks(page):
        at = {index: f"{name(page)}:{block.line + index}" for index in range(len(block.lines))}
        if block.language == "sh":
            lines = enumerate(line.strip() for line in block.lines)
            shown += [Shown(at[i], line) for i, line in lines if line and not line.startswith("#")]
        elif not block.language:
            prompts = [i for i, line in enumerate(block.lines) if line.startswith("$ ")]
            for start, end in pairwise([*prompts, len(block.lines)]):
                output = block.lines[start + 1 : end]
                shown.append(Shown(at[start], block.lines[start][2:], output))
    return tuple(shown)


def all_commands() -> list[Shown]:
    """The command lines of the manual."""
    return [shown for page in MANUAL for shown in commands(page)]
