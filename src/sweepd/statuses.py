"""How an attempt can end.

completed: ran its whole budget. solved: its test sample was at or above the success mark.
stopped: a rule gave up on it. diverged: NaN or infinite, a fail. failed: an error, out of memory,
a lost worker; missing, not a fail. interrupted: to be continued.
"""

DONE = ("completed", "solved", "stopped", "diverged")
"""After these a trial is not run again."""
RAN = ("completed", "solved", "diverged")
"""These say what the budget is good for; after a rule's stop more training may still help."""
STATUSES = (*DONE, "failed", "interrupted")
UNTRIED = "untried"
"""How a trial stands of which no attempt has ended."""
