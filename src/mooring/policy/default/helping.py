"""Whom moves of running work help: in the order of service, and past nobody who may not be passed.

A plan of moves is made step by step on the books. Who was helped by an earlier step is as good as
started: it stands in nobody's way any more, and has passed those who are before it.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mooring.model.entry import Entry
    from mooring.policy.default.hall import Hall
    from mooring.policy.defragment import Step

ANY_ORDER = ("", "best-effort")
"""Orders in which whoever fits may start; in others only the first in line."""


class Helping:
    """Those who wait to start in a hall, while one plan is made."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._helped: dict[str, None] = {}
        self._passed: dict[str, int] = {}
        """How often each would be passed by those who are helped."""

    def __iter__(self) -> Iterator[Entry]:
        """Yield them as they would be served, by the books as they are at each step."""
        hall = self._hall
        lines = {queue: each.starting() for queue, each in hall.lines.items()}
        left = {queue: items[::-1] for queue, items in lines.items() if items}
        heap = [(hall.stands(queue, items[-1]), queue) for queue, items in left.items()]
        heapify(heap)
        while heap:
            key, queue = heappop(heap)
            items = left[queue]
            now = hall.stands(queue, items[-1])
            if now != key and heap and (now, queue) > heap[0]:
                heappush(heap, (now, queue))
                continue
            yield hall.desk.entries[items.pop()[0]]
            if items:
                heappush(heap, (hall.stands(queue, items[-1]), queue))

    def barred(self, entry: Entry) -> tuple[int, ...]:
        """Return the kinds of nodes that others wait for whom a workload may not pass."""
        hall, item = self._hall, (entry.workload.name, "")
        queue = hall.queue_of[item[0]]
        lines, passing = hall.lines[queue], hall.passing
        before = passing.stuck(lines, self._passed)
        if hall.desk.tree.order[queue] not in ANY_ORDER:
            before += passing.asleep(lines, self._helped)
        return tuple(passing.in_front(lines, item, before))

    def would_delay(self, steps: Sequence[Step]) -> bool:
        """Return whether somebody would start later than told for the last of booked steps."""
        movers = [mover for step in steps for mover in step.movers]
        starts = [(mover.victim.entry, mover.seats) for mover in movers]
        starts += [(step.entry, step.seats) for step in steps if step.entry is not None]
        last = steps[-1].entry
        return self._hall.bookings.would_be_delayed(
            [((entry.workload.name, ""), seats) for entry, seats in starts],
            [mover.victim for mover in movers],
            None if last is None else (last.workload.name, ""),
        )

    def help(self, entry: Entry) -> None:
        """Note that a workload starts by moves."""
        name, hall = entry.workload.name, self._hall
        self._helped[name] = None
        lines = hall.lines_of(entry)
        for passed in hall.passing.passed_by(entry, lines, lines.rank_of((name, ""))):
            other = passed.workload.name
            if other not in self._helped:
                self._passed[other] = self._passed.get(other, 0) + 1
