"""The running items of one queue, in chains.

Of two items of a queue with the same pairs, the one that is senior and started earlier always
comes first: whatever counts for it counts for the other, and it counts itself. So the items of a
queue fall into few chains, and only the head of a chain can be next.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import TYPE_CHECKING

from mooring.policy.queues.share import COVERED
from mooring.policy.queues.tree import NOBODY
from mooring.policy.standing.sums import MOST_ITEMS, Sums

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mooring.policy.standing.crowd import Crowd, Entry
    from mooring.policy.standing.item import Class, Item, Measure, Name, Rank, Size
    from mooring.policy.standing.parts import Part

Group = tuple[tuple[int, ...], int, int]
"""The pairs of a chain, whether it is of guests, and the number of the chain of its minima."""
Columns = list[tuple[int, list[int]]]
"""Sums of the first n items, and of which pair of another chain they are."""
Open = tuple[int, int, list[int]]
"""A class that others can still change: its number, the queue, and what is picked there."""


MANY_CHAINS = 12
"""So many are not asked one by one if heads are looked at often."""


class Chain:
    """Items of one queue, each senior to the next and started before it, all with the same pairs.

    They are picked in this order: the first ones as covered, the next ones in the log of the part.
    """

    __slots__ = (
        "behind", "checked", "classes", "covered", "cross", "cross_of", "crowd", "entry", "gate",
        "guest", "is_listed", "items", "leaf", "needs", "number", "open", "pairs", "picked",
        "ranks", "seen", "starts", "upto", "used",
    )  # fmt: skip

    def __init__(self, leaf: Leaf, group: Group, gate: Chain | None):
        self.leaf = leaf
        self.number = leaf.next_number()
        self.pairs, self.guest, _ = group
        self.gate = gate
        """Units only: the chain of the minima that must be picked before."""
        self.behind: list[Chain] = []
        """The chains of units for which this one is the gate."""
        self.items: list[Item] = []
        self.ranks: list[Rank] = []
        self.starts: list[float] = []
        self.needs: list[Rank] = []
        """Units only: the ranks of their minima."""
        self.upto: list[list[int]] = [[0] for _ in self.pairs]
        """Per pair, the sum of the first n items."""
        self.covered = 0
        """How many are covered at all queues."""
        self.picked: list[int] = []
        """The places in the log of the next ones."""
        self.is_listed = False
        """Whether the head is in the heap of the part, or in a crowd."""
        self.crowd: Crowd | None = None
        self.entry: Entry | None = None
        # What is known of the head: as of which number and tick, what counts for it in its own
        # queue, its classes, which of them may still change, and how long the log was then.
        self.seen = (-1, -1)
        self.used: list[int] = []
        self.classes: list[Class] = []
        self.open: list[Open] = []
        self.checked = -1
        self.cross: list[tuple[Chain, int, int, Columns]] = []
        """Of other chains, how many are both senior to the head and earlier, or one of them."""
        self.cross_of = (-1, -1)

    @property
    def head(self) -> int:
        """Return how many are picked: the number of the first that is not."""
        return self.covered + len(self.picked)

    @property
    def group(self) -> Group:
        """Return what its items have in common."""
        return self.pairs, self.guest, self.gate.number if self.gate else -1

    def fit(self, item: Item, need: Rank | None) -> int | None:
        """Return where an item has its place by rank and start; None: nowhere."""
        starts, started = self.starts, item.started
        at = len(starts)
        if item.rank < self.ranks[-1]:
            at = bisect_left(self.ranks, item.rank)
        if (at and starts[at - 1] > started) or (at < len(starts) and started > starts[at]):
            return None
        if need is not None:
            needs = self.needs
            if (at and needs[at - 1] > need) or (at < len(needs) and need > needs[at]):
                return None
        return at

    def insert(self, at: int, item: Item, need: Rank | None) -> None:
        """Add an item that is not picked."""
        if at == len(self.items):
            for column, (_pair, amount) in zip(self.upto, item.size, strict=True):
                column.append(column[-1] + amount)
        else:
            for column, (_pair, amount) in zip(self.upto, item.size, strict=True):
                column[at + 1 :] = [total + amount for total in column[at:]]
        self.items.insert(at, item)
        self.ranks.insert(at, item.rank)
        self.starts.insert(at, item.started)
        if need is not None:
            self.needs.insert(at, need)

    def drop(self, at: int) -> None:
        """Take an item out that is not in the log."""
        for column, (_pair, amount) in zip(self.upto, self.items[at].size, strict=True):
            column[at + 1 :] = [total - amount for total in column[at + 2 :]]
        del self.items[at], self.ranks[at], self.starts[at]
        if self.needs:
            del self.needs[at]

    def is_open(self) -> bool:
        """Return whether the head may be picked: its minimum is."""
        gate = self.gate
        if gate is None:
            return True
        at = gate.head
        return at == len(gate.items) or self.needs[self.head] < gate.ranks[at]

    def before(self, place: int) -> int:
        """Return how many are picked before a place in the log."""
        return self.covered + bisect_left(self.picked, place)

    def place(self, at: int) -> int | None:
        """Return the place of an item in the log; None: it is covered, or not picked."""
        at -= self.covered
        return self.picked[at] if 0 <= at < len(self.picked) else None

    def exposed(self, at: int) -> int:
        """Return from which place in the log on an item could have been next."""
        before = self.place(at - 1)
        return 0 if before is None else before + 1

    def ends(self, rank: Rank, started: float) -> tuple[int, int]:
        """Return how many are senior, and how many started earlier; of equal starts the senior."""
        senior = bisect_left(self.ranks, rank)
        earlier = bisect_left(self.starts, started)
        if earlier < len(self.starts) and self.starts[earlier] == started:
            earlier = min(max(senior, earlier), bisect_right(self.starts, started))
        return senior, earlier

    def add_up(self, pairs: tuple[int, ...], count: int, sums: list[int]) -> None:
        """Add what the first so many items use of pairs."""
        if count:
            for at, column in self.columns(pairs):
                sums[at] += column[count]

    def columns(self, pairs: tuple[int, ...]) -> Columns:
        """Return the sums of pairs that it has in common with others, and which they are."""
        if pairs == self.pairs:
            return list(enumerate(self.upto))
        return [
            (pairs.index(pair), column)
            for pair, column in zip(self.pairs, self.upto, strict=True)
            if pair in pairs
        ]


class Leaf:
    """A queue in which items run."""

    def __init__(self, queue: int, path: tuple[int, ...], width: int):
        self.queue = queue
        self.path = path
        """From the top down to it."""
        self.sizes: dict[Size, int] = {}
        """How many items have each size."""
        self.chains: list[Chain] = []
        self.groups: dict[Group, list[Chain]] = {}
        self.loose: dict[Name, Item] = {}
        """Items that are in no chain yet; nothing of its part is in the log then."""
        self.last: tuple[float, Rank] | None = None
        """No item that is in a chain started later."""
        self.is_fresh = False
        """Whether it is known who is covered."""
        self.stamp = 0
        """Counts changes of chains."""
        self.tick = 0
        """Counts changes of chains and of what is picked."""
        self.part: Part
        self.used = [0] * width
        """By what is picked; kept only while there are rows."""
        self.rows: list[list[int]] = []
        """What is picked at the queues above that are shared and not of one class."""
        self.plan: list[tuple[Class | None, int, list[int] | None]] = []
        self.above: tuple[Class, ...] = ()
        """The classes at the queues above of all of its items, where there are no rows."""
        self.constant: tuple[Class, ...] | None = None
        """All classes of all of its items, where they are known beforehand."""
        self.all_covered = (COVERED,) * len(path)
        self._numbers = 0
        self._sums: Sums | None = None
        self._asked = 0
        """How many chains were asked since there were sums."""
        self._by_rank: tuple[int, list[tuple[Rank, Chain, int]]] = (-1, [])

    def next_number(self) -> int:
        """Return a number for a new chain, unlike any of another queue."""
        self._numbers += 1
        return (self.queue << 24) + self._numbers

    def change(self) -> None:
        """Note that a chain has changed."""
        self.stamp += 1
        self.tick += 1

    # -- chains -----------------------------------------------------------------------------

    def build(self, items: Iterable[Item], gates: dict[str, tuple[Chain, Rank]]) -> list[Chain]:
        """Make chains of items that come by rank, minima or units; return the chain of each.

        Every item goes to the first chain that has its end before it; so there are as few as can
        be. Units go by the chains of their minima.
        """
        found, pairs_of = [], {size: tuple([pair for pair, _ in size]) for size in self.sizes}
        tails: dict[Group, list[float]] = {}
        gate = need = None
        for item in items:
            if gates:
                gate, need = gates.get(item.workload, (None, None))
            guest = 1 if item.overtaker or item.lender != NOBODY else 0
            group = (pairs_of[item.size], guest, -1 if gate is None else gate.number)
            # The ends of chains get earlier from one chain to the next: so they are kept negative.
            ends, end = tails.get(group), -item.started
            if ends is None:
                ends = tails[group] = []
            at = bisect_left(ends, end)
            chains = self.groups.get(group, ())
            while at < len(ends) and need is not None and chains[at].needs[-1] > need:
                at += 1
            if at == len(ends):
                chain = self._open(group, gate)
                ends.append(end)
            else:
                chain = chains[at]
                ends[at] = end
            chain.items.append(item)
            chain.ranks.append(item.rank)
            chain.starts.append(item.started)
            if need is not None:
                chain.needs.append(need)
            found.append(chain)
        self._add_up()
        return found

    def _add_up(self) -> None:
        for chain in self.chains:
            for number in range(len(chain.pairs)):
                amounts = [item.size[number][1] for item in chain.items]
                chain.upto[number] = [0, *accumulate(amounts)]
        self.last = max(((c.starts[-1], c.ranks[-1]) for c in self.chains), default=None)
        self.change()

    def _open(self, group: Group, gate: Chain | None) -> Chain:
        chain = Chain(self, group, gate)
        self.groups.setdefault(group, []).append(chain)
        self.chains.append(chain)
        if gate is not None:
            gate.behind.append(chain)
        return chain

    def insert(self, item: Item, gate: Chain | None, need: Rank | None) -> Chain:
        """Put an item in a chain in which it has a place by rank and start, or in a new one.

        Of several it is the one where it comes closest behind another.
        """
        pairs = tuple([pair for pair, _ in item.size])
        group = (pairs, int(item.is_guest), gate.number if gate else -1)
        best, best_at, nearest = None, 0, -1.0
        for chain in self.groups.get(group, ()):
            at = chain.fit(item, need)
            if at is not None:
                before = chain.starts[at - 1] if at else -1.0
                if best is None or before > nearest:
                    best, best_at, nearest = chain, at, before
        if best is None:
            best = self._open(group, gate)
        best.insert(best_at, item, need)
        start = (item.started, item.rank)
        self.last = start if self.last is None or self.last < start else self.last
        self.change()
        return best

    def forget(self, chain: Chain) -> None:
        """Drop a chain in which nobody is left."""
        self.chains.remove(chain)
        self.groups[chain.group].remove(chain)
        if chain.gate is not None:
            chain.gate.behind.remove(chain)

    # -- what counts ------------------------------------------------------------------------

    def head_uses(self, head: Chain, at: int) -> list[int]:
        """Return what counts in this queue for the head of a chain, which has this number.

        Of its own chain that is all before it. Of another chain, those before it in rank and
        start always count, those behind it in both never, those between once they are picked.
        """
        if len(self.chains) >= MANY_CHAINS:
            sums = self._all_sums()
            if sums is not None:
                return sums.uses(head, at)
        used = [column[at] for column in head.upto]
        if len(self.chains) > 1:
            if head.cross_of != (at, self.stamp):
                self._compare(head, at)
            for other, low, high, columns in head.cross:
                count = other.covered + len(other.picked)
                count = low if count < low else high if count > high else count
                for column, upto in columns:
                    used[column] += upto[count]
        return used

    def _all_sums(self) -> Sums | None:
        """Return sums for all items, once it is worth while to have them."""
        if self._sums is not None and self._sums.tick == self.tick:
            return self._sums
        if self._sums is not None:
            self._sums, self._asked = None, 0
        self._asked += len(self.chains)
        count = sum(self.sizes.values())
        if self._asked > count * count // 600 and count <= MOST_ITEMS:
            self._sums = Sums(self.chains)
            self._sums.tick = self.tick
        return self._sums

    def pick(self, chain: Chain, at: int) -> None:
        """Note that an item is picked."""
        sums, self.tick = self._sums, self.tick + 1
        if sums is not None and sums.tick == self.tick - 1:
            sums.pick(chain, at)
            sums.tick = self.tick

    def covered_uses(self) -> dict[int, int]:
        """Return what those who are covered use."""
        used: dict[int, int] = {}
        for chain in self.chains:
            for pair, column in zip(chain.pairs, chain.upto, strict=True):
                used[pair] = used.get(pair, 0) + column[chain.covered]
        return used

    def by_rank(self) -> list[tuple[Rank, Chain, int]]:
        """Return all items by rank: their chains, and numbers there."""
        if self._by_rank[0] != self.stamp:
            found = [
                (rank, n, at) for n, c in enumerate(self.chains) for at, rank in enumerate(c.ranks)
            ]
            found.sort()
            self._by_rank = self.stamp, [(rank, self.chains[n], at) for rank, n, at in found]
        return self._by_rank[1]

    def _compare(self, head: Chain, at: int) -> None:
        """Find where the head of a chain belongs in the others."""
        rank, started = head.ranks[at], head.starts[at]
        head.cross, head.cross_of = [], (at, self.stamp)
        for other in self.chains:
            senior, earlier = other.ends(rank, started)
            if other is not head and (senior or earlier):
                columns = other.columns(head.pairs)
                if senior < earlier:
                    head.cross.append((other, senior, earlier, columns))
                else:
                    head.cross.append((other, earlier, senior, columns))

    def newcomer_uses(self, item: Item, place: int | None) -> list[int]:
        """Return what counts in this queue for one that starts last, at a place in the log.

        That is all seniors, and what is picked; None: nothing is.
        """
        pairs = tuple([pair for pair, _ in item.size])
        used = [0] * len(pairs)
        for chain in self.chains:
            seniors = bisect_left(chain.ranks, item.rank)
            picked = 0 if place is None else chain.before(place)
            chain.add_up(pairs, max(seniors, picked), used)
        return used

    # -- who is covered -----------------------------------------------------------------------

    def cover(self, measure: Measure, *, can_be: bool) -> None:
        """Find who is covered by the quota of this queue, and so by those above.

        They go by rank, whoever else is served. Nothing of it is in the log.
        """
        self.is_fresh = True
        self.tick += 1
        for chain in self.chains:
            chain.covered = 0
        quota = measure.quota[self.queue]
        if can_be and len(self.chains) == 1 and not self.chains[0].guest:
            chain = self.chains[0]
            counts = [
                bisect_right(column, quota[pair]) - 1
                for pair, column in zip(chain.pairs, chain.upto, strict=True)
            ]
            chain.covered = min(counts, default=len(chain.items))
        elif can_be:
            self._cover_first(quota)
            self._cover_rest(measure)

    def _cover_first(self, quota: Sequence[int]) -> None:
        """Cover by rank, counting all seniors, until the first that may be too much."""
        used = dict.fromkeys([pair for chain in self.chains for pair in chain.pairs], 0)
        for _rank, chain, at in self.by_rank():
            is_in = True
            for pair, amount in chain.items[at].size:
                used[pair] += amount
                is_in &= used[pair] <= quota[pair]
            if chain.guest:
                continue
            if not is_in or (chain.gate is not None and not chain.is_open()):
                return
            chain.covered += 1

    def _cover_rest(self, measure: Measure) -> None:
        """Look at the heads of chains one by one: what is too much stays too much.

        Whoever is covered so far is senior to all that follow, so that it counts for them.
        """
        heads = [(c.ranks[c.covered], c.number, c) for c in self.chains if self._may_be_covered(c)]
        heapify(heads)
        listed = {number for _, number, _ in heads}
        quota, least = measure.quota[self.queue], self.covered_uses()
        while heads:
            _rank, number, chain = heappop(heads)
            at = chain.covered
            size = chain.items[at].size
            if any(least[pair] + amount > quota[pair] for pair, amount in size):
                continue
            if measure.class_of(self.queue, size, self.head_uses(chain, at)) != COVERED:
                continue
            listed.discard(number)
            chain.covered += 1
            self.pick(chain, at)
            for pair, amount in size:
                least[pair] += amount
            for other in (chain, *chain.behind):
                if other.number not in listed and self._may_be_covered(other):
                    listed.add(other.number)
                    heappush(heads, (other.ranks[other.covered], other.number, other))

    def _may_be_covered(self, chain: Chain) -> bool:
        return not chain.guest and chain.covered < len(chain.items) and chain.is_open()

    def is_covered_as_before(self, measure: Measure) -> bool:
        """Return whether nobody else has become covered since somebody who was not has left."""
        for chain in self.chains:
            if not self._was_next(chain):
                continue
            used = self._first_uses(chain)
            if measure.class_of(self.queue, chain.items[chain.covered].size, used) == COVERED:
                return False
        return True

    def _was_next(self, chain: Chain) -> bool:
        """Return whether one more of a chain could have been covered, as far as chains go."""
        if chain.guest or chain.covered >= len(chain.items):
            return False
        gate = chain.gate
        if gate is None or gate.covered == len(gate.items):
            return True
        return chain.needs[chain.covered] < gate.ranks[gate.covered]

    def _first_uses(self, chain: Chain) -> list[int]:
        """Return what counted for the first that is not covered when its turn was, by rank."""
        at = chain.covered
        used = [column[at] for column in chain.upto]
        rank, started = chain.ranks[at], chain.starts[at]
        for other in self.chains:
            if other is not chain:
                senior, earlier = other.ends(rank, started)
                count = max(min(senior, earlier), min(senior, other.covered))
                other.add_up(chain.pairs, count, used)
        return used
