"""Killed processes, broken answers, frozen leaders: what is bound stays right, and nobody is lost.

The short runs are part of every test run; the long ones (`-m soak`) are what we promise.
"""

from __future__ import annotations

import json
import signal
import time
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.kube.live import HOME
from tests.kube.proxy import Faults, Proxy
from tests.kube.turmoil import POLICY, QUEUES, Load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kube.live import Live
    from tests.kube.plane import Plane

LEASE = "2s"
PATIENCE_S = 4.0
"""A life that has bound nothing for so long is killed all the same."""


@pytest.fixture
def proxy(plane: Plane) -> Iterator[Proxy]:
    with Proxy(plane) as proxy:
        yield proxy


class Lives:
    """Processes of the scheduler behind the proxy: one leads, and others stand by."""

    def __init__(self, live: Live, proxy: Proxy, draw: Random) -> None:
        self.live = live
        self.proxy = proxy
        self.draw = draw
        self.identities: dict[str, str] = {}
        """By name of a process: how the proxy calls it."""
        self.policy = POLICY
        self.halves = 0
        """Gangs that were bound in part when their scheduler was killed."""
        self._looked_at = self._binds = 0

    def begin(self, count: int = 2, lease: str = LEASE) -> None:
        """Let so many run."""
        while len(self.live.running) < count:
            name = f"life-{len(self.identities)}"
            config = self.live.plane.service_account(HOME, "mooring", server=self.proxy.url)
            token = json.loads(config.read_text())["users"][0]["user"]["token"]
            self.identities[name] = f"token …{token[-8:]}"
            self.live.launch(
                self.policy, name=name, identity=name, lease_duration=lease, kubeconfig=str(config)
            )

    def kill(self) -> None:
        """Kill the leader, now and then both, after some binds of which others are under way."""
        self.until_one_leads()
        self.await_binds(self.draw.randint(1, 6))
        time.sleep(self.draw.choice((0, 0, self.draw.uniform(0, 0.1))))
        leader = self.leader()
        for name in list(self.live.running):
            if name == leader or self.draw.random() < 0.2:
                self.live.kill(name)
        gangs: dict[str, set[bool]] = {}
        for each in self.live.pods().values():
            is_bound = bool(each["spec"].get("nodeName"))
            gangs.setdefault(each["metadata"]["labels"]["run"], set()).add(is_bound)
        self.halves += sum(len(each) == 2 for each in gangs.values())

    def until_one_leads(self, but: str = "") -> str:
        """Wait until a process leads that runs, and is another than that."""

        def found() -> str:
            leader = self.leader()
            return leader if leader in self.live.running and leader != but else ""

        leader: str = self.live.plane.wait_for(found, 30, "one of them leads")
        return leader

    def await_binds(self, count: int, patience_s: float = PATIENCE_S) -> None:
        """Wait until so many more binds have gone to the server."""
        before, end = self.binds(), time.monotonic() + patience_s
        while self.binds() < before + count and time.monotonic() < end:
            time.sleep(0.002)

    def binds(self) -> int:
        """Return how many binds the proxy has seen."""
        new = self.proxy.requests[self._looked_at :]
        self._looked_at += len(new)
        self._binds += sum("/binding?" in request.path for request in new)
        return self._binds

    def leader(self) -> str:
        """Return who holds the lease."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/mooring"
        holder = str(self.live.plane.api.get(path)["spec"].get("holderIdentity"))
        return holder.rpartition("_")[0]


def gpus_undisturbed(live: Live, seed: int, gangs: int) -> int:
    """Return how many GPUs a load has in the end if nothing disturbs the one who schedules it."""
    load = Load(live, seed=seed, gangs=gangs)
    live.start(POLICY)
    load.submit(gangs // 4)
    load.fill()
    load.until_rest()
    load.check()
    live.stop()
    used = load.used()
    load.clear()
    return used


@pytest.mark.soak
def test_fifty_kills_cost_no_gpu(live: Live, proxy: Proxy) -> None:
    """As many are in use in the end as if nobody had been killed."""
    usual = gpus_undisturbed(live, seed=50, gangs=40)
    assert killed(live, proxy, kills=50, gangs=40).used() == usual


@pytest.mark.soak
def test_five_hundred_faults_cost_no_gpu(live: Live, proxy: Proxy) -> None:
    """As many are in use in the end as if the server had always answered well."""
    usual = gpus_undisturbed(live, seed=500, gangs=40)
    assert answered_ill(live, proxy, faults=500, gangs=40).used() == usual


def test_gangs_stay_whole_however_often_the_scheduler_is_killed(live: Live, proxy: Proxy) -> None:
    """Killed in the middle of binding gangs, it leaves halves behind; the next life ends that."""
    killed(live, proxy, kills=6, gangs=16)


def test_gangs_stay_whole_whatever_the_server_answers(live: Live, proxy: Proxy) -> None:
    """Conflicts, lost answers, slow ones, cut watches: each is a detour, none is the end."""
    answered_ill(live, proxy, faults=60, gangs=16)


def killed(live: Live, proxy: Proxy, *, kills: int, gangs: int) -> Load:
    """Kill the scheduler so often while it binds gangs; return the load, at rest and checked."""
    load = Load(live, seed=kills, gangs=gangs)
    lives = Lives(live, proxy, Random(kills))
    load.submit(gangs // 4)
    for number in range(kills):
        lives.begin()
        load.submit(gangs * (number + 1) // kills * 3 // 4 - gangs * number // kills * 3 // 4)
        lives.kill()
    assert lives.halves, "no kill has hit a gang that was just being bound"
    lives.begin()
    load.fill()
    load.until_rest()
    load.check()
    return load


def answered_ill(live: Live, proxy: Proxy, *, faults: int, gangs: int) -> Load:
    """Let so many answers of the server be bad; return the load, at rest and checked."""
    load = Load(live, seed=faults, gangs=gangs)
    lives = Lives(live, proxy, Random(faults))
    lives.begin(lease="5s")
    lives.until_one_leads()
    proxy.faults = Faults(
        seed=faults, http=0.14, reset=0.09, slow=0.07, cut=0.5, most=faults, agent="mooring"
    )
    end = time.monotonic() + 2 * faults
    load.submit(gangs // 4)
    while proxy.made.total() < faults and time.monotonic() < end:
        lives.await_binds(4, patience_s=0.5)
        is_due = (load.left - gangs // 4) * faults > (faults - proxy.made.total()) * gangs // 2
        load.submit(1 if is_due else 0)
    load.fill()
    load.until_rest()
    load.check()
    assert proxy.made.total() == faults, proxy.made
    return load


@pytest.mark.soak
def test_gangs_stay_whole_when_the_scheduler_is_killed_while_quota_is_taken_back(
    live: Live, proxy: Proxy
) -> None:
    """Who borrows is asked to leave, and half of it has left when nobody is there to go on."""
    load = Load(live, seed=3, gangs=24, queues=("a", "b"))
    lives = Lives(live, proxy, Random(3))
    lives.policy += QUEUES
    load.submit(4)
    for _ in range(20):
        lives.begin()
        load.submit(1)
        lives.kill()
    lives.begin()
    load.fill()
    load.until_rest(180)
    load.check()
    evictions = [each for each in proxy.requests if "/eviction?" in each.path]
    assert evictions, "nobody was asked to leave"


@pytest.mark.parametrize(
    ("rounds", "gangs"), [(2, 12), pytest.param(12, 40, marks=pytest.mark.soak)]
)
def test_a_frozen_leader_writes_nothing_when_it_thaws(
    live: Live, proxy: Proxy, rounds: int, gangs: int
) -> None:
    """It is stopped with binds under way, and another leads; thawed, it finds itself deposed."""
    load = Load(live, seed=rounds, gangs=gangs)
    lives = Lives(live, proxy, Random(rounds))
    lives.begin()
    frozen = lives.until_one_leads()
    for name in live.running:
        live.until_synced(name)
    for _ in range(rounds):
        load.submit(gangs // (rounds + 1))
        lives.await_binds(lives.draw.randint(1, 6))
        frozen = lives.until_one_leads()
        live.plane.signal(frozen, signal.SIGSTOP)
        load.submit(1)
        lives.until_one_leads(but=frozen)
        lives.await_binds(lives.draw.randint(1, 6), patience_s=2.0)
        live.plane.signal(frozen, signal.SIGCONT)
    load.fill()
    load.until_rest()
    load.check()
    assert not late_writes(lives)


def late_writes(lives: Lives) -> list[str]:
    """Return the writes that reached the server from one whose lease was over by then.

    And binds of one who had not read all pods since it leads: it may not know all of them.
    """
    names = {identity: name for name, identity in lives.identities.items()}
    holder, until, wrong, looked = "", 0.0, [], False
    for request in sorted(lives.proxy.seen(), key=lambda each: each.forwarded or 0.0):
        at, name = request.forwarded or 0.0, names[request.identity]
        if not request.is_write:
            is_list = request.path.startswith("/api/v1/pods?") and not request.is_watch
            looked |= is_list and name == holder
        elif "/leases" in request.path:
            if request.status is None or request.status >= 300:
                continue  # another was faster
            looked &= name == holder
            holder, until = name, at + float(LEASE.removesuffix("s"))
        elif name != holder or at > until:
            wrong.append(f"{name}: {request.method} {request.path}, {at - until:+.2f} s, {holder}")
        elif not looked and "/binding?" in request.path:
            wrong.append(f"{name}: {request.path}, before it had read all pods")
    return wrong
