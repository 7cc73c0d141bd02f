"""The search for victims: sets of them, one after the other, each tried out in the books.

Victims are added in the order in which they would leave, and from them sets are made: first those
on one node, then those on as few nodes as could be enough. A set is tried by taking its victims
off the books and seating the one that needs the room, and the victims, in the order in which
they are next. Who finds the place that it had stays; who finds another is moved; the rest leaves.
The first legal set wins. For a gang it is found for one task first, then for two, four and so on,
each starting from the victims of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from mooring.model.demand import DeviceKind
from mooring.policy.kai.crew import Crew, Tasks
from mooring.policy.kai.order import Line, in_lanes
from mooring.policy.kai.outlook import Frozen, lift
from mooring.policy.kai.round import Size
from mooring.policy.kai.seating import SPREAD, Seat
from mooring.policy.placing.ask import Part
from mooring.policy.victims.evict import Victim, remove

if TYPE_CHECKING:
    from mooring.model.books import Books
    from mooring.model.columns import Bools
    from mooring.model.demand import Demand
    from mooring.policy.kai.crew import Chosen, Knot
    from mooring.policy.kai.round import Round
    from mooring.policy.kai.seating import Seating

STEPS_OF_A_TRIAL = 10
"""How many steps it counts to try a set of victims."""
POPS_OF_A_STEP = 16
"""How many victims are looked at for one step."""
PROOF_AFTER = 8
"""After so many sets that failed it is counted whether all candidates together would do."""


@dataclass(slots=True, eq=False)
class Chunk:
    """Tasks of a crew that leave as one."""

    crew: Crew
    tasks: Tasks

    def rows(self) -> list[int]:
        """Return the rows that they are on, each once, in order of the tasks."""
        members = self.crew.entry.members
        return list(dict.fromkeys(members[group].rows[task] for group, task in self.tasks))


@dataclass(slots=True, eq=False)
class Trial:
    """What comes of a set of victims."""

    crew: Crew
    """The one that needs room."""
    size: Size
    """What it would be charged for the tasks that are looked at."""
    victims: list[Chunk]
    seats: list[Seat] = field(default_factory=list)
    leaving: list[Chunk] = field(default_factory=list)
    moving: list[tuple[Crew, list[Seat]]] = field(default_factory=list)
    causes: dict[tuple[str, str, int], str] = field(default_factory=dict)
    """Why tasks leave, where that is not the same for all."""

    def outcome(self) -> list[Chunk]:
        """Return all that lose their place."""
        moved = [Chunk(c, [(s.group, s.task) for s in seats]) for c, seats in self.moving]
        return [*self.leaving, *moved]

    def spots(self) -> list[tuple[str, str, int]]:
        """Return all tasks that lose their place."""
        return [(chunk.crew.name, *task) for chunk in self.outcome() for task in chunk.tasks]


class Rules(Protocol):
    """Who may have to leave for a crew, and whether a set of them is legal."""

    def candidates(self) -> list[Crew]:
        """Return those who may have to leave."""

    def is_legal(self, trial: Trial) -> bool:
        """Return whether a set of victims is legal, given what comes of it."""


class CutShortError(Exception):
    """The search reached its bound."""


class _ImpossibleError(Exception):
    """Not even all candidates together would make room enough."""


Sets = Callable[[list[Chunk], int], Iterator[list[Chunk]]]
"""Given the victims so far and the number of tasks: sets of more of them."""


class Solver:
    """Looks for victims for one crew."""

    # wide: all that a search is made of
    def __init__(
        self,
        round_: Round,
        seating: Seating,
        crew: Crew,
        rules: Rules,
        pending: dict[int, list[Crew]],
    ) -> None:
        self.round = round_
        self.books = round_.books
        self.seating = seating
        self.crew = crew
        self.rules = rules
        self.tasks = [(leaf, task) for leaf, tasks in crew.wanted() for task in tasks]
        self.steps = 0
        self._is_proven = False
        self._pending = pending
        self._failed: set[tuple[int, frozenset[tuple[str, str, int]]]] = set()

    def solve(self) -> Trial | None:
        """Return a legal set of victims with all places proven; nothing stays booked.

        `CutShortError`: there may be one, but the search took too long.
        """
        candidates = self.rules.candidates() if self.tasks else []
        if not candidates:
            return None
        self._lanes = in_lanes(candidates, reverse=True)
        self._outlook = Frozen(self.round)
        mark = self.books.checkpoint()
        lift(self.round)
        self._room = _Room(self.books, [self.crew.members(leaf).demand for leaf, _ in self.tasks])
        everybody = [Chunk(crew, crew.active_tasks()) for crew in candidates]
        try:
            if not self._room.holds(len(self.tasks), everybody):
                return None
            for sets in (self._on_one_node, self._on_few_nodes):
                trial = self._search(sets)
                if trial is not None and self._with_devices(trial):
                    return trial
            return None
        except _ImpossibleError:
            return None
        finally:
            self.books.rollback(mark)

    def _could_be_enough(self) -> bool:
        """Return whether there would be room if all candidates left, by counting."""
        mark = self.books.checkpoint()
        for crew in (crew for lane in self._lanes.values() for crew in lane):
            remove(self.round.desk, Victim(crew.entry, tuple(crew.active_tasks()), ""))
        placer = self.round.desk.placer
        placer.aim(self.crew.entry.avoid)
        counts: dict[str, int] = {}
        for leaf, _ in self.tasks:
            counts[leaf.group] = counts.get(leaf.group, 0) + 1
        enough = True
        for group, count in counts.items():
            fit = placer.fit(Part(group, self.crew.entry.members[group].demand, count))
            slots = fit.slots if fit.company is None else fit.anywhere
            enough &= bool(slots[0][0] >= (count if fit.company is None else 1))
        self.books.rollback(mark)
        return enough

    # -- more and more tasks ----------------------------------------------------------------

    def _search(self, sets: Sets) -> Trial | None:
        """Find victims for all tasks by way of victims for some of them."""
        number, recorded = len(self.tasks), list[Chunk]()
        least, most, k = 0, number + 1, 1
        while most - least > 1:
            trial = self._probe(k, recorded, sets)
            if trial is None:
                most = k
            else:
                least, recorded = k, trial.outcome()
            k = min(2 * k, number) if most > number else (least + most) // 2
        return self._probe(number, recorded, sets) if least else None

    def _probe(self, k: int, recorded: list[Chunk], sets: Sets) -> Trial | None:
        for chunks in sets(recorded, k):
            trial = self._try(k, [*recorded, *chunks])
            if trial is not None:
                return trial
        return None

    # -- sets of victims --------------------------------------------------------------------

    def _accumulated(self, recorded: list[Chunk]) -> Iterator[Chunk]:
        """Yield what leaves next, one after the other, without those who leave anyway."""
        known = {(chunk.crew.name, *task) for chunk in recorded for task in chunk.tasks}
        originals = {crew.name: crew for lane in self._lanes.values() for crew in lane}
        line = Line(self.round, self._lanes, reverse=True)
        popped = 0
        while line:
            crew = line.pop()
            popped += 1
            self._count(popped % POPS_OF_A_STEP == 0)
            tasks, every = crew.chunk(), crew.active_tasks()
            is_new = not any((crew.name, *task) in known for task in tasks)
            gone = tasks if is_new else [t for t in every if (crew.name, *t) in known]
            if tasks and len(gone) < len(every):
                line.push(crew.without(gone))
            if is_new and tasks:
                yield Chunk(originals[crew.name], tasks)

    def _on_one_node(self, recorded: list[Chunk], k: int) -> Iterator[list[Chunk]]:
        """Yield, for each node of the newest victim, all victims there, as far as they go."""
        if recorded:
            yield []
        room = self._room.after(recorded)
        numbers: dict[str, list[int]] = {}
        there: dict[int, dict[str, None]] = {}
        found: list[Chunk] = []
        for chunk in self._accumulated(recorded):
            name = chunk.crew.name
            numbers.setdefault(name, []).append(len(found))
            found.append(chunk)
            rows = chunk.rows()
            for row in rows:
                there.setdefault(row, {})[name] = None
            for row in sorted(rows, key=lambda row: self.books.nodes[row].name):
                some = [found[i] for i in sorted(i for n in there[row] for i in numbers[n])]
                if room.holds(k, some):
                    yield some

    def _on_few_nodes(self, recorded: list[Chunk], k: int) -> Iterator[list[Chunk]]:
        """Yield the victims on few nodes that could be enough, on more nodes, and so on."""
        room, feasible = self._room.after(recorded), self._feasible(recorded)
        free = sum(room.free(row) for row in np.flatnonzero(feasible).tolist())
        if recorded and room.wanted(k) <= free:
            yield []
        whole = self._room.after(recorded)
        there: dict[int, list[Chunk]] = {}
        found: list[Chunk] = []
        for chunk in self._accumulated(recorded):
            found.append(chunk)
            whole.add(chunk)
            for row in chunk.rows():
                if row not in there and feasible[row]:
                    free -= room.free(row)
                there.setdefault(row, []).append(chunk)
            if not whole.holds(k, ()):
                continue
            rows = [row for row in there if whole.free(row) >= room.least(k)]
            rows.sort(key=whole.free)
            for number in _prefixes([whole.free(row) for row in rows], room.wanted(k) - free):
                picked = {id(each) for row in rows[:number] for each in there[row]}
                yield [each for each in found if id(each) in picked]

    def _feasible(self, chunks: list[Chunk]) -> Bools:
        """Return the nodes to look at: for tasks with devices, those with devices to have."""
        demands = [self.crew.members(leaf).demand for leaf, _ in self.tasks]
        if any(demand.kind in (DeviceKind.NONE, DeviceKind.MIG) for demand in demands):
            return self.books.present.copy()
        feasible: Bools = self._room.gpus > 0
        feasible[[row for chunk in chunks for row in chunk.rows()]] = True
        return feasible

    # -- one set ----------------------------------------------------------------------------

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self.round.desk.policy.eviction.steps:
            raise CutShortError

    def _try(self, k: int, victims: list[Chunk]) -> Trial | None:
        """Try a set of victims for the first `k` tasks; None: there is no room, or no right."""
        key = k, frozenset((c.crew.name, *task) for c in victims for task in c.tasks)
        if not victims or key in self._failed:
            return None
        self._count(STEPS_OF_A_TRIAL)
        if len(self._failed) >= PROOF_AFTER and not self._is_proven:
            self._is_proven = True
            if not self._could_be_enough():
                raise _ImpossibleError
        crews = list(dict.fromkeys([self.crew, *(chunk.crew for chunk in victims)]))
        saved = [(crew, crew.save()) for crew in crews]
        mark = self.books.checkpoint()
        self.crew.only = self._first_tasks(k)
        trial = Trial(self.crew, self.round.request(self.crew, self.crew.only), victims)
        whole = [chunk.crew for chunk in victims if chunk.crew.root.is_met]
        try:
            works = self._play(trial, crews) and not any(_is_half(crew) for crew in whole)
            works = works and self.rules.is_legal(trial)
        finally:
            self.crew.only = None
            self.books.rollback(mark)
            for crew, state in saved:
                crew.restore(state)
        if works:
            return trial
        self._failed.add(key)
        return None

    def _first_tasks(self, k: int) -> Chosen:
        found: dict[Knot, list[int]] = {}
        for leaf, task in self.tasks[:k]:
            found.setdefault(leaf, []).append(task)
        return list(found.items())

    def _play(self, trial: Trial, crews: list[Crew]) -> bool:
        """Take the victims off, seat everybody in order, and note who ends up where."""
        desk = self.round.desk
        for chunk in trial.victims:
            remove(desk, Victim(chunk.crew.entry, tuple(chunk.tasks), ""))
            chunk.crew.leave(chunk.tasks)
        feasible = self._feasible(trial.victims)
        line = self._line(crews)
        waiting, seated = set(crews), dict[Crew, list[Seat]]()
        while waiting and line:
            crew = line.pop()
            if crew not in waiting:
                continue
            waiting.remove(crew)
            seats = self._seat(crew, feasible)
            if seats is None:
                if crew is self.crew:
                    return False
                continue
            seated[crew] = seats
            line.touch(crew.queue)
        if self.crew not in seated:
            return False
        trial.seats = seated.pop(self.crew)
        self._note(trial, seated)
        return True

    def _line(self, crews: list[Crew]) -> Line:
        """Return all who wait, and those of the set, in the order in which they are next."""
        lanes = dict(self._pending)
        for queue in dict.fromkeys(crew.queue for crew in crews):
            rest = lanes.get(queue, [])
            lanes[queue] = [crew for crew in rest if crew not in crews]
        line = Line(self.round, lanes)
        for crew in crews:
            line.push(crew)
        return line

    def _seat(self, crew: Crew, feasible: Bools) -> list[Seat] | None:
        chosen = crew.wanted()
        if not chosen or self.round.shortage(crew, chosen) is not None:
            return None
        seats = self.seating.place(crew, chosen, self._outlook, feasible)
        if seats is not None:
            crew.join((seat.group, seat.task) for seat in seats)
        return seats

    def _note(self, trial: Trial, seated: dict[Crew, list[Seat]]) -> None:
        """Note which victims leave and which are moved; the others stay where they are."""
        moving: dict[Crew, list[Seat]] = {}
        for chunk in trial.victims:
            found = {(s.group, s.task): s for s in seated.get(chunk.crew, ())}
            gone = [task for task in chunk.tasks if task not in found]
            if gone:
                trial.leaving.append(Chunk(chunk.crew, gone))
            moved = [found[task] for task in chunk.tasks if task in found]
            moved = [seat for seat in moved if not _stays(chunk.crew, seat)]
            if moved:
                moving.setdefault(chunk.crew, []).extend(moved)
        trial.moving = list(moving.items())

    # -- devices ----------------------------------------------------------------------------

    def _with_devices(self, trial: Trial) -> bool:
        """Choose devices for all newcomers, now that it is known who keeps theirs."""
        mark = self.books.checkpoint()
        for chunk in trial.outcome():
            remove(self.round.desk, Victim(chunk.crew.entry, tuple(chunk.tasks), ""))
        try:
            trial.seats = [self._choose(trial.crew, seat) for seat in trial.seats]
            trial.moving = [
                (crew, [self._choose(crew, seat) for seat in seats]) for crew, seats in trial.moving
            ]
        except LookupError:
            return False
        finally:
            self.books.rollback(mark)
        return True

    def _choose(self, crew: Crew, seat: Seat) -> Seat:
        demand, row = crew.entry.members[seat.group].demand, seat.row
        placer = self.round.desk.placer
        placer.aim(crew.entry.avoid)
        if not placer.fit(Part(seat.group, demand, 1)).slots[-1][row]:
            raise LookupError
        rule = self.seating.rule(crew, crew.home(seat.group, seat.task))
        mask = self.seating.devices(demand, row, spreads=rule == SPREAD)
        self.books.take(demand, (row,), (mask,), crew.entry.account)
        return Seat(seat.group, seat.task, row, mask)


class _Room:
    """Thousandths of devices that are free, or would be, by row: what can be told by counting."""

    def __init__(self, books: Books, demands: list[Demand]) -> None:
        self.gpus = np.maximum(books.share, 0).sum(axis=0)
        self._asked = [
            demand.weight - 1 if demand.kind in (DeviceKind.WHOLE, DeviceKind.SHARED) else 0
            for demand in demands
        ]
        self._freed: dict[int, int] = {}
        self._size = min(self._asked, default=0)
        """The least that any task asks for."""
        self._slots = int((self.gpus // self._size).sum()) if self._size else 0
        self._sum = int(self.gpus.sum())

    def after(self, chunks: Iterable[Chunk]) -> _Room:
        """Return the room there would be if tasks were gone."""
        new = copy(self)
        new._freed = dict(self._freed)
        for chunk in chunks:
            new.add(chunk)
        return new

    def add(self, chunk: Chunk) -> None:
        """Add what tasks would leave."""
        for group, task in chunk.tasks:
            members = chunk.crew.entry.members[group]
            row, more = members.rows[task], members.demand.weight - 1
            before = self.free(row)
            self._freed[row] = self._freed.get(row, 0) + more
            self._sum += more
            if self._size:
                self._slots += (before + more) // self._size - before // self._size

    def free(self, row: int) -> int:
        """Return what is free on a row."""
        return int(self.gpus[row]) + self._freed.get(row, 0)

    def wanted(self, k: int) -> int:
        """Return what the first tasks ask for together."""
        return sum(self._asked[:k])

    def least(self, k: int) -> int:
        """Return the least that one of the first tasks asks for."""
        return min(self._asked[:k])

    def holds(self, k: int, more: Iterable[Chunk]) -> bool:
        """Return whether the first tasks could have room, if some more were gone."""
        room = self.after(more) if more else self
        return room._sum >= self.wanted(k) and (not self._size or room._slots >= k)


def _is_half(crew: Crew) -> bool:
    """Return whether a gang would be left without all that it needs."""
    return crew.is_active and not crew.root.is_met


def _stays(crew: Crew, seat: Seat) -> bool:
    """Return whether a seat is the one that the task has; whole devices are as good as others."""
    members = crew.entry.members[seat.group]
    if members.rows[seat.task] != seat.row:
        return False
    return members.demand.kind <= DeviceKind.WHOLE or members.devices[seat.task] == seat.devices


def _prefixes(room: list[int], wanted: int) -> Iterator[int]:
    """Yield how many nodes to take: as many as could be enough, then 1, 2, 4 … more, then all."""
    number, sums = 0, 0
    while sums < wanted:
        if number == len(room):
            return
        sums += room[number]
        number += 1
    step = 1
    while True:
        yield number
        if number == len(room):
            return
        number, step = min(number + step, len(room)), 2 * step
