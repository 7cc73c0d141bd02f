"""The court of `kai`: allocate, consolidate, reclaim, preempt, in this order, once a cycle.

Whoever waits is tried in order in every action, and once in each. What an action decides, the
next one sees.

Room that others are leaving is given like room that is free, and in the same order: to minimums,
and to what comes after them. All that is looked at anew in the next cycle, by who waits then. Only
those for whom others were made to leave have their word that they start.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from mooring.model.books import bits
from mooring.model.demand import DeviceKind
from mooring.model.plan import Behind, Bind, CutShort, Protected, Unknown
from mooring.policy.kai.actions import MOVE, Consolidation, Preempt, Reclaim
from mooring.policy.kai.loose import Loose, moves
from mooring.policy.kai.order import Line, in_lanes
from mooring.policy.kai.outlook import Soon, lift
from mooring.policy.kai.protect import delayed_until
from mooring.policy.kai.round import Round
from mooring.policy.kai.seating import SPREAD, Seat, Seating, by_group
from mooring.policy.kai.solver import CutShortError, Solver
from mooring.policy.placing.ask import compile_ask, leaf_ask
from mooring.policy.placing.why import why
from mooring.policy.queues.offers import gate, over_quota
from mooring.policy.queues.tree import NOBODY
from mooring.policy.standing.plain import risks_in_order

if TYPE_CHECKING:
    from mooring.model.entry import Entry
    from mooring.model.plan import Reason
    from mooring.policy.desk import Desk
    from mooring.policy.kai.crew import Crew
    from mooring.policy.kai.solver import Trial
    from mooring.policy.placing.ask import Ask
    from mooring.policy.standing.plain import Risks
    from mooring.policy.victims.departures import TaskKey

Action = type[Consolidation] | type[Reclaim] | type[Preempt]
PERIOD_S = 1.0
"""After a cycle that decided something the next one comes so soon."""
HISTORY_S = 60.0
"""How often shares are divided anew for history's sake."""
NOTED = "\0noted"
"""Who all room is held for that is noted for one cycle: no workload has that name."""


class KaiCourt:
    """Who is next, and who must leave, by the rules of KAI-Scheduler."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._names: dict[str, None] = {}
        """All who may wait for something."""
        self._seating = Seating(desk)
        self._seen: tuple[int, int, int] | None = None
        self._wake: float | None = None
        self._reasons: dict[str, tuple[Reason, ...]] = {}
        self._told: dict[str, None] = {}
        self._owed: dict[str, None] = {}
        """Those for whom others were made to leave, and who have not started yet."""

    # -- who waits --------------------------------------------------------------------------

    def wait(self, entry: Entry) -> None:
        """Take a workload in."""
        if entry.workload.name not in self._names:
            self._names[entry.workload.name] = None
            self._seen = None

    def leave(self, entry: Entry) -> bool:
        """Forget a workload; return whether it waited."""
        name = entry.workload.name
        known = name in self._names
        self._names.pop(name, None)
        self._told.pop(name, None)
        self._reasons.pop(name, None)
        return known

    def refresh(self) -> None:
        """Look at everything anew."""
        self._seen = None

    @property
    def stirs(self) -> bool:
        """Return whether something changed, or a time has come."""
        is_due = self._wake is not None and self.desk.now >= self._wake
        return is_due or self._seen != self._state()

    def _state(self) -> tuple[int, int, int]:
        books = self.desk.books
        return self.desk.version, books.log_end, books.epoch

    # -- deciding ---------------------------------------------------------------------------

    def serve(self) -> float | None:
        """Do what each action does; return when to look again."""
        if not self.stirs:
            return self._wake
        decided = False
        if self._names:
            decided = self._serve()
        else:
            self._wake = None
        self._seen = None if decided else self._state()
        return self._wake

    def _serve(self) -> bool:
        """Go through all actions; return whether anything was decided."""
        desk, before = self.desk, len(self.desk.decisions)
        loose = Loose(desk, self._owed)
        self._names.update(dict.fromkeys(loose.names))
        cycle = _Cycle(desk, self._seating, self._names, self._owed)
        cycle.allocate()
        policy = desk.policy
        moves = policy.eviction.consolidates and policy.eviction.movers != 0
        if moves and SPREAD not in (policy.small, policy.gang):
            cycle.act(Consolidation)
        cycle.act(Reclaim)
        cycle.act(Preempt)
        self._set_reasons(cycle)
        cycle.forget_notes()
        loose.restore()
        self._owed = {name: None for name in {**self._owed, **cycle.owed} if name in desk.holds}
        decided = len(desk.decisions) > before or cycle.is_put_off
        if decided:
            cycle.round.look_again(desk.now + PERIOD_S)
        if policy.fairness.history_weight and self._reasons:
            cycle.round.look_again(desk.now + HISTORY_S)
        self._wake = cycle.round.wake
        for name in [name for name in self._names if not _wants(desk.entries[name])]:
            del self._names[name]
        return decided

    def _set_reasons(self, cycle: _Cycle) -> None:
        found = cycle.reasons()
        for name in {**self._reasons, **found}:
            if self._reasons.get(name) != found.get(name):
                self._told[name] = None
        self._reasons = found

    # -- what is known ----------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """Return those who wait to start or to grow, by rank."""
        desk = self.desk

        def rank(name: str) -> tuple[int, float, int]:
            entry = desk.entries[name]
            return -desk.priority(entry), entry.workload.submitted_at, entry.sequence

        new = [n for n in self._names if not desk.entries[n].has_begun]
        return sorted({**self._reasons, **dict.fromkeys(new)}, key=rank)

    def anyone_waits(self) -> bool:
        """Return whether anybody waits to start or to grow."""
        return bool(self.waiting())

    def reasons(self, name: str) -> tuple[Reason, ...]:
        """Return why a workload waits."""
        hold = self.desk.holds.get(name)
        if hold is not None:
            return (hold.reason(name),)
        return self._reasons.get(name, ())

    def tell(self) -> list[str]:
        """Return those whose reasons changed since the last call."""
        told, self._told = list(self._told), {}
        return told

    def shares(self) -> list[list[int]] | None:
        """Return the fair share of every queue in every pair."""
        return Round(self.desk).fair

    def risks(self) -> Risks:
        """Return who is within quota, within the fair share of its queue, or over it."""
        this = Round(self.desk)
        return risks_in_order(self.desk, this.quota, this.fair)

    def copy(self, desk: Desk) -> KaiCourt:
        """Return the court of a fork."""
        new = KaiCourt(desk)
        new._names, new._reasons = dict(self._names), dict(self._reasons)
        new._told, new._wake, new._seen = dict(self._told), self._wake, self._seen
        new._owed = dict(self._owed)
        return new


class _Cycle:
    """One go through all actions."""

    def __init__(
        self, desk: Desk, seating: Seating, names: dict[str, None], owed: dict[str, None]
    ) -> None:
        self.desk = desk
        self.round = Round(desk)
        self.seating = seating
        self._barred: dict[str, tuple[Reason, ...]] = {}
        """Those who cannot start whatever there is, and why."""
        self._cut: dict[str, int] = {}
        """Those for whom a search was cut short, and after how many steps."""
        self._fresh: dict[TaskKey, None] = {}
        """Tasks that were started in this cycle."""
        binds = [each for each in desk.decisions if isinstance(each, Bind)]
        self._firm = {spot for bind in binds if bind.workload in owed for spot in bind.spots}
        """Tasks that start as was said: others have left for them."""
        self.owed: dict[str, None] = {}
        """Those for whom others were made to leave in this cycle."""
        self.is_put_off = False
        """Somebody could have had the place of one that is firm: that is for the next cycle."""
        self.crews: list[Crew] = []
        for name in {**names, **desk.holds}:
            entry = desk.entries[name]
            if not _wants(entry) or (name in desk.holds and moves(entry)):
                continue
            reasons = _gate(self.round, entry)
            if not reasons:
                self.crews.append(self.round.crew(entry))
            elif name not in desk.holds:
                self._barred[name] = reasons

    # -- allocate ---------------------------------------------------------------------------

    def _waiting(self) -> list[Crew]:
        """Return those of whom something waits, and who are not to start somewhere already."""
        holds = self.desk.holds
        return [crew for crew in self.crews if crew.waits and crew.name not in holds]

    def allocate(self) -> None:
        """Start whoever fits, in order; after its minimum a workload gets more one by one."""
        line = Line(self.round, in_lanes(crew for crew in self.crews if crew.waits))
        failed: set[object] = set()
        while line:
            crew = line.pop()
            key = self._key(crew)
            if key in failed:
                continue
            if not self._start(crew):
                failed.add(key)
            elif crew.waits:
                line.push(crew)

    def _key(self, crew: Crew) -> object:
        """Return what is the same for two crews of which one fails if the other does."""
        if crew.is_active:
            return crew.name
        workload, entry = crew.entry.workload, crew.entry
        drawn = any(m.group.shape.is_social for m in entry.members.values())
        if drawn:
            return crew.name
        return workload.groups, workload.topology, entry.avoid, entry.account

    def _start(self, crew: Crew) -> bool:
        """Let a crew have what comes next, now or as soon as those on their way out are gone."""
        chosen, round_ = crew.wanted(), self.round
        if not chosen or round_.shortage(crew, chosen) is not None:
            return False
        if not round_.leaving and not crew.seats:
            seats = self.seating.place(crew, chosen)
            if seats is not None:
                self._bind(crew, seats)
            return seats is not None
        mark = round_.books.checkpoint()
        outlook = Soon(round_)
        lift(round_)
        seats = self.seating.place(crew, chosen, outlook)
        round_.books.rollback(mark)
        if seats is None:
            return False
        if crew.may_start and self._take_now(crew, seats):
            self._bind(crew, seats)
        elif crew.name in self.desk.holds:
            self._note(crew, seats)
        else:
            self._keep(crew, seats, [])
        return True

    def _take_now(self, crew: Crew, seats: list[Seat]) -> bool:
        """Book seats if all of them are free already."""
        books = self.round.books
        mark = books.checkpoint()
        for seat in seats:
            demand = crew.entry.members[seat.group].demand
            books.take(demand, (seat.row,), (seat.devices,), crew.entry.account)
        for seat in seats:
            demand = crew.entry.members[seat.group].demand
            is_short = any(books.open_of[r][seat.row] < 0 for r, _ in demand.pairs)
            if demand.kind in (DeviceKind.WHOLE, DeviceKind.SHARED, DeviceKind.MEMORY):
                is_short |= any(books.share_of[d][seat.row] < 0 for d in bits(seat.devices))
            if is_short:
                books.rollback(mark)
                return False
        return True

    def _bind(self, crew: Crew, seats: list[Seat]) -> None:
        """Start tasks at booked seats."""
        for tasks, some in by_group(crew, seats):
            self.desk.start(crew.entry, tasks, some)
        crew.join((seat.group, seat.task) for seat in seats)
        self._fresh.update(dict.fromkeys((crew.name, seat.group, seat.task) for seat in seats))

    def _note(self, crew: Crew, seats: list[Seat]) -> None:
        """Let nobody else have seats in this cycle: they are for one that starts before."""
        books, entry = self.round.books, crew.entry
        for seat in seats:
            demand = entry.members[seat.group].demand
            books.hold(NOTED, demand, seat.row, seat.devices, entry.account)
        books.commit()
        crew.sit({(seat.group, seat.task): seat.row for seat in seats})

    def forget_notes(self) -> None:
        """Open the room that was only noted."""
        self.round.books.unhold(NOTED)
        self.round.books.commit()

    def _keep(self, crew: Crew, seats: list[Seat], leaving: list[TaskKey]) -> None:
        """Keep seats until those in them, and others that are named, have left."""
        rows = {seat.row for seat in seats}
        there = [
            (entry.workload.name, members.group.name, task)
            for entry, members, task in self.round.leaving
            if members.rows[task] in rows
        ]
        found = by_group(crew, seats)
        every = [*leaving, *there]
        self.desk.holds.keep(
            crew.entry, [s for _, s in found], every, [tasks for tasks, _ in found]
        )
        crew.sit({(seat.group, seat.task): seat.row for seat in seats})

    # -- making room ------------------------------------------------------------------------

    def act(self, action: Action) -> None:
        """Let everybody who waits, in order, look for others to leave."""
        round_ = self.round
        line = Line(round_, in_lanes(self._waiting()))
        failed: set[object] = set()
        while line:
            crew = line.pop()
            until = delayed_until(round_, crew)
            if until is not None:
                if until < inf:
                    round_.look_again(until)
                continue
            key = (self._key(crew), crew.priority, None if action is Consolidation else crew.queue)
            if key in failed or not crew.wanted():
                continue
            rules = action(round_, crew)
            if not rules.may():
                continue
            trial = self._solve(crew, rules)
            if trial is None:
                failed.add(key)
                continue
            if any(key in self._firm for key in trial.spots()):
                self.is_put_off = True
                continue
            self._carry_out(trial, rules.cause)
            line.stir()

    def _solve(self, crew: Crew, rules: Consolidation | Reclaim | Preempt) -> Trial | None:
        solver = Solver(self.round, self.seating, crew, rules, in_lanes(self._waiting()))
        try:
            return solver.solve()
        except CutShortError:
            self._cut[crew.name] = solver.steps
            return None

    def _carry_out(self, trial: Trial, cause: str) -> None:
        """Let victims leave, and keep all places that were found."""
        moved = {(c.name, s.group, s.task) for c, seats in trial.moving for s in seats}
        gone: dict[Crew, dict[str, list[tuple[str, int]]]] = {}
        for chunk in trial.outcome():
            name = chunk.crew.name
            for group, task in chunk.tasks:
                key = (name, group, task)
                of_task = MOVE if key in moved else trial.causes.get(key, cause)
                gone.setdefault(chunk.crew, {}).setdefault(of_task, []).append((group, task))
        leaving: list[TaskKey] = []
        for victim, by_cause in gone.items():
            leaving += self._let_go(victim, by_cause, trial.crew.name)
        if leaving:
            some = [trial.crew, *(mover for mover, _ in trial.moving)]
            self.owed.update(dict.fromkeys(crew.name for crew in some))
        self._settle(trial.crew, trial.seats, leaving)
        for mover, seats in trial.moving:
            mover.wait_again((seat.group, seat.task) for seat in seats)
            self._settle(mover, seats, [key for key in leaving if key[0] == mover.name])

    def _settle(self, crew: Crew, seats: list[Seat], leaving: list[TaskKey]) -> None:
        """Start tasks if nobody has to leave for them first, or keep their places."""
        if not leaving and self._take_now(crew, seats):
            self._bind(crew, seats)
        else:
            every = sorted([*seats, *self._recall(crew)], key=lambda seat: seat.task)
            self._keep(crew, every, leaving)

    def _recall(self, crew: Crew) -> list[Seat]:
        """Take back the start of a gang that would come by halves; return the seats that it had.

        The rest of it is about to wait for room: all of it waits, and starts together.
        """
        tasks = [task for task in crew.active_tasks() if task not in crew.seats]
        comes = all((crew.name, *task) in self._fresh for task in tasks)
        if not comes or crew.without(crew.seats).root.is_met:
            return []
        seats = []
        for group, members in crew.entry.members.items():
            some = [task for of, task in tasks if of == group]
            seats += [Seat(group, task, members.rows[task], members.devices[task]) for task in some]
            self.desk.take_back(crew.entry, members, some)
        crew.leave(tasks)
        return seats

    def _let_go(
        self, victim: Crew, gone: dict[str, list[tuple[str, int]]], beneficiary: str
    ) -> list[TaskKey]:
        """Let tasks of a victim leave, by cause; return them."""
        desk, entry = self.desk, victim.entry
        victim.drop([task for tasks in gone.values() for task in tasks])
        every = []
        for cause, some in gone.items():
            gone[cause] = [task for task in some if (victim.name, *task) not in self._fresh]
            every += gone[cause]
            for group, members in entry.members.items():
                fresh = [t for of, t in some if of == group and (of, t) not in gone[cause]]
                if fresh:
                    desk.take_back(entry, members, fresh)
        if not every:
            return []
        past = entry.past
        if any((victim.name, *task) not in self._fresh for task in victim.active_tasks()):
            entry.past = replace(past, evicted_at=desk.now)
        else:
            desk.note_leaving(entry)
            entry.past = replace(entry.past, evictions=past.evictions + 1)
        for cause, some in gone.items():
            for group, members in entry.members.items():
                tasks = sorted(task for of, task in some if of == group)
                desk.evict(entry, members, tasks, cause, beneficiary)
        self.round.leaving += [(entry, entry.members[group], task) for group, task in every]
        return [(victim.name, group, task) for group, task in every]

    # -- reasons ----------------------------------------------------------------------------

    def reasons(self) -> dict[str, tuple[Reason, ...]]:
        """Return why workloads still wait, by name."""
        found = dict(self._barred)
        first: dict[object, str] = {}
        for crew in sorted(self._waiting(), key=lambda crew: crew.key):
            key = (self._key(crew), crew.queue)
            if key in first and crew.name not in self._cut:
                found[crew.name] = (Behind(first[key]),)
            else:
                first[key] = crew.name
                found[crew.name] = self._why(crew)
        return found

    def _why(self, crew: Crew) -> tuple[Reason, ...]:
        desk, round_ = self.desk, self.round
        ask = compile_ask(desk.books, crew.entry.workload, crew.entry.avoid)
        if ask.problems:
            return ask.problems
        chosen = crew.wanted()
        if not chosen:
            return ()
        shortage = round_.shortage(crew, chosen)
        if shortage is not None:
            return (over_quota(desk, crew.entry, shortage),)
        desk.placer.aim(crew.entry.avoid)
        reasons: list[Reason] = self._no_room(crew, ask)
        if crew.name in self._cut:
            reasons.append(CutShort(self._cut[crew.name]))
        until = delayed_until(round_, crew)
        if until is not None and until < inf:
            reasons.append(Protected(until))
        return tuple(reasons)

    def _no_room(self, crew: Crew, ask: Ask) -> list[Reason]:
        """Return why there is no room for what comes next, counted."""
        desk = self.desk
        numbers: dict[str, int] = {}
        for leaf, tasks in crew.wanted():
            numbers[leaf.group] = numbers.get(leaf.group, 0) + len(tasks)
        beside = desk.beside(crew.entry)
        reasons: list[Reason] = []
        parts = [leaf.of(numbers[leaf.name]) for leaf in ask.leaves if leaf.name in numbers]
        if not crew.is_active:
            return list(why(desk.placer, replace(ask, leaves=tuple(parts))))
        for part in parts:
            more = leaf_ask(part, part.count, crew.entry.workload, crew.entry.avoid)
            reasons += why(desk.placer, more, beside.bound(part))
        return reasons


def _wants(entry: Entry) -> bool:
    """Return whether any task of a workload waits."""
    return any(members.spare > 0 for members in entry.members.values())


def _gate(round_: Round, entry: Entry) -> tuple[Reason, ...]:
    """Return what keeps a workload from starting whatever there is to have."""
    reasons = gate(round_.desk, entry)
    if reasons:
        return reasons
    tree, queue = round_.tree, entry.queue
    if round_.is_out[queue]:
        orphan = next(tree.queues[q] for q in tree.path[queue] if tree.parent[q] == NOBODY)
        return (Unknown("", "parent queue", orphan.parent),)
    if not round_.is_leaf(queue):
        return (Unknown("", "leaf queue", tree.names[queue]),)
    return compile_ask(round_.books, entry.workload).problems
