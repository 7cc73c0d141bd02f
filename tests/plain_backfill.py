"""Plain twins of the orders of a queue: FIFO, EASY, conservative and the shadow. Slow and obvious.

A cluster is some nodes with so many GPUs each. A work is `tasks` equal tasks that start and end
together, each on one node. At one instant what ends makes room before what was submitted comes.
Nothing here uses the engine, the books or the policy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from math import inf

HOUR = 3600.0
RESTART_S = 60.0
"""What an eviction costs besides the work that is lost, in seconds."""
FEW = 10
"""Of so many candidates the cheapest victims are found by trying all sets."""


@dataclass(frozen=True)
class Work:
    """A workload, with all that will be known of it."""

    name: str
    submit: float
    tasks: int
    gpus: int
    """Of each task."""
    run: float
    limit: float = 0.0
    """At least `run`; 0: exactly that."""
    priority: int = 0
    preemptible: bool = True
    checkpoint: float = inf
    """How often it saves its work while it runs; infinite: never."""

    @property
    def size(self) -> int:
        """Return how many GPUs it has in all."""
        return self.tasks * self.gpus

    @property
    def longest(self) -> float:
        """Return how long it runs at most."""
        return self.limit or self.run


Seats = list[tuple[int, int]]
"""(node, GPUs) of every task."""


def best_fit(free: list[int], work: Work) -> Seats | None:
    """Place task after task on the node with the least free GPUs that has enough, lowest first."""
    left, seats = list(free), []
    for _ in range(work.tasks):
        fitting = [node for node in range(len(left)) if left[node] >= work.gpus]
        if not fitting:
            return None
        node = min(fitting, key=lambda node: (left[node], node))
        left[node] -= work.gpus
        seats.append((node, work.gpus))
    return seats


@dataclass(frozen=True)
class Cluster:
    """Equal nodes, and how work is placed on what is free."""

    nodes: int
    gpus: int
    place: Callable[[list[int], Work], Seats | None] = best_fit

    def empty(self) -> list[int]:
        """Return the free GPUs of every node when nothing runs."""
        return [self.gpus] * self.nodes


def take(free: list[int], seats: Seats) -> None:
    """Take seats."""
    for node, gpus in seats:
        free[node] -= gpus
        assert free[node] >= 0, "a node has no more than it has"


def give(free: list[int], seats: Seats) -> None:
    """Give seats back."""
    for node, gpus in seats:
        free[node] += gpus


def rank(work: Work) -> tuple[int, float, str]:
    """Return the place in line: higher priority, earlier submission, name."""
    return -work.priority, work.submit, work.name


@dataclass
class Story:
    """What happened."""

    starts: dict[str, float] = field(default_factory=dict)
    """When each started for the last time."""
    ends: dict[str, float] = field(default_factory=dict)
    reservations: list[tuple[float, str, float]] = field(default_factory=list)
    """(when it was computed, for whom, start that was reserved)."""
    evictions: list[tuple[float, str, str, str]] = field(default_factory=list)
    """(when, who, for whom, cause)."""

    def wait(self, work: Work) -> float:
        """Return how long a work waited, with what it had to do twice."""
        return self.ends[work.name] - work.submit - work.run

    def mean_wait(self, works: list[Work]) -> float:
        """Return the mean wait of all."""
        return sum(self.wait(work) for work in works) / len(works)


# -- with given run times -------------------------------------------------------------------


@dataclass
class Run:
    """A work that runs."""

    work: Work
    seats: Seats
    at: float
    left: float
    """How long it still had to run when it started."""

    @property
    def end(self) -> float:
        """Return when it really ends."""
        return self.at + self.left

    @property
    def latest(self) -> float:
        """Return when it ends by its limit."""
        return self.at + self.work.longest


class Timed:
    """The loop of FIFO, EASY and conservative; they differ in what `serve` starts."""

    def __init__(self, cluster: Cluster, works: list[Work]) -> None:
        self.cluster = cluster
        self.to_come = sorted(works, key=lambda work: work.submit)
        self.free = cluster.empty()
        self.waiting: list[Work] = []
        self.running: list[Run] = []
        self.now = -inf
        self.story = Story()

    def serve(self) -> None:
        """Start what may start now."""
        raise NotImplementedError

    def wakes(self) -> list[float]:
        """Return further instants at which something may start."""
        return []

    def play(self) -> Story:
        """Let everything happen."""
        while self.to_come or self.waiting or self.running:
            instants = [work.submit for work in self.to_come] + [run.end for run in self.running]
            self.now = min([*instants, *self.wakes()])
            for run in [run for run in self.running if run.end <= self.now]:
                self.running.remove(run)
                give(self.free, run.seats)
                self.story.ends[run.work.name] = run.end
            while self.to_come and self.to_come[0].submit <= self.now:
                self.waiting.append(self.to_come.pop(0))
            self.waiting.sort(key=rank)
            self.serve()
        return self.story

    def start(self, work: Work, seats: Seats) -> None:
        """Let a waiting work run."""
        take(self.free, seats)
        self.waiting.remove(work)
        self.running.append(Run(work, seats, self.now, work.run))
        self.story.starts[work.name] = self.now

    def start_heads(self) -> None:
        """Start in order, up to the first that does not fit."""
        while self.waiting:
            seats = self.cluster.place(self.free, self.waiting[0])
            if seats is None:
                return
            self.start(self.waiting[0], seats)


class Fifo(Timed):
    """The head blocks."""

    def serve(self) -> None:
        self.start_heads()


class Easy(Timed):
    """The head has a reservation; others start if they end before it or leave it possible.

    Who is in the way on nodes of the head is tried on others. Who comes before the head need not
    mind it, but does if it can start all the same.
    """

    tries_again = False
    """Whether those who were in the way are tried again once others have started."""

    def __init__(self, cluster: Cluster, works: list[Work]) -> None:
        super().__init__(cluster, works)
        self.booked: tuple[Work, float] | None = None
        self.seats: dict[str, Seats] = {}
        """Where the head was last expected to start."""

    def serve(self) -> None:
        self.start_heads()
        if not self.waiting:
            return
        head = self.waiting[0]
        at = self.reservation(head)
        self.booked = head, at
        self.story.reservations.append((self.now, head.name, at))
        count = -1
        while count != len(self.waiting):
            count = len(self.waiting)
            for work in self.waiting[1:]:
                seats = self.harmless(work, head, at)
                if seats is not None:
                    self.start(work, seats)
            if not self.tries_again:
                return

    def start_heads(self) -> None:
        while self.waiting:
            first = self.waiting[0]
            seats = self.cluster.place(self.free, first)
            if seats is None:
                return
            if self.booked is not None and self.booked[0] in self.waiting[1:]:
                seats = self.harmless(first, *self.booked) or seats
            self.start(first, seats)

    def harmless(self, work: Work, head: Work, at: float) -> Seats | None:
        """Return where a work leaves a start of the head possible."""
        away: set[int] = set()
        while True:
            free = [0 if node in away else gpus for node, gpus in enumerate(self.free)]
            seats = self.cluster.place(free, work)
            if seats is None or self.now + work.longest <= at:
                return seats
            later = self.free_at(at)
            for node, gpus in seats:
                later[node] -= gpus
            kept = self.seat(later, head) if min(later) >= 0 else None
            if kept is not None:
                self.seats[head.name] = kept
                return seats
            met = {node for node, _ in seats} & {node for node, _ in self.seats[head.name]}
            if not met:
                return None
            away |= met

    def seat(self, free: list[int], head: Work) -> Seats | None:
        """Place the head, where it was expected to start if that can be."""
        left = list(free)
        for node, gpus in self.seats.get(head.name, []):
            left[node] -= gpus
        if head.name in self.seats and min(left) >= 0:
            return self.seats[head.name]
        return self.cluster.place(free, head)

    def free_at(self, at: float) -> list[int]:
        """Return what will be free then if nothing else starts and all run to their limit."""
        free = list(self.free)
        for run in self.running:
            if run.latest <= at:
                give(free, run.seats)
        return free

    def reservation(self, head: Work) -> float:
        """Return the first instant at which the head fits."""
        for at in sorted(run.latest for run in self.running):
            seats = self.seat(self.free_at(at), head)
            if seats is not None:
                self.seats[head.name] = seats
                return at
        raise AssertionError(f"{head.name} fits not even an empty cluster")


@dataclass
class Booking:
    """Seats in the time to come."""

    work: Work
    seats: Seats
    at: float


class Conservative(Timed):
    """Everybody has a reservation on nodes, in order; each only ever moves earlier."""

    def __init__(self, cluster: Cluster, works: list[Work]) -> None:
        super().__init__(cluster, works)
        self.bookings: dict[str, Booking] = {}

    def wakes(self) -> list[float]:
        return [booking.at for booking in self.bookings.values()]

    def serve(self) -> None:
        while self.go_over():
            pass

    def go_over(self) -> bool:
        """Book everybody in order as early as can be; return whether a booking has moved.

        What one gives up that starts earlier than it was booked is for those before it first.
        """
        has_moved = False
        for count, work in enumerate(list(self.waiting)):
            gains = self.look_at(work)
            has_moved |= gains
            if gains and self.bookings[work.name].at <= self.now:
                for other in self.waiting[:count]:
                    has_moved |= self.look_at(other)
        for booking in list(self.bookings.values()):
            if booking.at <= self.now:
                del self.bookings[booking.work.name]
                self.start(booking.work, booking.seats)
        return has_moved

    def look_at(self, work: Work) -> bool:
        """Book one as early as can be; return whether its booking has moved."""
        old = self.bookings.pop(work.name, None)
        new = self.earliest(work)
        booking = new if old is None or new.at < old.at else old
        self.bookings[work.name] = booking
        self.story.reservations.append((self.now, work.name, booking.at))
        return old is not None and new.at < old.at

    def earliest(self, work: Work) -> Booking:
        """Return the first booking beside all others."""
        others = list(self.bookings.values())
        changes = [run.latest for run in self.running]
        changes += [other.at + other.work.longest for other in others]
        for at in sorted({self.now, *(change for change in changes if change > self.now)}):
            seats = self.cluster.place(self.free_during(at, at + work.longest), work)
            if seats is not None:
                return Booking(work, seats, at)
        raise AssertionError(f"{work.name} fits not even an empty cluster")

    def free_during(self, begin: float, end: float) -> list[int]:
        """Return what every node has free all the time from `begin` to `end`."""
        spans = [(-inf, run.latest, run.seats) for run in self.running]
        spans += [(b.at, b.at + b.work.longest, b.seats) for b in self.bookings.values()]
        # what is in use only grows where a span begins
        instants = [begin, *(first for first, _, _ in spans if begin < first < end)]
        least = self.cluster.empty()
        for at in instants:
            free = self.cluster.empty()
            for first, last, seats in spans:
                if first <= at < last:
                    take(free, seats)
            least = [min(pair) for pair in zip(least, free, strict=True)]
        return least


# -- the shadow -----------------------------------------------------------------------------

Key = Callable[[Work, float], float]
"""Expected residual run time of a work that has run so long."""


def by_limit(work: Work, age: float) -> float:
    """Return what is left of the limit."""
    return max(work.longest - age, 0.0)


class Shadow:
    """Rules 1 to 4, and 5 if `quantum`: strict order beside reality says who is due.

    `shadow_starts` are the S of the rules. Who runs and has none is an overtaker, who has one is
    firm. Those whose shadow starts fall on one instant are served one by one: who comes first in
    the shadow may still evict the next one.
    """

    def __init__(
        self,
        cluster: Cluster,
        works: list[Work],
        key: Key = by_limit,
        ended: Callable[[Work], None] = lambda work: None,
        *,
        quantum: bool = False,
    ) -> None:
        self.cluster = cluster
        self.to_come = sorted(works, key=lambda work: work.submit)
        self.key = key
        self.ended = ended
        self.quantum = quantum
        self.now = -inf
        self.story = Story()
        # reality
        self.free = cluster.empty()
        self.waiting: list[Work] = []
        self.running: dict[str, Run] = {}
        self.attained: dict[str, float] = {}
        """Work done and saved, of those that were evicted."""
        self.yielded: dict[str, int] = {}
        """How often each was evicted for its quantum."""
        self.reserved_for: Work | None = None
        self.reserved: list[int] = []
        self.firm_on_reserved: dict[str, set[str]] = {}
        """Who was ever firm on nodes reserved for a work; only to be looked at."""
        # strict order beside it
        self.line: list[Work] = []
        self.shadow_free = cluster.empty()
        self.shadow_runs: dict[str, tuple[Work, Seats]] = {}
        self.shadow_starts: dict[str, float] = {}

    def play(self) -> Story:
        """Let everything happen."""
        while (now := self.next_instant()) < inf:
            self.now = now
            self.end_what_ends()
            self.end_in_the_shadow()
            while self.to_come and self.to_come[0].submit <= now:
                work = self.to_come.pop(0)
                self.waiting.append(work)
                self.line.append(work)
            self.line.sort(key=rank)
            self.serve_due()
            while self.start_one_in_the_shadow():
                self.serve_due()
            self.fill()
            if self.quantum:
                self.let_by()
            self.look_at_reserved()
        return self.story

    def next_instant(self) -> float:
        """Return when something happens next."""
        instants = [work.submit for work in self.to_come[:1]]
        instants += [run.end for run in self.running.values()]
        instants += [at for name in self.shadow_runs if (at := self.shadow_end(name)) < inf]
        if self.quantum and self.waiting and self.running:
            instants.append(self.now + HOUR)
        return min(instants, default=inf)

    def end_what_ends(self) -> None:
        """End what has run its time."""
        for name, run in list(self.running.items()):
            if run.end <= self.now:
                del self.running[name]
                give(self.free, run.seats)
                self.story.ends[name] = run.end
                self.ended(run.work)

    # Rule 1. Job j starts in the shadow at S_j by strict order and the same placement rules. It
    # ends there at S_j + d_j, or at its real end if that is later.

    def shadow_end(self, name: str) -> float:
        """Return when a work ends in the shadow; infinite: not known as long as it really runs."""
        if name not in self.story.ends:
            return inf
        work, _ = self.shadow_runs[name]
        return max(self.shadow_starts[name] + work.run, self.story.ends[name])

    def end_in_the_shadow(self) -> None:
        """Let end in the shadow what ends there by now."""
        for name in list(self.shadow_runs):
            if self.shadow_end(name) <= self.now:
                _, seats = self.shadow_runs.pop(name)
                give(self.shadow_free, seats)

    def start_one_in_the_shadow(self) -> bool:
        """Start the head of the line in the shadow, if it fits there."""
        seats = self.cluster.place(self.shadow_free, self.line[0]) if self.line else None
        if seats is None:
            return False
        work = self.line.pop(0)
        take(self.shadow_free, seats)
        self.shadow_runs[work.name] = work, seats
        self.shadow_starts[work.name] = self.now
        return True

    # Rule 2. Started before S_j: overtaker. At S_j, if running, it becomes firm where it is.

    def overtakers(self) -> list[Run]:
        """Return those that run before their shadow start."""
        return [run for name, run in self.running.items() if name not in self.shadow_starts]

    def firm(self) -> list[Run]:
        """Return those that run and have reached their shadow start."""
        return [run for name, run in self.running.items() if name in self.shadow_starts]

    # Rule 3. Due jobs (S_j has passed, not running), in order: place normally; else place as if
    # overtakers' devices were free and evict the cheapest set. If firm jobs prevent even that,
    # reserve for the first such job the nodes with the least predicted drain and close them to
    # others. The set is sticky: a node is swapped only for one without firm jobs.

    def serve_due(self) -> None:
        """Start those whose shadow start has passed, in the order of their shadow starts."""
        due = [work for work in self.waiting if work.name in self.shadow_starts]
        for work in sorted(due, key=lambda work: (self.shadow_starts[work.name], rank(work))):
            if self.start_if_it_fits(work) or self.start_by_eviction(
                work, self.overtakers(), "overtaker"
            ):
                continue
            if self.reserved_for is None:
                self.reserve(work)
            elif self.reserved_for is work:
                self.swap()

    def room(self, work: Work) -> list[int]:
        """Return what is free for a work: not the nodes reserved for another."""
        closed = () if self.reserved_for is work else self.reserved
        return [0 if node in closed else free for node, free in enumerate(self.free)]

    def start_if_it_fits(self, work: Work) -> bool:
        """Start a work on free GPUs."""
        seats = self.cluster.place(self.room(work), work)
        if seats is None:
            return False
        take(self.free, seats)
        self.waiting.remove(work)
        left = work.run - self.attained.get(work.name, 0.0)
        self.running[work.name] = Run(work, seats, self.now, left)
        self.story.starts[work.name] = self.now
        if self.reserved_for is work:
            self.reserved_for, self.reserved = None, []
        return True

    def start_by_eviction(self, work: Work, candidates: list[Run], cause: str) -> bool:
        """Start a work in place of the cheapest set of candidates, if that is possible."""
        victims = self.cheapest(work, candidates)
        if victims is None:
            return False
        for victim in victims:
            self.evict(victim, work, cause)
        assert self.start_if_it_fits(work), "no eviction in vain"
        return True

    def fits_without(self, work: Work, victims: list[Run]) -> bool:
        """Return whether a work would fit if these were gone."""
        kept = self.free
        self.free = list(kept)
        for victim in victims:
            give(self.free, victim.seats)
        seats = self.cluster.place(self.room(work), work)
        self.free = kept
        return seats is not None

    def cheapest(self, work: Work, candidates: list[Run]) -> list[Run] | None:
        """Return the cheapest set without which a work fits; of many, one that is minimal."""
        if not self.fits_without(work, candidates):
            return None
        started = {name: number for number, name in enumerate(self.running)}
        if len(candidates) <= FEW:
            rivals = sorted(candidates, key=lambda run: started[run.work.name], reverse=True)
            candidates = sorted(rivals, key=lambda run: (self.price(run), -run.at))
            sets = [s for n in range(len(candidates) + 1) for s in combinations(candidates, n)]
            fitting = [list(s) for s in sets if self.fits_without(work, list(s))]
            return min(fitting, key=lambda s: (sum(map(self.price, s)), len(s)))
        victims = sorted(candidates, key=lambda run: (-self.price(run), started[run.work.name]))
        for victim in list(victims):
            without = [other for other in victims if other is not victim]
            if self.fits_without(work, without):
                victims = without
        return victims

    def saved(self, run: Run) -> float:
        """Return how much of what a run has done is saved."""
        every = run.work.checkpoint
        return 0.0 if every == inf else (self.now - run.at) // every * every

    def price(self, run: Run) -> float:
        """Return GPUs × time since the last checkpoint + 60 s × GPUs."""
        return run.work.size * (self.now - run.at - self.saved(run) + RESTART_S)

    def evict(self, run: Run, beneficiary: Work, cause: str) -> None:
        """Let a work wait again, with what it has saved."""
        work = run.work
        assert work.preemptible
        del self.running[work.name]
        give(self.free, run.seats)
        self.attained[work.name] = self.attained.get(work.name, 0.0) + self.saved(run)
        self.waiting.append(work)
        self.story.evictions.append((self.now, work.name, beneficiary.name, cause))

    def residual(self, run: Run) -> float:
        """Return how long a run is expected to last."""
        return self.key(run.work, self.attained.get(run.work.name, 0.0) + self.now - run.at)

    def drain(self, node: int) -> float:
        """Return how long firm work is expected to stay on a node."""
        on_it = [run for run in self.firm() if any(at == node for at, _ in run.seats)]
        return max(map(self.residual, on_it), default=-1.0)

    def reserve(self, work: Work) -> None:
        """Close the nodes with the least drain, as many as it takes."""
        order = sorted(range(self.cluster.nodes), key=lambda node: (self.drain(node), node))
        chosen: list[int] = []
        while True:
            empty = [g if n in chosen else 0 for n, g in enumerate(self.cluster.empty())]
            if self.cluster.place(empty, work) is not None:
                break
            chosen.append(order.pop(0))
        self.reserved_for, self.reserved = work, chosen
        self.story.reservations.append((self.now, work.name, self.shadow_starts[work.name]))

    def swap(self) -> None:
        """Exchange nodes with firm work for nodes without."""
        others = [n for n in range(self.cluster.nodes) if n not in self.reserved]
        without = [node for node in others if self.drain(node) < 0]
        for place, node in enumerate(self.reserved):
            if without and self.drain(node) >= 0:
                self.reserved[place] = without.pop(0)

    def look_at_reserved(self) -> None:
        """Note who is firm on reserved nodes."""
        if self.reserved_for is not None:
            seen = self.firm_on_reserved.setdefault(self.reserved_for.name, set())
            for run in self.firm():
                if any(node in self.reserved for node, _ in run.seats):
                    seen.add(run.work.name)

    # Rule 4. Other waiting jobs that fit outside reserved nodes start, lowest key first.
    # Non-preemptible work never overtakes.

    def fill(self) -> None:
        """Let others overtake."""
        for work in self.others():
            self.start_if_it_fits(work)

    def others(self) -> list[Work]:
        """Return those that wait, are not due and may overtake, lowest key first."""
        others = [w for w in self.waiting if w.name not in self.shadow_starts and w.preemptible]
        age = self.attained
        return sorted(others, key=lambda w: (self.key(w, age.get(w.name, 0.0)), rank(w)))

    # Rule 5. A waiting job with attained work A may evict overtakers whose attained work is
    # ≥ max(4 h, 2 A), that have run ≥ 1 h since they last started and were evicted fewer than 8
    # times. Only for jobs that checkpoint.

    def let_by(self) -> None:
        """Let those that have run long make room for those that have not."""
        for work in self.others():
            least = max(4 * HOUR, 2 * self.attained.get(work.name, 0.0))
            candidates = [
                run
                for run in self.overtakers()
                if run.work.checkpoint < inf
                and self.attained.get(run.work.name, 0.0) + self.now - run.at >= least
                and self.now - run.at >= HOUR
                and self.yielded.get(run.work.name, 0) < 8
            ]
            before = len(self.story.evictions)
            self.start_by_eviction(work, candidates, "quantum")
            for _, victim, _, _ in self.story.evictions[before:]:
                self.yielded[victim] = self.yielded.get(victim, 0) + 1
