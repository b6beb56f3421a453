"""What results can hold, wherever a value comes from."""

from __future__ import annotations

LARGEST_INT = 2**53
"""The largest whole number that results hold. Larger ones may change in a float64 column."""
NAME = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"
"""A regular expression that matches the names of sweeps, and of the files and folders of a
store."""
