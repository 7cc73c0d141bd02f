"""The desk: all that a court sees when it decides, and all that it can do.

It knows the books, the workloads and the queues, and turns what a court wants (start this, let
those leave, keep this room) into bookings and decisions. Who is next is for the court to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.books import BY_NODE
from mooring.model.entry import NOWHERE, Entry, Members
from mooring.model.memory import Held, Past
from mooring.model.plan import Bind, Evict, Reserve
from mooring.model.resources import CPU, GPU, GPU_ROW, MEMORY
from mooring.model.workload import Placement, TaskState
from mooring.policy.backfill.calendar import LatestStarts
from mooring.policy.headroom import Promises
from mooring.policy.kueue.groups import groups_in
from mooring.policy.placing.ask import Ask, compile_ask
from mooring.policy.placing.beside import Beside
from mooring.policy.placing.fit import Fits
from mooring.policy.placing.place import Placer, Seats
from mooring.policy.queues.history import SampledUsage, UsageHistory
from mooring.policy.queues.lines import Request
from mooring.policy.queues.quota import Ledger, Shortage, Table
from mooring.policy.queues.tree import QueueTree
from mooring.policy.victims.departures import Departures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.model.books import Books
    from mooring.model.demand import Demand
    from mooring.model.plan import Decision
    from mooring.model.queues import Queue, ResourceGroup
    from mooring.model.settings import Policy
    from mooring.policy.placing.ask import Part
    from mooring.policy.placing.profile import Profile
    from mooring.policy.victims.evict import Victim

TaskKey = tuple[str, str, int]
"""(workload, group, task)."""
HISTORY_TICK_S = 900.0
"""How often history changes shares: no faster than work may be evicted for it."""
AUTOMATIC = (GPU,)
"""Resources that are shared fairly even where no queue says anything about them."""


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

    def rows(self) -> list[int]:
        """Return the rows of its room."""
        return [row for _, seats in self.seats for row in seats.rows]


class Desk:
    """One cluster as the policy sees it."""

    def __init__(self, books: Books, policy: Policy, profile: Profile) -> None:
        self.books = books
        self.policy = policy
        self.entries: dict[str, Entry] = {}
        self.now = 0.0
        self.decisions: list[Decision] = []
        self.begun: dict[str, Past] = {}
        """Those who start in this cycle, and what they had been through before."""
        self.holds: dict[str, Hold] = {}
        fairness = policy.fairness
        self.history = UsageHistory(fairness.window_s, fairness.half_life_s)
        self.sampled = SampledUsage(fairness.usage_sampling_s, fairness.usage_half_life_s)
        self._table: tuple[float, QueueTree, list[list[float]]] | None = None
        self.failures: dict[str, list[tuple[float, str]]] = {}
        """When work failed on nodes, lately, and whose it was."""
        self.failing: tuple[str, ...] = ()
        """Nodes where it failed so often that some avoid them."""
        self.shunned: tuple[str, ...] = ()
        """Nodes that are given a rest because tasks keep failing there."""
        self.latest = LatestStarts()
        """When those with a reservation in time start at the latest."""
        self.due: dict[str, None] = {}
        """Those who wait although their turn has come."""
        self.reserved: dict[str, tuple[str, ...]] = {}
        """Nodes that are closed for all but the workload they are reserved for."""
        self.overtakers: dict[str, None] = {}
        """Those who started before their turn, which has not come yet."""
        self.semi: dict[str, None] = {}
        """Workloads of which only what is above the minimum may be evicted."""
        self.departures = Departures(self)
        self.moved: dict[str, None] = {}
        """Workloads of which something started or left since the last look."""
        self.fresh: dict[str, None] = {}
        """Those who start in this cycle: nobody is asked to leave who is only just told to come."""
        self.starts = 0
        """How many workloads have started."""
        self.version = 0
        """Changes with everything that could let one workload displace another."""
        self._counted = (-1, -1)
        self.queues: tuple[Queue, ...] = ()
        self.tree = QueueTree((), (), ())
        self.ledger = Ledger(self.tree)
        self.promises = Promises(self)
        self.attach(profile)

    def attach(self, profile: Profile) -> None:
        """Place by the rules of a profile."""
        self.fits = Fits(self.books)
        self.placer = Placer(self.books, self.fits, profile)
        self.placer.shun(self.shunned, self.failing)

    def copy(self, books: Books, profile: Profile) -> Desk:
        """Return the desk of a fork, over a copy of the books."""
        new = object.__new__(Desk)
        new.__dict__.update(self.__dict__)
        new.books = books
        new.attach(profile)
        new.entries = {name: entry.copy() for name, entry in self.entries.items()}
        new.holds = {
            name: replace(
                hold,
                seats=[(tasks, replace(each, rows=each.rows[:])) for tasks, each in hold.seats],
                leaving=dict(hold.leaving),
            )
            for name, hold in self.holds.items()
        }
        new.history, new.sampled = self.history.copy(), self.sampled.copy()
        new.latest, new._table = self.latest.copy(), self._table
        new.moved, new.overtakers = dict(self.moved), dict(self.overtakers)
        new.fresh = dict(self.fresh)
        new.departures, new.semi = self.departures.copy(new), dict(self.semi)
        new.due, new.reserved = dict(self.due), dict(self.reserved)
        new.failures = {node: times[:] for node, times in self.failures.items()}
        new.promises = self.promises.copy(new)
        return new

    # -- history ----------------------------------------------------------------------------

    def note_use(self) -> None:
        """Let history know what is used from now on."""
        tree, used = self.tree, self.books.usage_of
        if self.policy.fairness.history_weight:
            usage = {
                (name, *pair): used[queue][column]
                for queue, name in enumerate(tree.names)
                for column, pair in enumerate(tree.pairs)
                if used[queue][column]
            }
            capacity = dict(zip(tree.pairs, self.totals(ready=True), strict=True))
            self.history.advance(self.now, usage, capacity)
        if self._by_usage:
            sums: dict[tuple[str, str], float] = {}
            for queue, name in enumerate(tree.names):
                for column, (_, resource) in enumerate(tree.pairs):
                    sums[name, resource] = sums.get((name, resource), 0) + used[queue][column]
            self.sampled.advance(self.now, sums)

    def history_of_use(self) -> list[list[float]]:
        """Return the part of each pair that each queue has used; it only changes now and then."""
        known, tree = self._table, self.tree
        if known is None or self.now >= known[0] + HISTORY_TICK_S or known[1] is not tree:
            known = self._table = (self.now, tree, self.history.table(self.now, tree))
        return known[2]

    def shun(self, nodes: tuple[str, ...], failing: tuple[str, ...]) -> None:
        """Place nothing on these nodes for now; of all that are failing it is told."""
        changed, self.shunned, self.failing = nodes != self.shunned, nodes, failing
        self.placer.shun(nodes, failing)
        if changed:
            self.books.epoch += 1  # everybody looks again

    # -- queues -----------------------------------------------------------------------------

    def set_queues(self, queues: tuple[Queue, ...]) -> None:
        """Let these be the queues."""
        self.queues = queues
        self._by_usage = any(queue.by_usage for queue in queues)
        self.backfills = any(queue.order == "backfill" for queue in queues)
        for queue in queues:
            self.books.queue(queue.name)
        self._counted = (-1, -1)
        self.mind_pairs()
        self.promises.renew()

    def mind_pairs(self) -> None:
        """Keep the use of all pairs that matter; they change with queues and kinds of nodes."""
        books = self.books
        if self._counted == (books.epoch, len(books.queues)):
            return
        books.charge_parts(self._memory_of_kind() if self.policy.profile == "kai" else None)
        pairs = self._pairs()
        same = self._counted[1] == len(books.queues) and self.tree.pairs == pairs
        self._counted = (books.epoch, len(books.queues))
        if same:
            if self.policy.profile == "default":
                self.ledger = self.ledger.with_capacity(self.totals())
            return
        self.tree = QueueTree(books.queues, self.queues, pairs)
        capacity = self.totals() if self.policy.profile == "default" else None
        self.ledger = Ledger(self.tree, capacity)
        self._groups = [self._find_groups(queue) for queue in range(self.tree.count)]
        choices = [
            {resource: group.flavors for group in groups for resource in group.resources}
            for groups in self._groups
        ]
        books.keep_usage(self.tree.path, self.tree.pairs, choices)
        for name, hold in self.holds.items():
            hold.size = self._held_size(name)
        self.version += 1

    def _memory_of_kind(self) -> dict[int, int]:
        """Return the least memory of a device by kind of node, and (`BY_NODE`) of all."""
        books, found = self.books, dict[int, int]()
        for row in np.flatnonzero(books.present).tolist():
            least = min((d.memory for d in books.nodes[row].devices if d.memory), default=0)
            for kind in (books.kind_of[row], BY_NODE) if least else ():
                found[kind] = min(found.get(kind, least), least)
        return found

    def _pairs(self) -> list[tuple[str, str]]:
        named = [(quota.flavor, quota.resource) for queue in self.queues for quota in queue.quotas]
        if self.policy.profile == "kai":
            return list(dict.fromkeys([("", GPU), ("", CPU), ("", MEMORY), *named]))
        pairs = dict.fromkeys(named)
        if self.policy.profile == "default" and len(self.queues) > 1:
            for resource in AUTOMATIC:
                if not any(what == resource for _, what in pairs):
                    kinds = [self.books.kinds[kind] for kind in self.books.kinds_there()]
                    pairs.update(dict.fromkeys((kind[0], resource) for kind in kinds))
        return list(pairs)

    @property
    def has_groups(self) -> bool:
        """Return whether a queue chooses among flavors."""
        return any(self._groups)

    def groups_of(self, queue: int) -> tuple[ResourceGroup, ...]:
        """Return the resource groups that hold for a queue: its own, or those of a queue above."""
        return self._groups[queue]

    def _find_groups(self, queue: int) -> tuple[ResourceGroup, ...]:
        rules = [self.tree.queues[above] for above in self.tree.path[queue]]
        if self.policy.profile == "kueue":
            return next((groups_in(each) for each in rules if not each.local), ())
        return next((each.groups for each in rules if each.groups), ())

    def totals(self, *, ready: bool = False) -> list[int]:
        """Return what the cluster has of every pair; perhaps only of nodes that are ready."""
        books, rows = self.books, self.books.present
        if ready:
            rows = rows & np.array([node.ready for node in books.nodes], np.bool_)
        price = {flavor.name: flavor.price for flavor in books.named_flavors}
        found = []
        for flavor, resource in self.tree.pairs:
            if resource not in books.order:
                found.append(0)
                continue
            r = books.order.row(resource)
            each = books.capacity[r] * (1000 if r == GPU_ROW else 1)
            if flavor:
                kinds = [i for i, kind in enumerate(books.kinds) if flavor in kind]
                found.append(int(each[rows & np.isin(books.kind, kinds)].sum()))
            else:
                worth = np.array([price.get(kind[0], 1.0) for kind in books.kinds] or [1.0])
                factor = worth[books.kind] if r == GPU_ROW else 1.0
                found.append(int((each * factor)[rows].sum()))
        return found

    def queue_of(self, entry: Entry) -> Queue:
        """Return the queue of a workload."""
        return self.tree.queues[entry.queue]

    def priority(self, entry: Entry) -> int:
        """Return the priority of a workload: that of its class, if it has one."""
        name = entry.workload.priority_class
        if name:
            return dict(self.policy.priority_classes).get(name, entry.workload.priority)
        return entry.workload.priority

    # -- what is asked and what it would be charged -----------------------------------------

    def ask_of(self, entry: Entry) -> Ask:
        """Return what a workload asks for to start."""
        return compile_ask(self.books, entry.workload, entry.avoid)

    def request(self, ask: Ask, account: int, flavor: int = BY_NODE) -> Request:
        """Return what an ask would be charged on a flavor; leaves with a code have their own."""
        total: dict[int, int] = {}
        for leaf in ask.leaves:
            assert leaf.demand is not None
            code = flavor if leaf.code == BY_NODE else leaf.code
            for pair, amount in self.books.bill(leaf.demand, account, code):
                total[pair] = total.get(pair, 0) + leaf.count * amount
        return total

    def borrows(self, entry: Entry, request: Request) -> bool:
        """Return whether a queue would use more than its quota with a request."""
        return self.ledger.distance(entry.queue, request, self.books.usage_of) > 0

    def fixed_shortage(self, entry: Entry, request: Request) -> Shortage | None:
        """Return what keeps work that cannot be made to leave from being charged: only quota."""
        used = self.fixed_use()
        found = self.ledger.over_quota_fixed(entry.queue, request, used)
        if found is None:
            return None
        queue, pair = found
        left = self.tree.quota[queue][pair] - used[queue][pair]
        return Shortage(queue, pair, request[pair], max(0, left), "quota")

    def fixed_use(self) -> Table:
        """Return what work uses that cannot be made to leave: not units above a minimum."""
        semi = [self.entries[name] for name in self.semi if name in self.entries]
        if not semi:
            return self.books.fixed_of
        table = [list(row) for row in self.books.fixed_of]
        for entry in semi:
            groups = entry.members.items()
            units = [(name, task) for name, m in groups for task in m.staying()[m.group.min :]]
            gone = self.books.missing
            units = [(g, task) for g, task in units if (entry.workload.name, g, task) not in gone]
            for pair, amount in self.size(entry, units).items():
                for queue in self.tree.path[entry.queue]:
                    table[queue][pair] -= amount
        return table

    def running(self) -> list[Entry]:
        """Return all workloads that have a place, in order of coming."""
        return [entry for entry in self.entries.values() if entry.is_placed]

    def size(self, entry: Entry, tasks: Iterable[tuple[str, int]] | None = None) -> Request:
        """Return what tasks of a workload are charged now; None: all of them."""
        total: dict[int, int] = {}
        for name, members in entry.members.items():
            some = members.staying() if tasks is None else [t for g, t in tasks if g == name]
            for task in some:
                row = members.rows[task]
                flavor = members.flavor
                if flavor == BY_NODE and row != NOWHERE:
                    flavor = self.books.charged_kind_of[row]
                for pair, amount in self.books.bill(members.demand, entry.account, flavor):
                    total[pair] = total.get(pair, 0) + amount
        return total

    def beside(self, entry: Entry) -> Beside:
        """Return the placing of tasks beside those of a workload, on the same flavors."""

        def over(part: Part) -> Part:
            if part.demand is not None:
                return replace(part, code=entry.members[part.name].flavor)
            return replace(part, parts=tuple(over(child) for child in part.parts))

        root = over(compile_ask(self.books, entry.workload).root)
        return Beside(self.placer, entry, root, self.closed_for(entry.workload.name))

    def closed_for(self, name: str) -> tuple[str, ...]:
        """Return the nodes that are reserved for others."""
        return tuple(n for owner, nodes in self.reserved.items() if owner != name for n in nodes)

    # -- what can be done -------------------------------------------------------------------

    def start_all(self, entry: Entry, found: Sequence[Seats]) -> None:
        """Start the minimum of a workload, or what of it was asked for, at booked seats."""
        for seats in found:
            members = entry.members[seats.part.name]
            members.reduce(len(seats.rows))
            self.start(entry, members.pending()[: len(seats.rows)], seats)

    def number_start(self, entry: Entry) -> None:
        """Note that a workload starts now, after all others."""
        self.starts += 1
        entry.start_number = self.starts

    def start(self, entry: Entry, tasks: Sequence[int], seats: Seats) -> None:
        """Assume that booked seats are taken, and say so."""
        self.books.commit()
        if entry.started_at is None or not entry.is_placed:
            entry.started_at = self.now
            self.fresh[entry.workload.name] = None
            self.number_start(entry)
            self.begun[entry.workload.name] = entry.past
        if not seats.rows:
            return
        self.note_move(entry)
        members = entry.members[seats.part.name]
        members.flavor = seats.part.code
        note(members, tasks, seats.rows, seats.devices, TaskState.ASSUMED)
        self.decisions.append(
            Bind(entry.workload.name, self.placement(tasks, seats), self._flavor_name(members))
        )

    def take_back(self, entry: Entry, members: Members, tasks: Sequence[int]) -> None:
        """Let tasks that were started in this cycle wait again: nobody has been told yet."""
        name, group = entry.workload.name, members.group.name
        for i, decision in reversed(list(enumerate(self.decisions))):
            if not isinstance(decision, Bind) or decision.workload != name:
                continue
            place = decision.placement
            kept = [j for j, task in enumerate(place.tasks) if task not in tasks]
            if place.group != group or len(kept) == len(place.tasks):
                continue
            left = Placement(
                group,
                tuple([place.tasks[j] for j in kept]),
                tuple([place.nodes[j] for j in kept]),
                tuple([place.devices[j] for j in kept]),
            )
            self.decisions[i : i + 1] = [replace(decision, placement=left)] if kept else []
        for task in tasks:
            row, mask = members.rows[task], members.devices[task]
            self.books.give(members.demand, (row,), (mask,), entry.account, members.flavor)
            note(members, (task,), (NOWHERE,), (0,), TaskState.PENDING)
        self.books.commit()
        self.note_move(entry)

    def placement(self, tasks: Sequence[int], seats: Seats) -> Placement:
        """Return seats of tasks as a value."""
        names = self.books.tree.names[-1]
        nodes = tuple([names[row] for row in seats.rows])
        return Placement(seats.part.name, tuple(tasks), nodes, tuple(seats.devices))

    def _flavor_name(self, members: Members) -> str:
        """Return what tasks are charged to, where they were assigned a flavor."""
        if members.flavor == BY_NODE:
            return ""
        return self.books.flavor_name(members.flavor)

    # wide: what goes, and why
    def evict(
        self,
        entry: Entry,
        members: Members,
        tasks: Sequence[int],
        cause: str,
        beneficiary: str = "",
    ) -> None:
        """Let tasks leave; they hold their place until the world says that they are gone."""
        if not tasks:
            return
        self.note_move(entry)
        for task in tasks:
            self.set_releasing(entry, members, task, releasing=True)
            members.states[task] = TaskState.RELEASING
        self.books.commit()
        name = entry.workload.name
        self.decisions.append(Evict(name, members.group.name, tuple(tasks), cause, beneficiary))

    def evict_many(self, victims: Iterable[Victim], beneficiary: str) -> list[TaskKey]:
        """Let victims leave for somebody, as `evict` does, and return their tasks."""
        found: list[TaskKey] = []
        rows: dict[tuple[Demand, int, int], list[int]] = {}
        for victim in victims:
            entry, name = victim.entry, victim.entry.workload.name
            groups: dict[str, list[int]] = {}
            for group, task in victim.tasks:
                groups.setdefault(group, []).append(task)
                found.append((name, group, task))
            for group, tasks in groups.items():
                members = entry.members[group]
                key = (members.demand, entry.account, members.flavor)
                rows.setdefault(key, []).extend(self._see_off(name, members, tasks))
                self.decisions.append(Evict(name, group, tuple(tasks), victim.cause, beneficiary))
            self.note_move(entry)
        for (demand, account, flavor), some in rows.items():
            self.books.begin_release(demand, some, account, flavor)
        self.books.commit()
        return found

    def _see_off(self, name: str, members: Members, tasks: Sequence[int]) -> list[int]:
        """Note that tasks are on their way out; return their rows."""
        found = []
        for task in tasks:
            row = members.rows[task]
            if row != NOWHERE and members.states[task] != TaskState.RELEASING:
                self.departures.begin((name, members.group.name, task), row)
                found.append(row)
            members.states[task] = TaskState.RELEASING
        return found

    def evict_all(self, entry: Entry, cause: str, beneficiary: str = "") -> None:
        """Let a whole workload leave."""
        self.note_leaving(entry)
        for members in entry.members.values():
            self.evict(entry, members, members.staying(), cause, beneficiary)

    def note_move(self, entry: Entry) -> None:
        """Note that something of a workload starts, leaves or is another's now."""
        self.version += 1
        self.moved[entry.workload.name] = None
        if entry.workload.semi_preemptible:
            self.semi[entry.workload.name] = None
        self.promises.touch(entry.workload.name)

    def note_leaving(self, entry: Entry, cause: str = "") -> None:
        """Note that a run of a workload is over; with a cause: for another's sake."""
        ran_s = self.now - entry.running_since if entry.running_since is not None else 0.0
        past = entry.past
        entry.past = Past(
            past.failures,
            past.attained_s + ran_s,
            past.saved_s + self.saved(entry),
            past.evictions + bool(cause),
            past.quantum_evictions + (cause == "quantum"),
            self.now,
            past.is_bold,
            past.is_over,
            past.bypassed,
        )
        self.overtakers.pop(entry.workload.name, None)
        entry.running_since = None

    def saved(self, entry: Entry) -> float:
        """Return how much of the present run of a workload a checkpoint has saved."""
        since = entry.running_since
        return 0.0 if since is None else entry.workload.saved_until(since, self.now) - since

    def set_releasing(self, entry: Entry, members: Members, task: int, *, releasing: bool) -> None:
        """Book that a task is on its way out, or that it stays after all."""
        row = members.rows[task]
        if row == NOWHERE or releasing == (members.states[task] == TaskState.RELEASING):
            return
        change = self.books.begin_release if releasing else self.books.end_release
        change(members.demand, (row,), entry.account, members.flavor)
        key = (entry.workload.name, members.group.name, task)
        if releasing:
            self.departures.begin(key, row)
        else:
            self.departures.end(key)

    def hold(
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
                self.books.hold(name, members.demand, row, mask, entry.account, each.part.code)
        self.books.commit()
        until = self.now + self.policy.eviction.hold_s
        leaves = dict.fromkeys(leaving)
        self.holds[name] = hold = Hold(seats, until, leaves, self._held_size(name), self.now)
        self.departures.expect(name, leaves, hold.rows())
        if not entry.is_placed:
            self.number_start(entry)
        self.note_move(entry)
        placements = tuple(self.placement(tasks, each) for tasks, each in seats)
        self.decisions.append(Reserve(name, placements, until))

    def keep_start(self, entry: Entry, started_at: float | None) -> None:
        """Let one that is moved keep its place in the line of all who run: it is no new start."""
        self.holds[entry.workload.name].since = started_at or 0.0
        self.holds[entry.workload.name].is_move = True
        self.note_move(entry)

    def _held_size(self, name: str) -> Request:
        """Return what a workload is charged for the room that is kept for it."""
        size: Request = {}
        for demand, _, _, account, flavor in self.books.holds[name]:
            for pair, amount in self.books.bill(demand, account, flavor):
                size[pair] = size.get(pair, 0) + amount
        return size

    def unhold(self, name: str) -> None:
        """Open the room that is kept for a workload."""
        hold = self.holds.pop(name, None)
        if hold is not None:
            self.departures.forget(name, hold.leaving, hold.rows())
            self.books.unhold(name)
            self.books.commit()
            self.note_move(self.entries[name])

    def gone(self, entry: Entry, members: Members, tasks: Iterable[int]) -> None:
        """Note that tasks have left their places."""
        for task in tasks:
            key = (entry.workload.name, members.group.name, task)
            self.departures.end(key)
            for name in self.departures.awaited_by(key):
                hold = self.holds[name]
                del hold.leaving[key]
                self.departures.forget(name, (key,), ())

    def held_against(self, entry: Entry, members: Members, tasks: Iterable[int]) -> list[str]:
        """Return those for whom room is kept that these tasks, which stay after all, are in."""
        keys = [(entry.workload.name, members.group.name, task) for task in tasks]
        return list(dict.fromkeys(n for key in keys for n in self.departures.awaited_by(key)))

    def is_sound(self, name: str) -> bool:
        """Return whether the room kept for a workload will do once all who must have left."""
        hold, books = self.holds[name], self.books
        flavors = [(seats.part.code, row) for _, seats in hold.seats for row in seats.rows]
        charged = [flavor for *_, flavor in books.holds[name]]
        for (code, row), flavor in zip(flavors, charged, strict=True):
            if code == BY_NODE and flavor != books.kind_of[row]:
                return False
        mark = books.checkpoint()
        books.unhold(name)
        for who, group, task in hold.leaving:
            other = self.entries[who]
            members = other.members[group]
            rows, devices = (members.rows[task],), (members.devices[task],)
            books.end_release(members.demand, rows, other.account, members.flavor)
            books.give(members.demand, rows, devices, other.account, members.flavor)
        found = self._sit_down(self.entries[name], hold)
        books.rollback(mark)
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

    def _sit_down(self, entry: Entry, hold: Hold) -> bool:
        """Book the room that was kept, seat by seat; False: one of them will not do any more."""
        books = self.books
        self.placer.aim(entry.avoid)
        for _, seats in hold.seats:
            demand = entry.members[seats.part.name].demand
            for row, mask in zip(seats.rows, seats.devices, strict=True):
                fits = books.present[row] and self.placer.fit(seats.part).slots_of[-1][row]
                if not fits or not books.has_devices(demand, row, mask):
                    return False
                books.take(demand, (row,), (mask,), entry.account, seats.part.code)
        return True

    def held(self) -> tuple[Held, ...]:
        """Return the room that is kept for others, as values."""
        return tuple(
            Held(
                name,
                tuple(self.placement(tasks, seats) for tasks, seats in hold.seats),
                hold.until,
                tuple(hold.leaving),
            )
            for name, hold in self.holds.items()
        )

    def revive(self, held: Held) -> bool:
        """Keep room again that an earlier life kept; False: it is not to be had any more."""
        entry, rows = self.entries.get(held.workload), self.books.row_of
        if entry is None or held.workload in self.holds:
            return False
        runs = any(members.staying() for members in entry.members.values())
        if runs and (self.policy.profile != "default" or entry.is_incomplete):
            return False
        if any(node not in rows for placement in held.placements for node in placement.nodes):
            return False
        parts = self.beside(entry).root.leaves() if runs else self.ask_of(entry).leaves
        leaves = {leaf.name: leaf for leaf in parts}
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
        self.hold(entry, found, leaving, [each.tasks for each in held.placements])
        self.holds[held.workload].until = held.until
        self.holds[held.workload].is_growth = runs
        if entry.has_begun and not runs:
            self.keep_start(entry, entry.started_at)
        del self.decisions[-1]  # that is known already
        return True

    def _is_taken(self, row: int, mask: int) -> bool:
        """Return whether somebody who stays is on one of these devices."""
        return any(
            members.rows[task] == row and members.devices[task] & mask
            for entry in self.entries.values()
            for members in entry.members.values()
            for task in members.staying()
        )

    def _leaves(self, name: str, group: str, task: int) -> bool:
        entry = self.entries.get(name)
        states = entry.members[group].states if entry and group in entry.members else b""
        return task < len(states) and states[task] == TaskState.RELEASING

    def start_held(self) -> list[Entry]:
        """Start those whose room is free by now; return them, and those who wait again.

        Nobody waits longer than was said, nor for room that will not do any more.
        """
        found = []
        for name in list(self.holds):
            hold, entry = self.holds[name], self.entries[name]
            is_void = hold.is_growth and not self._may_grow(entry, hold)
            if hold.leaving and self.now < hold.until and not is_void:
                continue
            self.unhold(name)
            found.append(entry)
            mark = self.books.checkpoint()
            if hold.leaving or is_void or not self._sit_down(entry, hold):
                self.books.rollback(mark)
                continue
            number = entry.start_number
            for tasks, seats in hold.seats:
                members = entry.members[seats.part.name]
                if not members.begun:
                    members.reduce(len(seats.rows))
                self.start(entry, tasks, seats)
            entry.start_number = number
            if hold.is_move:
                entry.started_at = hold.since
        return found


# wide: all that is known of a task that has a place
def note(
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
