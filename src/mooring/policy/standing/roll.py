"""The roll: everybody who runs, as items of the line, kept up with what happens.

An item is the minimum of a workload, or one unit above it; the roll knows which tasks that is and
what it would cost to make it leave.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mooring.model.books import BY_NODE, account_of
from mooring.model.workload import TaskState
from mooring.policy.placing.ask import compile_ask
from mooring.policy.queues.tree import NOBODY
from mooring.policy.standing.line import Item, Line, rank_of, size_of
from mooring.policy.victims.evict import Victim

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.model.books import Bill
    from mooring.model.entry import Entry, Members
    from mooring.policy.desk import Desk
    from mooring.policy.queues.lines import Request
    from mooring.policy.queues.share import Yardstick
    from mooring.policy.standing.line import Name, Size
    from mooring.policy.victims.evict import Tasks

HOUR = 3600.0
ASSUMED, RUNNING = int(TaskState.ASSUMED), int(TaskState.RUNNING)
MOST = 1 << 16
"""So many changes are noted, then it begins anew."""


class Roll:
    """Items of all running work, and their line."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._line: Line | None = None
        self._yardstick: Yardstick | None = None
        self._tasks: dict[Name, Tasks] = {}
        self._units: dict[str, int] = {}
        """How many items each workload has."""
        self._sizes: dict[Bill, Size] = {}
        self._singles: dict[str, Tasks] = {}
        self.changes: list[Name] = []
        """Names of items that came, left, changed or were moved, since it began anew."""
        self.age = 0
        """How often it began anew."""

    def renew(self) -> None:
        """Begin anew: queues have changed."""
        self._line = None
        self._tasks.clear()
        self._units.clear()
        self._sizes.clear()
        self.age += 1
        self.changes.clear()

    def line(self, yardstick: Yardstick) -> Line:
        """Return the line of all who run, by the shares of now."""
        desk = self.desk
        if self._line is None or self._line.tree is not desk.tree or len(self.changes) > MOST:
            self.renew()
            items = [item for entry in desk.entries.values() for item in self._items(entry)]
            self._line = Line(desk.tree, yardstick.quota, yardstick.divided, yardstick.norms, items)
        else:
            if yardstick is not self._yardstick:
                self._line.retable(yardstick.quota, yardstick.divided, yardstick.norms)
            self._catch_up(self._line, desk.moved)
        desk.moved.clear()
        self._yardstick = yardstick
        return self._line

    def _catch_up(self, line: Line, moved: Iterable[str]) -> None:
        gone, there = list[tuple[str, int]](), list[Item]()
        entries, tasks, units = self.desk.entries, self._tasks, self._units
        for name in moved:
            entry = entries.get(name)
            before = [(name, unit) for unit in range(units.pop(name, 0))]
            for known in before:
                del tasks[known]
            items = [] if entry is None else self._items(entry)
            if not items:
                gone += reversed(before)
                self.changes += before
                continue
            after = [(name, item.unit) for item in items]
            gone += [known for known in reversed(before) if known not in after]
            there += items
            self.changes += before  # the same item may be elsewhere
            self.changes += [known for known in after if known not in before]
        line.remove_all(gone)
        for item in there:
            line.put(item)

    def _items(self, entry: Entry) -> list[Item]:
        """Return what runs of a workload, and note which tasks each item is."""
        name = entry.workload.name
        hold = self.desk.holds.get(name)
        if hold is None and len(entry.members) == 1:
            ((group, members),) = entry.members.items()
            if len(members.states) == 1:
                return self._single(entry, group, members)
        minimum, units = split(self.desk, entry)
        if hold is not None and not minimum:
            self._tasks[name, 0], self._units[name] = (), 1
            held = self._item(entry, 0, size_of(hold.size))
            return [replace(held, preemptible=False)]
        if not minimum:
            return []
        found = []
        for unit, tasks in enumerate([minimum, *units]):
            self._tasks[name, unit] = tasks
            found.append(self._item(entry, unit, self._size(entry, tasks)))
        if hold is not None and hold.is_growth:  # the unit that is to come
            unit = len(found)
            self._tasks[name, unit] = ()
            held = self._item(entry, unit, size_of(hold.size))
            found.append(replace(held, preemptible=False))
        self._units[name] = len(found)
        return found

    def _single(self, entry: Entry, group: str, members: Members) -> list[Item]:
        """Return what runs of a workload of a single task: the short way for many."""
        if not ASSUMED <= members.states[0] <= RUNNING:
            return []
        name = entry.workload.name
        tasks = self._singles.get(group)
        if tasks is None:
            tasks = self._singles[group] = ((group, 0),)
        self._tasks[name, 0] = tasks
        self._units[name] = 1
        return [self._item(entry, 0, self._size_of_one(entry, members, 0))]

    def _size(self, entry: Entry, tasks: Tasks) -> Size:
        """Return what tasks are charged; of single ones it is known."""
        if len(tasks) > 1:
            return size_of(self.desk.size(entry, tasks))
        ((group, task),) = tasks
        return self._size_of_one(entry, entry.members[group], task)

    def _size_of_one(self, entry: Entry, members: Members, task: int) -> Size:
        """Return what one task is charged."""
        books, code = self.desk.books, members.flavor
        if code == BY_NODE:
            code = books.charged_kind_of[members.rows[task]]
        bill = books.bill(members.demand, account_of(entry.queue, fixed=False), code)
        size = self._sizes.get(bill)
        if size is None:
            size = self._sizes[bill] = size_of(dict(bill))
        return size

    def _item(self, entry: Entry, unit: int, size: Size) -> Item:
        workload, desk = entry.workload, self.desk
        name = workload.name
        preemptible = workload.preemptible and (unit > 0 or not workload.semi_preemptible)
        priority = desk.priority(entry) if workload.priority_class else workload.priority
        lender = NOBODY
        if desk.promises.loans:
            lender = desk.promises.lender(name, self._tasks[name, unit])
        return Item(
            name,
            unit,
            entry.queue,
            size,
            (int(preemptible), -priority, int(unit > 0), workload.submitted_at, name, unit),
            priority,
            preemptible and name not in desk.firm,
            float(entry.start_number),
            entry.running_since,
            name in desk.overtakers,
            lender,
        )

    def newcomer(self, entry: Entry, size: Request, unit: int = 0) -> Item:
        """Return the minimum of a workload, or one more unit, as an item that would start now."""
        workload, name = entry.workload, (entry.workload.name, unit)
        priority = self.desk.priority(entry)
        preemptible = entry.workload.preemptible if unit else not entry.is_fixed
        rank = rank_of(name, workload.submitted_at, priority, is_preemptible=preemptible)
        return Item(workload.name, unit, entry.queue, size_of(size), rank, priority, preemptible)

    def count(self, workload: str) -> int:
        """Return how many items of a workload run."""
        return self._units.get(workload, 0)

    def item(self, workload: str, unit: int) -> Item:
        """Return a running item."""
        assert self._line is not None
        return self._line[workload, unit]

    def tasks(self, name: Name) -> Tasks:
        """Return the tasks of a running item."""
        return self._tasks[name]

    def tasks_of(self, names: Iterable[Name]) -> list[Tasks]:
        """Return the tasks of each of some running items."""
        known = self._tasks
        return [known[name] for name in names]

    def victim(self, item: Item, cause: str) -> Victim:
        """Return an item as a victim."""
        entry = self.desk.entries[item.workload]
        return Victim(entry, self._tasks[item.name], cause, item.unit)

    def closed(self, victims: Iterable[Victim]) -> list[Victim]:
        """Return victims with all that leaves with them, one for each workload."""
        victims = list(victims)
        if all(not victim.unit and self._units[victim.name[0]] == 1 for victim in victims):
            return victims
        causes: dict[str, str] = {}
        units: dict[str, dict[int, None]] = {}
        for victim in victims:
            name = victim.entry.workload.name
            causes.setdefault(name, victim.cause)
            every = range(self._units[name]) if not victim.unit else (victim.unit,)
            units.setdefault(name, {}).update(dict.fromkeys(every))
        return [
            Victim(
                self.desk.entries[name],
                tuple(task for unit in sorted(some) for task in self._tasks[name, unit]),
                causes[name],
                min(some),
            )
            for name, some in units.items()
        ]


def split(desk: Desk, entry: Entry) -> tuple[Tasks, list[Tasks]]:
    """Return the tasks of the minimum of a workload that run, and of each unit above it."""
    if len(entry.members) == 1:
        ((group, members),) = entry.members.items()
        staying = members.staying()
        if len(staying) <= members.group.min:
            return tuple([(group, task) for task in staying]), []
    minimum: list[tuple[str, int]] = []
    units: list[Tasks] = []
    sliced = _slice_sizes(desk, entry) if entry.is_elastic else {}
    for group, members in entry.members.items():
        staying = members.staying()
        least = members.group.min
        minimum += [(group, task) for task in staying[:least]]
        size = sliced.get(group, 1)
        rest = staying[least:]
        units += [
            tuple((group, task) for task in rest[at : at + size])
            for at in range(0, len(rest), size)
        ]
    if not minimum and units:
        return units[0], units[1:]
    return tuple(minimum), units


def _slice_sizes(desk: Desk, entry: Entry) -> dict[str, int]:
    root = compile_ask(desk.books, entry.workload).root
    return {leaf.name: leaf.slices[0][1] for leaf in root.leaves() if leaf.slices}


def price(desk: Desk, victim: Victim) -> float:
    """Return what it costs to make a victim leave: GPU-hours since its checkpoint, and restart."""
    return cost_of(desk, victim.entry, victim.tasks)


def cost_of(desk: Desk, entry: Entry, tasks: Tasks) -> float:
    """Return what it costs to make tasks of a workload leave."""
    workload, milli = entry.workload, 0
    for group, _ in tasks:
        milli += entry.members[group].demand.weight - 1 or 1
    since, now = entry.running_since, desk.now
    lost_s = 0.0
    if since is not None and not workload.service:  # a service has done its work as it went
        lost_s = max(0.0, now - workload.saved_until(since, now))
    restart_s = workload.restart_cost_s
    if restart_s is None:
        restart_s = desk.policy.eviction.restart_s
    return milli / 1000 * (lost_s + restart_s) / HOUR
