"""A launch is killed at each kind of step of its writing, and by power cuts, and loses nothing.
This is the short version of `torture/test_kills.py`, which takes every step."""

from itertools import cycle
from pathlib import Path

from torture.survival import outcome, survive
from torture.zygote import Zygote

STEPS = [
    *("link the root", "replace sweeps", "link launches", "write metrics (aside)"),
    *("fsync metrics (aside)", "replace metrics", "replace checkpoints", "unlink checkpoints"),
    *("replace checkpoints (kept)", "replace trials", "write logs"),
]


def test_kills_and_power_cuts_at_every_kind_of_step(tmp_path: Path) -> None:
    with Zygote() as zygote:
        done, steps = zygote.run(tmp_path / "whole", tmp_path / "told of the whole")
        assert done and set(STEPS) <= set(steps)
        expected = outcome(tmp_path / "whole")
        (tmp_path / "store").mkdir()
        kills = [
            {"at": step, "power": power}
            for step, power in zip(STEPS, cycle((None, 0)), strict=False)
        ]
        assert survive(zygote, tmp_path, kills, expected) == len(kills)
