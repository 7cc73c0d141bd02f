"""The engine: one pure, deterministic function of what it has observed.

    engine.observe(event)       a fact: node joined, workload submitted, bind refused, task ended
    engine.decide(now)          all that should be done at this instant, and why the rest waits

The engine assumes that its decisions will be carried out; the world confirms or refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from mooring.engine import check
from mooring.engine.helped import Helped
from mooring.engine.snapshot import as_adopted, present_nodes
from mooring.model.books import Books
from mooring.model.entry import NOWHERE, Entry, Members
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
from mooring.model.plan import Bind, CutShort, Evict, Impossible, NoRoom, Plan, Waiting
from mooring.model.queues import DEFAULT_QUEUE
from mooring.model.scenario import Scenario
from mooring.model.settings import Policy
from mooring.model.workload import Placement, TaskState
from mooring.policy.ask import compile_ask, leaf_ask
from mooring.policy.beside import Beside, growth
from mooring.policy.fit import Fits
from mooring.policy.lines import Lines
from mooring.policy.mix import Mix
from mooring.policy.place import ANYWHERE, Placer
from mooring.policy.profile import Profile
from mooring.policy.search import CutShortError, place
from mooring.policy.why import why

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.cluster import Node
    from mooring.model.columns import Ints
    from mooring.model.events import Event
    from mooring.model.plan import Decision, Reason
    from mooring.model.queues import Queue
    from mooring.model.topology import Topology
    from mooring.model.workload import Shape, Workload
    from mooring.policy.lines import Item, Line, Rank
    from mooring.policy.place import Seats

EMPTY = Plan()


class Engine:
    """Decides for one cluster."""

    def __init__(
        self,
        topology: Topology,
        policy: Policy = Policy(),
        memory: Memory = Memory(),
        queues: Sequence[Queue] = (DEFAULT_QUEUE,),
    ) -> None:
        check.check_policy(policy)
        self.books = Books(topology)
        self.policy = policy
        self.queues = tuple(queues)
        self._mix = Mix(learns=policy.mix_learns)
        self._mix.load(memory)
        self._arrivals: list[tuple[Shape, int]] = []
        """Shapes and how many of each came since the mix was last taught."""
        self._lines = Lines()
        self._entries: dict[str, Entry] = {}
        self._sequence = 0
        self._nodes: dict[str, Node | None] = {}
        """Nodes that came, changed or left (None) since the books were last told."""
        self._incomplete: dict[str, tuple[float | None, str]] = {}
        """Gangs that lost tasks: since when (None: since the next cycle), and why."""
        self._unmended: dict[str, tuple[Reason, ...]] = {}
        """Why the incomplete ones could not be completed."""
        self._resized: dict[str, None] = {}
        self._seen = 0
        self._epoch = 0
        self._attach(Profile(policy, self._mix))
        for queue in self.queues:
            self.books.queue(queue.name)

    def _attach(self, profile: Profile) -> None:
        self._fits = Fits(self.books)
        self._placer = Placer(self.books, self._fits, profile)

    # -- facts ------------------------------------------------------------------------------

    def observe(self, event: Event) -> None:
        """Take in one fact; a contradiction raises `EventError` and changes nothing."""
        match event:
            case Submitted():
                self._submit(event)
                return  # nothing is booked yet
            case TasksChanged():
                self._tasks_changed(event)
            case Ended():
                self._end(event.workload)
            case BindRefused():
                self._refused(event)
            case NodeJoined() | NodeChanged():
                self._node_is(event.node)
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

    def _node_is(self, node: Node) -> None:
        check.check_node(node)
        row = self.books.row_of.get(node.name)
        known = row is not None and self.books.present[row] and self.books.nodes[row] == node
        if not known or node.name in self._nodes:
            self._nodes[node.name] = node

    def _settle_nodes(self) -> None:
        """Let the nodes that came, changed or left since the last look into the books."""
        if not self._nodes:
            return
        changed = [node for node in self._nodes.values() if node is not None]
        gone = [name for name, node in self._nodes.items() if node is None]
        self._nodes.clear()
        moving = self._lift(changed)
        moved = self.books.set_nodes(changed, gone)
        if moved is not None:
            self._renumber(moved)
        for entry, members, tasks in moving:
            self.books.take(
                members.demand,
                [members.rows[task] for task in tasks],
                [members.devices[task] for task in tasks],
                entry.queue,
            )
        back = {node.name for node in changed}
        for entry in self._entries.values():
            if entry.avoid and back.intersection(entry.avoid):
                self._set_avoid(entry, tuple(n for n in entry.avoid if n not in back))
        self.books.commit()

    def _lift(self, changed: list[Node]) -> list[tuple[Entry, Members, list[int]]]:
        """Take tasks off nodes whose flavor or device memory changes: they are booked anew."""
        books, rows = self.books, set()
        for node in changed:
            row = books.row_of.get(node.name)
            if row is None or not books.used_of[-1][row]:
                continue
            old = books.nodes[row]
            memory = [d.memory for d in old.devices] != [d.memory for d in node.devices]
            if memory or old.gpu_model != node.gpu_model:
                rows.add(row)
        lifted = []
        for entry in self._entries.values() if rows else ():
            for members in entry.members.values():
                tasks = [task for task, row in enumerate(members.rows) if row in rows]
                if tasks:
                    lifted.append((entry, members, tasks))
                    self._give(entry, members, tasks)
        return lifted

    def _renumber(self, moved: Ints) -> None:
        row_of = moved.tolist()
        for entry in self._entries.values():
            for members in entry.members.values():
                members.rows = [row if row == NOWHERE else row_of[row] for row in members.rows]

    def _entry(self, name: str) -> Entry:
        try:
            return self._entries[name]
        except KeyError:
            raise check.EventError(f"there is no workload {name}") from None

    def _members(self, name: str, group: str) -> Members:
        try:
            return self._entry(name).members[group]
        except KeyError:
            raise check.EventError(f"workload {name} has no group {group}") from None

    def _new_entry(self, workload: Workload) -> Entry:
        self._sequence += 1
        entry = Entry(workload, self._sequence, self.books.queue(workload.queue))
        self._set_members(entry)
        self._entries[workload.name] = entry
        return entry

    def _set_members(self, entry: Entry) -> None:
        entry.members = {
            leaf.name: Members.of(leaf, self.books.demand(leaf.shape))
            for leaf in entry.workload.leaves()
        }

    def _submit(self, event: Submitted) -> None:
        workload = event.workload
        check.check_name(self._entries, workload)
        line = self._line_of(workload, ())
        entry = self._new_entry(workload)
        if not event.again:
            for members in entry.members.values():
                self._arrivals.append((members.group.shape, len(members.states)))
        self._lines.join(line, self._rank(entry, grows=False), (workload.name, ""))

    def _adopt(self, event: Adopted) -> None:
        self._settle_nodes()
        check.check_name(self._entries, event.workload)
        check.check_groups(event.workload)
        check.check_adopted(self.books, event)
        entry = self._new_entry(event.workload)
        entry.started_at = event.started_at
        for group, tasks in event.finished:
            members = entry.members[group]
            members.make_room(max(tasks, default=-1) + 1)
            for task in tasks:
                members.states[task] = TaskState.FINISHED
        for placement in event.placements:
            members = entry.members[placement.group]
            members.make_room(max(placement.tasks, default=-1) + 1)
            rows = [self.books.row_of[node] for node in placement.nodes]
            self.books.take(members.demand, rows, placement.devices, entry.queue)
            _note(members, placement.tasks, rows, placement.devices, TaskState.RUNNING)
        if event.placements or event.finished:
            self._look_after(entry, "lost-node")
        else:
            entry.charged_only = True
            self._charge_whole(entry, 1)

    def _charge_whole(self, entry: Entry, sign: int) -> None:
        """Charge (or refund) a workload whose places are not known."""
        for members in entry.members.values():
            self.books.charge(members.demand, sign * members.group.min, entry.queue, -1)

    def _changed(self, workload: Workload) -> None:
        """Take an edit: priority, queue, limits, size; once it has begun, its shapes stay."""
        entry = self._entry(workload.name)
        check.check_change(entry, workload)
        problems = compile_ask(self.books, workload).problems if entry.has_begun else ()
        if problems:
            unknown = problems[0]
            raise check.EventError(
                f"workload {workload.name} has begun: there is no {unknown.what} {unknown.name}"
            )
        self._settle_nodes()
        self._leave_lines(entry)
        queue = self.books.queue(workload.queue)
        if not entry.has_begun:
            entry.workload, entry.queue = workload, queue
            self._set_members(entry)
            self._queue_up(entry)
            return
        self._refund_and_charge(entry, workload, queue)
        self._resized[workload.name] = None
        if not entry.charged_only:
            self._look_after(entry, "resized")

    def _refund_and_charge(self, entry: Entry, workload: Workload, queue: int) -> None:
        """Put an edit into force for work that has begun."""
        if entry.charged_only:
            self._charge_whole(entry, -1)
        if queue != entry.queue:
            for members in entry.members.values():
                tasks = members.holding()
                self._give(entry, members, tasks)
                rows = [members.rows[task] for task in tasks]
                devices = [members.devices[task] for task in tasks]
                self.books.take(members.demand, rows, devices, queue)
        entry.workload, entry.queue = workload, queue
        for leaf in workload.leaves():
            entry.members[leaf.name].resize(leaf)
        if entry.charged_only:
            self._charge_whole(entry, 1)

    def _end(self, name: str) -> None:
        entry = self._entry(name)
        self._settle_nodes()
        self._leave_lines(entry)
        for members in entry.members.values():
            self._vacate(entry, members, members.holding())
        if entry.charged_only:
            self._charge_whole(entry, -1)
        self._incomplete.pop(name, None)
        self._unmended.pop(name, None)
        self._resized.pop(name, None)
        del self._entries[name]

    def _tasks_changed(self, event: TasksChanged) -> None:
        entry = self._entry(event.workload)
        members = self._members(event.workload, event.group)
        check.check_tasks(event.workload, members, event.tasks, event.state)
        self._settle_nodes()
        state = event.state
        came_back = state == TaskState.RUNNING and members.is_releasing
        if state in (TaskState.PENDING, TaskState.FINISHED, TaskState.FAILED):
            self._vacate(entry, members, event.tasks)
        for task in event.tasks:
            self._set_releasing(members, task, releasing=state == TaskState.RELEASING)
            members.states[task] = TaskState.PENDING if state == TaskState.FAILED else state
        if came_back or state in (TaskState.PENDING, TaskState.FINISHED, TaskState.FAILED):
            self._look_after(entry, "lost-task")

    def _set_releasing(self, members: Members, task: int, *, releasing: bool) -> None:
        row = members.rows[task]
        if row == NOWHERE or releasing == (members.states[task] == TaskState.RELEASING):
            return
        if releasing:
            self.books.begin_release(members.demand, (row,))
        else:
            self.books.end_release(members.demand, (row,))

    def _refused(self, event: BindRefused) -> None:
        entry = self._entry(event.workload)
        members = self._members(event.workload, event.group)
        check.check_tasks(event.workload, members, event.tasks, TaskState.PENDING)
        self._settle_nodes()
        nodes = {self.books.nodes[members.rows[task]].name for task in event.tasks}
        self._vacate(entry, members, event.tasks)
        self._set_avoid(entry, tuple(sorted({*entry.avoid, *nodes})))
        self._look_after(entry, "stale-gang")

    def _set_avoid(self, entry: Entry, avoid: tuple[str, ...]) -> None:
        """Note the nodes that a workload keeps away from; its ask is another one then."""
        waits = self._leave_lines(entry)
        entry.avoid = avoid
        if waits:
            self._queue_up(entry)

    def _node_left(self, name: str) -> None:
        self._settle_nodes()
        row = self.books.row_of.get(name)
        if row is None or not self.books.present[row]:
            raise check.EventError(f"there is no node {name}")
        for entry in self._entries.values():
            lost = False
            for members in entry.members.values():
                tasks = [task for task, at in enumerate(members.rows) if at == row]
                self._vacate(entry, members, tasks)
                lost |= bool(tasks)
            if lost:
                self._look_after(entry, "lost-node")
        self._nodes[name] = None

    def _policy_changed(self, policy: Policy) -> None:
        check.check_policy(policy)
        self.policy = policy
        self._mix.learns = policy.mix_learns
        self._attach(Profile(policy, self._mix))
        self._lines.wake(list(self._lines.sleeping.values()))

    # -- places and lines -------------------------------------------------------------------

    def _give(self, entry: Entry, members: Members, tasks: Sequence[int]) -> None:
        rows = [members.rows[task] for task in tasks]
        devices = [members.devices[task] for task in tasks]
        self.books.give(members.demand, rows, devices, entry.queue)

    def _vacate(self, entry: Entry, members: Members, tasks: Sequence[int]) -> None:
        """Free the places of tasks; they are pending then."""
        tasks = [task for task in tasks if members.rows[task] != NOWHERE]
        if not tasks:
            return
        for task in tasks:
            self._set_releasing(members, task, releasing=False)
        self._give(entry, members, tasks)
        for task in tasks:
            members.rows[task] = NOWHERE
            members.devices[task] = 0
            members.states[task] = TaskState.PENDING

    def _look_after(self, entry: Entry, cause: str) -> None:
        """See what a workload needs now that tasks of it have lost or left their place."""
        name = entry.workload.name
        if entry.has_begun and entry.is_incomplete:
            self._leave_lines(entry)
            self._incomplete.setdefault(name, (None, cause))
            return
        self._incomplete.pop(name, None)
        self._unmended.pop(name, None)
        if not entry.has_begun:
            self._leave_lines(entry)  # it may have waited to grow
        self._queue_up(entry)

    def _rank(self, entry: Entry, *, grows: bool) -> Rank:
        workload = entry.workload
        return int(grows), -workload.priority, workload.submitted_at, entry.sequence

    def _queue_up(self, entry: Entry) -> None:
        """Put a workload in line for what it misses: its minimum, or more for its groups."""
        if entry.charged_only or entry.workload.name in self._incomplete:
            return
        if entry.has_begun:
            self._line_up_growth(entry)
        elif (entry.workload.name, "") not in self._lines:
            self._line_up(entry)

    def _line_up(self, entry: Entry) -> None:
        """Put a workload that has not begun in the line of those that ask for the same."""
        line = self._line_of(entry.workload, entry.avoid)
        self._lines.join(line, self._rank(entry, grows=False), (entry.workload.name, ""))

    def _line_of(self, workload: Workload, avoid: tuple[str, ...]) -> Line:
        """Return the line of a workload's ask; a new ask is checked first."""
        key = (workload.groups, workload.topology, workload.service, avoid)
        line = self._lines.line(key)
        if line is None:
            check.check_groups(workload)
            line = self._lines.open(key, compile_ask(self.books, workload, avoid))
        return line

    def _line_up_growth(self, entry: Entry) -> None:
        """Put every group of a running workload that may have more tasks in a line of its own."""
        if all(members.spare <= 0 for members in entry.members.values()):
            return
        for leaf in compile_ask(self.books, entry.workload).root.leaves():
            item = (entry.workload.name, leaf.name)
            tasks = growth(entry.members[leaf.name], leaf)
            if item in self._lines and self._lines.ask_of(item).root.count != len(tasks):
                self._lines.leave(item)
                self._lines.close(item)
            if tasks and item not in self._lines:
                ask = leaf_ask(leaf, len(tasks), entry.workload, entry.avoid)
                line = self._lines.open(item, ask)
                self._lines.join(line, self._rank(entry, grows=True), item)

    def _leave_lines(self, entry: Entry) -> bool:
        """Take a workload out of all lines; return whether it was in one."""
        name, found = entry.workload.name, False
        for group in ("", *entry.members):
            if (name, group) in self._lines:
                self._lines.leave((name, group))
                found = True
            if group:
                self._lines.close((name, group))
        return found

    # -- decisions --------------------------------------------------------------------------

    def decide(self, now: float) -> Plan:
        """Return all that should be done now; the engine assumes that it will be."""
        self._settle_nodes()
        self._wake_lines()
        if not (self._lines.any_ready or self._incomplete or self._resized or self._lines.told):
            return EMPTY
        self._learn(now)
        decisions: list[Decision] = []
        told: dict[str, None] = {}
        self._shrink(decisions)
        wake_at = self._mend(now, decisions, told)
        self._serve(now, decisions)
        self.books.commit()
        self._seen = self.books.log_end
        told.update((name, None) for name, _ in self._lines.tell())
        waiting = tuple([Waiting(name, self.reasons(name)) for name in told])
        return Plan(tuple(decisions), waiting, wake_at)

    def _learn(self, now: float) -> None:
        """Teach the mix what has arrived; older arrivals count for less by now."""
        if self._arrivals:
            self._mix.fade(now, self.policy.mix_half_life_s)
            for shape, count in self._arrivals:
                self._mix.arrive(shape, count)
            self._arrivals.clear()

    def _wake_lines(self) -> None:
        """Wake the sleeping lines that a change since the last cycle could help."""
        books, lines = self.books, self._lines
        if self._epoch != books.epoch:
            self._epoch = books.epoch
            lines.wake(list(lines.sleeping.values()))
        elif self._seen != books.log_end and lines.sleeping:
            lost = self._seen < books.trimmed
            fresh = None if lost else sorted(set(books.touched[self._seen - books.trimmed :]))
            helped = Helped(self._fits, fresh)
            lines.wake([line for line in lines.sleeping.values() if helped(line.ask)])
        self._seen = books.log_end

    def _serve(self, now: float, decisions: list[Decision]) -> None:
        """Try the heads of all lines that are ready, in order of rank, until none is left."""
        started = -1
        while started != len(decisions):
            started = len(decisions)
            while (head := self._lines.next_ready()) is not None:
                self._try(*head, now, decisions)
            if not self._lines.sleeping:
                return
            drawn = [line for line in self._lines.sleeping.values() if line.ask.is_drawn]
            if not drawn:
                return
            if started != len(decisions):
                self._lines.wake(drawn)

    def _try(self, line: Line, item: Item, now: float, decisions: list[Decision]) -> None:
        """Place the head of a line, or let the line sleep."""
        name, group = item
        entry = self._entries[name]
        if group:
            self._try_growth(line, item, now, decisions)
            return
        seats: list[Seats] | None = None
        reasons: tuple[Reason, ...] = ()
        mark = self.books.checkpoint()
        try:
            if not line.ask.problems:
                seats = place(self._placer, line.ask, entry.queue)
        except CutShortError:
            self.books.rollback(mark)
            reasons = (CutShort(self._placer.steps),)
        if seats is None:
            self._sleep(line, reasons or why(self._placer, line.ask))
            return
        self._lines.leave(item)
        for found in seats:
            tasks = entry.members[found.part.name].pending()[: len(found.rows)]
            self._start(entry, tasks, found, decisions)
        entry.started_at = now
        if entry.is_elastic:
            self._line_up_growth(entry)

    def _sleep(self, line: Line, reasons: tuple[Reason, ...]) -> None:
        self._lines.sleep(line, reasons, self.books.log_end)

    def _try_growth(self, line: Line, item: Item, now: float, decisions: list[Decision]) -> None:
        """Place one more unit of a group beside the others."""
        entry = self._entries[item[0]]
        beside = self._beside(entry)
        leaf = next(leaf for leaf in beside.root.leaves() if leaf.name == item[1])
        found = beside.place({leaf.name: growth(entry.members[leaf.name], leaf)})
        if found is None:
            self._sleep(line, why(self._placer, line.ask, beside.bound(leaf)))
            return
        self._lines.leave(item)
        self._lines.close(item)
        for tasks, seats in found:
            self._start(entry, tasks, seats, decisions)
        if entry.started_at is None:
            entry.started_at = now
        self._line_up_growth(entry)

    def _beside(self, entry: Entry) -> Beside:
        return Beside(self._placer, entry, compile_ask(self.books, entry.workload).root)

    def _start(
        self, entry: Entry, tasks: Sequence[int], seats: Seats, decisions: list[Decision]
    ) -> None:
        """Assume that booked seats are taken, and say so."""
        self.books.commit()
        if not seats.rows:
            return
        names = self.books.tree.names[-1]
        _note(entry.members[seats.part.name], tasks, seats.rows, seats.devices, TaskState.ASSUMED)
        nodes = tuple([names[row] for row in seats.rows])
        placement = Placement(seats.part.name, tuple(tasks), nodes, tuple(seats.devices))
        decisions.append(Bind(entry.workload.name, placement))

    def _mend(self, now: float, decisions: list[Decision], told: dict[str, None]) -> float | None:
        """Complete gangs that lost tasks, or undo those that stay incomplete too long."""
        wake_at: float | None = None
        if not self._incomplete:
            return None
        entries = [self._entries[name] for name in self._incomplete]
        for entry in sorted(entries, key=lambda entry: self._rank(entry, grows=False)):
            name = entry.workload.name
            since, cause = self._incomplete[name]
            since = now if since is None else since
            self._incomplete[name] = since, cause
            if any(members.is_releasing for members in entry.members.values()):
                continue
            reasons = self._complete(entry, decisions)
            if not reasons:
                del self._incomplete[name]
                self._unmended.pop(name, None)
                self._line_up_growth(entry)
                continue
            if reasons != self._unmended.get(name):
                self._unmended[name] = reasons
                told[name] = None
            due = since + self.policy.gang_grace_s
            if now >= due:
                self._undo(entry, cause, decisions)
            else:
                wake_at = due if wake_at is None else min(wake_at, due)
        return wake_at

    def _complete(self, entry: Entry, decisions: list[Decision]) -> tuple[Reason, ...]:
        """Place what a gang misses beside what it has, or return why not; all of it or nothing."""
        beside = self._beside(entry)
        wanted = {name: m.pending()[: m.missing] for name, m in entry.members.items()}
        found = beside.place(wanted)
        if found is not None:
            for tasks, seats in found:
                self._start(entry, tasks, seats, decisions)
            return ()
        reasons: list[Reason] = []
        for leaf in beside.root.leaves():
            if wanted[leaf.name]:
                ask = leaf_ask(leaf, len(wanted[leaf.name]), entry.workload, entry.avoid)
                reasons += why(self._placer, ask, beside.bound(leaf))
        return tuple(reasons)

    def _undo(self, entry: Entry, cause: str, decisions: list[Decision]) -> None:
        """Evict what is left of a gang; it waits again, whole, at its old place in line."""
        for members in entry.members.values():
            self._evict(entry, members, members.staying(), cause, decisions)

    def _shrink(self, decisions: list[Decision]) -> None:
        """Evict the tasks that a smaller size no longer has, the last ones first."""
        if not self._resized:
            return
        for name in self._resized:
            entry = self._entries[name]
            for members in entry.members.values():
                surplus = max(0, -members.spare - members.states.count(TaskState.RELEASING))
                staying = members.staying()
                gone = staying[len(staying) - min(surplus, len(staying)) :]
                self._evict(entry, members, gone, "resized", decisions)
        self._resized.clear()

    # wide: what a task is, and why it goes
    def _evict(
        self,
        entry: Entry,
        members: Members,
        tasks: list[int],
        cause: str,
        decisions: list[Decision],
    ) -> None:
        if not tasks:
            return
        for task in tasks:
            self._set_releasing(members, task, releasing=True)
            members.states[task] = TaskState.RELEASING
        decisions.append(Evict(entry.workload.name, members.group.name, tuple(tasks), cause))

    # -- what is known ----------------------------------------------------------------------

    def reasons(self, name: str) -> tuple[Reason, ...]:
        """Return why a workload waits, or does not grow; empty: it has all it asked for."""
        if name in self._incomplete:
            return self._unmended.get(name, ())
        groups = self._entries[name].members if name in self._entries else ()
        items = [(name, group) for group in ("", *groups) if (name, group) in self._lines]
        return tuple(reason for item in items for reason in self._reasons_of(item))

    def _reasons_of(self, item: Item) -> tuple[Reason, ...]:
        line = self._lines.head_of(item)
        if line is None:
            return (self._lines.before(item),)
        counted = line.asleep and any(isinstance(r, NoRoom | Impossible) for r in line.reasons)
        now = self.books.log_end
        if not counted or line.counted_at == now or self._nodes or self._seen != now:
            return line.reasons
        beside = self._beside(self._entries[item[0]])
        leaf = next((leaf for leaf in beside.root.leaves() if leaf.name == item[1]), None)
        within = ANYWHERE if leaf is None else beside.bound(leaf)
        reasons = why(self._placer, line.ask, within)
        self._seen = self.books.log_end  # what was tried on the way has been taken back
        return reasons

    def waiting(self) -> list[str]:
        """Return the workloads that wait to start, to be complete or to grow, in order of rank."""
        incomplete = sorted(
            self._incomplete, key=lambda name: self._rank(self._entries[name], grows=False)
        )
        return list(dict.fromkeys([*incomplete, *(name for name, _ in self._lines.items())]))

    def entries(self) -> dict[str, Entry]:
        """Return all workloads; to look at, not to change."""
        return self._entries

    def memory(self) -> Memory:
        """Return what must not be forgotten over a restart."""
        mix = self._mix.copy()
        for shape, count in self._arrivals:
            mix.arrive(shape, count)
        return mix.dump()

    def snapshot(self, now: float = 0.0) -> Scenario:
        """Return the present moment as a value."""
        self._settle_nodes()
        books = self.books
        begun = [entry for entry in self._entries.values() if entry.has_begun]
        waiting = [entry for entry in self._entries.values() if not entry.has_begun]
        waiting.sort(key=lambda entry: self._rank(entry, grows=False))
        return Scenario(
            now,
            books.topology,
            present_nodes(books, self._entries.values()),
            self.queues,
            self.policy,
            tuple(entry.workload for entry in waiting),
            tuple(as_adopted(books, entry) for entry in begun),
            self.memory(),
        )

    def fork(self) -> Engine:
        """Return an engine that stands where this one stands and goes its own way."""
        self._settle_nodes()
        new = object.__new__(Engine)
        new.__dict__.update(self.__dict__)
        new.books = self.books.copy()
        new._mix = self._mix.copy()
        new._attach(self._placer.profile.copy(new._mix))
        new._lines = self._lines.copy()
        new._entries = {name: entry.copy() for name, entry in self._entries.items()}
        for name in ("_arrivals", "_nodes", "_incomplete", "_unmended", "_resized"):
            setattr(new, name, getattr(self, name).copy())
        return new


# wide: all that is known of a task that has a place
def _note(
    members: Members,
    tasks: Sequence[int],
    rows: Sequence[int],
    devices: Sequence[int],
    state: TaskState,
) -> None:
    """Note where tasks are."""
    for task, row, mask in zip(tasks, rows, devices, strict=True):
        members.rows[task] = row
        members.devices[task] = mask
        members.states[task] = state
