"""Everybody who runs in one line: who would be served again first if all began from nothing.

An *item* is the minimum of a gang, or one elastic unit above it. Items are picked one by one; next
is always the one with the least key: guests last, then its class at every queue from the top down
to its own (covered by quota, in share, beyond by a level), then its rank. A class counts what is
used when the item's turn comes; of its own queue also seniors that started before it and are not
picked yet, but not juniors that started after it. So a start is harmless to running seniors.

How it is fast and still exact:

- Of two items of a queue with the same pairs, the one that is senior and started earlier always
  comes first. So the items of a queue fall into few *chains*, and only heads of chains are asked.
- Keys never get smaller as others are picked: a key that is still right when it is the least is
  the least. Heads stand in a heap by the last key known.
- A queue at which all items have one and the same class ties nobody to anybody. Queues fall into
  *parts* that have nothing to do with each other; a part is picked only as far as somebody asks.
- What is picked is a log. A start or an end cuts it at the first place that it can touch.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import TYPE_CHECKING

from mooring.policy.share import BEYOND, COVERED, IN_SHARE, LAST
from mooring.policy.tree import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mooring.policy.tree import QueueTree

Name = tuple[str, int]
"""Workload and number of the unit; 0 is its minimum."""
Size = tuple[tuple[int, int], ...]
"""(pair, amount) by pair; no amount is 0."""
Rank = tuple[int, int, int, float, str, int]
Class = tuple[int, float]
"""Class at one queue and the level inside it: as in `policy.share`, and so are its values."""
Key = tuple[int, tuple[Class, ...], Rank]
"""Whether it is a guest, the classes from the top queue down to its own, the rank."""
Start = tuple[float, Rank]

NOT_YET = inf
_COVERED_AND_MORE = 64
"""More levels than any tree has."""


def rank_of(
    name: Name, submitted: float, priority: int = 0, *, is_preemptible: bool = True
) -> Rank:
    """Return the fixed rank of an item in its queue; the least is first."""
    workload, unit = name
    return int(is_preemptible), -priority, int(unit > 0), submitted, workload, unit


def size_of(amounts: Mapping[int, int]) -> Size:
    """Return amounts by pair as a size."""
    return tuple((pair, amounts[pair]) for pair in sorted(amounts) if amounts[pair] > 0)


@dataclass(frozen=True, slots=True)
class Item:
    """The minimum of a workload, or one unit above it."""

    workload: str
    unit: int
    """0: the minimum; else the number of a unit."""
    queue: int
    size: Size
    rank: Rank
    priority: int = 0
    preemptible: bool = True
    started: float = NOT_YET
    """Order of starts; of equal ones, the senior counts as earlier."""
    since: float | None = None
    """Since when all of it has been running; None: not yet."""
    overtaker: bool = False
    """Started before its shadow start, which has not come yet."""
    lender: int = NOBODY
    """The queue on whose lent room it is."""

    @property
    def name(self) -> Name:
        """Return what it is known by."""
        return self.workload, self.unit

    @property
    def is_guest(self) -> bool:
        """Return whether it stands behind everybody who is no guest."""
        return self.overtaker or self.lender != NOBODY


class Measure:
    """Quota, share, weight and norm by queue and pair: what an item is at a queue."""

    def __init__(
        self,
        tree: QueueTree,
        quota: Sequence[Sequence[int]],
        share: Sequence[Sequence[int]],
        norm: Sequence[float],
    ):
        self.quota = [list(row) for row in quota]
        rows = zip(self.quota, share, strict=True)
        self.share = [[max(both) for both in zip(*row, strict=True)] for row in rows]
        """Never less than the quota."""
        self.norm = list(norm)
        self.weight = [
            list(row) if exists else [0.0] * len(row)
            for row, exists in zip(tree.weight, tree.exists, strict=True)
        ]
        self._has_weight = [all(each > 0 for each in row) for row in self.weight]

    def class_of(self, queue: int, size: Size, used: Sequence[int]) -> Class:
        """Return the class of an item where so much is used, in the order of its pairs."""
        quota, share = self.quota[queue], self.share[queue]
        found = COVERED
        for (pair, amount), before in zip(size, used, strict=True):
            if before + amount > quota[pair]:
                if before + amount > share[pair]:
                    return self._beyond(queue, size, used)
                found = IN_SHARE
        return found

    def _beyond(self, queue: int, size: Size, used: Sequence[int]) -> Class:
        level = self.level(queue, size, used)
        if self._has_weight[queue]:
            return level
        share, weight = self.share[queue], self.weight[queue]
        for (pair, amount), before in zip(size, used, strict=True):
            if weight[pair] <= 0 and before + amount > share[pair]:
                return max(level, (LAST, 0.0))
        return level

    def level(self, queue: int, size: Size, used: Sequence[int]) -> Class:
        """Return how far beyond quota a queue is by its weight, in the worst pair of an item."""
        quota, weight = self.quota[queue], self.weight[queue]
        worst: Class = (BEYOND, 0.0)
        for (pair, _amount), before in zip(size, used, strict=True):
            excess = before - quota[pair]
            if excess > 0:
                bare = excess / self.norm[pair] if self.norm[pair] > 0 else inf
                each = (BEYOND, bare / weight[pair]) if weight[pair] > 0 else (LAST, bare)
                worst = max(worst, each)
        return worst

    def is_within(self, bounds: Sequence[int], size: Size, used: Sequence[int]) -> bool:
        """Return whether what is used, with an item in it, is within bounds in its pairs."""
        return all(amount <= bounds[pair] for (pair, _), amount in zip(size, used, strict=True))


# -- one queue ------------------------------------------------------------------------------------


class _Chain:
    """Items of one queue, each senior to the next and started before it, all with the same pairs.

    So they are picked in this order.
    """

    __slots__ = (
        "behind", "checked", "cross", "cross_of", "gate", "guest", "is_listed", "items", "leaf",
        "needs", "number", "pairs", "picked", "ranks", "starts", "upto",
    )  # fmt: skip

    def __init__(self, leaf: _Leaf, pairs: tuple[int, ...], guest: int, gate: _Chain | None):
        self.leaf = leaf
        self.number = leaf.next_number()
        self.pairs = pairs
        self.guest = guest
        self.gate = gate
        """Units only: the chain of the minima that must be picked before."""
        self.behind: list[_Chain] = []
        """The chains of units for which this one is the gate."""
        self.items: list[Item] = []
        self.ranks: list[Rank] = []
        self.starts: list[Start] = []
        self.needs: list[Rank] = []
        """Units only: the ranks of their minima."""
        self.upto: list[list[int]] = [[0] for _ in pairs]
        """Per pair, the sum of the first n items."""
        self.picked: list[int] = []
        """The places in the log of those that are picked."""
        self.checked = -1
        """How long the log was when the key in the heap was found."""
        self.is_listed = False
        """Whether the head is in the heap."""
        self.cross: list[tuple[_Chain, int, int, list[tuple[int, list[int]]]]] = []
        self.cross_of: tuple[int, int] = (-1, -1)

    def append(self, item: Item, need: Rank | None) -> None:
        """Add an item at the end."""
        self.items.append(item)
        self.ranks.append(item.rank)
        self.starts.append((item.started, item.rank))
        if need is not None:
            self.needs.append(need)
        for column, (_pair, amount) in zip(self.upto, item.size, strict=True):
            column.append(column[-1] + amount)

    def drop(self, at: int) -> None:
        """Take an item out that is not picked."""
        for column, (_pair, amount) in zip(self.upto, self.items[at].size, strict=True):
            column[at + 1 :] = [total - amount for total in column[at + 2 :]]
        del self.items[at], self.ranks[at], self.starts[at]
        if self.needs:
            del self.needs[at]

    def is_open(self) -> bool:
        """Return whether the head may be picked: its minimum is."""
        if self.gate is None:
            return True
        at = len(self.gate.picked)
        return at == len(self.gate.items) or self.needs[len(self.picked)] < self.gate.ranks[at]

    def add_up(self, pairs: tuple[int, ...], count: int, sums: list[int]) -> None:
        """Add what the first so many items use of pairs."""
        if count and pairs == self.pairs:
            for at, column in enumerate(self.upto):
                sums[at] += column[count]
        elif count:
            for pair, column in zip(self.pairs, self.upto, strict=True):
                if pair in pairs:
                    sums[pairs.index(pair)] += column[count]

    def columns(self, pairs: tuple[int, ...]) -> list[tuple[int, list[int]]]:
        """Return the sums of pairs that it has in common with others, and which they are."""
        return [
            (pairs.index(pair), column)
            for pair, column in zip(self.pairs, self.upto, strict=True)
            if pair in pairs
        ]


class _Leaf:
    """A queue in which items run."""

    def __init__(self, queue: int, path: tuple[int, ...], width: int):
        self.queue = queue
        self.path = path
        """From the top down to it."""
        self.chains: list[_Chain] = []
        self.groups: dict[tuple[tuple[int, ...], int, int], list[_Chain]] = {}
        self.loose: dict[Name, Item] = {}
        """Items that are in no chain yet; nothing of its part is picked then."""
        self.last: Start | None = None
        """No item that is in a chain started later."""
        self.stamp = 0
        self.part: _Part
        self.used = [0] * width
        """By what is picked; kept only while there are rows."""
        self.rows: list[list[int]] = []
        """What is picked at the queues above that are shared and not of one class."""
        self.plan: list[tuple[Class | None, int, list[int] | None]] = []
        self.constant: tuple[Class, ...] | None = None
        """The classes of all of its items, where they are known beforehand."""
        self._numbers = 0

    def next_number(self) -> int:
        """Return a number for a new chain, unlike any of another queue."""
        self._numbers += 1
        return (self.queue << 24) + self._numbers

    def chain_for(self, item: Item, gate: _Chain | None, need: Rank | None) -> _Chain:
        """Return the chain at whose end an item belongs that comes after all in rank or start.

        Of several it is the one whose last item is nearest.
        """
        pairs = tuple(pair for pair, _ in item.size)
        start = (item.started, item.rank)
        group = (pairs, int(item.is_guest), gate.number if gate else -1)
        chains = self.groups.setdefault(group, [])
        best = None
        for chain in chains:
            if chain.ranks[-1] < item.rank and chain.starts[-1] < start:
                is_in_order = need is None or chain.needs[-1] <= need
                if is_in_order and (best is None or best.starts[-1] < chain.starts[-1]):
                    best = chain
        if best is None:
            best = _Chain(self, pairs, group[1], gate)
            chains.append(best)
            self.chains.append(best)
            if gate is not None:
                gate.behind.append(best)
        return best

    def forget(self, chain: _Chain) -> None:
        """Drop a chain in which nobody is left."""
        self.chains.remove(chain)
        group = (chain.pairs, chain.guest, chain.gate.number if chain.gate else -1)
        self.groups[group].remove(chain)
        if chain.gate is not None:
            chain.gate.behind.remove(chain)

    def reserved(self, head: _Chain, at: int, used: list[int]) -> None:
        """Add to what its own chain uses what counts of the others for an item.

        Of another chain, those before the item in rank and start always count, those behind it in
        both never, and those between as soon as they are picked.
        """
        if head.cross_of != (at, self.stamp):
            head.cross_of = (at, self.stamp)
            head.cross = []
            rank, start = head.ranks[at], head.starts[at]
            for other in self.chains:
                ends = (bisect_left(other.ranks, rank), bisect_left(other.starts, start))
                columns = other.columns(head.pairs)
                if other is not head and columns and ends != (0, 0):
                    head.cross.append((other, min(ends), max(ends), columns))
        for other, low, high, columns in head.cross:
            count = len(other.picked)
            count = low if count < low else min(count, high)
            for column, sums in columns:
                used[column] += sums[count]


# -- queues that have to do with each other -------------------------------------------------------


class _Part:
    """Leaves whose items depend on each other, and how far they are picked."""

    def __init__(self, line: Line, head: int):
        self.line = line
        self.head = head
        self.leaves: list[_Leaf] = []
        self.log: list[_Chain] = []
        """The chain of each pick."""
        self.keys: list[Key] = []
        self.tops: list[Key] = []
        """The largest key so far: whoever comes between two parts goes by it."""
        self.rows: dict[int, list[int]] = {}
        self._heap: list[tuple[Key, int, _Chain]] | None = None
        self._stamp = -1

    # -- changes ----------------------------------------------------------------------------

    def touch(self) -> None:
        """Forget keys of heads: something has changed."""
        self._heap = None

    def cut(self, place: int) -> None:
        """Take back all picks from a place on."""
        self._heap = None
        for chain in reversed(self.log[place:]):
            chain.picked.pop()
            if chain.leaf.rows:
                self._charge(chain.leaf, chain.items[len(chain.picked)].size, -1)
        del self.log[place:], self.keys[place:], self.tops[place:]

    def _charge(self, leaf: _Leaf, size: Size, sign: int) -> None:
        used, rows = leaf.used, leaf.rows
        for pair, amount in size:
            used[pair] += sign * amount
            for row in rows:
                row[pair] += sign * amount

    def settle(self) -> None:
        """Put loose items in chains, and look at the tables again if they have changed."""
        if self._stamp != self.line.stamp:
            self._stamp = self.line.stamp
            self._heap = None
            for leaf in self.leaves:
                if leaf.loose:
                    self.line.build(leaf)
            self._make_rows()
            for leaf in self.leaves:
                self._plan(leaf)

    def _make_rows(self) -> None:
        """Add up what is picked at all queues that are shared and not of one class."""
        self.rows = {}
        width = len(self.line.tree.pairs)
        for leaf in self.leaves:
            leaf.used = [0] * width
            for chain in leaf.chains:
                for pair, column in zip(chain.pairs, chain.upto, strict=True):
                    leaf.used[pair] += column[len(chain.picked)]
            leaf.rows = []
            for queue in leaf.path:
                if self.line.steady[queue] is None and self.line.tree.children[queue]:
                    row = self.rows.setdefault(queue, [0] * width)
                    row[:] = [a + b for a, b in zip(row, leaf.used, strict=True)]
                    leaf.rows.append(row)

    def _plan(self, leaf: _Leaf) -> None:
        steady = self.line.steady
        leaf.plan = [(steady[queue], queue, self.rows.get(queue)) for queue in leaf.path]
        fixed = [steady[queue] for queue in leaf.path]
        known = tuple(each for each in fixed if each is not None)
        leaf.constant = known if len(known) == len(fixed) else None

    # -- picking ----------------------------------------------------------------------------

    def run(self, bound: Key | None = None, chain: _Chain | None = None, count: int = 0) -> None:
        """Pick on until nobody is left.

        With a bound: until whoever is next has a larger key. With a chain: until so many of its
        items are picked.
        """
        self.settle()
        if len(self.log) == self.line.counts[self.head]:
            return
        heap = self._heads()
        while heap and (chain is None or len(chain.picked) < count):
            key, number, head = heap[0]
            if bound is not None and key > bound:
                return
            if head.checked != len(self.log):
                head.checked = len(self.log)
                found = self._key(head)
                if found != key:
                    heapreplace(heap, (found, number, head))
                    continue
            self._pick(heap, key, head)

    def _heads(self) -> list[tuple[Key, int, _Chain]]:
        """Return the heap of those that may be next."""
        if self._heap is None:
            self._heap = []
            for leaf in self.leaves:
                for chain in leaf.chains:
                    chain.is_listed = len(chain.picked) < len(chain.items) and chain.is_open()
                    if chain.is_listed:
                        chain.checked = len(self.log)
                        self._heap.append((self._key(chain), chain.number, chain))
            heapify(self._heap)
        return self._heap

    def _pick(self, heap: list[tuple[Key, int, _Chain]], key: Key, head: _Chain) -> None:
        at = len(head.picked)
        head.picked.append(len(self.log))
        if head.leaf.rows:
            self._charge(head.leaf, head.items[at].size, 1)
        tops = self.tops
        tops.append(key if not tops or key > tops[-1] else tops[-1])
        self.log.append(head)
        self.keys.append(key)
        at += 1
        if at < len(head.items) and (head.gate is None or head.is_open()):
            # It has all that the one before it has, and that one: its classes are no smaller.
            head.checked = -1
            heapreplace(heap, ((head.guest, key[1], head.ranks[at]), head.number, head))
        else:
            head.is_listed = False
            heappop(heap)
        for units in head.behind:
            if not units.is_listed and len(units.picked) < len(units.items) and units.is_open():
                units.is_listed = True
                units.checked = len(self.log)
                heappush(heap, (self._key(units), units.number, units))

    def _key(self, head: _Chain) -> Key:
        """Return the key of the first of a chain that is not picked."""
        leaf, at = head.leaf, len(head.picked)
        if leaf.constant is not None:
            return head.guest, leaf.constant, head.ranks[at]
        used = [column[at] for column in head.upto]
        if len(leaf.chains) > 1:
            leaf.reserved(head, at, used)
        size, measure = head.items[at].size, self.line.measure
        classes = []
        for fixed, queue, row in leaf.plan:
            if fixed is not None:
                classes.append(fixed)
            elif row is None:
                classes.append(measure.class_of(queue, size, used))
            else:
                own, sums = leaf.used, zip(head.pairs, used, strict=True)
                there = [amount + row[pair] - own[pair] for pair, amount in sums]
                classes.append(measure.class_of(queue, size, there))
        return head.guest, tuple(classes), head.ranks[at]

    def before(self, bound: Key | None) -> int:
        """Return how many are picked before a key; none before None."""
        return 0 if bound is None else bisect_left(self.tops, bound)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one that does not run would stand, as long as nothing changes."""

    key: Key
    part: _Part
    at: int
    """Before it in its own part."""
    bound: Key
    """It is behind those of other parts that are picked before this key."""


# -- the whole line -------------------------------------------------------------------------------


class Line:
    """All running items, and where they stand.

    Quota and share are effective: at least the sum of those of the queues below.
    """

    def __init__(
        self,
        tree: QueueTree,
        quota: Sequence[Sequence[int]],
        share: Sequence[Sequence[int]],
        norm: Sequence[float],
        items: Iterable[Item] = (),
    ):
        self.tree = tree
        self.measure = Measure(tree, quota, share, norm)
        self.usage = [[0] * len(tree.pairs) for _ in tree.names]
        """By all items, with those of the queues below."""
        self.counts = [0] * tree.count
        """How many items there are at and below a queue."""
        self.steady: list[Class | None] = [COVERED] * tree.count
        """The class at a queue if all items at and below it have the same."""
        self.stamp = 0
        self._leaves: dict[int, _Leaf] = {}
        self._parts: dict[int, _Part] = {}
        self._tied = [False] * tree.count
        """Whether the queues below are in one part."""
        self._of: dict[Name, tuple[Item, _Chain | None]] = {}
        self._units: dict[str, dict[int, None]] = {}
        for item in items:
            self._take(item)
        self._look_again()

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, name: Name) -> bool:
        return name in self._of

    def __getitem__(self, name: Name) -> Item:
        return self._of[name][0]

    def items(self) -> Iterator[Item]:
        """Yield all items, in no special order."""
        for item, _chain in self._of.values():
            yield item

    def units(self, workload: str) -> list[Item]:
        """Return the running units of a workload above its minimum."""
        return [self._of[workload, unit][0] for unit in self._units.get(workload, ())]

    # -- changes ----------------------------------------------------------------------------

    def add(self, item: Item) -> None:
        """Take in an item that starts now, later than all others of its queue.

        Others may come too, but cost more.
        """
        if item.name in self._of:
            raise ValueError(f"{item.name} is in the line already")
        leaf = self._leaf(item.queue)
        is_odd = item.unit == 0 and item.workload in self._units
        if (
            is_odd
            or leaf.loose
            or (leaf.last is not None and (item.started, item.rank) < leaf.last)
        ):
            self._loosen(leaf)
            self._take(item)
            self._check(item, leaf)
            return
        self._of[item.name] = item, None
        self._charge(item, 1)
        self._check(item, leaf)
        part = leaf.part
        if part.log:
            part.settle()
            place = self._turn(item, part, 0)
            if place is not None and place.at < len(part.log):
                part.cut(place.at)
        self._attach(leaf, item)
        part.touch()

    def remove(self, name: Name) -> Item:
        """Take an item out and return it."""
        item, chain = self._of[name]
        leaf = self._leaves[item.queue]
        if chain is not None and item.unit == 0 and item.workload in self._units:
            self._loosen(leaf)
            self.stamp += 1
            item, chain = self._of[name]
        if chain is None:
            del leaf.loose[name]
        else:
            at = bisect_left(chain.ranks, item.rank)
            leaf.part.cut(self._touched(chain, at))
            chain.drop(at)
            leaf.stamp += 1
            if not chain.items:
                leaf.forget(chain)
        self._charge(item, -1)
        del self._of[name]
        for queue in leaf.path:
            self._relax(queue)
        return item

    def exchange(self, item: Item, victims: Iterable[Item]) -> None:
        """Let victims leave and an item start."""
        for victim in sorted(victims, key=lambda each: each.unit, reverse=True):
            self.remove(victim.name)
        self.add(item)

    def retable(
        self,
        quota: Sequence[Sequence[int]],
        share: Sequence[Sequence[int]],
        norm: Sequence[float],
    ) -> None:
        """Go by other quotas and shares. Where only shares change, covered items stay in place."""
        old, new = self.measure, Measure(self.tree, quota, share, norm)
        self.measure = new
        for leaf in self._leaves.values():
            part = leaf.part
            if not part.log:
                continue
            if old.norm != new.norm or any(old.quota[q] != new.quota[q] for q in leaf.path):
                part.cut(0)
            elif any(old.share[q] != new.share[q] for q in leaf.path):
                covered = (COVERED,) * _COVERED_AND_MORE
                part.cut(min(len(part.log), part.before((0, covered, part.keys[0][2]))))
        self._look_again()

    def _take(self, item: Item) -> None:
        """Take an item in without a place in a chain."""
        self._leaf(item.queue).loose[item.name] = item
        self._of[item.name] = item, None
        self._charge(item, 1)
        self.stamp += 1

    def _charge(self, item: Item, sign: int) -> None:
        for queue in self.tree.path[item.queue]:
            self.counts[queue] += sign
            row = self.usage[queue]
            for pair, amount in item.size:
                row[pair] += sign * amount
        if item.unit and sign > 0:
            self._units.setdefault(item.workload, {})[item.unit] = None
        elif item.unit:
            del self._units[item.workload][item.unit]
            if not self._units[item.workload]:
                del self._units[item.workload]

    def _leaf(self, queue: int) -> _Leaf:
        leaf = self._leaves.get(queue)
        if leaf is None:
            path = self.tree.path[queue][::-1]
            leaf = self._leaves[queue] = _Leaf(queue, path, len(self.tree.pairs))
            self._join(leaf)
            self.stamp += 1
        return leaf

    def _loosen(self, leaf: _Leaf) -> None:
        """Take all items of a leaf out of their chains."""
        leaf.part.cut(0)
        for chain in leaf.chains:
            for item in chain.items:
                leaf.loose[item.name] = item
                self._of[item.name] = item, None
        leaf.chains, leaf.groups, leaf.last = [], {}, None

    def build(self, leaf: _Leaf) -> None:
        """Put the loose items of a leaf in chains; nothing of it is picked yet."""
        self._loosen(leaf)
        items = sorted(leaf.loose.values(), key=lambda item: (item.unit > 0, item.rank))
        leaf.loose = {}
        for item in items:
            self._attach(leaf, item)

    def _attach(self, leaf: _Leaf, item: Item) -> None:
        gate, need = None, None
        if item.unit:
            minimum, chain = self._of.get((item.workload, 0), (None, None))
            if minimum is not None and chain is not None and minimum.queue == item.queue:
                gate, need = chain, minimum.rank
        chain = leaf.chain_for(item, gate, need)
        chain.append(item, need)
        self._of[item.name] = item, chain
        leaf.stamp += 1
        start = (item.started, item.rank)
        leaf.last = start if leaf.last is None else max(leaf.last, start)

    def _touched(self, chain: _Chain, at: int) -> int:
        """Return the first place in the log that may change when an item leaves its chain.

        Before its own place it only mattered to juniors that started later. Those of its chain
        had to wait for it; the next of them, if it is smaller, could now be picked earlier.
        """
        leaf = chain.leaf
        first = chain.picked[at] if at < len(chain.picked) else len(leaf.part.log)
        if at + 1 < len(chain.items) and at <= len(chain.picked):
            sizes = zip(chain.items[at].size, chain.items[at + 1].size, strict=True)
            if any(next_one < amount for (_, amount), (_, next_one) in sizes):
                first = chain.picked[at - 1] + 1 if at else 0
        rank, start = chain.ranks[at], chain.starts[at]
        for other in leaf.chains:
            if other is chain or not first or not other.columns(chain.pairs):
                continue
            behind = max(bisect_left(other.ranks, rank), bisect_left(other.starts, start))
            if behind < len(other.items) and behind <= len(other.picked):
                first = min(first, other.picked[behind - 1] + 1 if behind else 0)
        return first

    # -- what is tied to what ---------------------------------------------------------------

    def _check(self, item: Item, leaf: _Leaf) -> None:
        """See whether an item that has come makes classes differ at its queues."""
        is_new = False
        for queue in leaf.path:
            before = self.steady[queue]
            if before is None:
                continue
            after = self._with(queue, item, before)
            if after != before:
                self.steady[queue] = after
                self.stamp += 1
                is_new |= after is None and not self._tied[queue]
                self._tied[queue] |= after is None
        if is_new:
            self._regroup()

    def _with(self, queue: int, item: Item, before: Class) -> Class | None:
        """Return the class of all at a queue now that an item has come; None: they differ."""
        used = [self.usage[queue][pair] for pair, _ in item.size]
        measure = self.measure
        if before == COVERED and measure.is_within(measure.quota[queue], item.size, used):
            return COVERED
        if before == IN_SHARE or self.counts[queue] == 1:
            return IN_SHARE if self._is_in_share(queue, item.size, used) else None
        return None

    def _is_in_share(self, queue: int, size: Size, total: Sequence[int]) -> bool:
        """Return whether an item is in share, whoever is picked before it."""
        quota = self.measure.quota[queue]
        is_uncovered = any(amount > quota[pair] for pair, amount in size)
        return is_uncovered and self.measure.is_within(self.measure.share[queue], size, total)

    def _relax(self, queue: int) -> None:
        """See whether all at a queue are covered now that an item has left."""
        if self.steady[queue] == COVERED:
            return
        bounds = self.measure.quota[queue]
        if all(used <= most for used, most in zip(self.usage[queue], bounds, strict=True)):
            self.steady[queue] = COVERED
            self.stamp += 1

    def _look_again(self) -> None:
        """Find from nothing at which queues all items have the same class."""
        sizes: dict[int, dict[Size, None]] = {queue: {} for queue in range(self.tree.count)}
        for item, _chain in self._of.values():
            sizes[item.queue][item.size] = None
        for queue in self.tree.above():
            parent = self.tree.parent[queue]
            if parent != NOBODY:
                sizes[parent].update(sizes[queue])
        for queue, used in enumerate(self.usage):
            self.steady[queue] = self._common(queue, used, sizes[queue])
            self._tied[queue] = self.steady[queue] is None
        self.stamp += 1
        self._regroup()

    def _common(self, queue: int, used: Sequence[int], sizes: Iterable[Size]) -> Class | None:
        quota, share = self.measure.quota[queue], self.measure.share[queue]
        if all(amount <= most for amount, most in zip(used, quota, strict=True)):
            return COVERED
        if any(amount > most for amount, most in zip(used, share, strict=True)):
            return None
        if all(any(amount > quota[pair] for pair, amount in size) for size in sizes):
            return IN_SHARE
        return None

    def _head_of(self, leaf: _Leaf) -> int:
        return next((queue for queue in leaf.path if self._tied[queue]), leaf.queue)

    def _regroup(self) -> None:
        """Put the leaves in parts; a part that stays as it was keeps its log."""
        groups: dict[int, list[_Leaf]] = {}
        for leaf in self._leaves.values():
            groups.setdefault(self._head_of(leaf), []).append(leaf)
        parts = {}
        for head, leaves in groups.items():
            part = self._parts.get(head)
            if part is None or part.leaves != leaves:
                for leaf in leaves:
                    leaf.part.cut(0)
                part = _Part(self, head)
                part.leaves = leaves
            parts[head] = part
        for part in parts.values():
            for leaf in part.leaves:
                leaf.part = part
        self._parts = parts

    def _join(self, leaf: _Leaf) -> None:
        """Give a new leaf its part."""
        head = self._head_of(leaf)
        part = self._parts.get(head)
        if part is None:
            part = self._parts[head] = _Part(self, head)
        part.leaves.append(leaf)
        leaf.part = part

    # -- questions --------------------------------------------------------------------------

    def key(self, name: Name) -> Key:
        """Return the standing of a running item: its key when its turn comes."""
        part, at = self._pick(name)
        return part.keys[at]

    def _pick(self, name: Name) -> tuple[_Part, int]:
        """Return where in the log of which part an item is picked."""
        item, chain = self._of[name]
        part = self._leaves[item.queue].part
        if chain is None:
            part.settle()
            chain = self._of[name][1]
            assert chain is not None
        at = bisect_left(chain.ranks, item.rank)
        if at >= len(chain.picked):
            part.run(chain=chain, count=at + 1)
        return part, chain.picked[at]

    def risk(self, name: Name) -> str:
        """Return what a running item has to fear: `covered`, `in share` or `beyond`.

        Nobody of another queue takes what is covered.
        """
        classes = self.key(name)[1]
        if classes[-1] == COVERED:
            return "covered"
        return "in share" if max(classes) < (BEYOND, 0.0) else "beyond"

    def order(self) -> list[tuple[Item, Key]]:
        """Return all items as they stand, with their keys."""
        found: list[tuple[Key, int, int, Item, Key]] = []
        for number, part in enumerate(self._parts.values()):
            part.run()
            seen: dict[int, int] = {}
            for place, chain in enumerate(part.log):
                at = seen.get(chain.number, 0)
                seen[chain.number] = at + 1
                key, top = part.keys[place], part.tops[place]
                found.append((top, number, place, chain.items[at], key))
        found.sort(key=lambda each: each[:3])
        return [(item, key) for *_, item, key in found]

    def place(self, item: Item) -> Place:
        """Return where an item that does not run would stand, if it started last of all."""
        part = self._leaf(item.queue).part
        part.settle()
        found = self._turn(item, part, 1)
        assert found is not None
        return found

    def _turn(self, item: Item, part: _Part, sign: int) -> Place | None:
        """Return when the turn of a newcomer comes.

        With sign 1 it is not charged yet, and everybody is picked that comes before it. With
        sign 0 it is charged, and only what is picked already counts: None if its turn is later
        than that because its minimum is not picked.
        """
        at, bound = 0, None
        if item.unit and (item.workload, 0) in self._of:
            minimum, chain = self._of[item.workload, 0]
            place = None if chain is None else bisect_left(chain.ranks, minimum.rank)
            if not sign and (chain is None or place is None or place >= len(chain.picked)):
                return None
            own, at = self._pick(minimum.name)
            bound = own.tops[at]
            at = at + 1 if own is part else 0
        key = self._key_at(item, (part, at, bound), sign)
        while True:
            if sign:
                part.run(key)
            if bound is None or key > bound:
                bound, at = key, part.before(key)
            else:
                while at < len(part.log) and part.keys[at] < key:
                    at += 1
            found = self._key_at(item, (part, at, bound), sign)
            if found == key:
                return Place(key, part, at, bound)
            key = found

    def _key_at(self, item: Item, state: tuple[_Part, int, Key | None], sign: int) -> Key:
        """Return the key of a newcomer when its own part and the others are picked so far."""
        leaf, measure = self._leaves[item.queue], self.measure
        _part, at, _bound = state
        pairs = tuple(pair for pair, _ in item.size)
        own = [0] * len(pairs)
        for chain in leaf.chains:
            seniors = bisect_left(chain.ranks, item.rank)
            chain.add_up(pairs, max(seniors, bisect_left(chain.picked, at)), own)
        classes = []
        for queue in leaf.path:
            total = [self.usage[queue][pair] + sign * amount for pair, amount in item.size]
            if measure.is_within(measure.quota[queue], item.size, total):
                classes.append(COVERED)
                continue
            if self._is_in_share(queue, item.size, total):
                classes.append(IN_SHARE)
                continue
            used = own
            if self.tree.children[queue]:
                used = list(own)
                self._add_others(queue, leaf, state, pairs, used)
            classes.append(measure.class_of(queue, item.size, used))
        return int(item.is_guest), tuple(classes), item.rank

    def _add_others(
        self,
        queue: int,
        leaf: _Leaf,
        state: tuple[_Part, int, Key | None],
        pairs: tuple[int, ...],
        used: list[int],
    ) -> None:
        """Add what is picked of the other leaves at and below a queue."""
        part, at, bound = state
        row = part.rows.get(queue)
        if row is not None and at == len(part.log):
            for column, pair in enumerate(pairs):
                used[column] += row[pair] - leaf.used[pair]
            return
        for other in self._leaves.values():
            if other is leaf or queue not in other.path:
                continue
            place = at
            if other.part is not part:
                if bound is not None:
                    other.part.run(bound)
                place = other.part.before(bound)
            for chain in other.chains:
                chain.add_up(pairs, bisect_left(chain.picked, place), used)

    def stands_before(self, place: Place, name: Name) -> bool:
        """Return whether one with such a place would stand before a running item."""
        item, chain = self._of[name]
        part = self._leaves[item.queue].part
        if chain is None:
            part.settle()
            chain = self._of[name][1]
            assert chain is not None
        if part is not place.part:
            part.run(place.bound)
        at = bisect_left(chain.ranks, item.rank)
        if at >= len(chain.picked):
            return True
        if part is place.part:
            return chain.picked[at] >= place.at
        return part.tops[chain.picked[at]] > place.bound

    def before_all(self, item: Item, victims: Iterable[Item]) -> bool:
        """Return whether a newcomer would stand before all of these."""
        place = self.place(item)
        return all(self.stands_before(place, victim.name) for victim in victims)

    def behind(self, place: Place) -> Iterator[tuple[Item, Key]]:
        """Yield all before whom a place is, with their keys, every part from the back."""
        for part in self._parts.values():
            part.run()
            first = place.at if part is place.part else part.before(place.bound)
            left: dict[int, int] = {}
            for at in range(len(part.log) - 1, first - 1, -1):
                chain = part.log[at]
                index = left.get(chain.number, len(chain.items)) - 1
                left[chain.number] = index
                yield chain.items[index], part.keys[at]


_END: Key = (2, (), (0, 0, 0, 0.0, "", 0))
"""Behind every key, so that the longer of two words is the better one."""

Word = tuple[Key, ...]


def word(line: Line) -> Word:
    """Return the keys of a line in order; the smaller of two words is the better one."""
    return (*(key for _item, key in line.order()), _END)


def psi(line: Line, unspent: int, fragmentation: float = 0.0) -> tuple[int, Word, float]:
    """Return the measure that every eviction and every move makes smaller.

    `unspent` counts bold starts and evictions by quantum that are still to be had.
    """
    return unspent, word(line), fragmentation
