"""Who must leave where shares are compared (fair sharing), and who goes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.policy.kueue.classical import PREEMPT, QUOTA, fill_back
from mooring.policy.kueue.scene import NEVER, Need, Runner, Scene, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.policy.queues.share import DominantShare

FAIR_SHARE = "fair-share"
FINAL = "final-share"


def fair_targets(scene: Scene, need: Need) -> list[Target]:
    """Return who must leave for a need; nobody: it cannot be met."""
    return _Fair(scene, need).run()


class _Fair:
    """One search. Its tally includes the request of the one who asks."""

    def __init__(self, scene: Scene, need: Need) -> None:
        self.scene = scene
        self.need = need
        self.own = need.cluster_queue
        self.tree = scene.cohorts.tree
        self.tally = scene.tally.copy()
        self.tally.add(self.own, need.request)
        self.taken: list[Target] = []

    def run(self) -> list[Target]:
        pool = self.scene.in_order(self._candidates(), self.own)
        if not pool:
            return []
        rejected: list[Runner] = []
        met = self._first(pool, rejected)
        if not met and len(self.scene.strategies) > 1:
            met = self._second(rejected)
        if not met:
            return []
        self.tally.add(self.own, self.need.request, -1)
        return fill_back(self.need, self.tally, self.taken, borrowing=True)

    def _candidates(self) -> Iterator[Runner]:
        scene, entry, contested = self.scene, self.need.entry, self.need.contested
        policy = scene.within_queue(self.own)
        for runner in scene.runners(self.own) if policy != NEVER else ():
            if runner.uses(contested) and scene.may_ask(entry, runner, policy):
                yield runner
        policy, root = scene.reclaim(self.own), scene.cohorts.root[self.own]
        if policy == NEVER or not scene.cohorts.has_parent(self.own):
            return
        for queue in range(self.tree.count):
            if queue == self.own or scene.cohorts.root[queue] != root:
                continue
            if scene.tally.is_within(queue, contested):
                continue
            for runner in scene.runners(queue):
                if runner.uses(contested) and scene.may_ask(entry, runner, policy):
                    yield runner

    # -- strategies -------------------------------------------------------------------------

    def _first(self, pool: list[Runner], rejected: list[Runner]) -> bool:
        """Let leave, queue by queue, whom the first strategy finds; say whether that will do."""
        is_entitled = self.tally.is_within(self.own, self.need.contested)
        order = _Order(self, pool)
        while (queue := order.next()) is not None:
            waiting = order.pools[queue]
            if queue == self.own or is_entitled:
                if self._leave(waiting.pop(0), PREEMPT if queue == self.own else QUOTA):
                    return True
                continue
            mine, theirs = self._shares(queue)
            while waiting:
                runner = waiting.pop(0)
                if not self._passes(mine, theirs, runner):
                    rejected.append(runner)
                elif self._leave(runner, FAIR_SHARE):
                    return True
                else:
                    break  # shares have changed: perhaps it is another queue's turn
        return False

    def _second(self, rejected: list[Runner]) -> bool:
        """Let the first of each queue leave whose share was larger to begin with."""
        order = _Order(self, rejected)
        while (queue := order.next()) is not None:
            mine, theirs = self._shares(queue)
            runner = order.pools[queue].pop(0)
            if mine < theirs and self._leave(runner, FAIR_SHARE):
                return True
            order.done.add(queue)
        return False

    def _passes(self, mine: DominantShare, theirs: DominantShare, runner: Runner) -> bool:
        """Return whether the first strategy lets one leave."""
        if self.scene.strategies[0] != FINAL:
            return mine < theirs
        self.tally.add(runner.queue, runner.size, -1)
        after = self._shares(runner.cluster_queue)[1]
        self.tally.add(runner.queue, runner.size)
        return mine <= after

    def _shares(self, queue: int) -> tuple[DominantShare, DominantShare]:
        """Return the shares of both sides, right below the first cohort around both."""
        mine, theirs = self.tree.common(self.own, queue)
        return self.tally.share(mine), self.tally.share(theirs)

    def _leave(self, runner: Runner, cause: str) -> bool:
        """Let one leave; return whether the need is met then."""
        self.tally.add(runner.queue, runner.size, -1)
        self.taken.append(Target(runner, cause))
        self.tally.add(self.own, self.need.request, -1)
        met = self.need.is_met(self.tally, [target.runner for target in self.taken])
        self.tally.add(self.own, self.need.request)
        return met


class _Order:
    """Which queue is asked next: down from the root, always to the largest share."""

    def __init__(self, search: _Fair, pool: list[Runner]) -> None:
        self.search = search
        self.cohorts = search.scene.cohorts
        self.pools: dict[int, list[Runner]] = {}
        for runner in pool:
            self.pools.setdefault(runner.cluster_queue, []).append(runner)
        self.done: set[int] = set()
        """Queues and cohorts that have nobody left to ask."""

    def next(self) -> int | None:
        """Return the next queue; None: there is none any more."""
        own = self.search.own
        if not self.cohorts.has_parent(own):
            return own if self.pools.get(own) else None
        root = self.cohorts.root[own]
        while root not in self.done:
            queue = self._below(root)
            if queue is not None:
                return queue
        return None

    def _below(self, cohort: int) -> int | None:
        queues, cohorts = [], []
        for child in self.cohorts.children[cohort]:
            if child in self.done:
                continue
            share = self.search.tally.share(child)
            if not self._is_worth_a_look(child, share):
                self.done.add(child)
            elif self.cohorts.is_cohort(child):
                cohorts.append((share, child))
            else:
                queues.append((share, child))
        if not queues and not cohorts:
            self.done.add(cohort)
            return None
        largest_cohort = max(cohorts, default=None)
        largest_queue = max(queues, key=lambda each: each[0], default=None)
        if largest_cohort and (largest_queue is None or largest_cohort[0] >= largest_queue[0]):
            return self._below(largest_cohort[1])
        assert largest_queue is not None
        return self._first_of([q for share, q in queues if share == largest_queue[0]])

    def _is_worth_a_look(self, child: int, share: DominantShare) -> bool:
        own = self.search.own
        if self.cohorts.is_cohort(child):
            return bool(share.borrows) or child in self.cohorts.above(own)
        return bool(self.pools.get(child)) and (bool(share.borrows) or child == own)

    def _first_of(self, queues: list[int]) -> int:
        """Return, of queues with equal shares, the one whose first candidate would leave first."""
        heads = {self.pools[queue][0]: queue for queue in queues}
        return heads[self.search.scene.in_order(heads, self.search.own)[0]]
