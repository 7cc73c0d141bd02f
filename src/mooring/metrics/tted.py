"""JTTED: how much longer a gang's steps take where it is than in the best place there could be.

T = compute time of a step + Σ over its groups of volume / bandwidth of the lowest level of the
topology that contains the group. What is not known has a default, below. Besides, without any
assumption: nodes used over the fewest possible, and leaves used over the fewest possible.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from mooring.metrics.summary import Tted
from mooring.model.cluster import WHOLE
from mooring.model.mig import GEOMETRIES

if TYPE_CHECKING:
    from mooring.metrics.cluster import Cluster
    from mooring.metrics.job import Job
    from mooring.model.cluster import Device, Node
    from mooring.model.mig import Profile
    from mooring.model.topology import Topology
    from mooring.model.workload import PodGroup, Shape

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
    """How fast groups could be at best; kept until the nodes change."""

    def __init__(self, cluster: Cluster, topology: Topology) -> None:
        self._cluster = cluster
        self._depth = len(topology.levels)
        levels = topology.levels
        default = [LEVEL_GB_S / 2 ** (self._depth - 1 - i) for i in range(self._depth)]
        named = [level.bandwidth or default[i] for i, level in enumerate(levels)]
        outermost = named[0] / 2 if named else LEVEL_GB_S
        self.bandwidth = [outermost, *named, NODE_GB_S]
        """Per level, the cluster first and the node last."""
        self._version = -1
        self._best: dict[tuple[object, ...], tuple[int, int, int]] = {}

    @property
    def leaf(self) -> int:
        """Return the innermost level above the node; 0 (the cluster) without any."""
        return self._depth

    def path(self, node: Node) -> tuple[str, ...]:
        """Return the domains of a node, outermost first, itself last."""
        return (*(*node.path, *("",) * self._depth)[: self._depth], node.name)

    def level(self, paths: list[tuple[str, ...]]) -> int:
        """Return the lowest level of which one domain contains all."""
        low, high = min(paths), max(paths)
        same = 0
        while same <= self._depth and low[same] == high[same]:
            same += 1
        return same

    def best(self, group: PodGroup, count: int) -> tuple[int, int, int]:
        """Return the fewest nodes, fewest leaves and lowest level for so many tasks."""
        if self._version != self._cluster.version:
            self._best.clear()
            self._version = self._cluster.version
        shape = group.shape
        key = shape.gpus, shape.milli, shape.gpu_memory, shape.mig, shape.gpu_models, count
        found = self._best.get(key)
        if found is None:
            found = self._best[key] = self._count(shape, count)
        return found

    def _count(self, shape: Shape, count: int) -> tuple[int, int, int]:
        slots: list[Counter[tuple[str, ...]]] = [Counter() for _ in range(self._depth + 2)]
        models = shape.gpu_models
        for seen in self._cluster.nodes.values():
            if seen.node.ready and (not models or seen.node.gpu_model in models):
                path, room = self.path(seen.node), room_of(shape, seen.node)
                for level in range(self._depth + 2):
                    slots[level][path[:level]] += room
        fewest = [_fewest(sorted(each.values(), reverse=True), count) for each in slots]
        lowest = max((level for level, few in enumerate(fewest) if few == 1), default=0)
        return fewest[-1], fewest[self.leaf], lowest

    def seconds(self, group: PodGroup, level: int) -> float:
        """Return how long a group that one domain of a level contains sends in a step."""
        volume = group.topology.volume or VOLUME_MIB
        return volume / _MIB_PER_GB / self.bandwidth[level]


def room_of(shape: Shape, node: Node) -> int:
    """Return how many tasks of a shape the devices of an empty node hold."""
    parts = [_parts_of(shape, device) for device in node.devices if device.healthy]
    return sum(parts) if shape.gpus == 1 else sum(map(bool, parts)) // shape.gpus


def _parts_of(shape: Shape, device: Device) -> int:
    """Return how many tasks can share a device."""
    geometry = GEOMETRIES.get(device.mig)
    if geometry is not None or shape.mig:
        profile = geometry.profiles.get(shape.mig) if geometry else None
        return 0 if profile is None else _instances(profile)
    if shape.gpu_memory:
        return device.memory // shape.gpu_memory
    return WHOLE // shape.milli


def _instances(profile: Profile) -> int:
    """Return how many instances of a profile fit on one device."""
    count = free_from = 0
    for start in profile.starts:
        if start >= free_from:
            count, free_from = count + 1, start + profile.width
    return count


def _fewest(sizes: list[int], count: int) -> int:
    """Return how many of the sizes, largest first, hold so many; at least 1."""
    number = 0
    for size in sizes:
        if count <= 0:
            break
        count -= size
        number += 1
    return max(number, 1)


class Gangs:
    """JTTED of all gangs that start."""

    def __init__(self, cluster: Cluster, topology: Topology) -> None:
        self._cluster = cluster
        self._yardstick = Yardstick(cluster, topology)
        self._time, self._nodes, self._leaves = array("d"), array("d"), array("d")

    def count(self, job: Job) -> None:
        """Count a workload that has just begun to run, if it is a gang with GPUs."""
        parts = [self._part(job, leaf) for leaf in job.workload.leaves() if leaf.shape.gpus]
        known = [part for part in parts if part is not None]
        if sum(count for count, *_ in known) < 2:
            return
        _, here, best, nodes, fewest, leaves, fewest_leaves = map(sum, zip(*known, strict=True))
        self._time.append((STEP_S + here) / (STEP_S + best))
        self._nodes.append(nodes / fewest)
        self._leaves.append(leaves / fewest_leaves)

    def _part(
        self, job: Job, leaf: PodGroup
    ) -> tuple[int, float, float, int, int, int, int] | None:
        """Return of a group: tasks, time here and at best, nodes, fewest, leaves, fewest."""
        names = [seat.node for (group, _), seat in job.seats.items() if group == leaf.name]
        nodes = [self._cluster.nodes[name].node for name in names if name in self._cluster.nodes]
        if not nodes:
            return None
        stick = self._yardstick
        paths = [stick.path(node) for node in nodes]
        fewest_nodes, fewest_leaves, lowest = stick.best(leaf, len(nodes))
        return (
            len(nodes),
            stick.seconds(leaf, stick.level(paths)),
            stick.seconds(leaf, lowest),
            len(set(paths)),
            fewest_nodes,
            len({path[: stick.leaf] for path in paths}),
            fewest_leaves,
        )

    def summary(self) -> Tted:
        """Return the means."""
        if not self._time:
            return Tted(0, 1.0, 1.0, 1.0, 1.0)
        return Tted(
            len(self._time),
            float(np.mean(self._time)),
            float(np.quantile(self._time, 0.9)),
            float(np.mean(self._nodes)),
            float(np.mean(self._leaves)),
        )
