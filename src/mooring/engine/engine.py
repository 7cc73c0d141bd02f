"""The engine: one pure, deterministic function of what it has observed.

    engine.observe(event)       a fact: node joined, workload submitted, bind refused, task ended
    engine.decide(now)          all that should be done at this instant, and why the rest waits

The engine assumes that its decisions will be carried out; the world confirms or refuses.

This module only wires the parts together. Facts go to `nodes` and `workloads`; `needs` knows who
waits for what; a cycle goes through `upkeep`, `mend`, `turns` (or the court alone) and `tidy`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from mooring.engine import check
from mooring.engine.arrivals import Arrivals
from mooring.engine.mend import Mender
from mooring.engine.needs import Needs
from mooring.engine.nodes import Nodes
from mooring.engine.shadow import calm, strict, stripped
from mooring.engine.snapshot import as_adopted, present_nodes
from mooring.engine.tidy import Tidy
from mooring.engine.turns import Turns
from mooring.engine.upkeep import Upkeep
from mooring.engine.workloads import Workloads
from mooring.model.books import BY_NODE, Books
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
from mooring.model.plan import Plan, Waiting
from mooring.model.queues import DEFAULT_QUEUE
from mooring.model.scenario import Scenario
from mooring.model.settings import Policy
from mooring.policy.default.court import DefaultCourt
from mooring.policy.defragment import Bounds, Planner
from mooring.policy.desk import Desk
from mooring.policy.kai.court import KaiCourt
from mooring.policy.kueue.court import KueueCourt
from mooring.policy.own import NOTHING_OWN
from mooring.policy.placing.mix import Mix
from mooring.policy.placing.profile import KUEUE, Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mooring.model.entry import Entry, Members
    from mooring.model.events import Event
    from mooring.model.invoice import Invoice
    from mooring.model.plan import Reason
    from mooring.model.queues import Queue
    from mooring.model.topology import Topology
    from mooring.policy.court import Court
    from mooring.policy.headroom import Promise
    from mooring.policy.own import Own

EMPTY = Plan()
MOST_ROUNDS = 64
"""So often a court is asked again in one cycle because somebody would come and leave in it."""
COURTS: dict[str, Callable[[Desk], Court]] = {
    "default": DefaultCourt,
    "kai": KaiCourt,
    "kueue": KueueCourt,
}


class Engine:
    """Decides for one cluster."""

    # wide: each has a good default
    def __init__(
        self,
        topology: Topology,
        policy: Policy = Policy(),
        memory: Memory = Memory(),
        queues: Sequence[Queue] = (DEFAULT_QUEUE,),
        own: Own = NOTHING_OWN,
    ) -> None:
        check.check_policy(policy)
        check.check_headroom(policy, queues, ())
        self.books = Books(topology)
        self.policy = policy
        self.queues = tuple(queues)
        self._arrivals = Arrivals(Mix(learns=policy.mix_learns))
        self._arrivals.mix.load(memory)
        self.books.name_flavors(policy.flavors, plain_anywhere=policy.profile == KUEUE)
        self.desk = Desk(self.books, policy, Profile(policy, self._arrivals.mix, own), own)
        self.desk.set_queues(self.queues)
        self._needs = Needs(self.desk, COURTS[policy.profile](self.desk))
        self._nodes = Nodes(self.desk, self._needs)
        self._upkeep = Upkeep(self.desk, self._needs)
        self._workloads = Workloads(self.desk, self._nodes, self._needs, self._upkeep)
        self._workloads.remember(dict(memory.pasts))
        self._mender = Mender(self.desk, self._needs, self._upkeep)
        self._turns = Turns(self.desk)
        self._turns.load(memory)
        self._tidy = Tidy(self.desk)
        self._tidy.load(memory)
        self._is_shadow = False
        self._held = memory.holds
        """Room that an earlier life kept, until the first cycle."""
        self._quiet = EMPTY
        """The plan of a cycle in which there is nothing to do: only when to look again."""
        self.desk.failures = {node: list(times) for node, times in memory.node_failures}
        self.desk.usage.load(memory)
        self.desk.flow.load(memory.freed)
        self.desk.latest.load(memory)
        self.desk.promises.load(memory)

    @property
    def _court(self) -> Court:
        return self._needs.court

    # -- facts ------------------------------------------------------------------------------

    def observe(self, event: Event) -> None:
        """Take in one fact; a contradiction raises `EventError` and changes nothing."""
        match event:
            case Submitted():
                entry = self._workloads.submit(event.workload)
                if not event.again:
                    self._arrivals.note(entry)
                self._turns.observe(event)
                return  # nothing is booked yet
            case TasksChanged():
                self._workloads.change_tasks(event)
            case Ended():
                self._turns.over(self._workloads.end(event.workload))
            case BindRefused():
                self._workloads.refuse(event)
            case NodeJoined() | NodeChanged():
                self._nodes.note(event.node)
            case NodeLeft():
                self._nodes.lose(event.node)
            case Adopted():
                self._workloads.adopt(event)
            case WorkloadChanged():
                self._workloads.edit(event.workload)
            case PolicyChanged():
                self._policy_changed(event.policy)
            case QueuesChanged():
                self._queues_changed(event.queues)
            case _:
                assert_never(event)
        self._turns.observe(event)
        self.books.commit()

    def _policy_changed(self, policy: Policy) -> None:
        check.check_policy(policy)
        check.check_headroom(policy, self.queues, self._nodes.known())
        changed, self.policy = policy.profile != self.policy.profile, policy
        mix = self._arrivals.mix
        mix.learns = policy.mix_learns
        self.books.name_flavors(policy.flavors, plain_anywhere=policy.profile == KUEUE)
        self.desk.policy = policy
        self.desk.usage.retune()
        self.desk.attach(Profile(policy, mix, self.desk.own))
        self.desk.set_queues(self.queues)
        if changed:
            self._needs.move_to(COURTS[policy.profile](self.desk))
        self._upkeep.look_at_all()
        self._needs.refresh()

    def _queues_changed(self, queues: tuple[Queue, ...]) -> None:
        check.check_queues(queues, self.policy.profile)
        check.check_headroom(self.policy, queues, self._nodes.known())
        self.queues = queues
        self.desk.set_queues(queues)
        self._upkeep.look_at_all()
        self._needs.refresh()

    # -- decisions --------------------------------------------------------------------------

    def decide(self, now: float) -> Plan:
        """Return all that should be done now; the engine assumes that it will be."""
        self._nodes.settle()
        desk = self.desk
        desk.now = now
        desk.flow.learn(now)
        desk.usage.note()
        self._workloads.number_starts()
        self._mender.open_cycle()
        if self._held:
            self._revive_holds()
        looks = self._court.stirs or self._upkeep.stirs or self._turns.stirs or self._tidy.stirs
        due = self._quiet.wake_at
        looks |= due is not None and due <= now  # what it was for may be gone
        if not (looks or self._needs.any_urgent):
            return self._quiet
        self._arrivals.learn(now, self.policy)
        desk.decisions = []
        desk.begun = {}
        told: dict[str, None] = {}
        wakes = [self._upkeep.run()]
        self._mender.shrink()
        wakes.append(self._mender.mend(told))
        self._mender.keep_word(told)
        wakes += self._serve()
        wakes.append(self._mender.undo_stale())
        wakes.append(self._move(told))
        wakes += self._take_back(told)
        self.books.commit()
        desk.usage.note()
        if desk.holds:
            wakes += [hold.until for hold in desk.holds.values()]
        told.update(dict.fromkeys(self._court.tell()))
        waiting: tuple[Waiting, ...] = ()
        if told and not self._is_shadow:  # nobody listens to a shadow
            some = self._needs.in_order(told)
            waiting = tuple([Waiting(name, self.reasons(name)) for name in some])
        wakes += self._upkeep.expect(desk.decisions)
        known = [wake for wake in wakes if wake is not None]
        wake_at = min(known) if known else None
        self._quiet = EMPTY if wake_at is None else Plan(wake_at=wake_at)
        return Plan(tuple(desk.decisions), waiting, wake_at)

    def _revive_holds(self) -> None:
        """Keep the room that an earlier life kept, for those who still wait for it."""
        for held in self._held:
            if self.desk.holds.revive(held):
                self._court.leave(self.desk.entries[held.workload])
        self._held = ()

    def _serve(self) -> list[float | None]:
        """Let the court decide; queues that backfill do so under the eyes of a shadow."""
        court = self._court
        if isinstance(court, DefaultCourt) and not self._is_shadow and self.desk.backfills:
            return self._turns.serve(self, court)
        self._turns.note_ends()
        return [court.serve()]

    def _take_back(self, told: dict[str, None]) -> list[float | None]:
        """Let nobody come and leave in one plan; return when to look again."""
        wakes: list[float | None] = []
        for _ in range(MOST_ROUNDS if self.policy.profile == "default" else 0):
            if not self._takes_back(told):
                return wakes
            wakes += self._serve()
        self._takes_back(told)
        return [*wakes, self.desk.now] if wakes else []  # the rest is for the next cycle

    def _takes_back(self, told: dict[str, None]) -> bool:
        """Take those back who would come and leave in this plan; return whether there are any."""
        if not self._mender.take_back(told):
            return False
        self._turns.forget_who_waits()
        if isinstance(self._court, DefaultCourt):
            self._court.take_back()
        return True

    def _move(self, told: dict[str, None]) -> float | None:
        """Move running work where that pays; who starts by that waits only for it."""
        court = self._court
        if not isinstance(court, DefaultCourt):
            return None
        started, wake = self._tidy.look(court.helping(), self._turns.expected)
        for entry in started:
            court.go(entry)
            told[entry.workload.name] = None
        return wake

    def defragmentation(self, now: float) -> Invoice | None:
        """Return what could be moved after all that is decided now, priced; nothing is changed."""
        fork = self.fork()
        fork._tidy.is_on = False
        fork.decide(now)
        if not isinstance(fork._court, DefaultCourt):
            return None
        bounds = Bounds(fork.policy.defragmentation.moves)
        draft = Planner(fork.desk, fork._turns.expected, bounds).run(fork._court.helping())
        return None if draft is None else draft.invoice()

    def empty(self) -> Engine:
        """Return an engine of the same cluster and policy in which nothing runs or waits."""
        self._nodes.settle()
        new = Engine(self.books.topology, self.policy, queues=self.queues, own=self.desk.own)
        for row, node in enumerate(self.books.nodes):
            if self.books.present[row]:
                new.observe(NodeJoined(node))
        new._arrivals.mix.load(self._arrivals.mix.dump())
        return new

    def become_shadow(self) -> None:
        """Be strict order beside another engine from now on: nobody is moved or told."""
        self._is_shadow = True
        self._needs.as_new = stripped
        self._tidy.is_on = False
        self._turns = Turns(self.desk)
        self._upkeep.rest()
        if isinstance(self._court, DefaultCourt):
            self._court.become_shadow()
            self._court.fill_by(None)
        self.observe(PolicyChanged(calm(self.policy)))
        self.observe(QueuesChanged(strict(self.queues)))
        for marks in (self.desk.due, self.desk.overtakers, self.desk.reserved):
            marks.clear()

    # -- what is known ----------------------------------------------------------------------

    def reasons(self, name: str) -> tuple[Reason, ...]:
        """Return why a workload waits, or does not grow; empty: it has all it asked for."""
        return self._needs.reasons(name)

    def waiting(self) -> list[str]:
        """Return the workloads that wait to start, to be complete or to grow, in order of rank."""
        return self._needs.waiting()

    def anyone_waits(self) -> bool:
        """Return whether anybody waits to start, to be complete or to grow."""
        return self._needs.anyone_waits()

    def waits_in_vain(self, name: str) -> bool:
        """Return whether a workload could not start even if others ended: it is in nobody's way."""
        return isinstance(self._court, DefaultCourt) and self._court.waits_in_vain(name)

    def running(self) -> list[str]:
        """Return the workloads of which something runs and stays, in order of coming.

        Of those that were found running, nobody may know where.
        """
        return [
            name
            for name, entry in self.desk.entries.items()
            if entry.charged_only or any(members.staying() for members in entry.members.values())
        ]

    def flavor_of(self, members: Members, row: int) -> str:
        """Return what tasks on a row are charged to."""
        code = members.flavor if members.flavor != BY_NODE else self.books.charged_kind_of[row]
        return self.books.flavor_name(code)

    def standings(self, now: float) -> dict[tuple[str, str, str], tuple[int, int | None]]:
        """Return, by queue, flavor and resource, what is used and what the fair share is now."""
        self._nodes.settle()
        self.desk.now = max(self.desk.now, now)
        tree, used, shares = self.desk.tree, self.books.usage_of, self._court.shares()
        return {
            (name, *pair): (used[queue][column], shares[queue][column] if shares else None)
            for queue, name in enumerate(tree.names)
            for column, pair in enumerate(tree.pairs)
        }

    def risks(self) -> dict[str, tuple[str, ...]]:
        """Return who of all who run is `covered` by quota, `in share` or `beyond`.

        That is said of the minimum of a workload, and then of each unit above it.
        """
        return self._court.risks()

    def shadow_starts(self) -> dict[str, float]:
        """Return when the turns of workloads came; empty while nobody waits to backfill."""
        shadow = self._turns.shadow
        return {} if shadow is None else dict(shadow.starts)

    def headroom(self) -> tuple[Promise, ...]:
        """Return how the promises of the policy stand, and whether each could be kept now."""
        self._nodes.settle()
        return self.desk.promises.report()

    def check_headroom(self) -> None:
        """Raise `EventError` if a promise could not be kept even if nothing ran."""
        check.check_headroom(self.policy, self.queues, self._nodes.known())

    def entries(self) -> dict[str, Entry]:
        """Return all workloads; to look at, not to change."""
        return self.desk.entries

    def memory(self) -> Memory:
        """Return what must not be forgotten over a restart."""
        return replace(
            self._turns.dump(self.desk.usage.dump(self._arrivals.dump())),
            latest_starts=self.desk.latest.dump().latest_starts,
            pasts=tuple((n, p) for n, p in self._workloads.pasts().items() if p != NO_PAST),
            holds=(*self._held, *self.desk.holds.dump()),
            node_failures=tuple((node, tuple(t)) for node, t in self.desk.failures.items()),
            loans=self.desk.promises.dump(),
            freed=self.desk.flow.dump(),
            defragmented=self._tidy.dump(),
        )

    def snapshot(self, now: float = 0.0) -> Scenario:
        """Return the present moment as a value."""
        self._nodes.settle()
        books = self.books
        begun = [entry for entry in self.desk.entries.values() if entry.has_begun]
        begun.sort(key=lambda entry: entry.start_number)
        waiting = [entry for entry in self.desk.entries.values() if not entry.has_begun]
        waiting.sort(key=self._needs.seniority)
        return Scenario(
            now,
            books.topology,
            present_nodes(books, self.desk.entries.values()),
            self.queues,
            self.policy,
            tuple(entry.workload for entry in waiting),
            tuple(as_adopted(books, entry) for entry in begun),
            self.memory(),
        )

    def fork(self) -> Engine:
        """Return an engine that stands where this one stands and goes its own way."""
        self._nodes.settle()
        new = object.__new__(Engine)
        new.__dict__.update(self.__dict__)
        new.books = self.books.copy()
        new._arrivals = self._arrivals.copy()
        profile = self.desk.placer.profile.copy(new._arrivals.mix)
        new.desk = desk = self.desk.copy(new.books, profile)
        new._needs = self._needs.copy(desk)
        new._nodes = self._nodes.copy(desk, new._needs)
        new._upkeep = self._upkeep.copy(desk, new._needs)
        new._workloads = self._workloads.copy(desk, new._nodes, new._needs, new._upkeep)
        new._mender = Mender(desk, new._needs, new._upkeep)
        new._turns = self._turns.copy(desk)
        new._tidy = self._tidy.copy(desk)
        return new
