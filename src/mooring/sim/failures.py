"""Nodes that fail and come back, under any load."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush, merge
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.events import NodeJoined, NodeLeft

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mooring.model.cluster import Node
    from mooring.model.events import Event
    from mooring.sim.load import Load

REPAIR_MEDIAN_S, REPAIR_SPREAD = 2 * 3600.0, 1.0
"""Repairs are log-normal."""
_YEAR = 365 * 86_400.0
_STREAM = 2
"""Of the streams of a seed; mixes draw their work from those before."""


def with_failures(load: Load, seed: int, a_year: float, until_s: float) -> Load:
    """Return a load whose nodes fail until then, each so often a year, and come back."""
    rng = np.random.default_rng(seed).spawn(_STREAM + 1)[_STREAM]
    failing = _failures(rng, load.nodes, until_s, _YEAR / a_year)
    return replace(load, changes=merge(load.changes, failing, key=itemgetter(0)))


def _failures(
    rng: np.random.Generator, nodes: Sequence[Node], until_s: float, mean_s: float
) -> Iterator[tuple[float, Event]]:
    """Yield nodes that go and come again; each runs `mean_s` on average until it fails."""
    coming: list[tuple[float, str, Node]] = []
    down: set[str] = set()
    at = 0.0
    while (at := at + rng.exponential(mean_s / len(nodes))) < until_s:
        node = nodes[int(rng.integers(len(nodes)))]
        repair_s = float(REPAIR_MEDIAN_S * rng.lognormal(0.0, REPAIR_SPREAD))
        while coming and coming[0][0] <= at:
            back, name, known = heappop(coming)
            down.remove(name)
            yield back, NodeJoined(known)
        if node.name not in down:
            down.add(node.name)
            yield at, NodeLeft(node.name)
            heappush(coming, (at + repair_s, node.name, node))
    while coming:
        back, _, known = heappop(coming)
        yield back, NodeJoined(known)
