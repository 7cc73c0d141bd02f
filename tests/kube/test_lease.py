"""Who leads: never two at a time, whatever clocks, networks and frozen processes do."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from mooring.kube.client import Client, Limits
from mooring.kube.credentials import Credentials
from mooring.kube.errors import NotLeader
from mooring.kube.kubeconfig import load_kubeconfig
from mooring.kube.lease import Lease, Times, boot_clock, new_identity
from mooring.kube.resources import CONFIG_MAPS, LEASES
from tests.kube.scripted import Answer, Relay, Scripted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.kube.plane import Plane

TIMES = Times(duration_s=3, renew_s=2.2, retry_s=0.3)
LIMITS = Limits(write_timeout_s=0.7, timeout_s=0.7, tries=2)
LEASE = "mooring"


class Candidate:
    """One who takes part, with his own connection."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self.client = client
        self.namespace = namespace
        self.lease = Lease(client, LEASE, name, namespace=namespace, times=TIMES)
        self.fenced = client.fenced(self.lease.check)
        self.task = asyncio.create_task(self.lease.run())

    async def write(self, name: str) -> None:
        """Write what only a leader may."""
        thing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        await self.fenced.create(CONFIG_MAPS, thing, self.namespace)

    async def leads(self, within_s: float = 10) -> None:
        await asyncio.wait_for(self.lease.leading(), within_s)


@asynccontextmanager
async def candidate(
    plane: Plane, namespace: str, name: str, url: str = ""
) -> AsyncIterator[Candidate]:
    credentials = load_kubeconfig([plane.kubeconfig])
    credentials.server = url or plane.url
    async with Client(credentials, limits=LIMITS) as client:
        one = Candidate(client, namespace, name)
        try:
            yield one
        finally:
            one.task.cancel()
            await asyncio.gather(one.task, return_exceptions=True)
            await one.fenced.close()


async def until(true: Callable[[], object]) -> None:
    for _ in range(1000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("waited in vain")


def spec(plane: Plane, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = plane.api.get(LEASES.path(namespace, LEASE))["spec"]
    return found


def test_the_first_leads_and_the_second_stands_by(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with candidate(plane, namespace, "ann") as ann:
            await ann.leads()
            assert ann.lease.term is not None
            assert ann.lease.term.token == "0/ann"
            first = spec(plane, namespace)
            assert first["holderIdentity"] == "ann"
            assert first["leaseDurationSeconds"] == 3
            async with candidate(plane, namespace, "ben") as ben:
                await asyncio.sleep(3.5)  # longer than a lease lasts without renewal
                assert ben.lease.term is None
                assert ben.lease.holder == "ann"
                with pytest.raises(NotLeader, match="ann leads"):
                    await ben.write("by-ben")
                await ann.write("by-ann")
            last = spec(plane, namespace)
            assert last["renewTime"] > first["renewTime"]
            assert last["acquireTime"] == first["acquireTime"]

    asyncio.run(story())


def test_who_stops_hands_over_at_once_after_his_writes_have_ended(
    plane: Plane, namespace: str
) -> None:
    async def story() -> None:
        async with (
            candidate(plane, namespace, "ann") as ann,
        ):
            await ann.leads()
            async with candidate(plane, namespace, "ben") as ben:
                await asyncio.sleep(0.2)
                writes = [asyncio.create_task(ann.write(f"w{i}")) for i in range(20)]
                await asyncio.sleep(0)
                await ann.lease.stop(ann.fenced.at_rest)
                assert all(write.done() for write in writes)
                with pytest.raises(NotLeader):
                    await ann.write("too-late")
                await ben.leads(1.0)
                assert ben.lease.term is not None
                assert ben.lease.term.number == 1
                await asyncio.gather(*writes, return_exceptions=True)
                await asyncio.wait_for(ann.task, 1)

    asyncio.run(story())


def test_who_loses_the_network_knows_it_before_another_leads(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with (
            Relay(plane.url) as relay,
            candidate(plane, namespace, "ann", relay.url) as ann,
        ):
            await ann.leads()
            term = ann.lease.term
            assert term is not None
            async with candidate(plane, namespace, "ben") as ben:
                await until(lambda: ben.lease.holder == "ann")
                relay.flowing.clear()
                await asyncio.wait_for(ann.lease.deposed(term), 5)
                assert ben.lease.term is None
                with pytest.raises(NotLeader):
                    await ann.write("too-late")
                assert ben.lease.term is None
                await ben.leads()
                relay.flowing.set()
                await ben.write("by-ben")
                await until(lambda: ann.lease.holder == "ben")
                assert ann.lease.term is None
                assert ben.lease.term is not None

    asyncio.run(story())


def test_a_leader_that_was_cut_off_for_a_moment_goes_on(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with (
            Relay(plane.url) as relay,
            candidate(plane, namespace, "ann", relay.url) as ann,
        ):
            await ann.leads()
            term = ann.lease.term
            for _ in range(4):
                relay.cut()
                await asyncio.sleep(0.4)
            assert ann.lease.term is term

    asyncio.run(story())


def test_who_comes_back_before_another_came_has_a_new_term(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with (
            Relay(plane.url) as relay,
            candidate(plane, namespace, "ann", relay.url) as ann,
        ):
            await ann.leads()
            term = ann.lease.term
            assert term is not None
            old = ann.client.fenced(ann.lease.check_term(term))
            relay.refusing = True
            relay.cut()
            await asyncio.wait_for(ann.lease.deposed(term), 5)
            relay.refusing = False
            await ann.leads()
            assert ann.lease.term is not None
            assert ann.lease.term.number == term.number + 1
            with pytest.raises(NotLeader, match="which is over"):
                await old.delete(CONFIG_MAPS, "a", namespace)
            await old.close()

    asyncio.run(story())


def test_ten_at_once_and_one_leads(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            ten = [
                await stack.enter_async_context(candidate(plane, namespace, f"c{i}"))
                for i in range(10)
            ]
            await until(lambda: any(each.lease.term for each in ten))
            leader = spec(plane, namespace)["holderIdentity"]
            await until(lambda: all(each.lease.holder == leader for each in ten))
            assert sum(each.lease.term is not None for each in ten) == 1

    asyncio.run(story())


def test_a_deleted_lease_ends_the_term(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with candidate(plane, namespace, "ann") as ann:
            await ann.leads()
            term = ann.lease.term
            assert term is not None
            plane.api.delete(LEASES.path(namespace, LEASE))
            await asyncio.wait_for(ann.lease.deposed(term), 5)
            await ann.leads()

    asyncio.run(story())


def test_what_others_put_on_the_lease_stays_there(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with candidate(plane, namespace, "ann") as ann:
            await ann.leads()
            term = ann.lease.term
            plane.api.patch(LEASES.path(namespace, LEASE), {"metadata": {"labels": {"a": "b"}}})
            await asyncio.sleep(1.0)
            assert ann.lease.term is term
            found = plane.api.get(LEASES.path(namespace, LEASE))
            assert found["metadata"]["labels"] == {"a": "b"}

    asyncio.run(story())


def test_a_frozen_leader_that_thaws_writes_nothing(plane: Plane, namespace: str) -> None:
    """One process writes as fast as it can, is stopped, and goes on when another leads."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(plane.kubeconfig), namespace],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "leading\n"
        time.sleep(0.5)
        writer.send_signal(signal.SIGSTOP)

        async def takes_over() -> None:
            async with candidate(plane, namespace, "ben") as ben:
                await ben.leads()
                await ben.write("by-ben")
                writer.send_signal(signal.SIGCONT)
                await asyncio.sleep(1.0)
                await ben.write("by-ben-again")

        asyncio.run(takes_over())
    finally:
        writer.send_signal(signal.SIGCONT)
        out, _ = writer.communicate(timeout=20)
    told = json.loads(out.splitlines()[-1])
    assert told["written"] > 0
    assert told["refused"] > 0
    writes = [
        event["objectRef"]["name"] if "name" in event["objectRef"] else event["requestURI"]
        for event in plane.audit(agent="mooring/")
        if event["objectRef"].get("namespace") == namespace
        and event["objectRef"]["resource"] == "configmaps"
    ]
    took_over = writes.index("by-ben")
    assert set(writes[took_over:]) == {"by-ben", "by-ben-again"}
    assert len(writes[:took_over]) > 0


WRITER = """
import asyncio, json, pathlib, sys
from mooring.kube.client import Client, Limits
from mooring.kube.errors import ApiError, NotLeader
from mooring.kube.kubeconfig import load_kubeconfig
from mooring.kube.lease import Lease, Times
from mooring.kube.resources import CONFIG_MAPS

async def main(path, namespace):
    limits = Limits(write_timeout_s=0.7, timeout_s=0.7, tries=2)
    async with Client(load_kubeconfig([pathlib.Path(path)]), limits=limits) as client:
        times = Times(duration_s=3, renew_s=2.2, retry_s=0.3)
        lease = Lease(client, "mooring", "ann", namespace=namespace, times=times)
        task = asyncio.create_task(lease.run())
        term = await lease.leading()
        print("leading", flush=True)
        told = {"written": 0, "refused": 0}
        fenced = client.fenced(lease.check)
        number = 0

        async def write():
            nonlocal number
            while told["refused"] < 200:
                number += 1
                name = f"by-ann-{number}"
                thing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
                try:
                    await fenced.create(CONFIG_MAPS, thing, namespace)
                    told["written"] += 1
                except NotLeader:
                    told["refused"] += 1
                    await asyncio.sleep(0.05)
                except Exception:
                    pass

        await asyncio.gather(*(write() for _ in range(16)))
        task.cancel()
        await fenced.close()
        print(json.dumps(told), flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


# Clocks.


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def lease_object(holder: str, version: int, duration: int = 15, number: int = 4) -> Answer:
    meta = {"name": LEASE, "namespace": "lab", "resourceVersion": str(version), "uid": "u"}
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration,
        "leaseTransitions": number,
        "renewTime": "1999-01-01T00:00:00.000000Z",  # by a clock that nobody should believe
    }
    return Answer(body={"metadata": meta, "spec": spec})


def turns(answers: list[Answer], waits: list[float]) -> tuple[list[str], Lease]:
    """Take one turn per wait of a moved clock; return the methods that were used, and the lease."""

    async def run() -> tuple[list[str], Lease]:
        async with Scripted(*answers) as server, Client(Credentials(server.url)) as client:
            lease = Lease(client, LEASE, "ann", namespace="lab")
            lease.clock = clock = Clock()
            for wait in waits:
                clock.now += wait
                await lease._turn()
            return [seen.method for seen in server.seen], lease

    return asyncio.run(run())


def test_the_time_that_another_wrote_is_not_believed() -> None:
    methods, lease = turns([lease_object("ben", 1)], [0, 5, 9.9])
    assert methods == ["GET"] * 3
    assert lease.term is None


def test_time_counts_from_when_a_change_was_seen() -> None:
    ours = lease_object("ann", 9, number=5)
    seen = [lease_object("ben", version) for version in (1, 1, 2, 2, 2)]
    methods, lease = turns([*seen, ours], [0, 14, 14, 14, 2])
    assert methods == [*["GET"] * 5, "PUT"]
    assert lease.term is not None
    assert lease.term.token == "5/ann"


def test_the_holder_says_how_long_his_lease_lasts() -> None:
    seen = [lease_object("ben", 1, duration=60)] * 3
    methods, _ = turns([*seen, lease_object("ann", 9)], [0, 59, 2])
    assert methods == [*["GET"] * 3, "PUT"]


def test_a_freed_lease_is_taken_at_once() -> None:
    methods, lease = turns([lease_object("", 1), lease_object("ann", 2)], [0])
    assert methods == ["GET", "PUT"]
    assert lease.term is not None


def test_who_was_slower_stands_by() -> None:
    conflict = Answer(409, {"reason": "Conflict"})
    methods, lease = turns([lease_object("", 1), conflict, lease_object("ben", 2)], [0, 1])
    assert methods == ["GET", "PUT", "GET"]
    assert lease.term is None
    assert lease.holder == "ben"


def test_a_renewal_that_another_prevented_ends_the_term() -> None:
    taken = [Answer(409, {"reason": "Conflict"}), lease_object("ben", 3)]
    methods, lease = turns([lease_object("", 1), lease_object("ann", 2), *taken], [0, 2])
    assert methods == ["GET", "PUT", "PUT", "GET"]
    assert lease.term is None


def test_the_fence_closes_by_the_time_of_sending_not_of_the_answer() -> None:
    async def run() -> None:
        slow = lease_object("ann", 2)
        async with (
            Scripted(lease_object("", 1), slow) as server,
            Client(Credentials(server.url)) as client,
        ):
            lease = Lease(client, LEASE, "ann", namespace="lab")
            lease.clock = clock = Clock()
            clock_at_sending = clock.now
            await lease._turn()
            clock.now = clock_at_sending + lease.times.renew_s - 0.01
            lease.check()
            clock.now += 0.02
            with pytest.raises(NotLeader, match="not renewed in time"):
                lease.check()
            assert lease.term is None

    asyncio.run(run())


def test_an_answer_that_is_no_lease_is_only_trouble() -> None:
    async def run() -> None:
        async with (
            Scripted(Answer(body=b"<html>"), Answer(body=b"[]"), lease_object("ben", 1)) as server,
            Client(Credentials(server.url)) as client,
        ):
            lease = Lease(client, LEASE, "ann", namespace="lab", times=Times(15, 9, 0.1))
            task = asyncio.create_task(lease.run())
            await until(lambda: lease.trouble)
            await until(lambda: lease.holder == "ben")
            task.cancel()

    asyncio.run(run())


@pytest.mark.parametrize("times", [(15, 15, 2), (15, 10, 10), (15, 10, 0), (5, 10, 2)], ids=str)
def test_times_must_leave_a_margin(times: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="retry"):
        Times(*times)


def test_a_write_may_not_outlive_the_margin() -> None:
    async def run() -> None:
        async with Client(Credentials("http://127.0.0.1:1"), limits=Limits()) as client:
            with pytest.raises(ValueError, match="next leader"):
                Lease(client, LEASE, "ann", times=Times(15, 12, 2))

    asyncio.run(run())


def test_identities_differ_and_the_clock_runs() -> None:
    assert new_identity() != new_identity()
    assert new_identity("mooring") != new_identity("mooring")
    assert boot_clock() <= boot_clock()
