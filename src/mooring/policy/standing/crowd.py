"""Heads of chains that are beyond at one and the same queue, whatever their size.

Every pick at such a queue raises the level of all of them, but hardly ever changes who of them is
first: in the pair that decides the level, all get the same on top. So they stand in a heap of
their own, by what they differ in.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from mooring.policy.queues.share import BEYOND

if TYPE_CHECKING:
    from mooring.policy.standing.chains import Chain
    from mooring.policy.standing.item import Class, Item, Key, Rank
    from mooring.policy.standing.parts import Part

Entry = tuple[int, tuple["Class", ...], "Rank", int, "Chain"]
"""What a head has on top of what is picked at the queue, its classes below the queue, its rank."""


class Crowd:
    """Heads of guests or others with the same pairs, beyond at a queue."""

    def __init__(self, part: Part, head: Chain, number: int):
        self.number = -number
        """For its place in the heap of the part, unlike that of any chain."""
        self.is_split = False
        """Whether different pairs decide for different heads: then it is of no use."""
        self.listed: Key | None = None
        """By which key it stands in the heap of the part."""
        self._part = part
        self._level, self._queue, self._row = head.open[0]
        self._column = max(range(len(head.pairs)), key=lambda at: self._excess(head, at))
        self._pair = head.pairs[self._column]
        self._heap: list[Entry] = []

    def _excess(self, head: Chain, column: int) -> float:
        """Return how far beyond a queue is for a head in one of its pairs; below 0: it is not."""
        measure, pair = self._part.line.measure, head.pairs[column]
        used = head.used[column] + self._row[pair] - head.leaf.used[pair]
        excess, norm = used - measure.quota[self._queue][pair], measure.norm[pair]
        weight = measure.weight[self._queue][pair]
        return excess / norm / weight if excess >= 0 and norm > 0 and weight > 0 else -1.0

    def add(self, head: Chain, key: Key) -> None:
        """Take in the head of a chain, with its key."""
        head.crowd, head.entry = self, self._entry(head, key)
        heappush(self._heap, head.entry)

    def _entry(self, head: Chain, key: Key) -> Entry:
        on_top = head.used[self._column] - head.leaf.used[self._pair]
        return on_top, key[1][self._level + 1 :], key[2], head.number, head

    def first(self) -> tuple[Chain, Key] | None:
        """Return who is first, and its key; None: nobody, or it cannot be told from here.

        In the pair that decides for it, nobody has less. Entries may be too small, never too large.
        """
        heap = self._heap
        while heap:
            entry = heap[0]
            head = entry[-1]
            if head.entry is not entry:
                heappop(heap)
                continue
            key = self._part.key(head)
            fresh = self._entry(head, key)
            if fresh[:3] != entry[:3]:
                head.entry = fresh
                heapreplace(heap, fresh)
                continue
            if key[1][self._level] != (BEYOND, self._excess(head, self._column)):
                self.is_split = True
                return None
            return head, key
        return None

    def after(self, head: Chain, item: Item) -> None:
        """Note that an item of the queue of a head was picked.

        Where that counted for the head before, it no longer is on top of what is picked.
        """
        entry = head.entry
        assert entry is not None
        rank, start = head.ranks[head.head], head.starts[head.head]
        amount = next((amount for pair, amount in item.size if pair == self._pair), 0)
        is_junior, is_later = rank > item.rank, (start, rank) > (item.started, item.rank)
        if amount and is_junior == is_later:
            head.entry = (entry[0] - amount, *entry[1:])
            heappush(self._heap, head.entry)

    def members(self) -> list[Chain]:
        """Return all whose heads are in it."""
        return [entry[-1] for entry in self._heap if entry[-1].entry is entry]
