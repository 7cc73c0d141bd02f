"""A live cluster as a scenario: everything is read once, and nothing is written."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from mooring.kube.adopt import refusal
from mooring.kube.driver import engine_of, start_of
from mooring.kube.intake import ALWAYS, Intake, kinds_of
from mooring.kube.kin import Owners
from mooring.kube.owners import Owner
from mooring.kube.store import Place, Store
from mooring.kube.watch import Replaced
from mooring.kube.world import World

if TYPE_CHECKING:
    from mooring.config import PolicyFile
    from mooring.kube.client import Client
    from mooring.kube.resources import Resource
    from mooring.model.scenario import Scenario


async def take_snapshot(
    client: Client, file: PolicyFile, place: Place, scheduler: str
) -> tuple[Scenario, list[str]]:
    """Return the cluster as it is, as the scheduler sees it, and what could not be understood."""
    found, _ = await kinds_of(client)
    owners = Owners({(each.group, each.kind) for each in found})
    world = World(file.topology, owners, scheduler)
    intake = Intake(world)
    kinds: list[tuple[Resource, type[Any]]] = [*ALWAYS, *((each, Owner) for each in found)]
    for resource, kind in kinds:
        listing: Any = await client.list(resource, kind)
        intake.take(Replaced(resource, listing.objects))
    memory = await Store(client, place).peek()
    now = time.time()
    engine = engine_of(start_of(file, memory, now))
    world.begin()
    world.refusal = partial(refusal, {queue.name: queue for queue in engine.queues})
    world.settle(now, engine.entries(), engine.observe)
    wrong = [f"{name}: {'; '.join(lines)}" for name, lines in world.take_news()]
    wrong += [f"node {name}: {each}" for name, each in world.estate.problems.items()]
    return engine.snapshot(now), [*wrong, *world.errors]
