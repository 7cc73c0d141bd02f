"""The loop with a real engine and real hands, and a server that answers when a story wants it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from mooring.engine import Engine
from mooring.kube import carry, driver
from mooring.kube.audience import Audience
from mooring.kube.carry import Carrier
from mooring.kube.client import Limits
from mooring.kube.driver import Driver, Inbox, Office
from mooring.kube.errors import ApiError
from mooring.kube.kin import Owners
from mooring.kube.objects import Unreadable, read_node
from mooring.kube.resources import NODES, PODS
from mooring.kube.tell import Tell
from mooring.kube.watch import Change
from mooring.kube.world import World
from mooring.model.memory import Memory
from mooring.model.queues import Queue
from mooring.model.settings import Policy
from mooring.model.topology import Topology
from mooring.model.workload import TaskState
from tests.kube.manifests import Json, as_pod, pod
from tests.kube.plane import node

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import pytest

    from mooring.kube.watch import Verb


class Hearer:
    """Hears nothing."""

    def cycle(self, *_: object) -> None:
        pass

    def bound(self, _: float) -> None:
        pass

    def refused(self) -> None:
        pass


class Server:
    """Keeps binds until it is told what to answer."""

    def __init__(self) -> None:
        self.open: list[tuple[str, asyncio.Future[None]]] = []
        """To which nodes, of binds that have no answer yet."""
        self.limits = Limits(write_timeout_s=0.01)
        self.has_rested = False

    async def bind(self, _: str, __: str, node: str, **___: object) -> None:
        answer = asyncio.get_running_loop().create_future()
        self.open.append((node, answer))
        try:
            await answer
        finally:
            self.open.remove((node, answer))

    async def at_rest(self) -> None:
        self.has_rested = not self.open

    async def patch(self, *_: object, **__: object) -> None:
        pass

    @property
    def nodes(self) -> list[str]:
        return [node for node, _ in self.open]


class Stage:
    """A leader, and what it sees."""

    def __init__(self, tell: Callable[[World], Tell] | None = None) -> None:
        self.server, self.world = Server(), World(Topology(), Owners())
        self.driver = Driver(self.world, Inbox(), cast("Any", Hearer()))
        self.engine = Engine(Topology(), Policy(), Memory(), (Queue("default"),))
        client = cast("Any", self.server)
        told = tell(self.world) if tell else None
        self.driver._office = Office(self.engine, self.engine, client, told)
        self.carrier = self.driver._carrier = Carrier(client, self.world, self.driver)
        self.work = asyncio.create_task(self.carrier.run())
        self.world.begin()

    def sees(self, *pods: Json, verb: Verb = "put") -> None:
        self.driver.inbox.put([Change(PODS, verb, as_pod(each)) for each in pods])

    def sees_node(self, name: str, verb: Verb = "put") -> None:
        found = read_node(node(name, 8))
        assert not isinstance(found, Unreadable)
        self.driver.inbox.put([Change(NODES, verb, found)])

    async def cycle(self) -> None:
        """Decide, and let hands begin."""
        self.driver.cycle()
        await self.passes()

    async def passes(self) -> None:
        """Let all go on that can."""
        for _ in range(20):
            await asyncio.sleep(0)
        if self.work.done():
            self.work.result()

    def states(self, workload: str) -> str:
        members = self.engine.entries()[workload].members["main"]
        return "".join(TaskState(each).name[0] for each in members.states)


def play(story: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(story())


def versioned(number: int, **more: Any) -> Json:
    return pod("a", gpus=8, resourceVersion=str(number), **more)


async def _loses_its_node() -> Stage:
    """Let a node leave while a pod is being bound to it, and another one come."""
    stage = Stage()
    stage.sees_node("node-0")
    stage.sees(versioned(1))
    await stage.cycle()
    assert stage.server.nodes == ["node-0"]
    stage.sees_node("node-0", "gone")
    stage.sees_node("node-1")
    stage.sees(versioned(2))  # a condition, say
    await stage.cycle()
    await stage.cycle()
    return stage


def test_a_pod_gets_no_other_place_before_its_bind_is_answered() -> None:
    """Two binds under way: one could be made that nobody knows of, and the process ended by it."""

    async def story() -> None:
        stage = await _loses_its_node()
        assert stage.server.nodes == ["node-0"]
        stage.server.open[0][1].set_exception(ApiError(422, "Invalid", "no such node"))
        await stage.passes()
        await stage.cycle()
        assert stage.server.nodes == ["node-1"]
        assert stage.states("lab/pod/a") == "A", "that the other was refused is not about this one"
        stage.server.open[0][1].set_result(None)
        await stage.passes()
        stage.sees(versioned(3, node="node-1"))
        await stage.cycle()
        assert stage.states("lab/pod/a") == "B"

    play(story)


def test_a_term_ends_when_nothing_that_was_broken_off_can_be_at_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver, "REST_S", 0.01)

    async def story() -> None:
        stage = Stage()
        stage.sees_node("node-0")
        stage.sees(versioned(1))
        await stage.cycle()
        await stage.driver._rest(cast("Any", stage.server), stage.work)
        assert stage.work.done()
        assert not stage.server.nodes
        assert stage.server.has_rested

    play(story)


def misread(number: int) -> Json:
    return pod(f"p{number}", annotations={"mooring.dev/min": "many"})


def told_by(world: World) -> Tell:
    return Tell(cast("Any", None), Audience(world))


def test_of_workloads_that_are_gone_no_text_is_kept() -> None:
    """The engine never heard of them, and could not say that they ended."""

    async def story() -> None:
        stage = Stage(told_by)
        tell = stage.driver._office.tell if stage.driver._office else None
        assert tell is not None
        stage.sees(*map(misread, range(3)))
        await stage.cycle()
        assert len(tell._told) == 3
        stage.sees(misread(0), misread(1), verb="gone")
        await stage.cycle()
        assert list(tell._told) == ["lab/pod/p2"] == list(tell._walks)

    play(story)


def test_nominations_of_pods_that_are_gone_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry, "TIDY", 10)

    async def story() -> None:
        stage = Stage()
        stage.sees(pod("stays"))
        await stage.cycle()
        for name in ("stays", *map(str, range(100))):
            stage.sees(pod(name))
            await stage.cycle()
            stage.carrier._name(as_pod(pod(name)), "node-0")
            await stage.passes()
            if name != "stays":
                stage.sees(pod(name), verb="gone")
        assert len(stage.carrier._nominated) <= 10
        assert stage.carrier._nominated["uid-stays"] == "node-0"

    play(story)


def test_a_standby_keeps_nothing_of_workloads_that_are_gone() -> None:
    async def story() -> None:
        stage = Stage()
        stage.sees(pod("a"), pod("b"), misread(0))
        await stage.driver.look_around()
        stage.sees(pod("a"), misread(0), verb="gone")
        await stage.driver.look_around()
        assert list(stage.world.crews) == ["lab/pod/b"] == list(stage.world._joined)
        stage.world.begin()
        stage.sees_node("node-0")
        await stage.cycle()
        assert stage.states("lab/pod/b") == "A"

    play(story)


def test_a_pod_that_was_bound_to_a_node_that_is_gone_waits_for_its_controller() -> None:
    async def story() -> None:
        stage = await _loses_its_node()
        stage.server.open[0][1].set_result(None)
        await stage.passes()
        stage.sees(versioned(3, node="node-0"))
        await stage.cycle()
        assert not stage.server.nodes
        stage.sees(versioned(3, node="node-0"), verb="gone")
        stage.sees(pod("a", gpus=8, uid="another"))
        await stage.cycle()
        assert stage.server.nodes == ["node-1"]

    play(story)
