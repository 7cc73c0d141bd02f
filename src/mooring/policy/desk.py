"""The desk: all that a court sees when it decides, and all that it can do.

It knows the books, the workloads and the queues, and turns what a court wants (start this, let
those leave, keep this room) into bookings and decisions. Who is next is for the court to say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.books import BY_NODE
from mooring.model.entry import NOWHERE, Entry, Members
from mooring.model.memory import Past
from mooring.model.plan import Bind, Evict
from mooring.model.workload import Placement, TaskState, Workload
from mooring.policy.backfill.calendar import LatestStarts
from mooring.policy.headroom import Promises
from mooring.policy.holds import Holds
from mooring.policy.own import NOTHING_OWN
from mooring.policy.placing.ask import Ask, compile_ask
from mooring.policy.placing.beside import Beside
from mooring.policy.placing.fit import Fits
from mooring.policy.placing.place import Placer, Seats
from mooring.policy.queues.flow import Flow
from mooring.policy.queues.pairs import groups_for, memory_of_kind, pairs_of, totals_of
from mooring.policy.queues.quota import FIXED, Ledger, Shortage, Table
from mooring.policy.queues.tree import QueueTree
from mooring.policy.queues.usage import Usage
from mooring.policy.victims.departures import Departures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mooring.model.books import Books
    from mooring.model.demand import Demand
    from mooring.model.plan import Decision
    from mooring.model.queues import Queue, ResourceGroup
    from mooring.model.settings import Policy
    from mooring.policy.own import Own
    from mooring.policy.placing.ask import Part
    from mooring.policy.placing.profile import Profile
    from mooring.policy.queues.lines import Request
    from mooring.policy.victims.departures import TaskKey
    from mooring.policy.victims.evict import Victim


MOST_WATCHED = 100_000


class Desk:
    """One cluster as the policy sees it."""

    def __init__(
        self, books: Books, policy: Policy, profile: Profile, own: Own = NOTHING_OWN
    ) -> None:
        self.books = books
        self.policy = policy
        self.own = own
        self.entries: dict[str, Entry] = {}
        self.now = 0.0
        self.decisions: list[Decision] = []
        self.begun: dict[str, Past] = {}
        """Those who start in this cycle, and what they had been through before."""
        self.holds = Holds(self)
        self.usage = Usage(self)
        self.flow = Flow()
        """What becomes free by itself."""
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
        self.timed: dict[str, None] = {}
        """Workloads with a run limit or an estimate."""
        self.semi: dict[str, None] = {}
        """Workloads of which only what is above the minimum may be evicted."""
        self.departures = Departures(self)
        self.watched: dict[str, None] | None = None
        """The same for who keeps a calendar of ends; None: nobody does, or all are to be looked at.
        """
        self.moved: dict[str, None] = {}
        """Workloads of which something started or left since the last look."""
        self.firm: dict[str, None] = {}
        """Those who start in this cycle where others have left for them: nobody asks them now."""
        self.starts = 0
        """How many workloads have started."""
        self.edits = 0
        """How often workloads were edited."""
        self.version = 0
        """Changes with everything that could let one workload displace another."""
        self._counted = (-1, -1)
        self._totals: dict[bool, tuple[int, QueueTree, list[int]]] = {}
        """What the cluster has of every pair, by the epoch and the tree that it was counted for."""
        self.queues: tuple[Queue, ...] = ()
        self.tree = QueueTree((), (), ())
        self.ledger = Ledger(self.tree)
        self.promises = Promises(self)
        self.attach(profile)

    def attach(self, profile: Profile) -> None:
        """Place by the rules of a profile."""
        self.fits = Fits(self.books, self.own.filter)
        self.placer = Placer(self.books, self.fits, profile)
        self.placer.shun(self.shunned, self.failing)

    def copy(self, books: Books, profile: Profile) -> Desk:
        """Return the desk of a fork, over a copy of the books."""
        new = object.__new__(Desk)
        new.__dict__.update(self.__dict__)
        new.books = books
        new.attach(profile)
        new.entries = {name: entry.copy() for name, entry in self.entries.items()}
        new.holds, new.usage = self.holds.copy(new), self.usage.copy(new)
        new.latest, new.flow = self.latest.copy(), self.flow.copy()
        new.moved, new.overtakers = dict(self.moved), dict(self.overtakers)
        new.watched = None if self.watched is None else dict(self.watched)
        new.firm, new.timed = dict(self.firm), dict(self.timed)
        new.departures, new.semi = self.departures.copy(new), dict(self.semi)
        new.due, new.reserved = dict(self.due), dict(self.reserved)
        new.failures = {node: times[:] for node, times in self.failures.items()}
        new.promises = self.promises.copy(new)
        new._totals = {}
        return new

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
        self.by_usage = any(queue.by_usage for queue in queues)
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
        books.charge_parts(memory_of_kind(books) if self.policy.profile == "kai" else None)
        pairs = pairs_of(books, self.policy, self.queues)
        same = self._counted[1] == len(books.queues) and self.tree.pairs == pairs
        self._counted = (books.epoch, len(books.queues))
        if same:
            if self.policy.profile == "default":
                self.ledger = self.ledger.with_capacity(self.totals())
            return
        self.tree = QueueTree(books.queues, self.queues, pairs)
        capacity = self.totals() if self.policy.profile == "default" else None
        self.ledger = Ledger(self.tree, capacity)
        profile, queues = self.policy.profile, range(self.tree.count)
        self._groups = [groups_for(self.tree, queue, profile) for queue in queues]
        choices = [
            {resource: group.flavors for group in groups for resource in group.resources}
            for groups in self._groups
        ]
        books.keep_usage(self.tree.path, self.tree.pairs, choices)
        self.holds.measure()
        self.version += 1

    @property
    def has_groups(self) -> bool:
        """Return whether a queue chooses among flavors."""
        return any(self._groups)

    def groups_of(self, queue: int) -> tuple[ResourceGroup, ...]:
        """Return the resource groups that hold for a queue: its own, or those of a queue above."""
        return self._groups[queue]

    def totals(self, *, ready: bool = False) -> list[int]:
        """Return what the cluster has of every pair; perhaps only of nodes that are ready."""
        epoch, tree, found = self._totals.get(ready, (-1, self.tree, []))
        if epoch != self.books.epoch or tree is not self.tree:
            found = totals_of(self.books, self.tree.pairs, ready=ready)
            self._totals[ready] = self.books.epoch, self.tree, found
        return list(found)

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
        """Return what an ask would be charged on a flavor; leaves with a code have their own.

        A leaf that cannot be there is charged where it can be; if that is not one flavor, the most.
        """
        total: dict[int, int] = {}
        for leaf in ask.leaves:
            assert leaf.demand is not None
            codes = [flavor if leaf.code == BY_NODE else leaf.code]
            if codes[0] >= 0 and len(ask.leaves) > 1:
                codes = self._kinds_instead(leaf, flavor)
            most: dict[int, int] = {}
            for code in codes:
                for pair, amount in self.books.bill(leaf.demand, account, code):
                    most[pair] = max(amount, most.get(pair, 0))
            for pair, amount in most.items():
                total[pair] = total.get(pair, 0) + leaf.count * amount
        return total

    def _kinds_instead(self, leaf: Part, kind: int) -> list[int]:
        """Return a kind of nodes, or those that a leaf could be on if it could not be on that."""
        assert leaf.demand is not None
        if len(self.books.kinds_there()) <= 1:
            return [kind]
        found = np.unique(self.books.kind[self.fits.of(leaf.demand).possible]).tolist()
        return [kind] if kind in found or not found else found

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
        return Shortage(queue, pair, request[pair], max(0, left), FIXED)

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
        if self.by_usage and self.policy.profile == "default" and entry.workload.name in self.begun:
            self.usage.enter(entry)

    def take_back(self, entry: Entry, members: Members, tasks: Sequence[int]) -> None:
        """Let tasks that were started in this cycle wait again: nobody has been told yet."""
        self.usage.sampled.withdraw(entry.workload.name)
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
                if group in groups:
                    groups[group].append(task)
                else:
                    groups[group] = [task]
                found.append((name, group, task))
            for group, tasks in groups.items():
                members = entry.members[group]
                key = (members.demand, entry.account, members.flavor)
                if key not in rows:
                    rows[key] = []
                rows[key] += self._see_off(name, members, tasks)
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

    def note_times(self, workload: Workload) -> None:
        """Note whether anything is known of how long a workload runs."""
        self.timed.pop(workload.name, None)
        if workload.run_limit_s is not None or workload.estimate_s is not None:
            self.timed[workload.name] = None

    def note_move(self, entry: Entry) -> None:
        """Note that something of a workload starts, leaves or is another's now."""
        self.version += 1
        self.moved[entry.workload.name] = None
        if self.watched is not None:
            self._watch([entry.workload.name])
        if entry.workload.semi_preemptible:
            self.semi[entry.workload.name] = None
        self.promises.touch(entry.workload.name)

    def _watch(self, names: Sequence[str]) -> None:
        """Note some for who keeps a calendar; if nobody looks for long, all are to be looked at."""
        if self.watched is not None:
            self.watched.update(dict.fromkeys(names))
            if len(self.watched) > MOST_WATCHED:
                self.watched = None

    def note_moves(self, entries: Sequence[Entry]) -> None:
        """Note the same of many."""
        self.version += len(entries)
        names = [entry.workload.name for entry in entries]
        self.moved.update(dict.fromkeys(names))
        self._watch(names)
        for entry in entries:
            if entry.workload.semi_preemptible:
                self.semi[entry.workload.name] = None
        for entry in entries if self.promises.loans else ():
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
            past.used_up_s,
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
