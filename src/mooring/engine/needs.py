"""What each workload needs: to start or grow (then it waits at the court), to be whole, to shrink.

Facts lead here: whoever lost tasks or room, or changed, is looked after. `mend.py` does something
about gangs that are not whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mooring.model.plan import Reason
from mooring.policy.queues.offers import gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mooring.model.entry import Entry
    from mooring.model.workload import Workload
    from mooring.policy.court import Court
    from mooring.policy.desk import Desk

MENDING = ("kai",)
"""Profiles whose court completes gangs that lost tasks, in their place in line."""


@dataclass(frozen=True, slots=True)
class Gap:
    """That a gang is not whole."""

    since: float | None
    """None: since the next cycle."""
    cause: str
    reasons: tuple[Reason, ...] = ()
    """Why it could not be completed."""


class Needs:
    """Who waits for what, at one desk and the court beside it."""

    def __init__(self, desk: Desk, court: Court) -> None:
        self.desk = desk
        self.court = court
        self.incomplete: dict[str, Gap] = {}
        """Gangs that lost tasks."""
        self.resized: dict[str, None] = {}
        """Those who may have more tasks than they may have."""
        self.as_new: Callable[[Workload], Workload] | None = None
        """As what one waits that has lost its start; None: as it is."""

    @property
    def court_mends(self) -> bool:
        """Return whether the court completes gangs itself."""
        return self.desk.policy.profile in MENDING

    def look_after(self, entry: Entry, cause: str) -> None:
        """See what a workload needs now that tasks of it have lost or left their place."""
        name = entry.workload.name
        if entry.has_begun and entry.is_incomplete:
            self.court.leave(entry)
            self.incomplete.setdefault(name, Gap(None, cause))
            if self.court_mends:
                self.queue_up(entry)
            return
        self.incomplete.pop(name, None)
        if not entry.has_begun:
            entry.running_since = None
            for members in entry.members.values():
                members.restore()
            if self.as_new is not None:
                entry.workload = self.as_new(entry.workload)
                for leaf in entry.workload.leaves():
                    entry.members[leaf.name].resize(leaf)
            self.court.leave(entry)  # it may have waited to grow
        self.queue_up(entry)

    def queue_up(self, entry: Entry) -> None:
        """Let a workload wait for what it misses: its minimum, or more for its groups."""
        name = entry.workload.name
        is_mended = name in self.incomplete and not self.court_mends
        if not (entry.charged_only or is_mended or name in self.desk.holds):
            if not entry.has_begun:
                self.desk.overtakers.pop(name, None)  # it has lost the start that it was one by
            self.court.wait(entry)

    def give_up(self, name: str) -> None:
        """Open the room that is kept for a workload, which waits as before."""
        self.desk.holds.open(name)
        self.queue_up(self.desk.entries[name])

    def avoid(self, entry: Entry, refused: tuple[str, ...]) -> None:
        """Note the nodes that refused a workload; its ask is another one then."""
        self._keep_away(entry, refused, entry.failing)

    def keep_off(self, entry: Entry, failing: tuple[str, ...]) -> None:
        """Note the nodes where a workload kept failing; its ask is another one then."""
        self._keep_away(entry, entry.refused, failing)

    def _keep_away(self, entry: Entry, refused: tuple[str, ...], failing: tuple[str, ...]) -> None:
        waits = self.court.leave(entry)
        entry.refused, entry.failing = refused, failing
        if waits:
            self.queue_up(entry)

    def leave(self, entry: Entry) -> None:
        """Let a workload wait for nothing, nor room be kept for it."""
        self.court.leave(entry)
        self.desk.holds.open(entry.workload.name)

    def forget(self, name: str) -> None:
        """Forget a workload that has ended."""
        self.incomplete.pop(name, None)
        self.resized.pop(name, None)

    # -- rules ------------------------------------------------------------------------------

    def move_to(self, court: Court) -> None:
        """Let everybody wait at another court."""
        self.court = court
        for entry in self.desk.entries.values():
            self.queue_up(entry)

    def refresh(self) -> None:
        """Look at everybody anew; give up room kept for those who may not start any more."""
        self.court.refresh()
        for name in list(self.desk.holds):
            if gate(self.desk, self.desk.entries[name]):
                self.give_up(name)

    # -- what is known ----------------------------------------------------------------------

    @property
    def any_urgent(self) -> bool:
        """Return whether somebody needs what a court cannot give."""
        return bool(self.incomplete or self.resized or self.desk.holds)

    def reasons(self, name: str) -> tuple[Reason, ...]:
        """Return why a workload waits, or does not grow; empty: it has all it asked for."""
        if name in self.incomplete and not self.court_mends:
            return self.incomplete[name].reasons
        return self.court.reasons(name)

    def waiting(self) -> list[str]:
        """Return the workloads that wait to start, to be complete or to grow, in order of rank."""
        incomplete = self.in_order(self.incomplete)
        return list(dict.fromkeys([*incomplete, *self.desk.holds, *self.court.waiting()]))

    def anyone_waits(self) -> bool:
        """Return whether anybody waits to start, to be complete or to grow."""
        if self.desk.holds or any(name in self.desk.entries for name in self.incomplete):
            return True
        return self.court.anyone_waits()

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Return those of some that have not ended, the senior ones first."""
        entries = self.desk.entries
        found = [name for name in names if name in entries]
        return sorted(found, key=lambda name: self.seniority(entries[name]))

    def seniority(self, entry: Entry) -> tuple[int, float, int]:
        """Return who comes first among those who wait outside all lines."""
        return -self.desk.priority(entry), entry.workload.submitted_at, entry.sequence

    def copy(self, desk: Desk) -> Needs:
        """Return the needs of a fork."""
        new = Needs(desk, self.court.copy(desk))
        new.incomplete, new.resized = dict(self.incomplete), dict(self.resized)
        new.as_new = self.as_new
        return new
