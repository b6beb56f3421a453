"""Draws a board (`sweepd.cli.board`) as lines of text for a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.text import Text

from sweepd.cli.board import Board, Map, MapMark, MapPlace, Spot, TrialState, amount, maps
from sweepd.listing import duration

SIGNS: dict[MapMark, tuple[str, str, str]] = {
    "untried": ("·", "dim", "not tried"),
    "running": ("%", "cyan", "running, so much done"),
    "passed": ("✓", "green", "passed"),
    "failed": ("✗", "red", "failed"),
    "stopped": ("■", "yellow", "stopped by a rule"),
    "error": ("!", "bold red", "error"),
    "open": ("○", "yellow", "not decided"),
    "fails": ("↑", "dim", "fails, as a smaller size does"),
    "passes": ("↓", "dim", "passes, as a smaller {least} does"),
}
"""The sign of each mark on the map, how the sign looks, and what it means."""
EARLIER = "(in brackets: known before this launch)"
COLUMN = 5
GAP = 3
MOST_ERRORS = 3
MOST_RUNNING = 4
BAR = 20


def drawn(board: Board, width: int, interrupt: str) -> Text:
    """Returns the whole board. interrupt: a sentence on what Ctrl-C does. It is empty once the
    sweep has ended."""
    lines = [
        *_headline(board, width),
        *_running(board, width),
        *_errors(board, width),
        Text(),
        *_maps(board, width),
    ]
    if interrupt:
        lines.append(Text(_shortened(interrupt, width), style="dim"))
    return Text("\n").join(lines)


def _headline(board: Board, width: int) -> Iterator[Text]:
    yield Text(
        _shortened(f"sweep {board.sweep}: {board.goal}, {board.rule} of seeds", width), "bold"
    )
    if board.waiting:
        yield Text(_shortened(f"{board.waiting} …", width), style="cyan")
        return
    found = amount(board)
    share = found.trials / found.trials_in_all if found.trials_in_all else 1.0
    flops = []  # unknown for a loop without `cost`
    if found.flops_in_all:
        share = found.flops / found.flops_in_all
        flops = [f"{found.flops:.2g} of {_about(board)}{found.flops_in_all:.2g} FLOPs"]
    filled = round(BAR * share)
    bar = "━" * filled + "╌" * (BAR - filled)
    parts = [
        f"{bar} {share:.0%}",
        f"{found.trials} of {_about(board)}{found.trials_in_all} trials",
        *flops,
    ]
    if board.seconds:
        rate = 60 * found.trials / board.seconds
        parts.append(f"{rate:.{rate < 10:d}f} trials/min")
    if found.left is not None and found.trials < found.trials_in_all:
        parts.append(f"{_span(found.left)} left")
    yield from map(Text, _wrapped(parts, " · ", width))


def line(board: Board) -> str:
    """Returns the board in one line, for where there is no terminal."""
    found = amount(board)
    told = f"{found.trials}/{_about(board)}{found.trials_in_all} done"
    if board.seconds:
        told += f" after {duration(board.seconds)}"
    if found.left is not None and found.trials < found.trials_in_all:
        told += f", about {_span(found.left)} left"
    running = [
        f"{board.labels.get(spot.id, spot.id)} {_step(spot, state)}"
        + ("" if state.score is None else f" {board.goal.metric} {state.score:.2f}")
        for spot, state in board.running()
    ]
    now = board.waiting or (f"running: {'; '.join(running)}" if running else "")
    return f"{told}; {now}" if now else told


def _step(spot: Spot, state: TrialState) -> str:
    """Returns the step that a trial is at, and of how many if that is known."""
    return f"step {state.step}" + (f"/{spot.steps}" if spot.steps else "")


def _span(seconds: tuple[float, float]) -> str:
    low, high = map(duration, seconds)
    return low if low == high else f"{low} to {high}"


def _about(board: Board) -> str:
    """Returns the sign before numbers that are not known exactly, or nothing before those that
    are."""
    if board.expected is not None:
        return "~"
    return "≤" if board.staircase else ""


def _running(board: Board, width: int) -> Iterator[Text]:
    running = board.running()
    for spot, state in running[:MOST_RUNNING]:
        score = "" if state.score is None else f", {board.goal.metric} {state.score:.2f}"
        end = f"{_step(spot, state)}{score}"
        label = _shortened(board.labels.get(spot.id, spot.id), width - len(end) - 3)
        yield Text(f"▸ {label} {end}", style="cyan")
    if more := len(running[MOST_RUNNING:]):
        yield Text(f"▸ and {more} more", style="cyan")


def _errors(board: Board, width: int) -> Iterator[Text]:
    for error in board.errors[-MOST_ERRORS:]:
        yield Text(_shortened(error, width), style="red")


def _maps(board: Board, width: int) -> Iterator[Text]:
    """Yields the maps side by side, as many as fit, and then what their signs mean."""
    found = maps(board)
    blocks = [_map(one, board.minimized) for one in found]
    row: list[list[Text]] = []
    for block in blocks:
        if row and sum(one[0].cell_len + GAP for one in [*row, block]) - GAP > width:
            yield from _beside(row)
            row = []
        row.append(block)
    if row:
        yield from _beside(row)
    places = [place for one in found for place in one.places.values()]
    used = {place.mark for place in places}
    told = [f"{board.minimized} down, size across" if board.minimized else "size across"]
    least = board.minimized or "value"
    told += [
        f"{sign} {means.format(least=least)}"
        for mark, (sign, _, means) in SIGNS.items()
        if mark in used
    ]
    if any(place.earlier for place in places):
        told.append(EARLIER)
    for text in _wrapped(told, "   ", width):
        yield Text(text, style="dim")


def _beside(blocks: Sequence[Sequence[Text]]) -> Iterator[Text]:
    for lines in zip_longest(*blocks):
        joined = Text()
        for block, line in zip(blocks, lines, strict=True):
            shown = line.copy() if line is not None else Text()
            shown.pad_right(block[0].cell_len - shown.cell_len + GAP)
            joined.append_text(shown)
        joined.rstrip()
        yield joined
    yield Text()


def _map(one: Map, minimized: str) -> list[Text]:
    """Returns a title, a line of sizes, and a line for each value of what is minimised. The title
    is as wide as the widest line."""
    heads = [str(value) if value is not None else "" for value in one.values]
    stub = max(len(minimized), *map(len, heads))
    title = f"{one.task} {one.model}"
    room = max(len(title), stub + COLUMN * len(one.sizes))
    lines = [Text(title.ljust(room), style="bold")]
    sizes = "".join(str(size).rjust(COLUMN) for size in one.sizes)
    lines.append(Text(f"{minimized.rjust(stub)}{sizes}", style="dim"))
    for value, head in zip(one.values, heads, strict=True):
        line = Text(head.rjust(stub))
        for size in one.sizes:
            line.append_text(_sign(one.places.get((value, size))))
        lines.append(line)
    return lines


def _sign(place: MapPlace | None) -> Text:
    if place is None:
        return Text(" " * COLUMN)
    sign, style, _ = SIGNS[place.mark]
    if place.mark == "running":
        sign = f"{place.share:.0%}"
    elif place.earlier:
        sign, style = f"({sign})", f"dim {style}"
    return Text(sign.rjust(COLUMN), style=style)


def _wrapped(parts: Sequence[str], gap: str, width: int) -> list[str]:
    """Returns the parts side by side, in lines that fit."""
    lines: list[str] = []
    for part in (_shortened(part, width) for part in parts):
        if lines and len(lines[-1]) + len(gap) + len(part) <= width:
            lines[-1] += gap + part
        else:
            lines.append(part)
    return lines


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(1, width - 1)]}…"
