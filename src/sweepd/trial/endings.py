"""The row of `trials` with which an attempt ends."""

from __future__ import annotations

import re
import socket
from datetime import UTC, datetime
from typing import Any

import torch

from sweepd.errors import UserError
from sweepd.grid.trials import Trial
from sweepd.grid.user_files import raised_at
from sweepd.listing import Row
from sweepd.trial.loop import Run
from sweepd.trial.results import StepRow

SCORES = (
    *("acc", "chain_acc", "correct", "chain_correct", "total"),
    *("independent", "commonest", "loss_at", "acc_at"),
)
"""The columns of a test score. A loop of the user's own may have more."""
MOST_TOLD = 10_000
"""The most characters of an error's text that are stored."""


def log_line(number: int, line: str) -> str:
    """Returns a line for a trial's log, with the present time and the number of the attempt."""
    return f"{datetime.now(UTC).isoformat(timespec='seconds')} attempt {number}: {line}\n"


def ledger_columns(trial: Trial, number: int, sweep: str) -> dict[str, Any]:
    """Returns the columns of an attempt's row that are known before it starts: those of the plan,
    and which attempt it is. `train_flops` is None, since the plan's is a budget that the attempt
    has yet to spend."""
    return {
        **trial.row(),
        "train_flops": None,
        "attempt": number,
        "sweep": sweep,
        "host": socket.gethostname(),
    }


def ending_row(
    columns: Row,
    status: str,
    error: str | None,
    run: Run | None,
    latest: StepRow | None,
    started: datetime,
) -> dict[str, Any]:
    """Returns the row that ends an attempt now.

    columns: `ledger_columns`. run: None where the user's classes could not be made. latest: the
    newest row of metrics. Its loss stands in for that of a missing test score. A `stopped` trial
    has no scores at all, since nobody knows what the rest of its budget would give.
    """
    loss = latest.columns.get("loss") if latest and status != "stopped" else None
    scores = run.result.columns if run and run.result else {}
    return {
        **columns,
        "status": status,
        "error": error or (run.result.error if run and run.result else None),
        **dict.fromkeys(SCORES),
        "loss": loss,
        **scores,
        "step": run.step if run else 0,
        "tokens": run.tokens if run else 0,
        "seconds": run.seconds if run else 0.0,
        "train_flops": run.train_flops if run else 0.0,
        "parent": run.parent if run else None,
        "started": started,
        "ended": datetime.now(UTC),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def described(error: Exception) -> str:
    """Returns an exception as it is stored: its class and its text. In front stands the line of the
    user's own code that raised it, if any did. Of a UserError only the text is stored, which says
    all that itself."""
    try:
        text = str(error)
    except Exception:  # a user's class may do anything
        text = "(its text can't be told)"
    if isinstance(error, UserError):
        return storable(text)
    frame = raised_at(error)
    where = f"{frame.filename}:{frame.lineno}: " if frame else ""
    return storable(f"{where}{type(error).__name__}: {text}")


def storable(text: str) -> str:
    """Returns an error's text as it is stored: without colours for terminals, without lone
    surrogates, and at most MOST_TOLD characters long."""
    return re.sub(r"\x1b\[[\d;]*m", "", text).encode(errors="replace").decode()[:MOST_TOLD]
