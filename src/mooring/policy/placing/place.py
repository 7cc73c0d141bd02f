"""Placing the tasks of one group: flavor, then domain, then nodes, then devices.

A `Placer` yields choices, best first; `search` puts them together for whole workloads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.books import BY_NODE
from mooring.model.columns import INT
from mooring.model.demand import DeviceKind
from mooring.policy.kueue.topology import Domains, choose, wish_of
from mooring.policy.placing.ask import NO_LEVEL, Part
from mooring.policy.placing.devices import choose_devices, choose_many, emptiest
from mooring.policy.placing.fit import ANY_FLAVOR, NOTHING, Fit
from mooring.policy.placing.profile import KUEUE
from mooring.policy.placing.room import (
    COMPARED,
    Room,
    evenest_of,
    fewest,
    fewest_of,
    holding,
    room_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.model.books import Books
    from mooring.model.columns import Counts, Ints
    from mooring.policy.placing.fit import Fits
    from mooring.policy.placing.profile import Profile
    from mooring.policy.placing.room import Chosen


@dataclass(frozen=True, slots=True)
class Within:
    """A domain that a part must stay inside."""

    level: int = 0
    domain: int = 0


ANYWHERE = Within()


@dataclass(frozen=True, slots=True, eq=False)
class Seats:
    """Where the tasks of one leaf go: row and devices of each, in order of rank."""

    part: Part
    rows: list[int]
    devices: list[int]


class Placer:
    """Finds places in one set of books, by the rules of one profile. Takes what it finds."""

    def __init__(self, books: Books, fits: Fits, profile: Profile) -> None:
        self.books = books
        self.fits = fits
        self.profile = profile
        self.steps = 0
        self._without = NOTHING
        self._shunned: tuple[str, ...] = ()
        self.failing: tuple[str, ...] = ()
        """Nodes that are avoided, where they are, because work keeps failing there."""

    def aim(self, avoid: tuple[str, ...] = (), barred: tuple[int, ...] = ()) -> None:
        """Place from now on without these nodes and kinds of nodes."""
        self._without = ((*avoid, *self._shunned), barred)

    @property
    def barred(self) -> tuple[int, ...]:
        """Return the kinds of nodes that nothing is placed on now."""
        return self._without[1]

    def shun(self, nodes: tuple[str, ...], failing: tuple[str, ...]) -> None:
        """Place nothing on these nodes, whoever asks; of all that are failing it is told."""
        self._shunned, self.failing = nodes, failing

    def fit(self, leaf: Part, flavor: int = ANY_FLAVOR, wish: float = -np.inf) -> Fit:
        """Return the fit of a leaf, less the nodes that are out of the question."""
        assert leaf.demand is not None
        flavor = leaf.code if flavor == ANY_FLAVOR else flavor
        return self.fits.of(leaf.demand, flavor, wish, self._without)

    # wide: a leaf is placed with what is known of its workload
    def place_leaf(
        self,
        leaf: Part,
        within: Within,
        account: int,
        *,
        service: bool = False,
        present: Ints | None = None,
    ) -> Seats | None:
        """Place the tasks of one leaf by the first choice, booked; None if counting says no."""
        demand = leaf.demand
        assert demand is not None
        fit = self.fit(leaf)
        if fit.company is None and fit.room(within.level, within.domain) < leaf.count:
            return None
        if leaf.count == 1 and fit.is_plain and present is None:
            rule = self.profile.rule(self.books, leaf, service=service)
            if rule == "e-binpack":
                return self._place_one(leaf, fit, within, account)
            if rule in self.profile.scores and not leaf.slices and leaf.required <= within.level:
                return self._place_scored(leaf, fit, within, account, rule)
        for seats in self.choices(leaf, within, service=service, present=present):
            self.books.take(demand, seats.rows, seats.devices, account, leaf.code)
            return seats
        return None

    def _place_one(self, leaf: Part, fit: Fit, within: Within, account: int) -> Seats:
        """Place a single task by E-Binpack: the short way for what comes most often."""
        row = pick(fit, within)
        partly = bool(fit.partly_of[0][0])
        mask = choose_devices(self.books, fit.demand, row, self.profile.devices)
        self.books.take(fit.demand, (row,), (mask,), account, leaf.code)
        if not within.level:
            fit.favour(row, partly=partly)
        return Seats(leaf, [row], [mask])

    def _place_scored(self, leaf: Part, fit: Fit, within: Within, account: int, rule: str) -> Seats:
        """Place a single task on the node with the best score: the short way."""
        score = self.profile.scores[rule]
        row = score.pick(fit, self.books.tree.rows(within.level, within.domain))
        mask = score.devices(fit, row, self.profile.devices)
        self.books.take(fit.demand, (row,), (mask,), account, leaf.code)
        return Seats(leaf, [row], [mask])

    # -- one leaf ---------------------------------------------------------------------------

    def choices(
        self, leaf: Part, within: Within, *, service: bool = False, present: Ints | None = None
    ) -> Iterator[Seats]:
        """Yield places for all tasks of a leaf, best first; not booked."""
        demand = leaf.demand
        assert demand is not None
        if not leaf.count:
            yield Seats(leaf, [], [])
            return
        rule = self.profile.rule(self.books, leaf, service=service)
        if rule == KUEUE and self.fit(leaf).company is None:
            yield from self._by_kueue(leaf, within, present)
            return
        leaf = leaf.inside(max(leaf.required, within.level))
        for wish in self.fits.wishes(demand):
            for flavor in self.flavors(leaf, present):
                fit = self.fit(leaf, flavor, wish)
                for seats in self._choices(leaf, fit, within, rule, present):
                    yield seats
                    fit.refresh()  # who asks again may have booked and taken back meanwhile

    def _choices(
        self, leaf: Part, fit: Fit, within: Within, rule: str, present: Ints | None
    ) -> Iterator[Seats]:
        if fit.company is not None:
            return self._one_by_one(leaf, fit, within)
        if rule in self.profile.scores:
            return self._by_score(leaf, fit, within, rule)
        if leaf.count == 1 and not leaf.slices and rule == "e-binpack":
            return self._single(leaf, fit, within)
        return self._by_domain(leaf, fit, within, rule, present)

    def _by_kueue(self, leaf: Part, within: Within, present: Ints | None) -> Iterator[Seats]:
        """Yield the place that profile `kueue` would choose; preferences count for nothing."""
        tree = self.books.tree
        wish = wish_of(leaf.count, leaf.required, leaf.preferred, leaf.slices, tree.leaf_level)
        for flavor in self.flavors(leaf, present):
            fit = self.fit(leaf, flavor)
            domains = Domains(tree, fit.slots[-1].astype(INT), leaf.slices)
            chosen = choose(domains, wish, (within.level, within.domain))
            if chosen is not None:
                yield self.seats(leaf, [(row, count) for row, count, _ in chosen])

    def flavors(self, leaf: Part, present: Ints | None) -> list[int]:
        """Return the flavors to try: a group keeps to one, the most plentiful first."""
        books, demand = self.books, leaf.demand
        assert demand is not None
        if leaf.code != BY_NODE or len(books.kinds) == 1 or not demand.shape.gpus:
            return [ANY_FLAVOR]
        if present is not None:
            return [int(books.kind[int(present.argmax())])]
        if leaf.count == 1:
            return [ANY_FLAVOR]
        fit = self.fit(leaf)
        slots = fit.slots if fit.company is None else fit.anywhere
        room = np.bincount(books.kind, weights=slots[-1], minlength=len(books.kinds))
        found = [f for f in range(len(books.kinds)) if room[f] >= leaf.count]
        return sorted(found, key=lambda f: (-room[f], books.kinds[f]))

    def _single(self, leaf: Part, fit: Fit, within: Within) -> Iterator[Seats]:
        if fit.room(within.level, within.domain):
            yield self.seats(leaf, [(pick(fit, within), 1)])

    def _by_domain(
        self, leaf: Part, fit: Fit, within: Within, rule: str, present: Ints | None
    ) -> Iterator[Seats]:
        """Yield places by the tightest domain that holds all, fewest or evenly inside."""
        room = room_for(fit, leaf.slices)
        count = leaf.count // leaf.slices[0][1] if leaf.slices else leaf.count
        if rule == "e-spread":
            for level, inside in self._levels(leaf, room, within, spread=True):
                domains = holding(room, level, inside, count)
                for chosen in evenest_of(room, level, domains, count, present):
                    yield self.seats(leaf, self._open_slices(fit, leaf.slices, chosen))
            return
        for level, inside in self._levels(leaf, room, within, spread=False):
            bound = fit.fewest_possible(level, leaf.count) if not leaf.slices else ()
            domains = holding(room, level, inside, count)
            for chosen in fewest_of(room, level, domains, count, bound):
                yield self.seats(leaf, self._open_slices(fit, leaf.slices, chosen))

    def _levels(
        self, leaf: Part, room: Room, within: Within, *, spread: bool
    ) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the levels to look for one domain at: the tightest allowed, then upwards.

        With each level come its domains inside `within`: first, and one past the last.
        """
        top = max(leaf.required, within.level)
        start = room.bottom
        if spread:
            start = self.profile.spread_level(self.books.tree)
        elif leaf.preferred != NO_LEVEL:
            start = leaf.preferred
        for level in range(max(min(start, room.bottom), top), top - 1, -1):
            yield level, room.tree.inside(within.level, within.domain, level)

    def _open_slices(
        self, fit: Fit, slices: tuple[tuple[int, int], ...], chosen: Chosen
    ) -> list[tuple[int, int]]:
        """Turn domains with slices in them into rows with tasks."""
        if not slices:
            return chosen
        (level, size), inner = slices[0], slices[1:]
        step = inner[0][1] if inner else 1
        room = room_for(fit, inner)
        rows: list[tuple[int, int]] = []
        for domain, units in chosen:
            _, below = fewest(room, level, domain, units * size // step)
            rows += self._open_slices(fit, inner, below)
        return rows

    def seats(self, leaf: Part, rows: list[tuple[int, int]]) -> Seats:
        """Choose devices for so many tasks on each row; rows that look alike are looked at once."""
        demand, books = leaf.demand, self.books
        assert demand is not None
        seats = Seats(leaf, [], [])
        known: dict[tuple[int, int, int], list[int]] = {}
        for row, count in rows:
            key = (books.layout_of[row], books.whole_of[row], count)
            masks = known.get(key)
            if masks is None:
                masks = choose_many(books, demand, row, count, self.profile.devices)
                if demand.kind <= DeviceKind.WHOLE:
                    known[key] = masks
            seats.rows.extend([row] * count)
            seats.devices.extend(masks)
        return seats

    def _by_score(self, leaf: Part, fit: Fit, within: Within, rule: str) -> Iterator[Seats]:
        """Place the tasks one after the other, each on the node with the best score."""
        demand = leaf.demand
        assert demand is not None
        if leaf.slices:
            yield from self._by_domain(leaf, fit, within, "e-binpack", None)
            return
        score = self.profile.scores[rule]
        # Several tasks with several shares each may need each other's devices: chosen in the end.
        together = leaf.count > 1 and demand.kind is DeviceKind.SHARED and demand.shape.gpus > 1
        for level, domain in self._scored_domains(leaf, fit, within):
            mark = self.books.checkpoint()
            seats = Seats(leaf, [], [])
            for _ in range(leaf.count):
                row = score.pick(fit, self.books.tree.rows(level, domain))
                if together:
                    mask = emptiest(self.books, demand, row)
                else:
                    mask = score.devices(fit, row, self.profile.devices)
                seats.rows.append(row)
                seats.devices.append(mask)
                if leaf.count > 1:
                    self.books.take(demand, (row,), (mask,), 0)
                    fit.refresh()
            self.books.rollback(mark)
            yield self.seats(leaf, sorted(Counter(seats.rows).items())) if together else seats

    def _scored_domains(self, leaf: Part, fit: Fit, within: Within) -> Iterator[tuple[int, int]]:
        if leaf.required <= within.level:
            if fit.room(within.level, within.domain) >= leaf.count:
                yield within.level, within.domain
            return
        inside = self.books.tree.inside(within.level, within.domain, leaf.required)
        for domain in holding(room_for(fit, ()), leaf.required, inside, leaf.count):
            yield leaf.required, domain

    def _one_by_one(self, leaf: Part, fit: Fit, within: Within) -> Iterator[Seats]:
        """Place tasks that have terms about others: each is placed in sight of the last."""
        room = Room(self.books.tree, fit.anywhere, self.books.used)
        top = max(leaf.required, within.level)
        assert fit.company is not None
        for level, inside in self._levels(leaf, room, within, spread=False):
            if level > top and (leaf.count == 1 or fit.company.has_wishes):
                continue  # what it likes may be anywhere
            tries = None if level == top else COMPARED
            for domain in islice(holding(room, level, inside, leaf.count), tries):
                mark = self.books.checkpoint()
                seats = Seats(leaf, [], [])
                found = self._in_sight(fit, Within(level, domain), leaf, seats)
                self.books.rollback(mark)
                fit.refresh()
                if found:
                    yield seats

    def _in_sight(self, fit: Fit, within: Within, run: Part, seats: Seats) -> bool:
        """Book the tasks of a run inside a domain, slice by slice; say whether all had a place."""
        run = run.inside(within.level)
        if not run.slices:
            rows = self.books.tree.rows(within.level, within.domain)
            return all(self._seat_in_sight(fit, rows, seats) for _ in range(run.count))
        (level, size), inner = run.slices[0], run.slices[1:]
        part = run.run_of(size, inner)
        for _ in range(run.count // size):
            low, high = self.books.tree.inside(within.level, within.domain, level)
            used = self.books.used_of[level]
            order = sorted(range(low, high), key=lambda d: (-used[d], d))
            if not any(self._try_in_sight(fit, Within(level, d), part, seats) for d in order):
                return False
        return True

    def _try_in_sight(self, fit: Fit, within: Within, run: Part, seats: Seats) -> bool:
        mark, before = self.books.checkpoint(), len(seats.rows)
        if self._in_sight(fit, within, run, seats):
            return True
        self.books.rollback(mark)
        del seats.rows[before:], seats.devices[before:]
        return False

    def _seat_in_sight(self, fit: Fit, rows: slice, seats: Seats) -> bool:
        row = pick_social(fit, rows)
        if row < 0:
            return False
        mask = choose_devices(self.books, fit.demand, row, self.profile.devices)
        self.books.take(fit.demand, (row,), (mask,), 0)
        seats.rows.append(row)
        seats.devices.append(mask)
        return True


def pick(fit: Fit, within: Within) -> int:
    """Return the row for one task, which fits: used nodes first, in the most used domains."""
    tree, used = fit.books.tree, fit.books.used
    top, domain = within.level, within.domain
    partly = bool(fit.partly_of[top][domain])
    columns = fit.partly if partly else fit.slots
    if not top:
        top, domain = fit.favourite(partly=partly)
    for level in range(top, tree.leaf_level):
        first = tree.child_of[level]
        low, high = first[domain], first[domain + 1]
        if high - low == 1:
            domain = low
            continue
        domain = low + _busiest(used[level + 1][low:high], columns[level + 1][low:high])
    return domain


def _busiest(used: Ints, slots: Counts) -> int:
    """Return the first of the most used that have a slot."""
    if len(used) > 32:
        key = used + 1
        key *= slots > 0
        return int(key.argmax())
    best, most = 0, -1
    for i, (use, free) in enumerate(zip(used.tolist(), slots.tolist(), strict=True)):
        if use > most and free:
            best, most = i, use
    return best


def pick_social(fit: Fit, area: slice) -> int:
    """Return the row for one task with terms: best liked, then most used, then first."""
    fit.refresh()
    rows = np.flatnonzero(fit.slots[-1][area] > 0) + area.start
    if not len(rows):
        return -1
    assert fit.company is not None
    liking = fit.company.liking()[rows]
    order = np.lexsort((rows, -fit.books.used[-1][rows], -liking))
    return int(rows[order[0]])
