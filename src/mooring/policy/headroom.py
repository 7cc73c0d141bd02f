"""Promised room: so many devices within so many seconds, for the work of one queue.

A promise is kept by devices that the queue uses already, by idle ones, and by *loans*: devices of
work that was let in because it can leave in time. Whoever is on loan is a guest, marked at its
start until it leaves, and makes room at once for work of the queue that stays within the promise.
Work that cannot leave in time is not let in where a promise would break.

What is owed is counted, not tied to devices: a device that is in use by the queue, idle, or on loan
serves one promise, and all promises together are a matching of devices to promises.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.books import BY_NODE, FIRST_ASSIGNMENT, bits
from mooring.model.cluster import WHOLE
from mooring.model.demand import DeviceKind
from mooring.model.entry import NOWHERE
from mooring.model.plan import Promised
from mooring.model.resources import GPU, GPU_ROW
from mooring.model.workload import TaskState
from mooring.policy.placing.search import CutShortError, place
from mooring.policy.queues.tree import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mooring.model.columns import Bools
    from mooring.model.entry import Entry
    from mooring.model.memory import Memory
    from mooring.model.plan import Reason
    from mooring.model.settings import Headroom
    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Ask
    from mooring.policy.placing.beside import Beside, Found
    from mooring.policy.placing.place import Seats
    from mooring.policy.queues.offers import Offer
    from mooring.policy.victims.evict import Victim

Loan = tuple[str, str, tuple[int, ...], str]
"""Workload, group, tasks, and the queue that lends."""
Supply = dict[tuple[int, ...], int]
"""Thousandths of devices by the promises that they could serve."""
Parts = list[tuple["Sequence[int]", "Seats"]]
"""Tasks of a group, and their seats."""


@dataclass(frozen=True, slots=True)
class Promise:
    """How a promise stands."""

    queue: str
    flavor: str
    gpus: int
    within_s: float
    used: int
    """Devices that work of the queue has already."""
    idle: int
    """Devices that nobody has, of this flavor."""
    lent: int
    """Devices of guests who would be gone in time."""
    missing: int
    """What it is short of, with all other promises in mind."""

    @property
    def is_kept(self) -> bool:
        """Return whether all that was promised could be had in time."""
        return not self.missing


class Promises:
    """The promises of a policy, and who is on loan, at one desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.loans: dict[str, dict[tuple[str, int], int]] = {}
        """By workload and (group, task), the queue on whose room it is."""
        self._lent: dict[str, Counter[tuple[int, float]]] = {}
        """What the books say is lent to each workload."""
        self._touched: dict[str, None] = {}
        self._remembered: dict[str, None] = {}
        """Who was on loan in an earlier life and has not been seen in this one."""
        self._epoch = -1
        self._rows: Bools = np.zeros(0, np.bool_)
        self._queues: tuple[int, ...] = ()

    @property
    def given(self) -> tuple[Headroom, ...]:
        """Return the promises."""
        return self.desk.policy.headroom

    def renew(self) -> None:
        """Look at queues and policy anew; who is on loan from nobody is no guest any more."""
        self._queues = tuple(self.desk.books.queue(each.queue) for each in self.given)
        for name, tasks in self.loans.items():
            self.loans[name] = {t: q for t, q in tasks.items() if q in self._queues}
            self.desk.moved[name] = None
        self._touched.update(dict.fromkeys(self.loans))

    def touch(self, name: str) -> None:
        """Note that something of a workload started or left."""
        if name in self.loans:
            self._touched[name] = None

    # -- who is on loan ---------------------------------------------------------------------

    def settle(self) -> None:
        """Let the books know what is lent now; never while something is tried."""
        books = self.desk.books
        if not self.given and not self.loans:
            return
        if self._epoch != books.epoch:
            self._epoch = books.epoch
            self._rows = books.present & np.array([node.ready for node in books.nodes], np.bool_)
            self._touched.update(dict.fromkeys(self.loans))
        for name in self._touched:
            entry = self.desk.entries.get(name)
            if entry is not None:
                self._remembered.pop(name, None)
            elif name not in self._remembered:
                del self.loans[name]
            before = self._lent.pop(name, Counter())
            after = Counter[tuple[int, float]]() if entry is None else self._count(entry)
            for key in dict.fromkeys((*before, *after)):
                total = books.lent.pop(key, 0) + after[key] - before[key]
                if total:
                    books.lent[key] = total  # a fact, not a trial: nothing takes it back
            if after:
                self._lent[name] = after
        self._touched.clear()

    def _count(self, entry: Entry) -> Counter[tuple[int, float]]:
        """Return what a workload has on loan, and forget the tasks of it that are gone."""
        name, found = entry.workload.name, Counter[tuple[int, float]]()
        kept = self.loans[name] = {
            (group, task): lender
            for (group, task), lender in self.loans[name].items()
            if _has_place(entry, group, task)
        }
        if not kept:
            del self.loans[name]
        for group, task in kept:
            members = entry.members[group]
            if members.states[task] != TaskState.RELEASING:
                kind = self.desk.books.kind_of[members.rows[task]]
                found[kind, self.leave_s(entry)] += members.demand.shape.gpus
        return found

    def withdraw(self, victim: Victim, sign: int = 1) -> None:
        """Book that a victim who is on loan is gone (or, negative, back), while that is tried."""
        entry, loans = victim.entry, self.loans.get(victim.entry.workload.name, ())
        for group, task in victim.tasks if loans else ():
            members = entry.members[group]
            if (group, task) in loans and members.states[task] != TaskState.RELEASING:
                kind = self.desk.books.kind_of[members.rows[task]]
                devices = members.demand.shape.gpus
                self.desk.books.lend(kind, self.leave_s(entry), -sign * devices)

    def lender(self, name: str, tasks: Iterable[tuple[str, int]]) -> int:
        """Return the queue on whose room some of these tasks are; `NOBODY`: they are no guests."""
        loans = self.loans.get(name)
        return next((loans[task] for task in tasks if task in loans), NOBODY) if loans else NOBODY

    def leave_s(self, entry: Entry) -> float:
        """Return how soon a workload would be gone if it had to, at worst."""
        rules, workload = self.desk.policy.eviction, entry.workload
        least = max(workload.minimum_run_s, dict(rules.minimum_run_s).get("headroom", 0.0))
        return least + (rules.leave_s if workload.leave_s is None else workload.leave_s)

    def load(self, memory: Memory) -> None:
        """Take in who was on loan."""
        for name, group, tasks, queue in memory.loans if self.given else ():
            lender = self.desk.books.queue(queue)
            self.loans.setdefault(name, {}).update({(group, task): lender for task in tasks})
            self._remembered[name] = None

    def dump(self) -> tuple[Loan, ...]:
        """Return who is on loan."""
        found: dict[tuple[str, str, str], list[int]] = {}
        for name, loans in self.loans.items():
            for (group, task), queue in loans.items():
                found.setdefault((name, group, self.desk.books.queues[queue]), []).append(task)
        return tuple((name, group, tuple(ts), queue) for (name, group, queue), ts in found.items())

    # -- what there is ----------------------------------------------------------------------

    def _serves(self, kind: int, leave_s: float = 0.0) -> tuple[int, ...]:
        """Return the promises that a device on such nodes could serve, so soon."""
        names = self.desk.books.kinds[kind]
        return tuple(
            i
            for i, promise in enumerate(self.given)
            if leave_s <= promise.within_s and (not promise.flavor or promise.flavor in names)
        )

    def _own(self, queue: int, code: int) -> tuple[int, ...]:
        """Return the promises that what a queue is charged to a flavor counts for."""
        books = self.desk.books
        names: tuple[str, ...] = ()
        if code >= 0:
            names = books.kinds[code]
        elif code != BY_NODE:
            names = (dict(books.assignments[FIRST_ASSIGNMENT - code]).get(GPU, ""),)
        path = self.desk.tree.path[queue] if queue < self.desk.tree.count else (queue,)
        return tuple(
            i
            for i, promise in enumerate(self.given)
            if self._queues[i] in path and (not promise.flavor or promise.flavor in names)
        )

    def _idle(self) -> list[int]:
        """Return the idle devices of each kind of nodes."""
        books = self.desk.books
        free = books.open[GPU_ROW] * self._rows
        return [int(n) for n in np.bincount(books.kind, free, len(books.kinds))]

    def _used(self) -> list[tuple[tuple[int, ...], int]]:
        """Return what queues with a promise use: promises that it counts for, and thousandths."""
        charged = self.desk.books.devices_charged()
        found = [(self._own(*key), milli) for key, milli in charged.items()]
        return [(own, milli) for own, milli in found if own]

    def _supply(self) -> Supply:
        """Return all that could serve a promise, in the books as they are."""
        found: Supply = {}
        for kind, devices in enumerate(self._idle()):
            _add(found, self._serves(kind), devices * WHOLE)
        for (kind, leave_s), devices in self.desk.books.lent.items():
            _add(found, self._serves(kind, leave_s), devices * WHOLE)
        for kind, devices in self._leaving().items():
            _add(found, self._serves(kind), devices * WHOLE)
        for own, milli in self._used():
            _add(found, own, milli)
        return found

    def _leaving(self) -> Counter[int]:
        """Return the devices of guests on their way out that are kept for nobody, by kind."""
        books, found = self.desk.books, Counter[int]()
        for name, loans in self.loans.items():
            entry = self.desk.entries.get(name)
            if entry is None:
                continue
            for group, task in loans:
                if _has_place(entry, group, task, releasing=True):
                    members = entry.members[group]
                    row, devices = members.rows[task], bits(members.devices[task])
                    unheld = [d for d in devices if not books.share_of[d][row]]
                    found[books.kind_of[row]] += len(unheld)
        return found

    def missing(self, change: Mapping[tuple[int, ...], int] | None = None) -> int:
        """Return how many devices all promises together are short of, if the supply changed so."""
        if not self.given:
            return 0
        supply = self._supply()
        for serves, milli in (change or {}).items():
            _add(supply, serves, milli)
        needs = [promise.gpus * WHOLE for promise in self.given]
        return (sum(needs) - sum(matched(supply, needs))) // WHOLE

    def report(self) -> tuple[Promise, ...]:
        """Return how every promise stands."""
        if not self.given:
            return ()
        self.settle()
        supply = self._supply()
        got = matched(supply, [promise.gpus * WHOLE for promise in self.given])
        idle, used, lent = self._idle(), self._used(), self.desk.books.lent
        return tuple(
            Promise(
                promise.queue,
                promise.flavor,
                promise.gpus,
                promise.within_s,
                sum(milli for own, milli in used if i in own) // WHOLE,
                sum(n for kind, n in enumerate(idle) if i in self._serves(kind)),
                sum(n for key, n in lent.items() if i in self._serves(*key)),
                (promise.gpus * WHOLE - got[i]) // WHOLE,
            )
            for i, promise in enumerate(self.given)
        )

    # -- who may start ----------------------------------------------------------------------

    # wide: who asks, what there is, and why not
    def lawful(
        self, entry: Entry, ask: Ask, found: Iterable[Offer], reasons: list[Reason]
    ) -> Iterator[Offer]:
        """Yield offers without the nodes where a promise would break; loans come last."""
        if not self.given:
            yield from found
            return
        self.settle()
        before, wanted = self.missing(), _whole_devices(ask)
        refused: list[tuple[Offer, list[int]]] = []
        for offer in found:
            free, lent, closed = list[int](), list[int](), list[int]()
            for kind in self._kinds(offer):
                if self._is_owed(entry, kind, wanted) or self._may(kind, wanted, before):
                    free.append(kind)
                elif self._may(kind, wanted, before, self._loan_s(entry)):
                    lent.append(kind)
                else:
                    closed.append(kind)
            if free or not self.desk.books.kinds:
                yield self._only(offer, free)
            if lent:
                yield self._only(offer, [*free, *lent])
            if closed:
                refused.append((offer, closed))
        if not reasons:
            reasons += self._in_the_way(entry, refused)

    def _in_the_way(self, entry: Entry, refused: Sequence[tuple[Offer, list[int]]]) -> list[Reason]:
        """Return the promise without which there would be a place; empty: there is none anyway."""
        books, placer = self.desk.books, self.desk.placer
        for offer, kinds in refused:
            mark = books.checkpoint()
            placer.aim(offer.ask.avoid, self._only(offer, kinds).barred)
            try:
                seats = place(placer, offer.ask, entry.account)
            except CutShortError:
                seats = None
            books.rollback(mark)
            if seats is not None:
                return [self._promised(self._serves(kinds[0]))]
        return []

    def _kinds(self, offer: Offer) -> list[int]:
        """Return the kinds of nodes that an offer is for."""
        return [kind for kind in range(len(self.desk.books.kinds)) if kind not in offer.barred]

    def _only(self, offer: Offer, kinds: Sequence[int]) -> Offer:
        """Return an offer for these kinds of nodes alone."""
        every = range(len(self.desk.books.kinds))
        return replace(offer, barred=tuple(kind for kind in every if kind not in kinds))

    def _may(self, kind: int, wanted: int, before: int, loan_s: float | None = -1.0) -> bool:
        """Return whether so many idle devices may be taken, perhaps as a loan."""
        if loan_s is None:
            return False
        if not wanted or self._idle()[kind] < wanted:
            return True  # not that it could: then there is no room, and that is told
        change: Supply = {}
        _add(change, self._serves(kind), -wanted * WHOLE)
        if loan_s >= 0:
            _add(change, self._serves(kind, loan_s), wanted * WHOLE)
        return self.missing(change) <= before

    def _loan_s(self, entry: Entry) -> float | None:
        """Return how soon a workload on loan would be gone; None: it cannot be made to leave."""
        return None if entry.is_fixed else self.leave_s(entry)

    def _is_owed(self, entry: Entry, kind: int, wanted: int) -> bool:
        """Return whether so many more devices are within what the queue was promised there."""
        return self.owed_s(entry, [kind], wanted * WHOLE) is not None

    def owed_s(self, entry: Entry, kinds: Iterable[int], milli: int) -> float | None:
        """Return how soon a queue was promised so much more; None: that is not within a promise."""
        used = self._used()
        found = [
            self.given[i].within_s
            for i in dict.fromkeys(i for kind in kinds for i in self._own(entry.queue, kind))
            if sum(more for own, more in used if i in own) + milli <= self.given[i].gpus * WHOLE
        ]
        return max(found, default=None)

    def owed_to(self, entry: Entry, offer: Offer) -> float | None:
        """Return how soon guests must make room for an offer; None: it has no such right."""
        if not self.given:
            return None
        leaves = [(leaf.demand, leaf.count) for leaf in offer.ask.leaves]
        milli = sum((demand.weight - 1) * count for demand, count in leaves if demand)
        return self.owed_s(entry, self._kinds(offer), milli)

    def keeps(self, entry: Entry, seats: Iterable[Seats], before: int) -> bool:
        """Return whether booked seats leave all promises as they were, or are owed."""
        if not self.given or self.missing() <= before:
            return True
        kinds = dict.fromkeys(self.desk.books.kind_of[row] for each in seats for row in each.rows)
        return all(self.owed_s(entry, [kind], 0) is not None for kind in kinds)

    def admits(
        self, entry: Entry, found: Sequence[Seats], before: int, reasons: list[Reason]
    ) -> bool:
        """Return whether tasks may start on booked seats, perhaps as a loan."""
        if self.keeps(entry, found, before):
            return True
        loan = self._as_loan(entry, found)
        if loan and self.missing(loan) <= before:
            return True
        serves = [self._serves(self.desk.books.kind_of[row]) for each in found for row in each.rows]
        reasons.append(self._promised(next(filter(None, serves), (0,))))
        return False

    def mark(self, entry: Entry, found: Sequence[Seats]) -> None:
        """Mark the first tasks that wait as guests, if they may start on booked seats only so."""
        if self.given:
            pending = [entry.members[each.part.name].pending() for each in found]
            self._mark(entry, list(zip(pending, found, strict=True)))

    def _mark(self, entry: Entry, parts: Parts) -> None:
        found = [seats for _, seats in parts]
        back, loan = self._as_loan(entry, found, leave_s=0.0), self._as_loan(entry, found)
        if not loan or self.keeps(entry, found, self.missing(back)):
            return
        lender = self._queues[next(iter(loan))[0]]
        loans = self.loans.setdefault(entry.workload.name, {})
        for tasks, seats in parts:
            for task in tasks[: len(seats.rows)]:
                loans[seats.part.name, task] = lender

    def _as_loan(
        self, entry: Entry, found: Sequence[Seats], leave_s: float | None = None
    ) -> Supply:
        """Return what booked seats would still supply as a loan; empty: they cannot be one."""
        leave_s, change = self._loan_s(entry) if leave_s is None else leave_s, Supply()
        demands = [(seats, seats.part.demand) for seats in found]
        if leave_s is None or any(d is None or d.kind > DeviceKind.WHOLE for _, d in demands):
            return change  # it could not be made to leave, or others may be on the same devices
        for seats, demand in demands:
            for row in seats.rows if demand else ():
                serves = self._serves(self.desk.books.kind_of[row], leave_s)
                _add(change, serves, demand.shape.gpus * WHOLE if demand else 0)
        return change

    def place_beside(
        self,
        entry: Entry,
        beside: Beside,
        wanted: Mapping[str, Sequence[int]],
        reasons: list[Reason],
    ) -> Found | None:
        """Book places for more tasks of a workload, if no promise breaks; None: nothing booked."""
        if not self.given:
            return beside.place(wanted)
        self.settle()
        before, mark = self.missing(), self.desk.books.checkpoint()
        found = beside.place(wanted)
        if found is None:
            return None
        if self.admits(entry, [seats for _, seats in found], before, reasons):
            self._mark(entry, found)
            return found
        self.desk.books.rollback(mark)
        return None

    def _promised(self, serves: tuple[int, ...]) -> Promised:
        promise = self.given[serves[0]]
        return Promised(promise.queue, promise.gpus)

    def copy(self, desk: Desk) -> Promises:
        """Return the promises of a fork."""
        new = Promises(desk)
        new.loans = {name: dict(loans) for name, loans in self.loans.items()}
        new._lent = {name: counter.copy() for name, counter in self._lent.items()}
        new._touched, new._remembered = dict(self._touched), dict(self._remembered)
        new._queues = self._queues
        new._epoch, new._rows = self._epoch, self._rows
        return new


def _add(supply: Supply, serves: tuple[int, ...], milli: int) -> None:
    if serves and milli:
        supply[serves] = supply.get(serves, 0) + milli


def _has_place(entry: Entry, group: str, task: int, *, releasing: bool = False) -> bool:
    """Return whether a task has a place, perhaps only if it is on its way out."""
    members = entry.members.get(group)
    if members is None or task >= len(members.rows) or members.rows[task] == NOWHERE:
        return False
    return not releasing or members.states[task] == TaskState.RELEASING


def _whole_devices(ask: Ask) -> int:
    """Return how many devices an ask takes for itself; shares may find room beside others."""
    whole = [leaf for leaf in ask.leaves if leaf.demand and leaf.demand.kind is DeviceKind.WHOLE]
    return sum(leaf.count * leaf.demand.shape.gpus for leaf in whole if leaf.demand)


def matched(supply: Mapping[tuple[int, ...], int], needs: Sequence[int]) -> list[int]:
    """Return how much each need gets of a supply that serves some of them; the first ones first."""
    classes = [(serves, amount) for serves, amount in supply.items() if amount > 0]
    left = [amount for _, amount in classes]
    given = [[0] * len(classes) for _ in needs]
    got = [0] * len(needs)
    for need, wanted in enumerate(needs):
        while got[need] < wanted:
            way = _way_to_more(need, classes, left, given)
            if way is None:
                break
            source = way[-1][1]
            swaps = [given[other][c] for (_, c), (other, _) in pairwise(way)]
            amount = min([wanted - got[need], left[source], *swaps])
            left[source] -= amount
            _shift(given, way, amount)
            got[need] += amount
    return got


Way = list[tuple[int, int]]
"""Needs, each with the class that it gets more of; from the first on at the expense of the next."""


def _way_to_more(
    need: int,
    classes: Sequence[tuple[tuple[int, ...], int]],
    left: Sequence[int],
    given: Sequence[Sequence[int]],
) -> Way | None:
    """Return how a need could get more: of what is left, or of what another can replace."""
    ways: list[Way] = [[(need, -1)]]
    seen = {need}
    for way in ways:
        at = way[-1][0]
        for c in (c for c, (serves, _) in enumerate(classes) if at in serves):
            if left[c]:
                return [*way[:-1], (at, c)]
            others = [n for n in classes[c][0] if given[n][c] and n not in seen]
            seen.update(others)
            ways += [[*way[:-1], (at, c), (other, -1)] for other in others]
    return None


def _shift(given: list[list[int]], way: Way, amount: int) -> None:
    """Let every need on a way get more of its class, the next one less of it."""
    for need, c in way:
        given[need][c] += amount
    for (_, c), (other, _) in pairwise(way):
        given[other][c] -= amount
