"""What was decided, judged without the court: every admission and every exchange of a plan.

A plan is gone through in order. What runs, what is held and what each queue uses is followed from
the workloads alone, so that the state before each decision is known.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from unittest.mock import patch

from mooring.model.plan import Bind, Evict, Reserve
from mooring.model.resources import GPU, PODS
from mooring.model.workload import TaskState, Workload
from mooring.policy.default.court import DefaultCourt
from mooring.policy.desk import Desk
from mooring.policy.queues.share import effective_quota
from mooring.policy.queues.tree import NO_BOUND, NOBODY
from mooring.policy.standing.item import NOT_YET, Item, rank_of, size_of
from mooring.policy.standing.line import Line, psi
from tests.plain_standing import World as Scale
from tests.plain_standing import plain_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mooring.engine import Engine
    from mooring.model.entry import Entry
    from mooring.model.plan import Plan
    from mooring.model.workload import PodGroup, Shape
    from mooring.policy.queues.quota import Shortage
    from mooring.policy.queues.share import Yardstick
    from mooring.policy.queues.tree import QueueTree
    from mooring.policy.victims.evict import Victim

FOR_ANOTHER = (
    "preempt", "quota", "fair-share", "leximin", "overtaker", "quantum", "headroom", "move",
    "reclaim", "consolidation", "fair-sharing", "cohort", "while-borrowing",
)  # fmt: skip
FOR_NOBODY = (
    "lost-node", "lost-task", "stale-gang", "resized", "run-limit", "drain", "inactive", "failed",
    "defragment",
)  # fmt: skip
MOVED = ("move", "defragment")
"""Who leaves for these has another place in the same plan."""
RECLAIMED = ("quota", "fair-share", "leximin")
Amounts = dict[int, int]
"""By pair."""
Spot = tuple[str, int]
"""Group and task."""
Leaver = tuple[str, str, str, int]
"""For whom it leaves; workload, group and task."""


def bill(tree: QueueTree, wanted: Shape, flavors: dict[str, str]) -> Amounts:
    """Return what one task is charged, by pair; `flavors` says of each resource to which."""
    milli = wanted.gpus * (wanted.milli if not wanted.mig and not wanted.gpu_memory else 1000)
    amounts = {**dict(wanted.amounts), PODS: 1, GPU: milli}
    amounts |= {f"port/{port}": 1 for port in wanted.ports}
    found: Amounts = {}
    for column, (flavor, resource) in enumerate(tree.pairs):
        amount = amounts.get(resource, 0)
        if amount and flavor in ("", flavors.get(resource, "")):
            found[column] = amount
    return found


class Everything(dict[str, str]):
    """All resources are charged to one flavor."""

    def __init__(self, flavor: str) -> None:
        super().__init__()
        self.flavor = flavor

    def get(self, key: str, default: object = None) -> str:
        return self.flavor


def flavors_of(engine: Engine, name: str, row: int, code: int) -> dict[str, str]:
    """Return to which flavor each resource of a task is charged."""
    books = engine.books
    if code <= -2:
        return dict(books.assignments[-2 - code])
    kind = books.kinds[books.charged_kind_of[row] if code == -1 else code]
    assert len(kind) == 1, f"{name} is charged by node, on one with the flavors {kind}"
    return Everything(kind[0])


@dataclass(frozen=True)
class Guests:
    """Who is on another's room, or runs before its turn."""

    overtakers: frozenset[str]
    loans: dict[str, dict[Spot, int]]

    @classmethod
    def now(cls, desk: Desk) -> Guests:
        """Return who is a guest now."""
        loans = {name: dict(spots) for name, spots in desk.promises.loans.items()}
        return cls(frozenset(desk.overtakers), loans)

    def lender(self, name: str, spots: Sequence[Spot]) -> int:
        """Return the queue on whose room one of these tasks is."""
        loans = self.loans.get(name, {})
        return next((loans[spot] for spot in spots if spot in loans), NOBODY)


class Witness:
    """Sees who was a guest, and what the shares were, when each exchange was made.

    Within a cycle that changes: units above a minimum are asked for only by who runs. A plan does
    not tell of all exchanges: who comes and leaves within a cycle is told as never come. So one is
    known by who leaves, not by how many there were before it.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine, self.desk = engine, engine.desk
        self._seen: list[tuple[frozenset[Leaver], tuple[Guests, Yardstick | None]]] = []
        """Who left for whom, for each exchange in order."""
        self._last: Guests | None = None

    def __enter__(self) -> Witness:
        note_leaving, evict_many = Desk.note_leaving, Desk.evict_many

        def leaving(desk: Desk, entry: Entry, cause: str = "") -> None:
            if desk is self.desk and cause and self._last is None:
                self._last = Guests.now(self.desk)
            note_leaving(desk, entry, cause)

        def many(
            desk: Desk, victims: Iterable[Victim], beneficiary: str
        ) -> list[tuple[str, str, int]]:
            victims = list(victims)
            if desk is not self.desk:  # in the shadow, which is a fork of it
                return evict_many(desk, victims, beneficiary)
            guests = self._last or Guests.now(self.desk)
            court = self.engine._court
            yardstick = court._hall._yardstick if isinstance(court, DefaultCourt) else None
            spots = [(each.entry.workload.name, *spot) for each in victims for spot in each.tasks]
            leavers = frozenset((beneficiary, *spot) for spot in spots)
            self._seen.append((leavers, (guests, yardstick)))
            self._last = None
            return evict_many(desk, victims, beneficiary)

        self._patch = patch.multiple(Desk, note_leaving=leaving, evict_many=many)
        self._patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.stop()

    def at(self, evicts: Iterable[Evict]) -> tuple[Guests, Yardstick | None] | None:
        """Return what was so when these left together, perhaps with others; None: nobody saw it.

        Who ran before the cycle leaves once in it, so that there is one such exchange at most.
        """
        leavers = {(each.beneficiary, *spot) for each in evicts for spot in each.spots}
        found = [seen for some, seen in self._seen if leavers and leavers <= some]
        assert len(found) <= 1, f"they left more than once: {sorted(leavers)}"
        return found[0] if found else None


@dataclass
class Runs:
    """One workload: what of it has a place for good, or is kept for it."""

    workload: Workload
    queue: int
    priority: int
    fixed: bool
    charges: dict[Spot, Amounts] = field(default_factory=dict)
    held: bool = False
    kept: set[Spot] = field(default_factory=set)
    """Tasks for which room is kept."""
    started: float = NOT_YET
    since: float | None = None
    is_bold: bool = False
    unspent: int = 0
    """Bold starts and evictions by quantum that it may still have."""
    begun: bool = False

    def copy(self) -> Runs:
        """Return one that changes on its own."""
        return replace(self, charges=dict(self.charges))


class Moment:
    """All who run, as they are before a decision."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now = engine.desk.now
        self.runs: dict[str, Runs] = {}
        self.holds = dict(engine.desk.holds)
        entries = engine.entries().items()
        self.incomplete = {n for n, e in entries if e.has_begun and e.is_incomplete}
        self.guests = Guests.now(engine.desk)
        for name, entry in entries:
            self.runs[name] = self._runs(entry)

    @property
    def tree(self) -> QueueTree:
        return self.engine.desk.tree

    def _runs(self, entry: Entry) -> Runs:
        workload, engine = entry.workload, self.engine
        fixed = not workload.preemptible or workload.semi_preemptible
        classes = dict(engine.policy.priority_classes)
        priority = classes.get(workload.priority_class, workload.priority)
        found = Runs(workload, entry.queue, priority, fixed)
        found.begun = entry.has_begun
        found.is_bold = entry.past.is_bold
        most = engine.policy.backfill.quantum_evictions
        found.unspent = most - entry.past.quantum_evictions + (not found.is_bold)
        hold = engine.desk.holds.get(workload.name)
        for tasks, seats in hold.seats if hold else ():
            group = seats.part.name
            for task, row in zip(tasks, seats.rows, strict=True):
                code = seats.part.code if seats.part.code != -1 else engine.books.kind_of[row]
                found.charges[group, task] = self._bill(entry, group, row, code)
                found.kept.add((group, task))
        if hold is not None:
            found.held, found.started = True, float(entry.start_number)
            if not entry.is_placed:
                return found
        for group, members in entry.members.items():
            for task in members.staying():
                row = members.rows[task]
                found.charges[group, task] = self._bill(entry, group, row, members.flavor)
        if found.charges:
            found.started = float(entry.start_number)
            found.since = entry.running_since
        return found

    def _bill(self, entry: Entry, group: str, row: int, code: int) -> Amounts:
        flavors = flavors_of(self.engine, entry.workload.name, row, code)
        return bill(self.tree, entry.members[group].group.shape, flavors)

    # -- what follows from it

    def usage(self, *, fixed: bool = False) -> list[list[int]]:
        """Return what every queue, with all below it, uses."""
        table = [[0] * len(self.tree.pairs) for _ in self.tree.names]
        for each in self.runs.values():
            if fixed and not each.fixed:
                continue
            for charge in each.charges.values():
                add(self.tree, table, each.queue, charge)
        return table

    def fixed(self) -> list[list[int]]:
        """Return what nobody can be asked to give back; of semi-preemptible work, its minimum."""
        table = [[0] * len(self.tree.pairs) for _ in self.tree.names]
        for each in self.runs.values():
            for leaf in self.leaves(each) if each.fixed and each.charges else ():
                mine = sorted(spot for spot in each.charges if spot[0] == leaf.name)
                most = leaf.min if each.workload.semi_preemptible else len(mine)
                add(self.tree, table, each.queue, total(each.charges[s] for s in mine[:most]))
        return table

    def items(self) -> list[Item]:
        """Return all who run as items of the line."""
        return [item for each in self.runs.values() for item, _ in self.items_of(each)]

    def items_of(self, each: Runs) -> list[tuple[Item, list[Spot]]]:
        """Return a workload as items, and which tasks each of them is."""
        if not each.charges:
            return []
        least: list[Spot] = []
        units: list[list[Spot]] = []
        for leaf in self.leaves(each):
            mine = sorted(spot for spot in each.charges if spot[0] == leaf.name)
            least += mine[: leaf.min]
            size = leaf.topology.slices[0].size if leaf.topology.slices else 1
            rest = mine[leaf.min :]
            units += [rest[at : at + size] for at in range(0, len(rest), size)]
        if not least and units:
            least, units = units[0], units[1:]
        return [(self.item(each, n, spots), spots) for n, spots in enumerate([least, *units])]

    def leaves(self, each: Runs) -> list[PodGroup]:
        """Return the groups with tasks; some may run with less than their minimum."""
        entry = self.engine.entries()[each.workload.name]
        return [members.group for members in entry.members.values()]

    def item(self, each: Runs, unit: int, spots: Sequence[Spot]) -> Item:
        """Return one item."""
        wanted = each.workload
        moves = wanted.preemptible and not (wanted.semi_preemptible and not unit)
        name = (wanted.name, unit)
        rank = rank_of(name, wanted.submitted_at, each.priority, is_preemptible=moves)
        size = total(each.charges[spot] for spot in spots)
        return Item(
            wanted.name,
            unit,
            each.queue,
            size_of(size),
            rank,
            each.priority,
            moves and not each.held,
            started=each.started,
            since=each.since,
            overtaker=wanted.name in self.guests.overtakers,
            lender=self.guests.lender(wanted.name, spots),
        )


def total(amounts: Iterable[Amounts]) -> Amounts:
    """Return amounts together."""
    found: Amounts = {}
    for some in amounts:
        for pair, amount in some.items():
            found[pair] = found.get(pair, 0) + amount
    return found


def add(
    tree: QueueTree, table: list[list[int]], queue: int, charge: Amounts, sign: int = 1
) -> None:
    """Charge a queue and all above it."""
    for above in tree.path[queue]:
        for pair, amount in charge.items():
            table[above][pair] += sign * amount


# -- judging --------------------------------------------------------------------------------------


class Judge:
    """Goes through a plan in order, from the moment before it."""

    def __init__(self, moment: Moment, witness: Witness) -> None:
        self.moment = moment
        self.witness = witness
        self.engine = moment.engine
        self.yardstick: Yardstick | None = None
        """Of the exchange that is looked at; None: there is none, or nobody saw it."""
        self.exchanges = 0
        self._asked: dict[str, list[Evict]] = {}
        self._moved: dict[str, dict[Spot, Amounts]] = {}
        """Tasks without another place yet, and what they are charged: that stays as it is."""

    @property
    def tree(self) -> QueueTree:
        return self.engine.desk.tree

    def judge(self, plan: Plan) -> None:
        """Check all decisions; the engine has carried them out in its own books by now."""
        self.moment.now = self.engine.desk.now
        self.is_default = self.engine.policy.profile == "default"
        self._forget_holds(plan)
        every = [each for each in plan.decisions if isinstance(each, Bind)]
        self._bound = Counter(spot[:2] for each in every for spot in each.spots)
        binds: list[Bind] = []
        for decision in [*plan.decisions, None]:
            if binds and (not isinstance(decision, Bind) or decision.workload != binds[0].workload):
                self._start(binds)
                binds = []
            match decision:
                case Bind():
                    binds.append(decision)
                case Evict():
                    self._evict(decision)
                case Reserve():
                    self._reserve(decision)
                case _:
                    pass
        assert not self._asked, f"somebody leaves for nobody: {self._asked}"
        assert not self._moved, f"somebody is moved to nowhere: {self._moved}"
        if self.is_default:
            leaves = [each for each in plan.decisions if isinstance(each, Evict)]
            both = {s for each in every for s in each.spots} & {s for e in leaves for s in e.spots}
            assert not both, f"they start and leave in one plan: {both}"

    def _forget_holds(self, plan: Plan) -> None:
        """Room that was given up in this cycle is given up before anything else."""
        bound = {
            (bind.workload, bind.placement.group, *seat)
            for bind in plan.decisions
            if isinstance(bind, Bind)
            for seat in zip(bind.placement.tasks, bind.placement.nodes, strict=True)
        }
        names = self.engine.books.tree.names[-1]
        for name, hold in self.moment.holds.items():
            seats = {
                (name, each.part.name, task, names[row])
                for tasks, each in hold.seats
                for task, row in zip(tasks, each.rows, strict=True)
            }
            if self.engine.desk.holds.get(name) is not hold and not seats <= bound:
                runs = self.moment.runs[name]
                given_up = runs.kept - {(group, task) for _, group, task, _ in seats & bound}
                runs.charges = {s: c for s, c in runs.charges.items() if s not in given_up}
                runs.held, runs.started = False, NOT_YET

    def _evict(self, evict: Evict) -> None:
        name, cause = evict.workload, evict.cause
        runs, moved = self.moment.runs[name], self._moved.get(name, {})
        spots = [(evict.group, task) for task in evict.tasks]
        gone = [spot for spot in spots if spot not in runs.charges or spot in moved]
        assert not gone, f"{gone} of {name} have no place to leave: {evict}"
        assert cause in (*FOR_ANOTHER, *FOR_NOBODY), f"{cause!r} is no cause: {evict}"
        is_for = "another" if cause in FOR_ANOTHER else "nobody"
        assert bool(evict.beneficiary) == (cause in FOR_ANOTHER), (
            f"{cause} is for {is_for}: {evict}"
        )
        if cause in MOVED:
            self._moved[name] = moved | {spot: runs.charges[spot] for spot in spots}
        elif evict.beneficiary:
            self._asked.setdefault(evict.beneficiary, []).append(evict)
        else:
            for spot in spots:
                del runs.charges[spot]

    # -- starts

    def _start(self, binds: list[Bind]) -> None:
        name = binds[0].workload
        runs, entry = self.moment.runs[name], self.engine.entries()[name]
        charges: dict[Spot, Amounts] = {}
        for bind in binds:
            members = entry.members[bind.placement.group]
            for task, node in zip(bind.placement.tasks, bind.placement.nodes, strict=True):
                row = self.engine.books.row_of[node]
                amounts = self.moment._bill(entry, bind.placement.group, row, members.flavor)
                charges[bind.placement.group, task] = amounts
        if runs.held:
            lacks = sorted(runs.charges.keys() - charges.keys())
            need_not = runs.begun or self.engine.policy.profile == "kai"
            if name in self.moment.holds and self.moment.holds[name].is_growth:
                need_not = True  # it fell back to nothing meanwhile, and starts where it can
            assert need_not or not lacks, f"{name} starts without {lacks}, kept for it"
            if not runs.begun and lacks:  # of more than a minimum, what is free need not wait
                self._check_gang(entry, charges)
        elif not runs.charges:
            if self.is_default or not runs.begun:  # kai completes while others leave
                self._check_gang(entry, charges)
            first = self._minimum(entry, charges)
            self._check_quota(name, total(charges[spot] for spot in first))
            runs.charges.update({spot: charges[spot] for spot in first})
        elif self.engine.policy.profile == "kueue":  # it completes what runs whatever quota says
            first = self._minimum(entry, charges, runs.charges)
            runs.charges.update({spot: charges[spot] for spot in first})
        runs.held, runs.begun = False, True
        more = {spot: charge for spot, charge in charges.items() if spot not in runs.charges}
        self._check_quota(name, total(more.values()))
        runs.charges.update(charges)
        runs.started = float(entry.start_number)

    def _minimum(
        self, entry: Entry, charges: dict[Spot, Amounts], beside: Iterable[Spot] = ()
    ) -> list[Spot]:
        """Return the tasks of a start: whatever comes with it above the minimum is growth."""
        found: list[Spot] = []
        there = Counter(group for group, _ in beside)
        for group, members in entry.members.items():
            lacks = members.group.min - members.states.count(TaskState.FINISHED) - there[group]
            found += sorted(spot for spot in charges if spot[0] == group)[: max(0, lacks)]
        return found

    def _check_gang(self, entry: Entry, charges: dict[Spot, Amounts]) -> None:
        """The minimum starts together; what is finished need not."""
        for group, members in entry.members.items():
            done = members.states.count(TaskState.FINISHED)
            have = self._bound[entry.workload.name, group] + done
            enough = members.group.min <= have or 0 < members.group.partial <= have
            least = f"{members.group.min} of {group}"
            said = f"{entry.workload.name} starts with {have}, not {least}: {sorted(charges)}"
            assert enough or entry.workload.root.needed, said

    def _check_quota(self, name: str, request: Amounts) -> None:
        """Limits and lending hold for what is admitted; fixed work only uses quota."""
        runs, tree = self.moment.runs[name], self.tree
        usage = self.moment.usage()
        for queue in tree.path[runs.queue]:
            for pair, amount in request.items():
                most = tree.limit[queue][pair]
                if amount and most < NO_BOUND:
                    said = (
                        f"{name}: {usage[queue][pair]} + {amount} > {most} of {tree.names[queue]}"
                    )
                    assert usage[queue][pair] + amount <= most, said
        if not self.is_default:
            return
        short = self.engine.desk.ledger.blocker(runs.queue, request, usage)
        assert short is None, f"{name}: {self._in_words(short)}"
        grows = runs.begun and runs.workload.semi_preemptible
        if runs.fixed and not grows:
            fixed = self.moment.fixed()
            over = self.engine.desk.ledger.over_quota_fixed(runs.queue, request, fixed)
            assert over is None, f"{name} is fixed, and {self._pair(*over)} has no quota for it"

    def _in_words(self, short: Shortage) -> str:
        """Return what is short, and by which rule."""
        wanted = f"{short.wanted} wanted and {short.left} left"
        return f"{wanted} of {self._pair(short.queue, short.pair)} by {short.rule}"

    def _pair(self, queue: int, pair: int) -> str:
        """Return a queue and one of the pairs that it is charged for, in words."""
        flavor, resource = self.tree.pairs[pair]
        of = self.tree.names[queue] if queue != NOBODY else "all queues"
        return f"{flavor or 'any'} {resource} of {of}"

    # -- exchanges

    def _reserve(self, reserve: Reserve) -> None:
        name = reserve.workload
        moment, entry = self.moment, self.engine.entries()[name]
        evicts = self._asked.pop(name, [])
        hold = self.engine.desk.holds.get(name)
        if hold is None and not evicts:
            return  # a reservation in time: nothing is held
        before = {n: each.copy() for n, each in moment.runs.items()}
        charges: dict[Spot, Amounts] = {}
        parts = {seats.part.name: seats.part for _, seats in hold.seats} if hold else {}
        for placement in reserve.placements:
            for task, node in zip(placement.tasks, placement.nodes, strict=True):
                row = self.engine.books.row_of[node]
                code = parts[placement.group].code if placement.group in parts else -1
                code = self.engine.books.kind_of[row] if code == -1 else code
                charges[placement.group, task] = moment._bill(entry, placement.group, row, code)
        moved = self._moved.pop(name, {})
        self._check_moved(name, moved, charges)
        request = total(charge for spot, charge in charges.items() if spot not in moved)
        gone: dict[str, dict[Spot, str]] = {}
        for evict in evicts:
            for task in evict.tasks:
                gone.setdefault(evict.workload, {})[evict.group, task] = evict.cause
        self._check_victims(name, gone)
        for victim, spots in gone.items():
            for spot in spots:
                del moment.runs[victim].charges[spot]
        self._check_quota(name, request)
        mine = moment.runs[name]
        grows = any(spot not in moved for spot in mine.charges)
        mine.charges.update(charges)
        if not grows:
            mine.held, mine.started = True, float(entry.start_number)
        seen, self.yardstick = self.witness.at(evicts), None
        if seen is not None:
            moment.guests, self.yardstick = seen
        # What was completed and asked to leave in one cycle is told as never completed.
        is_whole = self.moment.incomplete.isdisjoint(gone)
        if gone and self.is_default and is_whole:
            self.exchanges += 1
            exchange = Exchange(self, name, before, gone)
            exchange.come(list(charges), grows=grows)
            exchange.check()
        mine.is_bold = entry.past.is_bold

    def _check_moved(
        self, name: str, moved: dict[Spot, Amounts], charges: dict[Spot, Amounts]
    ) -> None:
        """Who is moved has a place for all that is moved, and is charged what it was charged.

        Quota may be less than when it started: a move is no admission.
        """
        lacks = sorted(moved.keys() - charges.keys())
        assert not lacks, f"{name} is moved without {lacks}"
        old, new = total(moved.values()), total(charges[spot] for spot in moved)
        assert old == new, f"{name} was charged {old} and is charged {new} after its move"

    def _check_victims(self, name: str, gone: dict[str, dict[Spot, str]]) -> None:
        """Whole workloads leave, or only what is above a minimum; never what cannot be asked."""
        for victim, spots in gone.items():
            runs = self.moment.runs[victim]
            assert victim != name, f"{name} leaves for itself"
            assert runs.workload.preemptible, f"{victim} is not preemptible"
            assert not runs.held, f"{victim} has not started"
            left = [spot for spot in runs.charges if spot not in spots and spot not in runs.kept]
            semi = runs.workload.semi_preemptible
            if not left and (self.is_default or not semi):
                assert not semi, f"{victim} keeps its minimum"
                continue
            for group, members in self.engine.entries()[victim].members.items():
                done = 0 if self.is_default else members.states.count(TaskState.FINISHED)
                kept = sum(1 for of, _ in left if of == group) + done
                lost = any(of == group for of, _ in spots)
                assert not lost or kept >= members.group.min, f"{victim} leaves by halves"


class Exchange:
    """One newcomer and its victims under `default`, by the table of rights."""

    def __init__(
        self, judge: Judge, name: str, before: dict[str, Runs], gone: dict[str, dict[Spot, str]]
    ) -> None:
        self.judge = judge
        self.tree = judge.tree
        self.name = name
        assert judge.yardstick is not None, f"nobody saw who left for {name}: {gone}"
        self.yardstick: Yardstick = judge.yardstick
        self.after = judge.moment
        self.before = Moment.__new__(Moment)
        self.before.engine, self.before.now, self.before.runs = judge.engine, 0.0, before
        self.before.guests = judge.moment.guests
        self.unspent = sum(each.unspent for each in before.values())
        self.victims: list[tuple[Item, str]] = []
        for victim, spots in gone.items():
            for item, own in self.before.items_of(before[victim]):
                lost = [spot for spot in own if spot in spots]
                assert not lost or len(lost) == len(own), f"{victim} leaves by halves"
                if lost:
                    self.victims.append((item, spots[lost[0]]))

    def come(self, spots: Sequence[Spot], *, grows: bool) -> None:
        """Know the newcomer: a minimum, or one more unit, which is as old as its workload."""
        runs = self.after.runs[self.name]
        unit = len(self.before.items_of(self.before.runs[self.name])) if grows else 0
        p = self.after.item(runs, unit, spots)
        preemptible = runs.workload.preemptible if unit else not runs.fixed
        self.started = runs.started
        self.p = replace(p, started=NOT_YET, preemptible=preemptible)

    def check(self) -> None:
        """Check causes, standing, minimum run times and the measure."""
        items = self.before.items()
        for item, cause in self.victims:
            self._check_cause(item, cause)
            self._check_time(item, cause)
        is_bold = self.judge.engine.entries()[self.name].past.is_bold
        spent = int(is_bold and not self.before.runs[self.name].is_bold)
        spent += len({item.workload for item, cause in self.victims if cause == "quantum"})
        if not spent:
            self._check_line(items)
        self._check_measure(items, spent)

    def _check_cause(self, item: Item, cause: str) -> None:
        p, tree = self.p, self.tree
        if cause == "preempt":
            assert item.queue == p.queue, f"{item} is preempted from another queue, by {p}"
            assert item.priority <= p.priority, f"{item} outranks {p}"
            rules = [tree.queues[queue].eviction.within_queue for queue in tree.path[p.queue]]
            rule = next((each for each in rules if each), "")
            is_lower = item.priority < p.priority
            may = is_lower or (not p.unit and (item.unit or rule == "lower-or-newer"))
            assert may, f"{item} is preempted by its equal {p}; the rule is {rule!r}"
        if cause not in RECLAIMED:
            return
        mine, theirs = tree.common(p.queue, item.queue)
        quota, used = effective_quota(tree), self.before.usage()
        for queue in tree.path[item.queue]:
            over = [pair for pair, _ in item.size if used[queue][pair] > quota[queue][pair]]
            assert over, f"{item.name} is reclaimed, and {tree.names[queue]} is within its quota"
            if queue == theirs:
                break
        after = self.after.usage()
        bounds = {"quota": self.yardstick.quota, "fair-share": self.yardstick.share}.get(cause)
        for pair, _ in p.size if bounds else ():
            assert bounds is not None
            has, most = after[mine][pair], bounds[mine][pair]
            said = f"{item.name} leaves by {cause} for {p.name}, and {tree.names[mine]} has"
            assert has <= most, f"{said} {has} of {most} then"

    def _check_time(self, item: Item, cause: str) -> None:
        engine, workload = self.judge.engine, self.before.runs[item.workload].workload
        least = dict(engine.policy.eviction.minimum_run_s).get(cause, 0.0)
        said = [
            rules.preempt_minimum_run_s if cause == "preempt" else rules.reclaim_minimum_run_s
            for rules in (self.tree.queues[queue] for queue in self.tree.path[item.queue])
        ]
        if cause in ("preempt", *RECLAIMED):
            least = next((each for each in said if each is not None), least)
        if not item.unit:
            least = max(least, workload.minimum_run_s)
        ran = 0.0 if item.since is None else self.after.now - item.since
        assert ran >= least, f"{item.name} has run {ran} of {least} ({cause})"

    def _check_line(self, items: list[Item]) -> None:
        """The newcomer stands before all victims in the line of all who run and itself."""
        scale = Scale(self.tree, self.yardstick.share, list(self.yardstick.norms))
        line = [item.name for item, _ in plain_line(scale, [*items, self.p])]
        at = line.index(self.p.name)
        for item, cause in self.victims:
            assert line.index(item.name) > at, f"{item.name} ({cause}) stands before {self.p.name}"

    def _check_measure(self, items: list[Item], spent: int) -> None:
        """The measure of eviction.md falls: budgets that are spent count first."""
        tables = (self.yardstick.quota, self.yardstick.divided, self.yardstick.norms)
        old = psi(Line(self.tree, *tables, items), self.unspent)
        gone = {item.name for item, _ in self.victims}
        left = [item for item in items if item.name not in gone]
        came = replace(self.p, started=self.started)
        new = psi(Line(self.tree, *tables, [*left, came]), self.unspent - spent)
        assert new < old, f"the exchange for {self.name} does not lower the measure"


def check_usage(engine: Engine) -> None:
    """What the books say every queue uses follows from the workloads."""
    moment = Moment(engine)
    charged_only = [e for e in engine.entries().values() if e.charged_only]
    if charged_only:
        return
    for fixed, found in ((False, engine.books.usage), (True, engine.books.fixed)):
        used, follows = found.tolist(), moment.usage(fixed=fixed)
        what = "of fixed work " if fixed else ""
        assert used == follows, f"the books have {used} {what}in use, and {follows} follows"
