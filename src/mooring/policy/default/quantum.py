"""The quantum of backfill: who has had much lets others by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.model.entry import Entry
    from mooring.policy.desk import Desk

LATER = float("inf")


class Quantum:
    """When the first of all overtakers will have had so much that it may have to let others by."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._seen: tuple[object, ...] = ()
        self._begins_at = 0.0
        self._looked: tuple[object, ...] = ()
        """How things stood when that was last found out."""

    def note(self, entry: Entry) -> None:
        """Note that a workload becomes an overtaker now."""
        self._begins_at = min(self._begins_at, self._of(entry))

    def begins_at(self) -> float:
        """Return an instant before which nobody can be asked; it may have come already."""
        desk = self.desk
        seen, looked = (desk.policy, desk.edits), (desk.now, desk.version, len(desk.overtakers))
        if seen != self._seen or (desk.now >= self._begins_at and looked != self._looked):
            self._seen, self._looked = seen, looked
            there = (name for name in desk.overtakers if name in desk.entries)  # not all come back
            some = (self._of(desk.entries[name]) for name in there)
            self._begins_at = min(some, default=LATER)
        return self._begins_at

    def _of(self, entry: Entry) -> float:
        desk, past, rule = self.desk, entry.past, self.desk.policy.backfill
        if not entry.workload.checkpoints or past.quantum_evictions >= rule.quantum_evictions:
            return LATER
        since = desk.now if entry.running_since is None else entry.running_since
        least = dict(desk.policy.eviction.minimum_run_s).get("quantum", 0.0)
        return since + max(least, rule.quantum_s - past.saved_s)
