"""The pairs of flavor and resource that queues are charged in, and what the cluster has of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mooring.model.books import BY_NODE
from mooring.model.queues import Quota
from mooring.model.resources import CPU, GPU, GPU_ROW, MEMORY
from mooring.policy.kueue.groups import groups_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.books import Books
    from mooring.model.queues import Queue, ResourceGroup
    from mooring.model.settings import Policy
    from mooring.policy.queues.tree import QueueTree

AUTOMATIC = (GPU,)
"""Resources that are shared fairly even where no queue says anything about them."""


def pairs_of(books: Books, policy: Policy, queues: Sequence[Queue]) -> list[tuple[str, str]]:
    """Return the flavors and resources whose use is kept: those that queues or a profile name."""
    named = [(quota.flavor, quota.resource) for queue in queues for quota in queue.quotas]
    if policy.profile == "kai":
        return list(dict.fromkeys([("", GPU), ("", CPU), ("", MEMORY), *named]))
    pairs = dict.fromkeys(named)
    if policy.profile == "default" and _adds_unlike(books, queues):
        del pairs["", GPU]
    if policy.profile == "default" and len(queues) > 1:
        for resource in AUTOMATIC:
            if not any(what == resource for _, what in pairs):
                kinds = [books.kinds[kind] for kind in books.kinds_there()]
                pairs.update(dict.fromkeys((kind[0], resource) for kind in kinds))
    return list(pairs)


def _adds_unlike(books: Books, queues: Sequence[Queue]) -> bool:
    """Return whether a pair of all models together would only add up what is unlike.

    That is so where it has neither quota nor bound, nor the models prices: then each is shared by
    itself, by what there is of it.
    """
    said = [quota for queue in queues for quota in queue.quotas if quota.resource == GPU]
    models = {books.kinds[kind][0] for kind in books.kinds_there()}
    if not said or len(models) < 2 or any(flavor.price != 1 for flavor in books.named_flavors):
        return False
    return all(quota == Quota(GPU) for quota in said)


def totals_of(books: Books, pairs: Sequence[tuple[str, str]], *, ready: bool = False) -> list[int]:
    """Return what the cluster has of every pair; perhaps only of nodes that are ready."""
    rows = books.present
    if ready:
        rows = rows & np.array([node.ready for node in books.nodes], np.bool_)
    price = {flavor.name: flavor.price for flavor in books.named_flavors}
    found = []
    for flavor, resource in pairs:
        if resource not in books.order:
            found.append(0)
            continue
        r = books.order.row(resource)
        each = books.capacity[r] * (1000 if r == GPU_ROW else 1)
        if flavor:
            kinds = [i for i, kind in enumerate(books.kinds) if flavor in kind]
            found.append(int(each[rows & np.isin(books.kind, kinds)].sum()))
        else:
            worth = np.array([price.get(kind[0], 1.0) for kind in books.kinds] or [1.0])
            factor = worth[books.kind] if r == GPU_ROW else 1.0
            found.append(int((each * factor)[rows].sum()))
    return found


def memory_of_kind(books: Books) -> dict[int, int]:
    """Return the least memory of a device by kind of node, and (`BY_NODE`) of all."""
    found: dict[int, int] = {}
    for row in np.flatnonzero(books.present).tolist():
        least = min((d.memory for d in books.nodes[row].devices if d.memory), default=0)
        for kind in (books.kind_of[row], BY_NODE) if least else ():
            found[kind] = min(found.get(kind, least), least)
    return found


def groups_for(tree: QueueTree, queue: int, profile: str) -> tuple[ResourceGroup, ...]:
    """Return the resource groups that hold for a queue: its own, or those of a queue above."""
    rules = [tree.queues[above] for above in tree.path[queue]]
    if profile == "kueue":
        return next((groups_in(each) for each in rules if not each.local), ())
    return next((each.groups for each in rules if each.groups), ())
