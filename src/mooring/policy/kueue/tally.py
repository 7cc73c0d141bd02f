"""Quota under profile `kueue`: what every queue uses at one moment, to try things on.

A *cluster queue* is a queue that work lines up in; queues above it are cohorts, local queues below
it have no quota. All numbers about bounds come from the ledger; here use is added and taken away
without touching the books.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.policy.queues.share import DominantShare, dominant_share
from mooring.policy.queues.tree import NO_BOUND, NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mooring.policy.desk import Desk
    from mooring.policy.queues.lines import Request
    from mooring.policy.queues.quota import Ledger


class Cohorts:
    """What does not change with use: who lines up where, and what could be lent."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.tree = tree = ledger.tree
        self.cluster_queue = [
            next((node for node in path if not tree.queues[node].local), path[0])
            for path in tree.path
        ]
        """Per queue, the one that it lines up in."""
        self.root = [path[-1] for path in tree.path]
        self.children = [
            [child for child in below if not tree.queues[child].local] for below in tree.children
        ]
        self._named = self._add_up_names()
        self._lendable: dict[int, list[int]] = {}

    def _add_up_names(self) -> list[list[bool]]:
        """Return per queue which pairs it or a queue below it names."""
        tree = self.tree
        rows = [list(row) for row in tree.names_pair]
        for queue in tree.above():
            parent = tree.parent[queue]
            if parent != NOBODY:
                rows[parent] = [a or b for a, b in zip(rows[parent], rows[queue], strict=True)]
        return rows

    def has_parent(self, queue: int) -> bool:
        """Return whether a queue is in a cohort."""
        return self.tree.parent[queue] != NOBODY

    def above(self, queue: int) -> tuple[int, ...]:
        """Return the cohorts around a queue, the nearest first."""
        return self.tree.path[queue][1:]

    def is_cohort(self, queue: int) -> bool:
        """Return whether other queues with quota are below a queue."""
        return bool(self.children[queue])

    def lendable(self, queue: int) -> list[int] | None:
        """Return what the cohort of a queue could have at most; None: it is in none."""
        parent = self.tree.parent[queue]
        if parent == NOBODY:
            return None
        known = self._lendable.get(parent)
        if known is None:
            named = self._named[self.root[queue]]
            pairs = range(len(self.tree.pairs))
            known = [self._potential(parent, pair) if named[pair] else 0 for pair in pairs]
            self._lendable[parent] = known
        return known

    def _potential(self, node: int, pair: int) -> int:
        """Return what a cohort could have if nothing were in use."""
        ledger, parent = self.ledger, self.tree.parent[node]
        whole, private = ledger.subtree[node][pair], ledger.private[node][pair]
        if parent == NOBODY:
            return whole
        most = min(NO_BOUND, self.tree.borrowing_limit[node][pair] + whole - private)
        return min(NO_BOUND, private + min(self._potential(parent, pair), most))

    def names(self, queue: int, pair: int) -> bool:
        """Return whether a queue or one below it names a pair."""
        return self._named[queue][pair]


class Tally:
    """What every queue, with all below it, uses of every pair."""

    def __init__(self, cohorts: Cohorts, rows: list[list[int]]) -> None:
        self.cohorts = cohorts
        self.ledger = cohorts.ledger
        self.rows = rows

    @classmethod
    def of(cls, cohorts: Cohorts, desk: Desk) -> Tally:
        """Return what the books say."""
        return cls(cohorts, [list(row) for row in desk.books.usage_of])

    def copy(self) -> Tally:
        """Return a tally that changes on its own from here."""
        return Tally(self.cohorts, [row[:] for row in self.rows])

    def add(self, queue: int, request: Mapping[int, int], sign: int = 1) -> None:
        """Let a queue, and all above it, use more (or, with -1, less)."""
        for node in self.cohorts.tree.path[queue]:
            row = self.rows[node]
            for pair, amount in request.items():
                row[pair] += sign * amount

    # -- quota ------------------------------------------------------------------------------

    def nominal(self, queue: int, pair: int) -> int:
        """Return the quota of a cluster queue itself."""
        return self.ledger.nominal(queue, pair)

    def used(self, node: int, pair: int) -> int:
        """Return what counts against the quota of a queue or cohort."""
        return self.ledger.drawn(node, pair, self.rows)

    def available(self, queue: int, pair: int) -> int:
        """Return how much a cluster queue may still be charged."""
        if not self.ledger.counts(queue, pair):
            return 0
        return self.ledger.available(queue, pair, self.rows)

    def potential(self, queue: int, pair: int) -> int:
        """Return how much a cluster queue could be charged if nothing were in use."""
        return self.ledger.potential(queue, pair) if self.ledger.counts(queue, pair) else 0

    def borrows(self, node: int, pair: int, extra: int = 0) -> bool:
        """Return whether a queue or cohort is above its quota, or would be with more."""
        return self.used(node, pair) + extra > self.ledger.subtree[node][pair]

    def is_within(self, node: int, pairs: Iterable[int]) -> bool:
        """Return whether a queue or cohort is above its quota in none of some pairs."""
        return not any(self.borrows(node, pair) for pair in pairs)

    def holds(self, node: int, request: Request) -> tuple[bool, Request]:
        """Return whether the quota of a node takes a request, and what is asked of its parent."""
        takes, rest = True, {}
        for pair, amount in request.items():
            takes = takes and not self.borrows(node, pair, amount)
            spare = max(0, self.ledger.private[node][pair] - self.used(node, pair))
            rest[pair] = max(0, amount - spare)
        return takes, rest

    def fits(self, queue: int, request: Request, *, borrowing: bool = True) -> bool:
        """Return whether a cluster queue may be charged, perhaps only within its quota."""
        return all(
            amount <= self.available(queue, pair)
            and (borrowing or not self.borrows(queue, pair, amount))
            for pair, amount in request.items()
        )

    def distance(self, queue: int, pair: int, amount: int) -> tuple[int, bool]:
        """Return how far an amount must be borrowed, and whether a part of the tree holds it."""
        holder = self.ledger.holder(queue, pair, amount, self.rows)
        far = self.ledger.distance(queue, {pair: amount}, self.rows)
        return far, self.cohorts.has_parent(holder)

    # -- fair sharing -----------------------------------------------------------------------

    def share(self, node: int) -> DominantShare:
        """Return the dominant share of a queue or cohort."""
        cohorts, tree = self.cohorts, self.cohorts.tree
        over = [
            self.used(node, pair) - self.ledger.subtree[node][pair]
            if cohorts.names(node, pair)
            else 0
            for pair in range(len(tree.pairs))
        ]
        return dominant_share(tree.pairs, over, cohorts.lendable(node), tree.queues[node].weight)
