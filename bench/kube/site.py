"""The control plane to measure on, and one clock: when pods were made, and when bound."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.kube.client import JSON, Client, How, Limits
from mooring.kube.errors import ApiError
from mooring.kube.kubeconfig import find_credentials
from mooring.kube.resources import PODS, Resource
from mooring.kube.watch import Replaced, Watch
from tests.kube.plane import Parts, Plane, node, pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from mooring.kube.watch import Batch

NAMESPACE = "bench"
POD_GROUPS = Resource("scheduling.k8s.io", "v1beta1", "podgroups", kind="PodGroup")
PATIENT = Limits(under_way=200, write_timeout_s=30.0, patience_s=120.0)
"""For what is no part of a scheduler: it should not fail on a slow machine."""
_REPEATED = How(JSON, repeat=True)
LONGEST_S = 900.0
"""So long nothing may take; then it is given up."""
_TICKS = os.sysconf("SC_CLK_TCK")
_LEFT = (
    f"/api/v1/namespaces/{NAMESPACE}/pods",
    f"/apis/{POD_GROUPS.api_version}/namespaces/{NAMESPACE}/{POD_GROUPS.plural}",
    f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events",
)
_REST_S = 5.0


class Site(Plane):
    """The one plane of a run, its gang gates on, that knows the processes it has started."""

    def __init__(self) -> None:
        super().__init__(Parts(audit=False, gangs=True))
        self.count = 0
        """Nodes that there are."""
        self.pids: dict[str, int] = {}

    def spawn(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> int:
        """Start a program that ends with the plane."""
        self.pids[name] = super().spawn(name, argv, env)
        return self.pids[name]

    def cpu_s(self, name: str) -> float:
        """Return how many seconds of CPU a program has used."""
        fields = Path(f"/proc/{self.pids[name]}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def plane_cpu_s(self) -> float:
        """Return how many seconds of CPU all programs have used that run now."""
        return sum(self.cpu_s(name) for name in self.pids if self.ended(name) is None)

    def memory_mb(self, name: str) -> float:
        """Return the most memory that a program ever had, in MB."""
        status = Path(f"/proc/{self.pids[name]}/status").read_text()
        line = next(each for each in status.splitlines() if each.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6

    def furnish(self, nodes: int) -> None:
        """Make the namespace of the pods and so many nodes; those that are there stay."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        if nodes < self.count:
            self.api.delete("/api/v1/nodes")
            self.count = 0
        missing = [node(f"node-{number}", gpus=8) for number in range(self.count, nodes)]
        self.api.create_all(missing)
        self.count = nodes

    def end(self, name: str) -> None:
        """Let a program end as it does when it is told to."""
        self.signal(name, signal.SIGTERM)
        self.wait_for(lambda: self.ended(name) is not None, 30, f"{name} ends")

    def clear(self) -> None:
        """Remove all that a load has left but the nodes, and let the controllers come to rest."""
        for kind in _LEFT:
            self.wait_for(partial(self._removed, kind), LONGEST_S, f"{kind} are gone")
        time.sleep(_REST_S)

    def _removed(self, collection: str) -> bool:
        names = [each["metadata"]["name"] for each in self.api.items(collection)]
        paths = [f"{collection}/{name}" for name in names]
        list(self.api.pool.map(partial(self.api.delete, gracePeriodSeconds=0), paths))
        return not names


class _Meta(msgspec.Struct, rename="camel", gc=False, frozen=True):
    name: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel", gc=False, frozen=True):
    node_name: str = ""


class _Seen(msgspec.Struct, gc=False, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


class Clock:
    """Makes pods and notes when each was made and when the watch shows its node.

    A pod is made when the server has answered, or the watch shows it, whichever comes first.
    """

    def __init__(self, client: Client, scheduler: str) -> None:
        self.made: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self._client = client
        self._bodies: dict[str, tuple[bytes, bytes]] = {}
        self._scheduler = scheduler
        self._stirred = asyncio.Event()
        self._numbers = itertools.count()

    def take(self, batch: Batch[Any]) -> None:
        """Take what the watch has seen."""
        now = time.perf_counter()
        seen: list[Any] = (
            batch.objects if isinstance(batch, Replaced) else [each.object for each in batch]
        )
        for each in seen:
            name = each.metadata.name
            self.made.setdefault(name, now)
            if each.spec.node_name:
                self.bound.setdefault(name, now)
        self._stirred.set()

    def names(self, count: int) -> list[str]:
        """Return names for so many new pods."""
        return [f"p{next(self._numbers):06}" for _ in range(count)]

    async def make(self, name: str, gang: str = "") -> None:
        """Make a pod with one GPU, in a gang if it is named."""
        if gang not in self._bodies:
            more: dict[str, Any] = {"schedulingGroup": {"podGroupName": gang}} if gang else {}
            made = pod("@", 1, namespace=NAMESPACE, scheduler=self._scheduler, **more)
            before, _, after = msgspec.json.encode(made).partition(b"@")
            self._bodies[gang] = before, after
        before, after = self._bodies[gang]
        try:
            await self._client.create(
                PODS, before + name.encode() + after, NAMESPACE, how=_REPEATED
            )
        except ApiError as error:
            if error.status != 409:  # an answer was lost
                raise
        self.made.setdefault(name, time.perf_counter())

    async def make_all(self, names: Sequence[str], gang: str = "") -> None:
        """Make pods as fast as the server takes them, 64 requests under way."""
        left = iter(names)

        async def work() -> None:
            for name in left:
                await self.make(name, gang)

        await asyncio.gather(*(work() for _ in range(64)))

    async def make_gang(self, gang: str, names: Sequence[str]) -> None:
        """Make an upstream pod group and its pods."""
        body = {
            "apiVersion": POD_GROUPS.api_version,
            "kind": POD_GROUPS.kind,
            "metadata": {"name": gang, "namespace": NAMESPACE},
            "spec": {"schedulingPolicy": {"gang": {"minCount": len(names)}}},
        }
        await self._client.create(POD_GROUPS, body, NAMESPACE)
        await self.make_all(names, gang)

    async def until_bound(self, names: Sequence[str]) -> None:
        """Return when all of these pods have nodes."""
        async with asyncio.timeout(LONGEST_S):
            while not all(name in self.bound for name in reversed(names)):
                self._stirred.clear()
                await self._stirred.wait()
                await asyncio.sleep(0.02)


@asynccontextmanager
async def clock(site: Site, scheduler: str) -> AsyncIterator[Clock]:
    """Give a clock that watches a site."""
    credentials = find_credentials(str(site.kubeconfig))
    async with Client(credentials, limits=PATIENT) as client:
        made = Clock(client, scheduler)
        watch: Watch[_Seen] = Watch(client, PODS, _Seen, made.take)
        task = asyncio.create_task(watch.run())
        try:
            await watch.synced.wait()
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
