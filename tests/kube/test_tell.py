"""What people are told: the newest only, slowly, once for a workload, and behind all else."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from mooring.kube import tell as telling
from mooring.kube.bucket import Bucket
from mooring.kube.errors import ApiError, NotLeader, Unanswered, Unreachable
from mooring.kube.log import fields, set_up
from mooring.kube.tell import PodRef, Rates, Subject, Tell
from mooring.kube.verdict import Verdict, message_of
from mooring.model.plan import Evict, NoRoom, Notice, OverQuota, Plan, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from mooring.kube.resources import Resource

FAST = Rates(conditions=10_000, events=10_000, quiet_s=0.0, patience_s=0.2)
ROOM = Waiting("lab/job/a", (NoRoom("main", "cluster", 8, 5),))
LESS = Waiting("lab/job/a", (NoRoom("main", "cluster", 8, 4),))
QUOTA = Waiting("lab/job/a", (OverQuota("lab", "", "gpu", 8000, 4000),))


@dataclass
class Server:
    """Pods in a dict, and what was written to them. It refuses what is out of date."""

    pods: dict[str, PodRef] = field(default_factory=dict)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    writes: list[tuple[str, str]] = field(default_factory=list)
    refuse: list[Exception] = field(default_factory=list)
    seen: dict[str, PodRef] | None = None
    """What the watch has shown so far; None: all."""

    async def create(self, resource: Resource, body: bytes | object, namespace: str = "") -> bytes:
        await self._answer()
        assert isinstance(body, dict)
        name = body["metadata"]["name"]
        self.writes.append(("event", body["reason"]))
        if name in self.events:
            raise ApiError(409, "AlreadyExists")
        self.events[name] = body
        return b""

    async def patch(
        self, resource: Resource, name: str, body: Any, namespace: str = "", **how: Any
    ) -> bytes:
        await self._answer()
        if resource.plural == "events":
            self.writes.append(("series", name))
            if name not in self.events:
                raise ApiError(404, "NotFound")
            self.events[name]["series"] = body["series"]
            return b""
        pod = next((pod for pod in self.pods.values() if pod.name == name), None)
        if pod is None:
            raise ApiError(404, "NotFound")
        meta, (condition,) = body["metadata"], body["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
        self.writes.append(("condition", name))
        if meta["resourceVersion"] != pod.version:
            raise ApiError(409, "Conflict")
        version = str(int(pod.version) + 1)
        told = replace(
            pod, version=version, reason=condition["reason"], message=condition["message"]
        )
        self.pods[pod.uid] = told
        return b""

    async def _answer(self) -> None:
        await asyncio.sleep(0)
        if self.refuse:
            raise self.refuse.pop(0)

    # As the driver sees it.

    def waiting(self, workload: str) -> Iterable[str]:
        return [uid for uid in self.pods if uid.startswith(f"{workload}-")]

    def pod(self, workload: str, uid: str) -> PodRef | None:
        return (self.pods if self.seen is None else self.seen).get(uid)

    def subject(self, workload: str) -> Subject | None:
        _, kind, name = workload.split("/")
        return Subject("batch/v1", kind.title(), "lab", name, f"uid-of-{name}")

    def add(self, workload: str, count: int) -> None:
        for index in range(count):
            uid = f"{workload}-{index}"
            self.pods[uid] = PodRef("lab", uid.replace("/", "-"), uid, "1")

    def told(self) -> set[tuple[str, str]]:
        return {(pod.reason, pod.message) for pod in self.pods.values()}

    def count(self, what: str) -> int:
        return sum(kind == what for kind, _ in self.writes)


def story(
    server: Server,
    *acts: Callable[[Tell], object],
    rates: Rates = FAST,
    between: Callable[[Server], object] = lambda server: None,
    busy: Callable[[], bool] = lambda: False,
) -> Tell:
    """Let acts happen one after the other, with time to write after each."""

    async def run() -> Tell:
        tell = Tell(server, server, rates, instance="one", busy=busy, clock=lambda: 1.7e9)
        tell.start()
        for act in acts:
            act(tell)
            async with asyncio.timeout(5):
                while tell.backlog or tell._writing:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            between(server)
        await tell.stop()
        return tell

    return asyncio.run(run())


def hear(*waiting: Waiting) -> Callable[[Tell], None]:
    return lambda tell: tell.hear(Plan(waiting=waiting))


def test_all_pods_of_a_gang_are_told_and_one_event_is_written() -> None:
    server = Server()
    server.add("lab/job/a", 20)
    tell = story(server, hear(ROOM))
    message = "It needs room for 8 tasks at once; the cluster takes 5 now."
    assert server.told() == {("Unschedulable", message)}
    (event,) = server.events.values()
    assert event["regarding"]["kind"] == "Job"
    assert (event["reason"], event["note"], event["type"]) == ("Unschedulable", message, "Normal")
    assert (tell.counts.conditions, tell.counts.events) == (20, 1)


def test_who_stops_ends_the_write_that_was_begun_and_begins_no_other() -> None:
    """One that is broken off may still be at the server: nobody could say when that is over."""
    ended: list[str] = []

    class Slow(Server):
        async def _answer(self) -> None:
            await asyncio.sleep(0.1)
            ended.append("condition or event")

    async def run() -> None:
        server = Slow()
        server.add("lab/job/a", 20)
        tell = Tell(server, server, FAST)
        tell.start()
        tell.hear(Plan(waiting=(ROOM,)))
        await asyncio.sleep(0.01)
        assert tell._writing == 2
        await tell.stop(0.0)
        assert len(ended) == 2
        assert not tell.backlog

    asyncio.run(run())


def test_what_is_unchanged_is_not_written_again() -> None:
    server = Server()
    server.add("lab/job/a", 5)
    story(server, hear(ROOM), hear(ROOM), lambda tell: tell.refresh("lab/job/a"))
    assert len(server.writes) == 6
    story(server, hear(ROOM))  # a new life, that sees what stands on the pods
    assert server.count("condition") == 5
    assert server.writes[6:] == [("event", "Unschedulable"), ("series", *server.events)]
    assert [event["series"]["count"] for event in server.events.values()] == [2]


def test_only_the_newest_text_is_written() -> None:
    server = Server()
    server.add("lab/job/a", 50)
    acts = [hear(ROOM, LESS, ROOM, QUOTA)]
    story(server, *acts)
    assert {reason for reason, _ in server.told()} == {"WaitsForQuota"}
    assert server.count("condition") == 50
    assert sorted(event["reason"] for event in server.events.values()) == [
        "Unschedulable",
        "WaitsForQuota",
    ]


def test_a_number_that_changes_makes_no_event_and_waits() -> None:
    server = Server()
    server.add("lab/job/a", 3)

    async def run() -> None:
        tell = Tell(server, server, replace(FAST, quiet_s=60.0))
        tell.start()
        for waiting in (ROOM, LESS):
            tell.hear(Plan(waiting=(waiting,)))
            await asyncio.sleep(0.05)
        assert tell.backlog == 1
        await tell.stop(0.05)

    asyncio.run(run())
    assert server.told() == {
        ("Unschedulable", "It needs room for 8 tasks at once; the cluster takes 5 now.")
    }
    assert len(server.events) == 1


def test_a_number_that_changed_is_told_later() -> None:
    server = Server()
    server.add("lab/job/a", 3)
    story(server, hear(ROOM), hear(LESS), rates=replace(FAST, quiet_s=0.05))
    assert all("takes 4 now" in message for _, message in server.told())


def test_one_pod_of_each_workload_in_turn() -> None:
    server = Server()
    server.add("lab/job/a", 100)
    server.add("lab/pod/b", 1)
    other = Waiting("lab/pod/b", ROOM.reasons)
    story(server, hear(ROOM, other))
    names = [name for kind, name in server.writes if kind == "condition"]
    assert names.index("lab-pod-b-0") == 1


def test_a_bound_pod_is_not_touched() -> None:
    """The watch is late: the write is refused, and given up when the pod is seen bound."""
    server = Server()
    server.add("lab/job/a", 2)
    server.seen = dict(server.pods)
    bound = server.pods["lab/job/a-1"]
    server.pods["lab/job/a-1"] = replace(bound, version="9")

    async def run() -> None:
        tell = Tell(server, server, FAST)
        tell.start()
        tell.hear(Plan(waiting=(ROOM,)))
        await asyncio.sleep(0.05)
        assert server.seen is not None
        del server.seen["lab/job/a-1"]
        await asyncio.sleep(0.6)
        await tell.stop()

    asyncio.run(run())
    assert server.pods["lab/job/a-1"] == replace(bound, version="9")
    assert server.writes.count(("condition", "lab-job-a-1")) == 1


def test_who_starts_is_not_told_why_it_waited() -> None:
    server = Server()
    server.add("lab/job/a", 50)

    def act(tell: Tell) -> None:
        tell.hear(Plan(waiting=(ROOM,)))
        tell.hear(Plan(waiting=(Waiting("lab/job/a", ()),)))
        tell.started("lab/job/a", ["n1", "n1", "n2"])

    story(server, act)
    assert server.count("condition") == 0
    assert [event["note"] for event in server.events.values()][
        -1
    ] == "3 tasks on 2 nodes: n1 and n2."


@pytest.mark.parametrize(
    ("nodes", "note"),
    [
        (["n1"], "1 task on node n1."),
        (["n1"] * 8, "8 tasks on node n1."),
        ([f"n{i}" for i in range(5)], "5 tasks on 5 nodes: n0, n1, n2 and 2 more."),
    ],
)
def test_starts_are_one_event(nodes: list[str], note: str) -> None:
    server = Server()
    story(server, lambda tell: tell.started("lab/job/a", nodes))
    (event,) = server.events.values()
    assert (event["reason"], event["action"], event["note"]) == ("Scheduled", "Binding", note)


def test_an_eviction_says_why_and_for_whom() -> None:
    server = Server()
    evicts = [Evict("lab/job/a", g, (0, 1), "quota", "lab/job/b") for g in ("main", "more")]
    notice = Notice("lab/job/c", "run-limit", 1.7e9)
    story(server, lambda tell: tell.hear(Plan((*evicts, notice))))
    evicted, warned = sorted(server.events.values(), key=lambda event: str(event["reason"]))
    assert evicted["note"] == (
        "4 tasks must leave: it used what is another queue's quota; for lab/job/b."
    )
    assert evicted["related"]["name"] == "b"
    assert warned["reason"] == "WillBeEvicted"
    assert (
        warned["note"] == "It will have to leave at 2023-11-14 22:14 UTC: it ran as long as it may."
    )


def test_too_many_events_lose_the_oldest() -> None:
    server = Server()

    def act(tell: Tell) -> None:
        for index in range(30):
            tell.started(f"lab/pod/{index}", ["n1"])

    tell = story(server, act, rates=replace(FAST, most_events=10))
    assert tell.counts.dropped == 20
    names = [event["regarding"]["name"] for event in server.events.values()]
    assert names == [str(index) for index in range(20, 30)]


def test_an_event_that_ran_out_is_written_anew() -> None:
    server = Server()
    again = lambda tell: tell.started("lab/pod/a", ["n1"])  # noqa: E731
    story(server, again, again, again, between=lambda server: None)
    assert [event["series"]["count"] for event in server.events.values()] == [3]
    server = Server()
    story(server, again, again, between=lambda server: server.events.clear())
    assert [kind for kind, _ in server.writes] == ["event", "series", "event"]


def test_mistakes_are_told() -> None:
    server = Server()
    server.add("lab/pod/a", 1)
    story(server, lambda tell: tell.problems("lab/pod/a", ["x: 1: give y", "z: give w"]))
    assert server.told() == {
        ("NotUnderstood", "It cannot be understood: (1) x: 1: give y (2) z: give w")
    }
    assert [event["type"] for event in server.events.values()] == ["Warning"]


def test_a_deposed_leader_tells_nothing_more() -> None:
    server = Server(refuse=[NotLeader(), NotLeader()])
    server.add("lab/job/a", 50)
    tell = story(server, hear(ROOM))
    assert server.writes == []
    assert tell.backlog == 0


def test_errors_are_counted_and_the_rest_is_told() -> None:
    server = Server(refuse=[ApiError(403, "Forbidden"), ApiError(500)])
    server.add("lab/job/a", 10)
    tell = story(server, hear(ROOM))
    assert tell.counts.errors == 2
    assert server.count("condition") in (8, 9)


@pytest.mark.parametrize(
    "error",
    [ApiError(500), ApiError(429), ApiError(409, "Conflict"), Unanswered("x"), Unreachable("x")],
    ids=repr,
)
def test_a_pod_is_told_however_often_the_server_fails(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three pods have bad luck, one of them again and again."""
    monkeypatch.setattr(telling, "_AGAIN_S", 0.001)
    server = Server()
    server.add("lab/job/a", 3)

    async def run() -> None:
        tell = Tell(server, server, FAST, clock=lambda: 1.7e9)
        tell.start()
        tell.hear(Plan(waiting=(ROOM,)))
        await asyncio.sleep(0.01)  # the Event is out
        server.pods = {uid: replace(pod, reason="", message="") for uid, pod in server.pods.items()}
        server.refuse += [error] * 5
        tell.hear(Plan(waiting=(QUOTA,)))
        async with asyncio.timeout(5):
            while server.told() != {("WaitsForQuota", message_of(QUOTA.reasons, is_alone=True))}:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        await tell.stop()

    asyncio.run(run())


@pytest.mark.parametrize("status", [403, 422])
def test_what_the_server_will_never_take_is_not_tried_again(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "_AGAIN_S", 0.001)
    server = Server()
    server.add("lab/job/a", 1)

    async def run() -> None:
        tell = Tell(server, server, FAST, clock=lambda: 1.7e9)
        tell.start()
        tell._say("lab/job/a", telling._Text("NoRoom", warns=False, message="full"))
        tell._events.clear()
        server.refuse.append(ApiError(status))
        await asyncio.sleep(0.05)
        await tell.stop()
        assert tell.counts.errors == 1
        assert tell.counts.conditions == 0

    asyncio.run(run())


def test_bindings_go_first_but_not_for_ever() -> None:
    server = Server()
    looks = iter(range(10_000))
    done: list[int] = []

    def busy() -> bool:
        done.append(len(server.writes))
        return next(looks) < 5

    story(server, lambda tell: tell.say("lab/pod/a", Verdict("X", "x")), busy=busy)
    assert done[:5] == [0] * 5
    server = Server()
    story(
        server, lambda tell: tell.say("lab/pod/a", Verdict("X", "x")), busy=lambda: True,
        rates=replace(FAST, patience_s=0.05),
    )  # fmt: skip
    assert len(server.events) == 1


def test_stop_writes_what_waits_but_not_for_long() -> None:
    server = Server()
    server.add("lab/job/a", 100)

    async def run() -> None:
        tell = Tell(server, server, replace(FAST, conditions=10))
        tell.start()
        tell.hear(Plan(waiting=(ROOM,)))
        await tell.stop(0.1)

    asyncio.run(run())
    assert 10 <= server.count("condition") <= 12


def test_a_bucket_lets_through_what_it_may() -> None:
    now = [0.0]
    bucket = Bucket(10.0, 2.0, lambda: now[0])
    take: Callable[[], Coroutine[Any, Any, None]] = bucket.take
    asyncio.run(take())
    asyncio.run(take())
    assert bucket.wait_s() == pytest.approx(0.1)
    now[0] = 0.05
    assert bucket.wait_s() == pytest.approx(0.05)
    now[0] = 60.0
    assert bucket.wait_s() == 0.0
    asyncio.run(take())
    asyncio.run(take())
    assert bucket.wait_s() == pytest.approx(0.1)


@pytest.mark.parametrize("form", ["json", "text"])
def test_logs_are_fields(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        set_up("debug", form)
        logging.getLogger("mooring.kube.x").info("bound", extra=fields(workload="a b", tasks=8))
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        logging.getLogger("mooring").setLevel(logging.NOTSET)
    line = capsys.readouterr().err
    if form == "json":
        told = json.loads(line)
        assert (told["event"], told["workload"], told["tasks"]) == ("bound", "a b", 8)
    else:
        assert 'level=info from=kube.x event=bound workload="a b" tasks=8' in line
