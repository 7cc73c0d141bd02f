"""Which flavor every resource of a workload is charged to.

Pod groups are looked at in order; those that share a topology go together. Every resource group of
the queue goes through its flavors until one is good enough; the amounts of earlier groups count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mooring.model.plan import Excluded, OverQuota, Reason
from mooring.model.queues import Flavor
from mooring.model.resources import GPU_ROW, PODS, PORT
from mooring.policy.kueue.classical import classical_targets
from mooring.policy.kueue.fair import fair_targets
from mooring.policy.kueue.mode import BEST, WORST, Grade, Mode, is_better, is_next_tried
from mooring.policy.kueue.scene import NEVER, Need, Scene, Target
from mooring.policy.placing.constraints import HARD_EFFECTS, is_met, tolerates
from mooring.policy.queues.lines import Request

if TYPE_CHECKING:
    from mooring.model.entry import Entry
    from mooring.model.queues import ResourceGroup
    from mooring.model.workload import Requirement, Shape
    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Ask, Part

Spot = tuple[int, int]
"""A unit of a workload, and a resource group of its queue."""
Flavors = dict[str, dict[str, str]]
"""By pod group and resource."""


@dataclass(slots=True)
class Assignment:
    """Flavors for all resources of a workload, and how good they are."""

    mode: Mode = Mode.FIT
    """The worst of all."""
    flavors: Flavors = field(default_factory=dict)
    chosen: dict[Spot, str] = field(default_factory=dict)
    request: Request = field(default_factory=dict)
    contested: set[int] = field(default_factory=set)
    """Pairs of which there is too little."""
    distance: int = 0
    tried: dict[Spot, int] = field(default_factory=dict)
    """The last flavor that was looked at, where others come after it."""
    reasons: list[Reason] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What else decides which flavors are looked at, and how."""

    start: dict[Spot, int] = field(default_factory=dict)
    """After which flavor to go on, from an earlier attempt."""
    pins: dict[Spot, str] = field(default_factory=dict)
    """The only flavors that will do; nothing: any."""
    rooms: dict[tuple[int, str], Mode] = field(default_factory=dict)
    """By unit and flavor: it has no place there now (PREEMPT), or never (NO_FIT)."""


def units_of(part: Part) -> list[Part]:
    """Return the parts that have a topology of their own, or are leaves: each on one flavor."""
    if part.demand is not None or asks_topology(part):
        return [part]
    return [unit for child in part.parts for unit in units_of(child)]


def asks_topology(part: Part) -> bool:
    """Return whether a part itself asks for a level or for slices."""
    return part.required > 0 or part.preferred > 0 or bool(part.slices)


def targets_for(scene: Scene, need: Need) -> list[Target]:
    """Return who must leave for a need, by the rules of the policy."""
    return fair_targets(scene, need) if scene.strategies else classical_targets(scene, need)


def assign(scene: Scene, entry: Entry, ask: Ask, bounds: Bounds) -> Assignment:
    """Return flavors for a workload."""
    return _Assigner(scene, entry, bounds).run(ask)


def resource_groups(desk: Desk, cluster_queue: int) -> tuple[ResourceGroup, ...]:
    """Return the resource groups of a cluster queue."""
    return desk.groups_of(cluster_queue)


class _Assigner:
    def __init__(self, scene: Scene, entry: Entry, bounds: Bounds) -> None:
        self.scene = scene
        self.desk = scene.desk
        self.entry = entry
        self.bounds = bounds
        self.own = scene.cohorts.cluster_queue[entry.queue]
        self.queue = scene.queue(self.own)
        self.groups = resource_groups(self.desk, self.own)
        self.named = {flavor.name: flavor for flavor in self.desk.books.named_flavors}
        self.found = Assignment()

    def run(self, ask: Ask) -> Assignment:
        found = self.found
        if not self.desk.tree.pairs:
            return found
        for number, unit in enumerate(units_of(ask.root)):
            requests = {leaf.name: self._request(leaf) for leaf in unit.leaves()}
            if not self._assign_unit(number, unit, requests):
                found.mode = Mode.NO_FIT
                return found
        if found.contested:
            found.mode = Mode.PREEMPT
        return found

    def _request(self, leaf: Part) -> dict[str, int]:
        """Return what all tasks of a leaf ask for, by resource."""
        assert leaf.demand is not None
        names = self.desk.books.order.names
        amounts: dict[str, int] = {}
        for row, amount in (*leaf.demand.pairs, (GPU_ROW, leaf.demand.weight - 1)):
            name = names[row]
            if amount and leaf.count and not name.startswith(PORT):
                amounts[name] = amounts.get(name, 0) + amount * leaf.count
        return amounts

    def _assign_unit(self, number: int, unit: Part, requests: dict[str, dict[str, int]]) -> bool:
        """Find flavors for one unit; return whether there are any for all of its resources."""
        total: dict[str, int] = {}
        for each in requests.values():
            for name, amount in each.items():
                total[name] = total.get(name, 0) + amount
        covered = {name for group in self.groups for name in group.resources}
        for name, amount in total.items():
            if name not in covered and name != PODS and self.desk.policy.undeclared == "block":
                self.found.reasons = [OverQuota(self.queue.name, "", name, amount, 0, False)]
                return False
        for index, group in enumerate(self.groups):
            wanted = {name: total[name] for name in group.resources if name in total}
            if wanted and not self._assign_group((number, index), unit, wanted):
                return False
        self._write_down(number, requests)
        return True

    def _write_down(self, number: int, requests: dict[str, dict[str, int]]) -> None:
        """Note which flavor every resource of every leaf has."""
        given = {
            name: self.found.chosen[number, index]
            for index, group in enumerate(self.groups)
            if (number, index) in self.found.chosen
            for name in group.resources
        }
        for leaf, request in requests.items():
            self.found.flavors[leaf] = {name: given[name] for name in request if name in given}

    # -- one resource group -----------------------------------------------------------------

    def _assign_group(self, spot: Spot, unit: Part, wanted: dict[str, int]) -> bool:
        """Go through the flavors of a group and keep the best."""
        group, rules = self.groups[spot[1]], self.queue.fungibility
        best, grade, kept = "", WORST, {}
        last, reasons = len(group.flavors) - 1, []
        start = self.bounds.start.get(spot, -1) + 1
        for index in range(start, len(group.flavors)):
            flavor = group.flavors[index]
            if self.bounds.pins and self.bounds.pins.get(spot) != flavor:
                continue
            misfit = self._misfit(flavor, unit)
            if misfit is not None:
                reasons.append(misfit)
                continue
            here, modes, why = self._grade(spot[0], flavor, wanted)
            reasons += why
            is_last = not is_next_tried(here, rules)
            if is_last or is_better(here, grade, rules):
                best, grade, kept = flavor, here, modes
            if is_last:
                last = index
                break
        if grade.mode == Mode.NO_FIT:
            self.found.reasons = reasons
            return False
        if last < len(group.flavors) - 1:
            self.found.tried[spot] = last
        if grade.mode != Mode.FIT:
            self.found.reasons += [r for r in reasons if not _is_about_another(r, best)]
        self._keep(spot, best, kept, wanted)
        return True

    def _keep(
        self, spot: Spot, flavor: str, modes: dict[int, Grade], wanted: dict[str, int]
    ) -> None:
        found = self.found
        found.chosen[spot] = flavor
        for name, amount in wanted.items():
            pair = self._pair(flavor, name)
            assert pair is not None
            found.request[pair] = found.request.get(pair, 0) + amount
            found.distance = max(found.distance, modes[pair].distance)
            if modes[pair].mode != Mode.FIT:
                found.contested.add(pair)

    def _pair(self, flavor: str, resource: str) -> int | None:
        return self.desk.tree.pair_of.get((flavor, resource))

    def _grade(
        self, unit: int, flavor: str, wanted: dict[str, int]
    ) -> tuple[Grade, dict[int, Grade], list[Reason]]:
        """Return how good a flavor is, the grade of each pair, and why it is not the best."""
        worst, modes = BEST, {}
        reasons: list[Reason] = []
        rules = self.queue.fungibility
        for name, amount in wanted.items():
            pair = self._pair(flavor, name)
            if pair is None:
                reasons.append(OverQuota(self.queue.name, flavor, name, amount, 0, False))
                return WORST, {}, reasons
            need = self.found.request.get(pair, 0) + amount
            grade = self._grade_pair(pair, need)
            if grade.mode != Mode.FIT:
                left = max(0, self.scene.tally.available(self.own, pair))
                ever = need <= self.scene.tally.potential(self.own, pair)
                reasons.append(OverQuota(self.queue.name, flavor, name, need, left, ever))
            if is_better(worst, grade, rules):
                worst = grade
            if worst.mode == Mode.NO_FIT:
                return worst, {}, reasons
            modes[pair] = grade
        room = self.bounds.rooms.get((unit, flavor), Mode.FIT)
        if room < worst.mode:
            worst = Grade(room, worst.distance)
            modes = {pair: Grade(room, grade.distance) for pair, grade in modes.items()}
        return worst, modes, reasons

    def _grade_pair(self, pair: int, need: int) -> Grade:
        """Return what it takes to be charged so much of a pair."""
        tally = self.scene.tally
        if need > tally.potential(self.own, pair):
            return WORST
        distance, is_held_below = tally.distance(self.own, pair, need)
        if need <= tally.available(self.own, pair):
            return Grade(Mode.FIT, distance)
        in_quota = need <= tally.nominal(self.own, pair)
        if in_quota or is_held_below or self._may_preempt_while_borrowing():
            return self._foresee(pair, need)
        return Grade(Mode.NO_FIT, distance)

    def _may_preempt_while_borrowing(self) -> bool:
        may, _ = self.scene.borrowing_threshold(self.own)
        return may or (bool(self.scene.strategies) and self.scene.reclaim(self.own) != NEVER)

    def _foresee(self, pair: int, need: int) -> Grade:
        """Return whether others could be made to leave for one pair, and how far it borrows."""
        scene = self.scene
        targets = targets_for(scene, Need(self.entry, self.own, frozenset({pair}), {pair: need}))
        tally = scene.tally.copy()
        for target in targets:
            tally.add(target.runner.queue, target.runner.size, -1)
        distance, _ = tally.distance(self.own, pair, need)
        if not targets:
            return Grade(Mode.NO_CANDIDATES, distance)
        is_own = any(target.runner.cluster_queue == self.own for target in targets)
        return Grade(Mode.PREEMPT if is_own else Mode.RECLAIM, distance)

    # -- whether a flavor will do at all ----------------------------------------------------

    def _misfit(self, flavor: str, unit: Part) -> Reason | None:
        """Return why a flavor is out of the question for a unit."""
        facts = self.named.get(flavor, Flavor(flavor))
        for leaf in unit.leaves():
            assert leaf.demand is not None
            by = _excluded_by(facts, leaf.demand.shape, flavor not in self.named)
            if by:
                return Excluded(leaf.name, by, self._nodes_of(flavor))
        return None

    def _nodes_of(self, flavor: str) -> int:
        books = self.desk.books
        kinds = [i for i, kind in enumerate(books.kinds) if flavor in kind]
        return sum(int((books.present & (books.kind == kind)).sum()) for kind in kinds)


def _excluded_by(flavor: Flavor, shape: Shape, is_model: bool) -> str:
    """Return what of a shape keeps it off a flavor; nothing: empty."""
    if not tolerates(shape, flavor.taints, HARD_EFFECTS):
        return "taint"
    labels = dict(flavor.labels)
    if any(labels.get(key, value) != value for key, value in shape.selector):
        return "selector"
    terms = [[clause for clause in some if clause.key in labels] for some in shape.affinity]
    if not _any_term_holds(terms, labels):
        return "affinity"
    models = shape.gpu_models if shape.gpus and is_model and flavor.name else ()
    return "gpu-model" if models and flavor.name not in models else ""


def _any_term_holds(terms: list[list[Requirement]], labels: dict[str, str]) -> bool:
    """Return whether labels meet an affinity of which only the clauses about them are left."""
    if not terms or any(not some for some in terms):
        return True
    return any(all(is_met(clause, labels) for clause in some) for some in terms)


def _is_about_another(reason: Reason, flavor: str) -> bool:
    return not (isinstance(reason, OverQuota) and reason.flavor == flavor)
