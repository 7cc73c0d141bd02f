"""The topology: ordered levels, and the tree of domains as dense indices.

Level 0 is the whole cluster, the last level is the single node, the named levels lie between. Rows
(nodes) are sorted by path and name, so every domain of every level is one contiguous slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mooring.model.columns import INT, views

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mooring.model.cluster import Node
    from mooring.model.columns import Ints

CLUSTER = "cluster"
NODE = "node"
LABEL = "label/"
"""Before the name of a node label, as the level of a term about other tasks: its domains are the
values of that label, and nodes that do not have it are in none."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the topology; bandwidth in GB/s between its children, 0 when unknown."""

    name: str
    bandwidth: float = 0.0
    label: str = ""
    """Node label that names its domains, for whoever finds the nodes; empty: a customary one."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The named levels, outermost first, without `cluster` and `node`."""

    levels: tuple[Level, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return all levels by name, `cluster` and `node` included."""
        return (CLUSTER, *(level.name for level in self.levels), NODE)


class Tree:
    """The domains of a set of nodes. Immutable; a node that joins makes a new one."""

    def __init__(self, topology: Topology, nodes: Sequence[Node]) -> None:
        depth = len(topology.levels)
        paths = [(*node.path[:depth], *("",) * (depth - len(node.path))) for node in nodes]
        order = sorted(range(len(nodes)), key=lambda i: (paths[i], nodes[i].name))
        self.topology = topology
        self.level_of = {name: index for index, name in enumerate(topology.names)}
        self.leaf_level = depth + 1
        self.order = order
        self.count = len(nodes)
        paths = [paths[i] for i in order]
        self.names: list[list[str]] = [[CLUSTER]]
        self.first: list[Ints] = []
        """Per level, first row of every domain, and the row count at the end."""
        self.domain: list[Ints] = [np.zeros(self.count, INT)]
        """Per level, the domain of every row."""
        self.first.append(np.array([0, self.count], INT))
        for level in range(1, depth + 1):
            self._add_level([path[:level] for path in paths])
        self.names.append([nodes[i].name for i in order])
        self.first.append(np.arange(self.count + 1, dtype=INT))
        self.domain.append(np.arange(self.count, dtype=INT))
        self.children = [self._children(level) for level in range(self.leaf_level)]
        """Per level above the node, first child (a domain of the next level) of every domain."""
        self.child_of = views(self.children)

    def _add_level(self, prefixes: list[tuple[str, ...]]) -> None:
        starts = [i for i, p in enumerate(prefixes) if i == 0 or p != prefixes[i - 1]]
        first = np.array([*starts, self.count], INT)
        self.names.append(["/".join(prefixes[i]) for i in starts])
        self.first.append(first)
        self.domain.append(np.repeat(np.arange(len(starts), dtype=INT), np.diff(first)))

    def _children(self, level: int) -> Ints:
        below = self.first[level + 1]
        return np.searchsorted(below, self.first[level]).astype(INT)

    def rows(self, level: int, domain: int) -> slice:
        """Return the rows of a domain."""
        first = self.first[level]
        return slice(int(first[domain]), int(first[domain + 1]))

    def sums(self, level: int, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of `values` over the rows of every domain of `level`."""
        return self.fold(values, self.leaf_level, level)

    def fold(self, values: NDArray[Any], source: int, level: int) -> NDArray[Any]:
        """Return the sums over the domains of `level` of values at the lower level `source`."""
        if not self.count:
            return np.zeros(len(self.first[level]) - 1, values.dtype)
        if source == level:
            return values
        starts = np.searchsorted(self.first[source], self.first[level][:-1])
        return np.add.reduceat(values, starts, dtype=values.dtype)

    def inside(self, level: int, domain: int, below: int) -> tuple[int, int]:
        """Return the domains of the level `below` inside a domain: first, and one past the last."""
        if below == level:
            return domain, domain + 1
        lower, first = self.first[below], self.first[level]
        return (
            int(np.searchsorted(lower, first[domain])),
            int(np.searchsorted(lower, first[domain + 1])),
        )
