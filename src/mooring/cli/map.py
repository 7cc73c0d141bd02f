"""The demo's picture: the cluster as a map, and the numbers around it."""

from __future__ import annotations

from itertools import pairwise, zip_longest
from math import ceil
from typing import TYPE_CHECKING

from rich.text import Text

from mooring.cli.fold import fold_names
from mooring.cli.words import counted, percent, sentence
from mooring.model.cluster import WHOLE
from mooring.model.plan import NoRoom
from mooring.model.topology import CLUSTER
from mooring.sim.generate import LEAF_NODES, NODE_GPUS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.sim.demo import Started, Superpod, View

FREE, FULL = "#3b434d", "#2fb8a6"
PARTLY = ("#6e5624", "#886723", "#a17822", "#b98824", "#cf9829", "#e2a733", "#f3b743")
"""One to seven GPUs of a node."""
COLOURS = (FREE, *PARTLY, FULL)
SIGNS = ".1234567#"
"""The same where there are no colours."""
SQUARE = "■"
BARS = " ▁▂▃▄▅▆▇█"
LEAST_GAP, MOST_GAP = 2, 6
"""Columns between superpods."""
MEANINGS = {"GAR": "GPUs allocated", "GFR": "nodes partly taken"}
LEAST_STARTED = 2
"""Lines for the last decisions, at least."""


class Picture:
    """Draws views into so much room; remembers the ratios for their curves."""

    def __init__(self, width: int, height: int, *, colour: bool) -> None:
        self.width = width
        self.height = height
        self.colour = colour
        self.allocation: list[float] = []
        self.fragmentation: list[float] = []

    def note(self, view: View) -> None:
        """Remember the ratios of a view."""
        self.allocation.append(view.gpu_allocation_ratio)
        self.fragmentation.append(view.gpu_node_fragmentation_ratio)

    def draw(self, view: View, deciding_s: float) -> Text:
        """Return one frame, of the view that was noted last."""
        lines = [
            self._title(view),
            self._curve("GAR", self.allocation, FULL),
            self._curve("GFR", self.fragmentation, PARTLY[-1]),
            _counts(view, deciding_s),
            _waiting(view),
        ]
        lines += self._map(view.superpods, self.height - len(lines) - LEAST_STARTED)
        lines += [_started(each) for each in view.last[: max(self.height - len(lines), 0)]]
        for line in lines:
            line.truncate(self.width, overflow="ellipsis")
        return Text("\n", no_wrap=True, end="").join(lines)

    def _title(self, view: View) -> Text:
        nodes = sum(len(leaf) for superpod in view.superpods for leaf in superpod.leaves)
        left = Text("Mooring", "bold")
        left.append(f"  {counted(nodes, 'node')}, {counted(view.gpu_count, 'GPU')}", "not bold")
        legend = Text("  ").join(
            Text.assemble(self._cell(taken), f" {what}")
            for taken, what in ((0, "free"), (NODE_GPUS // 2, "partly"), (NODE_GPUS, "full"))
        )
        time = Text(clock(view.now, day=True))
        room = max(self.width - left.cell_len - legend.cell_len - time.cell_len, 2)
        return Text.assemble(left, " " * (room // 2), legend, " " * (room - room // 2), time)

    def _curve(self, name: str, values: Sequence[float], style: str) -> Text:
        """Return a ratio now, and how it came to that: the whole width is all the time so far."""
        room = max(map(len, MEANINGS.values()))
        width = max(self.width - len(f"{name}  100.0 %    ") - room, 1)
        bars = "".join(BARS[ceil(value * (len(BARS) - 1))] for value in _sampled(values, width))
        value = values[-1] if values else 0.0
        return Text.assemble(
            (name, "bold"), f"{percent(value):>9}  ", (bars.ljust(width), style),
            (f"  {MEANINGS[name]:>{room}}", "dim"),
        )  # fmt: skip

    # -- the map ----------------------------------------------------------------------------

    def _map(self, superpods: Sequence[Superpod], height: int) -> list[Text]:
        """Return rows of superpods, a line each leaf, a cell each node."""
        cell = 2 if self.width >= (2 * LEAF_NODES + LEAST_GAP) * len(superpods) else 1
        most = (self.width + LEAST_GAP) // (LEAF_NODES * cell + LEAST_GAP)
        across = max(min(most, len(superpods)), 1)
        room = (self.width - across * LEAF_NODES * cell) // max(across - 1, 1)
        gap = min(max(room, LEAST_GAP), MOST_GAP)
        lines: list[Text] = []
        for first in range(0, len(superpods), across):
            band = self._band(superpods[first : first + across], cell, gap)
            if len(lines) + len(band) > height and lines:
                more = counted(len(superpods) - first, "superpod")
                return [*lines, Text(f"… and {more} more, not drawn", "dim")]
            lines += band
        return lines

    def _band(self, superpods: Sequence[Superpod], cell: int, gap: int) -> list[Text]:
        """Return superpods beside each other, their names on top."""
        apart = Text(" " * gap)
        width = LEAF_NODES * cell
        rows = [apart.join(Text(superpod.name.ljust(width), "dim") for superpod in superpods)]
        across = zip_longest(*(superpod.leaves for superpod in superpods), fillvalue=())
        rows += [apart.join(self._leaf(leaf, cell) for leaf in leaves) for leaves in across]
        return rows

    def _leaf(self, leaf: Sequence[int], cell: int) -> Text:
        line = Text()
        for taken in leaf:
            line.append_text(self._cell(taken))
            line.append(" " * (cell - 1))
        line.append(" " * (LEAF_NODES * cell - len(line)))
        return line

    def _cell(self, taken: int) -> Text:
        return Text(SQUARE, COLOURS[taken]) if self.colour else Text(SIGNS[taken])


def _sampled(values: Sequence[float], width: int) -> list[float]:
    """Return the means of `width` equal stretches, or all values if there are fewer."""
    if len(values) <= width:
        return list(values)
    ends = [len(values) * i // width for i in range(width + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(ends)]


# ── the other lines ──────────────────────────────────────────────────────────────────────────────


def clock(seconds: float, *, day: bool = False) -> str:
    """Return an instant of the demo as a time of day."""
    minutes = int(seconds // 60)
    time = f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"
    return f"day {minutes // 1440 + 1}, {time}" if day else time


def _counts(view: View, deciding_s: float) -> Text:
    speed = view.placed / deciding_s if deciding_s else 0.0
    line = Text.assemble((f"{view.placed:,}", "bold"), f" placed at {speed:,.0f}/s, ")
    line.append(f"{view.ended:,} ended, {view.placed - view.ended:,} run")
    return line


def _waiting(view: View) -> Text:
    line = Text.assemble((f"{view.waiting:,}", "bold"), " wait")
    if view.reason is None:
        return line
    who = "all" if view.reason_count == view.waiting else f"{view.reason_count:,} of them"
    if not isinstance(view.reason, NoRoom):
        return line.append(f", {who} like this: {sentence(view.reason)}")
    level = view.reason.level
    where = "the cluster has no room" if level == CLUSTER else f"no {level} has room"
    return line.append(f", {who} because {where} for all their tasks now")


def _started(started: Started) -> Text:
    workload = started.workload
    (group,) = workload.groups
    gpus = group.shape.gpus * group.shape.milli * len(started.nodes) / WHOLE
    waited = round((started.at - workload.submitted_at) / 60)
    line = Text.assemble((f"{clock(started.at)}  ", "dim"), f"{workload.name:<10} ")
    line.append(f"{gpus:>5g} GPU{'s' if gpus > 1 else ' '}  {fold_names(started.nodes)}")
    return line.append(f"  after {waited} min" if waited else "", "dim")
