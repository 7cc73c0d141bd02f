"""The search for victims: sets of them, one after the other, each tried out in the books.

Victims are added in the order in which they would leave, and from them sets are made: first those
on one node, then those on as few nodes as could be enough. A set is tried by taking its victims
off the books and seating the one that needs the room, and the victims, in the order in which
they are next. Who finds the place that it had stays; who finds another is moved; the rest leaves.
The first legal set wins. For a gang it is found for one task first, then for two, four and so on,
each starting from the victims of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from mooring.model.demand import DeviceKind
from mooring.policy.ask import Part
from mooring.policy.evict import Victim, remove
from mooring.policy.kai.crew import Crew, Tasks
from mooring.policy.kai.order import Line, in_lanes
from mooring.policy.kai.outlook import Frozen, lift
from mooring.policy.kai.round import Size
from mooring.policy.kai.seating import Seat

if TYPE_CHECKING:
    from mooring.model.columns import Bools
    from mooring.policy.kai.crew import Chosen, Knot
    from mooring.policy.kai.round import Round
    from mooring.policy.kai.seating import Seating

STEPS_OF_A_TRIAL = 10
"""How many steps it counts to try a set of victims."""


@dataclass(slots=True, eq=False)
class Chunk:
    """Tasks of a crew that leave as one."""

    crew: Crew
    tasks: Tasks


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


class Rules(Protocol):
    """Who may have to leave for a crew, and whether a set of them is legal."""

    def candidates(self) -> list[Crew]:
        """Return those who may have to leave."""

    def is_legal(self, trial: Trial) -> bool:
        """Return whether a set of victims is legal, given what comes of it."""


class CutShortError(Exception):
    """The search reached its bound."""


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
        self._gpus = np.maximum(self.books.share, 0).sum(axis=0)
        try:
            if not self._could_be_enough(candidates):
                return None
            for sets in (self._on_one_node, self._on_few_nodes):
                trial = self._search(sets)
                if trial is not None and self._with_devices(trial):
                    return trial
            return None
        finally:
            self.books.rollback(mark)

    def _could_be_enough(self, candidates: list[Crew]) -> bool:
        """Return whether there would be room if all candidates left, by counting."""
        mark = self.books.checkpoint()
        for crew in candidates:
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

    def _accumulated(self, recorded: list[Chunk]) -> Iterator[list[Chunk]]:
        """Yield a list that grows by what leaves next; first without any, then one by one."""
        known = {(chunk.crew.name, *task) for chunk in recorded for task in chunk.tasks}
        originals = {crew.name: crew for lane in self._lanes.values() for crew in lane}
        line = Line(self.round, self._lanes, reverse=True)
        found: list[Chunk] = []
        yield found
        while line:
            crew = line.pop()
            self._count(1)
            tasks = crew.chunk()
            every = crew.active_tasks()
            is_new = not any((crew.name, *task) in known for task in tasks)
            gone = tasks if is_new else [t for t in every if (crew.name, *t) in known]
            if tasks and len(gone) < len(every):
                line.push(crew.without(gone))
            if is_new and tasks:
                found.append(Chunk(originals[crew.name], tasks))
                yield found

    def _on_one_node(self, recorded: list[Chunk], k: int) -> Iterator[list[Chunk]]:
        """Yield, for each node of the newest victim, all victims there, as far as they go."""
        for found in self._accumulated(recorded):
            if not found:
                if recorded:
                    yield []
                continue
            names = self.books.nodes
            rows = {self._row(found[-1].crew, task) for task in found[-1].tasks}
            for row in sorted(rows, key=lambda row: names[row].name):
                there = {c.crew.name for c in found if row in self._rows(c)}
                yield [chunk for chunk in found if chunk.crew.name in there]

    def _on_few_nodes(self, recorded: list[Chunk], k: int) -> Iterator[list[Chunk]]:
        """Yield the victims on few nodes that could be enough, on more nodes, and so on."""
        freed: dict[int, int] = {}
        for chunk in recorded:
            self._add_gpus(freed, chunk)
        demands = [self.crew.members(leaf).demand for leaf, _ in self.tasks[:k]]
        asked = [demand.weight - 1 for demand in demands]
        feasible = self._feasible(recorded)
        for found in self._accumulated(recorded):
            on: dict[int, list[Chunk]] = {}
            room = {row: int(self._gpus[row]) + more for row, more in freed.items()}
            for chunk in found:
                for row in self._rows(chunk):
                    on.setdefault(row, []).append(chunk)
                    room.setdefault(row, int(self._gpus[row]))
                self._add_gpus(room, chunk)
            rows = [row for row in on if room[row] >= min(asked)]
            rows.sort(key=lambda row: room[row])
            idle = [row for row in np.flatnonzero(feasible).tolist() if row not in on]
            left = sum(asked) - sum(room.get(row, int(self._gpus[row])) for row in idle)
            for number in _prefixes([room[row] for row in rows], left):
                picked = {id(chunk) for row in rows[:number] for chunk in on[row]}
                yield [chunk for chunk in found if id(chunk) in picked]

    def _add_gpus(self, room: dict[int, int], chunk: Chunk) -> None:
        """Add the thousandths of devices that tasks would leave, by row."""
        for group, task in chunk.tasks:
            members = chunk.crew.entry.members[group]
            row = members.rows[task]
            room[row] = room.get(row, 0) + members.demand.weight - 1

    def _row(self, crew: Crew, task: tuple[str, int]) -> int:
        return crew.entry.members[task[0]].rows[task[1]]

    def _rows(self, chunk: Chunk) -> list[int]:
        """Return the rows of a chunk, each once, in order of its tasks."""
        return list(dict.fromkeys(self._row(chunk.crew, task) for task in chunk.tasks))

    def _feasible(self, chunks: list[Chunk]) -> Bools:
        """Return the nodes to look at: for tasks with devices, those with devices to have."""
        demands = [self.crew.members(leaf).demand for leaf, _ in self.tasks]
        if any(demand.kind is DeviceKind.NONE for demand in demands):
            return self.books.present.copy()
        feasible: Bools = self._gpus > 0
        if any(demand.kind is DeviceKind.MIG for demand in demands):
            feasible = self.books.present.copy()
        feasible[[row for chunk in chunks for row in self._rows(chunk)]] = True
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
        crews = list(dict.fromkeys([self.crew, *(chunk.crew for chunk in victims)]))
        saved = [(crew, crew.save()) for crew in crews]
        mark = self.books.checkpoint()
        self.crew.only = self._first_tasks(k)
        trial = Trial(self.crew, self.round.request(self.crew, self.crew.only), victims)
        try:
            works = self._play(trial, crews) and self.rules.is_legal(trial)
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
        if not chosen or self.round.shortage(crew, self.round.request(crew, chosen)) is not None:
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
        spreads = self.seating.spreads(crew, crew.home(seat.group, seat.task))
        mask = self.seating.devices(demand, row, spreads=spreads)
        self.books.take(demand, (row,), (mask,), crew.entry.account)
        return Seat(seat.group, seat.task, row, mask)


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
