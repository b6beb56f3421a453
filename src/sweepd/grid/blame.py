"""Where in a user's code an error came from, and what to do about it."""

from __future__ import annotations

import inspect
import re
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import Any

from sweepd.grid.fingerprint import INSTALLED, PACKAGE

MOST_TOLD = 500
"""The most characters of an error that are shown."""
LIBRARIES = (sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), str(PACKAGE), "<")
"""The beginnings of the paths of files that are not the user's own. They belong to Python, to its
libraries or to sweepd, or are no files, such as `<string>`."""

SIGNATURES = {
    "build": "self, vocab, L, capacity, generator",
    "forward": "self, tokens",
    "draw": "self, rng",
    "start": "self, seed, device",
    "advance": "self",
    "save": "self",
    "load": "self, data",
}
"""The parameters with which sweepd calls the methods of a user's class."""
WRONG_CALL = r"\(\) (?:takes|missing|got an unexpected)"
"""A pattern of what Python says after the name of a function that was called with the wrong
arguments."""
REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"index out of range in self|index out of bounds|bounds for dimension|device-side assert",
        "an embedding was asked for a row that it lacks: give the tokens' one `vocab` rows and the "
        "positions' one `capacity`",
    ),
    (
        r"backward through the graph a second time|modified by an inplace operation",
        "a tensor of an earlier call is used again: keep nothing on `self` in `forward`, or "
        "detach it",
    ),
    (
        r"does not require grad",
        "no gradient reaches the weights: leave out .detach(), .item(), .numpy() and "
        "torch.no_grad() in `forward`",
    ),
    (r"before Module.__init__\(\)", "call `super().__init__()` first in the module's `__init__`"),
    (
        r"shapes cannot be multiplied|must match the size|input.size\(-1\)|"
        r"normalized_shape|not broadcastable",
        "the sizes of two layers do not fit: compare what the one gives with what the other takes",
    ),
    (
        r"cannot assign to field",
        "the dataclass is frozen: keep the value in a local variable, or compute it in a property",
    ),
    *(
        (rf"\b{name}{WRONG_CALL}", f"define it as `{name}({parameters})`")
        for name, parameters in SIGNATURES.items()
    ),
    (r"non-frozen dataclass", "write @dataclass(frozen=True)"),
    (r"No module named", "install it where sweepd is installed, on a cluster on each node"),
    (r"No such file or directory", "name data by an absolute path, which is right on every node"),
    (
        r"not compiled with CUDA|No CUDA GPUs|Found no NVIDIA driver",
        "use the `device` that `start` is given, or that of the inputs of `forward`",
    ),
    (
        r"mutable default .* for field",
        "a field is a number, a text or a bool; what is none, as `metrics` or `vocab`, has no type",
    ),
    (r"on the same device|found at least two devices", "make new tensors with `device=x.device`"),
    (r"too few distinct inputs", "draw more varied problems, or choose a larger setting"),
    (r"no entry of its vocab", "add the token to `vocab`, or write it as it stands there"),
    (
        r"_length is \d+",
        "let prompt_length, chain_length and answer_length say the most that `draw` gives",
    ),
    (r"at most length = ", "let `length` say the most that `draw` gives, and give a target or None "
     "for each input"),
)  # fmt: skip
"""Pairs of a pattern and advice. The advice tells users what to do about an error whose text
matches the pattern."""


def told(error: BaseException) -> str:
    """Returns an error in one line, with what to do about it where that is known."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # a user's class may do anything
        text = "(its text can't be told)"
    text = f"{type(error).__name__}: {text}"[:MOST_TOLD]
    return "; ".join([text, *(do for sign, do in REMEDIES if re.search(sign, text))][:2])


def place_of(error: BaseException) -> str | None:
    """Returns the file and line in the user's own files where an error was raised, or through which
    it came. Returns None if it passed through none of them."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_own_file(frame.filename)]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else None


def is_own_file(path: str) -> bool:
    """Returns whether a file belongs neither to sweepd nor to a library."""
    return not (path.startswith(LIBRARIES) or INSTALLED.intersection(Path(path).parts))


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
