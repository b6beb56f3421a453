"""How an attempt can end.

completed: it ran its whole budget. solved: its test sample was at or above the success mark.
stopped: a rule gave up on it. diverged: a number was NaN or infinite, which is a fail. failed:
there was an error, too little memory or a lost worker; its result is missing, which is no fail.
interrupted: it is to be continued.
"""

DONE = ("completed", "solved", "stopped", "diverged")
"""The statuses after which a trial is not run again."""
RAN = ("completed", "solved", "diverged")
"""The statuses of trials that show what their training budget is good for. A trial that a rule
stopped is not among them, since more training might still have helped it."""
STATUSES = (*DONE, "failed", "interrupted")
UNTRIED = "untried"
"""The status of a trial of which no attempt has ended."""
INTERRUPTED_EXIT = 130
"""The exit code of a command that was interrupted. It can be resumed if it trains."""
