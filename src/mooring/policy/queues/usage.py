"""What queues have used: noted cycle by cycle, as history that corrects shares and orders work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.policy.queues.history import SampledUsage, UsageHistory

if TYPE_CHECKING:
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
            sums: dict[tuple[str, str], float] = {}
            for queue, name in enumerate(tree.names):
                for column, (_, resource) in enumerate(tree.pairs):
                    sums[name, resource] = sums.get((name, resource), 0) + used[queue][column]
            self.sampled.advance(desk.now, sums)

    def table(self) -> list[list[float]]:
        """Return the part of each pair that each queue has used; it only changes now and then."""
        known, tree, now = self._known, self.desk.tree, self.desk.now
        if known is None or now >= known[0] + HISTORY_TICK_S or known[1] is not tree:
            known = self._known = (now, tree, self.history.table(now, tree))
        return known[2]

    def copy(self, desk: Desk) -> Usage:
        """Return the usage of a fork."""
        new = object.__new__(Usage)
        new.desk = desk
        new.history, new.sampled = self.history.copy(), self.sampled.copy()
        new._known = self._known
        return new
