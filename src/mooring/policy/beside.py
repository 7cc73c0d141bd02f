"""Placing tasks that join others of their workload: what a gang lost, and what it grows by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.entry import NOWHERE, Entry
from mooring.policy.ask import Part
from mooring.policy.place import ANYWHERE, Placer, Within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mooring.model.entry import Members
    from mooring.policy.place import Seats


@dataclass(slots=True)
class Beside:
    """Places tasks of one workload beside those that have a place already."""

    placer: Placer
    entry: Entry
    root: Part
    """All that the workload asks for, compiled."""

    def place(self, leaf: Part, tasks: Sequence[int]) -> list[tuple[Sequence[int], Seats]] | None:
        """Book places for these tasks of a leaf; None, and nothing booked, if one has none."""
        books, members = self.placer.books, self.entry.members[leaf.name]
        self.placer.avoid = self.entry.avoid
        rows = [row for row in members.rows if row != NOWHERE]
        present = np.bincount(rows, minlength=books.count) if rows else None
        mark = books.checkpoint()
        found = []
        for some, part, homes in self._runs(leaf, tasks, leaf.slices, self._homes(leaf)):
            for home in homes:
                seats = self.placer.place_leaf(
                    part,
                    home,
                    self.entry.queue,
                    service=self.entry.workload.service,
                    present=present,
                )
                if seats is not None:
                    found.append((some, seats))
                    break
            else:
                books.rollback(mark)
                return None
        return found

    def _runs(
        self,
        leaf: Part,
        tasks: Sequence[int],
        slices: tuple[tuple[int, int], ...],
        homes: list[Within],
    ) -> Iterator[tuple[Sequence[int], Part, list[Within]]]:
        """Yield what to place together, and where: a task whose slice has a place joins it there.

        A task belongs to the run of its number: with slices of 4, tasks 4 to 7 are the second.
        """
        if not slices:
            yield tasks, _of(leaf, tasks, leaf.required), homes
            return
        (level, size), inner = slices[0], slices[1:]
        members = self.entry.members[leaf.name]
        for run in sorted({task // size for task in tasks}):
            some = [task for task in tasks if task // size == run]
            mates = [row for row in members.rows[run * size : (run + 1) * size] if row != NOWHERE]
            if mates:
                home = Within(level, self.placer.books.up[level][mates[0]])
                yield from self._runs(leaf, some, inner, [home])
            else:
                part = _of(leaf, some, max(level, leaf.required))
                yield some, part.sliced(inner if len(some) == size else ()), homes

    def _homes(self, leaf: Part) -> list[Within]:
        """Return the domains to try: the nearest around the group first, its bound last."""
        books, bound = self.placer.books, self.bound(leaf)
        rows = {row for row in self.entry.members[leaf.name].rows if row != NOWHERE}
        start = books.tree.leaf_level
        if self.placer.profile.rule(books, leaf, service=self.entry.workload.service) == "e-spread":
            start = self.placer.profile.spread_level(books.tree)
        homes = []
        for level in range(start, bound.level, -1):
            domains = {books.up[level][row] for row in rows}
            if len(domains) == 1:
                homes.append(Within(level, domains.pop()))
        return [*homes, bound]

    def bound(self, leaf: Part) -> Within:
        """Return the tightest domain that a leaf must stay inside, given where the others are."""
        bound = ANYWHERE
        for part in _way(self.root, leaf.name):
            rows = [
                row
                for around in part.leaves()
                for row in self.entry.members[around.name].rows
                if row != NOWHERE
            ]
            if rows and part.required > bound.level:
                bound = Within(part.required, self.placer.books.up[part.required][rows[0]])
        return bound


def growth(members: Members, leaf: Part) -> list[int]:
    """Return the tasks of the next elastic unit: one, or what a slice misses; empty: none."""
    spare = members.spare
    if spare <= 0 or members.is_releasing:
        return []
    pending = members.pending()
    if not leaf.slices:
        return pending[:1]
    size = leaf.slices[0][1]
    for run in sorted({task // size for task in pending}):
        some = [task for task in pending if task // size == run]
        if len(some) <= spare:
            return some
    return []


def _of(leaf: Part, tasks: Sequence[int], required: int) -> Part:
    return Part(leaf.name, leaf.demand, len(tasks), required, leaf.preferred)


def _way(part: Part, name: str) -> list[Part]:
    """Return the parts from `part` down to the leaf of that name; empty: it is not below."""
    if part.demand is not None:
        return [part] if part.name == name else []
    for child in part.parts:
        below = _way(child, name)
        if below:
            return [part, *below]
    return []
