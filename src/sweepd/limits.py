"""What results can hold, wherever it comes from."""

from __future__ import annotations

LARGEST_INT = 2**53
"""Whole numbers beyond this would not survive as a float64 column of results."""
NAME = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"
"""The names of sweeps, and of the files and folders of a store, as a regular expression."""
