"""Those who may be asked to leave, kept up from search to search.

A quarry is the herd of one right (`spans`). Rights are spans of the chains of the line, so all that
can change from one search to the next is who came, left or was moved, where spans begin, and whose
minimum run is over.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from mooring.policy.standing.spans import NEVER, Patience
from mooring.policy.victims.herd import Herd
from mooring.policy.victims.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mooring.policy.desk import Desk
    from mooring.policy.queues.offers import Offer
    from mooring.policy.standing.item import Item, Name, Size
    from mooring.policy.standing.line import Line
    from mooring.policy.standing.roll import Roll
    from mooring.policy.standing.spans import Right, Span
    from mooring.policy.victims.evict import Tasks, Victim

MOST_KEPT = 8
"""Quarries, and countings of slots, that are kept."""

SpanKey = tuple[int, str]
"""The number of a chain, and a cause."""


class Quarry(Herd):
    """The victims of one right."""

    def __init__(self, desk: Desk, roll: Roll) -> None:
        self.roll = roll
        super().__init__(desk)
        self.charged: dict[int, dict[int, int]] = {}
        """By queue and pair, what all of them are charged."""
        self._items: dict[Name, Item] = {}
        self._causes: dict[Name, str] = {}
        self._spans: dict[SpanKey, dict[Name, None]] = {}
        """Everybody in the spans, candidate or not."""
        self._spans_of: dict[Name, tuple[SpanKey, ...]] = {}
        self._protected: list[tuple[float, Name, str]] = []
        self._ends: dict[Name, dict[str, float]] = {}
        """By cause, when the minimum run of one is over; what else `_protected` says is old."""
        self._patience = Patience(desk).ends
        self._seen = len(roll.changes)

    @property
    def until(self) -> float:
        """Return when somebody may be asked who is protected now."""
        waits = self._protected
        while waits and not self._is_protected(*waits[0]):
            heappop(waits)
        return waits[0][0] if waits else NEVER

    def keep_up(self, line: Line, right: Right) -> None:
        """Let the victims be those of a right, which has the same key as the one before."""
        self._look_again(line, right)
        current = {(span.chain.number, span.cause): span for span in right.spans}
        for key in [key for key in self._spans if key not in current]:
            for name in list(self._spans[key]):
                self._exit(line, key, name)
            del self._spans[key]
        for key, span in current.items():
            if len(self._spans.get(key, ())) != len(span.chain.items) - span.first:
                self._mend(line, span)
        self._let_go(line)

    def _look_again(self, line: Line, right: Right) -> None:
        """Look at everybody who came, left or was moved."""
        spans: dict[int, list[Span]] = {}
        for span in right.spans:
            spans.setdefault(span.chain.number, []).append(span)
        for name in dict.fromkeys(self.roll.changes[self._seen :]):
            self._forget(name)
            if name not in line:
                continue
            chain, at = line.whereabouts(name)
            for span in spans.get(chain.number, ()):
                if at >= span.first:
                    self._enter(span, {name: chain.items[at]})
        self._seen = len(self.roll.changes)

    def _mend(self, line: Line, span: Span) -> None:
        """Compare a span with who is known to be in it."""
        key = (span.chain.number, span.cause)
        items = {(item.workload, item.unit): item for item in span.chain.items[span.first :]}
        inside = self._spans.get(key, {})
        for name in [name for name in inside if name not in items]:
            self._exit(line, key, name)
        if inside:
            items = {name: item for name, item in items.items() if name not in inside}
        self._enter(span, items)

    def _enter(self, span: Span, items: dict[Name, Item]) -> None:
        """Note that some are in a span, and take in whoever has run its time."""
        only = ((span.chain.number, span.cause),)
        self._spans.setdefault(only[0], {}).update(dict.fromkeys(items))
        known = self._spans_of
        both = [name for name in items if name in known] if known else []
        more = {name: known[name] + only for name in both}
        known.update(dict.fromkeys(items, only))
        known.update(more)
        self._admit(items, span.cause)

    def _exit(self, line: Line, key: SpanKey, name: Name) -> None:
        """Let one leave a span; in another it may still be."""
        del self._spans[key][name]
        others = tuple(other for other in self._spans_of.pop(name) if other != key)
        self.drop(name)
        if others:
            self._spans_of[name] = others
        for _, cause in others:
            self._admit({name: line[name]}, cause)

    def _forget(self, name: Name) -> None:
        """Drop one who is no longer what or where it was."""
        for key in self._spans_of.pop(name, ()):
            del self._spans[key][name]
        self.drop(name)

    def _admit(self, items: dict[Name, Item], cause: str) -> None:
        """Take some in, now or when they have run their time."""
        entries, now, known, ends_of = self.desk.entries, self.desk.now, self._items, self._patience
        found: dict[Name, Item] = {}
        for name, item in items.items():
            if name in known or not item.preemptible:
                continue
            ends = ends_of(item, entries[item.workload].workload, cause)
            if ends > now:
                heappush(self._protected, (ends, name, cause))
                self._ends.setdefault(name, {})[cause] = ends
            else:
                found[name] = item
        self.take(found)
        known.update(found)
        self._causes.update(dict.fromkeys(found, cause))
        sizes = Counter([(item.queue, item.size) for item in found.values()])
        for (queue, size), count in sizes.items():
            self._charge(queue, size, count)

    def victim(self, name: Name) -> Victim:
        """Return one who may be chosen."""
        return self.roll.victim(self._items[name], self._causes[name])

    def tasks(self, name: Name) -> Tasks:
        """Return what would leave with one who may be chosen."""
        return self.roll.tasks(name)

    def tasks_of(self, names: Iterable[Name]) -> list[Tasks]:
        """Return what would leave with each of some who may be chosen."""
        return self.roll.tasks_of(names)

    def drop(self, name: Name) -> None:
        """Let one go, if it is there."""
        super().drop(name)
        self._ends.pop(name, None)
        item = self._items.pop(name, None)
        if item is not None:
            del self._causes[name]
            self._charge(item.queue, item.size, -1)

    def _charge(self, queue: int, size: Size, count: int) -> None:
        charged = self.charged.setdefault(queue, {})
        for pair, amount in size:
            charged[pair] = charged.get(pair, 0) + count * amount

    def _is_protected(self, ends: float, name: Name, cause: str) -> bool:
        if self._ends.get(name, {}).get(cause) != ends or name in self._items:
            return False
        return any(of == cause for _, of in self._spans_of.get(name, ()))

    def _let_go(self, line: Line) -> None:
        """Take in those whose minimum run is over."""
        while self._protected and self._protected[0][0] <= self.desk.now:
            ends, name, cause = heappop(self._protected)
            if self._is_protected(ends, name, cause):
                self._admit({name: line[name]}, cause)


class Quarries:
    """All quarries, and the slots counted on them, as long as they are good."""

    def __init__(self, desk: Desk, roll: Roll) -> None:
        self.desk = desk
        self.roll = roll
        self._kept: dict[tuple[object, ...], Quarry] = {}
        self._slots: dict[tuple[object, ...], Slots] = {}
        self._good_for = (-1, -1, -1)

    def of(self, line: Line, right: Right) -> Quarry | None:
        """Return the quarry of a right; None: it is one against nobody."""
        self._check()
        if all(span.first >= len(span.chain.items) for span in right.spans):
            return None
        quarry = self._kept.pop(right.key, None)
        if quarry is None:
            quarry = Quarry(self.desk, self.roll)
        self._kept[right.key] = quarry
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        quarry.keep_up(line, right)
        return quarry

    def slots(self, offer: Offer, quarries: Sequence[Quarry]) -> Slots:
        """Return the slots that quarries could give an offer."""
        leaf = offer.ask.root
        assert leaf.demand is not None
        whom = tuple(id(quarry) for quarry in quarries)
        key = (whom, leaf.demand.index, leaf.code, offer.ask.avoid, offer.barred)
        slots = self._slots.pop(key, None)
        if slots is None or any(a is not b for a, b in zip(slots.herds, quarries, strict=True)):
            slots = Slots(self.desk, offer, quarries)
        self._slots[key] = slots
        if len(self._slots) > MOST_KEPT:
            del self._slots[next(iter(self._slots))]
        slots.refresh(offer)
        return slots

    def _check(self) -> None:
        """Drop everything if rows, resources or queues are not what they were."""
        books = self.desk.books
        now = (self.roll.age, books.epoch, len(books.open))
        if now != self._good_for:
            self._good_for = now
            self._kept.clear()
            self._slots.clear()
