"""Terms about other tasks: near, apart, spread. Where they let a shape go changes with every task.

Apart is mutual: a task that wants to be apart from this shape keeps it away too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mooring.model.books import Books
from mooring.model.columns import INT, Bools
from mooring.model.demand import Demand
from mooring.model.topology import LABEL
from mooring.policy.placing.constraints import Facts, means

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mooring.model.columns import Counts, Floats, Ints
    from mooring.model.workload import SpreadTerm, TaskTerm


@dataclass(slots=True)
class Company:
    """Which nodes a demand may use, given who is where."""

    books: Books
    demand: Demand
    facts: Facts
    measured: tuple[Bools, ...]
    """By its terms of spread, the nodes over whose domains each is measured."""
    rivals: tuple[tuple[Demand, str], ...]
    """Demands that want to be apart from this one, and at which level."""

    def welcome(self) -> Bools:
        """Return the nodes where one more task breaks no required term as things stand."""
        shape = self.demand.shape
        met = self.undisturbed()
        near = [term for term in shape.near if not term.weight]
        if near:
            met &= self._near(near)
        for index, spread in enumerate(shape.spread):
            if spread.required:
                itself = means(spread, shape)
                met &= self._excess(index) + itself <= spread.skew
                met &= self._is_in_one(spread.level)
        return met

    def undisturbed(self) -> Bools:
        """Return the nodes with nobody that the task, or who, wants to be apart.

        Unlike the other terms this one cannot be mended by placing more tasks.
        """
        met = np.ones(self.books.count, np.bool_)
        for apart in self.demand.shape.apart:
            if not apart.weight:
                met &= self._at(apart.level, self._matching(apart)) == 0
        for rival, level in self.rivals:
            met &= self._at(level, self.books.tally[rival.index]) == 0
        return met

    def holds(self, rows: list[int]) -> bool:
        """Return whether the terms about company hold for tasks that were placed on these rows."""
        shape = self.demand.shape
        return all(near.weight or self._has_company(near, rows) for near in shape.near) and all(
            not spread.required
            or (self._is_in_one(spread.level) & (self._excess(index) <= spread.skew))[rows].all()
            for index, spread in enumerate(shape.spread)
        )

    def _has_company(self, near: TaskTerm, rows: list[int]) -> bool:
        """Return whether somebody else is in every domain of these tasks.

        A flock that finds nobody like it anywhere may found a home, but only one.
        """
        others = self._matching(near)
        if means(near, self.demand.shape):
            others = others - np.bincount(rows, minlength=self.books.count)
            if not others.any():
                domains = self._domains(near.level)[rows]
                return len(np.unique(domains)) == 1 and bool(self._is_in_one(near.level)[rows[0]])
        return bool((self._at(near.level, others)[rows] > 0).all())

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
            total += near.weight * (self._at(near.level, self._matching(near)) > 0)
        for apart in shape.apart:
            total -= apart.weight * (self._at(apart.level, self._matching(apart)) > 0)
        for index in range(len(shape.spread)):
            total -= self._excess(index)
        return total

    def _near(self, terms: list[TaskTerm]) -> Bools:
        """Return the nodes that have the company that all these terms ask for.

        The first of a flock may settle in any domain. Who is in no domain is nobody's company.
        """
        met = np.ones(self.books.count, np.bool_)
        known = np.logical_or.reduce([self._is_in_one(term.level) for term in terms])
        for term in terms:
            counts = self._matching(term) * known
            if not counts.any() and means(term, self.demand.shape):
                met &= self._is_in_one(term.level)
            else:
                met &= self._at(term.level, counts) > 0
        return met

    def _matching(self, term: TaskTerm | SpreadTerm) -> Counts:
        asked = f"labels {term.labels} {term.clauses}" if term.clauses else f"labels {term.labels}"
        return self.books.counter(asked, partial(means, term))

    def _domains(self, level: str) -> Ints:
        """Return a number for the domain of every node at a level; 0 is none, at a label."""
        if level.startswith(LABEL):
            return self.facts.domains(level.removeprefix(LABEL))
        tree = self.books.tree
        return tree.domain[tree.level_of.get(level, 0)]

    def _is_in_one(self, level: str) -> Bools:
        """Return which nodes are in a domain of a level: those that have the label."""
        if level.startswith(LABEL):
            return self._domains(level) > 0
        return np.ones(self.books.count, np.bool_)

    def _at(self, level: str, counts: NDArray[Any]) -> NDArray[Any]:
        """Return, for every node, the count in its domain of a level."""
        tree = self.books.tree
        if level.startswith(LABEL):
            domains = self._domains(level)
            sums = np.bincount(domains, weights=counts).astype(INT)
            sums[:1] = 0
            return sums[domains]
        index = tree.level_of.get(level, 0)
        return tree.sums(index, counts)[tree.domain[index]]

    def _excess(self, index: int) -> Counts:
        """Return by how much every node's domain is above the emptiest one that could be used."""
        term, measured = self.demand.shape.spread[index], self.measured[index]
        at = self._at(term.level, self._matching(term) * measured)
        if not measured.any():
            return at
        if term.min_domains > 1:
            domains = np.unique(self._domains(term.level)[measured])
            if len(domains) < term.min_domains:
                return at
        above: Counts = at - at[measured].min()
        return above
