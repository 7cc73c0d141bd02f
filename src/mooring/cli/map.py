"""Pictures in the terminal: a cluster as a map, a value as a curve."""

from __future__ import annotations

from itertools import groupby, pairwise
from math import ceil
from typing import TYPE_CHECKING

from rich.text import Text

from mooring.metrics.frames import FULL, GONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.metrics.frames import Film

FREE, TAKEN = "#3b434d", "#2fb8a6"
PARTLY = ("#6e5624", "#886723", "#a17822", "#b98824", "#cf9829", "#e2a733", "#f3b743")
"""One to seven eighths of a node."""
COLOURS = {str(level): colour for level, colour in enumerate((FREE, *PARTLY, TAKEN))}
SIGNS = {"0": ".", str(FULL): "#"}
"""The same where there are no colours; others are digits."""
SQUARE = "■"
BARS = " ▁▂▃▄▅▆▇█"
MOST_LINES = 16
"""Leaves that are drawn."""


def cluster_map(film: Film, at: float, *, colour: bool) -> Text:
    """Return the cluster as it was then: a line for each leaf, a cell for each node."""
    before = [picture for when, picture in film.frames if when <= at]
    first = film.frames[0][1] if film.frames else GONE * len(film.places)
    pairs = zip(film.places, before[-1] if before else first, strict=True)
    leaves = [
        [taken for _, taken in same] for _, same in groupby(pairs, key=lambda pair: pair[0].path)
    ]
    lines = [Text(" ").join(_cell(taken, colour) for taken in leaf) for leaf in leaves[:MOST_LINES]]
    if len(leaves) > MOST_LINES:
        lines.append(Text(f"… and {len(leaves) - MOST_LINES:,} more", "dim"))
    return Text("\n").join(lines)


def cell(taken: int, *, colour: bool) -> Text:
    """Return the cell of a node of which so many eighths are taken."""
    return _cell(str(taken), colour)


def _cell(taken: str, colour: bool) -> Text:
    if not colour or taken == GONE:
        return Text(SIGNS.get(taken, taken))
    return Text(SQUARE, COLOURS[taken])


def curve(values: Sequence[float], most: float, width: int, style: str = "") -> Text:
    """Return values from 0 to `most` as bars, all of the time in that width."""
    top = len(BARS) - 1
    heights = [ceil(min(max(value / most, 0.0), 1.0) * top) for value in _sampled(values, width)]
    return Text("".join(BARS[height] for height in heights), style)


def _sampled(values: Sequence[float], width: int) -> list[float]:
    """Return the means of `width` equal stretches, or all values if there are fewer."""
    if len(values) <= width:
        return list(values)
    ends = [len(values) * i // width for i in range(width + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(ends)]


def clock(seconds: float) -> str:
    """Return an instant as a time of day."""
    minutes = int(seconds // 60)
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"
