"""Which domains a pod group takes under profile `kueue`.

Every domain is counted: how many tasks it takes, and how many whole slices. A group that asks for
a level goes to the tightest domain of it that holds all (best fit); where it only would like one
it climbs level by level, and at the outermost is spread over the largest domains, the last of them
the tightest. A group that asks for no level takes the domains with the least room first.

From there it goes down level by level: to the level of its slices all domains below the chosen
ones together, as few as possible; further down each domain hands its tasks on to its children.

A leader is one task that comes with the workers. It goes to a domain that takes it, and where it
costs the workers no more room than there is to spare.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.columns import INT

if TYPE_CHECKING:
    from mooring.model.columns import Ints
    from mooring.model.topology import Tree

OUTERMOST = 1
"""The level above which nobody climbs: the cluster itself is no domain."""
_NEVER = np.iinfo(np.int64).max

Given = tuple[int, int, int]
"""A domain, how many tasks it gets, and how many leaders."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a group asks of the topology."""

    count: int
    level: int
    """Where one domain for all is looked for first."""
    top: int
    """The outermost level that is looked at."""
    must: bool
    """At `top` one domain must hold all."""
    least_free: bool
    """Domains with the least room first, instead of the best fit."""
    slices: tuple[tuple[int, int], ...] = ()
    leaders: int = 0


def wish_of(
    count: int, required: int, preferred: int, slices: tuple[tuple[int, int], ...], bottom: int
) -> Wish:
    """Return the wish of a group by the levels that it names; below `OUTERMOST`: none."""
    if preferred >= OUTERMOST or required >= OUTERMOST:
        must = required >= OUTERMOST
        top = required if must else OUTERMOST
        return Wish(count, max(preferred, top), top, must, False, slices)
    level = OUTERMOST if slices else bottom
    return Wish(count, level, level, False, True, slices)


class Domains:
    """Tasks and slices that every domain takes, alone and beside a leader."""

    def __init__(
        self,
        tree: Tree,
        rows: Ints,
        slices: tuple[tuple[int, int], ...],
        beside: tuple[Ints, Ints] | None = None,
    ) -> None:
        """Count the domains; `rows` are tasks per node, `beside` where a leader fits, and then."""
        self.tree = tree
        self.bottom = tree.leaf_level
        self.slice_level, self.size = slices[0] if slices else (self.bottom, 1)
        self.inner = _inner_sizes(slices)
        zeros = np.zeros(0, INT)
        self.tasks = [zeros] * (self.bottom + 1)
        self.slices = [zeros] * (self.bottom + 1)
        self.led_tasks = [zeros] * (self.bottom + 1)
        self.led_slices = [zeros] * (self.bottom + 1)
        self.leads = [zeros] * (self.bottom + 1)
        leads, led = beside or (np.zeros(len(rows), INT), np.zeros(len(rows), INT))
        self.tasks[-1], self.leads[-1], self.led_tasks[-1] = rows, leads, led
        for level in range(self.bottom - 1, -1, -1):
            self._roll_up(level)
        for level in range(self.bottom, -1, -1):
            self._count_slices(level)

    def _starts(self, level: int) -> Ints:
        return self.tree.children[level][:-1]

    def _roll_up(self, level: int) -> None:
        """Add up the children of every domain of a level."""
        starts, size = self._starts(level), self.inner.get(level + 1, 1)
        tasks = self.tasks[level + 1] // size * size
        led = self.led_tasks[level + 1] // size * size
        leads = self.leads[level + 1]
        self.tasks[level] = _sums(tasks, starts)
        self.leads[level] = _reduce(np.maximum, leads, starts)
        loss = _least(tasks - led, leads, starts)
        self.led_tasks[level] = np.where(self.leads[level] > 0, self.tasks[level] - loss, 0)

    def _count_slices(self, level: int) -> None:
        if level > self.slice_level:
            self.slices[level] = self.led_slices[level] = np.zeros(len(self.tasks[level]), INT)
        elif level == self.slice_level:
            self.slices[level] = self.tasks[level] // self.size
            self.led_slices[level] = self.led_tasks[level] // self.size
        else:
            starts, below, led = (
                self._starts(level),
                self.slices[level + 1],
                self.led_slices[level + 1],
            )
            loss = _least(below - led, self.leads[level + 1], starts)
            self.slices[level] = _sums(below, starts)
            self.led_slices[level] = np.where(self.leads[level] > 0, self.slices[level] - loss, 0)


def _inner_sizes(slices: tuple[tuple[int, int], ...]) -> dict[int, int]:
    """Return in which portions tasks are handed out at levels below the outermost slices."""
    sizes = {}
    for (outer, _), (level, size) in pairwise(slices):
        sizes.update(dict.fromkeys(range(outer + 1, level + 1), size))
    return sizes


def _sums(values: Ints, starts: Ints) -> Ints:
    return _reduce(np.add, values, starts)


def _least(losses: Ints, leads: Ints, starts: Ints) -> Ints:
    """Return the least that a leader costs each parent, over the children that take one."""
    return _reduce(np.minimum, np.where(leads > 0, losses, _NEVER), starts)


def _reduce(how: np.ufunc, values: Ints, starts: Ints) -> Ints:
    if not len(values):
        return np.zeros(len(starts), INT)
    return how.reduceat(values, starts)


def choose(
    domains: Domains, wish: Wish, within: tuple[int, int] = (0, 0)
) -> list[tuple[int, int, int]] | None:
    """Return (row, tasks, leaders) in order of rows; None: there is no room."""
    return _Choice(domains, wish, within).run()


class _Choice:
    def __init__(self, domains: Domains, wish: Wish, within: tuple[int, int]) -> None:
        self.domains = domains
        self.tree = domains.tree
        self.wish = wish
        self.within = within

    def run(self) -> list[Given] | None:
        if self.wish.count % self.domains.size:
            return None
        found = self._find()
        if found is None:
            return None
        level, given = found
        while given is not None and level < self.domains.slice_level:
            level += 1
            below = [child for d, _, _ in given for child in self._children(level - 1, d)]
            given = self._share_slices(level, self._sorted(level, np.array(below, INT)))
        while given is not None and level < self.domains.bottom:
            level += 1
            given = self._hand_on(level, given)
        return None if given is None else sorted(each for each in given if each[1] or each[2])

    def _children(self, level: int, domain: int) -> range:
        first = self.tree.child_of[level]
        return range(first[domain], first[domain + 1])

    def _find(self) -> tuple[int, list[Given] | None] | None:
        """Return the level where it is placed, and what the domains there get."""
        wish, is_led = self.wish, self.wish.leaders > 0
        top = max(wish.top, self.within[0])
        for level in range(max(wish.level, top), top - 1, -1):
            low, high = self.tree.inside(*self.within, level)
            order = self._sorted(level, np.arange(low, high), is_led=is_led)
            best = self._single(level, order)
            if best is not None:
                return level, [(best, wish.count, wish.leaders)]
            if level == top and not wish.must:
                return level, self._share_slices(level, order)
        return None

    def _sorted(self, level: int, some: Ints, *, is_led: bool = False) -> list[int]:
        """Return domains in the order in which they are taken."""
        domains = self.domains
        slices = (domains.led_slices if is_led else domains.slices)[level][some]
        tasks = (domains.led_tasks if is_led else domains.tasks)[level][some]
        leads = domains.leads[level][some] * is_led
        keys = (some, tasks, slices if self.wish.least_free else -slices, -leads)
        ordered: list[int] = some[np.lexsort(keys)].tolist()
        return ordered

    def _single(self, level: int, order: list[int]) -> int | None:
        """Return the one domain for all: the first that holds it, or the first of the tightest."""
        domains, wish = self.domains, self.wish
        room = (domains.led_slices if wish.leaders else domains.slices)[level].tolist()
        leads, need = domains.leads[level].tolist(), wish.count // domains.size
        holding = [d for d in order if room[d] >= need and leads[d] >= wish.leaders]
        if not holding or wish.least_free:
            return holding[0] if holding else None
        return min(holding, key=room.__getitem__)

    def _share_slices(self, level: int, order: list[int]) -> list[Given] | None:
        """Share out all there is, in whole slices, among domains of a level."""
        domains, wish = self.domains, self.wish
        rooms = domains.slices[level].tolist(), domains.led_slices[level].tolist()
        return self._share(level, order, (wish.count, domains.size, wish.leaders), rooms)

    def _hand_on(self, level: int, given: list[Given]) -> list[Given] | None:
        """Let every domain share out what it has among its children."""
        domains, size = self.domains, self.domains.inner.get(level, 1)
        rooms = (domains.tasks[level] // size).tolist(), (domains.led_tasks[level] // size).tolist()
        found: list[Given] = []
        for domain, count, leaders in given:
            children = self._children(level - 1, domain)
            order = self._sorted(level, np.arange(children.start, children.stop))
            below = self._share(level, order, (count, size, leaders), rooms)
            if below is None:
                return None
            found += below
        return found

    def _share(
        self,
        level: int,
        order: list[int],
        what: tuple[int, int, int],
        rooms: tuple[list[int], list[int]],
    ) -> list[Given] | None:
        """Give domains what they take, in order, the last the tightest.

        `what` is how many tasks, in portions of which size, and how many leaders.
        """
        (count, size, leaders), (room, led) = what, rooms
        left, given = count // size, []
        if leaders:
            first = self._home_of_leader(level, order, left, rooms)
            if first is None:
                return None
            given.append((first, min(left, led[first]) * size, 1))
            left -= min(left, led[first])
            order = self._sorted(level, np.array([d for d in order if d != first], INT))
        for i, each in enumerate(order):
            if left <= 0:
                break
            if room[each] >= left and not self.wish.least_free:
                each = _tightest(order[i:], left, room)
            given.append((each, min(left, room[each]) * size, 0))
            left -= min(left, room[each])
        return given if left <= 0 else None

    def _home_of_leader(
        self, level: int, order: list[int], need: int, rooms: tuple[list[int], list[int]]
    ) -> int | None:
        """Return the first domain that takes a leader and leaves room for all workers."""
        room, led = rooms
        takes = self.domains.leads[level].tolist()
        spare = sum(room[d] for d in order) - need
        able = [d for d in order if takes[d] and room[d] - led[d] <= spare]
        if not able:
            return None
        if led[able[0]] >= need and not self.wish.least_free:
            return _tightest(able, need, led)
        return able[0]


def _tightest(order: list[int], left: int, room: list[int]) -> int:
    return min((d for d in order if room[d] >= left), key=room.__getitem__)
