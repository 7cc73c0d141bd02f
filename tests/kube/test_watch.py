"""A watch: whatever happens to its stream, the receiver ends up with what is there."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from mooring.kube.client import Client, Limits
from mooring.kube.credentials import Credentials
from mooring.kube.kubeconfig import load_kubeconfig
from mooring.kube.objects import PartialObject, Pod, Unreadable
from mooring.kube.resources import CONFIG_MAPS, PODS, Resource, Select
from mooring.kube.watch import Batch, Pace, Replaced, Watch
from tests.kube.scripted import Answer, Relay, Scripted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kube.plane import Plane

Object = dict[str, Any]
QUICK = Pace(quiet_s=5, turn_s=30, first_wait_s=0.02, most_wait_s=0.1)


class Store:
    """What a receiver knows, and how it came to know."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.story: list[str] = []

    def __call__(self, batch: Batch[Any]) -> None:
        if isinstance(batch, Replaced):
            self.objects = {each.metadata.name: each for each in batch.objects}
            self.story.append("all " + " ".join(sorted(self.objects)))
            return
        for change in batch:
            name = change.object.metadata.name
            self.story.append(f"{change.verb} {name}")
            if change.verb == "put":
                self.objects[name] = change.object
            else:
                self.objects.pop(name, None)


async def until(true: Callable[[], object], what: str = "it happens") -> None:
    for _ in range(1500):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"waited in vain until {what}")


def config_map(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def watched(url: str, plane: Plane) -> Client:
    credentials = load_kubeconfig([plane.kubeconfig])
    credentials.server = url
    return Client(credentials, limits=Limits(page=2))


# With a real server.


def test_puts_and_removals_are_seen_in_order(plane: Plane, namespace: str) -> None:
    select = Select(namespace, labels="seen=yes")

    async def story() -> None:
        async with await watched(plane.url, plane) as client:
            for name in ("a", "b", "c"):
                thing = config_map(name)
                thing["metadata"]["labels"] = {"seen": "yes"}
                await client.create(CONFIG_MAPS, thing, namespace)
            store = Store()
            watch = Watch(client, CONFIG_MAPS, PartialObject, store, select)
            task = asyncio.create_task(watch.run())
            await asyncio.wait_for(watch.synced.wait(), 10)
            await client.create(CONFIG_MAPS, config_map("unseen"), namespace)
            await client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, namespace)
            await client.delete(CONFIG_MAPS, "b", namespace)
            change = {"metadata": {"labels": {"seen": None}}}
            await client.patch(CONFIG_MAPS, "c", change, namespace)  # leaves what is selected
            await until(lambda: len(store.story) == 4)
            assert store.story == ["all a b c", "put a", "gone b", "gone c"]
            assert watch.trouble == ""
            task.cancel()

    asyncio.run(story())


def test_metadata_is_watched_alone(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with await watched(plane.url, plane) as client:
            store = Store()
            select = Select(namespace, fields="metadata.name!=kube-root-ca.crt", metadata_only=True)
            watch = Watch(client, CONFIG_MAPS, PartialObject, store, select)
            task = asyncio.create_task(watch.run())
            await asyncio.wait_for(watch.synced.wait(), 10)
            await client.create(CONFIG_MAPS, config_map("a"), namespace)
            await until(lambda: "a" in store.objects)
            assert store.objects["a"].kind == "PartialObjectMetadata"
            task.cancel()

    asyncio.run(story())


def test_a_cut_stream_goes_on_where_it_was(plane: Plane, namespace: str) -> None:
    """While objects come and go, connections are reset: nothing is missed, nothing listed again."""

    async def story() -> None:
        random = Random(5)
        async with (
            Relay(plane.url) as relay,
            await watched(relay.url, plane) as client,
            await watched(plane.url, plane) as direct,
        ):
            store = Store()
            select = Select(namespace, fields="metadata.name!=kube-root-ca.crt")
            watch = Watch(client, CONFIG_MAPS, PartialObject, store, select)
            watch.pace = QUICK
            task = asyncio.create_task(watch.run())
            await asyncio.wait_for(watch.synced.wait(), 10)
            cut = 0
            for i in range(60):
                await direct.create(CONFIG_MAPS, config_map(f"c{i}"), namespace)
                if i % 3 == 0:
                    await direct.delete(CONFIG_MAPS, f"c{i - i // 2}", namespace)
                if random.random() < 0.2:
                    cut += relay.cut()
                    await asyncio.sleep(0.02)
            there = await direct.list(CONFIG_MAPS, PartialObject, select)
            wanted = {each.metadata.name for each in there.objects}
            await until(lambda: set(store.objects) == wanted, "the store is as the server")
            assert cut >= 3
            assert watch.lists == 1
            told = [line for line in store.story if line.startswith("put")]
            assert told == [f"put c{i}" for i in range(60)]
            task.cancel()

    asyncio.run(story())


def test_who_was_away_too_long_lists_again_and_sees_what_is_gone(
    plane: Plane, namespace: str
) -> None:
    async def story() -> None:
        async with (
            Relay(plane.url) as relay,
            await watched(relay.url, plane) as client,
            await watched(plane.url, plane) as direct,
        ):
            for name in ("a", "b"):
                await direct.create(CONFIG_MAPS, config_map(name), namespace)
            store = Store()
            select = Select(namespace, fields="metadata.name!=kube-root-ca.crt")
            watch = Watch(client, CONFIG_MAPS, PartialObject, store, select)
            watch.pace = replace(QUICK, stubborn=10**6)  # only a 410 makes it list again
            task = asyncio.create_task(watch.run())
            await asyncio.wait_for(watch.synced.wait(), 10)
            relay.refusing = True
            relay.cut()
            await until(lambda: watch.trouble)
            await direct.delete(CONFIG_MAPS, "a", namespace)
            await asyncio.to_thread(plane.restart, "kube-apiserver")
            watch._version = "1"  # of which the new server knows nothing
            relay.refusing = False
            await until(lambda: watch.lists == 2)
            assert store.story[-1] == "all b"
            await direct.create(CONFIG_MAPS, config_map("c"), namespace)
            await until(lambda: "c" in store.objects)
            assert watch.trouble == ""
            task.cancel()

    asyncio.run(story())


def test_who_asks_again_knows_all_that_was_written_before(plane: Plane, namespace: str) -> None:
    """A stream may be behind, or be cut off and not know it; a new list is not."""

    async def story() -> None:
        async with Relay(plane.url) as relay, await watched(relay.url, plane) as client:
            store = Store()
            watch = Watch(client, CONFIG_MAPS, PartialObject, store, Select(namespace))
            watch.pace = QUICK
            task = asyncio.create_task(watch.run())
            await watch.synced.wait()
            for number in range(5):
                plane.api.create(config_map(f"new-{number}") | {
                    "metadata": {"name": f"new-{number}", "namespace": namespace}
                })  # fmt: skip
                await asyncio.gather(watch.again(), watch.again())
                assert f"new-{number}" in store.objects
            lists = watch.lists
            plane.api.delete(f"/api/v1/namespaces/{namespace}/configmaps/new-0")
            await until(lambda: "new-0" not in store.objects, "the stream goes on")
            assert watch.lists == lists
            task.cancel()

    asyncio.run(story())


def test_a_dead_connection_is_noticed(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with (
            Relay(plane.url) as relay,
            await watched(relay.url, plane) as client,
            await watched(plane.url, plane) as direct,
        ):
            store = Store()
            watch = Watch(client, CONFIG_MAPS, PartialObject, store, Select(namespace))
            watch.pace = Pace(quiet_s=0.5, first_wait_s=0.02)
            task = asyncio.create_task(watch.run())
            await asyncio.wait_for(watch.synced.wait(), 10)
            relay.flowing.clear()
            await direct.create(CONFIG_MAPS, config_map("a"), namespace)
            await until(lambda: watch.trouble)
            relay.cut()
            relay.flowing.set()
            await until(lambda: "a" in store.objects)
            task.cancel()

    asyncio.run(story())


def test_a_closed_client_leaves_no_connection_open(plane: Plane, namespace: str) -> None:
    """Not even one whose other end does not answer any more."""

    async def story() -> None:
        async with Relay(plane.url) as relay:
            client = await watched(relay.url, plane)
            watch = Watch(client, CONFIG_MAPS, PartialObject, Store(), Select(namespace))
            task = asyncio.create_task(watch.run())
            await until(lambda: watch._answer)
            assert watch._answer is not None
            assert watch._answer.connection is not None
            assert watch._answer.connection.transport is not None
            followed = watch._answer.connection.transport.get_extra_info("socket")
            await client.list(CONFIG_MAPS, PartialObject, Select(namespace))  # one that rests
            relay.flowing.clear()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            async with asyncio.timeout(5):
                await client.close()
            assert followed.fileno() == -1

    asyncio.run(story())


def test_a_resource_that_the_server_does_not_have_is_waited_for(plane: Plane) -> None:
    async def story() -> None:
        async with await watched(plane.url, plane) as client:
            store = Store()
            unknown = Resource("batch.example", "v1", "jobs")
            watch = Watch(client, unknown, PartialObject, store)
            watch.pace = QUICK
            task = asyncio.create_task(watch.run())
            await until(lambda: "404" in watch.trouble)
            assert not watch.synced.is_set()
            task.cancel()

    asyncio.run(story())


# Odd streams.


def event(verb: str, name: str, version: int, **more: Any) -> bytes:
    thing = {"metadata": {"name": name, "resourceVersion": str(version)}, **more}
    return json.dumps({"type": verb, "object": thing}).encode() + b"\n"


def error(code: int, reason: str = "") -> bytes:
    status = {"kind": "Status", "metadata": {}, "status": "Failure", "code": code, "reason": reason}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


def listed(version: int, *names: str) -> Answer:
    items = [{"metadata": {"name": name}} for name in names]
    return Answer(body={"metadata": {"resourceVersion": str(version)}, "items": items})


def stream(*pieces: bytes, cut: bool = True) -> Answer:
    return Answer(stream=pieces, cut=cut)


OPEN = stream(b"\n", cut=False)


def told(answers: list[Answer], lines: int, pace: Pace = QUICK) -> tuple[list[str], list[str]]:
    """Return what a receiver was told, and from which versions was watched, `list` for a list."""

    async def run() -> tuple[list[str], list[str]]:
        store = Store()
        async with Scripted(*answers, OPEN) as server, Client(Credentials(server.url)) as client:
            watch = Watch(client, PODS, Pod, store)
            watch.pace = pace
            task = asyncio.create_task(watch.run())
            await until(lambda: len(store.story) >= lines, f"{lines} lines, of {store.story}")
            asked = len(answers) + 1
            await until(lambda: len(server.seen) >= asked, f"asked {asked} times")
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return store.story, [_asked(path) for path in server.paths()]

    return asyncio.run(run())


def _asked(path: str) -> str:
    query = dict(pair.split("=") for pair in path.partition("?")[2].split("&"))
    if "watch" not in query:
        return "list"
    assert query["allowWatchBookmarks"] == "true"
    assert 30 <= int(query["timeoutSeconds"]) <= 60 or int(query["timeoutSeconds"]) >= 300
    return query["resourceVersion"]


def test_events_may_come_in_any_pieces() -> None:
    whole = event("ADDED", "a", 6) + event("MODIFIED", "b", 7) + event("DELETED", "c", 8)
    pieces = [whole[i : i + 25] for i in range(0, len(whole), 25)]
    story, asked = told([listed(5), stream(*pieces)], 4)
    assert story == ["all ", "put a", "put b", "gone c"]
    assert asked == ["list", "5", "8"]


def test_half_an_event_before_a_cut_is_read_again() -> None:
    half = event("ADDED", "b", 7)[:20]
    answers = [listed(5), stream(event("ADDED", "a", 6), half), stream(event("ADDED", "b", 7))]
    story, asked = told(answers, 3)
    assert story == ["all ", "put a", "put b"]
    assert asked == ["list", "5", "6", "7"]


def test_a_bookmark_moves_the_place_to_go_on_from() -> None:
    story, asked = told([listed(5, "a"), stream(event("BOOKMARK", "", 90))], 1)
    assert story == ["all a"]
    assert asked == ["list", "5", "90"]


def test_an_end_without_an_error_is_routine() -> None:
    done = Answer(body=event("ADDED", "a", 6))
    _, asked = told([listed(5), done, done], 3)
    assert asked == ["list", "5", "6", "6"]


def test_what_is_too_old_is_listed_again_after_what_came_before() -> None:
    answers = [listed(5, "a"), stream(event("ADDED", "b", 6) + error(410, "Expired")), listed(9)]
    story, asked = told(answers, 3)
    assert story == ["all a", "put b", "all "]
    assert asked == ["list", "5", "list", "9"]


def test_too_old_may_also_be_the_answer() -> None:
    _, asked = told([listed(5, "a"), Answer(410, {"reason": "Gone"}), listed(9)], 2)
    assert asked == ["list", "5", "list", "9"]


def test_another_error_is_waited_out() -> None:
    story, asked = told([listed(5, "a"), stream(error(500)), stream(event("ADDED", "b", 6))], 2)
    assert story == ["all a", "put b"]
    assert asked == ["list", "5", "5", "6"]


def test_who_fails_five_times_lists_again() -> None:
    failing = [Answer(500)] * 5
    _, asked = told([listed(5, "a"), *failing, listed(9)], 2)
    assert asked == ["list", *["5"] * 5, "list", "9"]


def test_one_bad_object_is_told_and_stops_nothing() -> None:
    bad = event("ADDED", "bad", 7, spec={"containers": 5})
    answers = [listed(5), stream(event("ADDED", "a", 6) + bad + event("ADDED", "c", 8))]
    story, asked = told(answers, 4)
    assert story == ["all ", "put a", "put bad", "put c"]
    assert asked == ["list", "5", "8"]


def test_what_a_bad_object_is_can_be_asked() -> None:
    async def run() -> None:
        store = Store()
        bad = event("ADDED", "bad", 7, spec={"nodeName": 5})
        async with (
            Scripted(listed(5), stream(bad, cut=False)) as server,
            Client(Credentials(server.url)) as client,
        ):
            task = asyncio.create_task(Watch(client, PODS, Pod, store).run())
            await until(lambda: "bad" in store.objects)
            found = store.objects["bad"]
            assert isinstance(found, Unreadable)
            assert "spec.nodeName" in found.problem
            task.cancel()

    asyncio.run(run())


def test_a_line_that_is_no_event_is_a_reason_to_list_again() -> None:
    answers = [listed(5), stream(b"<html>\n"), listed(6), stream(b'{"type":"NEW"}\n')]
    _, asked = told(answers, 2)
    assert asked == ["list", "5", "list", "6", "6"]


def test_silence_is_an_end() -> None:
    pace = Pace(quiet_s=0.2, first_wait_s=0.02)
    _, asked = told([listed(5, "a"), OPEN, OPEN], 1, pace)
    assert asked == ["list", "5", "5", "5"]


def test_a_busy_server_is_given_the_time_it_wants() -> None:
    busy = Answer(429, b"later", ("Retry-After: 1",))
    _, asked = told([busy, listed(5, "a"), busy], 1)
    assert asked == ["list", "list", "5", "5"]
