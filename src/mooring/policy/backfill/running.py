"""Who runs, when that ends by limits and estimates, and how its room is given back then."""

from __future__ import annotations

from bisect import insort
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from mooring.model.workload import TaskState
from mooring.policy.backfill.calendar import NEVER, Ends, longest
from mooring.policy.victims.evict import Victim, remove

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mooring.model.entry import Entry
    from mooring.policy.backfill.future import End, Give
    from mooring.policy.desk import Desk
    from mooring.policy.victims.evict import Tasks


class Running:
    """All who have a place, or room that is held for them, at one desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._ends = Ends()
        self._gives: dict[str, list[Give]] = {}
        """How to give back what each of them has."""
        self._leaving: dict[str, Victim] = {}
        """What is on its way out."""
        self._unsettled: dict[str, None] = {}
        """Those whose end depends on when one looks."""
        self._world: tuple[object, ...] = ()
        self._listed: tuple[float, list[End]] | None = None
        """All ends in order, and as seen from when; None: they have changed since."""

    def look(self) -> bool:
        """Look at what has changed; return whether there may be more room than was thought."""
        desk = self.desk
        world = desk.books.epoch, desk.edits, desk.policy, desk.tree
        watched, desk.watched = desk.watched, {}
        if watched is not None and world == self._world:
            return self._look_at_some([*watched, *self._unsettled])
        has_gained = not self._world or world[0] != self._world[0]
        self._world = world
        return self._look_at_some([*desk.entries, *self._gives]) or has_gained

    def _look_at_some(self, names: Sequence[str]) -> bool:
        gained = [self._look_at(name) for name in dict.fromkeys(names)]
        return any(gained)

    def _look_at(self, name: str) -> bool:
        """Look at one; return whether there may be more room than was thought."""
        desk, entry = self.desk, self.desk.entries.get(name)
        self._listed = None
        self._leaving.pop(name, None)
        self._unsettled.pop(name, None)
        is_there = entry is not None and (
            name in desk.holds or (entry.started_at is not None and entry.is_placed)
        )
        if entry is None or not is_there:
            had, end = self._gives.pop(name, None) is not None, self._ends.of(name)
            self._ends.drop(name)
            return had and end > desk.now
        leaving = _tasks(entry, lambda state: state == TaskState.RELEASING)
        if leaving:
            self._leaving[name] = Victim(entry, leaving, "")
        if name in desk.holds or entry.running_since is None:
            self._unsettled[name] = None
        return self.note(entry)

    def note(self, entry: Entry) -> bool:
        """Note what one has and when it ends; return whether that is earlier than was thought."""
        desk, name = self.desk, entry.workload.name
        self._listed = None
        since = self._since(entry)
        hold = desk.holds.get(name)
        if hold is not None and not hold.is_growth:
            since = max(hold.until, desk.now)  # until then it waits for those who leave
        end = since + longest(desk, entry)
        is_earlier = name in self._ends and end < self._ends.of(name)
        self._ends.put(name, end)
        self._gives[name] = self._gives_of(entry)
        return is_earlier

    def _since(self, entry: Entry) -> float:
        """Return when one has begun to run; who was moved, and does not run yet, does so now.

        The start that it keeps is from before the move.
        """
        if entry.running_since is not None:
            return entry.running_since
        started_at, left_at = entry.started_at, entry.past.evicted_at
        if started_at is None:
            return self.desk.now
        was_moved = left_at is not None and started_at < left_at and not entry.is_incomplete
        return self.desk.now if was_moved else started_at

    def end_of(self, name: str) -> float:
        """Return when one ends; infinite: never."""
        return self._ends.of(name)

    def ends(self, gone: Sequence[Victim] = (), more: Sequence[End] = ()) -> list[End]:
        """Return all ends in order, without those who are gone, and with some more."""
        if gone:
            found = self._list(gone)
        else:
            if self._listed is None or self._listed[0] != self.desk.now:
                self._listed = self.desk.now, self._list()
            found = list(self._listed[1])
        for end in more:
            if end[0] < NEVER:
                insort(found, end, key=itemgetter(0))
        return found

    def _list(self, gone: Sequence[Victim] = ()) -> list[End]:
        now = self.desk.now
        out: dict[str, list[tuple[str, int]]] = {}
        for victim in gone:
            out.setdefault(victim.entry.workload.name, []).extend(victim.tasks)
        left = {name: self._gives_of(self.desk.entries[name], tasks) for name, tasks in out.items()}
        found: list[End] = []
        for victim in self._leaving.values():
            without = out.get(victim.entry.workload.name, ())
            tasks = tuple(task for task in victim.tasks if task not in without)
            found.append((now, partial(remove, self.desk, replace(victim, tasks=tasks))))
        gives = {**self._gives, **left} if left else self._gives
        found += [(at, give) for at, name in self._ends.after(now) for give in gives[name]]
        return found

    def _gives_of(self, entry: Entry, without: Sequence[tuple[str, int]] = ()) -> list[Give]:
        """Return how to give back what stays of a workload, but for some tasks."""
        desk, name = self.desk, entry.workload.name
        gives: list[Give] = []
        staying = _tasks(entry, lambda s: TaskState.ASSUMED <= s <= TaskState.RUNNING)
        tasks = tuple(task for task in staying if task not in without)
        if tasks:
            gives.append(partial(remove, desk, Victim(entry, tasks, "")))
        if name in desk.holds:
            gives.append(partial(desk.books.unhold, name))
        return gives

    def copy(self, desk: Desk) -> Running:
        """Return the same for a fork; who is gone since the last look is found out at the next."""
        new = Running(desk)
        new._ends, new._world, new._unsettled = self._ends.copy(), self._world, {**self._unsettled}
        there = desk.entries
        new._gives = {n: new._gives_of(there[n]) if n in there else [] for n in self._gives}
        new._leaving = {
            name: replace(victim, entry=there[name])
            for name, victim in self._leaving.items()
            if name in there
        }
        return new


def _tasks(entry: Entry, which: Callable[[int], bool]) -> Tasks:
    """Return the tasks of a workload that are in some states."""
    return tuple(
        (group, task)
        for group, members in entry.members.items()
        for task, state in enumerate(members.states)
        if which(state)
    )
