"""The engine: facts in, plans out. One pure, deterministic function of what it has observed.

    engine.observe(event)       a fact: node joined, workload submitted, bind refused, task ended
    engine.decide(now)          all that should be done at this instant, and why the rest waits

The engine assumes that its decisions will be carried out; the world confirms or refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import numpy as np

from mooring.model.books import Books
from mooring.model.entry import NOWHERE, Entry, Members, illegal
from mooring.model.events import (
    Adopted,
    BindRefused,
    Ended,
    NodeChanged,
    NodeJoined,
    NodeLeft,
    PolicyChanged,
    Submitted,
    TasksChanged,
    WorkloadChanged,
)
from mooring.model.memory import Memory
from mooring.model.plan import Bind, CutShort, Evict, Plan
from mooring.model.queues import DEFAULT_QUEUE
from mooring.model.scenario import Scenario
from mooring.model.settings import Policy
from mooring.model.workload import HOLDING, Placement, TaskState, Workload
from mooring.policy.ask import Ask, compile_ask, unit
from mooring.policy.fit import Fits
from mooring.policy.lines import Lines
from mooring.policy.mix import Mix
from mooring.policy.place import CutShortError, Placer, Seats, Within
from mooring.policy.profile import Profile
from mooring.policy.why import why

if TYPE_CHECKING:
    from mooring.model.cluster import Node
    from collections.abc import Sequence

    from mooring.model.columns import Ints
    from mooring.model.events import Event
    from mooring.model.plan import Decision, Reason
    from mooring.model.queues import Queue
    from mooring.model.topology import Topology
    from mooring.policy.ask import Part
    from mooring.policy.lines import Line, Rank

EMPTY = Plan()


class EventError(ValueError):
    """An event that contradicts what is known. Nothing was changed."""


class Engine:
    """Decides for one cluster."""

    def __init__(
        self,
        topology: Topology,
        policy: Policy = Policy(),
        memory: Memory = Memory(),
        queues: Sequence[Queue] = (DEFAULT_QUEUE,),
    ) -> None:
        self.books = Books(topology)
        self.policy = policy
        self.queues = tuple(queues)
        self._mix = Mix(learns=policy.mix_learns)
        self._mix.load(memory)
        self._profile = Profile(policy, self._mix)
        self._attach()
        self._lines = Lines()
        self._entries: dict[str, Entry] = {}
        self._sequence = 0
        self._arriving: dict[str, Node | None] = {}
        self._incomplete: dict[str, tuple[float | None, str]] = {}
        """Gangs that lost tasks: since when (None: since the next cycle), and why."""
        self._resized: dict[str, None] = {}
        self._seen = 0
        self._epoch = 0
        for queue in self.queues:
            self.books.queue(queue.name)

    def _attach(self) -> None:
        self._fits = Fits(self.books)
        self._placer = Placer(self.books, self._fits, self._profile)

    # -- facts ------------------------------------------------------------------------------

    def observe(self, event: Event) -> None:
        """Take in one fact; a contradiction raises `EventError` and changes nothing."""
        match event:
            case Submitted():
                self._submit(event.workload)
            case TasksChanged():
                self._tasks_changed(event)
            case Ended():
                self._end(event.workload)
            case BindRefused():
                self._refused(event)
            case NodeJoined() | NodeChanged():
                self._arriving[event.node.name] = event.node
            case NodeLeft():
                self._node_left(event.node)
            case Adopted():
                self._adopt(event)
            case WorkloadChanged():
                self._changed(event.workload)
            case PolicyChanged():
                self._policy_changed(event.policy)
            case _:
                assert_never(event)
        self.books.commit()

    def _settle_nodes(self) -> None:
        """Let the nodes that came, changed or left since the last look into the books."""
        if not self._arriving:
            return
        changed = [node for node in self._arriving.values() if node is not None]
        gone = [name for name, node in self._arriving.items() if node is None]
        self._arriving.clear()
        moved = self.books.set_nodes(changed, gone)
        if moved is not None:
            self._renumber(moved)
        back = {node.name for node in changed}
        for name, entry in self._entries.items():
            if entry.avoid and back.intersection(entry.avoid):
                self._set_avoid(name, entry, tuple(n for n in entry.avoid if n not in back))

    def _renumber(self, moved: Ints) -> None:
        row_of = moved.tolist()
        for entry in self._entries.values():
            for members in entry.members.values():
                members.rows = [row if row == NOWHERE else row_of[row] for row in members.rows]

    def _entry(self, name: str) -> Entry:
        try:
            return self._entries[name]
        except KeyError:
            raise EventError(f"there is no workload {name}") from None

    def _members(self, name: str, group: str) -> Members:
        try:
            return self._entry(name).members[group]
        except KeyError:
            raise EventError(f"workload {name} has no group {group}") from None

    def _new_entry(self, workload: Workload) -> Entry:
        if workload.name in self._entries:
            raise EventError(f"workload {workload.name} is there already")
        self._sequence += 1
        entry = Entry(workload, self._sequence, self.books.queue(workload.queue))
        for leaf in workload.leaves():
            entry.members[leaf.name] = Members.of(leaf, self.books.demand(leaf.shape))
        self._entries[workload.name] = entry
        return entry

    def _submit(self, workload: Workload) -> None:
        entry = self._new_entry(workload)
        for leaf in workload.leaves():
            self._mix.arrive(leaf.shape, leaf.most)
        self._queue_up(entry)

    def _adopt(self, event: Adopted) -> None:
        self._settle_nodes()
        workload = event.workload
        groups = {leaf.name: leaf for leaf in workload.leaves()}
        for placement in event.placements:
            if placement.group not in groups:
                raise EventError(f"workload {workload.name} has no group {placement.group}")
            lost = [node for node in placement.nodes if node not in self.books.row_of]
            if lost:
                raise EventError(f"workload {workload.name} runs on {lost[0]}, which is not there")
            if not all(0 <= task < groups[placement.group].most for task in placement.tasks):
                raise EventError(f"group {placement.group} of {workload.name} has fewer tasks")
        entry = self._new_entry(workload)
        entry.started_at = event.started_at
        for placement in event.placements:
            members = entry.members[placement.group]
            rows = [self.books.row_of[node] for node in placement.nodes]
            self._seat(entry, members, placement.tasks, rows, placement.devices)
            for task in placement.tasks:
                members.move(task, TaskState.RUNNING)
        if event.placements:
            self._look_after(entry, "lost-node")
            return
        entry.charged_only = True
        for members in entry.members.values():
            self.books.charge(members.demand, members.group.min, entry.queue, -1)

    def _changed(self, workload: Workload) -> None:
        """Take an edit: priority, queue, limits, size; shapes stay once tasks have places."""
        self._settle_nodes()
        entry = self._entry(workload.name)
        leaves = {leaf.name: leaf for leaf in workload.leaves()}
        if not entry.is_placed and not entry.charged_only:
            self._leave_line(entry)
            entry.members = {
                name: Members.of(leaf, self.books.demand(leaf.shape))
                for name, leaf in leaves.items()
            }
            entry.workload, entry.queue = workload, self.books.queue(workload.queue)
            self._queue_up(entry)
            return
        for name, members in entry.members.items():
            if name not in leaves or leaves[name].shape != members.group.shape:
                raise EventError(f"workload {workload.name} runs: group {name} cannot change shape")
        self._leave_line(entry)
        self._move_charge(entry, self.books.queue(workload.queue))
        entry.workload = workload
        for name, members in entry.members.items():
            members.resize(leaves[name])
        self._resized[workload.name] = None
        self._queue_up(entry)

    def _move_charge(self, entry: Entry, queue: int) -> None:
        if queue == entry.queue:
            return
        for members in entry.members.values():
            tasks = members.holding()
            rows = [members.rows[task] for task in tasks]
            devices = [members.devices[task] for task in tasks]
            if entry.charged_only:
                self.books.charge(members.demand, -members.group.min, entry.queue, -1)
                self.books.charge(members.demand, members.group.min, queue, -1)
            elif tasks:
                self.books.give(members.demand, rows, devices, entry.queue)
                self.books.take(members.demand, rows, devices, queue)
        entry.queue = queue

    def _end(self, name: str) -> None:
        entry = self._entry(name)
        self._settle_nodes()
        self._leave_line(entry)
        for members in entry.members.values():
            self._vacate(entry, members, members.holding())
            if entry.charged_only:
                self.books.charge(members.demand, -members.group.min, entry.queue, -1)
        self._incomplete.pop(name, None)
        self._resized.pop(name, None)
        del self._entries[name]

    def _tasks_changed(self, event: TasksChanged) -> None:
        entry = self._entry(event.workload)
        members = self._members(event.workload, event.group)
        wrong = illegal(members, event.tasks, event.state)
        if wrong:
            raise EventError(f"workload {event.workload}, group {event.group}: {wrong}")
        self._settle_nodes()
        state = event.state
        if state in (TaskState.PENDING, TaskState.FINISHED, TaskState.FAILED):
            self._vacate(entry, members, event.tasks)
        for task in event.tasks:
            if (members.states[task] == TaskState.RELEASING) != (state == TaskState.RELEASING):
                self._set_releasing(members, task, releasing=state == TaskState.RELEASING)
            members.move(task, TaskState.PENDING if state == TaskState.FAILED else state)
        if state in (TaskState.PENDING, TaskState.FAILED):
            self._look_after(entry, "lost-task")

    def _set_releasing(self, members: Members, task: int, *, releasing: bool) -> None:
        row = members.rows[task]
        if row == NOWHERE:
            return
        if releasing:
            self.books.begin_release(members.demand, (row,))
        else:
            self.books.end_release(members.demand, (row,))

    def _refused(self, event: BindRefused) -> None:
        entry = self._entry(event.workload)
        members = self._members(event.workload, event.group)
        wrong = illegal(members, event.tasks, TaskState.PENDING)
        if wrong:
            raise EventError(f"workload {event.workload}, group {event.group}: {wrong}")
        self._settle_nodes()
        nodes = {self.books.nodes[members.rows[task]].name for task in event.tasks}
        self._vacate(entry, members, event.tasks)
        avoid = tuple(sorted({*entry.avoid, *nodes}))
        self._set_avoid(event.workload, entry, avoid)
        self._look_after(entry, "stale-gang")

    def _set_avoid(self, name: str, entry: Entry, avoid: tuple[str, ...]) -> None:
        """Note the nodes that a workload keeps away from; its ask is another one then."""
        waits = name in self._lines
        if waits:
            self._leave_line(entry)
        entry.avoid = avoid
        if waits:
            self._queue_up(entry)

    def _node_left(self, name: str) -> None:
        self._settle_nodes()
        if name not in self.books.row_of:
            raise EventError(f"there is no node {name}")
        row = self.books.row_of[name]
        for entry in self._entries.values():
            hit = False
            for members in entry.members.values():
                tasks = [task for task, at in enumerate(members.rows) if at == row]
                if tasks:
                    self._vacate(entry, members, tasks)
                    hit = True
            if hit:
                self._look_after(entry, "lost-node")
        self._arriving[name] = None

    def _policy_changed(self, policy: Policy) -> None:
        self.policy = policy
        self._mix.learns = policy.mix_learns
        self._profile = Profile(policy, self._mix)
        self._attach()
        self._lines.wake(list(self._lines.sleeping.values()))

    # -- tasks and places -------------------------------------------------------------------

    # wide: what a task is, and where it goes
    def _seat(
        self,
        entry: Entry,
        members: Members,
        tasks: Sequence[int],
        rows: Sequence[int],
        devices: Sequence[int],
    ) -> None:
        """Book places for tasks."""
        self.books.take(members.demand, rows, devices, entry.queue)
        self._note(members, tasks, rows, devices)

    @staticmethod
    def _note(
        members: Members, tasks: Sequence[int], rows: Sequence[int], devices: Sequence[int]
    ) -> None:
        for task, row, mask in zip(tasks, rows, devices, strict=True):
            members.rows[task] = row
            members.devices[task] = mask
            members.states[task] = TaskState.ASSUMED

    def _vacate(self, entry: Entry, members: Members, tasks: Sequence[int]) -> None:
        """Free the places of tasks; they are pending then."""
        tasks = [task for task in tasks if members.rows[task] != NOWHERE]
        if not tasks:
            return
        rows = [members.rows[task] for task in tasks]
        devices = [members.devices[task] for task in tasks]
        leaving = [
            members.rows[task] for task in tasks if members.states[task] == TaskState.RELEASING
        ]
        if leaving:
            self.books.end_release(members.demand, leaving)
        self.books.give(members.demand, rows, devices, entry.queue)
        for task in tasks:
            members.rows[task] = NOWHERE
            members.devices[task] = 0
            members.states[task] = TaskState.PENDING

    def _look_after(self, entry: Entry, cause: str) -> None:
        """See what a workload needs now that tasks of it have lost their place."""
        name = entry.workload.name
        if not entry.is_placed:
            self._incomplete.pop(name, None)
            if name not in self._lines:
                self._queue_up(entry)
            return
        if any(members.missing for members in entry.members.values()):
            self._leave_line(entry)
            self._incomplete.setdefault(name, (None, cause))
        elif name not in self._lines:
            self._queue_up(entry)

    def _rank(self, entry: Entry, *, grows: bool) -> Rank:
        workload = entry.workload
        return int(grows), -workload.priority, workload.submitted_at, entry.sequence

    def _queue_up(self, entry: Entry) -> None:
        """Put a workload in the line of its ask; a running one, if it is to grow, in its own."""
        workload = entry.workload
        if entry.charged_only:
            return
        if not entry.is_placed:
            key = (workload.groups, workload.topology, workload.service, entry.avoid)
            line = self._lines.line(key)
            if line is None:
                line = self._lines.open(key, compile_ask(self.books, workload, entry.avoid))
            self._lines.join(line, self._rank(entry, grows=False), workload.name)
            return
        part = self._next_unit(entry)
        if part is not None:
            ask = Ask(part, (part,), workload.service, entry.avoid, ())
            line = self._lines.open(("grow", workload.name), ask, workload.name)
            self._lines.join(line, self._rank(entry, grows=True), workload.name)

    def _leave_line(self, entry: Entry) -> None:
        name = entry.workload.name
        if name in self._lines:
            self._lines.leave(name)
            self._lines.close(("grow", name))

    def _next_unit(self, entry: Entry) -> Part | None:
        """Return the next elastic unit of a running workload, or None if it has all."""
        if entry.workload.name in self._incomplete:
            return None
        ask = compile_ask(self.books, entry.workload)
        for leaf in ask.root.leaves():
            members = entry.members[leaf.name]
            step = unit(leaf)
            if len(members.pending()) >= step.count and not members.is_releasing:
                return step
        return None

    # -- decisions --------------------------------------------------------------------------

    def decide(self, now: float) -> Plan:
        """Return all that should be done now; the engine assumes that it will be."""
        self._settle_nodes()
        self._wake_lines()
        if not (self._lines.any_ready or self._incomplete or self._resized or self._lines.told):
            return EMPTY
        self._mix.fade(now, self.policy.mix_half_life_s)
        decisions: list[Decision] = []
        for name in list(self._resized):
            self._shrink(self._entries[name], decisions)
        self._resized.clear()
        wake_at = self._mend(now, decisions)
        while (head := self._lines.next_ready()) is not None:
            self._try(*head, now, decisions)
        self.books.commit()
        self._seen = self.books.log_end
        return Plan(tuple(decisions), self._lines.tell(), wake_at)

    def _wake_lines(self) -> None:
        """Wake the sleeping lines that a change since the last cycle could help."""
        books, lines = self.books, self._lines
        if self._epoch != books.epoch:
            self._epoch = books.epoch
            lines.wake(list(lines.sleeping.values()))
        elif self._seen != books.log_end and lines.sleeping:
            lost = self._seen < books.trimmed
            fresh = None if lost else sorted(set(books.touched[self._seen - books.trimmed :]))
            could = self._helped(fresh)
            lines.wake([line for line in lines.sleeping.values() if could(line)])
        self._seen = books.log_end

    def _helped(self, rows: list[int] | None) -> _Helped:
        return _Helped(self._fits, rows)

    def _try(self, line: Line, name: str, now: float, decisions: list[Decision]) -> None:
        """Place the head of a line, or let the line sleep."""
        entry = self._entries[name]
        seats: list[Seats] | None = None
        reasons: tuple[Reason, ...] = ()
        try:
            if line.grows:
                seats = self._grow(entry, line.ask)
            elif not line.ask.problems:
                seats = self._placer.place(line.ask, entry.queue)
        except CutShortError:
            self.books.rollback(0)
            reasons = (CutShort(self._placer.steps),)
        if seats is None:
            self._lines.sleep(line, reasons or why(self._placer, line.ask))
            return
        self._lines.leave(name)
        if line.grows:
            self._lines.close(("grow", name))
        self._start(entry, seats, now, decisions)

    def _start(
        self, entry: Entry, seats: list[Seats], now: float, decisions: list[Decision]
    ) -> None:
        """Assume that booked seats are taken, and say so."""
        self.books.commit()
        names = self.books.tree.names[-1]
        for found in seats:
            if not found.rows:
                continue
            members = entry.members[found.part.name]
            tasks = tuple(members.pending()[: len(found.rows)])
            self._note(members, tasks, found.rows, found.devices)
            nodes = tuple([names[row] for row in found.rows])
            placement = Placement(found.part.name, tasks, nodes, tuple(found.devices))
            decisions.append(Bind(entry.workload.name, placement))
        if entry.started_at is None:
            entry.started_at = now
        if any(members.group.most > members.group.min for members in entry.members.values()):
            self._queue_up(entry)

    def _grow(self, entry: Entry, ask: Ask) -> list[Seats] | None:
        """Place one more unit of a running workload beside the others."""
        found = self._place_beside(entry, ask.root)
        return None if found is None else [found]

    def _place_beside(self, entry: Entry, part: Part) -> Seats | None:
        """Place tasks of a leaf where its constraint lets them join those that have a place."""
        members = entry.members[part.name]
        present = np.bincount(
            [members.rows[task] for task in members.holding()], minlength=self.books.count
        )
        self._placer.avoid = entry.avoid
        beside = present if present.any() else None
        for within in self._around(entry, part):
            seats = self._placer.place_leaf(
                part, within, entry.queue, service=entry.workload.service, present=beside
            )
            if seats is not None:
                return seats
        return None

    def _around(self, entry: Entry, part: Part) -> list[Within]:
        """Return the domains to try for a task that joins others: the nearest first."""
        tree = self.books.tree
        rows = {row for m in entry.members.values() for row in m.rows if row != NOWHERE}
        bound = max(0, self._bound_level(entry, part))
        found = []
        for level in range(tree.leaf_level, bound - 1, -1):
            domains = {self.books.up[level][row] for row in rows}
            if len(domains) == 1:
                found.append(Within(level, domains.pop()))
        return found

    def _bound_level(self, entry: Entry, part: Part) -> int:
        """Return the lowest level that a group and all groups around it require."""
        ask = compile_ask(self.books, entry.workload)

        def down(at: Part, bound: int) -> int:
            bound = max(bound, at.required)
            if at.name == part.name and not at.parts:
                return bound
            return max((down(child, bound) for child in at.parts), default=-1)

        return down(ask.root, -1)

    def _mend(self, now: float, decisions: list[Decision]) -> float | None:
        """Complete gangs that lost tasks, or undo those that stay incomplete too long."""
        wake_at: float | None = None
        order = sorted(
            self._incomplete, key=lambda name: self._rank(self._entries[name], grows=False)
        )
        for name in order:
            entry = self._entries[name]
            since, cause = self._incomplete[name]
            since = now if since is None else since
            self._incomplete[name] = since, cause
            if any(members.is_releasing for members in entry.members.values()):
                continue
            if self._complete(entry, now, decisions):
                del self._incomplete[name]
                self._queue_up_growth(entry)
            elif now - since >= self.policy.gang_grace_s:
                self._undo(entry, cause, decisions)
            else:
                due = since + self.policy.gang_grace_s
                wake_at = due if wake_at is None else min(wake_at, due)
        return wake_at

    def _queue_up_growth(self, entry: Entry) -> None:
        if entry.workload.name not in self._lines:
            self._queue_up(entry)

    def _complete(self, entry: Entry, now: float, decisions: list[Decision]) -> bool:
        """Place what a gang misses beside what it has; all of it or nothing."""
        ask = compile_ask(self.books, entry.workload)
        mark = self.books.checkpoint()
        seats = []
        for leaf in ask.root.leaves():
            missing = entry.members[leaf.name].missing
            if not missing:
                continue
            found = self._place_beside(entry, leaf.of(missing))
            if found is None:
                self.books.rollback(mark)
                return False
            seats.append(found)
        self._start(entry, seats, now, decisions)
        return True

    def _undo(self, entry: Entry, cause: str, decisions: list[Decision]) -> None:
        """Evict what is left of a gang; it waits again, whole, at its old place in line."""
        for name, members in entry.members.items():
            self._evict(entry, name, members.staying(), cause, decisions)

    def _shrink(self, entry: Entry, decisions: list[Decision]) -> None:
        """Evict the tasks that a smaller size no longer has."""
        for name, members in entry.members.items():
            surplus = [task for task in members.staying() if task >= members.group.most]
            self._evict(entry, name, surplus, "resized", decisions)

    # wide: what a task is, and why it goes
    def _evict(
        self, entry: Entry, group: str, tasks: list[int], cause: str, decisions: list[Decision]
    ) -> None:
        if not tasks:
            return
        members = entry.members[group]
        for task in tasks:
            self._set_releasing(members, task, releasing=True)
            members.move(task, TaskState.RELEASING)
        decisions.append(Evict(entry.workload.name, group, tuple(tasks), cause))

    # -- what is known ----------------------------------------------------------------------

    def reasons(self, name: str) -> tuple[Reason, ...]:
        """Return why a workload waits, or does not grow; empty: it has all it asked for."""
        return self._lines.reasons(name) if name in self._lines else ()

    def waiting(self) -> list[str]:
        """Return the workloads that wait to start or to grow, in order of rank."""
        return self._lines.names()

    def entries(self) -> dict[str, Entry]:
        """Return all workloads; to look at, not to change."""
        return self._entries

    def memory(self) -> Memory:
        """Return what must not be forgotten over a restart."""
        return self._mix.dump()

    def snapshot(self, now: float = 0.0) -> Scenario:
        """Return the present moment as a value."""
        self._settle_nodes()
        books = self.books
        nodes = tuple(node for node, there in zip(books.nodes, books.present, strict=True) if there)
        running = [entry for entry in self._entries.values() if _runs(entry)]
        waiting = [entry for entry in self._entries.values() if not _runs(entry)]
        waiting.sort(key=lambda entry: self._rank(entry, grows=False))
        return Scenario(
            now,
            books.topology,
            nodes,
            self.queues,
            self.policy,
            tuple(entry.workload for entry in waiting),
            tuple(self._as_adopted(entry) for entry in running),
            self.memory(),
        )

    def _as_adopted(self, entry: Entry) -> Adopted:
        names = self.books.tree.names[-1]
        placements = []
        for name, members in entry.members.items():
            tasks = members.holding()
            if tasks:
                nodes = tuple(names[members.rows[task]] for task in tasks)
                devices = tuple(members.devices[task] for task in tasks)
                placements.append(Placement(name, tuple(tasks), nodes, devices))
        return Adopted(entry.workload, tuple(placements), entry.started_at or 0.0)

    def fork(self) -> Engine:
        """Return an engine that stands where this one stands and goes its own way."""
        self._settle_nodes()
        new = object.__new__(Engine)
        new.__dict__.update(self.__dict__)
        new.books = self.books.copy()
        new._mix = self._mix.copy()
        new._profile = self._profile.copy(new._mix)
        new._attach()
        new._lines = self._lines.copy()
        new._entries = {name: entry.copy() for name, entry in self._entries.items()}
        new._arriving = {}
        new._incomplete = dict(self._incomplete)
        new._resized = dict(self._resized)
        return new


def _runs(entry: Entry) -> bool:
    return entry.is_placed or entry.charged_only


class _Helped:
    """Whether a change of some rows could let a sleeping line go on."""

    def __init__(self, fits: Fits, rows: list[int] | None) -> None:
        self._fits = fits
        self._rows = rows
        self._known: dict[int, bool] = {}

    def __call__(self, line: Line) -> bool:
        if line.ask.problems:
            return False
        return all(self._leaf(line.ask, leaf) for leaf in line.ask.leaves) and any(
            self._near(line.ask, leaf) for leaf in line.ask.leaves
        )

    def _leaf(self, ask: Ask, leaf: Part) -> bool:
        """Return whether there is room enough for a leaf, as far as counting can tell."""
        assert leaf.demand is not None
        fit = self._fits.of(leaf.demand, avoid=ask.avoid)
        return fit.company is not None or fit.total >= leaf.count

    def _near(self, ask: Ask, leaf: Part) -> bool:
        """Return whether a copy of a leaf fits on a row that changed."""
        assert leaf.demand is not None
        if self._rows is None:
            return True
        fit = self._fits.of(leaf.demand, avoid=ask.avoid)
        if fit.company is not None:
            return True
        known = self._known.get(leaf.demand.index)
        if known is None:
            slots = fit.slots_of[-1]
            known = any(slots[row] for row in self._rows)
            self._known[leaf.demand.index] = known
        return known


__all__ = ["HOLDING", "Engine", "EventError"]
