"""Where running work stands by quota and share alone, for profiles that keep no line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mooring.policy.standing.roll import split

if TYPE_CHECKING:
    from mooring.model.entry import Entry
    from mooring.policy.desk import Desk
    from mooring.policy.victims.evict import Tasks

Rows = Sequence[Sequence[int]]
Risks = dict[str, tuple[str, ...]]
"""By workload: where its minimum stands, and each unit above it."""


def risks_in_order(desk: Desk, quota: Rows, shares: Rows | None = None) -> Risks:
    """Return where all who run stand: `covered` by quota, `in share`, or `beyond`.

    Who has the higher priority, or started first, has the quota of a queue first; units above a
    minimum come after all minima. Without shares all that is not covered is beyond.
    """
    items: list[tuple[tuple[int, int, int], Entry, Tasks]] = []
    for entry in desk.running():
        minimum, units = split(desk, entry)
        for unit, tasks in enumerate([minimum, *units] if minimum else []):
            items.append(((unit, -desk.priority(entry), entry.start_number), entry, tasks))
    used = [[0] * len(desk.tree.pairs) for _ in desk.tree.names]
    found: Risks = {}
    for _, entry, tasks in sorted(items, key=lambda item: item[0]):
        home, size = _home(desk, entry.queue), desk.size(entry, tasks)
        for pair, amount in size.items():
            for queue in desk.tree.path[home]:
                used[queue][pair] += amount
        some = [pair for pair, amount in size.items() if amount]
        word = "beyond"
        if all(used[home][pair] <= quota[home][pair] for pair in some):
            word = "covered"
        elif shares is not None:
            path = desk.tree.path[home]
            if all(used[queue][pair] <= shares[queue][pair] for queue in path for pair in some):
                word = "in share"
        name = entry.workload.name
        found[name] = (*found.get(name, ()), word)
    return found


def _home(desk: Desk, queue: int) -> int:
    """Return the queue whose quota one in a queue has: a local queue has none."""
    tree = desk.tree
    while tree.queues[queue].local and tree.parent[queue] >= 0:
        queue = tree.parent[queue]
    return queue
