"""Queues that have to do with each other, and how far their items are picked.

Who is covered by the quota of its own queue is covered by all quotas above, and comes first, by
rank. The others are picked one by one, as far as somebody asks. Keys never get smaller as others
are picked; so heads of chains stand in a heap by the last key known, and a key that is still right
when it is the least is the least.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from mooring.policy.queues.share import BEYOND, IN_SHARE
from mooring.policy.standing.crowd import Crowd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.policy.standing.chains import Chain, Leaf, Open
    from mooring.policy.standing.item import Class, Key, Size
    from mooring.policy.standing.line import Line

Heap = list[tuple["Key", int, "Chain | Crowd"]]
NOTHING: list[Open] = []


class Part:
    """Leaves whose items depend on each other."""

    def __init__(self, line: Line, head: int):
        self.line = line
        self.head = head
        self.leaves: list[Leaf] = []
        self.log: list[Chain] = []
        """The chain of each pick."""
        self.keys: list[Key] = []
        self.tops: list[Key] = []
        """The largest key so far: whoever comes between two parts goes by it."""
        self.rows: dict[int, list[int]] = {}
        """What is picked at the queues that are shared and not of one class."""
        self._heap: Heap | None = None
        self._stamp = -1
        self._capped: dict[int, bool] = {}
        """Whether nothing at a queue with a row can be beyond share."""
        self._crowds: dict[tuple[int, tuple[int, ...], int], Crowd] = {}

    def chains(self) -> Iterator[Chain]:
        """Yield the chains of all leaves."""
        for leaf in self.leaves:
            yield from leaf.chains

    # -- changes ----------------------------------------------------------------------------

    def touch(self) -> None:
        """Forget the keys of heads: somebody has come or gone."""
        self._heap = None

    def spoil(self, leaf: Leaf) -> None:
        """Forget all picks, and who is covered in a leaf."""
        self.cut(0)
        leaf.is_fresh = False
        self._stamp = -1

    def cut(self, place: int) -> None:
        """Take back all picks from a place on."""
        self._heap = None
        for chain in reversed(self.log[place:]):
            chain.picked.pop()
            chain.leaf.tick += 1
            if chain.leaf.rows:
                self.charge(chain.leaf, chain.items[chain.head].size, -1)
        del self.log[place:], self.keys[place:], self.tops[place:]

    def charge(self, leaf: Leaf, size: Size, sign: int) -> None:
        """Note that something of a leaf is picked, or no longer."""
        used, rows = leaf.used, leaf.rows
        for pair, amount in size:
            used[pair] += sign * amount
            for row in rows:
                row[pair] += sign * amount

    def settle(self) -> None:
        """Put loose items in chains, and look at tables and quotas again if they have changed."""
        if self._stamp == self.line.stamp:
            return
        self._stamp = self.line.stamp
        self._heap = None
        for leaf in self.leaves:
            if leaf.loose:
                self.line.build(leaf)
            if not leaf.is_fresh:
                leaf.cover(self.line.measure, can_be=not self.line.is_mixed)
        self._make_rows()
        for leaf in self.leaves:
            self._plan(leaf)

    def _make_rows(self) -> None:
        """Add up what is picked at all queues that are shared and not of one class."""
        self.rows = {}
        width, tree = len(self.line.tree.pairs), self.line.tree
        for leaf in self.leaves:
            shared = [q for q in leaf.path if self.line.steady[q] is None and tree.children[q]]
            leaf.rows = [self.rows.setdefault(queue, [0] * width) for queue in shared]
            if not shared:
                continue
            leaf.used = [0] * width
            for chain in leaf.chains:
                for pair, column in zip(chain.pairs, chain.upto, strict=True):
                    leaf.used[pair] += column[chain.head]
            for row in leaf.rows:
                row[:] = [a + b for a, b in zip(row, leaf.used, strict=True)]

    def _plan(self, leaf: Leaf) -> None:
        steady = self.line.steady
        leaf.plan = [(steady[queue], queue, self.rows.get(queue)) for queue in leaf.path]
        fixed = [steady[queue] for queue in leaf.path]
        leaf.above = tuple([each for each in fixed[:-1] if each is not None])
        known = tuple([each for each in fixed if each is not None])
        leaf.constant = known if len(known) == len(fixed) else None

    # -- picking ----------------------------------------------------------------------------

    def run(self, bound: Key | None = None, chain: Chain | None = None, count: int = 0) -> None:
        """Pick on until nobody is left.

        With a bound: until whoever is next has a larger key. With a chain: until so many of its
        items are picked.
        """
        self.settle()
        if not self.log and len(self.leaves) == 1 and not self.leaves[0].rows:
            self._pick_in_share(self.leaves[0], bound, chain, count)
        heap, log = self._heads(), self.log
        while heap and (chain is None or chain.head < count):
            key, number, head = heap[0]
            if bound is not None and key > bound:
                return
            if isinstance(head, Crowd):
                self._pick_from_crowd(heap, key, head)
                continue
            now = len(log) if head.open else -2 - head.leaf.tick
            if head.checked != now:
                found = self.key(head)
                if head.open and self._joins(heap, head, found):
                    continue
                if found != key:
                    heapreplace(heap, (found, number, head))
                    continue
            self._pick(heap, key, head)

    def _joins(self, heap: Heap, head: Chain, key: Key) -> bool:
        """Let the first of the heap join a crowd, if it is beyond for good at a shared queue."""
        number, queue, row = head.open[0]
        if key[1][number][0] != BEYOND:
            return False
        share, own = self.line.measure.share[queue], head.leaf.used
        pairs = zip(head.pairs, head.used, strict=True)
        if not any(used + row[pair] - own[pair] >= share[pair] for pair, used in pairs):
            return False
        group = (queue, head.pairs, head.guest)
        crowd = self._crowds.get(group)
        if crowd is None:
            crowd = self._crowds[group] = Crowd(self, head, len(self._crowds) + 1)
        if crowd.is_split:
            return False
        heappop(heap)
        crowd.add(head, key)
        if crowd.listed is None or key < crowd.listed:
            crowd.listed = key
            heappush(heap, (key, crowd.number, crowd))
        return True

    def _pick_from_crowd(self, heap: Heap, key: Key, crowd: Crowd) -> None:
        """Pick the first of a crowd if it is first of all; else find its place in the heap."""
        if key != crowd.listed:
            heappop(heap)
            return
        found = crowd.first()
        if found is None:
            heappop(heap)
            crowd.listed = None
            for head in crowd.members():
                head.crowd, head.entry, head.checked = None, None, -1
                first = (head.guest, head.leaf.all_covered, head.ranks[head.head])
                heappush(heap, (first, head.number, head))
            return
        head, crowd.listed = found
        if crowd.listed != key:
            heapreplace(heap, (crowd.listed, crowd.number, crowd))
            return
        head.crowd = head.entry = None
        following = self._note(key, head)
        if following is not None:
            heappush(heap, (following, head.number, head))
        self._open_units(heap, head)

    def _pick_in_share(
        self, leaf: Leaf, bound: Key | None, until: Chain | None, count: int
    ) -> None:
        """Pick those of a queue that stands alone who are in share whatever counts for them.

        They go by rank, as long as all seniors and all who are covered fit in the share.
        """
        share = self.line.measure.share[leaf.queue]
        classes = leaf.constant or (*leaf.above, IN_SHARE)
        if classes[-1] != IN_SHARE or self.line.is_mixed:
            return
        heads = [c for c in leaf.chains if not c.guest and c.head < len(c.items)]
        first = min((chain.ranks[chain.head] for chain in heads), default=None)
        if first is None or (bound is not None and (0, classes, first) > bound):
            return
        self._heap = None
        used = leaf.covered_uses()
        for rank, chain, at in leaf.by_rank():
            if at < chain.covered:
                continue
            is_in = True
            for pair, amount in chain.items[at].size:
                used[pair] += amount
                is_in &= used[pair] <= share[pair]
            if chain.guest:
                continue
            key = (0, classes, rank)
            if not is_in or chain.behind or chain.gate is not None:
                return
            if (bound is not None and key > bound) or (until is not None and until.head >= count):
                return
            chain.picked.append(len(self.log))
            self.log.append(chain)
            self.keys.append(key)
            self.tops.append(key)
            leaf.tick += 1

    def _heads(self) -> Heap:
        """Return the heap of those that may be next, each by a key that is not too large."""
        if self._heap is None:
            measure, usage = self.line.measure, self.line.usage
            self._capped = {
                queue: all(
                    u <= most for u, most in zip(usage[queue], measure.share[queue], strict=True)
                )
                for queue in self.rows
            }
            self._heap, self._crowds = [], {}
            for chain in self.chains():
                at = chain.head
                chain.crowd = chain.entry = None
                chain.is_listed = at < len(chain.items) and chain.is_open()
                if chain.is_listed:
                    chain.checked, chain.seen = -1, (-1, -1)
                    last = chain.picked
                    classes = self.keys[last[-1]][1] if last else chain.leaf.all_covered
                    first = (chain.guest, classes, chain.ranks[at])
                    self._heap.append((first, chain.number, chain))
            heapify(self._heap)
        return self._heap

    def _pick(self, heap: Heap, key: Key, head: Chain) -> None:
        """Pick the first of the heap."""
        following = self._note(key, head)
        if following is not None:
            heapreplace(heap, (following, head.number, head))
        else:
            heappop(heap)
        self._open_units(heap, head)

    def _note(self, key: Key, head: Chain) -> Key | None:
        """Note that a head is picked; return a key that that of the next one is not less than."""
        at, leaf, tops = head.head, head.leaf, self.tops
        item = head.items[at]
        head.picked.append(len(self.log))
        leaf.pick(head, at)
        if leaf.rows:
            self.charge(leaf, item.size, 1)
            for other in leaf.chains if self._crowds else ():
                if other.crowd is not None:
                    other.crowd.after(other, item)
        tops.append(key if not tops or key > tops[-1] else tops[-1])
        self.log.append(head)
        self.keys.append(key)
        head.checked = -1
        if at + 1 < len(head.items) and (head.gate is None or head.is_open()):
            # All that counts for the last one counts for this one: its classes are no smaller.
            return head.guest, key[1], head.ranks[at + 1]
        head.is_listed = False
        return None

    def _open_units(self, heap: Heap, head: Chain) -> None:
        """List units whose minimum has just been picked."""
        for units in head.behind:
            if not units.is_listed and units.head < len(units.items) and units.is_open():
                units.is_listed, units.checked = True, -1
                first = (units.guest, units.leaf.all_covered, units.ranks[units.head])
                heappush(heap, (first, units.number, units))

    def key(self, head: Chain) -> Key:
        """Return the key of the first of a chain that is not picked."""
        leaf, at = head.leaf, head.covered + len(head.picked)
        if not leaf.rows:
            head.open, head.checked = NOTHING, -2 - leaf.tick
            if leaf.constant is not None:
                return head.guest, leaf.constant, head.ranks[at]
            used = leaf.head_uses(head, at)
            found = self.line.measure.class_of(leaf.queue, head.items[at].size, used)
            return head.guest, (*leaf.above, found), head.ranks[at]
        if head.seen != (at, leaf.tick):
            head.seen = (at, leaf.tick)
            head.used = leaf.head_uses(head, at)
            self._classify(head, head.items[at].size)
        elif head.open:
            size = head.items[at].size
            for number, queue, row in head.open:
                head.classes[number] = self._shared(head, size, queue, row)
        head.checked = len(self.log) if head.open else -2 - leaf.tick
        return head.guest, tuple(head.classes), head.ranks[at]

    def _classify(self, head: Chain, size: Size) -> None:
        """Find the classes of a head, and which of them may change by others' picks."""
        head.classes, head.open = [], []
        measure = self.line.measure
        for number, (fixed, queue, row) in enumerate(head.leaf.plan):
            if fixed is not None:
                head.classes.append(fixed)
            elif row is None:
                head.classes.append(measure.class_of(queue, size, head.used))
            else:
                found = self._shared(head, size, queue, row)
                head.classes.append(found)
                if found != IN_SHARE or not self._capped[queue]:
                    head.open.append((number, queue, row))

    def _shared(self, head: Chain, size: Size, queue: int, row: list[int]) -> Class:
        """Return the class of a head at a queue that it shares with others."""
        own = head.leaf.used
        used = [u + row[p] - own[p] for p, u in zip(head.pairs, head.used, strict=True)]
        return self.line.measure.class_of(queue, size, used)

    def floor(self, chain: Chain) -> tuple[Class, ...]:
        """Return classes that those of a chain who are not picked yet will at least have."""
        self.settle()
        self._heads()
        if chain.head == len(chain.items) or not chain.is_open():
            return chain.leaf.all_covered
        _guest, classes, _rank = self.key(chain)
        chain.checked = -1  # what stands in the heap may be less
        return classes

    def before(self, bound: Key | None) -> int:
        """Return how many of the log are picked before a key; none before None."""
        return 0 if bound is None else bisect_left(self.tops, bound)
