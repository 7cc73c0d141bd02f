"""Choosing domains: the tightest that holds a gang, and inside it as few as possible, or evenly.

`Room` says how many units (tasks, or whole slices) each domain takes, from the cluster down to the
level where units end. The functions choose domains of that lowest level and a count for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.columns import Counts, Ints
from mooring.model.topology import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mooring.policy.placing.fit import Fit

ALTERNATIVES = 64
"""How many sets of domains are compared where the first choice may not be the best."""

COMPARED = 16
"""How many domains that hold a gang are compared by how many domains it needs inside."""

PARTS = 8
"""A node has at most one part in so many of a service, as long as there are nodes enough."""

Chosen = list[tuple[int, int]]
"""(domain of the lowest level, units in it)."""


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """Units per level and domain; `used` is how much work is in each domain already."""

    tree: Tree
    units: list[Counts]
    used: list[Ints]

    @property
    def bottom(self) -> int:
        """Return the lowest level."""
        return len(self.units) - 1


def room_for(
    fit: Fit, slices: tuple[tuple[int, int], ...], slots: list[Counts] | None = None
) -> Room:
    """Return the room for tasks, or for whole slices, now or with other slots than those of now.

    Slices are runs inside runs, counted from the innermost outwards.
    """
    tree = fit.books.tree
    units = fit.slots if slots is None else slots
    inner = 1
    for level, size in reversed(slices):
        here = tree.fold(units[-1], len(units) - 1, level) // (size // inner)
        units = [tree.fold(here, level, above) for above in range(level)] + [here]
        inner = size
    return Room(tree, units, fit.books.used)


def holding(room: Room, level: int, inside: tuple[int, int], count: int) -> Iterator[int]:
    """Yield the domains of a level that hold `count`: tightest, then most used, then first."""
    low, high = inside
    units = room.units[level][low:high]
    fitting = np.flatnonzero(units >= count)
    if len(fitting) == 0:
        return
    if len(fitting) > 1:
        tight = fitting[units[fitting] == units[fitting].min()]
        first = int(tight[room.used[level][low:high][tight].argmax()])
        yield low + first
        order = np.lexsort((fitting, -room.used[level][low:high][fitting], units[fitting]))
        yield from (low + int(i) for i in fitting[order] if i != first)
    else:
        yield low + int(fitting[0])


def fewest(room: Room, level: int, domain: int, count: int) -> tuple[tuple[int, ...], Chosen]:
    """Spread `count` units, which fit, over as few domains as possible at each level below.

    Upper levels count first. Exact as long as no more than `ALTERNATIVES` sets must be compared.
    Returned are the number of domains at each level below, and the choice.
    """
    search = _Fewest(room, count)
    numbers, chosen = search.below(level, (domain,))
    return numbers, _fill(room.units[room.bottom], chosen, count)


def fewest_of(
    room: Room, level: int, domains: Iterator[int], count: int, bound: tuple[int, ...]
) -> Iterator[Chosen]:
    """Yield a choice for each domain: first those that need the fewest domains at levels below.

    `bound` is the least that any could need: the first domain that reaches it is not compared.
    """
    found: list[tuple[tuple[int, ...], Chosen]] = []
    for domain in domains:
        numbers, chosen = fewest(room, level, domain, count)
        if numbers == bound:
            yield chosen
            continue
        found.append((numbers, chosen))
        if len(found) == COMPARED:
            break
    yield from (chosen for _, chosen in sorted(found, key=lambda pair: pair[0]))
    yield from (fewest(room, level, domain, count)[1] for domain in domains)


class _Fewest:
    def __init__(self, room: Room, count: int) -> None:
        self.room = room
        self.count = count
        self.left = ALTERNATIVES

    def below(self, level: int, domains: tuple[int, ...]) -> tuple[tuple[int, ...], Iterable[int]]:
        """Return (number of domains per level below, domains of the lowest level)."""
        room = self.room
        if level == room.bottom:
            return (), domains
        children = self._children(level, domains)
        units = room.units[level + 1][children]
        order = np.lexsort((children, -room.used[level + 1][children], -units))
        units, children = units[order], children[order]
        number = int(np.searchsorted(np.cumsum(units), self.count)) + 1
        first = self._biggest(children, units, number)
        counts, chosen = self.below(level + 1, first)
        best = ((number, *counts), chosen)
        if level + 1 == room.bottom or best[0][1:] == self._bound(level + 1, domains, level):
            return best
        for others in self._sets(children, units, number):
            if self.left <= 0:
                break
            self.left -= 1
            counts, chosen = self.below(level + 1, others)
            best = min(best, ((number, *counts), chosen), key=lambda found: found[0])
        return best

    def _children(self, level: int, domains: tuple[int, ...]) -> Ints:
        first = self.room.tree.children[level]
        return np.concatenate([np.arange(first[d], first[d + 1]) for d in domains])

    def _biggest(self, children: Ints, units: Counts, number: int) -> tuple[int, ...]:
        """Take the biggest, and for what is then left over the tightest."""
        rest = self.count - int(units[: number - 1].sum())
        fitting = int(np.searchsorted(-units, -rest, side="right")) - 1
        tight = int(np.searchsorted(-units, -units[fitting]))
        last = max(tight, number - 1)
        return (*children[: number - 1].tolist(), int(children[last]))

    def _bound(self, level: int, domains: tuple[int, ...], above: int) -> tuple[int, ...]:
        """Return the fewest domains per level below that any choice could need."""
        found = []
        for below in range(level + 1, self.room.bottom + 1):
            spans = [self.room.tree.inside(above, d, below) for d in domains]
            units = np.concatenate([self.room.units[below][low:high] for low, high in spans])
            most = np.cumsum(np.sort(units)[::-1])
            found.append(int(np.searchsorted(most, self.count)) + 1)
        return tuple(found)

    def _sets(self, children: Ints, units: Counts, number: int) -> Iterator[tuple[int, ...]]:
        """Yield the sets of domains that hold all, biggest first; a single one tightest first."""
        fitting = [(int(c), int(u)) for c, u in zip(children, units, strict=True) if u > 0]
        if number == 1:
            yield from ((c,) for c, u in reversed(fitting) if u >= self.count)
            return
        for chosen in reaching([u for _, u in fitting], number, self.count):
            yield tuple(fitting[place][0] for place in chosen)


def reaching(units: list[int], number: int, count: int) -> Iterator[list[int]]:
    """Yield all sets of `number` places whose units, most first, are at least `count` together.

    In the order of `combinations`; but as the best that can follow a beginning is known, no
    beginning is looked at that leads to none.
    """
    until = [0, *accumulate(units)]
    places = list(range(number))
    if number > len(units) or until[number] < count:
        return
    while True:
        yield list(places)
        before = sum(units[place] for place in places)
        for at in reversed(range(number)):
            before -= units[places[at]]
            begin = places[at] + 1
            end = begin + number - at
            if end <= len(units) and before + until[end] - until[begin] >= count:
                places[at:] = range(begin, end)
                break
        else:
            return


def _fill(units: Counts | Ints, chosen: Iterable[int], count: int, first: int = 0) -> Chosen:
    """Fill all domains but the last, in the order chosen; then sort them by place.

    `first` is the domain that `units` begin with.
    """
    chosen = list(chosen)
    filled = []
    for domain, most in zip(chosen, units[chosen].tolist(), strict=True):
        here = min(count, most)
        filled.append((first + domain, here))
        count -= here
    return sorted(pair for pair in filled if pair[1])


def evenest_of(
    room: Room, level: int, domains: Iterator[int], count: int, present: Ints | None
) -> Iterator[Chosen]:
    """Yield a choice for each domain: first those where the fewest end up together."""
    some = [evenly(room, level, domain, count, present) for domain in islice(domains, COMPARED)]
    yield from sorted(some, key=lambda chosen: max(units for _, units in chosen))
    yield from (evenly(room, level, domain, count, present) for domain in domains)


def evenly(room: Room, level: int, domain: int, count: int, present: Ints | None) -> Chosen:
    """Spread `count` units, which fit, over the domains below, on few nodes of each.

    `present` is how many are on each row already; fuller domains get fewer.
    """
    return _Evenly(room, count, present).below(level, domain, count)


class _Evenly:
    """Spreads the units of one call of `evenly`."""

    def __init__(self, room: Room, count: int, present: Ints | None) -> None:
        self.room = room
        rows = np.zeros(len(room.used[-1]), np.int64) if present is None else present
        self.there = [room.tree.sums(level, rows) for level in range(len(room.units))]
        self.most = -(-(count + int(rows.sum())) // PARTS)
        """So many may be on one node, if there are nodes enough."""

    def below(self, level: int, domain: int, count: int) -> Chosen:
        """Return (domain of the lowest level, units in it)."""
        room = self.room
        if level == room.bottom:
            return [(domain, count)]
        first = room.tree.children[level]
        low, high = int(first[domain]), int(first[domain + 1])
        units = room.units[level + 1][low:high].astype(np.int64)
        there, used = self.there[level + 1][low:high], room.used[level + 1][low:high]
        if level + 1 == room.tree.leaf_level:
            below_most = np.minimum(np.maximum(self.most - there, 0), units)
            if int(below_most.sum()) >= count:
                return _fill(below_most, np.argsort(-used, kind="stable").tolist(), count, low)
        chosen: Chosen = []
        given = _water_level(units, there, used, count)
        for child in np.flatnonzero(given).tolist():
            chosen += self.below(level + 1, low + child, int(given[child]))
        return chosen


def _water_level(units: Ints, there: Ints, used: Ints, count: int) -> Ints:
    """Return how much each gets so that present and given together are as level as possible."""

    def up_to(height: int) -> Ints:
        return np.minimum(np.maximum(height - there, 0), units)

    low, high = 0, int(there.max(initial=0)) + count
    while low < high:
        middle = (low + high + 1) // 2
        if int(up_to(middle).sum()) <= count:
            low = middle
        else:
            high = middle - 1
    given = up_to(low)
    rest = count - int(given.sum())
    can = np.flatnonzero(up_to(low + 1) > given)
    order = np.lexsort((can, -used[can]))
    given[can[order[:rest]]] += 1
    return given
