"""A figure of dots: several values on a line for each row, one of them ours, as SVG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING

from mooring.report.svg import sheet, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH = 960
_LEFT, _TOP, _ROW, _BOTTOM, _GAP, _LEAD = 104, 84, 24, 34, 24, 64
"""Names of rows, what is above and below them, and between panels; room for the lead."""
_TICKS = (1, 2, 5, 10, 20, 50)
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333 } .soft { fill: #777; font-size: 11px }
.head { font-size: 14px; font-weight: 600 } .lead { font-weight: 600; fill: #1d7d53 }
.axis { stroke: #e2e2e2 } .paper { fill: #fff } .bar { stroke: #2b9c6a; stroke-width: 3 }
.ours { fill: #2b9c6a } .c0 { fill: #e0973c } .c1 { fill: #9aa3ad } .c2 { fill: #4f9bd9 }
.c3 { fill: #9b72cf } .c4 { fill: #c2255c }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .soft { fill: #999 } .axis { stroke: #333a44 } .paper { fill: #16181b }
.lead { fill: #4fd1a5 } }
""".strip()


@dataclass(frozen=True, slots=True)
class Panel:
    """One column of the figure."""

    title: str
    rows: Mapping[str, Mapping[str, float]]
    """Per row, the value of every name; they are the same in all rows."""


def draw_dots(title: str, panels: Sequence[Panel], ours: str) -> str:
    """Return the figure: how far ours is ahead of the best of the others, or behind."""
    height = _TOP + _ROW * max(len(panel.rows) for panel in panels) + _BOTTOM
    values = [v for panel in panels for row in panel.rows.values() for v in row.values()]
    low, high = floor(min(values)), max(ceil(max(values)), floor(min(values)) + 1)
    width = (WIDTH - _LEFT - _GAP * (len(panels) - 1)) / len(panels)
    parts = [words(20, 26, title, "head"), *_legend(panels[0], ours)]
    for number, name in enumerate(panels[0].rows):
        parts.append(words(_LEFT - 14, _y(number) + 4, name, anchor="end"))
    for index, panel in enumerate(panels):
        left = _LEFT + index * (width + _GAP)
        parts += _panel(panel, ours, _Scale(left, width - _LEAD, low, high))
    return sheet(WIDTH, height, _STYLE, parts)


@dataclass(frozen=True, slots=True)
class _Scale:
    left: float
    width: float
    low: int
    high: int

    def x(self, value: float) -> float:
        return round(self.left + (value - self.low) / (self.high - self.low) * self.width, 1)

    def ticks(self) -> range:
        step = next((step for step in _TICKS if (self.high - self.low) / step <= 6), 100)
        return range(-(-self.low // step) * step, self.high + 1, step)


def _panel(panel: Panel, ours: str, scale: _Scale) -> Iterator[str]:
    yield words(scale.left, _TOP - 14, panel.title, "head")
    bottom = _y(len(panel.rows)) - _ROW / 2 + 4
    for tick in scale.ticks():
        x = scale.x(tick)
        yield f'<line class="axis" x1="{x}" x2="{x}" y1="{_TOP}" y2="{bottom}"/>'
        yield words(x, bottom + 16, str(tick), "soft", "middle")
    for number, row in enumerate(panel.rows.values()):
        y = _y(number)
        others = [name for name in row if name != ours]
        best = max(row[name] for name in others)
        a, b = scale.x(best), scale.x(row[ours])
        yield f'<line class="bar" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/>'
        for index, name in enumerate(others):
            yield f'<circle class="c{index % 5}" cx="{scale.x(row[name])}" cy="{y}" r="4.5"/>'
        yield f'<circle class="ours" cx="{b}" cy="{y}" r="5.5"/>'
        yield words(scale.left + scale.width + 10, y + 4, f"{row[ours] - best:+.2f}", "lead")


def _legend(panel: Panel, ours: str) -> Iterator[str]:
    names = list(next(iter(panel.rows.values())))
    others = [name for name in names if name != ours]
    x = 24.0
    for kind, name in [*((f"c{i % 5}", name) for i, name in enumerate(others)), ("ours", ours)]:
        yield f'<circle class="{kind}" cx="{x}" cy="44" r="5"/>'
        yield words(x + 12, 48, name)
        x += 36 + 6.5 * len(name)
    yield words(x, 48, f"numbers: how far {ours} is ahead of the best of the others", "soft")


def _y(number: int) -> float:
    return _TOP + (number + 0.5) * _ROW
