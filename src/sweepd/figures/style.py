"""How every figure looks: its width on paper, its fonts, and the colour of each model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

POINTS_PER_INCH = 72
WIDTHS = {"one": 3.25 * POINTS_PER_INCH, "two": 6.75 * POINTS_PER_INCH}
"""The widths, in points, of figures that fill one or two columns of a paper."""

SMALL, NORMAL = 7, 8
"""The font sizes, in points, of numbers and legends (SMALL) and of titles (NORMAL)."""

ModelMark = tuple[str, str]
SHIPPED: dict[str, ModelMark] = {
    "standard": ("#0072B2", "circle"),
    "sparse": ("#009E73", "square"),
    "linear": ("#D55E00", "diamond"),
    "lin_rpe": ("#CC79A7", "triangle-up"),
    "log_rpe": ("#E69F00", "triangle-right"),
    "dot_free": ("#56B4E9", "cross"),
    "tmx": ("#7F7F7F", "triangle-left"),
    "tmx_scale": ("#000000", "triangle-down"),
    "window": ("#8C4A1F", "M-1,-.45L1,-.45L1,.45L-1,.45Z"),  # a bar
    "lstm": (
        "#C2185B",
        "M0,-1.1L.26,-.35L1.05,-.34L.42,.13L.65,.89L0,.44L-.65,.89L-.42,.13L-1.05,-.34L-.26,-.35Z",
    ),  # a star
    "gla": ("#CBC350", "M-1,.5A1,1,0,0,1,1,.5Z"),  # half a disc
    "delta": ("#3D2BD6", "M-.9,-.9L.9,-.9L-.9,.9L.9,.9Z"),  # an hourglass
    "mamba2": ("#30CFC0", "M0,-1L1,.8L0,.3L-1,.8Z"),  # a dart
    "hybrid": (
        "#402000",
        "M-.65,-1L0,-.35L.65,-1L1,-.65L.35,0L1,.65L.65,1L0,.35L-.65,1L-1,.65L-.35,0L-1,-.65Z",
    ),  # a diagonal cross
}
"""The models that ship with sweepd, in the order in which figures show them. Each has a colour and
a shape: one of Vega's, or the outline of one. The first eight colours are those of Okabe and Ito,
and the others were chosen so that colour-blind readers can tell all of them apart as well."""
OTHERS: tuple[ModelMark, ...] = (
    ("#882255", "circle"),
    ("#117733", "diamond"),
    ("#332288", "square"),
    ("#AA4499", "cross"),
    ("#44AA99", "triangle-up"),
    ("#999933", "triangle-left"),
)
"""The colours and shapes of users' own models, in the order of these models' names. The colours are
Tol's muted ones."""


@dataclass(frozen=True)
class Look:
    """Where a figure is shown. All lengths are points."""

    width: float
    ink: str = "black"
    """The colour of letters and axes."""
    paper: str = "white"
    aside: float = 46
    """How much of the width the left axis and its title take."""

    @property
    def narrow(self) -> bool:
        """Whether legends stand below one another."""
        return self.width < BESIDE

    def panel(self, columns: int) -> float:
        """Returns the width of each of so many panels side by side, which is at least 20."""
        return max((self.width - self.aside - GAP * (columns - 1)) / columns, 20)


BESIDE = 400
"""The width of a figure, in points, from which on its legends stand side by side."""
GAP = 8
"""The distance between panels, in points."""


def ordered(models: Sequence[str]) -> list[str]:
    """Returns the models without repetition. Those that ship with sweepd come first, in the order
    of SHIPPED, and the others follow by name."""
    place = {name: number for number, name in enumerate(SHIPPED)}
    return sorted(set(models), key=lambda name: (place.get(name, len(place)), name))


def marks(models: Sequence[str]) -> list[ModelMark]:
    """Returns the colour and the shape of each of the ordered models."""
    own = [name for name in models if name not in SHIPPED]
    return [SHIPPED.get(name) or OTHERS[own.index(name) % len(OTHERS)] for name in models]


def configuration(look: Look) -> dict[str, Any]:
    """Returns the fonts, lines and colours of a look, as Vega-Lite's `config`."""
    letters = {
        "labelColor": look.ink,
        "titleColor": look.ink,
        "labelFontSize": SMALL,
        "titleFontSize": NORMAL,
        "titleFontWeight": "normal",
    }
    lines = {"domainColor": look.ink, "tickColor": look.ink, "gridColor": look.ink}
    return {
        "font": "Arial, Helvetica, sans-serif",
        "view": {"stroke": None},
        "facet": {"spacing": GAP},
        "concat": {"spacing": 2 * GAP},
        "text": {"fontSize": SMALL, "color": look.ink},
        "title": {
            "fontWeight": "normal",
            "fontSize": NORMAL,
            "color": look.ink,
            "anchor": "start",
            "offset": 3,
        },
        "header": {**letters, "labelFontSize": NORMAL, "labelPadding": 3},
        "axis": {
            **letters,
            **lines,
            "gridOpacity": 0.1,
            "domainWidth": 0.5,
            "gridWidth": 0.5,
            "tickWidth": 0.5,
            "tickSize": 3,
            "labelPadding": 2,
            "titlePadding": 4,
        },
        "legend": {
            **letters,
            "titleFontSize": SMALL,
            "orient": "bottom",
            "direction": "horizontal",
            "symbolSize": 40,
            "symbolStrokeWidth": 1.2,
            "rowPadding": 1,
            "columnPadding": 8,
            "titlePadding": 3,
            "labelOffset": 3,
            "labelLimit": 0,
            "gradientLength": 80,
            "gradientThickness": 6,
            "offset": 4,
            "padding": 0,
            "layout": {
                "bottom": {
                    "anchor": "start",
                    "direction": "vertical" if look.narrow else "horizontal",
                }
            },
        },
    }
