"""The engine: one pure, deterministic function of what it has observed.

    engine.observe(event)       a fact: node joined, workload submitted, bind refused, task ended
    engine.decide(now)          all that should be done at this instant, and why the rest waits

The engine assumes that its decisions will be carried out; the world confirms or refuses.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, assert_never

from mooring.engine import check
from mooring.engine.adopt import codes_of, completed
from mooring.engine.shadow import calm, strict
from mooring.engine.snapshot import as_adopted, present_nodes
from mooring.engine.tidy import Tidy
from mooring.engine.turns import Turns
from mooring.engine.upkeep import Upkeep
from mooring.model.books import BY_NODE, Books
from mooring.model.entry import NOWHERE, Entry, Members
from mooring.model.events import (
    Adopted,
    BindRefused,
    Ended,
    NodeChanged,
    NodeJoined,
    NodeLeft,
    PolicyChanged,
    QueuesChanged,
    Submitted,
    TasksChanged,
    WorkloadChanged,
)
from mooring.model.memory import NO_PAST, Memory
from mooring.model.plan import Bind, Evict, Plan, Reserve, Waiting, without
from mooring.model.queues import DEFAULT_QUEUE
from mooring.model.scenario import Scenario
from mooring.model.settings import Policy
from mooring.model.workload import TaskState
from mooring.policy.default import DefaultCourt
from mooring.policy.defragment import Bounds, Planner
from mooring.policy.desk import Desk, note
from mooring.policy.kai.court import KaiCourt
from mooring.policy.kueue.court import KueueCourt
from mooring.policy.placing.ask import compile_ask, leaf_ask
from mooring.policy.placing.mix import Mix
from mooring.policy.placing.profile import KUEUE, Profile
from mooring.policy.placing.why import why
from mooring.policy.queues.offers import gate, place_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mooring.model.cluster import Node
    from mooring.model.columns import Ints
    from mooring.model.events import Event
    from mooring.model.invoice import Invoice
    from mooring.model.plan import Reason
    from mooring.model.queues import Queue
    from mooring.model.topology import Topology
    from mooring.model.workload import Shape, Workload
    from mooring.policy.court import Court
    from mooring.policy.headroom import Promise

EMPTY = Plan()
MENDING = ("kai",)
"""Profiles whose court completes gangs that lost tasks, in their place in line."""
COURTS: dict[str, Callable[[Desk], Court]] = {
    "default": DefaultCourt,
    "kai": KaiCourt,
    "kueue": KueueCourt,
}


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
        check.check_headroom(policy, queues, ())
        self.books = Books(topology)
        self.policy = policy
        self.queues = tuple(queues)
        self._mix = Mix(learns=policy.mix_learns)
        self._mix.load(memory)
        self._arrivals: list[tuple[Shape, int]] = []
        """Shapes and how many of each came since the mix was last taught."""
        self._sequence = 0
        self._nodes: dict[str, Node | None] = {}
        """Nodes that came, changed or left (None) since the books were last told."""
        self._incomplete: dict[str, tuple[float | None, str]] = {}
        """Gangs that lost tasks: since when (None: since the next cycle), and why."""
        self._unmended: dict[str, tuple[Reason, ...]] = {}
        """Why the incomplete ones could not be completed."""
        self._resized: dict[str, None] = {}
        self._is_shadow = False
        self._adopted: dict[str, None] = {}
        """Those found running since the last cycle."""
        self.books.name_flavors(policy.flavors, plain_anywhere=policy.profile == KUEUE)
        self.desk = Desk(self.books, policy, Profile(policy, self._mix))
        self.desk.set_queues(self.queues)
        self._entries = self.desk.entries
        self._court: Court = COURTS[policy.profile](self.desk)
        self._upkeep = Upkeep(self.desk)
        self._turns = Turns(self.desk)
        self._turns.load(memory)
        self._tidy = Tidy(self.desk)
        self._tidy.load(memory)
        self._held = memory.holds
        """Room that an earlier life kept, until the first cycle."""
        self._quiet = EMPTY
        """The plan of a cycle in which there is nothing to do: only when to look again."""
        self._pasts = dict(memory.pasts)
        """Of workloads that have not come yet."""
        self.desk.failures = {node: list(times) for node, times in memory.node_failures}
        self.desk.history.load(memory)
        self.desk.sampled.load(memory)
        self.desk.latest.load(memory)
        self.desk.promises.load(memory)

    # -- facts ------------------------------------------------------------------------------

    def observe(self, event: Event) -> None:
        """Take in one fact; a contradiction raises `EventError` and changes nothing."""
        match event:
            case Submitted():
                self._submit(event)
                self._turns.observe(event)
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
            case QueuesChanged():
                self._queues_changed(event.queues)
            case _:
                assert_never(event)
        self._turns.observe(event)
        self.books.commit()

    def _node_is(self, node: Node) -> None:
        check.check_node(node)
        row = self.books.row_of.get(node.name)
        known = row is not None and self.books.present[row] and self.books.nodes[row] == node
        if not known or node.name in self._nodes:
            self._nodes[node.name] = node

    def _known_nodes(self) -> list[Node]:
        """Return all nodes, with those that the books have not been told of yet."""
        books = self.books
        known: dict[str, Node | None] = {
            node.name: node for row, node in enumerate(books.nodes) if books.present[row]
        }
        return [node for node in (known | self._nodes).values() if node is not None]

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
            self._put_on(entry, members, tasks)
            self.desk.note_move(entry)
        back = {node.name for node in changed}
        for entry in self._entries.values():
            if entry.avoid and back.intersection(entry.avoid):
                self._set_avoid(entry, tuple(n for n in entry.avoid if n not in back))
        self.desk.mind_pairs()
        self._mind_holds({*back, *gone})
        self.books.commit()

    def _mind_holds(self, nodes: set[str]) -> None:
        """Give up room kept on nodes that have changed so that it will not do any more."""
        names, desk = self.books.tree.names[-1], self.desk
        for name, hold in list(desk.holds.items()):
            rows = [row for _, seats in hold.seats for row in seats.rows]
            if nodes.intersection(names[row] for row in rows) and not desk.is_sound(name):
                self._give_up(name)

    def _give_up(self, name: str) -> None:
        """Open the room that is kept for a workload, which waits as before."""
        self.desk.unhold(name)
        self._queue_up(self._entries[name])

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
                    self._take_off(entry, members, tasks)
        return lifted

    def _renumber(self, moved: Ints) -> None:
        row_of = moved.tolist()
        for entry in self._entries.values():
            for members in entry.members.values():
                members.rows = [row if row == NOWHERE else row_of[row] for row in members.rows]
        for hold in self.desk.holds.values():
            for _, seats in hold.seats:
                seats.rows[:] = [row_of[row] for row in seats.rows]

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
        entry.past = self._pasts.pop(workload.name, NO_PAST)
        self._set_members(entry)
        self._entries[workload.name] = entry
        self.desk.mind_pairs()
        self.desk.version += 1
        return entry

    def _set_members(self, entry: Entry) -> None:
        entry.members = {
            leaf.name: Members.of(leaf, self.books.demand(leaf.shape))
            for leaf in entry.workload.leaves()
        }

    def _submit(self, event: Submitted) -> None:
        workload = event.workload
        check.check_name(self._entries, workload)
        check.check_groups(workload)
        entry = self._new_entry(workload)
        if not event.again:
            for members in entry.members.values():
                self._arrivals.append((members.group.shape, len(members.states)))
        self._court.wait(entry)

    def _adopt(self, event: Adopted) -> None:
        self._settle_nodes()
        check.check_name(self._entries, event.workload)
        check.check_groups(event.workload)
        event = completed(self.desk, event)
        check.check_adopted(self.books, event)
        entry = self._new_entry(event.workload)
        for group, code in codes_of(self.desk, event).items():
            entry.members[group].flavor = code
        entry.started_at = entry.running_since = event.started_at
        self._adopted[event.workload.name] = None
        for group, tasks in event.finished:
            members = entry.members[group]
            members.make_room(max(tasks, default=-1) + 1)
            for task in tasks:
                members.states[task] = TaskState.FINISHED
        for placement in event.placements:
            members = entry.members[placement.group]
            members.make_room(max(placement.tasks, default=-1) + 1)
            rows = [self.books.row_of[node] for node in placement.nodes]
            devices = placement.devices
            self.books.take(members.demand, rows, devices, entry.account, members.flavor)
            note(members, placement.tasks, rows, placement.devices, TaskState.RUNNING)
        for group, tasks in event.releasing:
            members = entry.members[group]
            for task in tasks:
                self.desk.set_releasing(entry, members, task, releasing=True)
                members.states[task] = TaskState.RELEASING
        self._upkeep.look_at(event.workload.name)
        self.desk.note_move(entry)
        if self.policy.profile != "kai":
            for members in entry.members.values():
                if 0 < members.group.partial <= members.begun:
                    members.reduce(members.begun)
        if event.placements or event.finished:
            self._look_after(entry, "lost-node")
        else:
            entry.charged_only = True
            self._charge_whole(entry, 1)

    def _charge_whole(self, entry: Entry, sign: int) -> None:
        """Charge (or refund) a workload whose places are not known."""
        for members in entry.members.values():
            count = sign * members.group.min
            self.books.charge(members.demand, count, entry.account, members.flavor)

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
        self._court.leave(entry)
        self.desk.unhold(workload.name)
        queue = self.books.queue(workload.queue)
        self.desk.mind_pairs()
        self.desk.version += 1
        if not entry.has_begun:
            entry.workload, entry.queue = workload, queue
            self._set_members(entry)
            self._queue_up(entry)
            return
        self._refund_and_charge(entry, workload, queue)
        self.desk.note_move(entry)
        self._upkeep.look_at(workload.name)
        self._resized[workload.name] = None
        if not entry.charged_only:
            self._look_after(entry, "resized")

    def _refund_and_charge(self, entry: Entry, workload: Workload, queue: int) -> None:
        """Put an edit into force for work that has begun."""
        if entry.charged_only:
            self._charge_whole(entry, -1)
        for members in entry.members.values():
            self._take_off(entry, members, members.holding())
        before = entry.queue
        entry.workload, entry.queue = workload, queue
        for members in entry.members.values():
            members.flavor = members.flavor if before == queue else BY_NODE
            self._put_on(entry, members, members.holding())
        for leaf in workload.leaves():
            entry.members[leaf.name].resize(leaf)
        if entry.charged_only:
            self._charge_whole(entry, 1)

    def _end(self, name: str) -> None:
        entry = self._entry(name)
        self._settle_nodes()
        self._court.leave(entry)
        self.desk.unhold(name)
        for members in entry.members.values():
            self._vacate(entry, members, members.holding())
        if entry.charged_only:
            self._charge_whole(entry, -1)
        self._incomplete.pop(name, None)
        self._unmended.pop(name, None)
        self._resized.pop(name, None)
        self._upkeep.forget(name)
        self._turns.over(entry)
        del self._entries[name]

    def _tasks_changed(self, event: TasksChanged) -> None:
        entry = self._entry(event.workload)
        members = self._members(event.workload, event.group)
        check.check_tasks(event.workload, members, event.tasks, event.state)
        self._settle_nodes()
        state = event.state
        at = self.desk.now if event.at is None else event.at
        came_back = state == TaskState.RUNNING and members.is_releasing
        for name in self.desk.held_against(entry, members, event.tasks) if came_back else ():
            self._give_up(name)
        if state == TaskState.FAILED:
            rows = [members.rows[t] for t in event.tasks if members.rows[t] != NOWHERE]
            self._upkeep.failed(entry, [self.books.nodes[row].name for row in rows], at)
        if state in (TaskState.PENDING, TaskState.FINISHED, TaskState.FAILED):
            self._vacate(entry, members, event.tasks)
        for task in event.tasks:
            self.desk.set_releasing(entry, members, task, releasing=state == TaskState.RELEASING)
            members.states[task] = TaskState.PENDING if state == TaskState.FAILED else state
        if state == TaskState.RUNNING and entry.running_since is None and entry.runs:
            entry.running_since = at
            self.desk.note_move(entry)
            self._upkeep.look_at(event.workload)
        if came_back:
            self._resized[event.workload] = None  # it may have more than it may have
        if came_back or state == TaskState.RELEASING:
            self.desk.note_move(entry)
        if came_back or state in (TaskState.PENDING, TaskState.FINISHED, TaskState.FAILED):
            self._look_after(entry, "lost-task")

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
        waits = self._court.leave(entry)
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
        check.check_headroom(policy, self.queues, self._known_nodes())
        changed, self.policy = policy.profile != self.policy.profile, policy
        self._mix.learns = policy.mix_learns
        self.books.name_flavors(policy.flavors, plain_anywhere=policy.profile == KUEUE)
        self.desk.policy = policy
        self.desk.attach(Profile(policy, self._mix))
        self.desk.set_queues(self.queues)
        if changed:
            self._court = COURTS[policy.profile](self.desk)
            for entry in self._entries.values():
                self._queue_up(entry)
        self._upkeep.look_at_all()
        self._court.refresh()
        self._mind_rules()

    def _queues_changed(self, queues: tuple[Queue, ...]) -> None:
        check.check_queues(queues)
        check.check_headroom(self.policy, queues, self._known_nodes())
        self.queues = queues
        self.desk.set_queues(queues)
        self._upkeep.look_at_all()
        self._court.refresh()
        self._mind_rules()

    def _mind_rules(self) -> None:
        """Give up room kept for those who may not start any more."""
        for name in list(self.desk.holds):
            if gate(self.desk, self._entries[name]):
                self._give_up(name)

    # -- places -----------------------------------------------------------------------------

    def _take_off(self, entry: Entry, members: Members, tasks: Sequence[int]) -> None:
        """Take tasks out of the books for a moment, also those that are on their way out."""
        leaving = [members.rows[t] for t in tasks if members.states[t] == TaskState.RELEASING]
        self.books.end_release(members.demand, leaving, entry.account, members.flavor)
        rows = [members.rows[task] for task in tasks]
        devices = [members.devices[task] for task in tasks]
        self.books.give(members.demand, rows, devices, entry.account, members.flavor)

    def _put_on(self, entry: Entry, members: Members, tasks: Sequence[int]) -> None:
        """Book tasks again where they are."""
        rows = [members.rows[task] for task in tasks]
        devices = [members.devices[task] for task in tasks]
        self.books.take(members.demand, rows, devices, entry.account, members.flavor)
        leaving = [members.rows[t] for t in tasks if members.states[t] == TaskState.RELEASING]
        self.books.begin_release(members.demand, leaving, entry.account, members.flavor)

    def _vacate(self, entry: Entry, members: Members, tasks: Sequence[int]) -> None:
        """Free the places of tasks; they are pending then."""
        tasks = [task for task in tasks if members.rows[task] != NOWHERE]
        if not tasks:
            return
        self._take_off(entry, members, tasks)
        for task in tasks:
            members.rows[task] = NOWHERE
            members.devices[task] = 0
            members.states[task] = TaskState.PENDING
        if not any(each.holding() for each in entry.members.values()):
            for each in entry.members.values():  # a group alone may come back, as what it was
                each.flavor = BY_NODE
        self.desk.note_move(entry)
        self.desk.gone(entry, members, tasks)

    def _look_after(self, entry: Entry, cause: str) -> None:
        """See what a workload needs now that tasks of it have lost or left their place."""
        name = entry.workload.name
        if entry.has_begun and entry.is_incomplete:
            self._court.leave(entry)
            self._incomplete.setdefault(name, (None, cause))
            if self.policy.profile in MENDING:
                self._queue_up(entry)
            return
        self._incomplete.pop(name, None)
        self._unmended.pop(name, None)
        if not entry.has_begun:
            entry.running_since = None
            for members in entry.members.values():
                members.restore()
            self._court.leave(entry)  # it may have waited to grow
        self._queue_up(entry)

    def _queue_up(self, entry: Entry) -> None:
        """Let a workload wait for what it misses: its minimum, or more for its groups."""
        name = entry.workload.name
        is_mended = name in self._incomplete and self.policy.profile not in MENDING
        if not (entry.charged_only or is_mended or name in self.desk.holds):
            self._court.wait(entry)

    # -- decisions --------------------------------------------------------------------------

    def decide(self, now: float) -> Plan:
        """Return all that should be done now; the engine assumes that it will be."""
        self._settle_nodes()
        desk = self.desk
        desk.now = now
        desk.note_use()
        self._number_starts()
        for held in self._held:
            if desk.revive(held):
                self._court.leave(self._entries[held.workload])
        self._held = ()
        looks = self._court.stirs or self._upkeep.stirs or self._turns.stirs or self._tidy.stirs
        due = self._quiet.wake_at
        looks |= due is not None and due <= now  # what it was for may be gone
        if not (looks or self._incomplete or self._resized or desk.holds):
            return self._quiet
        self._learn(now)
        desk.decisions = []
        desk.fresh.clear()
        desk.begun = {}
        told: dict[str, None] = {}
        wakes = [self._upkeep.run()]
        self._shrink()
        wakes.append(self._mend(told))
        for entry in desk.start_held():
            told[entry.workload.name] = None
            self._queue_up(entry)
        wakes += self._serve()
        wakes.append(self._undo_stale())
        wakes.append(self._move(told))
        while self._take_back(told):
            wakes += self._serve()
        self.books.commit()
        desk.note_use()
        wakes += [hold.until for hold in desk.holds.values()]
        told.update(dict.fromkeys(self._court.tell()))
        waiting = tuple([Waiting(name, self.reasons(name)) for name in told])
        wakes += self._upkeep.expect(desk.decisions)
        wake_at = min((wake for wake in wakes if wake is not None), default=None)
        self._quiet = EMPTY if wake_at is None else Plan(wake_at=wake_at)
        return Plan(tuple(desk.decisions), waiting, wake_at)

    def _take_back(self, told: dict[str, None]) -> bool:
        """Let nobody start and leave in one plan: who was to leave at once has not started.

        Whoever it was to leave for starts, if all others have left; it waits again itself. Return
        whether there was anybody: every exchange makes the line better, so that this comes to rest.
        """
        desk = self.desk
        if self.policy.profile != "default":
            return False
        bound = {spot for each in desk.decisions if isinstance(each, Bind) for spot in each.spots}
        evicts = [each for each in desk.decisions if isinstance(each, Evict) and each.beneficiary]
        both = {spot: None for each in evicts for spot in each.spots if spot in bound}
        if not both:
            return False
        desk.decisions = [
            left for each in desk.decisions if (left := without(each, both)) is not None
        ]
        for name in dict.fromkeys(name for name, _, _ in both):
            entry = self._entries[name]
            for group, members in entry.members.items():
                self._vacate(entry, members, [t for n, g, t in both if (n, g) == (name, group)])
            if not entry.is_placed and name in desk.begun:
                entry.past = replace(desk.begun[name], is_bold=entry.past.is_bold)
            self._look_after(entry, "lost-task")
            told[name] = None
        for entry in desk.start_held():
            told[entry.workload.name] = None
            self._queue_up(entry)
        desk.decisions = [
            each
            for each in desk.decisions
            if not isinstance(each, Reserve) or each.workload in desk.holds
        ]
        return True

    def _number_starts(self) -> None:
        """Put those found running in the order in which they started."""
        found = [self._entries[name] for name in self._adopted if name in self._entries]
        for entry in sorted(found, key=lambda entry: entry.started_at or 0.0):
            if not entry.start_number:
                self.desk.number_start(entry)
                self.desk.note_move(entry)
        self._adopted.clear()

    def _serve(self) -> list[float | None]:
        """Let the court decide; queues that backfill do so under the eyes of a shadow."""
        court = self._court
        if isinstance(court, DefaultCourt) and not self._is_shadow and self.desk.backfills:
            return self._turns.serve(self, court)
        self._turns.note_ends()
        return [court.serve()]

    def _move(self, told: dict[str, None]) -> float | None:
        """Move running work where that pays; who starts by that waits only for it."""
        started, wake = self._tidy.look(self._court.waiting, self._turns.expected)
        for entry in started:
            self._court.leave(entry)
            told[entry.workload.name] = None
        return wake

    def defragmentation(self, now: float) -> Invoice | None:
        """Return what could be moved after all that is decided now, priced; nothing is changed."""
        fork = self.fork()
        fork._tidy.is_on = False
        fork.decide(now)
        if fork.policy.profile != "default":
            return None
        bounds = Bounds(fork.policy.defragmentation.moves)
        draft = Planner(fork.desk, fork._turns.expected, bounds).run(fork._court.waiting())
        return None if draft is None else draft.invoice()

    def empty(self) -> Engine:
        """Return an engine of the same cluster and policy in which nothing runs or waits."""
        self._settle_nodes()
        new = Engine(self.books.topology, self.policy, queues=self.queues)
        for row, node in enumerate(self.books.nodes):
            if self.books.present[row]:
                new.observe(NodeJoined(node))
        new._mix.load(self._mix.dump())
        return new

    def become_shadow(self) -> None:
        """Be strict order beside another engine from now on: nobody leaves for another."""
        self._is_shadow = True
        self._tidy.is_on = False
        self._turns = Turns(self.desk)
        self._upkeep = Upkeep(self.desk, enforces=False)
        if isinstance(self._court, DefaultCourt):
            self._court.evicts = False
            self._court.residual = None
        self.observe(PolicyChanged(calm(self.policy)))
        self.observe(QueuesChanged(strict(self.queues)))
        for marks in (self.desk.due, self.desk.overtakers, self.desk.reserved):
            marks.clear()

    def _learn(self, now: float) -> None:
        """Teach the mix what has arrived; older arrivals count for less by now."""
        if self._arrivals:
            self._mix.fade(now, self.policy.mix_half_life_s)
            for shape, count in self._arrivals:
                self._mix.arrive(shape, count)
            self._arrivals.clear()

    def _mend(self, told: dict[str, None]) -> float | None:
        """Complete gangs that lost tasks, or undo those that stay incomplete too long."""
        now, wake_at = self.desk.now, None
        if not self._incomplete or self.policy.profile in MENDING:
            return None
        entries = [self._entries[name] for name in self._incomplete]
        for entry in sorted(entries, key=self._seniority):
            name = entry.workload.name
            since, cause = self._incomplete[name]
            since = now if since is None else since
            self._incomplete[name] = since, cause
            if any(members.is_releasing for members in entry.members.values()):
                continue
            reasons = self._complete(entry)
            if not reasons:
                del self._incomplete[name]
                self._unmended.pop(name, None)
                self._queue_up(entry)
                continue
            if reasons != self._unmended.get(name):
                self._unmended[name] = reasons
                told[name] = None
            due = since + self._grace(entry)
            if now >= due:
                self.desk.evict_all(entry, cause)  # it waits again, at its old place in line
            elif due < inf:
                wake_at = due if wake_at is None else min(wake_at, due)
        return wake_at

    def _grace(self, entry: Entry) -> float:
        """Return how long a gang may be incomplete."""
        grace = entry.workload.grace_s
        if grace is None:
            grace = self.policy.gang_grace_s
        return grace if grace >= 0 else inf

    def _undo_stale(self) -> float | None:
        """Undo gangs that the court has not completed in time; one with finished tasks stays."""
        now, dues = self.desk.now, []
        for name in list(self._incomplete) if self.policy.profile in MENDING else ():
            entry, (since, cause) = self._entries[name], self._incomplete[name]
            if not entry.is_incomplete:
                del self._incomplete[name]
                continue
            states = [members.states for members in entry.members.values()]
            is_stale = name not in self.desk.holds and not any(
                TaskState.RELEASING in each or TaskState.FINISHED in each for each in states
            )
            since = (now if since is None else since) if is_stale else None
            self._incomplete[name] = since, cause
            due = inf if since is None else since + self._grace(entry)
            if now >= due:
                self._court.leave(entry)
                self.desk.evict_all(entry, cause)
            else:
                dues.append(due)
        return min(dues, default=None) if min(dues, default=inf) < inf else None

    def _complete(self, entry: Entry) -> tuple[Reason, ...]:
        """Place what a gang misses beside what it has, or return why not; all of it or nothing."""
        if not entry.is_placed and gate(self.desk, entry):
            return gate(self.desk, entry)  # only what is finished is left: this is a new start
        beside = self.desk.beside(entry)
        wanted = {name: m.pending()[: m.missing] for name, m in entry.members.items()}
        reasons: list[Reason] = []
        found = place_beside(self.desk, entry, beside, wanted, reasons)
        if found is not None:
            for tasks, seats in found:
                self.desk.start(entry, tasks, seats)
            return ()
        for leaf in beside.root.leaves() if not reasons else ():
            if wanted[leaf.name]:
                ask = leaf_ask(leaf, len(wanted[leaf.name]), entry.workload, entry.avoid)
                reasons += why(self.desk.placer, ask, beside.bound(leaf))
        return tuple(reasons)

    def _shrink(self) -> None:
        """Evict the tasks that a smaller size no longer has, the last ones first."""
        if not self._resized:
            return
        for name in self._resized:
            entry = self._entries[name]
            for members in entry.members.values():
                surplus = max(0, -members.spare - members.states.count(TaskState.RELEASING))
                staying = members.staying()
                gone = staying[len(staying) - min(surplus, len(staying)) :]
                self.desk.evict(entry, members, gone, "resized")
        self._resized.clear()

    # -- what is known ----------------------------------------------------------------------

    def reasons(self, name: str) -> tuple[Reason, ...]:
        """Return why a workload waits, or does not grow; empty: it has all it asked for."""
        if name in self._incomplete and self.policy.profile not in MENDING:
            return self._unmended.get(name, ())
        return self._court.reasons(name)

    def waiting(self) -> list[str]:
        """Return the workloads that wait to start, to be complete or to grow, in order of rank."""
        incomplete = sorted(self._incomplete, key=lambda name: self._seniority(self._entries[name]))
        return list(dict.fromkeys([*incomplete, *self.desk.holds, *self._court.waiting()]))

    def _seniority(self, entry: Entry) -> tuple[int, float, int]:
        return -self.desk.priority(entry), entry.workload.submitted_at, entry.sequence

    def running(self) -> list[str]:
        """Return the workloads of which something has a place and stays, in order of coming."""
        members = {name: entry.members.values() for name, entry in self._entries.items()}
        return [name for name, some in members.items() if any(m.staying() for m in some)]

    def flavor_of(self, members: Members, row: int) -> str:
        """Return what tasks on a row are charged to."""
        code = members.flavor if members.flavor != BY_NODE else self.books.charged_kind_of[row]
        return self.books.flavor_name(code)

    def standings(self, now: float) -> dict[tuple[str, str, str], tuple[int, int | None]]:
        """Return, by queue, flavor and resource, what is used and what the fair share is now."""
        self._settle_nodes()
        self.desk.now = max(self.desk.now, now)
        tree, used, shares = self.desk.tree, self.books.usage_of, self._court.shares()
        return {
            (name, *pair): (used[queue][column], shares[queue][column] if shares else None)
            for queue, name in enumerate(tree.names)
            for column, pair in enumerate(tree.pairs)
        }

    def risk(self, name: str) -> str:
        """Return whether running work is `covered` by quota, `in share` or `beyond`."""
        return self._court.risk(name)

    def shadow_starts(self) -> dict[str, float]:
        """Return when the turns of workloads came; empty while nobody waits to backfill."""
        shadow = self._turns.shadow
        return {} if shadow is None else dict(shadow.starts)

    def headroom(self) -> tuple[Promise, ...]:
        """Return how the promises of the policy stand, and whether each could be kept now."""
        self._settle_nodes()
        return self.desk.promises.report()

    def check_headroom(self) -> None:
        """Raise `EventError` if a promise could not be kept even if nothing ran."""
        check.check_headroom(self.policy, self.queues, self._known_nodes())

    def entries(self) -> dict[str, Entry]:
        """Return all workloads; to look at, not to change."""
        return self._entries

    def memory(self) -> Memory:
        """Return what must not be forgotten over a restart."""
        mix = self._mix.copy()
        for shape, count in self._arrivals:
            mix.arrive(shape, count)
        pasts = {name: entry.past for name, entry in self._entries.items()}
        return replace(
            self._turns.dump(self.desk.sampled.dump(self.desk.history.dump(mix.dump()))),
            latest_starts=self.desk.latest.dump().latest_starts,
            pasts=tuple((n, past) for n, past in (self._pasts | pasts).items() if past != NO_PAST),
            holds=(*self._held, *self.desk.held()),
            node_failures=tuple((node, tuple(t)) for node, t in self.desk.failures.items()),
            loans=self.desk.promises.dump(),
            defragmented=self._tidy.dump(),
        )

    def snapshot(self, now: float = 0.0) -> Scenario:
        """Return the present moment as a value."""
        self._settle_nodes()
        books = self.books
        begun = [entry for entry in self._entries.values() if entry.has_begun]
        begun.sort(key=lambda entry: entry.start_number)
        waiting = [entry for entry in self._entries.values() if not entry.has_begun]
        waiting.sort(key=self._seniority)
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
        new.desk = self.desk.copy(new.books, self.desk.placer.profile.copy(new._mix))
        new._entries = new.desk.entries
        new._court = self._court.copy(new.desk)
        new._upkeep = self._upkeep.copy(new.desk)
        new._turns = self._turns.copy(new.desk)
        new._tidy = self._tidy.copy(new.desk)
        new._pasts = dict(self._pasts)
        for name in ("_arrivals", "_nodes", "_incomplete", "_unmended", "_resized", "_adopted"):
            setattr(new, name, getattr(self, name).copy())
        return new
