"""Terms about other tasks: near, apart, spread. Where they let a shape go changes with every task.

Apart is mutual: a task that wants to be apart from this shape keeps it away too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mooring.model.books import Books
from mooring.model.columns import Bools
from mooring.model.demand import Demand

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mooring.model.cluster import Labels
    from mooring.model.columns import Counts, Floats
    from mooring.model.workload import Shape


@dataclass(slots=True)
class Company:
    """Which nodes a demand may use, given who is where."""

    books: Books
    demand: Demand
    eligible: Bools
    """The nodes that its constraints leave; spread is measured over their domains."""
    rivals: tuple[tuple[Demand, str], ...]
    """Demands that want to be apart from this one, and at which level."""

    def welcome(self) -> Bools:
        """Return the nodes where one more task breaks no required term as things stand."""
        shape = self.demand.shape
        met = self.undisturbed()
        for near in shape.near:
            if not near.weight:
                met &= self._near(near.level, near.labels)
        for spread in shape.spread:
            if spread.required:
                itself = has_labels(shape, spread.labels)
                met &= self._excess(spread.level, spread.labels) + itself <= spread.skew
        return met

    def undisturbed(self) -> Bools:
        """Return the nodes with nobody that the task, or who, wants to be apart.

        Unlike the other terms this one cannot be mended by placing more tasks.
        """
        met = np.ones(self.books.count, np.bool_)
        for apart in self.demand.shape.apart:
            if not apart.weight:
                met &= self._at(apart.level, self._matching(apart.labels)) == 0
        for rival, level in self.rivals:
            met &= self._at(level, self.books.tally[rival.index]) == 0
        return met

    def holds(self, rows: list[int]) -> bool:
        """Return whether the terms about company hold for tasks that were placed on these rows."""
        shape = self.demand.shape
        return all(
            near.weight or self._has_company(near.level, near.labels, rows) for near in shape.near
        ) and all(
            not spread.required
            or (self._excess(spread.level, spread.labels)[rows] <= spread.skew).all()
            for spread in shape.spread
        )

    def _has_company(self, level: str, labels: Labels, rows: list[int]) -> bool:
        """Return whether somebody else is in every domain of these tasks.

        A flock that finds nobody like it anywhere may found a home, but only one.
        """
        others = self._matching(labels)
        if has_labels(self.demand.shape, labels):
            others = others - np.bincount(rows, minlength=self.books.count)
            if not others.any():
                tree = self.books.tree
                return len(np.unique(tree.domain[tree.level_of.get(level, 0)][rows])) == 1
        return bool((self._at(level, others)[rows] > 0).all())

    @property
    def has_wishes(self) -> bool:
        """Return whether it has terms that are only wishes."""
        shape = self.demand.shape
        wishes = any(term.weight for term in (*shape.near, *shape.apart))
        return wishes or any(not spread.required for spread in shape.spread)

    def liking(self) -> Floats:
        """Return how well each node meets the terms that are only wishes."""
        shape = self.demand.shape
        total = np.zeros(self.books.count)
        for near in shape.near:
            total += near.weight * (self._at(near.level, self._matching(near.labels)) > 0)
        for apart in shape.apart:
            total -= apart.weight * (self._at(apart.level, self._matching(apart.labels)) > 0)
        for spread in shape.spread:
            total -= self._excess(spread.level, spread.labels)
        return total

    def _near(self, level: str, labels: Labels) -> Bools:
        counts = self._matching(labels)
        if not counts.any() and has_labels(self.demand.shape, labels):
            return np.ones(self.books.count, np.bool_)  # the first of a flock may settle anywhere
        return self._at(level, counts) > 0

    def _matching(self, labels: Labels) -> Counts:
        return self.books.counter(f"labels {labels}", partial(has_labels, labels=labels))

    def _at(self, level: str, counts: NDArray[Any]) -> NDArray[Any]:
        """Return, for every node, the count in its domain of a level."""
        tree = self.books.tree
        index = tree.level_of.get(level, 0)
        return tree.sums(index, counts)[tree.domain[index]]

    def _excess(self, level: str, labels: Labels) -> Counts:
        """Return by how much every node's domain is above the emptiest one that could be used."""
        at = self._at(level, self._matching(labels))
        if not self.eligible.any():
            return at
        above: Counts = at - at[self.eligible].min()
        return above


def has_labels(shape: Shape, labels: Labels) -> bool:
    """Return whether a term with these labels means this shape; no labels mean every shape."""
    return set(labels) <= set(shape.labels)
