"""Those who may be asked to leave, kept up from search to search.

A quarry is the herd of one right (`spans`). Rights are spans of the chains of the line, so all that
can change from one search to the next is who came, left or was moved, where spans begin, and whose
minimum run is over.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from mooring.policy.herd import Herd
from mooring.policy.slots import Slots
from mooring.policy.spans import NEVER, Patience

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mooring.policy.desk import Desk
    from mooring.policy.item import Item, Name, Size
    from mooring.policy.offers import Offer
    from mooring.policy.roll import Roll
    from mooring.policy.spans import Right, Span
    from mooring.policy.standing import Line

MOST_KEPT = 8
"""Quarries, and countings of slots, that are kept."""

SpanKey = tuple[int, str]
"""The number of a chain, and a cause."""


class Quarry(Herd):
    """The victims of one right."""

    def __init__(self, desk: Desk, roll: Roll) -> None:
        super().__init__(desk)
        self.roll = roll
        self.charged: dict[int, dict[int, int]] = {}
        """By queue and pair, what all of them are charged."""
        self._sizes: dict[Name, tuple[int, Size]] = {}
        self._spans: dict[SpanKey, dict[Name, None]] = {}
        """Everybody in the spans, candidate or not."""
        self._spans_of: dict[Name, tuple[SpanKey, ...]] = {}
        self._protected: list[tuple[float, Name, str]] = []
        self._patience = Patience(desk)
        self._seen = len(roll.changes)

    @property
    def until(self) -> float:
        """Return when somebody may be asked who is protected now."""
        waits = self._protected
        while waits and not self._is_protected(*waits[0][1:]):
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
                if at >= span.first and self._enter((chain.number, span.cause), chain.items[at]):
                    self._admit([chain.items[at]], span.cause)
        self._seen = len(self.roll.changes)

    def _mend(self, line: Line, span: Span) -> None:
        """Compare a span with who is known to be in it."""
        key, items = (span.chain.number, span.cause), span.chain.items[span.first :]
        inside = self._spans.setdefault(key, {})
        if inside:
            present = {item.name for item in items}
            for name in [name for name in inside if name not in present]:
                self._exit(line, key, name)
        self._admit([item for item in items if self._enter(key, item)], span.cause)

    def _enter(self, key: SpanKey, item: Item) -> bool:
        """Note that one is in a span; return whether that is new."""
        name, inside = item.name, self._spans.setdefault(key, {})
        if name in inside:
            return False
        inside[name] = None
        known = self._spans_of.get(name)
        self._spans_of[name] = (key,) if known is None else (*known, key)
        return True

    def _exit(self, line: Line, key: SpanKey, name: Name) -> None:
        """Let one leave a span; in another it may still be."""
        del self._spans[key][name]
        others = tuple(other for other in self._spans_of.pop(name) if other != key)
        self.drop(name)
        if others:
            self._spans_of[name] = others
        for _, cause in others:
            self._admit([line[name]], cause)

    def _forget(self, name: Name) -> None:
        """Drop one who is no longer what or where it was."""
        for key in self._spans_of.pop(name, ()):
            del self._spans[key][name]
        self.drop(name)

    def _admit(self, items: Iterable[Item], cause: str) -> None:
        """Take some in, now or when they have run their time."""
        found, now = [], self.desk.now
        for item in items:
            name = item.name
            if name in self.victims or not item.preemptible:
                continue
            ends = self._patience.ends(item, cause)
            if ends > now:
                heappush(self._protected, (ends, name, cause))
                continue
            found.append(self.roll.victim(item, cause))
            self._sizes[name] = item.queue, item.size
            self._charge(item.queue, item.size, 1)
        self.take(found)

    def drop(self, name: Name) -> None:
        """Let one go, if it is there."""
        super().drop(name)
        queue, size = self._sizes.pop(name, (0, ()))
        self._charge(queue, size, -1)

    def _charge(self, queue: int, size: Size, sign: int) -> None:
        charged = self.charged.setdefault(queue, {})
        for pair, amount in size:
            charged[pair] = charged.get(pair, 0) + sign * amount

    def _is_protected(self, name: Name, cause: str) -> bool:
        is_inside = any(of == cause for _, of in self._spans_of.get(name, ()))
        return is_inside and name not in self.victims

    def _let_go(self, line: Line) -> None:
        """Take in those whose minimum run is over."""
        while self._protected and self._protected[0][0] <= self.desk.now:
            _, name, cause = heappop(self._protected)
            if self._is_protected(name, cause):
                self._admit([line[name]], cause)


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
