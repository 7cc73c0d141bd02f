"""May this queue be charged? Quota, borrowing, lending and limits, as arithmetic over the tree.

A queue keeps *private* what its lending limit does not lend of the quota in its subtree. What is
*drawn* on a queue is its own use, and of every queue below what is drawn there beyond private
quota. So a root has left what is not drawn yet of the quota of its subtree; a queue has left its
unused private quota and, within its borrowing limit, what the queue above has left.

With capacities, all roots stand below one more, imaginary queue. Its own quota is the capacity
that is beyond all quotas: anybody may borrow it, and what is lent, but nothing private.

Usage is a table `usage[queue][pair]` of plain sums: what is charged to a queue and to all below.
Amounts from half of `NO_BOUND` on are without bound.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mooring.policy.queues.share import effective_quota
from mooring.policy.queues.tree import NO_BOUND, NOBODY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.policy.queues.tree import QueueTree

QUOTA = "quota"
BORROWING = "borrowing-limit"
LIMIT = "limit"
FIXED = "fixed"
"""The bound of work that is not preemptible: the quota, and nothing borrowed."""
_VAST = NO_BOUND >> 1


class Row(Protocol):
    """Amounts by pair."""

    def __getitem__(self, pair: int, /) -> int: ...


class Table(Protocol):
    """Amounts by queue and pair: lists, memoryviews, or an array."""

    def __getitem__(self, queue: int, /) -> Row: ...


@dataclass(frozen=True, slots=True)
class Shortage:
    """What stands against a charge."""

    queue: int
    """Whose bound it is; `NOBODY`: the capacity of all."""
    pair: int
    wanted: int
    left: int
    """How much of the pair could be charged."""
    rule: str
    """The bound: `quota`, `borrowing-limit`, `limit`, or `FIXED`."""


class _Way(NamedTuple):
    """The bounds between a queue and the top, for one pair."""

    counted: bool
    top: int
    """Whose quota bounds all; `NOBODY`: nothing does."""
    steps: tuple[tuple[int, bool, int, int], ...]
    """From the top down: queue, whether drawn is used there, private, most taken from above."""
    limits: tuple[tuple[int, int], ...]


class Ledger:
    """The quotas of a tree, added up; usage is handed in.

    Without capacities every root stands alone. `drawn`, where it may be handed in, is a table
    that `table` made and `charge` has kept since; it saves adding up what is private below.
    """

    def __init__(self, tree: QueueTree, capacity: Sequence[int] | None = None) -> None:
        self.tree = tree
        self._everybody = tree.count
        """Index of the imaginary queue above all roots."""
        above = () if capacity is None else (self._everybody,)
        self._path = [path + above for path in tree.path]
        self._anchor = [self._first_with_quota(queue) for queue in range(tree.count)]
        self._ways: list[list[_Way | None]] = [[None] * len(tree.pairs) for _ in tree.names]
        self._effective = effective_quota(tree)
        self._add_up()
        self._set_heights()
        if capacity is not None:
            self._set_capacity(capacity)

    def with_capacity(self, capacity: Sequence[int]) -> Ledger:
        """Return a ledger of the same tree with other capacities."""
        if len(self.subtree) == self._everybody:  # roots stood alone
            return Ledger(self.tree, capacity)
        new = copy(self)
        new._set_capacity(capacity)
        return new

    # -- once per tree ----------------------------------------------------------------------

    def _first_with_quota(self, queue: int) -> int:
        """Return the queue whose quota a queue uses: a local one has none of its own."""
        tree = self.tree
        return next((node for node in tree.path[queue] if not tree.queues[node].local), queue)

    def _add_up(self) -> None:
        """Set per queue and pair: quota of the subtree, and which part of it stays private."""
        tree, width = self.tree, len(self.tree.pairs)
        self.subtree = [[0] * width for _ in tree.names]
        self.private = [[0] * width for _ in tree.names]
        self._lent = [[0] * width for _ in tree.names]
        self._hiders: list[list[tuple[int, ...]]] = [[()] * width for _ in tree.names]
        """The queues right below a queue where use may stay hidden from it."""
        for queue in tree.above():
            below, is_local = tree.children[queue], tree.queues[queue].local
            for pair in range(width):
                own = 0 if is_local else tree.quota[queue][pair]
                whole = _saturated(own + sum(self._lent[child][pair] for child in below))
                lends = tree.lending_limit[queue][pair]
                self.subtree[queue][pair] = whole
                self._lent[queue][pair] = min(whole, lends)
                self.private[queue][pair] = _saturated(max(0, whole - lends))
                self._hiders[queue][pair] = tuple(
                    child
                    for child in below
                    if self.private[child][pair] or self._hiders[child][pair]
                )
        self.kept = [sum(row[pair] for row in self.private) for pair in range(width)]
        """Per pair, all that is private anywhere; if nothing is, capacity may be `NO_BOUND`."""

    def _set_heights(self) -> None:
        tree = self.tree
        self._height = [0] * tree.count
        for queue in tree.above():
            below = [child for child in tree.children[queue] if not tree.queues[child].local]
            self._height[queue] = 1 + max((self._height[child] for child in below), default=-1)
        self._height.append(1 + max((self._height[root] for root in tree.roots), default=-1))

    def _set_capacity(self, capacity: Sequence[int]) -> None:
        lent = [
            sum(self._lent[root][pair] for root in self.tree.roots)
            for pair in range(len(self.tree.pairs))
        ]
        shared = [
            _saturated(amount if amount > _VAST else max(lends, amount - kept))
            for lends, amount, kept in zip(lent, capacity, self.kept, strict=True)
        ]
        self.subtree = [*self.subtree[: self._everybody], shared]

    def _find_way(self, queue: int, pair: int) -> _Way:
        """Return the bounds between a queue and the top, and remember them."""
        tree, path = self.tree, self._path[queue]
        named = self._is_named(queue, pair)
        # Who names nothing of a pair may still not take what others keep private.
        counted = named or (path[-1] == self._everybody and self.kept[pair] > 0)
        limits = tuple(
            (node, tree.limit[node][pair])
            for node in tree.path[queue]
            if tree.limit[node][pair] < _VAST
        )
        steps = []
        for node in path[:-1] if counted else ():
            private = self.private[node][pair]
            most = self._most_from_above(node, pair)
            if private or most < _VAST:
                steps.append((node, bool(self._hiders[node][pair]), private, most))
        top = path[-1] if counted else NOBODY
        way = _Way(counted, top, tuple(reversed(steps)), limits)
        self._ways[queue][pair] = way
        return way

    def _is_named(self, queue: int, pair: int) -> bool:
        tree = self.tree
        return any(
            tree.names_pair[node][pair] and not tree.queues[node].local for node in tree.path[queue]
        )

    def _most_from_above(self, node: int, pair: int) -> int:
        borrows = (
            NO_BOUND if self.tree.queues[node].local else self.tree.borrowing_limit[node][pair]
        )
        return _saturated(borrows + self._lent[node][pair])

    # -- what is drawn ----------------------------------------------------------------------

    def drawn(self, queue: int, pair: int, usage: Table) -> int:
        """Return what counts against the subtree quota of a queue."""
        return int(self._drawn(queue, pair, usage))

    def _drawn(self, node: int, pair: int, usage: Table) -> int:
        if node == self._everybody:
            return sum(self._passed_on(root, pair, usage) for root in self.tree.roots)
        used = usage[node][pair]
        for child in self._hiders[node][pair]:
            used -= usage[child][pair] - self._passed_on(child, pair, usage)
        return used

    def _passed_on(self, node: int, pair: int, usage: Table) -> int:
        """Return what a queue draws from the queue above it."""
        hides = self._hiders[node][pair]
        used = self._drawn(node, pair, usage) if hides else usage[node][pair]
        used -= self.private[node][pair]
        return used if used > 0 else 0

    def table(self, usage: Table) -> list[list[int]]:
        """Return what is drawn on every queue; with capacities, on the imaginary one last."""
        nodes = range(len(self.subtree))
        pairs = range(len(self.tree.pairs))
        return [[self.drawn(node, pair, usage) for pair in pairs] for node in nodes]

    def charge(self, drawn: list[list[int]], queue: int, pair: int, amount: int) -> None:
        """Add a charge to a table of what is drawn; a negative amount is a refund."""
        for node in self._path[queue]:
            before = drawn[node][pair]
            drawn[node][pair] = after = before + amount
            if node == self._everybody:
                return
            private = self.private[node][pair]
            amount = max(after, private) - max(before, private)
            if not amount:
                return

    # -- quota ------------------------------------------------------------------------------

    def nominal(self, queue: int, pair: int) -> int:
        """Return the quota of a queue itself; of a local one, that of the queue above."""
        return self.tree.quota[self._anchor[queue]][pair]

    def counts(self, queue: int, pair: int) -> bool:
        """Return whether what a queue uses of a pair counts against quota at all."""
        return self._way(queue, pair).counted

    def available(self, queue: int, pair: int, usage: Table, drawn: Table | None = None) -> int:
        """Return how much may be charged now; of an inner queue, negative by how much too much."""
        left = self._tightest(queue, pair, usage, drawn)[0]
        if left > _VAST:
            return NO_BOUND
        return int(left) if left > 0 or self._height[self._anchor[queue]] else 0

    def potential(self, queue: int, pair: int) -> int:
        """Return how much could be charged if nothing were in use."""
        way = self._way(queue, pair)
        most = NO_BOUND if way.top == NOBODY else self.subtree[way.top][pair]
        for _, _, private, from_above in way.steps:
            most = min(most, from_above) + private
        for _, limit in way.limits:
            most = min(most, limit)
        return _saturated(most)

    def blocker(
        self, queue: int, request: Mapping[int, int], usage: Table, drawn: Table | None = None
    ) -> Shortage | None:
        """Return what stands against a request, the first pair of it that is short; None: nothing.

        Pairs of which nothing is requested do not matter. Where a queue is in the way and the
        capacity of all too, it is the queue: more nodes would be no help. What is left is what
        could be charged by the capacity too.
        """
        for pair, wanted in request.items():
            left, where, rule = self._tightest(queue, pair, usage, drawn)
            if wanted <= left or wanted <= 0:
                continue
            if where == self._everybody:
                where, own = NOBODY, self._tightest(queue, pair, usage, drawn, of_queues=True)
                if wanted > own[0]:
                    _, where, rule = own
            return Shortage(where, pair, wanted, max(0, int(left)), rule)
        return None

    def _way(self, queue: int, pair: int) -> _Way:
        return self._ways[queue][pair] or self._find_way(queue, pair)

    # wide: two tables of the same usage, and which bounds count
    def _tightest(
        self,
        queue: int,
        pair: int,
        usage: Table,
        drawn: Table | None,
        *,
        of_queues: bool = False,
    ) -> tuple[int, int, str]:
        """Return what is left of a pair, whose bound that is, and which; of queues, or of all."""
        _, top, steps, limits = self._ways[queue][pair] or self._find_way(queue, pair)
        left, where, rule = NO_BOUND, top, QUOTA
        if top != NOBODY and not (of_queues and top == self._everybody):
            left = self.subtree[top][pair]
            if left < _VAST:
                left -= self._drawn(top, pair, usage) if drawn is None else drawn[top][pair]
        for node, hides, private, most in steps:
            if drawn is not None:
                spare = private - drawn[node][pair]
            elif hides:
                spare = private - self._drawn(node, pair, usage)
            else:
                spare = private - usage[node][pair]
            if spare < 0:
                most += spare
            if most < left:
                left, where, rule = most, node, BORROWING
            if spare > 0:
                left += spare
        for node, limit in limits:
            spare = limit - usage[node][pair]
            if spare < left:
                left, where, rule = spare, node, LIMIT
        return left, where, rule

    # -- borrowing --------------------------------------------------------------------------

    def borrowed(
        self, queue: int, pair: int, usage: Table, extra: int = 0, drawn: Table | None = None
    ) -> int:
        """Return by how much a queue would be above the quota of its subtree with `extra` more."""
        if not self.counts(queue, pair):
            return 0
        node = self._anchor[queue]
        used = self._drawn(node, pair, usage) if drawn is None else drawn[node][pair]
        return max(0, int(used) + extra - self.subtree[node][pair])

    def borrows(
        self, queue: int, pair: int, usage: Table, extra: int = 0, drawn: Table | None = None
    ) -> bool:
        """Return whether a queue would be above the quota of its subtree with `extra` more."""
        return self.borrowed(queue, pair, usage, extra, drawn) > 0

    def holder(
        self, queue: int, pair: int, amount: int, usage: Table, drawn: Table | None = None
    ) -> int:
        """Return the lowest queue on the path whose subtree holds an amount more.

        If none does it is the root; with capacities, `NOBODY`.
        """
        node = self._anchor[queue]
        path = self._path[node] if self.counts(queue, pair) else (node,)
        for node in path[:-1]:
            used = self._drawn(node, pair, usage) if drawn is None else drawn[node][pair]
            if used + amount <= self.subtree[node][pair]:
                return node
            amount -= max(0, self.private[node][pair] - used)
        return NOBODY if path[-1] == self._everybody else path[-1]

    def distance(
        self, queue: int, request: Mapping[int, int], usage: Table, drawn: Table | None = None
    ) -> int:
        """Return how far a request must borrow: 0, or the height of the subtree that holds it.

        The height is that of the longest way down; the farthest pair decides.
        """
        own, farthest = self._anchor[queue], 0
        for pair, amount in request.items():
            node = self.holder(queue, pair, amount, usage, drawn) if amount > 0 else own
            if node != own:
                farthest = max(farthest, self._height[node])  # NOBODY: the last, above all roots
        return farthest

    # -- fixed use, as in KAI ---------------------------------------------------------------

    def over_quota_fixed(
        self, queue: int, request: Mapping[int, int], fixed_usage: Table
    ) -> tuple[int, int] | None:
        """Return the first queue on the path, and the pair, whose quota cannot take fixed work.

        Fixed work (not preemptible) only ever uses quota. A queue without quota of its own has what
        those below it have together. A pair that no queue on the path names is not counted.
        """
        for node in self.tree.path[queue]:
            if self.tree.queues[node].local:
                continue
            own, effective, used = self.tree.quota[node], self._effective[node], fixed_usage[node]
            for pair, amount in request.items():
                quota = own[pair] or effective[pair]
                over = amount > 0 and quota < _VAST and used[pair] + amount > quota
                if over and self._is_named(queue, pair):
                    return node, pair
        return None


def _saturated(amount: int) -> int:
    return NO_BOUND if amount > _VAST else amount
