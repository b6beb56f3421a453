"""How an attempt can end.

completed: ran its whole budget. solved: its test sample was at or above the success mark.
stopped: a rule gave up on it. diverged: NaN or infinite, a fail. failed: an error, out of memory,
a lost worker; missing, not a fail. interrupted: to be continued.
"""

DONE = ("completed", "solved", "stopped", "diverged")
"""After these a trial is not run again."""
STATUSES = (*DONE, "failed", "interrupted")
