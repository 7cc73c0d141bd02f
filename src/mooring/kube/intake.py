"""What is watched, and how it reaches the world: pods, nodes, budgets, and what pods belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.kube.kinds import KINDS
from mooring.kube.objects import Namespace, Node, Pod, PodDisruptionBudget, Unreadable
from mooring.kube.owners import named
from mooring.kube.resources import DISRUPTION_BUDGETS, NAMESPACES, NODES, PODS
from mooring.kube.watch import Replaced

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.kube.client import Client
    from mooring.kube.resources import Resource
    from mooring.kube.watch import Batch
    from mooring.kube.world import World


class Intake:
    """Applies batches of changes to a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[Resource, dict[str, Any]] = {}
        """Objects by uid, of each resource: what a new list leaves out is gone."""

    def take(self, batch: Batch[Any]) -> int:
        """Apply a batch; return how many changes that were."""
        if isinstance(batch, Replaced):
            return self._replace(batch.kind, batch.objects)
        for change in batch:
            if change.verb == "put":
                self._put(change.kind, change.object)
            else:
                self._drop(change.kind, change.object)
        return len(batch)

    def look_at(self, pod: Pod) -> None:
        """Take in a pod that was read by its name, unless it is known to be gone.

        The look may be older than what the watch says, and nobody would say again that it is gone.
        """
        if pod.metadata.uid in self._known.get(PODS, {}):
            self._world.put_pod(pod)

    def _replace(self, kind: Resource, objects: Iterable[Any]) -> int:
        known = self._known.setdefault(kind, {})
        there = {each.metadata.uid: each for each in objects}
        gone = [uid for uid in known if uid not in there]
        for uid in gone:
            self._drop(kind, known[uid])
        new = [each for uid, each in there.items() if not _is_same(known.get(uid), each)]
        for each in new:
            self._put(kind, each)
        return len(gone) + len(new)

    def _put(self, kind: Resource, given: Any) -> None:
        self._known.setdefault(kind, {})[given.metadata.uid] = given
        world = self._world
        found = given.rest if isinstance(given, Unreadable) else given
        match found:
            case Pod():
                world.put_pod(found, given.problems if isinstance(given, Unreadable) else ())
            case Node():
                world.estate.put(found)
            case PodDisruptionBudget():
                world.put_budget(found)
            case Namespace():
                world.put_namespace(found)
            case _:
                world.put_owner(named(found, kind))

    def _drop(self, kind: Resource, given: Any) -> None:
        self._known.get(kind, {}).pop(given.metadata.uid, None)
        world = self._world
        found = given.rest if isinstance(given, Unreadable) else given
        match found:
            case Pod():
                world.drop_pod(found)
            case Node():
                world.estate.drop(found.metadata.name)
            case PodDisruptionBudget():
                world.drop_budget(found)
            case Namespace():
                world.drop_namespace(found)
            case _:
                world.drop_owner(named(found, kind))


def _is_same(known: Any, given: Any) -> bool:
    """Return whether an object is as it was: its version says so."""
    version = given.metadata.resource_version
    return known is not None and bool(version) and known.metadata.resource_version == version


ALWAYS: tuple[tuple[Resource, type[Any]], ...] = (
    (NAMESPACES, Namespace),
    (NODES, Node),
    (PODS, Pod),
    (DISRUPTION_BUDGETS, PodDisruptionBudget),
)
"""What is watched on every server, whatever kinds of owners it has."""


async def kinds_of(client: Client) -> tuple[list[Resource], list[Resource]]:
    """Return the kinds of owners that have a row: those that the server has, and the others."""
    there = await client.discover()
    found: list[Resource] = []
    missing: list[Resource] = []
    for resource in (kind.resource for kind in KINDS if kind.resource.kind != "Pod"):
        versions = [each.version for each in there.get((resource.group, resource.plural), ())]
        (found if resource.version in versions else missing).append(resource)
    return found, missing
