"""Who is next among queues and workloads; the exact reverse is who is the first to leave.

Sibling queues are compared level by level, each by the best workload below it:

    1  over its fair share in all that is shared: later
    2  within its quota, also with the workload: earlier
    3  higher priority
    4  would use something of which it has no share at all: later
    5  lower dominant share with the workload (less the victims taken already)
    6  lower dominant share without it
    7  smaller share
    8  older
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from mooring.model.cluster import WHOLE
from mooring.policy.kai.round import SHARED
from mooring.policy.queues.tree import NO_BOUND, NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.policy.kai.crew import Crew
    from mooring.policy.kai.round import Round, Size

Key = tuple[bool, bool, int, bool, float, float]
NO_SHARE_FACTOR = 1000.0
_UNITS = (1.0 / WHOLE, 1.0, float(1 << 20))
"""One device, one millicore, one byte: what counts where there is no share to measure by."""


class Lane:
    """The workloads of one queue, in order."""

    __slots__ = ("_at", "_late", "_rest", "gone", "reverse")

    def __init__(self, rest: list[Crew], *, reverse: bool) -> None:
        self._rest = rest
        """In order; not changed here, so that several lanes may share it."""
        self._at = 0
        self._late: list[tuple[tuple[float, ...], int, Crew]] = []
        self.reverse = reverse
        self.gone: list[Size] = []
        """What was charged to those who were taken out, as far as it matters to the order."""

    def __bool__(self) -> bool:
        return self._at < len(self._rest) or bool(self._late)

    def push(self, crew: Crew) -> None:
        """Put a workload in, in its place."""
        insort(self._late, (_rank(crew, reverse=self.reverse), len(self._late), crew))

    @property
    def head(self) -> Crew:
        """Return the first."""
        if not self._late:
            return self._rest[self._at]
        late = self._late[0]
        if self._at == len(self._rest):
            return late[2]
        first = self._rest[self._at]
        return first if _rank(first, reverse=self.reverse) < late[0] else late[2]

    def pop(self) -> Crew:
        """Take the first out."""
        head = self.head
        if self._late and head is self._late[0][2]:
            self._late.pop(0)
        else:
            self._at += 1
        return head


def _rank(crew: Crew, *, reverse: bool) -> tuple[float, ...]:
    key = crew.key
    return tuple(-value for value in key) if reverse else key


def in_lanes(crews: Iterable[Crew], *, reverse: bool = False) -> dict[int, list[Crew]]:
    """Return crews by queue, in order, or in the order in which they would leave."""
    lanes: dict[int, list[Crew]] = {}
    for crew in crews:
        lanes.setdefault(crew.queue, []).append(crew)
    for some in lanes.values():
        some.sort(key=lambda crew: _rank(crew, reverse=reverse))
    return lanes


class Line:
    """All workloads that wait, or all that may have to leave, one after the other.

    Only the queues around a workload that was taken out or put in are compared anew. After other
    changes call `stir`.
    """

    def __init__(
        self, round_: Round, lanes: dict[int, list[Crew]], *, reverse: bool = False
    ) -> None:
        self._round = round_
        self._reverse = reverse
        self._lanes: dict[int, Lane] = {}
        self._below: dict[int, list[int]] = {}
        """By queue (`NOBODY`: above all roots), the queues right below it that are not empty."""
        self._keys: dict[int, Key] = {}
        for queue, rest in lanes.items():
            if rest:
                self._lanes[queue] = Lane(rest, reverse=reverse)
                self._link(queue)

    def __bool__(self) -> bool:
        return bool(self._below.get(NOBODY))

    def push(self, crew: Crew) -> None:
        """Put a workload in."""
        queue = crew.queue
        lane = self._lanes.get(queue)
        if lane is None:
            lane = self._lanes[queue] = Lane([], reverse=self._reverse)
        lane.push(crew)
        self._link(queue)
        self._forget(queue)

    def pop(self) -> Crew:
        """Take the next one out."""
        queue = NOBODY
        while not self._lanes.get(queue):
            queue = self._first(queue)
        lane = self._lanes[queue]
        crew = lane.pop()
        if self._reverse:
            lane.gone.append(self._round.charged(crew, crew.active_tasks()))
        if not lane:
            self._unlink(queue)
        self._forget(queue)
        return crew

    def stir(self) -> None:
        """Compare everything anew: what queues use has changed."""
        self._keys.clear()

    def touch(self, queue: int) -> None:
        """Compare a queue, and those above it, anew."""
        self._forget(queue)

    # -- the tree ---------------------------------------------------------------------------

    def _link(self, queue: int) -> None:
        for node in self._round.tree.path[queue]:
            siblings = self._below.setdefault(self._round.tree.parent[node], [])
            if node in siblings:
                return
            siblings.append(node)

    def _unlink(self, queue: int) -> None:
        for node in self._round.tree.path[queue]:
            if self._below.get(node) or self._lanes.get(node):
                return
            self._below[self._round.tree.parent[node]].remove(node)

    def _forget(self, queue: int) -> None:
        for node in self._round.tree.path[queue]:
            self._keys.pop(node, None)

    def _first(self, above: int) -> int:
        """Return the queue below another that is served first, or loses first."""
        best = -1
        for queue in self._below[above]:
            if best < 0 or self._is_before(queue, best) != self._reverse:
                best = queue
        return best

    def _is_before(self, one: int, other: int) -> bool:
        a, b = self._key(one), self._key(other)
        if a != b:
            return a < b
        mine, theirs = (self._round.allocatable[queue][:SHARED] for queue in (one, other))
        if mine != theirs:
            if all(x <= y for x, y in zip(mine, theirs, strict=True)):
                return True
            if all(x >= y for x, y in zip(mine, theirs, strict=True)):
                return False
        return self._age(one) < self._age(other)

    def _age(self, queue: int) -> tuple[float, int]:
        return self._round.tree.queues[queue].created_at, queue

    def _key(self, queue: int) -> Key:
        key = self._keys.get(queue)
        if key is None:
            key = self._keys[queue] = self._new_key(queue)
        return key

    def _new_key(self, queue: int) -> Key:
        leaf = queue
        while not self._lanes.get(leaf):
            leaf = self._first(leaf)
        lane, round_ = self._lanes[leaf], self._round
        used = round_.used(queue)
        after = used[:SHARED]
        size = [0] * SHARED
        if self._reverse:
            head = lane.head
            for gone in (*lane.gone, round_.charged(head, head.active_tasks())):
                after = [a - b for a, b in zip(after, gone, strict=False)]
        else:
            size = round_.request(lane.head, lane.head.wanted())[:SHARED]
            after = [a + b for a, b in zip(after, size, strict=True)]
        return (
            all(used[pair] > round_.fair[queue][pair] for pair in range(SHARED)),
            not round_.within_quota(queue, used, size),
            -round_.tree.queues[queue].priority,
            any(
                used[pair] + size[pair] > 0 and not round_.allocatable[queue][pair]
                for pair in range(SHARED)
            ),
            dominant(round_, queue, after),
            dominant(round_, queue, used),
        )


def dominant(round_: Round, queue: int, used: Size) -> float:
    """Return how much of its share a queue uses, of what it uses most of."""
    most = 0.0
    for pair in range(SHARED):
        share = round_.allocatable[queue][pair]
        if share >= NO_BOUND:
            share = round_.totals[pair]
        if share:
            most = max(most, used[pair] / share)
        else:
            most = max(most, used[pair] * _UNITS[pair] * NO_SHARE_FACTOR)
    return most
