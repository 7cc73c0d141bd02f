"""Carries a plan out: bindings, evictions, nominations. What came of each is a fact for the loop.

A bind whose answer was lost is looked up, for as long as that takes, before anything else is done
with its pod: its room is not free before it is known that it is not there. Until then the pod gets
no other place, even if the node is gone: it is as if it did not exist yet. A task whose pod does
not exist yet keeps its place for a while: its controller is about to make it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from mooring.kube.backoff import Backoff
from mooring.kube.devices import devices_text
from mooring.kube.errors import ApiError, NotLeader, Unanswered, Unreachable
from mooring.kube.log import fields
from mooring.kube.logins import CredentialsError
from mooring.kube.names import DEVICES
from mooring.kube.objects import Pod
from mooring.kube.resources import PODS
from mooring.model.events import BindRefused, TasksChanged
from mooring.model.plan import Bind, Evict, Leaving, Moving, Reserve
from mooring.model.workload import TaskState

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator, Mapping

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
"""So long a workload is left in peace after a budget refused its eviction."""
FAILED_S = 5.0
"""So long after an eviction failed for another reason."""
TIDY = 1000
"""From so many nominations on it is looked which of them are of pods that are gone."""
TRIES = 5
_FIRST_PAUSE_S = 0.05
_MOST_PAUSE_S = 2.0
_UNKNOWN = (Unanswered, Unreachable, CredentialsError)
_LOG = logging.getLogger(__name__)


Remember = Callable[[], Awaitable[None]]


class Loop(Protocol):
    """Who is told what came of it."""

    def fact(self, event: Event, about: Pod | None = None) -> None:
        """Take a fact for the engine; it is void if another pod has the task by now."""

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


class Fate(Enum):
    """What became of a pod that was in doubt."""

    GONE = "gone"
    LEAVES = "leaves"
    BOUND = "bound"
    WAITS = "waits"


class Carrier:
    """Carries plans out, with so many requests under way."""

    def __init__(
        self, client: Client, world: World, loop: Loop, remember: Remember | None = None
    ) -> None:
        self._client = client
        self._remember = remember
        """Returns when all that was decided is stored, for another life."""
        self._world = world
        self._loop = loop
        self._jobs: asyncio.Queue[Coroutine[None, None, None]] = asyncio.Queue()
        self._binding: dict[str, asyncio.Future[bool]] = {}
        """Pods whose bind is under way; in the end: whether it was made."""
        self._expected: dict[Spot, Place] = {}
        """Tasks that have a place and no pod yet."""
        self._naming: set[str] = set()
        """Pods on which a node is being written."""
        self._nominated: dict[str, str] = {}
        """Node that stands on a waiting pod."""
        self._tidy_at = TIDY
        """With so many nominations those of pods that are gone are forgotten."""
        self._under_way = 0
        self._is_resting = False
        """Whether nothing more is begun."""

    @property
    def next_at(self) -> float | None:
        """Return when the first task is given up whose pod does not come."""
        return min((place.until for place in self._expected.values()), default=None)

    @property
    def is_busy(self) -> bool:
        """Return whether binds or evictions are under way."""
        return self._under_way > 0 or not self._jobs.empty()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(WORKERS):
                    group.create_task(self._work())
        finally:
            self._drop_jobs()

    async def _work(self) -> None:
        while True:
            job = await self._jobs.get()
            self._under_way += 1
            try:
                await job
            except NotLeader as error:
                self._loop.stop(str(error))
            finally:
                self._under_way -= 1

    async def rest(self, seconds: float) -> bool:
        """Begin nothing more, and wait for what is under way; return whether it ended in time."""
        self._is_resting = True
        self._drop_jobs()
        try:
            async with asyncio.timeout(seconds):
                while self.is_busy:  # noqa: ASYNC110 (at the end of a term only)
                    await asyncio.sleep(0.005)
        except TimeoutError:
            _LOG.warning("writes under way at the end", extra=fields(count=self._under_way))
            return False
        return True

    def _do(self, job: Coroutine[None, None, None]) -> None:
        self._jobs.put_nowait(job)
        if self._is_resting:
            self._drop_jobs()

    def _drop_jobs(self) -> None:
        """Let nobody do what nobody has begun; evictions come after the binds they wait for."""
        while not self._jobs.empty():
            self._jobs.get_nowait().close()

    # -- a plan -----------------------------------------------------------------------------

    def carry_out(self, plan: Plan, now: float) -> None:
        """Begin to do all that a plan asks for; binds go first."""
        for decision in plan.decisions:
            if isinstance(decision, Bind):
                self._bind_all(decision, now)
        leaving: list[tuple[Spot, Pod]] = []
        for decision in plan.decisions:
            if isinstance(decision, Evict):
                leaving += self._who_leaves(decision.spots)
            elif isinstance(decision, Reserve):
                self._nominate(decision)
        if leaving:
            self._do(self._leave(leaving, now))
        for waiting in plan.waiting:
            if not any(isinstance(reason, Leaving | Moving) for reason in waiting.reasons):
                self._withdraw(waiting.workload)

    def look(self, now: float, entries: Mapping[str, Entry]) -> None:
        """Bind pods that have come by now, and give up places whose pods do not come."""
        expected: dict[tuple[str, str], dict[int, str]] = {}
        for spot, place in list(self._expected.items()):
            workload, group, task = spot
            if _is_assumed(entries.get(workload), group, task):
                expected.setdefault((workload, group), {})[task] = place.node
            else:
                del self._expected[spot]
        for (workload, group), nodes in expected.items():
            found = self._world.seat(workload, group, nodes, self._binding)
            for task in nodes:
                spot = (workload, group, task)
                place = self._expected[spot]
                if task not in found and now < place.until:
                    continue
                del self._expected[spot]
                if task in found:
                    self._begin(spot, found[task], place)
                else:
                    self._loop.fact(TasksChanged(workload, group, (task,), TaskState.PENDING))

    def _bind_all(self, bind: Bind, now: float) -> None:
        placement, world = bind.placement, self._world
        nodes = dict(zip(placement.tasks, placement.nodes, strict=True))
        found = world.seat(bind.workload, placement.group, nodes, self._binding)
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
        self._nominated.pop(pod.metadata.uid, None)
        self._binding[pod.metadata.uid] = asyncio.get_running_loop().create_future()
        self._do(self._bind(spot, pod, place))

    # -- bind -------------------------------------------------------------------------------

    async def _bind(self, spot: Spot, pod: Pod, place: Place) -> None:
        """Bind a pod; an answer that was lost is looked up, and then it is tried again."""
        bound = False
        try:
            bound = await self._is_bound(spot, pod, place)
        finally:
            under_way = self._binding.pop(pod.metadata.uid)
            if not under_way.done():
                under_way.set_result(bound)

    async def _is_bound(self, spot: Spot, pod: Pod, place: Place) -> bool:
        """Try to bind a pod until it is known what came of it; return whether it has a node."""
        backoff = Backoff(_FIRST_PAUSE_S, _MOST_PAUSE_S)
        for _ in range(TRIES):
            if self._is_resting:
                return False  # whoever leads next looks at the world first
            why = await self._try_to_bind(pod, place)
            if why is not None:
                if why:
                    self._refused(spot, pod, why)
                return not why
            fate = await self._look_up(pod)
            if fate is not Fate.WAITS:
                return fate is Fate.BOUND
            await asyncio.sleep(backoff.next())
        self._refused(spot, pod, "the API server does not bind it")
        return False

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
        except _UNKNOWN as error:
            _LOG.warning("bind unanswered", extra=fields(pod=meta.name, error=error))
            return None
        self._loop.bound(pod)
        return ""

    async def _look_up(self, pod: Pod) -> Fate:
        """See what became of a pod that is in doubt, for as long as it takes, and tell the loop."""
        meta, backoff = pod.metadata, Backoff(_FIRST_PAUSE_S, _MOST_PAUSE_S)
        now: Pod | None = None
        while now is None:
            try:
                now = await self._client.get(PODS, meta.name, Pod, meta.namespace)
            except (ApiError, *_UNKNOWN) as error:
                if isinstance(error, ApiError) and error.status == 404:
                    break
                _LOG.warning("pod not readable", extra=fields(pod=meta.name, error=error))
                await asyncio.sleep(backoff.next())
        if now is None or now.metadata.uid != meta.uid:
            self._loop.gone(pod)
            return Fate.GONE
        self._loop.seen(now)
        if now.metadata.deletion_timestamp:
            return Fate.LEAVES
        return Fate.BOUND if now.spec.node_name else Fate.WAITS

    def _refused(self, spot: Spot, pod: Pod, why: str) -> None:
        workload, group, task = spot
        _LOG.warning("bind refused", extra=fields(workload=workload, task=task, error=why))
        self._loop.fact(BindRefused(workload, group, (task,), why), pod)

    # -- evict ------------------------------------------------------------------------------

    def _who_leaves(self, spots: Iterable[Spot]) -> Iterator[tuple[Spot, Pod]]:
        """Yield the tasks that have pods to evict; one whose pod never came is forgotten."""
        for spot in spots:
            self._expected.pop(spot, None)
            pod = self._world.pod_at(*spot)
            if pod is not None:
                yield spot, pod
                continue
            workload, group, task = spot
            self._loop.fact(TasksChanged(workload, group, (task,), TaskState.PENDING))

    async def _leave(self, leaving: list[tuple[Spot, Pod]], now: float) -> None:
        """Evict pods, once it is stored for whom they leave."""
        if self._remember is not None:
            await self._remember()
        for spot, pod in leaving:
            self._do(self._evict(spot, pod, now))

    async def _evict(self, spot: Spot, pod: Pod, now: float) -> None:
        """Evict a pod; one whose bind was not made stays, and waits again."""
        under_way = self._binding.get(pod.metadata.uid)
        if under_way is not None and not await under_way:
            workload, group, task = spot
            self._loop.fact(TasksChanged(workload, group, (task,), TaskState.PENDING))
            return
        backoff = Backoff(_FIRST_PAUSE_S, _MOST_PAUSE_S)
        for _ in range(TRIES):
            if self._is_resting:
                return
            try:
                await self._client.evict(
                    pod.metadata.namespace, pod.metadata.name, uid=pod.metadata.uid
                )
            except ApiError as error:
                if error.is_budget or error.status not in (404, 409):
                    until = now + (REFUSED_S if error.is_budget else FAILED_S)
                    self._stays(spot, pod, str(error), until)
                    return
            except _UNKNOWN as error:
                _LOG.warning("eviction unanswered", extra=fields(task=spot, error=error))
            else:
                return
            if await self._look_up(pod) in (Fate.GONE, Fate.LEAVES):
                return
            await asyncio.sleep(backoff.next())
        self._stays(spot, pod, "the API server does not evict it", now + FAILED_S)

    def _stays(self, spot: Spot, pod: Pod, why: str, until: float) -> None:
        workload, group, task = spot
        _LOG.warning("eviction refused", extra=fields(workload=workload, task=task, error=why))
        self._world.refuse(workload, until)
        self._loop.fact(TasksChanged(workload, group, (task,), TaskState.RUNNING), pod)

    # -- nominate ---------------------------------------------------------------------------

    def _nominate(self, reserve: Reserve) -> None:
        """Write on waiting pods which nodes are kept for them."""
        for placement in reserve.placements:
            nodes = dict(zip(placement.tasks, placement.nodes, strict=True))
            for task, pod in self._world.meant_for(
                reserve.workload, placement.group, placement.tasks
            ).items():
                self._name(pod, nodes[task])

    def _withdraw(self, workload: str) -> None:
        """Write on waiting pods that no node is kept for them any more."""
        for pod in self._world.waiting(workload):
            self._name(pod, "")

    def _name(self, pod: Pod, node: str) -> None:
        """Let a node, or none, stand on a pod; what is decided last is written last."""
        uid = pod.metadata.uid
        if self._nominated.get(uid, pod.status.nominated_node_name) == node:
            return
        self._nominated[uid] = node
        if uid not in self._naming:
            self._naming.add(uid)
            self._do(self._write_nomination(pod))
        if len(self._nominated) >= self._tidy_at:
            self._tidy()

    def _tidy(self) -> None:
        """Forget nominations of pods that are gone."""
        knows, named = self._world.knows, self._nominated
        self._nominated = {uid: node for uid, node in named.items() if knows(uid)}
        self._tidy_at = max(TIDY, 2 * len(self._nominated))

    async def _write_nomination(self, pod: Pod) -> None:
        meta, written = pod.metadata, None
        try:
            while (node := self._nominated.get(meta.uid, written)) != written:
                status = {"nominatedNodeName": node or None}
                body = {"metadata": {"uid": meta.uid}, "status": status}
                await self._client.patch(PODS, meta.name, body, meta.namespace, sub="status")
                written = node
        except (ApiError, *_UNKNOWN) as error:
            self._nominated.pop(meta.uid, None)
            _LOG.info("nomination failed", extra=fields(pod=meta.name, error=error))
        finally:
            self._naming.discard(meta.uid)
        if not written:
            self._nominated.pop(meta.uid, None)


def _is_assumed(entry: Entry | None, group: str, task: int) -> bool:
    """Return whether a task still has the place that it was given; it may be another's by now."""
    members = entry.members.get(group) if entry else None
    if members is None or task >= len(members.states):
        return False
    return bool(members.states[task] == TaskState.ASSUMED)
