"""Tasks on their way out: since when, who waits for them to be gone, and whose their room is then.

What a task leaves behind is *claimed* where all of its devices are kept for somebody, and nothing
else on its node is short. Whoever looks for room need not look there, and whoever looks for devices
need not look at nodes where all of them are kept for somebody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.model.books import bits
from mooring.model.cluster import WHOLE
from mooring.model.demand import DeviceKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.policy.desk import Desk

TaskKey = tuple[str, str, int]
"""(workload, group, task)."""


class Departures:
    """All tasks on their way out, at one desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.since: dict[TaskKey, float] = {}
        self._on: dict[int, dict[TaskKey, None]] = {}
        self._row_of: dict[TaskKey, int] = {}
        self._unclaimed: dict[TaskKey, None] = {}
        self._on_full: dict[TaskKey, None] = {}
        """Those of them on nodes without a device that is not kept for somebody."""
        self._changed: dict[int, None] = {}
        """Rows that have to be looked at again."""
        self._awaited: dict[TaskKey, dict[str, None]] = {}
        """Those for whom room is kept that a task is in."""
        self._epoch = -1

    def begin(self, key: TaskKey, row: int) -> None:
        """Note that a task is on its way out."""
        self.since[key] = self.desk.now
        self._put(key, row)

    def end(self, key: TaskKey) -> None:
        """Note that a task is gone, or stays after all."""
        self.since.pop(key, None)
        row = self._row_of.pop(key, None)
        if row is not None:
            del self._on[row][key]
            self._unclaimed.pop(key, None)
            self._on_full.pop(key, None)
            self._changed[row] = None

    def _put(self, key: TaskKey, row: int) -> None:
        self._row_of[key] = row
        self._on.setdefault(row, {})[key] = None
        self._unclaimed[key] = None
        self._changed[row] = None

    # -- who waits for them -----------------------------------------------------------------

    def expect(self, name: str, leaving: Iterable[TaskKey], rows: Iterable[int]) -> None:
        """Note that room on rows is kept for a workload, and who must leave it first."""
        for key in leaving:
            self._awaited.setdefault(key, {})[name] = None
        self._changed.update(dict.fromkeys(rows))

    def forget(self, name: str, leaving: Iterable[TaskKey], rows: Iterable[int]) -> None:
        """Note that room is no longer kept."""
        for key in leaving:
            names = self._awaited.get(key, {})
            names.pop(name, None)
            if not names:
                self._awaited.pop(key, None)
        self._changed.update(dict.fromkeys(rows))

    def gone(self, key: TaskKey) -> Iterable[str]:
        """Note that a task is gone; return those who waited for that."""
        self.end(key)
        return self._awaited.pop(key, ())

    def awaited_by(self, key: TaskKey) -> list[str]:
        """Return those for whom room is kept that a task is in."""
        return list(self._awaited.get(key, ()))

    # -- what they leave behind -------------------------------------------------------------

    def unclaimed(self, *, with_devices: bool) -> list[TaskKey]:
        """Return those whose room is not all kept for somebody; only where devices come with it."""
        self._mind_rows()
        for row in self._changed:
            is_full = self._is_full(row)
            for key in self._on.get(row, ()):
                self._unclaimed.pop(key, None)
                self._on_full.pop(key, None)
                if not self._is_claimed(key, row):
                    (self._on_full if is_full else self._unclaimed)[key] = None
        self._changed.clear()
        return [*self._unclaimed, *(() if with_devices else self._on_full)]

    def _is_full(self, row: int) -> bool:
        books = self.desk.books
        kept = [share[row] <= -WHOLE for share in books.share_of]
        return all(kept[: len(books.nodes[row].devices)])

    def _mind_rows(self) -> None:
        """Find everybody again if rows were renumbered."""
        if self._epoch == self.desk.books.epoch:
            return
        self._epoch = self.desk.books.epoch
        for where in (self._on, self._row_of, self._unclaimed, self._on_full, self._changed):
            where.clear()
        for key in self.since:
            name, group, task = key
            self._put(key, self.desk.entries[name].members[group].rows[task])

    def _is_claimed(self, key: TaskKey, row: int) -> bool:
        name, group, task = key
        books, members = self.desk.books, self.desk.entries[name].members[group]
        if members.demand.kind is not DeviceKind.WHOLE:
            return False
        devices = bits(members.devices[task])
        are_kept = all(books.share_of[device][row] <= -WHOLE for device in devices)
        return are_kept and all(books.open_of[r][row] >= 0 for r, _ in members.demand.pairs)

    def copy(self, desk: Desk) -> Departures:
        """Return the departures of a fork."""
        new = Departures(desk)
        new.since = dict(self.since)
        new._awaited = {key: dict(names) for key, names in self._awaited.items()}
        return new
