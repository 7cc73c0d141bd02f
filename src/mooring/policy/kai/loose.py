"""Room that is given for one cycle only: what was to start there is looked at anew in the next.

Those for whom others were made to leave are not among them: they start as was said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.model.plan import Bind, Reserve

if TYPE_CHECKING:
    from collections.abc import Container

    from mooring.model.entry import Entry
    from mooring.policy.desk import Desk
    from mooring.policy.holds import Hold


class Loose:
    """All such room at the beginning of a cycle; nobody has it any more."""

    def __init__(self, desk: Desk, owed: Container[str]) -> None:
        self._desk = desk
        self._kept: dict[str, Hold] = {}
        started: dict[str, None] = {}
        for each in list(desk.decisions):
            if isinstance(each, Bind) and each.workload not in owed:
                entry, place = desk.entries[each.workload], each.placement
                desk.take_back(entry, entry.members[place.group], place.tasks)
                started[each.workload] = None
        for name, hold in list(desk.holds.items()):
            if name not in owed and not moves(desk.entries[name]):
                desk.holds.open(name)
                self._kept[name] = hold
        self._before = len(desk.decisions)
        self.names = [*started, *self._kept]
        """Who was to have it."""

    def restore(self) -> None:
        """Say nothing of those who are to have the same again, and as long as was said."""
        desk = self._desk
        same = {name for name in self._kept if self._is_same(name)}
        for name in self._kept:
            if name in same:
                old, new = self._kept[name], desk.holds[name]
                new.until, new.since = old.until, old.since
        said = desk.decisions[self._before :]
        desk.decisions[self._before :] = [
            each for each in said if not isinstance(each, Reserve) or each.workload not in same
        ]

    def _is_same(self, name: str) -> bool:
        old, new = self._kept[name], self._desk.holds.get(name)
        if new is None or list(old.leaving) != list(new.leaving):
            return False
        return _seats(old) == _seats(new)


def _seats(hold: Hold) -> list[object]:
    return [(s.part.name, list(tasks), s.rows, list(s.devices)) for tasks, s in hold.seats]


def moves(entry: Entry) -> bool:
    """Return whether tasks of a workload for which room is kept are on their way to it."""
    return any(members.is_releasing for members in entry.members.values())
