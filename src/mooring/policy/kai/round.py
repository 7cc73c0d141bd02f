"""One cycle as the rules of kai see it: the queues with their shares, and who is there.

Fair shares are divided once, at the beginning, by what is used and what waits then. What queues
use changes with every start and every eviction, on trial or not: that is read from the books.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from mooring.model.books import BY_NODE
from mooring.model.cluster import WHOLE
from mooring.model.demand import DeviceKind
from mooring.model.mig import GEOMETRIES
from mooring.model.resources import GPU
from mooring.model.workload import TaskState
from mooring.policy.kai.crew import Crew
from mooring.policy.queues.offers import gate
from mooring.policy.queues.quota import FIXED, LIMIT, Shortage
from mooring.policy.queues.share import add_up, allocatable_share, shares
from mooring.policy.queues.tree import NO_BOUND, NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mooring.model.demand import Demand
    from mooring.model.entry import Entry, Members
    from mooring.policy.desk import Desk
    from mooring.policy.kai.crew import Chosen
    from mooring.policy.queues.share import Rows

SHARED = 3
"""GPU, CPU and memory, in this order, are shared fairly; they are the first pairs of the tree."""
GPU_PAIR = 0
Size = list[int]
"""Amounts by pair."""


class Round:
    """Queues and crews of one cycle."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.books = desk.books
        self.tree = desk.tree
        self.width = len(desk.tree.pairs)
        self.is_out = _missing(desk)
        """Queues that do not exist, or hang on one that does not: nothing of theirs counts."""
        self.quota = self._quotas()
        self.limit = self.tree.limit
        self._crews: dict[str, Crew] = {}
        self.minimum_runs: dict[tuple[int, int], float] = {}
        """By the queue of one who reclaims and that of its victim: how long that must have run."""
        self.leaving: list[tuple[Entry, Members, int]] = []
        """Tasks on their way out."""
        for entry in desk.entries.values():
            for members in entry.members.values():
                if members.is_releasing:
                    self.note_leaving(entry, members)
        self.totals = desk.totals(ready=True)
        self.totals[0] += WHOLE * _mig_slices(desk)
        self.fair = self._fair_shares()
        self.allocatable = [
            [
                allocatable_share(limit, quota, share)
                for limit, quota, share in zip(*rows, strict=True)
            ]
            for rows in zip(self.limit, self.quota, self.fair, strict=True)
        ]
        self._largest = -1
        """The most memory that a device has; -1: nobody has asked yet."""
        self.wake: float | None = None
        """When a delay or a protection ends that stood in someone's way."""

    def crew(self, entry: Entry) -> Crew:
        """Return a workload of this cycle."""
        name = entry.workload.name
        crew = self._crews.get(name)
        if crew is None:
            levels = self.books.tree.level_of
            crew = self._crews[name] = Crew(entry, self.desk.priority(entry), levels)
            self._note_held(crew)
        return crew

    def _note_held(self, crew: Crew) -> None:
        """Let tasks that have a place to go to not wait for another."""
        hold = self.desk.holds.get(crew.name)
        for tasks, seats in hold.seats if hold is not None else ():
            group = seats.part.name
            waiting = {t for leaf in crew.leaves() if leaf.group == group for t in leaf.waiting}
            found = zip(tasks, seats.rows, strict=True)
            crew.sit({(group, task): row for task, row in found if task in waiting})

    def everyone(self) -> Iterator[Crew]:
        """Yield all workloads whose places are known and whose queue counts, in order of coming."""
        for entry in self.desk.entries.values():
            if not entry.charged_only and not self.is_out[entry.queue]:
                yield self.crew(entry)

    def note_leaving(self, entry: Entry, members: Members) -> None:
        """Note the tasks of a group that are on their way out."""
        self.leaving += [
            (entry, members, task)
            for task, state in enumerate(members.states)
            if state == TaskState.RELEASING
        ]

    def look_again(self, at: float) -> None:
        """Look again then, or earlier."""
        self.wake = at if self.wake is None else min(self.wake, at)

    # -- what queues have -------------------------------------------------------------------

    def _quotas(self) -> Rows:
        """Return the quotas; of all but devices everybody may have all, unless a queue names it."""
        tree = self.tree
        named = [
            resource == GPU or any(row[pair] for row in tree.names_pair)
            for pair, (_, resource) in enumerate(tree.pairs)
        ]
        return [
            [
                0 if out else amount if named[pair] else NO_BOUND
                for pair, amount in enumerate(tree.quota[queue])
            ]
            for queue, out in enumerate(self.is_out)
        ]

    def _fair_shares(self) -> Rows:
        desk, tree = self.desk, copy(self.tree)
        tree.quota = self.quota
        pending = [[0] * self.width for _ in tree.names]
        for entry in desk.entries.values():
            counts = not entry.charged_only and not self.is_out[entry.queue]
            wants = counts and any(members.spare > 0 for members in entry.members.values())
            if not wants or gate(desk, entry):
                continue
            crew = self.crew(entry)
            row = pending[crew.queue]
            waiting = [(leaf, leaf.waiting) for leaf in crew.leaves() if leaf.waiting]
            for pair, amount in enumerate(self.request(crew, waiting) if waiting else ()):
                row[pair] += amount
        wanted = add_up(tree, pending)
        used = self.books.usage_of
        requests = [
            [0 if out else used[queue][pair] + wanted[queue][pair] for pair in range(self.width)]
            for queue, out in enumerate(self.is_out)
        ]
        k = desk.policy.fairness.history_weight
        history = desk.usage.table() if k else None
        return shares(tree, self.totals, requests, history, k)

    def request(self, crew: Crew, chosen: Chosen) -> Size:
        """Return what tasks that wait would be charged."""
        size = [0] * self.width
        account = crew.entry.account
        for leaf, tasks in chosen:
            demand = crew.members(leaf).demand
            for pair, amount in self.books.bill(demand, account, BY_NODE):
                size[pair] += amount * len(tasks)
        return size

    def charged(self, crew: Crew, tasks: Iterable[tuple[str, int]]) -> Size:
        """Return what tasks that have a place are charged."""
        size = [0] * self.width
        for pair, amount in self.desk.size(crew.entry, list(tasks)).items():
            size[pair] += amount
        return size

    def used(self, queue: int) -> Size:
        """Return what a queue uses, with all below it."""
        row = self.books.usage_of[queue]
        return [row[pair] for pair in range(self.width)]

    def is_leaf(self, queue: int) -> bool:
        """Return whether work may be in a queue."""
        return self.tree.is_leaf(queue)

    # -- may it be charged ------------------------------------------------------------------

    def shortage(self, crew: Crew, chosen: Chosen) -> Shortage | None:
        """Return what stands against charging a crew: a limit, or quota if it is not to leave."""
        used, size = self.books.usage_of, self.request(crew, chosen)
        for node in self.tree.path[crew.queue]:
            for pair, amount in enumerate(self._least(crew, chosen, size)):
                limit = self.limit[node][pair]
                if amount and used[node][pair] + amount > limit:
                    left = max(0, limit - used[node][pair])
                    return Shortage(node, pair, amount, left, LIMIT)
        return self.fixed_shortage(crew, size)

    def _least(self, crew: Crew, chosen: Chosen, size: Size) -> Size:
        """Return what tasks that ask for memory of devices would be charged on the largest.

        Limits go by that: they keep nobody out who could be within them.
        """
        least = size[:]
        for leaf, tasks in chosen:
            demand = crew.members(leaf).demand
            if demand.kind is DeviceKind.MEMORY:
                least[GPU_PAIR] -= len(tasks) * self._excess(demand, crew.entry.account)
        return least

    def _excess(self, demand: Demand, account: int) -> int:
        """Return how much more memory is as a part of the smallest device than of the largest."""
        if self._largest < 0:
            nodes = [node for i, node in enumerate(self.books.nodes) if self.books.present[i]]
            self._largest = max((d.memory for node in nodes for d in node.devices), default=0)
        if not self._largest:
            return 0
        charged = dict(self.books.bill(demand, account, BY_NODE)).get(GPU_PAIR, 0)
        part = -(-demand.shape.gpu_memory * 100 // self._largest) * (WHOLE // 100)
        return max(0, charged - demand.shape.gpus * min(WHOLE, part))

    def fixed_shortage(self, crew: Crew, size: Size) -> Shortage | None:
        """Return whose quota cannot take work that is not to leave."""
        if not crew.entry.is_fixed:
            return None
        fixed = self.books.fixed_of
        for node in self.tree.path[crew.queue]:
            for pair, amount in enumerate(size):
                quota = self.quota[node][pair]
                if amount and fixed[node][pair] + amount > quota:
                    left = max(0, quota - fixed[node][pair])
                    return Shortage(node, pair, amount, left, FIXED)
        return None

    def within_quota(self, queue: int, used: Size, more: Size | None = None) -> bool:
        """Return whether a queue is, with more, within its quota in all that is shared."""
        quota = self.quota[queue]
        return all(
            used[pair] + (more[pair] if more else 0) <= quota[pair] for pair in range(SHARED)
        )

    def within_share(self, queue: int, used: Size) -> bool:
        """Return whether a queue has no more than what reclaim leaves it, in all that is shared."""
        most = self.allocatable[queue]
        return all(used[pair] <= most[pair] for pair in range(SHARED))


def _mig_slices(desk: Desk) -> int:
    """Return the compute slices of all devices that are cut into instances."""
    books = desk.books
    slices = [
        sum(GEOMETRIES[device[-1]].compute for device in layout if device[-1] in GEOMETRIES)
        for layout in books.layouts
    ]
    if not any(slices):
        return 0
    ready = (row for row, node in enumerate(books.nodes) if books.present[row] and node.ready)
    return sum(slices[books.layout_of[row]] for row in ready)


def _missing(desk: Desk) -> list[bool]:
    tree = desk.tree
    orphan = [
        not tree.exists[queue] or bool(rules.parent and tree.parent[queue] == NOBODY)
        for queue, rules in enumerate(tree.queues)
    ]
    return [any(orphan[above] for above in path) for path in tree.path]
