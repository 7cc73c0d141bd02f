"""What is carried out, with a server that answers as a story wants it: nothing stays in doubt."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from mooring.kube import carry
from mooring.kube.carry import Carrier, Place
from mooring.kube.driver import Driver, Inbox, Office
from mooring.kube.errors import ApiError, NotLeader, Unanswered, Unreachable
from mooring.kube.kin import Owners
from mooring.kube.resources import PODS
from mooring.kube.watch import Change, Replaced
from mooring.kube.world import World
from mooring.model.events import BindRefused, TasksChanged
from mooring.model.plan import Plan, Stopped, Waiting
from mooring.model.topology import Topology
from mooring.model.workload import TaskState
from tests.kube.manifests import as_pod, pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.kube.client import Client
    from mooring.kube.objects import Pod
    from mooring.kube.watch import Batch
    from mooring.model.events import Event
    from mooring.model.plan import Spot

SPOT: Spot = ("lab/pod/a", "main", 0)
WAITS, GONE = as_pod(pod("a")), ApiError(404, "NotFound")
BOUND = as_pod(pod("a", node="node-0"))
LEAVES = as_pod(pod("a", node="node-0", deletionTimestamp="2026-05-01T12:00:00Z"))
ANOTHER = as_pod(pod("a", uid="another"))
CONFLICT, LOST, AWAY = ApiError(409, "Conflict"), Unanswered("reset"), Unreachable("down")
BUDGET = ApiError(429, "TooManyRequests", details={"causes": [{"reason": "DisruptionBudget"}]})
PLACE = Place("node-0", "0", 0.0)


@pytest.fixture(autouse=True)
def _in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry, "_FIRST_PAUSE_S", 0.0)


class Server:
    """Answers each kind of request from a list; the last answer is for ever."""

    def __init__(self, **answers: list[object]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def _do(self, what: str) -> object:
        self.asked.append(what)
        await asyncio.sleep(0)
        left = self.answers.get(what, [None])
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def bind(self, *_: object, **__: object) -> None:
        await self._do("bind")

    async def evict(self, *_: object, **__: object) -> None:
        await self._do("evict")

    async def get(self, *_: object) -> object:
        return await self._do("get")


class Desk:
    """Notes what it is told; it is the world, too."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.refused_until = 0.0

    def fact(self, event: Event, about: Pod | None = None) -> None:
        state = event.state.name.lower() if isinstance(event, TasksChanged) else ""
        self.told.append(f"{type(event).__name__} {state}".strip())

    def seen(self, found: Pod) -> None:
        where = found.spec.node_name or "nowhere"
        self.told.append(f"seen {'leaving ' if found.metadata.deletion_timestamp else ''}{where}")

    def gone(self, _: Pod) -> None:
        self.told.append("gone")

    def bound(self, _: Pod) -> None:
        self.told.append("bound")

    def stop(self, _: str) -> None:
        self.told.append("stop")

    def refuse(self, _: str, until: float) -> None:
        self.refused_until = until


def play(server: Server, *steps: Callable[[Carrier], None]) -> Desk:
    """Do some steps, and return who was told what when all is done."""
    desk = Desk()

    async def story() -> None:
        carrier = Carrier(cast("Client", server), cast("World", desk), desk)
        task = asyncio.create_task(carrier.run())
        for step in steps:
            step(carrier)
        async with asyncio.timeout(5):
            while carrier.is_busy:  # noqa: ASYNC110
                await asyncio.sleep(0)
        task.cancel()

    asyncio.run(story())
    return desk


def bind(carrier: Carrier) -> None:
    carrier._begin(SPOT, WAITS, PLACE)


def evict(carrier: Carrier) -> None:
    carrier._do(carrier._evict(SPOT, WAITS, 100.0))


BINDS: list[tuple[list[object], list[object], list[str]]] = [
    ([None], [], ["bound"]),
    ([ApiError(422, "Invalid")], [], ["BindRefused"]),
    ([LOST], [BOUND], ["seen node-0"]),
    ([LOST], [*[AWAY] * 9, BOUND], ["seen node-0"]),
    ([LOST], [*[ApiError(500)] * 9, GONE], ["gone"]),
    ([LOST, None], [WAITS], ["seen nowhere", "bound"]),
    ([CONFLICT], [BOUND], ["seen node-0"]),
    ([CONFLICT, None], [WAITS], ["seen nowhere", "bound"]),
    ([CONFLICT], [LEAVES], ["seen leaving node-0"]),
    ([CONFLICT], [ANOTHER], ["gone"]),
    ([GONE], [GONE], ["gone"]),
    ([LOST], [WAITS], ["seen nowhere"] * 5 + ["BindRefused"]),
]
"""Answers to the binds, answers to the looks, and what is told."""


@pytest.mark.parametrize(("binds", "looks", "told"), BINDS)
def test_what_came_of_a_bind_is_known_before_it_is_told(
    binds: list[object], looks: list[object], told: list[str]
) -> None:
    """It is refused only where it is known that the pod has no node."""
    assert play(Server(bind=[*binds], get=[*looks]), bind).told == told


EVICTIONS: list[tuple[list[object], list[object], list[str], float]] = [
    ([None], [], [], 0.0),
    ([BUDGET], [], ["TasksChanged running"], 160.0),
    ([ApiError(500)], [], ["TasksChanged running"], 105.0),
    ([GONE], [GONE], ["gone"], 0.0),
    ([CONFLICT, None], [BOUND], ["seen node-0"], 0.0),
    ([CONFLICT], [LEAVES], ["seen leaving node-0"], 0.0),
    ([LOST], [AWAY, LEAVES], ["seen leaving node-0"], 0.0),
    ([CONFLICT], [BOUND], ["seen node-0"] * 5 + ["TasksChanged running"], 105.0),
]
"""Answers to evictions, answers to looks, what is told, and until when it is left in peace."""


@pytest.mark.parametrize(("evictions", "looks", "told", "until"), EVICTIONS)
def test_who_is_to_leave_leaves_or_is_known_to_stay(
    evictions: list[object], looks: list[object], told: list[str], until: float
) -> None:
    desk = play(Server(evict=[*evictions], get=[*looks]), evict)
    assert (desk.told, desk.refused_until) == (told, until)


def test_who_was_never_bound_is_not_evicted() -> None:
    """A bare pod would be lost for good; it waits again instead."""
    server = Server(bind=[ApiError(422, "Invalid")])
    assert play(server, bind, evict).told == ["BindRefused", "TasksChanged pending"]
    assert server.asked == ["bind"]


def test_who_was_bound_is_evicted_after_that() -> None:
    server = Server(bind=[LOST], get=[BOUND])
    play(server, bind, evict)
    assert server.asked == ["bind", "get", "evict"]


def test_all_that_waits_for_its_turn_ends_with_the_term() -> None:
    server = Server(bind=[NotLeader("deposed")])
    desk = play(server, bind, *[evict] * 100)
    assert set(desk.told) == {"stop", "TasksChanged pending"}


# -- at the end of a term -----------------------------------------------------------------------


class Silent(Server):
    """Answers when it is let."""

    def __init__(self, **answers: list[object]) -> None:
        super().__init__(**answers)
        self.speaks = asyncio.Event()

    async def _do(self, what: str) -> object:
        self.asked.append(what)
        await self.speaks.wait()
        self.asked.pop()
        return await super()._do(what)


def end(server: Silent, *steps: Callable[[Carrier], None], speaks: bool = True) -> bool:
    """Do some steps, and stop; return whether all that was sent has ended."""

    async def story() -> bool:
        carrier = Carrier(cast("Client", server), cast("World", Desk()), Desk())
        task = asyncio.create_task(carrier.run())
        for step in steps:
            step(carrier)
        await asyncio.sleep(0.01)
        resting = asyncio.create_task(carrier.rest(5.0 if speaks else 0.01))
        await asyncio.sleep(0)
        if speaks:
            server.speaks.set()
        is_done = await resting
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return is_done

    return asyncio.run(story())


def bind_another(number: int) -> Callable[[Carrier], None]:
    another = as_pod(pod(f"p{number}"))
    return lambda carrier: carrier._begin((f"lab/pod/p{number}", "main", 0), another, PLACE)


def test_who_stops_begins_nothing_more() -> None:
    server = Silent()
    assert end(server, *map(bind_another, range(200)))
    assert len(server.asked) == carry.WORKERS


def test_who_stops_does_not_evict_who_was_being_bound() -> None:
    server = Silent()
    assert end(server, bind, evict, *[evict] * carry.WORKERS)
    assert server.asked == ["bind"]


@pytest.mark.parametrize(
    ("step", "answers"), [(bind, {"bind": [LOST]}), (evict, {"evict": [LOST]})]
)
def test_who_stops_tries_nothing_again(
    step: Callable[[Carrier], None], answers: dict[str, list[object]]
) -> None:
    server = Silent(get=[WAITS], **answers)
    assert end(server, step)
    assert server.asked == [*answers, "get"]


def test_who_stops_knows_whether_something_is_still_under_way() -> None:
    assert not end(Silent(), bind, speaks=False)


# -- what the loop makes of it ------------------------------------------------------------------


class Engine:
    """Takes facts."""

    def __init__(self) -> None:
        self.observed: list[Event] = []

    def observe(self, event: Event) -> None:
        self.observed.append(event)


class Hearer:
    """Hears nothing."""

    def refused(self) -> None:
        pass


def driver() -> tuple[Driver, Engine]:
    world = World(Topology(), Owners())
    world.put_pod(WAITS)
    world.seat("lab/pod/a", "main", {0: "node-0"})
    made, engine = Driver(world, Inbox(), cast("Any", Hearer())), Engine()
    made._office = Office(cast("Any", engine), cast("Any", engine))
    return made, engine


REFUSED = BindRefused(*SPOT[:2], (0,), "no")
STAYS = TasksChanged(*SPOT[:2], (0,), TaskState.RUNNING)


@pytest.mark.parametrize("event", [REFUSED, STAYS])
def test_what_came_of_a_pod_is_not_told_of_the_next_one_that_has_its_task(event: Event) -> None:
    made, engine = driver()
    made.fact(event, ANOTHER)
    made.inbox.take(made._intake)
    assert not engine.observed
    made.fact(event, WAITS)
    made.inbox.take(made._intake)
    assert engine.observed == [event]


@pytest.mark.parametrize("news", [[Change(PODS, "gone", LEAVES)], Replaced(PODS, [])])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_pod_that_is_gone_does_not_come_back_by_an_older_look(
    news: Batch[Pod], *, is_late: bool
) -> None:
    """It was read, and the watch says that it is gone before that is taken in, or with it."""
    made, _ = driver()
    made.inbox.put([Change(PODS, "put", WAITS)])
    made.inbox.take(made._intake)
    if not is_late:
        made.seen(LEAVES)
    made.inbox.put(news)
    made.inbox.take(made._intake)
    if is_late:
        made.seen(LEAVES)
        made.inbox.take(made._intake)
    assert not made.world.crews["lab/pod/a"].pods


def test_what_was_read_of_a_pod_is_known_before_the_watch_says_it() -> None:
    made, _ = driver()
    made.inbox.put([Change(PODS, "put", WAITS)])
    made.seen(BOUND)
    made.inbox.take(made._intake)
    assert made.world.crews["lab/pod/a"].pods["uid-a"].spec.node_name == "node-0"


def test_facts_of_a_term_that_is_over_are_void() -> None:
    made, engine = driver()
    made.fact(REFUSED, WAITS)
    made._office = None
    made.inbox.take(made._intake)
    made.fact(REFUSED, WAITS)
    made._office = Office(cast("Any", engine), cast("Any", engine))
    made.inbox.take(made._intake)
    assert not engine.observed


def test_why_a_workload_waits_is_told_when_its_pods_are_there() -> None:
    """The engine says a reason once, perhaps while pods are missing: then it is not lost."""
    made, _ = driver()
    waits, short = Waiting("lab/job/a", ()), made.world._short
    short["lab/job/a"] = 0.0
    assert made._to_tell(Plan(waiting=(waits,)), ()) == ()
    off = Waiting("lab/job/a", (Stopped(""),))  # that is only why it is short
    assert made._to_tell(Plan(waiting=(off,)), ()) == ()
    del short["lab/job/a"]
    assert made._to_tell(Plan(), ()) == (waits,)
    assert made._to_tell(Plan(), ()) == ()
    assert made._to_tell(Plan(waiting=(waits,)), ()) == (waits,)
