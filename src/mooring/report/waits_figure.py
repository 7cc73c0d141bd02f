"""A figure of waits: mean, tail and longest of every policy on one scale, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from mooring.report.svg import sheet, words

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH = 960
_LEFT, _RIGHT, _TOP, _ROW, _FOOT = 104, 96, 62, 30, 62
"""Names of rows, room for the mean, what is above all panels, a row, and what is below a panel."""
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_UNITS = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1.0, "s"))
_TICKS = (1, 10, _MINUTE, 10 * _MINUTE, _HOUR, 10 * _HOUR, 4 * _DAY, 40 * _DAY, 400 * _DAY)
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333 } .soft { fill: #777; font-size: 11px }
.head { font-size: 14px; font-weight: 600 } .axis { stroke: #e2e2e2 } .paper { fill: #fff }
.mean { fill: #2b9c6a } .p90 { fill: #4f9bd9 } .p99 { fill: #e0973c } .longest { fill: #c2255c }
.reach { stroke: #c9ced4; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .soft { fill: #999 } .axis { stroke: #333a44 } .paper { fill: #16181b }
.reach { stroke: #4a525c } }
""".strip()


@dataclass(frozen=True, slots=True)
class Waits:
    """How long all waited under a policy, in seconds."""

    name: str
    mean: float
    p90: float
    p99: float
    longest: float

    def marks(self) -> Iterator[tuple[str, float]]:
        """Yield what is drawn, the longest first: what is short is on top."""
        for kind in reversed(MARKS):
            yield kind, getattr(self, kind)


MARKS = ("mean", "p90", "p99", "longest")


@dataclass(frozen=True, slots=True)
class Panel:
    """Some policies on one cluster."""

    title: str
    rows: Sequence[Waits]

    @property
    def height(self) -> float:
        """Return how high it is."""
        return len(self.rows) * _ROW + _FOOT


def draw_waits(title: str, panels: Sequence[Panel]) -> str:
    """Return the figure; the scale of time is logarithmic, and the same in all panels."""
    values = [value for panel in panels for row in panel.rows for _, value in row.marks()]
    scale = _Scale.over([value for value in values if value > 0])
    parts, y = [words(20, 26, title, "head"), *_legend()], float(_TOP)
    for panel in panels:
        parts += _panel(panel, scale, y)
        y += panel.height
    return sheet(WIDTH, y, _STYLE, parts)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Powers of ten; what is shorter than the first is drawn there."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Sequence[float]) -> _Scale:
        low = floor(log10(min(values))) if values else 0
        return cls(low, max(ceil(log10(max(values))) if values else 1, low + 1))

    def x(self, value: float) -> float:
        part = (log10(max(value, 10.0**self.low)) - self.low) / (self.high - self.low)
        return round(_LEFT + part * (WIDTH - _LEFT - _RIGHT), 1)

    def ticks(self) -> list[float]:
        return [tick for tick in _TICKS if 10.0**self.low <= tick <= 10.0**self.high]


def _panel(panel: Panel, scale: _Scale, y: float) -> Iterator[str]:
    yield words(20, y + 18, panel.title, "head")
    top, bottom = y + 28, y + 28 + len(panel.rows) * _ROW
    for tick in scale.ticks():
        x = scale.x(tick)
        yield f'<line class="axis" x1="{x}" x2="{x}" y1="{top:g}" y2="{bottom:g}"/>'
        yield words(x, bottom + 16, _time(tick), "soft", "middle")
    for number, row in enumerate(panel.rows):
        middle = top + (number + 0.5) * _ROW
        yield words(_LEFT - 14, middle + 4, row.name, anchor="end")
        a, b = scale.x(row.mean), scale.x(row.longest)
        yield f'<line class="reach" x1="{a}" x2="{b}" y1="{middle:g}" y2="{middle:g}"/>'
        for kind, value in row.marks():
            radius = 6 if kind == "mean" else 4.5
            yield f'<circle class="{kind}" cx="{scale.x(value)}" cy="{middle:g}" r="{radius}"/>'
        yield words(WIDTH - 20, middle + 4, _time(row.mean), anchor="end")


def _legend() -> Iterator[str]:
    x = 24.0
    for kind in MARKS:
        yield f'<circle class="{kind}" cx="{x}" cy="44" r="5"/>'
        yield words(x + 12, 48, kind)
        x += 40 + 7 * len(kind)
    yield words(WIDTH - 20, 48, "mean", "soft", "end")


def _time(seconds: float) -> str:
    unit, name = next((pair for pair in _UNITS if seconds >= pair[0]), _UNITS[-1])
    number = seconds / unit
    digits = 0 if number >= 10 or number == int(number) else 1
    return f"{number:.{digits}f} {name}"
