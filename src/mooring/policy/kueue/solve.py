"""What it takes to start one workload: flavors, a place, and who must leave for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mooring.model.plan import Reason
from mooring.policy.fewer import largest
from mooring.policy.kueue.assign import (
    Assignment,
    Bounds,
    asks_topology,
    assign,
    targets_for,
    units_of,
)
from mooring.policy.kueue.mode import Mode
from mooring.policy.kueue.scene import Need, Runner, Scene, Target
from mooring.policy.kueue.seating import NOBODY_FAILED, Proof, Seating, with_flavors
from mooring.policy.placing.ask import Ask
from mooring.policy.placing.room import room_for
from mooring.policy.placing.why import why
from mooring.policy.victims.evict import Victim, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.entry import Entry
    from mooring.policy.kueue.assign import Spot
    from mooring.policy.placing.ask import Part
    from mooring.policy.placing.place import Seats


@dataclass(slots=True, eq=False)
class Answer:
    """How a workload could start."""

    mode: Mode
    """FIT, PREEMPT (perhaps without targets), or NO_FIT."""
    ask: Ask
    """With flavors, and perhaps with fewer tasks."""
    found: Assignment
    targets: list[Target] = field(default_factory=list)
    reasons: tuple[Reason, ...] = ()

    @property
    def is_hopeful(self) -> bool:
        """Return whether it can start now, or once others have left."""
        return self.mode is Mode.FIT or bool(self.targets)


class Solver:
    """Answers for one workload in one scene."""

    def __init__(self, scene: Scene, entry: Entry, leaving: Sequence[Victim] = ()) -> None:
        """Answer as if those were gone that are on their way out."""
        self.scene = scene
        self.desk = scene.desk
        self.entry = entry
        self.leaving = tuple(leaving)
        self.own = scene.cohorts.cluster_queue[entry.queue]
        self.seating = Seating(scene.desk, entry)

    def solve(
        self,
        start: dict[Spot, int],
        pins: dict[Spot, str] | None = None,
        *,
        reduces: bool = True,
    ) -> Answer:
        """Return how it could start, perhaps with fewer tasks if need be and allowed."""
        ask = self.desk.ask_of(self.entry)
        if ask.problems:
            return Answer(Mode.NO_FIT, ask, Assignment(mode=Mode.NO_FIT), reasons=ask.problems)
        bounds = Bounds(start, pins or {})
        full = self._solve(ask, bounds)
        if full.is_hopeful or not reduces:
            return full
        return self._reduced(ask, bounds) or full

    def seats(self, answer: Answer) -> list[Seats] | None:
        """Return where it would start, with all gone that must leave; nothing stays booked."""
        gone = [target.runner for target in answer.targets]
        return self.seating.prove(answer.ask, self._victims(gone))

    # -- one size ---------------------------------------------------------------------------

    def _solve(self, ask: Ask, bounds: Bounds) -> Answer:
        """Return how a workload of one size could start; who has no place tries another flavor."""
        while True:
            found = assign(self.scene, self.entry, ask, bounds)
            if found.mode is Mode.NO_FIT:
                return Answer(Mode.NO_FIT, ask, found, reasons=tuple(found.reasons))
            given = with_flavors(self.desk, ask, found.flavors)
            if found.mode is Mode.FIT:
                if self.seating.prove(given, self.leaving) is not None:
                    return Answer(Mode.FIT, given, found)
                if self._downgrade(bounds, found, self.seating.failed, Mode.PREEMPT):
                    continue
            never = self._impossible(given)
            if never is None:
                return self._preempting(given, found)
            if not self._downgrade(bounds, found, never, Mode.NO_FIT):
                return Answer(Mode.NO_FIT, given, found, reasons=self._why(given))

    def _downgrade(self, bounds: Bounds, found: Assignment, unit: int, mode: Mode) -> bool:
        """Note that a unit has no place on its flavor; return whether that is news."""
        if bounds.pins or unit == NOBODY_FAILED:
            return False
        groups = self.desk.groups_of(self.own)
        spots = [spot for spot in found.chosen if spot[0] == unit]
        several = [spot for spot in spots if len(groups[spot[1]].flavors) > 1]
        is_news = False
        for spot in several:
            key = unit, found.chosen[spot]
            if mode < bounds.rooms.get(key, Mode.FIT):
                bounds.rooms[key] = mode
                is_news = True
        return is_news

    def _impossible(self, ask: Ask) -> int | None:
        """Return the unit that would have no place even if nothing ran; None: there is none."""
        self.desk.placer.aim(ask.avoid)
        for number, unit in enumerate(units_of(ask.root)):
            for leaf in unit.leaves():
                bound = leaf if leaf is unit else leaf.under(unit)
                if self._most(bound) < leaf.count:
                    return number
        return None

    def _most(self, leaf: Part) -> int:
        """Return how many tasks one domain, or the cluster, would take if nothing ran."""
        level = max(leaf.required, 0)
        leaf = leaf.inside(level)
        fit = self.desk.placer.fit(leaf)
        units = room_for(fit, leaf.slices, fit.most).units[level]
        return int(units.max(initial=0)) * (leaf.slices[0][1] if leaf.slices else 1)

    def _why(self, ask: Ask) -> tuple[Reason, ...]:
        self.desk.placer.aim(ask.avoid)
        return why(self.desk.placer, ask)

    # -- others -----------------------------------------------------------------------------

    def _preempting(self, ask: Ask, found: Assignment) -> Answer:
        """Look for those who must leave."""
        contested = set(found.contested)
        if not contested or any(asks_topology(unit) for unit in units_of(ask.root)):
            contested = set(found.request)
        proof = Proof(self.seating, ask, self.leaving)
        need = Need(self.entry, self.own, frozenset(contested), found.request, proof)
        targets = targets_for(self.scene, need)
        proof.close()
        reasons = tuple(found.reasons) or self._why(ask)
        return Answer(Mode.PREEMPT, ask, found, targets, reasons)

    def _victims(self, gone: Sequence[Runner]) -> list[Victim]:
        return [*self.leaving, *(whole(runner.entry, "") for runner in gone)]

    # -- fewer tasks ------------------------------------------------------------------------

    def _reduced(self, ask: Ask, bounds: Bounds) -> Answer | None:
        """Return how it could start with as few tasks less as possible."""

        def attempt(fewer: Ask) -> Answer | None:
            answer = self._solve(fewer, Bounds(bounds.start, bounds.pins))
            return answer if answer.is_hopeful else None

        return largest(ask, attempt)
