"""Gangs that are not as they should be: completed, undone, shrunk or taken back."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from mooring.engine.needs import Gap
from mooring.engine.places import vacate
from mooring.model.plan import Bind, Evict, Reserve, without
from mooring.model.workload import TaskState
from mooring.policy.placing.ask import leaf_ask
from mooring.policy.placing.why import why
from mooring.policy.queues.offers import gate, place_beside

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from mooring.engine.needs import Needs
    from mooring.engine.upkeep import Upkeep
    from mooring.model.entry import Entry
    from mooring.model.plan import Decision, Reason
    from mooring.policy.desk import Desk


class Mender:
    """Does what gangs need, at one desk. Of whom there is something new to tell goes to `told`."""

    def __init__(self, desk: Desk, needs: Needs, upkeep: Upkeep) -> None:
        self.desk = desk
        self.needs = needs
        self.upkeep = upkeep

    def mend(self, told: dict[str, None]) -> float | None:
        """Complete gangs that lost tasks, or undo those that stay incomplete too long."""
        now, wake_at, gaps = self.desk.now, None, self.needs.incomplete
        if not gaps or self.needs.court_mends:
            return None
        entries = [self.desk.entries[name] for name in gaps]
        for entry in sorted(entries, key=self.needs.seniority):
            name = entry.workload.name
            if name in self.desk.holds:
                continue  # its place is kept, what is done of it aside
            gap = gaps[name]
            since = now if gap.since is None else gap.since
            gaps[name] = replace(gap, since=since)
            if any(members.is_releasing for members in entry.members.values()):
                continue
            reasons = self._complete(entry)
            if not reasons:
                del gaps[name]
                self.needs.queue_up(entry)
                continue
            if reasons != gap.reasons:
                gaps[name] = Gap(since, gap.cause, reasons)
                told[name] = None
            due = since + self._grace(entry)
            if now >= due:
                self.desk.evict_all(entry, gap.cause)  # it waits again, at its old place in line
            elif due < inf:
                wake_at = due if wake_at is None else min(wake_at, due)
        return wake_at

    def _complete(self, entry: Entry) -> tuple[Reason, ...]:
        """Place what a gang misses beside what it has, or return why not; all of it or nothing."""
        is_new = not entry.is_placed  # only what is finished is left
        if (is_new or self.upkeep.must_leave(entry)) and gate(self.desk, entry):
            return gate(self.desk, entry)
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

    def _grace(self, entry: Entry) -> float:
        """Return how long a gang may be incomplete; who is to leave is asked by others."""
        if self.upkeep.must_leave(entry):
            return inf
        grace = entry.workload.grace_s
        if grace is None:
            grace = self.desk.policy.gang_grace_s
        return grace if grace >= 0 else inf

    def undo_stale(self) -> float | None:
        """Undo gangs that the court has not completed in time; one with finished tasks stays."""
        now, dues, gaps = self.desk.now, [], self.needs.incomplete
        if not gaps:
            return None
        for name in list(gaps) if self.needs.court_mends else ():
            entry, gap = self.desk.entries[name], gaps[name]
            if not entry.is_incomplete:
                del gaps[name]
                continue
            states = [members.states for members in entry.members.values()]
            is_stale = name not in self.desk.holds and not any(
                TaskState.RELEASING in each or TaskState.FINISHED in each for each in states
            )
            since = (now if gap.since is None else gap.since) if is_stale else None
            gaps[name] = replace(gap, since=since)
            due = inf if since is None else since + self._grace(entry)
            if now >= due:
                self.needs.court.leave(entry)
                self.desk.evict_all(entry, gap.cause)
            else:
                dues.append(due)
        return min(dues, default=None) if min(dues, default=inf) < inf else None

    def shrink(self) -> None:
        """Evict the tasks that a smaller size no longer has, the last ones first."""
        resized = self.needs.resized
        for name in resized:
            entry = self.desk.entries[name]
            for members in entry.members.values():
                surplus = max(0, -members.spare - members.states.count(TaskState.RELEASING))
                staying = members.staying()
                gone = staying[len(staying) - min(surplus, len(staying)) :]
                self.desk.evict(entry, members, gone, "resized")
        resized.clear()

    def open_cycle(self) -> None:
        """Let those be asked to leave again who were not to be in the last cycle."""
        for name in self.desk.firm:
            if name in self.desk.entries:
                self.desk.note_move(self.desk.entries[name])
        self.desk.firm = {}

    def keep_word(self, told: dict[str, None]) -> None:
        """Start those whose room is free by now, as was said: others have left for them.

        Nobody sends them away in the same cycle; that would have been in vain.
        """
        self.desk.firm = {}
        if not self.desk.holds:
            return
        before = len(self.desk.decisions)
        self.start_held(told)
        binds = [each for each in self.desk.decisions[before:] if isinstance(each, Bind)]
        self.desk.firm = dict.fromkeys(each.workload for each in binds)

    def start_held(self, told: dict[str, None]) -> None:
        """Start those whose room is free by now; they wait for more, or again."""
        for entry in self.desk.holds.start_free():
            told[entry.workload.name] = None
            self.needs.queue_up(entry)

    def take_back(self, told: dict[str, None]) -> bool:
        """Let nobody come and leave in one plan: what was to leave at once has not come.

        That goes for starts, for what a gang missed and for units above a minimum. Whoever it was
        to leave for starts, if all others have left; it waits again itself. Return whether there
        was anybody: every exchange makes the line better, so that this comes to rest.
        """
        desk = self.desk
        if len(desk.decisions) < 2 or self.needs.court_mends:  # that court does so itself
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
            entry = desk.entries[name]
            for group, members in entry.members.items():
                vacate(desk, entry, members, [t for n, g, t in both if (n, g) == (name, group)])
            if not entry.is_placed and name in desk.begun:
                entry.past = replace(desk.begun[name], is_bold=entry.past.is_bold)
            self.needs.look_after(entry, "lost-task")
            told[name] = None
        decided, desk.decisions = desk.decisions, []
        self.start_held(told)
        desk.decisions = instead_of_holds(decided, desk.decisions, desk.holds)
        return True


def instead_of_holds(
    decided: Sequence[Decision], starts: Sequence[Decision], holds: Container[str]
) -> list[Decision]:
    """Return decisions in which those start, where room was held for them, who need not wait.

    A plan is in the order in which all were let in: who came after counted on that.
    """
    last = {each.workload: n for n, each in enumerate(decided) if isinstance(each, Reserve)}
    found: list[Decision] = []
    for number, each in enumerate(decided):
        if not isinstance(each, Reserve) or each.workload in holds:
            found.append(each)
        elif last[each.workload] == number:
            found += [start for start in starts if start.workload == each.workload]
    return found + [start for start in starts if start.workload not in last]
