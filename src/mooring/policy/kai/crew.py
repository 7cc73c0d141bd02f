"""A workload as a tree of groups: which of its tasks come next, and which are the first to leave.

Every knot of the tree needs a number of what is below it: a leaf needs tasks, an inner knot needs
knots. What is above that is elastic. Tasks come in the order of their numbers, after those that had
a place before; groups in the order of what they lack. Leaving is the other way round.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mooring.model.entry import NOWHERE
from mooring.model.workload import TaskState
from mooring.policy.placing.ask import NO_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mooring.model.entry import Entry, Members
    from mooring.model.workload import PodGroup

Chosen = list[tuple["Knot", list[int]]]
"""Leaves, and tasks of each."""
Tasks = list[tuple[str, int]]
"""(group, task)."""
BELOW, AT, ABOVE = range(3)
"""How a crew stands to its minimum."""


@dataclass(slots=True, eq=False)
class Knot:
    """A group of one workload; a leaf knows which of its tasks have a place and which wait."""

    name: str
    needed: int
    required: int = NO_LEVEL
    preferred: int = NO_LEVEL
    knots: tuple[Knot, ...] = ()
    group: str = ""
    active: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    older: frozenset[int] = frozenset()
    """Tasks that had a place when the cycle began: none leaves so that a new one comes instead."""

    @property
    def count(self) -> int:
        """Return how many tasks have a place, or how many knots have what they need."""
        if not self.knots:
            return len(self.active)
        return sum(knot.is_met for knot in self.knots)

    @property
    def is_met(self) -> bool:
        """Return whether it has what it needs."""
        return self.count >= self.needed

    @property
    def surplus(self) -> bool:
        """Return whether something here or below is more than needed."""
        return self.count > self.needed or any(knot.surplus for knot in self.knots)

    def leaves(self) -> Iterator[Knot]:
        """Yield the leaves in order."""
        if not self.knots:
            yield self
        for knot in self.knots:
            yield from knot.leaves()

    def urgency(self) -> tuple[int, int, float, str]:
        """Return the place among siblings: who lacks something first, then who has least of it."""
        count, needed = self.count, self.needed
        if count < needed:
            return 0, 0, 0.0, self.name
        if not needed:
            return 1, 1, float(count), self.name
        return 1, 0, count / needed, self.name

    def age(self, task: int) -> tuple[bool, int]:
        """Return the place of a task among those of its leaf."""
        return task not in self.older, task

    def in_order(self) -> list[Knot]:
        """Return the knots below, the most urgent first."""
        return sorted(self.knots, key=Knot.urgency)

    # -- what comes next --------------------------------------------------------------------

    def wanted(self) -> Chosen:
        """Return what comes next: all that is needed, or else one more unit."""
        if not self.knots:
            return self._tasks()
        lacks = self.needed - self.count
        chosen: Chosen = []
        for knot in self.in_order():
            if lacks <= 0 and chosen:
                break
            if lacks > 0 and knot.is_met:
                continue
            some = knot.wanted()
            chosen += some
            lacks -= bool(some)
        return chosen if lacks <= 0 else []

    def _tasks(self) -> Chosen:
        lacks = max(1, self.needed - len(self.active))
        return [(self, self.waiting[:lacks])] if len(self.waiting) >= lacks else []

    # -- what leaves first ------------------------------------------------------------------

    def peel(self) -> Chosen:
        """Return the surplus that leaves first: a task, or a whole knot; none: nothing is spare."""
        if not self.knots:
            return [(self, self.active[-1:])] if len(self.active) > self.needed else []
        if not self.count:
            return []
        last_first = self.in_order()[::-1]
        if self.surplus:
            for knot in last_first:
                some = knot.peel()
                if some:
                    return some
        if self.count > self.needed:
            for knot in last_first:
                some = knot.everything()
                if some:
                    return some
        return []

    def everything(self) -> Chosen:
        """Return all tasks that have a place."""
        return [(leaf, leaf.active[::-1]) for leaf in self.leaves() if leaf.active]

    def copy(self) -> Knot:
        """Return a knot that changes on its own."""
        return replace(
            self,
            knots=tuple(knot.copy() for knot in self.knots),
            active=self.active[:],
            waiting=self.waiting[:],
        )


class Crew:
    """A workload in one cycle. What changes here is on trial; `save` and `restore` undo it."""

    __slots__ = (
        *("_homes", "_leaves", "_runs"),
        *("entry", "key", "name", "only", "priority", "queue", "root", "seats"),
    )

    def __init__(self, entry: Entry, priority: int, levels: Mapping[str, int]) -> None:
        self.entry = entry
        self.name = entry.workload.name
        self.queue = entry.queue
        self.priority = priority
        self.root = _knot(entry, entry.workload.root, levels)
        self.only: Chosen | None = None
        """The part of it that is looked at alone; None: all of it."""
        self.seats: dict[tuple[str, int], int] = {}
        """Tasks that are to have a place when others have left it, and its row."""
        self._find_homes()
        self.key = self.rank()

    def _find_homes(self) -> None:
        """Note the leaf of every group, or of every task where a group has several."""
        self._leaves = tuple(self.root.leaves())
        self._homes: dict[str, Knot] = {}
        self._runs: dict[tuple[str, int], Knot] = {}
        for leaf in self._leaves:
            self._homes[leaf.group] = leaf
            for task in (*leaf.active, *leaf.waiting) if leaf.name != leaf.group else ():
                self._runs[leaf.group, task] = leaf

    def rank(self) -> tuple[int, int, float, int]:
        """Return the place in its queue: the least is next, the greatest is the first to leave."""
        workload = self.entry.workload
        return -self.priority, self.state, workload.submitted_at, self.entry.sequence

    @property
    def state(self) -> int:
        """Return whether it is below its minimum, at it, or above it."""
        if not self.root.is_met:
            return BELOW
        return ABOVE if self.root.surplus else AT

    @property
    def is_elastic(self) -> bool:
        """Return whether a leaf has more tasks than it needs."""
        return any(len(leaf.active) + len(leaf.waiting) > leaf.needed for leaf in self.leaves())

    @property
    def is_active(self) -> bool:
        """Return whether any of its tasks has a place and stays there."""
        return any(leaf.active for leaf in self.leaves())

    @property
    def waits(self) -> bool:
        """Return whether any of its tasks waits."""
        return any(leaf.waiting for leaf in self.leaves())

    def leaves(self) -> tuple[Knot, ...]:
        """Return the leaves in order."""
        return self._leaves

    def members(self, leaf: Knot) -> Members:
        """Return what the books hold of a leaf."""
        return self.entry.members[leaf.group]

    def home(self, group: str, task: int) -> Knot:
        """Return the leaf of a task."""
        return self._runs.get((group, task)) or self._homes[group]

    def wanted(self) -> Chosen:
        """Return the tasks that come next; none: nothing waits, or a minimum cannot be had."""
        return self.root.wanted() if self.only is None else self.only

    def chunk(self) -> Tasks:
        """Return the tasks that leave first: a surplus task or knot, or else everything."""
        if self.entry.workload.semi_preemptible:
            chosen = self.root.peel()
        else:
            chosen = self.root.peel() or self.root.everything()
        return [(leaf.group, task) for leaf, tasks in chosen for task in tasks]

    def active_tasks(self) -> Tasks:
        """Return all tasks that have a place."""
        return [(leaf.group, task) for leaf in self.leaves() for task in leaf.active]

    def without(self, tasks: Iterable[tuple[str, int]]) -> Crew:
        """Return the same crew as it would be if tasks had never been there."""
        twin = copy(self)
        twin.root = self.root.copy()
        twin._find_homes()
        for group, task in tasks:
            twin.home(group, task).active.remove(task)
        twin.key = twin.rank()
        return twin

    @property
    def may_start(self) -> bool:
        """Return whether what fits may start now: its minimum does not wait for others to leave."""
        return not self.seats or self.without(self.seats).root.is_met

    def sit(self, seats: Mapping[tuple[str, int], int]) -> None:
        """Let tasks that wait have a place, as soon as others have left it."""
        self.seats |= seats
        self.join(seats)

    # -- on trial ---------------------------------------------------------------------------

    def leave(self, tasks: Iterable[tuple[str, int]]) -> None:
        """Let tasks lose their place and wait again."""
        for group, task in tasks:
            leaf = self.home(group, task)
            leaf.active.remove(task)
            leaf.waiting.append(task)
            leaf.waiting.sort(key=leaf.age)
        self.key = self.rank()

    def join(self, tasks: Iterable[tuple[str, int]]) -> None:
        """Let tasks that wait have a place."""
        for group, task in tasks:
            leaf = self.home(group, task)
            leaf.waiting.remove(task)
            leaf.active.append(task)
            leaf.active.sort(key=leaf.age)
        self.key = self.rank()

    def drop(self, tasks: Iterable[tuple[str, int]]) -> None:
        """Let tasks lose their place, without waiting for another."""
        for group, task in tasks:
            self.home(group, task).active.remove(task)
        self.key = self.rank()

    def wait_again(self, tasks: Iterable[tuple[str, int]]) -> None:
        """Let tasks that were dropped wait for a place."""
        for group, task in tasks:
            leaf = self.home(group, task)
            leaf.waiting.append(task)
            leaf.waiting.sort(key=leaf.age)
        self.key = self.rank()

    def save(self) -> list[tuple[Knot, list[int], list[int]]]:
        """Return what `restore` needs."""
        return [(leaf, leaf.active[:], leaf.waiting[:]) for leaf in self.leaves()]

    def restore(self, saved: list[tuple[Knot, list[int], list[int]]]) -> None:
        """Go back to what was saved."""
        for leaf, active, waiting in saved:
            leaf.active[:], leaf.waiting[:] = active, waiting
        self.key = self.rank()


def _knot(entry: Entry, group: PodGroup, levels: Mapping[str, int]) -> Knot:
    request = group.topology
    required = levels.get(request.required, NO_LEVEL)
    preferred = levels.get(request.preferred, NO_LEVEL)
    if not group.groups:
        return _leaf(entry, group, Knot(group.name, group.min, required, preferred), levels)
    knots = tuple(_knot(entry, child, levels) for child in group.groups)
    return Knot(group.name, group.needed or len(knots), required, preferred, knots)


def _leaf(entry: Entry, group: PodGroup, knot: Knot, levels: Mapping[str, int]) -> Knot:
    """Return a leaf; one that is sliced is a knot of leaves, one for each run of tasks."""
    members = entry.members[group.name]
    slices = [(levels.get(each.level, NO_LEVEL), each.size) for each in group.topology.slices]
    finished = members.states.count(TaskState.FINISHED)
    waiting = members.pending()[: max(0, members.spare)]
    every = sorted({*members.staying(), *waiting})
    active = {task for task in members.staying() if members.rows[task] != NOWHERE}
    knot.group = group.name
    knot.needed = max(0, group.min - finished)
    knot.active = [task for task in every if task in active]
    knot.waiting = [task for task in every if task not in active]
    knot.older = frozenset(active)
    return _cut(knot, slices, 0)


def _cut(knot: Knot, slices: list[tuple[int, int]], first: int) -> Knot:
    """Cut a leaf whose tasks begin with `first` into runs; those past the minimum need nothing."""
    every = [*knot.active, *knot.waiting]
    if not slices or not every:
        return knot
    (level, size), inner = slices[0], slices[1:]
    runs = []
    for number, start in enumerate(range(first, max(every) + 1, size)):
        part = Knot(
            f"{knot.name}/{number:05}",
            min(size, max(0, knot.needed - number * size)),
            level,
            group=knot.group,
            active=[task for task in knot.active if start <= task < start + size],
            waiting=[task for task in knot.waiting if start <= task < start + size],
            older=knot.older,
        )
        runs.append(_cut(part, inner, start))
    return Knot(knot.name, len(runs), knot.required, knot.preferred, tuple(runs))
