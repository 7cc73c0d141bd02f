"""What queues have used: noted cycle by cycle, as history that corrects shares and orders work."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from mooring.policy.queues.history import SampledUsage, UsageHistory, slot_at
from mooring.policy.queues.tree import NOBODY

if TYPE_CHECKING:
    from mooring.model.entry import Entry
    from mooring.model.memory import Memory
    from mooring.policy.desk import Desk
    from mooring.policy.queues.tree import QueueTree

HISTORY_TICK_S = 900.0
"""How often history changes shares: no faster than work may be evicted for it."""


class Usage:
    """The history of the queues of one desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        fairness = desk.policy.fairness
        self.history = UsageHistory(fairness.window_s, fairness.half_life_s)
        self.sampled = SampledUsage(fairness.usage_sampling_s, fairness.usage_half_life_s)
        self._known: tuple[float, QueueTree, list[list[float]]] | None = None
        """When the table was last made, by which queues, and the table."""

    def load(self, memory: Memory) -> None:
        """Take in what was used in an earlier life."""
        self.history.load(memory)
        self.sampled.load(memory)

    def dump(self, memory: Memory) -> Memory:
        """Return a memory with the history in it."""
        return self.sampled.dump(self.history.dump(memory))

    def retune(self) -> None:
        """Go by the settings of now; what was used is not forgotten."""
        fairness, now = self.desk.policy.fairness, self.desk.now
        by = fairness.window_s, fairness.half_life_s
        if by != (self.history.window_s, self.history.half_life_s):
            self.history, self._known = self.history.retuned(*by), None
        faded = fairness.usage_sampling_s, fairness.usage_half_life_s
        if faded != (self.sampled.sampling_s, self.sampled.half_life_s):
            self.sampled = self.sampled.retuned(now, *faded)

    def note(self) -> None:
        """Let history know what is used from now on."""
        desk, tree, used = self.desk, self.desk.tree, self.desk.books.usage_of
        if desk.policy.fairness.history_weight:
            usage = {
                (name, *pair): used[queue][column]
                for queue, name in enumerate(tree.names)
                for column, pair in enumerate(tree.pairs)
                if used[queue][column]
            }
            capacity = dict(zip(tree.pairs, desk.totals(ready=True), strict=True))
            self.history.advance(desk.now, usage, capacity)
        if desk.by_usage:
            if desk.policy.profile == "default":
                self.settle()
            sums: dict[tuple[str, str], float] = {}
            for queue, name in enumerate(tree.names):
                for column, (_, resource) in enumerate(tree.pairs):
                    sums[name, resource] = sums.get((name, resource), 0) + used[queue][column]
            self.sampled.advance(desk.now, sums)

    # -- the queues below one with `by_usage` ------------------------------------------------

    def faded(self, queue: int) -> float:
        """Return what counts against those of a queue in line: what it has used, faded by time.

        It is of the queue right below the nearest one whose queues stand in line by what they have
        used; 0: there is no such. Every resource is measured by what there is of it.
        """
        below = self._below(queue) if self.desk.by_usage else NOBODY
        if below == NOBODY:
            return 0.0
        desk, rules = self.desk, self.desk.tree.queues[below]
        weights = dict(desk.policy.fairness.usage_weights)
        return self.sampled.usage(desk.now, rules.name, rules.weight, weights, self._capacity())

    def _below(self, queue: int) -> int:
        tree = self.desk.tree
        while (above := tree.parent[queue]) != NOBODY:
            if tree.queues[above].by_usage:
                return queue
            queue = above
        return NOBODY

    def _capacity(self) -> dict[str, float]:
        """Return what there is of every resource that is counted."""
        sums: dict[str, float] = {}
        for (_, resource), amount in zip(self.desk.tree.pairs, self.desk.totals(), strict=True):
            sums[resource] = sums.get(resource, 0.0) + amount
        return sums

    def enter(self, entry: Entry) -> None:
        """Let one that starts now count at once: the next of its queue stands behind others."""
        below = self._below(entry.queue)
        if below == NOBODY:
            return
        sums: dict[str, float] = {}
        for pair, amount in self.desk.size(entry).items():
            resource = self.desk.tree.pairs[pair][1]
            sums[resource] = sums.get(resource, 0.0) + amount
        self.sampled.enter(entry.workload.name, self.desk.tree.names[below], sums)

    def settle(self) -> None:
        """Make what was counted beforehand history, once a sample has been taken since."""
        desk, width = self.desk, self.sampled.sampling_s
        sample = slot_at(desk.now, width)
        for name in self.sampled.entered():
            entry = desk.entries.get(name)
            started = None if entry is None else entry.started_at
            if started is None or slot_at(started, width) < sample:
                self.sampled.settle(desk.now, name)

    def table(self) -> list[list[float]]:
        """Return the part of each pair that each queue has used; it only changes now and then."""
        known, tree, now = self._known, self.desk.tree, self.desk.now
        if known is None or now >= self.wake_at or known[1] is not tree:
            known = self._known = (now, tree, self.history.table(now, tree))
        return known[2]

    def next_look(self) -> float:
        """Return when shares should be looked at again for what has been decided by now."""
        self.note()
        self.table()
        return self.wake_at

    @property
    def wake_at(self) -> float:
        """Return when history next changes shares; infinite: it does not, if nothing happens."""
        known = self._known
        if known is None or known[0] >= self.history.settled_at:
            return inf
        return known[0] + HISTORY_TICK_S

    def tick(self) -> None:
        """Let history change shares if it is time: some may displace others whom they could not."""
        known = self._known
        if known is None or self.desk.now < self.wake_at:
            return
        if self.table() != known[2]:
            self.desk.version += 1

    def copy(self, desk: Desk) -> Usage:
        """Return the usage of a fork."""
        new = object.__new__(Usage)
        new.desk = desk
        new.history, new.sampled = self.history.copy(), self.sampled.copy()
        new._known = self._known
        return new
