"""The memory outlives a restart, and only the leader writes it."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from dataclasses import dataclass, field, fields
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from mooring.engine import Engine
from mooring.kube.errors import ApiError, NotLeader, Unanswered
from mooring.kube.store import (
    DROPPED,
    ENTRY,
    FORMAT,
    NotOursError,
    Place,
    Saver,
    Store,
    UnreadableMemoryError,
    fit,
    pack,
    unpack,
)
from mooring.model.cluster import Device, Node
from mooring.model.events import NodeJoined, Submitted
from mooring.model.memory import Held, Memory, Past, ShadowRun
from mooring.model.topology import Topology
from mooring.model.workload import Placement, PodGroup, Shape, Workload

if TYPE_CHECKING:
    from mooring.kube.resources import Resource

SOME = Memory(arrivals=7, pasts=(("lab/job/a", Past(failures=2)),))
OTHER = Memory(arrivals=8)


@dataclass
class Server:
    """Objects with versions, as the API server guards them."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: int = 10
    writes: int = 0
    lose_answers: int = 0
    refuse: Exception | None = None

    async def create(self, resource: Resource, body: Any, namespace: str = "") -> bytes:
        name = body["metadata"]["name"]
        if name in self.objects:
            raise ApiError(409, "AlreadyExists")
        return self._put(name, body)

    async def replace(self, resource: Resource, name: str, body: Any, namespace: str = "") -> bytes:
        if name not in self.objects:
            raise ApiError(404, "NotFound")
        given = body["metadata"].get("resourceVersion")
        if given and given != self.objects[name]["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict")
        return self._put(name, body)

    async def request(self, method: str, path: str) -> bytes:
        name = path.rpartition("/")[2]
        if name not in self.objects:
            raise ApiError(404, "NotFound")
        return json.dumps(self.objects[name]).encode()

    def _put(self, name: str, body: Any) -> bytes:
        if self.refuse is not None:
            raise self.refuse
        self.version += 1
        self.writes += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.objects[name] = body
        if self.lose_answers:
            self.lose_answers -= 1
            raise Unanswered("lost")
        return json.dumps(body).encode()


def store(server: Server, writer: str = "one", **more: Any) -> Store:
    return Store(server, Place("mooring-system", writer=writer, **more))


def test_a_memory_comes_back() -> None:
    async def run() -> None:
        server = Server()
        first = store(server)
        assert await first.load() == Memory()
        assert await first.save(SOME)
        assert first.counts.size > 0
        second = store(server, "two")
        assert await second.load() == SOME

    asyncio.run(run())


def test_what_has_not_changed_is_not_written() -> None:
    async def run() -> None:
        server = Server()
        one = store(server)
        await one.load()
        assert [await one.save(memory) for memory in (SOME, SOME, OTHER)] == [True, False, True]
        assert server.writes == 3

    asyncio.run(run())


def test_a_deposed_leader_cannot_overwrite() -> None:
    """Not even with its first write after the new one has only read."""

    async def run() -> None:
        server = Server()
        old, new = store(server, "old"), store(server, "new")
        await old.load()
        await old.save(SOME)
        assert await new.load() == SOME
        with pytest.raises(NotOursError):
            await old.save(OTHER)
        assert await new.save(Memory(arrivals=9))
        assert await store(server, "third").load() == Memory(arrivals=9)

    asyncio.run(run())


def test_an_answer_that_was_lost_does_not_stop_the_leader() -> None:
    async def run() -> None:
        server = Server()
        one = store(server)
        await one.load()
        server.lose_answers = 1
        assert not await one.save(SOME)
        assert await one.save(OTHER)
        assert one.counts.failed == 1
        assert await store(server, "two").load() == OTHER

    asyncio.run(run())


def test_an_object_that_somebody_deleted_is_made_again() -> None:
    async def run() -> None:
        server = Server()
        one = store(server)
        await one.load()
        server.objects.clear()
        assert await one.save(SOME)
        assert await store(server, "two").load() == SOME

    asyncio.run(run())


def blob(data: object) -> str:
    return base64.b64encode(zlib.compress(json.dumps(data).encode())).decode()


UNREADABLE = {
    "no base64": ("%%%", "no compressed JSON"),
    "not compressed": (base64.b64encode(b"{}").decode(), "no compressed JSON"),
    "cut off": (base64.b64encode(pack(SOME)[:-9]).decode(), "cut off"),
    "no JSON": (base64.b64encode(zlib.compress(b"{")).decode(), "no compressed JSON"),
    "no object": (blob([]), "no format"),
    "no format": (blob({"memory": {}}), "no format"),
    "a later format": (blob({"format": FORMAT + 1, "memory": {}}), "knows formats up to"),
    "an unknown field": (blob({"format": FORMAT, "memory": {"moods": []}}), "unknown field"),
    "a wrong type": (blob({"format": FORMAT, "memory": {"arrivals": "x"}}), "arrivals"),
    "no memory": (blob({"format": FORMAT}), "expected an object"),
}


@pytest.mark.parametrize(("text", "why"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_kept_aside(
    text: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UnreadableMemoryError, match=why):
        unpack(text)

    async def run() -> None:
        server = Server()
        server.objects["mooring-memory"] = {
            "metadata": {"resourceVersion": "1"},
            "binaryData": {ENTRY: text},
        }
        one = store(server)
        assert await one.load() == Memory()
        assert one.counts.unreadable == 1
        await one.save(SOME)
        assert server.objects["mooring-memory-aside"]["binaryData"] == {ENTRY: text}
        assert await store(server, "two").load() == SOME

    asyncio.run(run())
    assert "memory unreadable" in caplog.text


def test_an_older_one_that_is_aside_makes_way() -> None:
    async def run() -> None:
        server = Server()
        for text in ("%%%", "&&&"):
            server.objects["mooring-memory"] = {
                "metadata": {"resourceVersion": "1"},
                "binaryData": {ENTRY: text},
            }
            await store(server).load()
        assert server.objects["mooring-memory-aside"]["binaryData"] == {ENTRY: "&&&"}

    asyncio.run(run())


def large() -> Memory:
    """Return a memory of which nothing can be compressed well."""
    random = Random(1)
    names = [f"{random.getrandbits(256):x}" for _ in range(3000)]
    place = (Placement("main", (0,), ("n0",), (1,)),)
    work = (PodGroup("main", Shape(gpus=1)),)
    return Memory(
        arrivals=3,
        shadow=tuple(ShadowRun(Workload(name, work)) for name in names),
        pasts=tuple((name, Past(failures=1)) for name in names),
        holds=(Held("lab/job/a", place, 9.0),),
    )


def test_what_is_too_large_leaves_out_what_can_be_learnt_again() -> None:
    memory = large()
    whole = len(pack(memory))
    cut, dropped = fit(memory, whole - 1)
    assert dropped == ("shadow",)
    found = unpack(base64.b64encode(cut).decode())
    assert (found.shadow, found.pasts, found.holds) == ((), memory.pasts, memory.holds)
    assert fit(memory, whole)[1] == ()
    cut, dropped = fit(memory, 1000)
    assert dropped == ("shadow", "pasts")
    assert unpack(base64.b64encode(cut).decode()).holds == memory.holds
    with pytest.raises(ValueError, match="can be stored"):
        fit(memory, 10)


def test_a_memory_that_cannot_be_stored_is_no_end(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        server = Server()
        one = store(server, most_bytes=10)
        await one.load()
        assert not await one.save(SOME)
        assert one.counts.failed == 1

    asyncio.run(run())
    assert "memory not stored" in caplog.text


def test_what_may_be_left_out_is_there() -> None:
    assert {*DROPPED} < {each.name for each in fields(Memory)}
    assert all(getattr(Memory(), name) == () for name in DROPPED)


def test_it_is_saved_now_and_then_and_at_the_end() -> None:
    async def run() -> None:
        server, memory = Server(), [SOME]
        one = store(server)
        await one.load()
        saver = Saver(one, lambda: memory[0], every_s=60.0)
        saver.start()
        await asyncio.sleep(0.05)
        assert one.counts.saved == 1
        memory[0] = OTHER
        await asyncio.sleep(0.05)
        assert one.counts.saved == 1
        await saver.stop()
        assert await store(server, "two").load() == OTHER

    asyncio.run(run())


def test_who_asks_waits_until_all_that_is_known_is_stored() -> None:
    async def run() -> None:
        server, memory = Server(), [SOME]
        one = store(server)
        await one.load()
        saver = Saver(one, lambda: memory[0], every_s=60.0)
        await saver.flush()  # it has not begun: nobody waits for ever
        saver.start()
        await saver.flush()
        memory[0] = OTHER
        await asyncio.wait_for(asyncio.gather(saver.flush(), saver.flush()), 5)
        assert unpack(server.objects[one.place.name]["binaryData"][ENTRY]) == OTHER
        assert one.counts.saved == 2
        server.refuse = NotLeader("x")
        memory[0] = SOME
        await asyncio.wait_for(saver.flush(), 5)
        await saver.stop()

    asyncio.run(run())


@pytest.mark.parametrize("refusal", [NotLeader("x"), None])
def test_who_has_lost_the_memory_is_told(refusal: Exception | None) -> None:
    async def run() -> None:
        server, lost = Server(), asyncio.Event()
        one = store(server)
        await one.load()
        if refusal is None:
            await store(server, "two").load()
        server.refuse = refusal
        saver = Saver(one, lambda: SOME)
        saver.start(lost.set)
        await asyncio.wait_for(lost.wait(), 5)
        await saver.stop()

    asyncio.run(run())


def test_a_memory_of_those_who_are_gone_does_no_harm() -> None:
    """Workloads end while nobody looks."""
    place = (Placement("main", (0,), ("n0",), (1,)),)
    work = Workload("ghost", (PodGroup("main", Shape(gpus=1)),))
    memory = Memory(
        pasts=(("ghost", Past(failures=2)),),
        overtakers=("ghost",),
        reserved=(("ghost", ("n0",)),),
        holds=(Held("ghost", place, 1e9), Held("there", place, 1e9, (("ghost", "main", 0),))),
        latest_starts=(("ghost", 100.0),),
        loans=(("ghost", "main", (0,), "gone"),),
        shadow=(ShadowRun(work, 10.0, place),),
        node_failures=(("gone", ((1.0, "ghost"),)),),
    )
    engine = Engine(Topology(), memory=unpack(base64.b64encode(pack(memory)).decode()))
    engine.observe(NodeJoined(Node("n0", (("cpu", 8000), ("pods", 9)), devices=(Device(),) * 2)))
    engine.observe(Submitted(Workload("there", (PodGroup("main", Shape(gpus=1)),))))
    started = [plan.decisions for plan in map(engine.decide, (20.0, 2e9))]
    assert any(started)
    assert engine.waiting() == []
