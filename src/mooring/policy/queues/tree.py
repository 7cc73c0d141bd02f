"""The queues as dense indices, and what each has of every (flavor, resource), as columns.

A *pair* is a (flavor, resource) that some queue names; an empty flavor stands for all flavors
together. Pairs are never added to each other. The index of a queue is that of the books.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.model.queues import EvictionRules, Queue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mooring.model.queues import Quota

Pair = tuple[str, str]
NO_BOUND = 1 << 60
"""An amount that nothing reaches."""
NOBODY = -1


class QueueTree:
    """Immutable: edited queues make a new one."""

    def __init__(self, names: Sequence[str], queues: Sequence[Queue], pairs: Sequence[Pair]):
        known = {queue.name: queue for queue in queues}
        self.names = list(names)
        self.index_of = {name: i for i, name in enumerate(self.names)}
        self.queues = [known.get(name, Queue(name)) for name in self.names]
        self.exists = [name in known for name in self.names]
        """False: there is no such queue (any more), but something is still charged to it."""
        self.pairs = list(pairs)
        self.pair_of = {pair: i for i, pair in enumerate(self.pairs)}
        self.parent = [
            self.index_of.get(queue.parent, NOBODY) if queue.parent in known else NOBODY
            for queue in self.queues
        ]
        self.is_cyclic = self._cut_cycles()
        """True: it was above itself, and has nobody above it here."""
        self.children: list[list[int]] = [[] for _ in self.names]
        for child, parent in enumerate(self.parent):
            if parent != NOBODY:
                self.children[parent].append(child)
        self.path = [tuple(self._way_up(queue)) for queue in range(len(self.names))]
        """From each queue up to its root, itself first."""
        self.order = [self._order(path) for path in self.path]
        """How each queue is served: as it says, or as the nearest queue above that says. A local
        queue has no line of its own: it is served as the queue above."""
        self.eviction = [self._rules(path) for path in self.path]
        """Whom workloads of each queue may evict, each rule as the nearest queue says. Profile
        kueue goes by what its queues say themselves."""
        self.roots = [queue for queue, parent in enumerate(self.parent) if parent == NOBODY]
        self._set_columns()

    def _order(self, path: Sequence[int]) -> str:
        """Return how the first of a path up is served; a local root has a line of its own."""
        queues = [self.queues[queue] for queue in path]
        own = [queue for queue in queues[:-1] if not queue.local] + queues[-1:]
        return next((queue.order for queue in own if queue.order), "")

    def _cut_cycles(self) -> list[bool]:
        """Let queues that are above themselves have no parent; return which they are."""
        found, done = [False] * len(self.names), [False] * len(self.names)
        for queue in range(len(self.names)):
            way: dict[int, None] = {}
            while queue != NOBODY and not done[queue] and queue not in way:
                way[queue] = None
                queue = self.parent[queue]
            for each in way:
                done[each] = True
            while queue in way and not found[queue]:
                found[queue] = True
                queue = self.parent[queue]
        self.parent = [
            NOBODY if is_cyclic else parent
            for parent, is_cyclic in zip(self.parent, found, strict=True)
        ]
        return found

    def _way_up(self, queue: int) -> Iterator[int]:
        while queue != NOBODY:
            yield queue
            queue = self.parent[queue]

    def _rules(self, path: tuple[int, ...]) -> EvictionRules:
        """Return the rules of a queue: its own, and what it does not say from above."""
        said = [self.queues[above].eviction for above in path]
        thresholds = (rules.borrowing_threshold for rules in said)
        return EvictionRules(
            within_queue=next((r.within_queue for r in said if r.within_queue), ""),
            reclaim=next((r.reclaim for r in said if r.reclaim), ""),
            while_borrowing=next((r.while_borrowing for r in said if r.while_borrowing), ""),
            borrowing_threshold=next((most for most in thresholds if most is not None), None),
        )

    def _set_columns(self) -> None:
        """Set per queue and pair: quota, limit, weight, borrowing and lending limit."""
        width = len(self.pairs)
        self.quota = [[0] * width for _ in self.names]
        self.limit = [[NO_BOUND] * width for _ in self.names]
        self.borrowing_limit = [[NO_BOUND] * width for _ in self.names]
        self.lending_limit = [[NO_BOUND] * width for _ in self.names]
        self.weight = [[queue.weight] * width for queue in self.queues]
        self.names_pair = [[False] * width for _ in self.names]
        """Whether a queue says anything about a pair."""
        for row, queue in enumerate(self.queues):
            for quota in queue.quotas:
                column = self.pair_of.get((quota.flavor, quota.resource))
                if column is not None:
                    self._set(row, column, quota)

    def _set(self, row: int, column: int, quota: Quota) -> None:
        self.names_pair[row][column] = True
        self.quota[row][column] = _bound(quota.quota)
        self.limit[row][column] = _bound(quota.limit)
        self.borrowing_limit[row][column] = _bound(quota.borrowing_limit)
        self.lending_limit[row][column] = _bound(quota.lending_limit)
        if quota.weight is not None:
            self.weight[row][column] = quota.weight

    @property
    def count(self) -> int:
        """Return the number of queues."""
        return len(self.names)

    def is_leaf(self, queue: int) -> bool:
        """Return whether nobody is below a queue."""
        return not self.children[queue]

    def common(self, one: int, other: int) -> tuple[int, int]:
        """Return the children of the first common ancestor on the side of each.

        Without a common ancestor they are the roots. A queue that is itself above the other, or
        the other, has no side below: it stands for itself.
        """
        up, across = self.path[one], self.path[other]
        at = 1
        while at <= min(len(up), len(across)) and up[-at] == across[-at]:
            at += 1
        return up[-min(at, len(up))], across[-min(at, len(across))]

    def above(self) -> list[int]:
        """Return all queues, each after all queues below it."""
        return sorted(range(self.count), key=lambda queue: -len(self.path[queue]))


def _bound(amount: int | None) -> int:
    return NO_BOUND if amount is None else min(amount, NO_BOUND)
