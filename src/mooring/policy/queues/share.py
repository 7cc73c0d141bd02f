"""What fairness gives every queue: division of capacity, and how far a queue is beyond its part.

Each (flavor, resource) pair is divided by itself, level by level from the roots down: quota first,
then what is left over by priority and weight, corrected by history. Divisions are exact: no
rounding error ever decides. Devices are given as whole ones, everything else in its own unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from math import inf, lcm
from typing import TYPE_CHECKING

from mooring.model.cluster import WHOLE
from mooring.model.queues import ANY_FLAVOR_NAME
from mooring.model.resources import GPU
from mooring.policy.queues.tree import NO_BOUND, NOBODY, Pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from mooring.policy.queues.tree import QueueTree

Rows = list[list[int]]
"""Per queue and pair."""
Standing = tuple[int, float]
"""Class of an item at a queue, and its level inside the class; the least is served first."""

COVERED: Standing = (0, 0.0)
IN_SHARE: Standing = (1, 0.0)
BEYOND = 2
LAST = 3
"""Beyond, and without weight."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one queue brings to the division of one pair among its siblings."""

    name: str
    quota: int = 0
    limit: int = NO_BOUND
    weight: float = 1.0
    priority: int = 0
    request: int = 0
    """Used and wanted, with all queues below."""
    history: float = 0.0
    """Part of the capacity that it has used so far, between 0 and 1."""
    created_at: float = 0.0


def unit_of(pair: Pair) -> int:
    """Return in which portions a pair is shared out: whole devices, or its own unit."""
    return WHOLE if pair[1] == GPU else 1


def allocatable_share(limit: int, quota: int, share: int) -> int:
    """Return what reclaim does not touch under `kai`."""
    return min(limit, max(quota, share))


# -- one level, one pair --------------------------------------------------------------------------


def divide(total: int, claims: Sequence[Claim], k: float = 0.0, unit: int = 1) -> list[int]:
    """Return the share of every claim as `kai` divides.

    Surplus is given in rounds, rounded down; only after all priorities had their rounds, what
    rounding left over is given out, one unit each, even to one that wants less than a unit.
    Quotas are never scaled: together they may exceed the total.
    """
    division = _Division(total, claims, k, unit)
    buckets = division.buckets()
    leftovers: dict[int, Fraction] = {}
    for bucket in buckets:
        while division.left and division.round(bucket, leftovers):
            pass
    for bucket in buckets:
        fractions = [(leftovers[i], i) for i in bucket if i in leftovers]
        for i in division.by_remainder(fractions):
            division.give(i, min(unit, division.left))
    return division.given


def apportion(total: int, claims: Sequence[Claim], k: float = 0.0, unit: int = 1) -> list[int]:
    """Return the share of every claim as `default` divides.

    As `divide`, but surplus is levelled out before it is rounded, once per priority and by largest
    remainder; nobody gets more than it wants, and a lower priority only what a higher left over.
    """
    division = _Division(total, claims, k, unit)
    for bucket in division.buckets():
        division.fill(bucket)
    return division.given


class _Division:
    """One pair among siblings, on its way: what each was given, and what is left."""

    def __init__(self, total: int, claims: Sequence[Claim], k: float, unit: int):
        self.claims = claims
        self.k = _exact(max(k, 0.0))
        self.unit = unit
        self.most = [min(claim.limit, claim.request) for claim in claims]
        quotas = [total if claim.quota >= NO_BOUND else claim.quota for claim in claims]
        self.given = [min(quota, most) for quota, most in zip(quotas, self.most, strict=True)]
        self.left = max(0, total - sum(self.given))

    def buckets(self) -> list[list[int]]:
        """Return the claims that take part, by priority, highest first."""
        if not self.left:
            return []
        some = [i for i, claim in enumerate(self.claims) if claim.weight > 0 and self.want(i) > 0]
        priorities = sorted({self.claims[i].priority for i in some}, reverse=True)
        return [[i for i in some if self.claims[i].priority == each] for each in priorities]

    def want(self, i: int) -> int:
        """Return how much more a claim could use."""
        return self.most[i] - self.given[i]

    def give(self, i: int, amount: int) -> None:
        """Give a claim more."""
        self.given[i] += amount
        self.left -= amount

    def parts(self, bucket: Sequence[int]) -> tuple[list[tuple[int, int]], int]:
        """Return how many parts of the surplus each claim that still wants gets, and their sum."""
        wanting = [i for i in bucket if self.want(i) > 0]
        parts, _ = _in_common([_exact(self.claims[i].weight) for i in wanting])
        if self.k:  # w + k (w - U), all multiplied by the sum of the weights and the denominators
            together, plus, base = sum(parts), self.k.numerator, self.k.denominator
            used, scale = _in_common([Fraction(self.claims[i].history) for i in wanting])
            pairs = zip(parts, used, strict=True)
            parts = [max(0, w * (base + plus) * scale - plus * u * together) for w, u in pairs]
        return list(zip(wanting, parts, strict=True)), sum(parts)

    def round(self, bucket: Sequence[int], leftovers: dict[int, Fraction]) -> bool:
        """Offer what is left once; return whether somebody wanted less than it was offered."""
        parts, whole = self.parts(bucket)
        amount, again = self.left, False
        for i, part in parts:
            if not whole:
                break
            if self.want(i) * whole <= amount * part:
                again |= self.want(i) * whole < amount * part
                leftovers.pop(i, None)
                self.give(i, self.want(i))
                continue
            units, rest = divmod(amount * part, whole * self.unit)
            if rest:
                leftovers[i] = Fraction(rest, whole)
            self.give(i, units * self.unit)
        return again

    def fill(self, bucket: Sequence[int]) -> None:
        """Give a bucket what is left, as even by weight as wants allow.

        Every turn satisfies somebody or leaves nothing.
        """
        while self.left:
            parts, whole = self.parts(bucket)
            if not whole:
                return
            amount = self.left
            met = [i for i, part in parts if self.want(i) * whole <= amount * part]
            for i in met:
                self.give(i, self.want(i))
            if not met:
                self.hand_out(parts, whole)

    def hand_out(self, parts: Sequence[tuple[int, int]], whole: int) -> None:
        """Give whole units, and the rest by largest remainder."""
        amount, rests = self.left, []
        for i, part in parts:
            units, rest = divmod(amount * part, whole * self.unit)
            self.give(i, units * self.unit)
            if rest:
                rests.append((Fraction(rest), i))
        for i in self.by_remainder(rests):
            self.give(i, min(self.unit, self.left, self.want(i)))

    def by_remainder(self, rests: Iterable[tuple[Fraction, int]]) -> list[int]:
        """Return claims by what rounding took from them, most first; ties: oldest, then name."""

        def key(rest: tuple[Fraction, int]) -> tuple[Fraction, float, str]:
            claim = self.claims[rest[1]]
            return -rest[0], claim.created_at, claim.name

        return [i for _, i in sorted(rests, key=key)]


@lru_cache(maxsize=1 << 10)
def _exact(number: float) -> Fraction:
    """Return a number as it was written: 0.1 is a tenth."""
    return Fraction(repr(number))


def _in_common(fractions: Sequence[Fraction]) -> tuple[list[int], int]:
    """Return fractions as whole numbers over one denominator, and that."""
    scale = lcm(*(each.denominator for each in fractions))
    return [each.numerator * (scale // each.denominator) for each in fractions], scale


# -- the whole tree -------------------------------------------------------------------------------


def add_up(tree: QueueTree, own: Sequence[Sequence[int]]) -> Rows:
    """Return amounts of the queues themselves as amounts with all queues below."""
    rows = [[int(amount) for amount in row] for row in own]
    for queue in tree.above():
        parent = tree.parent[queue]
        if parent != NOBODY:
            rows[parent] = [a + b for a, b in zip(rows[parent], rows[queue], strict=True)]
    return rows


def shares(
    tree: QueueTree,
    totals: Sequence[int],
    requests: Sequence[Sequence[int]],
    history: Sequence[Sequence[float]] | None = None,
    k: float = 0.0,
) -> Rows:
    """Return the fair share of every queue in every pair under `kai`.

    `totals` is the capacity per pair, `requests` what each queue with all below it uses and wants.
    """

    def division(queues: Sequence[int], pair: int, total: int) -> list[int]:
        claims = [_claim(tree, queue, pair, requests, history) for queue in queues]
        return divide(total, claims, k, unit_of(tree.pairs[pair]))

    return _downwards(tree, totals, division)


def default_shares(
    tree: QueueTree,
    totals: Sequence[int],
    requests: Sequence[Sequence[int]],
    history: Sequence[Sequence[float]] | None = None,
    k: float = 0.0,
) -> Rows:
    """Return the effective share of every queue in every pair under `default`.

    They follow from demand alone, so no exchange of running work changes them. Quota that its
    owner does not lend is nobody's surplus, and nobody's share exceeds what it may borrow.
    """
    quota = effective_quota(tree)

    def division(queues: Sequence[int], pair: int, total: int) -> list[int]:
        claims, kept = [], 0
        for queue in queues:
            claim, own = _claim(tree, queue, pair, requests, history), quota[queue][pair]
            most = min(claim.limit, own + tree.borrowing_limit[queue][pair])
            claims.append(replace(claim, quota=own, limit=most))
            idle = max(0, min(own, total) - min(most, claim.request))
            kept += max(0, idle - tree.lending_limit[queue][pair])
        return apportion(max(0, total - kept), claims, k, unit_of(tree.pairs[pair]))

    return _effective(tree, _downwards(tree, totals, division))


def effective_quota(tree: QueueTree) -> Rows:
    """Return per queue and pair the larger of its own quota and of its children's together."""
    return _effective(tree, tree.quota)


def _claim(
    tree: QueueTree,
    queue: int,
    pair: int,
    requests: Sequence[Sequence[int]],
    history: Sequence[Sequence[float]] | None,
) -> Claim:
    """Return the claim of a queue; one that is no more has none on surplus."""
    return Claim(
        tree.names[queue],
        tree.quota[queue][pair],
        tree.limit[queue][pair],
        tree.weight[queue][pair] if tree.exists[queue] else 0.0,
        tree.queues[queue].priority,
        int(requests[queue][pair]),
        history[queue][pair] if history else 0.0,
        tree.queues[queue].created_at,
    )


def _downwards(
    tree: QueueTree,
    totals: Sequence[int],
    division: Callable[[Sequence[int], int, int], list[int]],
) -> Rows:
    """Divide the totals among the roots, and the share of every queue among its children."""
    rows = [[0] * len(totals) for _ in tree.names]
    for parent, queues in _families(tree):
        have = [int(total) for total in totals] if parent == NOBODY else rows[parent]
        for pair, total in enumerate(have):
            for queue, share in zip(queues, division(queues, pair, total), strict=True):
                rows[queue][pair] = share
    return rows


def _families(tree: QueueTree) -> Iterator[tuple[int, list[int]]]:
    """Yield every parent and its children, from the top down."""
    yield NOBODY, tree.roots
    for queue in reversed(tree.above()):
        if tree.children[queue]:
            yield queue, tree.children[queue]


def _effective(tree: QueueTree, own: Sequence[Sequence[int]]) -> Rows:
    rows = [list(row) for row in own]
    for queue in tree.above():
        for pair, amount in enumerate(rows[queue]):
            below = sum(rows[child][pair] for child in tree.children[queue])
            rows[queue][pair] = min(NO_BOUND, max(amount, below))
    return rows


# -- how far beyond -------------------------------------------------------------------------------


def norms(
    tree: QueueTree, totals: Sequence[int], prices: Mapping[str, float] | None = None
) -> list[float]:
    """Return per pair what an amount is measured by.

    Without prices it is the capacity of the pair. With prices of devices (1 where none is given)
    it is what all flavors of the resource together are worth, in amounts of this flavor.
    """
    if prices is None:
        return [float(total) for total in totals]
    price = [prices.get(f, 1.0) if resource == GPU else 1.0 for f, resource in tree.pairs]
    worth: dict[str, float] = {}
    for (flavor, resource), total, each in zip(tree.pairs, totals, price, strict=True):
        if flavor != ANY_FLAVOR_NAME:
            worth[resource] = worth.get(resource, 0.0) + total * each
    return [
        float(total) if flavor == ANY_FLAVOR_NAME else _over(worth[resource], each)
        for (flavor, resource), total, each in zip(tree.pairs, totals, price, strict=True)
    ]


class Yardstick:
    """Tells what is covered by quota, what is in share and what is beyond, queue by queue.

    Pairs are compared one by one and never added together.
    """

    def __init__(self, tree: QueueTree, shares: Sequence[Sequence[int]], norms: Sequence[float]):
        self.quota = effective_quota(tree)
        self.divided = shares
        """Shares as they were divided: of who asks for little, less than the quota."""
        self.share = [
            [max(pair) for pair in zip(*rows, strict=True)]
            for rows in zip(self.quota, shares, strict=True)
        ]
        """At least the quota, even where demand has grown since shares were counted."""
        self.weight = [
            row if exists else [0.0] * len(row)
            for row, exists in zip(tree.weight, tree.exists, strict=True)
        ]
        self.norms = norms

    def standing(
        self, queue: int, used: Sequence[int], size: Sequence[tuple[int, int]]
    ) -> Standing:
        """Return the class of an item of so many (pair, amount) at a queue that uses so much."""
        quota, share = self.quota[queue], self.share[queue]
        if all(used[pair] + amount <= quota[pair] for pair, amount in size):
            return COVERED
        over = [pair for pair, amount in size if used[pair] + amount > share[pair]]
        if not over:
            return IN_SHARE
        is_last = any(self.weight[queue][pair] <= 0 for pair in over)
        level = self.level(queue, used, [pair for pair, _ in size])
        return max(level, (LAST, 0.0)) if is_last else level

    def level(
        self, queue: int, used: Sequence[int], pairs: Iterable[int] | None = None
    ) -> Standing:
        """Return how far a queue is beyond its quota, by its weight, in the worst of the pairs.

        Beyond it in a pair without weight it is in a class of its own, by the bare excess.
        """
        weight, worst = self.weight[queue], (BEYOND, 0.0)
        for pair in range(len(used)) if pairs is None else pairs:
            excess = used[pair] - self.quota[queue][pair]
            if excess <= 0:
                continue
            bare = _over(excess, self.norms[pair])
            each = (BEYOND, bare / weight[pair]) if weight[pair] > 0 else (LAST, bare)
            worst = max(worst, each)
        return worst


def _over(amount: float, by: float) -> float:
    return amount / by if by > 0 else inf


# -- the dominant share of `kueue` ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class DominantShare:
    """How much a queue borrows of what it could; the least is served first, and evicted last."""

    is_unbounded: bool = False
    """It borrows and has no weight: behind all others, by its bare ratio."""
    share: float = 0.0
    """Thousandths of what could be lent, divided by the weight."""
    resource: str = field(default="", compare=False)
    """The one that decides; empty: none."""
    borrows: tuple[int, ...] = field(default=(), compare=False)
    """Pairs of which it uses more than its quota."""


def dominant_share(
    pairs: Sequence[Pair], over: Sequence[int], lendable: Sequence[int] | None, weight: float
) -> DominantShare:
    """Return the dominant share of a queue (Kueue's, which adds the flavors of a resource).

    `over` is per pair what it uses (with what it asks for) above the quota of its subtree, where
    its subtree names the pair; below 0 or 0: it does not borrow. `lendable` is what its parent
    could have at most, of all pairs of the tree; none: there is no parent. With borrowed amounts
    of a resource of which nothing can be lent, the ratio is 0, but it does borrow.
    """
    borrows = tuple(pair for pair, amount in enumerate(over) if amount > 0)
    if lendable is None or not borrows:
        return DominantShare()
    ratio, dominant = 0.0, ""
    for name in sorted({pairs[pair][1] for pair in borrows}):
        borrowed = sum(over[pair] for pair in borrows if pairs[pair][1] == name)
        most = sum(n for (_, other), n in zip(pairs, lendable, strict=True) if other == name)
        each = 1000.0 * borrowed / most if most > 0 else 0.0
        if each > ratio:
            ratio, dominant = each, name
    if weight > 0:
        return DominantShare(False, ratio / weight, dominant, borrows)
    return DominantShare(True, ratio, dominant, borrows)
