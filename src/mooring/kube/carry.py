"""Carries a plan out: bindings, evictions, nominations. What came of each is a fact for the loop.

A bind whose answer was lost is looked up before anything else is done with its pod. A task whose
pod does not exist yet keeps its place for a while: its controller is about to make it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mooring.kube.devices import devices_text
from mooring.kube.errors import ApiError, NotLeader, Unanswered, Unreachable
from mooring.kube.log import fields
from mooring.kube.names import DEVICES
from mooring.kube.objects import Pod
from mooring.kube.resources import PODS
from mooring.model.events import BindRefused, TasksChanged
from mooring.model.plan import Bind, Evict, Reserve
from mooring.model.workload import TaskState

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from mooring.kube.client import Client
    from mooring.kube.world import World
    from mooring.model.entry import Entry
    from mooring.model.events import Event
    from mooring.model.plan import Plan, Spot

WORKERS = 64
"""Requests under way at once; more buys nothing."""
POD_COMES_S = 30.0
"""So long a task keeps its place while its pod does not exist."""
REFUSED_S = 60.0
"""So long a workload is left in peace after its eviction was refused."""
TRIES = 5
_LOG = logging.getLogger(__name__)


class Loop(Protocol):
    """Who is told what came of it."""

    def fact(self, event: Event) -> None:
        """Take a fact for the engine."""

    def seen(self, pod: Pod) -> None:
        """Take a pod as it is now."""

    def gone(self, pod: Pod) -> None:
        """Take that a pod is gone."""

    def bound(self, pod: Pod) -> None:
        """Take that a pod was bound."""

    def stop(self, why: str) -> None:
        """Stop: we may not write any more."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task is to go."""

    node: str
    devices: str
    until: float
    """When it is given up if its pod does not come."""


class Carrier:
    """Carries plans out, with so many requests under way."""

    def __init__(self, client: Client, world: World, loop: Loop) -> None:
        self._client = client
        self._world = world
        self._loop = loop
        self._jobs: deque[Coroutine[None, None, None]] = deque()
        self._wake = asyncio.Semaphore(0)
        self._binding: dict[str, asyncio.Event] = {}
        """Pods whose bind is under way."""
        self._expected: dict[Spot, Place] = {}
        """Tasks that have a place and no pod yet."""
        self._nominated: dict[str, str] = {}
        """Node that stands on a waiting pod."""
        self._under_way = 0

    @property
    def next_at(self) -> float | None:
        """Return when the first task is given up whose pod does not come."""
        return min((place.until for place in self._expected.values()), default=None)

    @property
    def is_busy(self) -> bool:
        """Return whether binds or evictions are under way."""
        return self._under_way > 0 or bool(self._jobs)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(WORKERS):
                    group.create_task(self._work())
        finally:
            while self._jobs:
                self._jobs.popleft().close()

    async def _work(self) -> None:
        while True:
            await self._wake.acquire()
            self._under_way += 1
            try:
                await self._jobs.popleft()
            except NotLeader as error:
                self._loop.stop(str(error))
                return
            finally:
                self._under_way -= 1

    def _do(self, job: Coroutine[None, None, None]) -> None:
        self._jobs.append(job)
        self._wake.release()

    # -- a plan -----------------------------------------------------------------------------

    def carry_out(self, plan: Plan, now: float) -> None:
        """Begin to do all that a plan asks for; binds go first."""
        for decision in plan.decisions:
            if isinstance(decision, Bind):
                self._bind_all(decision, now)
        for decision in plan.decisions:
            if isinstance(decision, Evict):
                for spot in decision.spots:
                    self._leave(spot, now)
            elif isinstance(decision, Reserve):
                self._nominate(decision)

    def look(self, now: float, entries: Mapping[str, Entry]) -> None:
        """Bind pods that have come by now, and give up places whose pods do not come."""
        for spot, place in list(self._expected.items()):
            workload, group, task = spot
            entry = entries.get(workload)
            members = entry.members.get(group) if entry else None
            if members is None or members.states[task] != TaskState.ASSUMED:
                del self._expected[spot]
                continue
            found = self._world.seat(workload, group, {task: place.node})
            if task in found:
                del self._expected[spot]
                self._begin(spot, found[task], place)
            elif now >= place.until:
                del self._expected[spot]
                self._loop.fact(TasksChanged(workload, group, (task,), TaskState.PENDING))

    def _bind_all(self, bind: Bind, now: float) -> None:
        placement, world = bind.placement, self._world
        nodes = dict(zip(placement.tasks, placement.nodes, strict=True))
        found = world.seat(bind.workload, placement.group, nodes)
        is_mig = world.uses_mig(bind.workload, placement.group)
        for task, devices in zip(placement.tasks, placement.devices, strict=True):
            text = devices_text(devices, mig=is_mig) if devices else ""
            place = Place(nodes[task], text, now + POD_COMES_S)
            spot = (bind.workload, placement.group, task)
            if task in found:
                self._begin(spot, found[task], place)
            else:
                self._expected[spot] = place

    def _begin(self, spot: Spot, pod: Pod, place: Place) -> None:
        self._binding[pod.metadata.uid] = asyncio.Event()
        self._do(self._bind(spot, pod, place))

    # -- bind -------------------------------------------------------------------------------

    async def _bind(self, spot: Spot, pod: Pod, place: Place) -> None:
        """Bind a pod; an answer that was lost is looked up, and then it is tried again."""
        try:
            for _ in range(TRIES):
                why = await self._try_to_bind(pod, place)
                if why:
                    self._refused(spot, why)
                if why is not None or await self._look_up(pod):
                    return
            self._refused(spot, "the API server does not answer")
        finally:
            self._binding.pop(pod.metadata.uid).set()

    async def _try_to_bind(self, pod: Pod, place: Place) -> str | None:
        """Return why a bind was refused, empty if it was not; None: one has to look."""
        meta = pod.metadata
        notes = {DEVICES: place.devices} if place.devices else None
        try:
            await self._client.bind(
                meta.namespace, meta.name, place.node, uid=meta.uid, annotations=notes
            )
        except ApiError as error:
            return None if error.status in (404, 409) else str(error)
        except (Unanswered, Unreachable) as error:
            _LOG.warning("bind unanswered", extra=fields(pod=meta.name, error=error))
            return None
        self._loop.bound(pod)
        return ""

    async def _look_up(self, pod: Pod) -> bool:
        """See what became of a pod whose bind is in doubt; return whether it is decided."""
        meta = pod.metadata
        try:
            now = await self._client.get(PODS, meta.name, Pod, meta.namespace)
        except ApiError as error:
            if error.status == 404:
                self._loop.gone(pod)
                return True
            return False
        except (Unanswered, Unreachable):
            return False
        if now.metadata.uid != meta.uid:
            self._loop.gone(pod)
            return True
        if now.spec.node_name or now.metadata.deletion_timestamp:
            self._loop.seen(now)
            return True
        return False

    def _refused(self, spot: Spot, why: str) -> None:
        workload, group, task = spot
        _LOG.warning("bind refused", extra=fields(workload=workload, task=task, error=why))
        self._loop.fact(BindRefused(workload, group, (task,), why))

    # -- evict ------------------------------------------------------------------------------

    def _leave(self, spot: Spot, now: float) -> None:
        """Let a task leave: its pod is evicted; one that never came is forgotten."""
        self._expected.pop(spot, None)
        pod = self._world.pod_at(*spot)
        if pod is None:
            workload, group, task = spot
            self._loop.fact(TasksChanged(workload, group, (task,), TaskState.PENDING))
        else:
            self._do(self._evict(spot, pod, now))

    async def _evict(self, spot: Spot, pod: Pod, now: float) -> None:
        meta = pod.metadata
        bound = self._binding.get(meta.uid)
        if bound is not None:
            await bound.wait()
        try:
            await self._client.evict(meta.namespace, meta.name, uid=meta.uid)
        except ApiError as error:
            if error.status in (404, 409):
                await self._look_up(pod)
                return
            self._stays(spot, str(error), now)
        except (Unanswered, Unreachable) as error:
            self._stays(spot, str(error), now)

    def _stays(self, spot: Spot, why: str, now: float) -> None:
        workload, group, task = spot
        _LOG.warning("eviction refused", extra=fields(workload=workload, task=task, error=why))
        self._world.refuse(workload, now + REFUSED_S)
        self._loop.fact(TasksChanged(workload, group, (task,), TaskState.RUNNING))

    # -- nominate ---------------------------------------------------------------------------

    def _nominate(self, reserve: Reserve) -> None:
        """Write on waiting pods which nodes are kept for them."""
        for placement in reserve.placements:
            nodes = dict(zip(placement.tasks, placement.nodes, strict=True))
            for task, pod in self._world.meant_for(
                reserve.workload, placement.group, placement.tasks
            ).items():
                if self._nominated.get(pod.metadata.uid) != nodes[task]:
                    self._nominated[pod.metadata.uid] = nodes[task]
                    self._do(self._write_nomination(pod, nodes[task]))

    async def _write_nomination(self, pod: Pod, node: str) -> None:
        meta = pod.metadata
        try:
            body = {"metadata": {"uid": meta.uid}, "status": {"nominatedNodeName": node}}
            await self._client.patch(PODS, meta.name, body, meta.namespace, sub="status")
        except (ApiError, Unanswered, Unreachable) as error:
            self._nominated.pop(meta.uid, None)
            _LOG.info("nomination failed", extra=fields(pod=meta.name, error=error))
