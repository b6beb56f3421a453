"""Every error that a user can cause or meet, under one root.

Lower layers raise these. Only `sweepd.cli` turns them into text and an exit code. A message says
what happened, where (file, line or key) and what to do.
"""

from __future__ import annotations


class SweepdError(Exception):
    """Root of sweepd's own errors. `exit_code` is what the command line exits with."""

    exit_code = 3


class UserError(SweepdError, ValueError):
    """The grid, the question, the cluster file, the results folder or the usage is wrong."""

    exit_code = 2


class EnvironmentFailure(SweepdError):
    """Storage, Ray or the cluster failed, or another driver holds the sweep."""

    exit_code = 3
