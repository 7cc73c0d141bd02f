"""Resource groups of a queue that names none: as its quotas hang together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.model.queues import ResourceGroup

if TYPE_CHECKING:
    from mooring.model.queues import Queue


def groups_in(queue: Queue) -> tuple[ResourceGroup, ...]:
    """Return the resource groups of a queue; resources that share a flavor are in one group."""
    if queue.groups:
        return queue.groups
    found: list[tuple[dict[str, None], dict[str, None]]] = []
    for quota in queue.quotas:
        near = [g for g in found if quota.resource in g[0] or quota.flavor in g[1]]
        resources, flavors = near[0] if near else ({}, {})
        for more_resources, more_flavors in near[1:]:
            resources.update(more_resources)
            flavors.update(more_flavors)
        resources[quota.resource] = None
        flavors[quota.flavor] = None
        found = [g for g in found if not any(g is other for other in near[1:])]
        if not near:
            found.append((resources, flavors))
    return tuple(ResourceGroup(tuple(resources), tuple(flavors)) for resources, flavors in found)
