"""What is measured: each load begins on a site whose nodes are there and empty."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from statistics import quantiles
from typing import TYPE_CHECKING

from bench.kube.schedulers import Scheduler
from bench.kube.site import Clock, Site, clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

PODS = 5_000
GANG = 64
RATE_S = 20.0
"""So long pods are offered at a rate."""
WARM = 20
"""Pods that are bound before those that count, where the scheduler runs already."""
RESTART_PODS = 20_000


@dataclass(frozen=True, slots=True)
class Result:
    """One row."""

    scheduler: str
    nodes: int
    load: str
    pods: int
    pods_per_s: float | None = None
    """From the first to the last bind."""
    p50_ms: float | None = None
    """From the creation of a pod to its bind; of those that waited, from the scheduler's start."""
    p99_ms: float | None = None
    cpu_ms: float | None = None
    """CPU of the scheduler for each pod; of those that waited, its start included."""
    plane_ms: float | None = None
    """The same of all that runs on the plane: server, store, controllers and scheduler."""
    seconds: float | None = None
    """From start to first bind."""
    rss_mb: float | None = None
    """The most memory it ever had."""


@dataclass(slots=True)
class Run:
    """A scheduler under a load."""

    site: Site
    scheduler: Scheduler
    load: str
    clock: Clock
    began: float = 0.0
    """When the scheduler was started."""
    used_s: float = 0.0
    """Its CPU before what counts."""
    plane_s: float = 0.0
    """CPU of the whole plane before what counts."""

    async def start(self) -> None:
        """Start the scheduler."""
        self.began = time.perf_counter()
        self.plane_s = self.site.plane_cpu_s()
        await asyncio.to_thread(self.scheduler.start, self.site)

    async def warm_up(self) -> None:
        """Start the scheduler and return when it has bound some pods."""
        await self.start()
        names = self.clock.names(WARM)
        await self.clock.make_all(names)
        await self.clock.until_bound(names)
        self.used_s = self.site.cpu_s(self.scheduler.process)
        self.plane_s = self.site.plane_cpu_s()

    def result(self, names: Sequence[str], *, since_start: bool) -> Result:
        """Return what was measured with these pods."""
        clock, process = self.clock, self.scheduler.process
        used, plane = self.site.cpu_s(process), self.site.plane_cpu_s()
        bound = sorted(clock.bound[name] for name in names)
        made = dict.fromkeys(names, self.began) if since_start else clock.made
        waits = [max(clock.bound[name] - made[name], 0.0) * 1000 for name in names]
        cuts = quantiles(waits, n=100)
        return Result(
            scheduler=self.scheduler.name,
            nodes=self.site.count,
            load=self.load,
            pods=len(names),
            pods_per_s=round((len(names) - 1) / (bound[-1] - bound[0]), 1),
            p50_ms=round(cuts[49], 1),
            p99_ms=round(cuts[98], 1),
            cpu_ms=round((used - self.used_s) * 1000 / len(names), 3),
            plane_ms=round((plane - self.plane_s) * 1000 / len(names), 3),
            seconds=round(bound[0] - self.began, 2) if since_start else None,
            rss_mb=round(self.site.memory_mb(process), 1),
        )


async def drain(run: Run) -> Result:
    """Let pods wait; then start the scheduler."""
    names = run.clock.names(PODS)
    await run.clock.make_all(names)
    return await _drained(run, names)


async def gangs(run: Run) -> Result:
    """Let gangs wait; then start the scheduler."""
    names = run.clock.names(PODS // GANG * GANG)
    for first in range(0, len(names), GANG):
        await run.clock.make_gang(f"gang-{first // GANG}", names[first : first + GANG])
    return await _drained(run, names)


async def _drained(run: Run, names: Sequence[str]) -> Result:
    await run.start()
    await run.clock.until_bound(names)
    return run.result(names, since_start=True)


async def create(run: Run) -> Result:
    """Make pods as fast as the server takes them while the scheduler binds."""
    await run.warm_up()
    names = run.clock.names(PODS)
    await run.clock.make_all(names)
    await run.clock.until_bound(names)
    return run.result(names, since_start=False)


def rate(per_s: int) -> Callable[[Run], Awaitable[Result]]:
    """Return the load that makes so many pods a second."""

    async def offered(run: Run) -> Result:
        await run.warm_up()
        names = run.clock.names(int(per_s * RATE_S))
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number, name in enumerate(names):
                await asyncio.sleep(began + number / per_s - time.perf_counter())
                group.create_task(run.clock.make(name))
        await run.clock.until_bound(names)
        return run.result(names, since_start=False)

    return offered


async def restart(run: Run) -> Result:
    """Bind many pods, stop the scheduler, let some more wait, start it again."""
    await run.warm_up()
    names = run.clock.names(RESTART_PODS)
    await run.clock.make_all(names)
    await run.clock.until_bound(names)
    process = run.scheduler.process
    await asyncio.to_thread(run.site.end, process)
    more = run.clock.names(100)
    await run.clock.make_all(more)
    await run.start()
    await run.clock.until_bound(more)
    return Result(
        scheduler=run.scheduler.name,
        nodes=run.site.count,
        load=run.load,
        pods=len(names),
        cpu_ms=round(run.site.cpu_s(process) * 1000 / len(names), 3),
        seconds=round(min(run.clock.bound[name] for name in more) - run.began, 2),
        rss_mb=round(run.site.memory_mb(process), 1),
    )


LOADS: dict[str, Callable[[Run], Awaitable[Result]]] = {
    "drain": drain,
    "create": create,
    "rate-100": rate(100),
    "rate-200": rate(200),
    "gangs-64": gangs,
    "restart": restart,
}


async def measure(site: Site, scheduler: Scheduler, load: str) -> Result:
    """Put a load on a scheduler, on a site that is clear."""
    async with clock(site, scheduler.pods) as made:
        return await LOADS[load](Run(site, scheduler, load, made))
