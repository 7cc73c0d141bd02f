"""When those who wait under a shadow start at the latest, where limits or estimates are given.

The shadow is walked through the time to come: who runs there ends by its limit, and who waits there
starts in order. Nobody who comes later and does not rank higher is in the way of anybody in it. So
an instant that was told moves later only if the world breaks it: work that overruns its estimate, a
lost node, somebody who ranks higher, a queue that takes back what others have borrowed.
"""

from __future__ import annotations

from functools import partial
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING

from mooring.model.plan import Reserved
from mooring.policy.backfill.calendar import longest
from mooring.policy.backfill.future import Booking, earliest
from mooring.policy.queues.offers import gate, needed_kinds
from mooring.policy.victims.evict import Victim, remove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.engine.shadow import Shadow
    from mooring.model.entry import Entry
    from mooring.policy.backfill.future import End
    from mooring.policy.desk import Desk

PAUSE_S = 60.0
"""So long those who were told when they start may wait to hear that it is earlier."""
MOST = 64
"""So many who wait in the shadow are looked at, for the sake of those few who are told."""


class Latest:
    """Latest starts at one desk, from the shadow beside it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._seen: tuple[object, ...] = ()
        self._looked_at = -inf
        self.wake_at: float | None = None
        """When to look again though nothing has happened since: something had, in the pause."""
        self._told: dict[str, Reserved] = {}
        self._turned: dict[str, float] = {}
        """What those were told whose turn has come since, and who do not run yet."""
        self._is_full = False
        """Whether as many were told as are to be told."""

    def look(self, shadow: Shadow) -> dict[str, Reserved] | None:
        """Return who starts when at the latest; None: what was told still holds."""
        if not (self._told or self._turned or self._has_limits()):
            self._seen, self.wake_at, self._is_full = (), None, False
            return None  # nobody was told anything, and nothing is known
        if self._holds(shadow):
            return None
        self._looked_at = self.desk.now
        told = self._turned | {n: reserved.at for n, reserved in self._told.items()}
        self._turned = {n: at for n, at in told.items() if self._is_due(n, shadow)}
        self._told = self._anew(shadow) if self._has_limits() else {}
        return dict(self._told)

    def _holds(self, shadow: Shadow) -> bool:
        """Return whether nothing has changed, or only so that somebody might start earlier.

        Whose turn has come may be in the way: one of another queue waits for nobody of this one.
        """
        beside, desk = shadow.beside.desk, self.desk
        rules = desk.edits, desk.policy, desk.tree
        last = next(reversed(shadow.starts), None)
        world = rules, desk.books.epoch, beside.books.epoch, last
        seen = (world, desk.version, len(desk.entries), beside.version, len(beside.entries))
        before, self.wake_at = self._seen, None
        if seen == before:
            return True
        until = self._looked_at + PAUSE_S
        if self._is_full and before[0] == world and desk.now < until:
            waiting = (desk.entries.get(name) for name in self._told)
            if all(e is not None and not e.has_begun for e in waiting) and all(
                name not in shadow.starts and told.at > desk.now
                for name, told in self._told.items()
            ):
                self.wake_at = until
                return True
        self._seen = seen
        return False

    def _is_due(self, name: str, shadow: Shadow) -> bool:
        """Return whether the turn of one has come and it does not run yet."""
        real = self.desk.entries.get(name)
        return name in shadow.starts and real is not None and not real.has_begun

    def _has_limits(self) -> bool:
        """Return whether a limit or an estimate is given anywhere."""
        if self.desk.timed:
            return True
        return any(queue.run_limit_s is not None for queue in self.desk.tree.queues)

    def _anew(self, shadow: Shadow) -> dict[str, Reserved]:
        """Return who starts when at the latest."""
        desk = self.desk
        deep, told = desk.policy.backfill.reservations, dict[str, Reserved]()
        self._is_full = False
        waiting = (e for e in desk.entries.values() if not e.has_begun)
        homes = (_home(desk, entry) for entry in waiting)
        count = {queue: 0 for queue in homes if desk.tree.order[queue] == "backfill"}
        for booking, queue in self._bookings(shadow):
            entry = desk.entries.get(booking.name)
            if entry is None or entry.has_begun or queue not in count:
                continue
            count[queue] += 1
            if count[queue] <= deep:
                nodes = {node for each in booking.placements for node in each.nodes}
                told[booking.name] = Reserved(booking.at, len(nodes))
            if all(number >= deep for number in count.values()):
                self._is_full = True
                break
        return told

    def _bookings(self, shadow: Shadow) -> Iterator[tuple[Booking, int]]:
        """Yield the starts to come of those who wait in the shadow, in order, and their queues."""
        beside, ends = shadow.beside.desk, self._ends(shadow)
        found: list[Booking] = []
        after: dict[tuple[int, int], float] = {}
        """By queue and kind of nodes: when the last one before starts, whom nobody passes."""
        names = [n for n in shadow.beside.waiting() if not beside.entries[n].has_begun]
        for number, name in enumerate(names[:MOST]):
            entry, ask = beside.entries[name], beside.ask_of(beside.entries[name])
            queue, kinds = _home(beside, entry), needed_kinds(beside, entry, ask)
            if ask.problems or not kinds or gate(beside, entry):
                continue
            if shadow.beside.waits_in_vain(name):
                continue  # strict order lets others by
            not_before = max(after.get((queue, kind), -inf) for kind in kinds)
            lasts = self._lasts(name, shadow)
            rank = (0, 0, 0.0, 0.0, 0.0, 0.0, number)
            wanted = Booking(name, queue, rank, ask, lasts, inf, binds_all=True)
            booking = None
            if not_before < inf:
                booking = earliest(beside, ends, found, wanted, inf, not_before)
            at = inf if booking is None else booking.at
            after.update({(queue, kind): at for kind in kinds})
            if booking is not None:
                found.append(booking)
                yield booking, queue

    def _lasts(self, name: str, shadow: Shadow) -> float:
        """Return how long one runs in the shadow at most, that has yet to start there."""
        real = self.desk.entries.get(name)
        if real is None:  # it was over before its turn
            return shadow.left_s(name)
        return longest(self.desk, real)

    def _ends(self, shadow: Shadow) -> list[End]:
        """Return when those end at the latest who run in the shadow, in order."""
        beside, known = shadow.beside.desk, {name: at for at, name in shadow.ends}
        found: list[End] = []
        for name, entry in beside.entries.items():
            tasks = tuple((g, task) for g, m in entry.members.items() for task in m.staying())
            at = known.get(name, inf) if name in shadow.ended else self._end(name, shadow)
            if tasks and at < inf:
                found.append(
                    (max(at, self.desk.now), partial(remove, beside, Victim(entry, tasks, "")))
                )
        return sorted(found, key=itemgetter(0))

    def _end(self, name: str, shadow: Shadow) -> float:
        """Return when one ends in the shadow that is not over in reality; infinite: nobody knows.

        Whose turn has come and who does not run yet may start as late as it was told: so nobody is
        told later for it. Where that is over, it ends later with every instant that it waits.
        """
        real = self.desk.entries.get(name)
        if real is None:
            return self.desk.now
        if not real.has_begun:
            at = self._turned.get(name, inf)
            return at + longest(self.desk, real) if at > self.desk.now else inf
        since = real.started_at if real.running_since is None else real.running_since
        began = self.desk.now if since is None else since
        return max(shadow.starts.get(name, began), began) + longest(self.desk, real)

    def copy(self, desk: Desk) -> Latest:
        """Return the same for a fork."""
        new = Latest(desk)
        new._seen, new._looked_at, new._told = self._seen, self._looked_at, dict(self._told)
        new._turned, new._is_full = dict(self._turned), self._is_full
        return new


def _home(desk: Desk, entry: Entry) -> int:
    """Return the queue in whose lines a workload stands."""
    tree, queue = desk.tree, entry.queue
    while tree.queues[queue].local and tree.parent[queue] >= 0:
        queue = tree.parent[queue]
    return queue
