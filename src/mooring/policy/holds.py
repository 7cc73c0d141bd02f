"""Room that is kept for workloads until all who are in it have left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mooring.model.books import BY_NODE
from mooring.model.memory import Held
from mooring.model.plan import Leaving, Moving, Reserve
from mooring.model.workload import TaskState
from mooring.policy.placing.place import Seats
from mooring.policy.placing.search import terms_hold
from mooring.policy.queues.lines import Request
from mooring.policy.victims.departures import TaskKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mooring.model.entry import Entry, Members
    from mooring.policy.desk import Desk


@dataclass(slots=True)
class Hold:
    """Room that is kept for a workload until all who are in it have left."""

    seats: list[tuple[Sequence[int], Seats]]
    until: float
    leaving: dict[TaskKey, None] = field(default_factory=dict)
    """Those who must be gone before it can start."""
    size: Request = field(default_factory=dict)
    """What it is charged."""
    since: float = 0.0
    is_move: bool = False
    """It ran before and only moves: its start stays the one it had."""
    is_growth: bool = False
    """It is for one more unit of a workload that runs."""

    def reason(self, name: str) -> Leaving | Moving:
        """Return what a workload waits for that the room is kept for."""
        names = dict.fromkeys(who for who, _, _ in self.leaving)
        if not self.is_move:
            return Leaving(tuple(names))
        return Moving(tuple(other for other in names if other != name))

    def rows(self) -> list[int]:
        """Return the rows of its room."""
        return [row for _, seats in self.seats for row in seats.rows]


class Holds(Mapping[str, Hold]):
    """All room that is kept at one desk, by the workload that it is kept for."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._kept: dict[str, Hold] = {}

    def __getitem__(self, name: str) -> Hold:
        return self._kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, name: object) -> bool:
        return name in self._kept

    @property
    def ends_at(self) -> float:
        """Return until when room is kept that is kept from now on."""
        return self.desk.now + self.desk.policy.eviction.hold_s

    def keep(
        self,
        entry: Entry,
        found: Sequence[Seats],
        leaving: Iterable[TaskKey],
        which: Sequence[Sequence[int]] = (),
    ) -> None:
        """Keep room, which must be free or being released, for tasks of a workload.

        `which` names the tasks of each of the seats; left out: the first ones that wait.
        """
        name = entry.workload.name
        seats: list[tuple[Sequence[int], Seats]] = []
        for i, each in enumerate(found):
            members = entry.members[each.part.name]
            seats.append((which[i] if which else members.pending()[: len(each.rows)], each))
            for row, mask in zip(each.rows, each.devices, strict=True):
                self.desk.books.hold(name, members.demand, row, mask, entry.account, each.part.code)
        self.desk.books.commit()
        until = self.ends_at
        leaves = dict.fromkeys(leaving)
        self._kept[name] = hold = Hold(seats, until, leaves, self._held_size(name), self.desk.now)
        self.desk.departures.expect(name, leaves, hold.rows())
        if not entry.is_placed:
            self.desk.number_start(entry)
        self.desk.note_move(entry)
        placements = tuple(self.desk.placement(tasks, each) for tasks, each in seats)
        self.desk.decisions.append(Reserve(name, placements, until))

    def keep_start(self, entry: Entry, started_at: float | None) -> None:
        """Let one that is moved keep its place in the line of all who run: it is no new start."""
        self._kept[entry.workload.name].since = started_at or 0.0
        self._kept[entry.workload.name].is_move = True
        self.desk.note_move(entry)

    def open(self, name: str) -> None:
        """Open the room that is kept for a workload."""
        hold = self._kept.pop(name, None)
        if hold is not None:
            self.desk.departures.forget(name, hold.leaving, hold.rows())
            self.desk.books.unhold(name)
            self.desk.books.commit()
            self.desk.note_move(self.desk.entries[name])

    def is_for(self, name: str, group: str, tasks: Iterable[int]) -> bool:
        """Return whether room is kept for one of these tasks of a workload."""
        hold = self._kept.get(name)
        kept = (
            [] if hold is None else [some for some, seats in hold.seats if seats.part.name == group]
        )
        return any(task in some for some in kept for task in tasks)

    def gone(self, entry: Entry, members: Members, tasks: Iterable[int]) -> None:
        """Note that tasks have left their places."""
        for task in tasks:
            key = (entry.workload.name, members.group.name, task)
            for name in self.desk.departures.gone(key):
                del self._kept[name].leaving[key]

    def against(self, entry: Entry, members: Members, tasks: Iterable[int]) -> list[str]:
        """Return those for whom room is kept that these tasks, which stay after all, are in."""
        keys = [(entry.workload.name, members.group.name, task) for task in tasks]
        return list(dict.fromkeys(n for key in keys for n in self.desk.departures.awaited_by(key)))

    # -- starting ---------------------------------------------------------------------------

    def start_free(self) -> list[Entry]:
        """Start those whose room is free by now; return them, and those who wait again.

        Nobody waits longer than was said, nor for room that will not do any more.
        """
        found = []
        for name in list(self._kept):
            hold, entry = self._kept[name], self.desk.entries[name]
            is_void = hold.is_growth and not self._may_grow(entry, hold)
            if hold.leaving and self.desk.now < hold.until and not is_void:
                continue
            self.open(name)
            found.append(entry)
            mark = self.desk.books.checkpoint()
            if hold.leaving or is_void or not self._sit_down(entry, hold):
                self.desk.books.rollback(mark)
                continue
            number = entry.start_number
            for tasks, seats in hold.seats:
                members = entry.members[seats.part.name]
                if not members.begun:
                    members.reduce(len(seats.rows))
                self.desk.start(entry, tasks, seats)
            entry.start_number = number
            if hold.is_move:
                entry.started_at = hold.since
        return found

    def _may_grow(self, entry: Entry, hold: Hold) -> bool:
        """Return whether a workload is still what room for one more unit was kept for."""
        if entry.is_incomplete or not entry.is_placed:
            return False
        return all(
            task < len(states) and states[task] == TaskState.PENDING
            for tasks, seats in hold.seats
            for states in (entry.members[seats.part.name].states,)
            for task in tasks
        )

    def is_sound(self, name: str) -> bool:
        """Return whether the room kept for a workload will do once all who must have left."""
        hold, books = self._kept[name], self.desk.books
        flavors = [(seats.part.code, row) for _, seats in hold.seats for row in seats.rows]
        charged = [flavor for *_, flavor in books.holds[name]]
        for (code, row), flavor in zip(flavors, charged, strict=True):
            if code == BY_NODE and flavor != books.kind_of[row]:
                return False
        mark = books.checkpoint()
        books.unhold(name)
        for who, group, task in hold.leaving:
            other = self.desk.entries[who]
            members = other.members[group]
            rows, devices = (members.rows[task],), (members.devices[task],)
            books.end_release(members.demand, rows, other.account, members.flavor)
            books.give(members.demand, rows, devices, other.account, members.flavor)
        found = self._sit_down(self.desk.entries[name], hold)
        books.rollback(mark)
        return found

    def _sit_down(self, entry: Entry, hold: Hold) -> bool:
        """Book the room that was kept; False: it will not do any more.

        Tasks with terms about others were placed each in sight of the last, or all at once: then
        it does not matter who of them comes first, and the terms are looked at in the end.
        """
        mark = self.desk.books.checkpoint()
        if self._take_seats(entry, hold, in_sight=True):
            return True
        self.desk.books.rollback(mark)
        found = [seats for _, seats in hold.seats]
        all_sit = self._take_seats(entry, hold, in_sight=False)
        return all_sit and terms_hold(self.desk.placer, found)

    def _take_seats(self, entry: Entry, hold: Hold, *, in_sight: bool) -> bool:
        """Book the room that was kept, seat by seat; False: one of them will not do any more."""
        books = self.desk.books
        self.desk.placer.aim(entry.avoid)
        for _, seats in hold.seats:
            demand = entry.members[seats.part.name].demand
            for row, mask in zip(seats.rows, seats.devices, strict=True):
                fit = self.desk.placer.fit(seats.part)
                slots = fit.slots_of[-1] if in_sight else fit.before_company()
                fits = books.present[row] and slots[row]
                if not fits or not books.has_devices(demand, row, mask):
                    return False
                books.take(demand, (row,), (mask,), entry.account, seats.part.code)
        return True

    def _held_size(self, name: str) -> Request:
        """Return what a workload is charged for the room that is kept for it."""
        size: Request = {}
        for demand, _, _, account, flavor in self.desk.books.holds[name]:
            for pair, amount in self.desk.books.bill(demand, account, flavor):
                size[pair] = size.get(pair, 0) + amount
        return size

    def measure(self) -> None:
        """Note anew what workloads are charged: what is counted has changed."""
        for name, hold in self._kept.items():
            hold.size = self._held_size(name)

    def copy(self, desk: Desk) -> Holds:
        """Return the holds of a fork."""
        new = Holds(desk)
        new._kept = {
            name: replace(
                hold,
                seats=[(tasks, replace(each, rows=each.rows[:])) for tasks, each in hold.seats],
                leaving=dict(hold.leaving),
            )
            for name, hold in self._kept.items()
        }
        return new

    # -- over a restart ---------------------------------------------------------------------

    def dump(self) -> tuple[Held, ...]:
        """Return the room that is kept for others, as values."""
        return tuple(
            Held(
                name,
                tuple(self.desk.placement(tasks, seats) for tasks, seats in hold.seats),
                hold.until,
                tuple(hold.leaving),
            )
            for name, hold in self._kept.items()
        )

    def revive(self, held: Held) -> bool:
        """Keep room again that an earlier life kept; False: it is not to be had any more."""
        entry, rows = self.desk.entries.get(held.workload), self.desk.books.row_of
        if entry is None or held.workload in self._kept:
            return False
        runs = any(members.staying() for members in entry.members.values())
        if runs and (self.desk.policy.profile != "default" or entry.is_incomplete):
            return False
        if any(node not in rows for placement in held.placements for node in placement.nodes):
            return False
        parts = self.desk.beside(entry).root.leaves() if runs else self.desk.ask_of(entry).leaves
        leaves = {leaf.name: leaf for leaf in parts}
        if not self._is_what_it_was(entry, held):
            return False
        if any(placement.group not in leaves for placement in held.placements):
            return False  # that was for more than its minimum
        found = []
        for each in held.placements:
            seats = Seats(leaves[each.group], [rows[n] for n in each.nodes], list(each.devices))
            found.append(seats)
            if any(
                self._is_taken(row, mask)
                for row, mask in zip(seats.rows, seats.devices, strict=True)
            ):
                return False
        leaving = [key for key in held.leaving if self._leaves(*key)]
        self.keep(entry, found, leaving, [each.tasks for each in held.placements])
        self._kept[held.workload].until = held.until
        self._kept[held.workload].is_growth = runs
        if entry.has_begun and not runs:
            self.keep_start(entry, entry.started_at)
        del self.desk.decisions[-1]  # that is known already
        return True

    def _is_what_it_was(self, entry: Entry, held: Held) -> bool:
        """Return whether a workload asks for what room was kept for: it may have been edited."""
        counts: dict[str, int] = {}
        for each in held.placements:
            members = entry.members.get(each.group)
            if members is None or max(each.tasks, default=-1) >= len(members.states):
                return False
            counts[each.group] = counts.get(each.group, 0) + len(each.tasks)
            shape = members.demand.shape
            wanted = {bool(mask) if shape.mig else mask.bit_count() for mask in each.devices}
            if wanted - {bool(shape.gpus) if shape.mig else shape.gpus}:
                return False
        return entry.has_begun or entry.is_whole_with(counts)

    def _is_taken(self, row: int, mask: int) -> bool:
        """Return whether somebody who stays is on one of these devices."""
        return any(
            members.rows[task] == row and members.devices[task] & mask
            for entry in self.desk.entries.values()
            for members in entry.members.values()
            for task in members.staying()
        )

    def _leaves(self, name: str, group: str, task: int) -> bool:
        entry = self.desk.entries.get(name)
        states = entry.members[group].states if entry and group in entry.members else b""
        return task < len(states) and states[task] == TaskState.RELEASING
