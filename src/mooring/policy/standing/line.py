"""Everybody who runs in one line: who would be served again first if all began from nothing.

An *item* is the minimum of a gang, or one elastic unit above it. Items are picked one by one; next
is always the one with the least key: guests last, then its class at every queue from the top down
to its own (covered by quota, in share, beyond by a level), then its rank. A class counts what is
used when the item's turn comes; of its own queue also seniors that started before it and are not
picked yet, but not juniors that started after it. So a start is harmless to running seniors.

How it is fast and still exact: the items of a queue fall into few chains (`chains`). A queue at
which all items have one and the same class ties nobody to anybody, so that queues fall into parts
(`parts`) that have nothing to do with each other. A part is picked only as far as somebody asks,
and a start or an end takes back only the picks that it can touch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING

from mooring.policy.queues.share import BEYOND, COVERED, IN_SHARE
from mooring.policy.standing.chains import Leaf
from mooring.policy.standing.item import (
    NOT_YET,
    Class,
    Item,
    Key,
    Measure,
    Name,
    Rank,
    Size,
    rank_of,
    size_of,
)
from mooring.policy.standing.parts import Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mooring.policy.queues.tree import QueueTree
    from mooring.policy.standing.chains import Chain

__all__ = [
    "NOT_YET", "Class", "Item", "Key", "Line", "Measure", "Name", "Place", "Rank", "Size", "Word",
    "psi", "rank_of", "size_of", "word",
]  # fmt: skip

AMONG_COVERED = -1
MANY = 64
"""If more than so many leave a queue, and fewer stay, its chains are made anew."""
State = tuple[Part, int, "Key | None"]
"""A part, how much of its log is picked, and up to which key the other parts are."""
Test = Callable[[tuple[Class, ...]], bool]
"""Whether classes from the top queue down are bad enough."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one that does not run would stand, as long as nothing changes."""

    key: Key
    part: Part
    at: int
    """How many of the log of its part are before it; `AMONG_COVERED`: none, and not all covered."""
    bound: Key
    """It is behind those of other parts that are picked before this key."""


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
        self.steady: list[Class | None] = [COVERED] * tree.count
        """The class at a queue if all items at and below it have the same."""
        self.is_mixed = False
        """Whether items stand in a queue that has queues below: then nobody is known as covered."""
        self.stamp = 0
        """Counts changes that parts have to look at."""
        self._counts = [0] * tree.count
        self._leaves: dict[int, Leaf] = {}
        self._parts: dict[int, Part] = {}
        self._tied = [False] * tree.count
        """Whether the queues below are in one part."""
        self._of: dict[Name, tuple[Item, Chain | None]] = {}
        self._units: dict[str, dict[int, None]] = {}
        self._take_all(items)
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

    def of(self, workload: str) -> list[Item]:
        """Return what runs of a workload: its minimum and its units."""
        found = self._of.get((workload, 0))
        return [*([] if found is None else [found[0]]), *self.units(workload)]

    # -- changes ----------------------------------------------------------------------------

    def add(self, item: Item) -> None:
        """Take an item in; it costs least if it started later than all others of its queue."""
        if item.name in self._of:
            raise ValueError(f"{item.name} is in the line already")
        leaf = self._leaf(item.queue)
        if item.unit == 0 and item.workload in self._units:
            self._loosen(leaf)
        if leaf.loose:
            self._take(item)
            self._check(item, leaf)
            return
        self._of[item.name] = item, None
        self._charge(item, 1)
        self._check(item, leaf)
        is_last = leaf.last is None or leaf.last < (item.started, item.rank)
        if not is_last or not leaf.is_fresh:
            leaf.part.spoil(leaf)
            self._attach(leaf, item)
        else:
            self._append(leaf, item)

    def _append(self, leaf: Leaf, item: Item) -> None:
        """Take in one that started last of all: nobody is touched before its turn."""
        part = leaf.part
        part.settle()
        if self._is_covered(item, leaf):
            chain = self._attach(leaf, item)
            others = [c for c in leaf.chains if c is not chain and c.columns(chain.pairs)]
            seniors = [bisect_left(c.ranks, item.rank) for c in others]
            is_end = chain.covered == len(chain.items) - 1
            if not is_end or any(c.covered > n for c, n in zip(others, seniors, strict=True)):
                part.spoil(leaf)
                return
            if leaf.rows or any(n < len(c.items) for c, n in zip(others, seniors, strict=True)):
                part.cut(0)
                part.charge(leaf, item.size, 1)
            chain.covered += 1
            leaf.tick += 1
        else:
            place = self._turn(item, part, 0) if part.log else None
            if place is not None and place.at < len(part.log):
                part.cut(place.at)
            self._attach(leaf, item)
        part.touch()

    def remove(self, name: Name) -> Item:
        """Take an item out and return it; a minimum best after its units."""
        item, chain = self._of[name]
        leaf = self._leaves[item.queue]
        if chain is not None and item.unit == 0 and item.workload in self._units:
            self._loosen(leaf)
            chain = None
        if chain is None:
            del leaf.loose[name]
        else:
            self._drop(leaf, chain, bisect_left(chain.ranks, item.rank))
        self._charge(item, -1)
        del self._of[name]
        for queue in leaf.path:
            self._relax(queue)
        return item

    def remove_all(self, names: Sequence[Name]) -> None:
        """Take items out, each minimum after its units; most of a queue at once, if they are."""
        leaving: dict[int, list[Name]] = {}
        for name in names:
            leaving.setdefault(self._of[name][0].queue, []).append(name)
        for queue, some in leaving.items():
            leaf = self._leaves[queue]
            staying = sum([len(chain.items) for chain in leaf.chains]) - len(some)
            if len(some) > MANY and len(some) > staying:
                self._loosen(leaf)
                self._remove_loose(leaf, some)
                continue
            for name in some:
                self.remove(name)

    def _remove_loose(self, leaf: Leaf, names: Sequence[Name]) -> None:
        """Take items out of a leaf that are in no chain."""
        sizes: Counter[Size] = Counter()
        for name in names:
            item, _ = self._of.pop(name)
            del leaf.loose[name]
            if item.unit:
                self._forget_unit(item)
            sizes[item.size] += 1
        for size, number in sizes.items():
            self._charge_size(leaf, size, -number)
        for queue in leaf.path:
            self._relax(queue)

    def _drop(self, leaf: Leaf, chain: Chain, at: int) -> None:
        """Take an item out of its chain."""
        part = leaf.part
        if not leaf.is_fresh or at < chain.covered:
            part.spoil(leaf)
            chain.covered = 0
        else:
            part.cut(self._touched(chain, at))
        chain.drop(at)
        leaf.change()
        if not chain.items:
            leaf.forget(chain)
        if leaf.is_fresh and not leaf.is_covered_as_before(self.measure):
            part.spoil(leaf)

    def put(self, item: Item) -> None:
        """Take an item in, in place of what it was before.

        Where only its times or the like have changed, nothing moves.
        """
        before, chain = self._of.get(item.name, (None, None))
        if before is None:
            self.add(item)
            return
        if before == item:
            return
        is_alike = (before.queue, before.size, before.rank) == (item.queue, item.size, item.rank)
        if not is_alike or (before.started, before.is_guest) != (item.started, item.is_guest):
            units = self.units(item.workload) if item.unit == 0 else []
            for unit in units:
                self.remove(unit.name)
            self.remove(item.name)
            for each in (item, *units):
                self.add(each)
            return
        self._of[item.name] = item, chain
        if chain is None:
            self._leaves[item.queue].loose[item.name] = item
        else:
            chain.items[bisect_left(chain.ranks, item.rank)] = item

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
            if old.quota[leaf.queue] != new.quota[leaf.queue]:
                leaf.part.spoil(leaf)
            for queue in leaf.path:
                was = (old.quota[queue], old.share[queue], old.weight[queue], old.norm)
                if was != (new.quota[queue], new.share[queue], new.weight[queue], new.norm):
                    leaf.part.cut(0)
        self._look_again()

    def _take(self, item: Item) -> None:
        """Take an item in without a place in a chain."""
        self._leaf(item.queue).loose[item.name] = item
        self._of[item.name] = item, None
        self._charge(item, 1)
        self.stamp += 1

    def _take_all(self, items: Iterable[Item]) -> None:
        """Take many items in at once."""
        by_queue: dict[int, list[Item]] = {}
        for item in items:
            queue = item.queue
            if queue in by_queue:
                by_queue[queue].append(item)
            else:
                by_queue[queue] = [item]
            if item.unit:
                self._units.setdefault(item.workload, {})[item.unit] = None
        for queue, some in by_queue.items():
            leaf = self._leaf(queue)
            names = [(item.workload, item.unit) for item in some]
            leaf.loose.update(zip(names, some, strict=True))
            self._of.update(zip(names, zip(some, repeat(None)), strict=True))
            leaf.sizes.update(Counter([item.size for item in some]))
            many = [(p, n * amount) for size, n in leaf.sizes.items() for p, amount in size]
            for above in leaf.path:
                self._counts[above] += len(leaf.loose)
                for pair, amount in many:
                    self.usage[above][pair] += amount

    def _charge(self, item: Item, sign: int) -> None:
        self._charge_size(self._leaves[item.queue], item.size, sign)
        if item.unit and sign > 0:
            self._units.setdefault(item.workload, {})[item.unit] = None
        elif item.unit:
            self._forget_unit(item)

    def _charge_size(self, leaf: Leaf, size: Size, number: int) -> None:
        """Note that so many of a size have come to a leaf, or (negative) left it."""
        leaf.sizes[size] = leaf.sizes.get(size, 0) + number
        if not leaf.sizes[size]:
            del leaf.sizes[size]
        for queue in leaf.path:
            self._counts[queue] += number
            row = self.usage[queue]
            for pair, amount in size:
                row[pair] += number * amount

    def _forget_unit(self, item: Item) -> None:
        del self._units[item.workload][item.unit]
        if not self._units[item.workload]:
            del self._units[item.workload]

    def _leaf(self, queue: int) -> Leaf:
        leaf = self._leaves.get(queue)
        if leaf is None:
            path = self.tree.path[queue][::-1]
            leaf = self._leaves[queue] = Leaf(queue, path, len(self.tree.pairs))
            self._join(leaf)
            self.stamp += 1
            if self.tree.children[queue] and not self.is_mixed:
                self.is_mixed = True
                for other in self._leaves.values():
                    other.part.spoil(other)
        return leaf

    def _loosen(self, leaf: Leaf) -> None:
        """Take all items of a leaf out of their chains."""
        leaf.part.spoil(leaf)
        for chain in leaf.chains:
            for item in chain.items:
                leaf.loose[item.name] = item
                self._of[item.name] = item, None
        leaf.chains, leaf.groups, leaf.last = [], {}, None
        leaf.change()
        self.stamp += 1

    def build(self, leaf: Leaf) -> None:
        """Put the loose items of a leaf in chains."""
        items = sorted(leaf.loose.values(), key=attrgetter("rank"))
        leaf.loose = {}
        minima = [item for item in items if not item.unit]
        gates = {}
        for item, chain in zip(minima, leaf.build(minima, {}), strict=True):
            self._of[item.workload, 0] = item, chain
            if item.workload in self._units:
                gates[item.workload] = chain, item.rank
        units = [item for item in items if item.unit]
        for item, chain in zip(units, leaf.build(units, gates), strict=True):
            self._of[item.name] = item, chain

    def _attach(self, leaf: Leaf, item: Item) -> Chain:
        """Put an item in the chain where it belongs."""
        gate, need = None, None
        if item.unit:
            minimum, chain = self._of.get((item.workload, 0), (None, None))
            if minimum is not None and chain is not None and minimum.queue == item.queue:
                gate, need = chain, minimum.rank
        chain = leaf.insert(item, gate, need)
        self._of[item.name] = item, chain
        return chain

    def _touched(self, chain: Chain, at: int) -> int:
        """Return the first place in the log that may change when an item leaves its chain.

        Before its own place it only mattered to juniors that started later. Those of its chain
        had to wait for it; the next of them, if it is smaller, could now be picked earlier.
        """
        leaf = chain.leaf
        first = chain.place(at)
        if first is None:
            first = len(leaf.part.log)
        if at + 1 < len(chain.items) and at <= chain.head:
            sizes = zip(chain.items[at].size, chain.items[at + 1].size, strict=True)
            if any(next_one < amount for (_, amount), (_, next_one) in sizes):
                first = chain.exposed(at)
        rank, started = chain.ranks[at], chain.starts[at]
        for other in leaf.chains:
            if other is chain or not first or not other.columns(chain.pairs):
                continue
            behind = max(*other.ends(rank, started), other.covered)
            if behind < len(other.items) and behind <= other.head:
                first = min(first, other.exposed(behind))
        return first

    # -- what is tied to what ---------------------------------------------------------------

    def _check(self, item: Item, leaf: Leaf) -> None:
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
        if before == IN_SHARE or self._counts[queue] == 1:
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
        sizes: dict[int, dict[Size, int]] = {queue: {} for queue in range(self.tree.count)}
        for leaf in self._leaves.values():
            for queue in leaf.path:
                sizes[queue].update(leaf.sizes)
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

    def _head_of(self, leaf: Leaf) -> int:
        return next((queue for queue in leaf.path if self._tied[queue]), leaf.queue)

    def _regroup(self) -> None:
        """Put the leaves in parts; a part that stays as it was keeps its log."""
        groups: dict[int, list[Leaf]] = {}
        for leaf in self._leaves.values():
            groups.setdefault(self._head_of(leaf), []).append(leaf)
        parts = {}
        for head, leaves in groups.items():
            part = self._parts.get(head)
            if part is None or part.leaves != leaves:
                for leaf in leaves:
                    leaf.part.cut(0)
                part = Part(self, head)
                part.leaves = leaves
            parts[head] = part
        for part in parts.values():
            for leaf in part.leaves:
                leaf.part = part
        self._parts = parts

    def _join(self, leaf: Leaf) -> None:
        """Give a new leaf its part."""
        head = self._head_of(leaf)
        part = self._parts.get(head)
        if part is None:
            part = self._parts[head] = Part(self, head)
        part.leaves.append(leaf)
        leaf.part = part

    # -- who stands where -------------------------------------------------------------------

    def _find(self, name: Name) -> tuple[Part, Chain, int]:
        """Return the chain of an item, settled, and its number there."""
        item, chain = self._of[name]
        part = self._leaves[item.queue].part
        part.settle()
        if chain is None:
            chain = self._of[name][1]
            assert chain is not None
        return part, chain, bisect_left(chain.ranks, item.rank)

    def key(self, name: Name) -> Key:
        """Return the standing of a running item: its key when its turn comes."""
        part, chain, at = self._find(name)
        if at < chain.covered:
            return 0, chain.leaf.all_covered, chain.ranks[at]
        if at >= chain.head:
            part.run(chain=chain, count=at + 1)
        return part.keys[chain.picked[at - chain.covered]]

    def floor(self, name: Name) -> Key:
        """Return a key that the standing of a running item is not less than, without more picks."""
        part, chain, at = self._find(name)
        if at < chain.head:
            return self.key(name)
        return chain.guest, part.floor(chain), chain.ranks[at]

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
            for chain in part.chains():
                for at in range(chain.covered):
                    key = (0, chain.leaf.all_covered, chain.ranks[at])
                    found.append((key, number, 0, chain.items[at], key))
                for at, place in enumerate(chain.picked, chain.covered):
                    key, top = part.keys[place], part.tops[place]
                    found.append((top, number, place, chain.items[at], key))
        found.sort(key=lambda each: each[:3])
        return [(item, key) for *_, item, key in found]

    # -- who would stand where --------------------------------------------------------------

    def place(self, item: Item) -> Place:
        """Return where an item that does not run would stand, if it started last of all."""
        leaf = self._leaf(item.queue)
        leaf.part.settle()
        if self._is_covered(item, leaf):
            key = (0, leaf.all_covered, item.rank)
            return Place(key, leaf.part, AMONG_COVERED, key)
        found = self._turn(item, leaf.part, 1)
        assert found is not None
        return found

    def _is_covered(self, item: Item, leaf: Leaf) -> bool:
        """Return whether a newcomer is covered by all quotas: of its queue all seniors count."""
        if item.is_guest or self.is_mixed:
            return False
        if item.unit and (item.workload, 0) in self._of:
            _part, chain, at = self._find((item.workload, 0))
            if at >= chain.covered:
                return False
        used = leaf.newcomer_uses(item, None)
        return self.measure.class_of(leaf.queue, item.size, used) == COVERED

    def _turn(self, item: Item, part: Part, sign: int) -> Place | None:
        """Return when the turn of a newcomer comes that is not covered.

        With sign 1 it is not charged yet, and everybody is picked that comes before it. With
        sign 0 it is charged, and only what is picked already counts: None if its turn is later
        than that because its minimum is not picked.
        """
        at, bound = 0, None
        if item.unit and (item.workload, 0) in self._of:
            own, chain, number = self._find((item.workload, 0))
            if not sign and number >= chain.head:
                return None
            self.key((item.workload, 0))
            place = chain.place(number)
            if place is not None:
                bound, at = own.tops[place], place + 1 if own is part else 0
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

    def _key_at(self, item: Item, state: State, sign: int) -> Key:
        """Return the key of a newcomer when its own part and the others are picked so far."""
        leaf, measure, size = self._leaves[item.queue], self.measure, item.size
        own = leaf.newcomer_uses(item, state[1])
        classes = []
        for queue in leaf.path:
            total = [self.usage[queue][pair] + sign * amount for pair, amount in size]
            if measure.is_within(measure.quota[queue], size, total):
                classes.append(COVERED)
            elif self._is_in_share(queue, size, total):
                classes.append(IN_SHARE)
            else:
                used = own
                if self.tree.children[queue]:
                    others = self._others_use(queue, item, state)
                    used = [a + b for a, b in zip(own, others, strict=True)]
                classes.append(measure.class_of(queue, size, used))
        return int(item.is_guest), tuple(classes), item.rank

    def _others_use(self, queue: int, item: Item, state: State) -> list[int]:
        """Return what is picked of the other leaves at and below a queue, in an item's pairs."""
        part, at, bound = state
        leaf, pairs = self._leaves[item.queue], tuple([pair for pair, _ in item.size])
        row = part.rows.get(queue)
        if row is not None and at == len(part.log):
            return [row[pair] - leaf.used[pair] for pair in pairs]
        used = [0] * len(pairs)
        for other in self._leaves.values():
            if other is leaf or queue not in other.path:
                continue
            place = at
            if other.part is not part:
                other.part.settle()
                if bound is not None:
                    other.part.run(bound)
                place = other.part.before(bound)
            for chain in other.chains:
                chain.add_up(pairs, chain.before(place), used)
        return used

    def stands_before(self, place: Place, name: Name) -> bool:
        """Return whether one with such a place would stand before a running item."""
        part, chain, at = self._find(name)
        if at < chain.covered:
            return (0, chain.leaf.all_covered, chain.ranks[at]) > place.bound
        if place.at == AMONG_COVERED:
            return True
        if part is not place.part:
            part.run(place.bound)
        found = chain.place(at)
        if found is None:
            return True
        return found >= place.at if part is place.part else part.tops[found] > place.bound

    def before_all(self, item: Item, victims: Iterable[Item]) -> bool:
        """Return whether a newcomer would stand before all of these."""
        place = self.place(item)
        return all(self.stands_before(place, victim.name) for victim in victims)

    def behind(self, place: Place) -> Iterator[tuple[Item, Key]]:
        """Yield all before whom a place is, with their keys, those of a part from the back."""
        for part in self._parts.values():
            part.run()
            yield from self._picked_behind(place, part)
            if place.at == AMONG_COVERED:
                for leaf in part.leaves:
                    yield from self._covered_behind(place, leaf)

    def rivals(self, place: Place, queue: int) -> Iterator[tuple[Item, Key]]:
        """Yield all behind a place, but of those who are covered only a queue's own.

        Nobody else has anything to fear from one of this queue. Keys are floors: the standing is
        not less, and nobody is picked to find out more.
        """
        for part in self._parts.values():
            part.settle()
            if place.at != AMONG_COVERED:
                part.run(place.bound)
            # Whoever is told may ask for more picks: so all is taken down before.
            picked = list(self._picked_behind(place, part))
            left = [(chain, chain.head, part.floor(chain)) for chain in part.chains()]
            for chain, head, classes in left:
                for at in range(len(chain.items) - 1, head - 1, -1):
                    yield chain.items[at], (chain.guest, classes, chain.ranks[at])
            yield from picked
        if place.at == AMONG_COVERED:
            yield from self._covered_behind(place, self._leaves[queue])

    def chains(self, queue: int | None = None) -> Iterator[Chain]:
        """Yield all chains, or those of one queue."""
        some = list(self._leaves) if queue is None else [queue] if queue in self._leaves else []
        for each in some:
            leaf = self._leaves[each]
            leaf.part.settle()
            yield from leaf.chains

    def whereabouts(self, name: Name) -> tuple[Chain, int]:
        """Return the chain of a running item, and its number there."""
        _part, chain, at = self._find(name)
        return chain, at

    def first_behind(self, place: Place, chain: Chain, test: Test | None = None) -> int:
        """Return from which item of a chain on all are behind a place and their classes pass.

        What passes the test must pass it with worse classes, too, and nobody covered may. No more
        is picked than it takes to know.
        """
        part = chain.leaf.part
        part.settle()
        if place.at != AMONG_COVERED:
            if part is not place.part:
                part.run(place.bound)
            first = chain.before(place.at if part is place.part else part.before(place.bound))
        else:
            first = self._first_covered_behind(place, chain)
        if test is None:
            return first
        first = max(first, chain.covered)
        if first == len(chain.items) or not test(self.worst(chain)):
            return len(chain.items)
        low, keys = first - chain.covered, part.keys
        found = bisect_left(chain.picked, True, lo=low, key=lambda at: test(keys[at][1]))
        if found < len(chain.picked):
            return chain.covered + found
        return self._first_unpicked(chain, test)

    def _first_covered_behind(self, place: Place, chain: Chain) -> int:
        """Return the first of those of a chain who are covered, or behind them, behind a place."""

        def is_behind(rank: Rank) -> bool:
            return (0, chain.leaf.all_covered, rank) > place.bound

        return bisect_left(chain.ranks, True, hi=chain.covered, key=is_behind)

    def worst(self, chain: Chain) -> tuple[Class, ...]:
        """Return classes that nobody of a chain is beyond."""
        size = chain.items[-1].size
        found = []
        for queue in chain.leaf.path:
            used = [self.usage[queue][pair] - amount for pair, amount in size]
            found.append(self.measure.class_of(queue, size, used))
        return tuple(found)

    def _first_unpicked(self, chain: Chain, test: Test) -> int:
        """Return the first that passes of those of a chain that are not picked yet."""
        part = chain.leaf.part
        while chain.head < len(chain.items):
            if test(part.floor(chain)):
                return chain.head
            part.run(chain=chain, count=chain.head + 1)
            if test(part.keys[chain.picked[-1]][1]):
                return chain.head - 1
        return chain.head

    def _picked_behind(self, place: Place, part: Part) -> Iterator[tuple[Item, Key]]:
        """Yield those of the log of a part that are behind a place, from the back."""
        first = place.at if part is place.part else part.before(place.bound)
        heads: dict[int, int] = {}
        for at in range(len(part.log) - 1, max(first, 0) - 1, -1):
            chain = part.log[at]
            index = heads.get(chain.number, chain.head) - 1
            heads[chain.number] = index
            yield chain.items[index], part.keys[at]

    def _covered_behind(self, place: Place, leaf: Leaf) -> Iterator[tuple[Item, Key]]:
        for chain in leaf.chains:
            for at in range(chain.covered - 1, -1, -1):
                key = (0, leaf.all_covered, chain.ranks[at])
                if key < place.bound:
                    break
                yield chain.items[at], key


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
