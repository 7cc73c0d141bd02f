"""Facts about workloads: submitted, found running, edited, their tasks changed, ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.engine import check
from mooring.engine.adopt import codes_of, completed
from mooring.engine.places import charge_whole, note_freed, put_on, take_off, vacate
from mooring.model.books import BY_NODE
from mooring.model.entry import Entry, Members
from mooring.model.memory import NO_PAST, Past
from mooring.model.workload import TaskState
from mooring.policy.desk import note
from mooring.policy.placing.ask import compile_ask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.engine.needs import Needs
    from mooring.engine.nodes import Nodes
    from mooring.engine.upkeep import Upkeep
    from mooring.model.events import Adopted, BindRefused, TasksChanged
    from mooring.model.workload import Workload
    from mooring.policy.desk import Desk

VACANT = (TaskState.PENDING, TaskState.FINISHED, TaskState.FAILED)
"""States in which a task has no place."""


class Workloads:
    """The workloads of one desk."""

    def __init__(self, desk: Desk, nodes: Nodes, needs: Needs, upkeep: Upkeep) -> None:
        self.desk = desk
        self.nodes = nodes
        self.needs = needs
        self.upkeep = upkeep
        self._pasts: dict[str, Past] = {}
        """Of workloads that have not come yet."""
        self._sequence = 0
        self._found: dict[str, None] = {}
        """Those found running since the last cycle."""

    def remember(self, pasts: Mapping[str, Past]) -> None:
        """Take in what workloads went through in an earlier life."""
        self._pasts = dict(pasts)

    def pasts(self) -> dict[str, Past]:
        """Return what workloads have been through, also of those that have not come yet."""
        return self._pasts | {name: entry.past for name, entry in self.desk.entries.items()}

    # -- coming and going -------------------------------------------------------------------

    def submit(self, workload: Workload) -> Entry:
        """Let a workload wait; return its entry."""
        check.check_name(self.desk.entries, workload)
        check.check_groups(workload)
        entry = self._enter(workload)
        self.needs.court.wait(entry)
        return entry

    def _enter(self, workload: Workload) -> Entry:
        desk = self.desk
        self._sequence += 1
        entry = Entry(workload, self._sequence, desk.books.queue(workload.queue))
        entry.past = self._pasts.pop(workload.name, NO_PAST)
        self._set_members(entry)
        desk.entries[workload.name] = entry
        desk.note_times(workload)
        desk.mind_pairs()
        desk.version += 1
        return entry

    def _set_members(self, entry: Entry) -> None:
        entry.members = {
            leaf.name: Members.of(leaf, self.desk.books.demand(leaf.shape))
            for leaf in entry.workload.leaves()
        }

    def adopt(self, event: Adopted) -> None:
        """Take in a workload that runs already, where it is."""
        desk = self.desk
        self.nodes.settle()
        check.check_name(desk.entries, event.workload)
        check.check_groups(event.workload)
        event = completed(desk, event)
        check.check_adopted(desk.books, event)
        entry = self._enter(event.workload)
        for group, code in codes_of(desk, event).items():
            entry.members[group].flavor = code
        entry.started_at, entry.running_since = event.started_at, event.running_since
        self._found[event.workload.name] = None
        self._book_found(entry, event)
        if event.running_since is None and (entry.runs or not event.placements):
            entry.running_since = event.started_at
        self.upkeep.look_at(event.workload.name)
        desk.note_move(entry)
        if desk.policy.profile != "kai":
            for members in entry.members.values():
                if 0 < members.group.partial <= members.begun:
                    members.reduce(members.begun)
        if event.placements or event.finished:
            self.needs.look_after(entry, "lost-node")
            self.needs.resized[event.workload.name] = None  # it may have been edited meanwhile
        else:
            entry.charged_only = True
            charge_whole(desk.books, entry, 1)

    def _book_found(self, entry: Entry, event: Adopted) -> None:
        """Book the tasks of one that was found running, in the states they are in."""
        books = self.desk.books
        for group, tasks in event.finished:
            members = entry.members[group]
            members.make_room(max(tasks, default=-1) + 1)
            for task in tasks:
                members.states[task] = TaskState.FINISHED
        for placement in event.placements:
            members = entry.members[placement.group]
            members.make_room(max(placement.tasks, default=-1) + 1)
            rows = [books.row_of[node] for node in placement.nodes]
            devices = placement.devices
            books.take(members.demand, rows, devices, entry.account, members.flavor)
            note(members, placement.tasks, rows, devices, TaskState.RUNNING)
        for group, tasks in event.starting:
            for task in tasks:
                entry.members[group].states[task] = TaskState.BOUND
        for group, tasks in event.releasing:
            members = entry.members[group]
            for task in tasks:
                self.desk.set_releasing(entry, members, task, releasing=True)
                members.states[task] = TaskState.RELEASING

    def number_starts(self) -> None:
        """Put those found running since the last cycle in the order in which they started."""
        if not self._found:
            return
        desk = self.desk
        found = [desk.entries[name] for name in self._found if name in desk.entries]
        new = [entry for entry in found if not entry.start_number]
        new.sort(key=lambda entry: entry.started_at or 0.0)
        for entry in new:
            desk.number_start(entry)
        desk.note_moves(new)
        self._found.clear()

    def end(self, name: str) -> Entry:
        """Let a workload be over; return what its entry was."""
        entry = self._entry(name)
        self.nodes.settle()
        self.needs.leave(entry)
        note_freed(self.desk, entry)
        for members in entry.members.values():
            vacate(self.desk, entry, members, members.holding())
        if entry.charged_only:
            charge_whole(self.desk.books, entry, -1)
            self.desk.note_move(entry)
        self.needs.forget(name)
        self.upkeep.forget(name)
        del self.desk.entries[name]
        self.desk.timed.pop(name, None)
        return entry

    # -- changes ----------------------------------------------------------------------------

    def edit(self, workload: Workload) -> None:
        """Take an edit: priority, queue, limits, size; once it has begun, its shapes stay."""
        desk, entry = self.desk, self._entry(workload.name)
        check.check_change(entry, workload)
        problems = compile_ask(desk.books, workload).problems if entry.has_begun else ()
        if problems:
            unknown = problems[0]
            raise check.EventError(
                f"workload {workload.name} has begun: there is no {unknown.what} {unknown.name}"
            )
        self.nodes.settle()
        self.needs.leave(entry)
        queue = desk.books.queue(workload.queue)
        desk.mind_pairs()
        desk.note_times(workload)
        desk.version += 1
        desk.edits += 1
        if not entry.has_begun:
            entry.workload, entry.queue = workload, queue
            self._set_members(entry)
            self.needs.queue_up(entry)
            return
        self._refund_and_charge(entry, workload, queue)
        desk.note_move(entry)
        self.upkeep.look_at(workload.name)
        self.needs.resized[workload.name] = None
        if not entry.charged_only:
            self.needs.look_after(entry, "resized")

    def _refund_and_charge(self, entry: Entry, workload: Workload, queue: int) -> None:
        """Put an edit into force for work that has begun."""
        books = self.desk.books
        if entry.charged_only:
            charge_whole(books, entry, -1)
        for members in entry.members.values():
            take_off(books, entry, members, members.holding())
        before = entry.queue
        entry.workload, entry.queue = workload, queue
        for members in entry.members.values():
            members.flavor = members.flavor if before == queue else BY_NODE
            put_on(books, entry, members, members.holding())
        for leaf in workload.leaves():
            entry.members[leaf.name].resize(leaf)
        if entry.charged_only:
            charge_whole(books, entry, 1)

    def change_tasks(self, event: TasksChanged) -> None:
        """Let tasks be in another state."""
        desk, entry = self.desk, self._entry(event.workload)
        members = self._members(entry, event.group)
        check.check_tasks(event.workload, members, event.tasks, event.state)
        self.nodes.settle()
        state = event.state
        at = desk.now if event.at is None else event.at
        came_back = state == TaskState.RUNNING and members.is_releasing
        for name in desk.holds.against(entry, members, event.tasks) if came_back else ():
            self.needs.give_up(name)
        if state == TaskState.FAILED:
            self.upkeep.failed(entry, event.group, event.tasks, at)
        if state in VACANT:
            vacate(desk, entry, members, event.tasks)
        for task in event.tasks:
            desk.set_releasing(entry, members, task, releasing=state == TaskState.RELEASING)
            members.states[task] = TaskState.PENDING if state == TaskState.FAILED else state
        if state == TaskState.FINISHED and desk.holds.is_for(
            event.workload, event.group, event.tasks
        ):
            desk.holds.open(event.workload)  # it was to move, and need not any more
        if state == TaskState.RUNNING and entry.running_since is None and entry.runs:
            entry.running_since = at
            desk.note_move(entry)
            self.upkeep.look_at(event.workload)
        if came_back:
            self.needs.resized[event.workload] = None  # it may have more than it may have
            self.upkeep.stays(entry)
        if came_back or state == TaskState.RELEASING:
            desk.note_move(entry)
        if came_back or state in VACANT:
            self.needs.look_after(entry, "lost-task")

    def refuse(self, event: BindRefused) -> None:
        """Let tasks be back in line: where they were to go they are not taken."""
        entry = self._entry(event.workload)
        members = self._members(entry, event.group)
        check.check_tasks(event.workload, members, event.tasks, TaskState.PENDING)
        self.nodes.settle()
        nodes = {self.desk.books.nodes[members.rows[task]].name for task in event.tasks}
        vacate(self.desk, entry, members, event.tasks)
        self.needs.avoid(entry, tuple(sorted({*entry.refused, *nodes})))
        self.needs.look_after(entry, "stale-gang")

    def _entry(self, name: str) -> Entry:
        try:
            return self.desk.entries[name]
        except KeyError:
            raise check.EventError(f"there is no workload {name}") from None

    def _members(self, entry: Entry, group: str) -> Members:
        try:
            return entry.members[group]
        except KeyError:
            name = entry.workload.name
            raise check.EventError(f"workload {name} has no group {group}") from None

    def copy(self, desk: Desk, nodes: Nodes, needs: Needs, upkeep: Upkeep) -> Workloads:
        """Return the workloads of a fork."""
        new = Workloads(desk, nodes, needs, upkeep)
        new._pasts, new._sequence, new._found = dict(self._pasts), self._sequence, dict(self._found)
        return new
