"""What somebody may have meant by a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST = 3
SHORTEST_START = 3
"""The number of first letters that two names must share for that alone to make them alike."""


def close_names(word: str, known: Iterable[str]) -> list[str]:
    """Returns the known names that are most like a word, best first, at most `MOST`. A name is like
    it if both are spelt alike, or if one is the beginning of the other (`acc` and `accuracy`)."""
    names = list(dict.fromkeys(known))
    alike = {
        name: difflib.SequenceMatcher(None, word.lower(), name.lower()).ratio() for name in names
    }
    for name in names:
        short, long = sorted((word.lower(), name.lower()), key=len)
        if len(short) >= SHORTEST_START and long.startswith(short):
            alike[name] = max(alike[name], 0.9)
    best = max(alike.values(), default=0.0)
    near = [name for name in names if alike[name] >= max(0.6, best - 0.2)]
    return sorted(near, key=lambda name: -alike[name])[:MOST]


def closest(word: str, known: Iterable[str]) -> str:
    """Returns ` (did you mean …?)` for a word that is none of the known names, or an empty text if
    no known name is like it."""
    found = close_names(word, known)
    return f" (did you mean {' or '.join(found)}?)" if found else ""
