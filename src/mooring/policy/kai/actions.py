"""Who may make others leave, whom, and what sets of victims are legal: one class for each action.

consolidation   all victims find another place: a move, for one that waits and may be moved
reclaim         from other queues, as fair shares and quotas allow
preempt         from its own queue, by priority
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.model.demand import DeviceKind
from mooring.policy.kai.order import Line, in_lanes
from mooring.policy.kai.protect import safe_from_preemption, safe_from_reclaim
from mooring.policy.kai.round import SHARED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mooring.policy.kai.crew import Crew, Tasks
    from mooring.policy.kai.round import Round, Size
    from mooring.policy.kai.solver import Trial

FAIR_SHARE, QUOTA, PREEMPT, MOVE = "fair-share", "quota", "preempt", "move"


def _victims(round_: Round, crew: Crew) -> Iterator[Crew]:
    """Yield all that could be made to leave for a crew, as far as they themselves go."""
    holds = round_.desk.holds
    for other in round_.everyone():
        workload = other.entry.workload
        may_leave = workload.preemptible or workload.semi_preemptible
        if may_leave and other is not crew and other.is_active and other.name not in holds:
            yield other


def _keeps_minimum(trial: Trial, is_safe: Callable[[Crew], bool]) -> bool:
    """Return whether elastic victims that are safe for now lose only what they do not need."""
    tasks: dict[Crew, Tasks] = {}
    for chunk in trial.victims:
        tasks.setdefault(chunk.crew, []).extend(chunk.tasks)
    for victim, some in tasks.items():
        if not victim.is_elastic or not is_safe(victim):
            continue
        if not _as_it_was(victim, some).root.is_met:
            return False
    return True


def _as_it_was(victim: Crew, without: Tasks) -> Crew:
    """Return a victim as it was before the trial, less some tasks."""
    twin = victim.without(())
    for leaf in twin.leaves():
        members = twin.members(leaf)
        placed = {task for task in members.staying() if (leaf.group, task) not in without}
        leaf.active = sorted(placed.intersection([*leaf.active, *leaf.waiting]))
    return twin


class Consolidation:
    """Moves others, so that the room that is left lies together."""

    cause = MOVE

    def __init__(self, round_: Round, crew: Crew) -> None:
        self.round = round_
        self.crew = crew

    def may(self) -> bool:
        """Return whether a crew may have others moved, and whether that could help at all."""
        if not self.crew.entry.workload.preemptible:
            return False
        demands = [
            (self.crew.members(leaf).demand, len(tasks)) for leaf, tasks in self.crew.wanted()
        ]
        kinds = (DeviceKind.WHOLE, DeviceKind.SHARED)
        free = int(self.round.books.share.sum())  # what is held of leaving ones is less than zero
        for _, members, _ in self.round.leaving:
            free += members.demand.weight - 1
        asked = sum((demand.weight - 1) * n for demand, n in demands if demand.kind in kinds)
        return asked <= free

    def candidates(self) -> list[Crew]:
        """Return those who could be moved: the first to leave, one more than the policy names."""
        every = [
            other for other in _victims(self.round, self.crew) if other.entry.workload.preemptible
        ]
        most = self.round.desk.policy.eviction.movers
        if most < 0 or len(every) <= most + 1:
            return every
        line = Line(self.round, in_lanes(every, reverse=True), reverse=True)
        return [line.pop() for _ in range(most + 1)]

    def is_legal(self, trial: Trial) -> bool:
        """Return whether everybody has found another place."""
        return not trial.leaving


class Preempt:
    """Takes from lower priorities of the same queue."""

    cause = PREEMPT

    def __init__(self, round_: Round, crew: Crew) -> None:
        self.round = round_
        self.crew = crew

    def may(self) -> bool:
        """Return whether its quota can take a crew that is not to leave."""
        crew, round_ = self.crew, self.round
        return round_.fixed_shortage(crew, round_.request(crew, crew.wanted())) is None

    def candidates(self) -> list[Crew]:
        """Return those of lower priority."""
        crew, found = self.crew, []
        for other in _victims(self.round, crew):
            if other.queue != crew.queue or other.priority >= crew.priority:
                continue
            until = safe_from_preemption(self.round, other)
            if until is not None:
                self.round.look_again(until)
            if until is None or other.is_elastic:
                found.append(other)
        return found

    def is_legal(self, trial: Trial) -> bool:
        """Return whether those who have not run long enough keep their minimum."""
        return _keeps_minimum(
            trial, lambda victim: safe_from_preemption(self.round, victim) is not None
        )


class Reclaim:
    """Takes from other queues what is beyond their share, or beyond their quota for one below."""

    cause = FAIR_SHARE

    def __init__(self, round_: Round, crew: Crew) -> None:
        self.round = round_
        self.crew = crew
        usage, fixed = round_.books.usage, round_.books.fixed
        self._used: list[Size] = usage.tolist()
        self._fixed: list[Size] = fixed.tolist()
        self._open: dict[int, bool] = {}

    def may(self) -> bool:
        """Return whether a crew stays within the fair share of its queue, or within its quota."""
        round_, queue = self.round, self.crew.queue
        size = round_.request(self.crew, self.crew.wanted())
        fair, used = round_.fair[queue], self._used[queue]
        if any(used[pair] + size[pair] > fair[pair] for pair in range(SHARED)):
            return False
        if not self.crew.entry.is_fixed:
            return True
        return round_.within_quota(queue, self._fixed[queue], size)

    def candidates(self) -> list[Crew]:
        """Return those whose queue has more than it may keep against this one."""
        crew, round_, found = self.crew, self.round, []
        size = round_.request(crew, crew.wanted())
        for other in _victims(round_, crew):
            queue = other.queue
            if queue == crew.queue:
                continue
            if queue not in self._open:
                self._open[queue] = self._is_open(queue, size)
            if not self._open[queue]:
                continue
            until = safe_from_reclaim(round_, crew, other)
            if until is not None:
                round_.look_again(until)
            if until is None or other.is_elastic:
                found.append(other)
        return found

    def _is_open(self, victim: int, size: Size) -> bool:
        """Return whether the queue of a victim could have to give anything."""
        round_ = self.round
        mine, theirs = round_.tree.common(self.crew.queue, victim)
        used, quota = self._used[theirs], round_.quota[theirs]
        if not round_.within_quota(mine, self._used[mine], size):
            return not round_.within_share(theirs, used)
        asked = [pair for pair in range(SHARED) if size[pair] > 0]
        if any(used[pair] > quota[pair] for pair in asked):
            return True
        return not any(used[pair] < quota[pair] for pair in asked if not _is_boundless(quota[pair]))

    # -- after the trial --------------------------------------------------------------------

    def is_legal(self, trial: Trial) -> bool:
        """Return whether the queues of the victims may lose what they would lose."""
        if not _keeps_minimum(
            trial,
            lambda victim: safe_from_reclaim(self.round, self.crew, victim) is not None,
        ):
            return False
        left: dict[int, Size] = {}
        involved: dict[int, set[int]] = {}
        for victim, tasks in self._chunks(trial):
            size = self.round.charged(victim, tasks)
            cause = self._cause(victim.queue, trial.size, left)
            if not cause:
                return False
            trial.causes.update(dict.fromkeys(((victim.name, *task) for task in tasks), cause))
            for queue in self.round.tree.path[victim.queue]:
                rest = left.setdefault(queue, self._used[queue][:])
                left[queue] = [a - b for a, b in zip(rest, size, strict=True)]
                pairs = involved.setdefault(queue, set())
                pairs.update(pair for pair in range(SHARED) if size[pair] > 0)
        return self._is_in_bounds(trial.size, left, involved)

    def _chunks(self, trial: Trial) -> Iterator[tuple[Crew, Tasks]]:
        """Yield what leaves, bit by bit: tasks above a minimum one by one, then the rest."""
        going = {(chunk.crew.name, *task) for chunk in trial.leaving for task in chunk.tasks}
        victims: dict[Crew, Tasks] = {}
        for chunk in trial.victims:
            victims.setdefault(chunk.crew, []).extend(chunk.tasks)
        for victim, every in victims.items():
            core: Tasks = []
            spare: Tasks = []
            for leaf in victim.leaves():
                known = {*leaf.active, *leaf.waiting}
                some = [task for task in every if task[0] == leaf.group and task[1] in known]
                core += some[: leaf.needed]
                spare += some[leaf.needed :]
            bits = [*([task] for task in spare), core]
            for some in bits:
                tasks = [task for task in some if (victim.name, *task) in going]
                if tasks:
                    yield victim, tasks

    def _cause(self, victim: int, size: Size, left: dict[int, Size]) -> str:
        """Return by which rule a queue may lose the next bit; empty: by none."""
        round_ = self.round
        mine, theirs = round_.tree.common(self.crew.queue, victim)
        rest = left.get(theirs, self._used[theirs])
        is_covered = round_.within_quota(mine, self._used[mine], size)
        if is_covered and not round_.within_quota(theirs, rest):
            return QUOTA
        return "" if round_.within_share(theirs, rest) else FAIR_SHARE

    def _is_in_bounds(
        self, size: Size, left: dict[int, Size], involved: dict[int, set[int]]
    ) -> bool:
        """Return whether no queue of the crew ends up fuller, for its share, than one it took from.

        One that is not to leave stays within quota everywhere, besides.
        """
        round_, tree = self.round, self.round.tree
        asked = {pair for pair in range(SHARED) if size[pair] > 0}
        for queue in tree.path[self.crew.queue]:
            rest = left.get(queue, self._used[queue])
            after = [a + b for a, b in zip(rest, size, strict=True)]
            for sibling, remaining in left.items():
                if sibling == queue or tree.parent[sibling] != tree.parent[queue]:
                    continue
                pairs = asked | involved[sibling]
                if any(self._is_fuller(queue, after, sibling, remaining, p) for p in pairs):
                    return False
            is_fixed = self.crew.entry.is_fixed
            if is_fixed and not round_.within_quota(queue, self._fixed[queue], size):
                return False
        return True

    # wide: two queues, what they would use, and of what
    def _is_fuller(self, queue: int, used: Size, sibling: int, remaining: Size, pair: int) -> bool:
        """Return whether a queue above its fair share would be as full as a sibling, or fuller."""
        mine = _saturation(used[pair], self.round.fair[queue][pair])
        share = self.round.fair[sibling][pair]
        factor = max(1.0, self.round.desk.policy.eviction.saturation)
        return mine > 1 and share > 0 and mine * factor >= _saturation(remaining[pair], share)


def _saturation(used: int, share: int) -> float:
    if share:
        return used / share
    return float("inf") if used > 0 else 0.0


def _is_boundless(amount: int) -> bool:
    return amount >= 1 << 60
