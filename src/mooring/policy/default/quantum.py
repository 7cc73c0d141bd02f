"""The quantum of backfill: who has had much lets others by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.model.entry import Entry
    from mooring.policy.desk import Desk

LATER = float("inf")


class Quantum:
    """When the first of all overtakers will have had so much that it may have to let others by."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._seen: tuple[object, ...] = ()
        self._begins_at, self._first = 0.0, ""
        """When the first of them will have had so much, and who that is."""
        self._looked: tuple[object, ...] = ()
        """How things stood when that was last found out."""

    def note(self, entry: Entry) -> None:
        """Note that a workload becomes an overtaker now."""
        found = self._of(entry), entry.workload.name
        self._begins_at, self._first = min((self._begins_at, self._first), found)

    def begins_at(self) -> float:
        """Return an instant before which nobody can be asked; it may have come already."""
        desk = self.desk
        seen, looked = (desk.policy, desk.edits), (desk.now, desk.version, len(desk.overtakers))
        if seen != self._seen or (desk.now >= self._begins_at and looked != self._looked):
            self._looked = looked
            if seen != self._seen or not self._has_come():
                self._seen = seen
                some = [(self._of(desk.entries[name]), name) for name in self._there()]
                self._begins_at, self._first = min(some, default=(LATER, ""))
        return self._begins_at

    def _there(self) -> Iterator[str]:
        """Yield all overtakers; not all of them may have come back from another life."""
        return (name for name in self.desk.overtakers if name in self.desk.entries)

    def _has_come(self) -> bool:
        """Return whether the first of them is still there, and has had so much."""
        desk, name = self.desk, self._first
        there = name in desk.overtakers and name in desk.entries
        return there and self._of(desk.entries[name]) <= desk.now

    def _of(self, entry: Entry) -> float:
        desk, past, rule = self.desk, entry.past, self.desk.policy.backfill
        if not entry.workload.checkpoints or past.quantum_evictions >= rule.quantum_evictions:
            return LATER
        since = desk.now if entry.running_since is None else entry.running_since
        least = dict(desk.policy.eviction.minimum_run_s).get("quantum", 0.0)
        return since + max(least, rule.quantum_s - past.saved_s)
