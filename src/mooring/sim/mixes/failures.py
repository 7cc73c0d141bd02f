"""Nodes that fail and come back."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from mooring.model.events import NodeJoined, NodeLeft

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from mooring.model.cluster import Node
    from mooring.model.events import Event

REPAIR_MEDIAN_S, REPAIR_SPREAD = 2 * 3600.0, 1.0
"""Repairs are log-normal."""


def failures(
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
