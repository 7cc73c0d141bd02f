"""Defragmentation: moves of running work that let others start, or that close gaps.

A plan is made on the books, between a checkpoint and a rollback, step by step. A step moves the
cheapest workloads without which one that waits has a place, and all of them have a place again; or,
where nobody waits for that, it empties a node of which a part is allocated so that fewer such nodes
are left. Only whole workloads are moved, only those that may be made to leave, and only on nodes of
the same kind, so that nobody is charged for anything else than before.

A start makes the line of all who run longer, and a step for nobody lowers fragmentation: neither
can be undone by another, so this never goes round in circles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Protocol

import numpy as np

from mooring.model.books import BY_NODE
from mooring.model.cluster import WHOLE
from mooring.model.entry import Entry
from mooring.model.invoice import Gain, Invoice, Move
from mooring.policy.desk import Desk
from mooring.policy.fragments import crumbs, gpu_columns, gpu_node_fragmentation_ratio
from mooring.policy.placing.place import Seats
from mooring.policy.queues.offers import Offer, gate, offers
from mooring.policy.standing.roll import Roll, price
from mooring.policy.victims.displace import Choice, CutShortSearchError, Pool, Steps
from mooring.policy.victims.evict import Victim, attempt, remove, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.model.books import Books
    from mooring.model.columns import Ints
    from mooring.model.entry import Members
    from mooring.model.workload import Placement
    from mooring.policy.placing.ask import Ask
    from mooring.policy.queues.lines import Request
    from mooring.policy.standing.line import Name
    from mooring.policy.victims.departures import TaskKey

HOUR = 3600.0
HORIZON_S = 86_400.0
"""What a wait is counted as of which no end is in sight."""
HELPED = 16
"""For how many different asks, the first in line, moves are looked for."""
MANY, NEAR = 128, 32
"""Of more than many who may be moved only those on so many nodes are looked at."""
TRIES = 8
"""How often others are looked for instead of one who has no other place."""

Expected = Callable[[Entry], float]
"""How long a running workload is expected to run yet; infinite: nobody knows."""


class Waiting(Protocol):
    """Those who wait to start, while a plan is made."""

    def __iter__(self) -> Iterator[Entry]:
        """Yield them as they would be served, by the books as they are at each step."""

    def barred(self, entry: Entry) -> tuple[int, ...]:
        """Return the kinds of nodes that others wait for whom a workload may not pass."""

    def would_delay(self, steps: Sequence[Step]) -> bool:
        """Return whether somebody would start later than told for the last of booked steps."""

    def help(self, entry: Entry) -> None:
        """Note that a workload starts by moves."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a plan may come to."""

    moves: int
    ratio: float = 0.0
    """Least benefit over cost of every step."""
    budget: float = inf
    """GPU-hours that may be lost."""


@dataclass(frozen=True, slots=True, eq=False)
class Mover:
    """A running workload, and its other place."""

    victim: Victim
    seats: list[Seats]
    which: Sequence[Sequence[int]]
    """The tasks of each of the seats."""
    cost: float


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Some moves, and who starts by them."""

    movers: tuple[Mover, ...]
    entry: Entry | None = None
    """None: nobody."""
    seats: list[Seats] = field(default_factory=list)
    earlier_s: float | None = None
    saved: float = 0.0

    @property
    def cost(self) -> float:
        """Return the GPU-hours that are lost."""
        return sum(mover.cost for mover in self.movers)


@dataclass(slots=True)
class Draft:
    """A plan: all places are proven, nothing is booked."""

    desk: Desk
    steps: list[Step]
    gfr: tuple[float, float]

    @property
    def cost(self) -> float:
        """Return the GPU-hours that are lost."""
        return sum(step.cost for step in self.steps)

    def invoice(self) -> Invoice:
        """Return the plan, priced."""
        cost, saved = self.cost, sum(step.saved for step in self.steps)
        ratio = saved / cost if cost else None
        moves = tuple(self._move(step, mover) for step in self.steps for mover in step.movers)
        gains = tuple(gain for step in self.steps for gain in self._gains(step))
        return Invoice(self.desk.now, moves, gains, cost, saved, ratio, *self.gfr)

    def _move(self, step: Step, mover: Mover) -> Move:
        entry = mover.victim.entry
        names = self.desk.books.tree.names[-1]
        rows = [entry.members[group].rows[task] for group, task in mover.victim.tasks]
        to = zip(mover.which, mover.seats, strict=True)
        return Move(
            entry.workload.name,
            tuple(dict.fromkeys(names[row] for row in rows)),
            tuple(self.desk.placement(tasks, seats) for tasks, seats in to),
            mover.cost,
            step.entry.workload.name if step.entry else "",
        )

    def _gains(self, step: Step) -> Iterator[Gain]:
        entry = step.entry
        if entry is not None:
            name, gpus = entry.workload.name, devices_of(step.seats)
            yield Gain(name, gpus, self._first(entry, step.seats), step.earlier_s, step.saved)

    def _first(self, entry: Entry, found: Sequence[Seats]) -> tuple[Placement, ...]:
        return tuple(
            self.desk.placement(entry.members[each.part.name].pending()[: len(each.rows)], each)
            for each in found
        )

    def carry_out(self) -> list[Entry]:
        """Let all who are moved leave, and keep all places; return who starts by that."""
        desk = self.desk
        on: dict[int, list[TaskKey]] = {}
        for step in self.steps:
            cause, name = ("move", step.entry.workload.name) if step.entry else ("defragment", "")
            for mover in step.movers:
                for key, row in _places(mover.victim):
                    on.setdefault(row, []).append(key)
                desk.evict_all(mover.victim.entry, cause, name)
        for step in self.steps:
            if step.entry is not None:
                desk.holds.keep(step.entry, step.seats, _in_the_way(on, step.seats))
            for mover in step.movers:
                own = [key for key, _ in _places(mover.victim)]
                leaving = (*own, *_in_the_way(on, mover.seats))
                started = mover.victim.entry.started_at
                desk.holds.keep(mover.victim.entry, mover.seats, leaving, mover.which)
                desk.holds.keep_start(mover.victim.entry, started)
        return [step.entry for step in self.steps if step.entry is not None]


def _places(victim: Victim) -> Iterator[tuple[TaskKey, int]]:
    """Yield the tasks of a victim, and where they are."""
    entry = victim.entry
    for group, task in victim.tasks:
        yield (entry.workload.name, group, task), entry.members[group].rows[task]


def _in_the_way(on: dict[int, list[TaskKey]], found: Sequence[Seats]) -> list[TaskKey]:
    """Return those who leave the nodes of seats."""
    rows = dict.fromkeys(row for each in found for row in each.rows)
    return [key for row in rows for key in on.get(row, ())]


def devices_of(found: Sequence[Seats]) -> float:
    """Return how many devices seats have."""
    some = [(each.part.demand, len(each.rows)) for each in found]
    return sum((demand.weight - 1) * count for demand, count in some if demand) / WHOLE


class Planner:
    """Makes one plan at one desk."""

    def __init__(self, desk: Desk, expected: Expected, bounds: Bounds) -> None:
        self.desk = desk
        self.bounds = bounds
        self.until = inf
        """When somebody may be moved who may not be moved now."""
        self.is_poor = False
        """Whether a step was too dear for what is left of the budget."""
        self._expected = expected
        self._steps = Steps(desk.policy.eviction.steps)
        self._way: object = None
        """How the one who is helped now would be charged."""
        self._found: list[Step] = []
        self._moved: dict[str, Mover] = {}
        self._movable: dict[str, Victim] = {}
        self._is_known = False
        """Whether it has been looked at who may be moved."""
        self._base = 0
        """Where the books were before the first step."""

    def run(self, waiting: Waiting) -> Draft | None:
        """Return a plan for those who wait to start, or else one that closes gaps."""
        desk, books = self.desk, self.desk.books
        desk.promises.settle()
        self._movable = {v.entry.workload.name: v for v in self._movers()}
        before = gpu_node_fragmentation_ratio(*gpu_columns(books))
        mark = self._base = books.checkpoint()
        try:
            self._help(waiting)
            if not self._found and self.bounds.ratio <= 0:
                self._close_gaps(waiting)
        except CutShortSearchError:
            pass  # what was found until then is a plan
        books.rollback(mark)
        for step in self._found:
            self._book(step)
        after = gpu_node_fragmentation_ratio(*gpu_columns(books))
        books.rollback(mark)
        return Draft(desk, self._found, (before, after)) if self._found else None

    def for_one(self, entry: Entry, ask: Ask, steps: Steps) -> Draft | None:
        """Return a plan by which one that waits starts; what it saves is not asked.

        It may be asked for the next one if nothing but that plan was carried out meanwhile.
        """
        desk, books = self.desk, self.desk.books
        desk.promises.settle()
        found = offers(desk, entry, ask, ask.barred, [])
        lawful = list(desk.promises.lawful(entry, ask, found, []))
        if lawful and not self._is_known:
            self._is_known = True
            self._movable = {v.entry.workload.name: v for v in self._movers()}
        self._steps = steps
        for offer in lawful if self._movable else ():
            mark = books.checkpoint()
            try:
                step = self._step_for(entry, offer)
            finally:
                books.rollback(mark)
            if step is not None:
                for mover in step.movers:
                    del self._movable[mover.victim.entry.workload.name]
                return Draft(desk, [step], (0.0, 0.0))
        return None

    # -- who may be moved -------------------------------------------------------------------

    def _movers(self) -> Iterator[Victim]:
        """Yield all who run, may be made to leave, and have run long enough to be moved."""
        desk = self.desk
        least = dict(desk.policy.eviction.minimum_run_s).get("move", 0.0)
        for name, entry in desk.entries.items():
            since = entry.running_since
            if since is None or entry.is_fixed or not entry.runs or name in desk.holds:
                continue
            if name in desk.overtakers or name in desk.promises.loans or entry.charged_only:
                continue  # a mark is given only at a start, and a move is none
            if any(members.is_releasing for members in entry.members.values()):
                continue
            movable_at = since + max(least, entry.workload.minimum_run_s)
            if movable_at > desk.now:
                self.until = min(self.until, movable_at)
            else:
                yield whole(entry, "move")

    # -- for one who waits ------------------------------------------------------------------

    def _help(self, waiting: Waiting) -> None:
        """Let those start who can by moves; of equal asks only the first is tried again."""
        tried: dict[object, None] = {}
        for entry in waiting:
            workload = entry.workload
            ask = (workload.groups, workload.topology, entry.queue, entry.avoid, entry.is_fixed)
            if ask in tried or gate(self.desk, entry) or not self._could(entry):
                continue
            if len(tried) == HELPED:
                return
            if self._help_one(entry, waiting):
                waiting.help(entry)
            else:
                tried[ask] = None

    def _could(self, entry: Entry) -> bool:
        """Return whether there is as much free, anywhere, as one asks for, and it asks for some."""
        return is_enough(free_of(self.desk), self.desk.ask_of(entry))

    def _help_one(self, entry: Entry, waiting: Waiting) -> bool:
        """Take a step for one that waits, if there is one that is worth it and delays nobody.

        It keeps off the kinds of nodes that it may not have before others.
        """
        desk, books, barred = self.desk, self.desk.books, waiting.barred(entry)
        closed = desk.closed_for(entry.workload.name)
        ask = desk.ask_of(entry)
        ask = replace(ask, avoid=(*ask.avoid, *closed), barred=barred)
        found = offers(desk, entry, ask, barred, [])
        for offer in desk.promises.lawful(entry, ask, found, []):
            mark = books.checkpoint()
            step = self._step_for(entry, offer)
            if step is None:
                continue
            books.rollback(mark)
            step = self._priced(step, self._wait_s(entry, offer))
            if not self._is_worth_it(step):
                continue
            mark = books.checkpoint()
            self._book(step)
            if not waiting.would_delay([*self._found, step]):
                self._take(step)
                return True
            books.rollback(mark)
        return False

    def _priced(self, step: Step, wait_s: float | None) -> Step:
        """Return a step with what it saves; it begins when all movers have left."""
        leaving = [self.desk.promises.leave_s(mover.victim.entry) for mover in step.movers]
        earlier = None if wait_s is None else max(0.0, wait_s - max(leaving, default=0.0))
        saved = devices_of(step.seats) * (HORIZON_S if earlier is None else earlier) / HOUR
        return replace(step, earlier_s=earlier, saved=saved)

    def _step_for(self, entry: Entry, offer: Offer) -> Step | None:
        """Return booked moves by which one has a place; None: nothing is booked."""
        self._way = (tuple(offer.request.items()), offer.barred)
        choice = Choice(Roll(self.desk), entry, offer, self._steps)
        seats = choice.prove(())
        if seats is not None:
            return self._prove(entry, seats, ())[0]
        pool = Pool(self._pool(offer))
        for _ in range(TRIES):
            found = choice.among(pool)
            if found is None or len(self._moved) + len(found[1]) > self.bounds.moves:
                return None
            step, stuck = self._prove(entry, *found)
            if stuck is None:
                return step
            pool.leave_out(stuck)
        return None

    def _pool(self, offer: Offer) -> list[Victim]:
        """Return whom to choose from: of many, those on the nodes where the least is missing."""
        movable = list(self._movable.values())
        if len(movable) <= MANY:
            return movable
        desk, books = self.desk, self.desk.books
        parts = [(part.demand, part) for part in offer.ask.leaves]
        some = [(demand, part) for demand, part in parts if demand is not None]
        demand, leaf = max(some, key=lambda each: each[0].weight * each[1].count)
        free = np.min([books.open[r] / amount for r, amount in demand.asks], axis=0)
        desk.placer.aim(offer.ask.avoid, offer.barred)
        free = np.clip(free, 0.0, leaf.count) * desk.placer.fit(leaf).allowed
        level = offer.ask.root.required
        if level > 0:  # first the domain where the least is missing
            free += books.tree.sums(level, free)[books.tree.domain[level]] * (leaf.count + 1)
        near = set(np.argsort(-free, kind="stable")[: max(NEAR, 2 * leaf.count)].tolist())
        return [v for v in movable if all(row in near for _, row in _places(v))]

    def _prove(
        self, entry: Entry, seats: list[Seats], victims: Sequence[Victim]
    ) -> tuple[Step | None, Victim | None]:
        """Book the place of one and other places of all who are in its way; or say who has none."""
        books = self.desk.books
        mark, missing = books.checkpoint(), self.desk.promises.missing()
        for victim in victims:
            remove(self.desk, victim)
        book(self.desk, entry, seats)
        movers, stuck = self._place_again(victims)
        if stuck is None and self.desk.promises.keeps(entry, seats, missing):
            return Step(tuple(movers), entry, seats), None
        books.rollback(mark)
        return None, stuck or (victims[0] if victims else None)

    def _place_again(
        self, victims: Sequence[Victim], avoid: tuple[str, ...] = ()
    ) -> tuple[list[Mover], Victim | None]:
        """Book other places for all who were removed, the largest first; or say who has none."""
        movers = []
        for victim in sorted(victims, key=lambda victim: (-_weight(victim), victim.entry.sequence)):
            mover = self._moved_to(victim, avoid, tuple(each.name for each in victims))
            if mover is None:
                return [], victim
            movers.append(mover)
        return movers, None

    def _moved_to(
        self, victim: Victim, avoid: tuple[str, ...], along: tuple[Name, ...]
    ) -> Mover | None:
        """Book another place for one who was removed along with others, in one step."""
        new: list[Mover] = []

        def book_again() -> list[Seats] | None:
            mover = place_again(self.desk, victim, avoid)
            if mover is None:
                return None
            new.append(mover)
            return mover.seats

        key = ("again", self._way, victim.name, avoid, along)
        seats = self._steps.of(key, book_again)
        if seats is None or new:
            return new[0] if new else None
        book(self.desk, victim.entry, seats)
        return mover_to(self.desk, victim, seats)

    def _is_worth_it(self, step: Step) -> bool:
        """Return whether a step is within the bounds."""
        cost = step.cost
        if cost + sum(other.cost for other in self._found) > self.bounds.budget:
            self.is_poor = True
            return False
        return step.saved >= self.bounds.ratio * cost

    def _take(self, step: Step) -> None:
        self._found.append(step)
        for mover in step.movers:
            name = mover.victim.entry.workload.name
            self._moved[name] = mover
            del self._movable[name]

    # -- how long it would wait -------------------------------------------------------------

    def _wait_s(self, entry: Entry, offer: Offer) -> float | None:
        """Return when one would start if those who run ended as expected; None: nobody knows.

        That is told without any step: who starts by earlier ones waits as well.
        """
        self.desk.books.rollback(self._base)
        ends = sorted(
            (max(0.0, left), other.sequence, other)
            for other in self.desk.running()
            if (left := self._expected(other)) < HORIZON_S
        )
        needed = self._ends_needed(entry, offer, [other for _, _, other in ends])
        self.desk.books.rollback(self._base)
        for step in self._found:
            self._book(step)
        if needed is None:
            return None
        return ends[needed - 1][0] if needed else 0.0

    def _ends_needed(self, entry: Entry, offer: Offer, ending: Sequence[Entry]) -> int | None:
        """Return how many of these must end, in order, before one has a place; None: all do not."""
        books = self.desk.books
        if self._has_place(entry, offer):
            return 0
        gone, step, enough = 0, 1, len(ending) + 1
        while gone < len(ending):
            mark = books.checkpoint()
            for other in ending[gone : gone + step]:
                remove(self.desk, whole(other, ""))
            if not self._has_place(entry, offer):
                gone += step
            elif step == 1:
                return gone + 1
            else:
                books.rollback(mark)
                enough = gone + step
            step = 2 * step if enough > len(ending) else max(1, (enough - gone) // 2)
        return None

    def _has_place(self, entry: Entry, offer: Offer) -> bool:
        """Return whether one could start in the books as they are."""
        self._steps.take()
        mark = self.desk.books.checkpoint()
        seats = attempt(self.desk, entry, offer)
        self.desk.books.rollback(mark)
        return seats is not None

    def _book(self, step: Step) -> None:
        """Book a step that was proven."""
        for mover in step.movers:
            remove(self.desk, mover.victim)
        placed = [(mover.victim.entry, mover.seats) for mover in step.movers]
        for entry, found in (*placed, *([(step.entry, step.seats)] if step.entry else [])):
            book(self.desk, entry, found)

    # -- for nobody -------------------------------------------------------------------------

    def _close_gaps(self, waiting: Waiting) -> None:
        """Empty nodes of which a part is allocated, the cheapest first, while that helps.

        What is there goes to the dearer half of them if it can, which then need not be emptied.
        """
        gaps, names = self._gaps(), self.desk.books.tree.names[-1]
        cheap = tuple(names[row] for row, _ in gaps[: (len(gaps) + 1) // 2])
        for _, victims in gaps:
            left = [v for v in victims if v.entry.workload.name in self._movable]
            if len(left) == len(victims) and len(self._moved) + len(left) <= self.bounds.moves:
                some = [replace(victim, cause="defragment") for victim in left]
                self._empty(some, cheap, waiting) or self._empty(some, (), waiting)

    def _empty(self, victims: Sequence[Victim], avoid: tuple[str, ...], waiting: Waiting) -> bool:
        """Move all who are on a node, but not to some nodes, if that leaves fewer in part used."""
        books, promises = self.desk.books, self.desk.promises
        before, missing = int(crumbs(*gpu_columns(books)).sum()), promises.missing()
        mark = books.checkpoint()
        for victim in victims:
            remove(self.desk, victim)
        movers, stuck = self._place_again(victims, avoid)
        step = Step(tuple(movers))
        fewer = stuck is None and int(crumbs(*gpu_columns(books)).sum()) < before
        is_good = fewer and promises.missing() <= missing and self._is_worth_it(step)
        if is_good and not waiting.would_delay([*self._found, step]):
            self._take(step)
            return True
        books.rollback(mark)
        return False

    def _gaps(self) -> list[tuple[int, list[Victim]]]:
        """Return the nodes that moves would empty, cheapest first, and who is there."""
        desk = self.desk
        on: dict[int, dict[str, None]] = {}
        for name, entry in desk.entries.items():
            for members in entry.members.values():
                for task in members.holding():
                    on.setdefault(members.rows[task], {})[name] = None
        rows = np.flatnonzero(crumbs(*gpu_columns(desk.books))).tolist()
        found = [
            (row, [self._movable[name] for name in on[row]])
            for row in rows
            if row in on and all(name in self._movable for name in on[row])
        ]
        costs = {row: sum(price(desk, victim) for victim in some) for row, some in found}
        return sorted(found, key=lambda gap: (costs[gap[0]], len(gap[1]), gap[0]))


def free_of(desk: Desk) -> Ints:
    """Return what is free on all nodes together, by resource."""
    there, some = desk.books.present, np.maximum(desk.books.open, 0)
    free: Ints = (some if there.all() else some[:, there]).sum(axis=1)  # rows outlive their nodes
    return free


def is_enough(free: Ints, ask: Ask) -> bool:
    """Return whether there is as much free as an ask is for, and it is for something.

    Moves cannot change that: all who are moved have a place again.
    """
    wanted: dict[int, int] = {}
    for leaf in ask.leaves:
        assert leaf.demand is not None
        for r, amount in leaf.demand.asks:
            wanted[r] = wanted.get(r, 0) + amount * leaf.count
    fits = all(amount <= free[r] for r, amount in wanted.items())
    return fits and not ask.problems and any(leaf.count for leaf in ask.leaves)


def book(desk: Desk, entry: Entry, found: Sequence[Seats]) -> None:
    """Book seats that are free."""
    for each in found:
        assert each.part.demand is not None
        desk.books.take(each.part.demand, each.rows, each.devices, entry.account, each.part.code)


def _weight(victim: Victim) -> int:
    members = victim.entry.members
    return sum(members[group].demand.weight for group, _ in victim.tasks)


def place_again(desk: Desk, victim: Victim, avoid: tuple[str, ...] = ()) -> Mover | None:
    """Book another place for a workload that was removed, on nodes of the same kinds.

    All that runs of it has a place again, on the same flavors, and is charged as before; None:
    nothing is booked.
    """
    entry, books = victim.entry, desk.books
    tasks = {name: members.staying() for name, members in entry.members.items()}
    ask = desk.ask_of(entry)
    if any(some and name not in {leaf.name for leaf in ask.leaves} for name, some in tasks.items()):
        return None
    ask = ask.with_counts({name: len(some) for name, some in tasks.items()})
    rows = [entry.members[group].rows[task] for group, task in victim.tasks]
    kinds = {books.kind_of[row] for row in rows}
    barred = tuple(kind for kind in range(len(books.kinds)) if kind not in kinds)
    ask = ask.with_codes({name: members.flavor for name, members in entry.members.items()})
    if len(kinds) > 1:
        ask = ask.with_codes({name: _code(books, each) for name, each in entry.members.items()})
    ask = replace(ask, avoid=(*ask.avoid, *desk.closed_for(entry.workload.name), *avoid))
    placer, usual = desk.placer, desk.placer.profile
    placer.profile = usual.packing()  # else who is moved is in the way of the next one
    mark = books.checkpoint()
    seats = attempt(desk, entry, Offer(ask, {}, barred))
    placer.profile = usual
    if seats is None:
        return None
    if len(kinds) > 1 and charge_of(desk, entry, seats) != desk.size(entry):
        books.rollback(mark)  # other numbers of its tasks are on each kind
        return None
    return mover_to(desk, victim, [_as_before(entry, each) for each in seats])


def _code(books: Books, members: Members) -> int:
    """Return where tasks are placed again: on their flavor, or nodes of the one kind they have."""
    kinds = {books.kind_of[members.rows[task]] for task in members.staying()}
    by_node = members.flavor == BY_NODE and members.group.shape.gpus
    return kinds.pop() if by_node and len(kinds) == 1 else members.flavor


def _as_before(entry: Entry, seats: Seats) -> Seats:
    """Return seats that are charged by node if those of the same group were before."""
    return replace(seats, part=replace(seats.part, code=entry.members[seats.part.name].flavor))


def charge_of(desk: Desk, entry: Entry, found: Sequence[Seats]) -> Request:
    """Return what a workload is charged for booked seats."""
    books, total = desk.books, dict[int, int]()
    for each in found:
        assert each.part.demand is not None
        for row in each.rows:
            code = books.charged_kind_of[row] if each.part.code == BY_NODE else each.part.code
            for pair, amount in books.bill(each.part.demand, entry.account, code):
                total[pair] = total.get(pair, 0) + amount
    return total


def mover_to(desk: Desk, victim: Victim, seats: list[Seats]) -> Mover:
    """Return the move of all that runs of a workload to other seats."""
    members = victim.entry.members
    which = [members[each.part.name].staying() for each in seats]
    return Mover(victim, seats, which, price(desk, victim))
