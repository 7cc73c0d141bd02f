"""Placing tasks that join others of their workload: what a gang lost, and what it grows by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.entry import NOWHERE, Entry
from mooring.policy.placing.ask import Part
from mooring.policy.placing.place import ANYWHERE, Placer, Within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mooring.model.entry import Members
    from mooring.policy.placing.place import Seats


Found = list[tuple["Sequence[int]", "Seats"]]
"""Tasks of a leaf, and the seats that are booked for them."""


@dataclass(slots=True)
class Beside:
    """Places tasks of one workload beside those that have a place already."""

    placer: Placer
    entry: Entry
    root: Part
    """All that the workload asks for, compiled."""
    closed: tuple[str, ...] = ()
    """Nodes that are kept for others."""
    barred: tuple[int, ...] = ()
    """Kinds of nodes that it may not be on."""

    def place(self, wanted: Mapping[str, Sequence[int]]) -> Found | None:
        """Book places for tasks, by leaf; None, and nothing booked, if one of them has none."""
        self.placer.aim((*self.entry.avoid, *self.closed), self.barred)
        found: Found = []
        return found if self._place(self.root, ANYWHERE, wanted, found) else None

    def _place(
        self, part: Part, within: Within, wanted: Mapping[str, Sequence[int]], found: Found
    ) -> bool:
        """Place all of a part in one of its domains."""
        if not any(wanted.get(leaf.name) for leaf in part.leaves()):
            return True
        for home in self._domains(part, within):
            mark, before = self.placer.books.checkpoint(), len(found)
            if part.demand is not None:
                done = self._place_leaf(part, home, wanted[part.name], found)
            else:
                done = all(self._place(child, home, wanted, found) for child in part.parts)
            if done:
                return True
            self.placer.books.rollback(mark)
            del found[before:]
        return False

    def _domains(self, part: Part, within: Within) -> list[Within]:
        """Return where a part may be: where some of it is, else any domain that it may require."""
        level, books = part.required, self.placer.books
        if level <= within.level:
            return [within]
        rows = self._rows(part)
        if rows:
            return [Within(level, books.up[level][rows[0]])]
        low, high = books.tree.inside(within.level, within.domain, level)
        used = books.used_of[level]
        return [Within(level, d) for d in sorted(range(low, high), key=lambda d: (-used[d], d))]

    def _rows(self, part: Part) -> list[int]:
        """Return the rows on which tasks of a part have a place."""
        members = [self.entry.members[leaf.name] for leaf in part.leaves()]
        return [row for m in members for row in m.rows if row != NOWHERE]

    def _place_leaf(self, leaf: Part, within: Within, tasks: Sequence[int], found: Found) -> bool:
        rows = self._rows(leaf)
        present = np.bincount(rows, minlength=self.placer.books.count) if rows else None
        slices = leaf.inside(within.level).slices
        for some, part, homes in self._runs(leaf, tasks, slices, self._homes(leaf, within)):
            for home in homes:
                seats = self.placer.place_leaf(
                    part,
                    home,
                    self.entry.account,
                    service=self.entry.workload.service,
                    present=present,
                )
                if seats is not None:
                    found.append((some, seats))
                    break
            else:
                return False
        return True

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

    def _homes(self, leaf: Part, within: Within) -> list[Within]:
        """Return the domains to try: the nearest around the group first, `within` last."""
        books, rows = self.placer.books, set(self._rows(leaf))
        start = books.tree.leaf_level
        if self.placer.profile.rule(books, leaf, service=self.entry.workload.service) == "e-spread":
            start = self.placer.profile.spread_level(books.tree)
        homes = []
        for level in range(start, within.level, -1):
            domains = {books.up[level][row] for row in rows}
            if len(domains) == 1:
                homes.append(Within(level, domains.pop()))
        return [*homes, within]

    def bound(self, leaf: Part) -> Within:
        """Return the tightest domain that a leaf must stay inside, given where the others are."""
        bound = ANYWHERE
        for part in _way(self.root, leaf.name):
            rows = self._rows(part)
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
    return replace(leaf, count=len(tasks), required=required, slices=())


def _way(part: Part, name: str) -> list[Part]:
    """Return the parts from `part` down to the leaf of that name; empty: it is not below."""
    if part.demand is not None:
        return [part] if part.name == name else []
    for child in part.parts:
        below = _way(child, name)
        if below:
            return [part, *below]
    return []
