"""The row of `trials` with which an attempt ends."""

from __future__ import annotations

import re
import socket
from datetime import UTC, datetime
from typing import Any

import torch

from sweepd.grid.plan import Trial
from sweepd.store.schema import Row
from sweepd.trial.training import MetricRow, Training

MOST_TOLD = 10_000
"""Characters of an error's text that are stored."""


def ledger_columns(trial: Trial, number: int, sweep: str) -> dict[str, Any]:
    """The columns of an attempt's row that are known before it starts: those of the plan, whose
    `train_flops` are a budget that the attempt has yet to spend, and which attempt it is."""
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
    training: Training | None,
    latest: MetricRow | None,
    started: datetime,
) -> dict[str, Any]:
    """Returns the row that ends an attempt now.

    columns: `ledger_columns`. training: None where the task or the model could not be made.
    latest: the newest row of metrics, whose loss stands in for that of a missing test score.
    A `stopped` trial has no scores at all: nobody knows what the rest of its budget would give.
    """
    score = training.result.score if training and training.result else None
    loss = latest.loss if latest and status != "stopped" else None
    return {
        **columns,
        "status": status,
        "error": error,
        "acc": score and score.acc,
        "chain_acc": score and score.chain_acc,
        "correct": score and score.correct,
        "chain_correct": score and score.chain_correct,
        "total": score and score.total,
        "independent": score and score.independent,
        "commonest": score and score.commonest,
        "loss_at": score and score.profile.loss_json(),
        "acc_at": score.profile.acc_json() if score and score.correct is not None else None,
        "loss": score.loss if score else loss,
        "step": training.step if training else 0,
        "tokens": training.tokens if training else 0,
        "seconds": training.seconds if training else 0.0,
        "train_flops": training.step * training.flops_per_step if training else 0.0,
        "parent": training.parent if training else None,
        "started": started,
        "ended": datetime.now(UTC),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def described(error: Exception) -> str:
    """An exception as it is stored: its class and its text."""
    try:
        text = str(error)
    except Exception:  # a user's class may do anything
        text = "(its text can't be told)"
    return storable(f"{type(error).__name__}: {text}")


def storable(text: str) -> str:
    """An error's text as it is stored: no colours for terminals, no lone surrogates, no flood."""
    return re.sub(r"\x1b\[[\d;]*m", "", text).encode(errors="replace").decode()[:MOST_TOLD]
