"""JTTED: how much longer a gang's steps take where it is than in the best place there could be.

T = compute time of a step + Σ over its groups of volume / bandwidth of the lowest level of the
topology that contains the group. What is not known has a default, below. Besides, without any
assumption: nodes used over the fewest possible, and leaves used over the fewest possible, of all
its groups with GPUs together.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from mooring.metrics.packing import Need, Stock, need_of, path_of
from mooring.metrics.summary import Tted

if TYPE_CHECKING:
    from mooring.metrics.cluster import Cluster
    from mooring.metrics.job import Job
    from mooring.metrics.packing import Path
    from mooring.model.cluster import Node
    from mooring.model.topology import Topology
    from mooring.model.workload import PodGroup

STEP_S = 1.0
"""Compute time of a step."""
VOLUME_MIB = 4096
"""What each task sends per step."""
NODE_GB_S = 400.0
"""Bandwidth inside a node."""
LEVEL_GB_S = 50.0
"""Bandwidth between the children of the innermost level; half of it at each level further out."""
_MIB_PER_GB = 1e9 / (1 << 20)


class Yardstick:
    """How long groups need to send, level by level."""

    def __init__(self, topology: Topology) -> None:
        self.depth = len(topology.levels)
        """Of the leaves; 0: there are no levels, the cluster is the one leaf."""
        levels = topology.levels
        default = [LEVEL_GB_S / 2 ** (self.depth - 1 - i) for i in range(self.depth)]
        named = [level.bandwidth or default[i] for i, level in enumerate(levels)]
        outermost = named[0] / 2 if named else LEVEL_GB_S
        self.bandwidth = [outermost, *named, NODE_GB_S]
        """Per level, the cluster first and the node last."""

    def path(self, node: Node) -> Path:
        """Return the domains of a node, itself last."""
        return (*path_of(node, self.depth), node.name)

    def level(self, paths: set[Path]) -> int:
        """Return the lowest level of which one domain contains all."""
        low, high = min(paths), max(paths)
        same = 0
        while same <= self.depth and low[same] == high[same]:
            same += 1
        return same

    def seconds(self, group: PodGroup, level: int) -> float:
        """Return how long a group that one domain of a level contains sends in a step."""
        volume = group.topology.volume or VOLUME_MIB
        return volume / _MIB_PER_GB / self.bandwidth[level]


class Gangs:
    """JTTED of all gangs that start."""

    def __init__(self, cluster: Cluster, topology: Topology) -> None:
        self._cluster = cluster
        self._yardstick = Yardstick(topology)
        self._stock = Stock(cluster, self._yardstick.depth)
        self._time, self._nodes, self._leaves = array("d"), array("d"), array("d")

    def count(self, job: Job) -> None:
        """Count a workload that has just begun to run, if it is a gang with GPUs."""
        places = self._places(job)
        if sum(map(len, places.values())) < 2:
            return
        stick, here, best = self._yardstick, STEP_S, STEP_S
        wanted = Counter[Need]()
        paths: set[Path] = set()
        for leaf in job.workload.leaves():
            nodes = places.get(leaf.name)
            if nodes is None:
                continue
            own, need = {stick.path(node) for node in nodes}, need_of(leaf.shape)
            level, lowest = stick.level(own), self._stock.lowest(need, len(nodes))
            here += stick.seconds(leaf, level)
            best += stick.seconds(leaf, max(level, lowest))
            wanted[need] += len(nodes)
            paths |= own
        fewest, fewest_leaves = self._stock.fewest(wanted)
        leaves = len({path[: stick.depth] for path in paths})
        self._time.append(here / best)
        self._nodes.append(len(paths) / min(len(paths), fewest))
        self._leaves.append(leaves / min(leaves, fewest_leaves))

    def _places(self, job: Job) -> dict[str, list[Node]]:
        """Return for every group that has GPUs the nodes of its tasks."""
        asking = {leaf.name for leaf in job.workload.leaves() if leaf.shape.gpus}
        places: dict[str, list[Node]] = {}
        for (group, _), seat in job.seats.items():
            seen = self._cluster.nodes.get(seat.node)
            if seen is not None and group in asking:
                places.setdefault(group, []).append(seen.node)
        return places

    def summary(self) -> Tted:
        """Return the means."""
        if not self._time:
            return Tted(0, None, None, None, None)
        return Tted(
            len(self._time),
            float(np.mean(self._time)),
            float(np.quantile(self._time, 0.9)),
            float(np.mean(self._nodes)),
            float(np.mean(self._leaves)),
        )
