"""Killed processes, broken answers, frozen leaders: what is bound stays right, and nobody is lost.

The short runs are part of every test run; the long ones (`-m soak`) are what we promise.
"""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.kube.live import HOME
from tests.kube.proxy import Proxy
from tests.kube.turmoil import POLICY, Load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kube.live import Live
    from tests.kube.plane import Plane

LEASE = "2s"
PATIENCE_S = 8.0
"""A life that has bound nothing for so long is killed all the same."""


@pytest.fixture
def proxy(plane: Plane) -> Iterator[Proxy]:
    with Proxy(plane) as proxy:
        yield proxy


class Lives:
    """A leader and one that stands by, killed and replaced again and again."""

    def __init__(self, live: Live, proxy: Proxy, draw: Random) -> None:
        self._live = live
        self._proxy = proxy
        self._draw = draw
        self._config = live.plane.service_account(HOME, "mooring", server=proxy.url)
        self._born = 0

    def begin(self) -> None:
        """Let there be two."""
        while len(self._live.running) < 2:
            name = f"life-{self._born}"
            self._born += 1
            self._live.launch(
                POLICY,
                name=name,
                identity=name,
                lease_duration=LEASE,
                kubeconfig=str(self._config),
            )

    def kill(self) -> None:
        """Kill the leader, now and then both, after some binds of which others are under way."""
        live = self._live
        live.plane.wait_for(lambda: self.leader() in live.running, 30, "one of them leads")
        self.await_binds(self._draw.randint(1, 6), PATIENCE_S)
        time.sleep(self._draw.choice((0, 0, self._draw.uniform(0, 0.1))))
        leader = self.leader()
        for name in list(self._live.running):
            if name == leader or self._draw.random() < 0.2:
                self._live.kill(name)

    def await_binds(self, count: int, patience_s: float) -> None:
        """Wait until so many more binds have gone to the server."""
        before, end = self.binds(), time.monotonic() + patience_s
        while self.binds() < before + count and time.monotonic() < end:
            time.sleep(0.002)

    def binds(self) -> int:
        """Return how many binds have gone to the server."""
        return sum(request.path.partition("?")[0].endswith("/binding")
                   for request in self._proxy.requests)  # fmt: skip

    def leader(self) -> str:
        """Return who holds the lease."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/mooring"
        return str(self._live.plane.api.get(path)["spec"].get("holderIdentity"))


@pytest.mark.parametrize(
    ("kills", "gangs"), [(7, 16), pytest.param(50, 40, marks=pytest.mark.soak)]
)
def test_gangs_stay_whole_however_often_the_scheduler_is_killed(
    live: Live, proxy: Proxy, kills: int, gangs: int
) -> None:
    """Killed in the middle of binding gangs, it leaves halves behind; the next life ends that."""
    load = Load(live, seed=kills, gangs=gangs)
    lives = Lives(live, proxy, Random(kills))
    load.submit(gangs // 4)
    for number in range(kills):
        lives.begin()
        load.submit(gangs * (number + 1) // kills * 3 // 4 - gangs * number // kills * 3 // 4)
        lives.kill()
    lives.begin()
    load.fill()
    load.until_rest()
    load.check()
