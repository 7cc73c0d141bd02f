"""A user's own functions, handed in as objects, and what they see of nodes and tasks.

Units are those of people: devices, cores and GiB, parts of one included. All columns are copies,
one entry for each node, so that nothing done to them reaches the books.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from mooring.model.cluster import WHOLE, Labels
from mooring.model.resources import CPU, CPU_ROW, MEMORY, MEMORY_ROW, amount_of
from mooring.model.workload import Shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mooring.model.books import Books
    from mooring.model.columns import Bools, Floats, Ints
    from mooring.model.workload import Workload
    from mooring.policy.placing.constraints import Facts

_CORE, _GIB = 1000.0, 1024.0
"""Millicores of a core, MiB of a GiB."""


@dataclass(frozen=True, slots=True)
class Task:
    """What one task asks for."""

    gpus: float
    """Devices; half of one is 0.5."""
    cpu: float
    """Cores."""
    memory: float
    """GiB."""
    models: tuple[str, ...]
    """GPU models that will do; none: any."""
    labels: Labels
    shape: Shape
    """Everything that is known of it."""

    @staticmethod
    @lru_cache(maxsize=1 << 12)
    def of(shape: Shape) -> Task:
        """Return the tasks of a shape as an own function sees them."""
        cpu, memory = amount_of(shape.amounts, CPU), amount_of(shape.amounts, MEMORY)
        gpus = shape.gpus * shape.milli / WHOLE
        return Task(gpus, cpu / _CORE, memory / _GIB, shape.gpu_models, shape.labels, shape)


class NodeFacts:
    """What some nodes are, as columns: not what runs on them."""

    def __init__(self, books: Books, facts: Facts, rows: Ints) -> None:
        self._books, self._facts, self._rows = books, facts, rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def index(self) -> Ints:
        """Return the number of every node; neighbours in the topology have neighbouring ones."""
        return self._rows.copy()

    @property
    def names(self) -> list[str]:
        """Return the names."""
        return [self._books.nodes[row].name for row in self._rows.tolist()]

    @property
    def models(self) -> NDArray[Any]:
        """Return the GPU models; empty where there is none."""
        return np.array(self._books.flavors, np.str_)[self._books.flavor[self._rows]]

    @property
    def gpus(self) -> Floats:
        """Return how many devices each has."""
        return self._books.devices[self._rows].astype(np.float64)

    @property
    def cpu(self) -> Floats:
        """Return how many cores each has."""
        return _in_units(self._books.capacity[CPU_ROW][self._rows], _CORE)

    @property
    def memory(self) -> Floats:
        """Return how many GiB each has."""
        return _in_units(self._books.capacity[MEMORY_ROW][self._rows], _GIB)

    def label(self, key: str) -> NDArray[Any]:
        """Return the values of a label; empty where a node has none."""
        column, codes = self._facts.codes(key)
        return np.array([*codes, ""], np.str_)[column[self._rows]]

    def domain(self, level: str) -> Ints:
        """Return the number of the domain that each is in, at a level of the topology."""
        return self._books.tree.domain[self._level(level)][self._rows]

    def gpus_in(self, level: str) -> Floats:
        """Return how many devices the domain has that each is in, other nodes included."""
        return self._inside(level, self._books.devices.astype(np.float64))

    def _inside(self, level: str, values: Floats) -> Floats:
        tree, at = self._books.tree, self._level(level)
        found: Floats = tree.sums(at, values)[tree.domain[at][self._rows]]
        return found

    def _level(self, name: str) -> int:
        known = self._books.tree.level_of
        if name not in known:
            raise ValueError(f"there is no level {name!r} in this cluster; there are {[*known]}")
        return known[name]


class NodeStates(NodeFacts):
    """What some nodes are, and what is left of them now. What is held for others is not left."""

    @property
    def free_gpus(self) -> Floats:
        """Return how many devices are free; parts of one count as such."""
        return _free(self._books)[self._rows]

    @property
    def whole_gpus(self) -> Floats:
        """Return how many devices are wholly free."""
        return _in_units((self._books.share[:, self._rows] == WHOLE).sum(axis=0), 1.0)

    @property
    def free_cpu(self) -> Floats:
        """Return how many cores are free."""
        return _in_units(self._books.open[CPU_ROW][self._rows], _CORE)

    @property
    def free_memory(self) -> Floats:
        """Return how many GiB are free."""
        return _in_units(self._books.open[MEMORY_ROW][self._rows], _GIB)

    def free_gpus_in(self, level: str) -> Floats:
        """Return how many devices are free in the domain that each is in, other nodes included."""
        return self._inside(level, _free(self._books))


def _free(books: Books) -> Floats:
    return _in_units(np.maximum(books.share, 0).sum(axis=0), WHOLE)


def _in_units(amounts: Ints, unit: float) -> Floats:
    found: Floats = amounts / unit
    return found


Order = Callable[["Workload"], float]
Score = Callable[[NodeStates, Task], "Floats"]
Filter = Callable[[NodeFacts, Task], "Bools"]


@dataclass(frozen=True, slots=True)
class Own:
    """The functions of a user; none: the policy's own rules. Each must be pure."""

    order: Order | None = None
    """Who goes first in a queue among equal priorities, smallest first; then age decides. It is
    asked when a workload comes to wait, and stands in place of deadlines and of `by: estimate`."""
    score: Score | None = None
    """How good each node is for one more task that fits there, best highest."""
    filter: Filter | None = None
    """Which nodes may take such tasks at all; asked again when the nodes change."""


NOTHING_OWN = Own()
