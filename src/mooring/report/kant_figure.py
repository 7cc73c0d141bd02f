"""The figure of the Kant setting: one row of panels for every cluster and load, as SVG."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from mooring.metrics.waits import BUCKETS
from mooring.report.svg import sheet, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mooring.report.kant import Group

WIDTH = 1080
_LEFT, _TOP, _GROUP, _TITLE = 96, 66, 214, 30
_BAR, _STEP, _ROWS = 15, 27, 5
"""How high bars are, how far apart, and for how many there is room."""
_PANEL, _GAP, _ROOM = 144, 22, 46
"""A panel, what is between two, and inside of it the room for the number."""
_WAITS_LEFT, _WAITS_RIGHT = _LEFT + 4 * (_PANEL + _GAP) + 56, 18
_THOUSAND = 3
_UNITS = ("", "k", "M")
"""Of thousands; no wait is longer than that."""
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333 } .soft { fill: #777; font-size: 11px }
.head { font-size: 14px; font-weight: 600 } .axis { stroke: #bbb; fill: none }
.bound { stroke: #333; stroke-dasharray: 3 2 } .whisker { stroke: #333; fill: none }
.paper { fill: #fff }
.c0 { fill: #9aa3ad } .c1 { fill: #4f9bd9 } .c2 { fill: #e0973c }
.c3 { fill: #9b72cf } .c4 { fill: #2b9c6a }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .soft { fill: #999 } .axis { stroke: #555 } .paper { fill: #16181b }
.bound, .whisker { stroke: #ddd } }
""".strip()


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars of one number."""

    title: str
    key: str
    form: str
    low: float
    """Where bars begin."""
    bound: str = ""


PANELS = (
    Panel("GAR median", "gar_median", "{:.1%}", 0.0, "gar_most"),
    Panel("SOR", "sor", "{:.1%}", 0.0, "sor_most"),
    Panel("GFR", "gfr", "{:.1%}", 0.0, "gfr_least"),
    Panel("leaves / fewest", "jtted_leaves", "{:.2f}", 1.0),
)


def draw(groups: Sequence[Group]) -> str:
    """Return the figure."""
    policies = list(dict.fromkeys(name for group in groups for name in group.by_policy))
    height = _TOP + _GROUP * len(groups)
    parts = [*_legend(policies)]
    for index, group in enumerate(groups):
        parts += _group(group, policies, _TOP + index * _GROUP)
    return sheet(WIDTH, height, _STYLE, parts)


def _legend(policies: Sequence[str]) -> Iterator[str]:
    x = 20
    for index, name in enumerate(policies):
        yield f'<rect class="c{index % 5}" x="{x}" y="16" width="12" height="12" rx="2"/>'
        yield words(x + 18, 26, name)
        x += 44 + 7 * len(name)
    told = "lines: 95 % intervals over seeds; dashed: bounds of the last policy"
    yield words(20, 48, told, "soft")


def _group(group: Group, policies: Sequence[str], y: float) -> Iterator[str]:
    yield f'<line class="axis" x1="20" x2="{WIDTH - 20}" y1="{y - 6}" y2="{y - 6}"/>'
    yield words(20, y + 14, group.title, "head")
    top = y + _TITLE + 18
    for row, name in enumerate(policies):
        yield words(_LEFT - 10, top + row * _STEP + 12, name, anchor="end")
    for column, panel in enumerate(PANELS):
        yield from _panel(group, policies, panel, (_LEFT + column * (_PANEL + _GAP), top))
    yield from _waits(group, policies, top)


def _panel(
    group: Group, policies: Sequence[str], panel: Panel, at: tuple[float, float]
) -> Iterator[str]:
    """Draw bars; the longest one, with its interval, fills the width but for the numbers."""
    x, y = at
    yield words(x, y - 10, panel.title)
    spreads = [group.spread(name, panel.key) for name in policies]
    bound = group.spread(policies[-1], panel.bound) if panel.bound else None
    ends = [spread.mean + spread.half for spread in spreads if spread is not None]
    most = max([*ends, 0.0 if bound is None else bound.mean]) - panel.low if ends else 0.0
    if panel.form.endswith("%}") and most > 0.5:
        most = 1.0
    scale = (_PANEL - _ROOM) / most if most > 0 else 0.0
    bottom = y + _STEP * len(policies) - (_STEP - _BAR) + 4
    yield f'<line class="axis" x1="{x}" x2="{x}" y1="{y - 3}" y2="{bottom}"/>'
    for row, spread in enumerate(spreads):
        if spread is None:
            continue
        top, long = y + row * _STEP, max(spread.mean - panel.low, 0.0) * scale
        yield _rect(row, (x, top), long)
        half = min(spread.half * scale, _PANEL - _ROOM - long)
        if half > 0:
            middle, left = top + _BAR / 2, max(long - half, 0.0)
            yield (
                f'<path class="whisker" d="M{x + left:.1f} {middle:.1f}H{x + long + half:.1f}"/>'
            )
        yield words(x + _PANEL, top + 12, panel.form.format(spread.mean), "soft", "end")
    if bound is not None:
        place = x + min((bound.mean - panel.low) * scale, _PANEL - _ROOM)
        yield f'<path class="bound" d="M{place:.1f} {y - 4}V{bottom}"/>'


def _rect(row: int, at: tuple[float, float], long: float) -> str:
    x, y = at
    size = f'width="{max(long, 0.5):.1f}" height="{_BAR}"'
    return f'<rect class="c{row % 5}" x="{x}" y="{y:.1f}" {size} rx="1.5"/>'


def _waits(group: Group, policies: Sequence[str], y: float) -> Iterator[str]:
    """Draw p99 waits by size, and p50 smaller, on a log scale."""
    left, right = _WAITS_LEFT, WIDTH - _WAITS_RIGHT
    yield words(left, y - 10, "wait by GPUs: ● p99, small p50")
    buckets = [
        bucket
        for bucket in BUCKETS
        if any(group.values(name, f"p50_{bucket}_s") for name in policies)
    ]
    found = [
        (row, line, part, spread.mean)
        for row, name in enumerate(policies)
        for line, bucket in enumerate(buckets)
        for part in ("p99", "p50")
        if (spread := group.spread(name, f"{part}_{bucket}_s")) is not None
    ]
    waits = [max(wait, 1.0) for *_, wait in found]
    if not waits:
        return
    low, high = floor(log10(min(waits))), max(ceil(log10(max(waits))), floor(log10(min(waits))) + 1)
    scale = (right - left) / (high - low)
    step = _STEP * _ROWS / len(buckets)
    for power in range(low, high + 1):
        x, bottom = left + (power - low) * scale, y + step * len(buckets)
        yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 3}" y2="{bottom:.1f}"/>'
        anchor = "end" if power == high else "middle"
        told = f"{10 ** (power % _THOUSAND)}{_UNITS[power // _THOUSAND]} s"
        yield words(x, bottom + 13, told, "soft", anchor)
    for line, bucket in enumerate(buckets):
        yield words(left - 8, y + (line + 0.5) * step + 4, bucket, "soft", "end")
    for row, line, part, wait in found:
        x = left + (log10(max(wait, 1.0)) - low) * scale
        shift = (row - (len(policies) - 1) / 2) * min(step / (len(policies) + 1), 3.2)
        radius = 4.2 if part == "p99" else 2.2
        place = f'cx="{x:.1f}" cy="{y + (line + 0.5) * step + shift:.1f}"'
        yield f'<circle class="c{row % 5}" {place} r="{radius}" fill-opacity="0.85"/>'
