"""What `plan` says about the precision of a fit of its grid. The predicted width of the interval is
compared with that of fits of simulated grids. Some grids cannot tell an exponent of 0 from ½."""

import pytest
from simulated import simulated

from sweepd.query.laws import half_width, precision_notes


@pytest.mark.parametrize(
    ("sizes", "widths", "told"),
    [
        ("[4, 8]", "[4, 8, 16]", "2 sizes, and `fit d ~ L` needs 3"),
        ("[4, 6, 8]", "[4, 8, 16, 32]", "cannot tell 0 from ½"),
        ("[4, 8, 16, 32, 64, 128]", "[4, 8, 16, 32, 64]", "tells 0 from ½"),
    ],
)
def test_a_plan_says_what_its_grid_can_tell(sizes: str, widths: str, told: str) -> None:
    plan = simulated(f"task.n={sizes}", f"model.d={widths}")
    [note] = precision_notes(plan)
    assert note.startswith("lis (standard): ") and told in note


def test_one_size_or_one_width_is_no_matter_of_growth() -> None:
    assert not list(precision_notes(simulated("task.n=[4]")))
    assert not list(precision_notes(simulated("model.d=[8]")))


def test_more_of_anything_is_known_more_exactly() -> None:
    lengths, widths = (32, 64, 128), (8, 16, 32, 64, 128)
    base = half_width(lengths, widths, 3)
    wider = half_width((32, 128, 512), widths, 3)
    more = half_width((32, 45, 64, 90, 128), widths, 3)
    assert base and wider and more
    assert wider < base and more < base
