"""The client: what a real server answers, and what is done about odd and missing answers."""

from __future__ import annotations

import asyncio
import json
import time
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from mooring.kube.client import APPLY, JSON_PATCH, STRATEGIC, Client, How, Limits
from mooring.kube.credentials import Credentials, tls_context
from mooring.kube.errors import ApiError, NotLeader, Unanswered, Unreachable
from mooring.kube.kubeconfig import load_kubeconfig
from mooring.kube.logins import Shown
from mooring.kube.objects import PartialObject, Pod, Unreadable
from mooring.kube.resources import CONFIG_MAPS, NODES, PODS, Resource, Select
from tests.kube.scripted import CUT, Answer, Scripted

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from tests.kube.plane import Plane

QUICK = Limits(timeout_s=0.5, write_timeout_s=0.5, tries=4)
OK = Answer(body={"metadata": {"name": "a"}})
DONE = Answer(201, {"kind": "Status"})


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"schedulerName": "mooring", "containers": [{"name": "c", "image": "i"}]},
    }


def on_server(plane: Plane, story: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    """Run a story with a client of the real server; pages are small."""

    async def run() -> None:
        credentials = load_kubeconfig([plane.kubeconfig])
        async with Client(credentials, limits=Limits(page=3)) as client:
            await story(client)

    asyncio.run(run())


def scripted(
    answers: list[Answer],
    story: Callable[[Client, Scripted], Coroutine[Any, Any, None]],
    limits: Limits = QUICK,
) -> None:
    """Run a story with a client of a scripted server."""

    async def run() -> None:
        async with (
            Scripted(*answers) as server,
            Client(Credentials(server.url), limits=limits, random=Random(1)) as client,
        ):
            await story(client, server)

    asyncio.run(run())


# With a real server.


def test_objects_are_created_read_changed_and_deleted(plane: Plane, namespace: str) -> None:
    async def story(client: Client) -> None:
        thing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        await client.create(CONFIG_MAPS, thing | {"data": {"x": "1"}}, namespace)
        await client.patch(CONFIG_MAPS, "a", {"data": {"y": "2"}}, namespace)
        await client.patch(CONFIG_MAPS, "a", {"data": {"z": "3"}}, namespace, form=STRATEGIC)
        change = [{"op": "remove", "path": "/data/x"}]
        await client.patch(CONFIG_MAPS, "a", change, namespace, form=JSON_PATCH, repeat=False)
        applied = thing | {"data": {"y": "5"}}
        body = await client.patch(
            CONFIG_MAPS, "a", applied, namespace, form=APPLY, manager="mooring"
        )
        assert json.loads(body)["data"] == {"y": "5", "z": "3"}
        found = await client.get(CONFIG_MAPS, "a", PartialObject, namespace)
        with pytest.raises(ApiError) as caught:
            await client.delete(CONFIG_MAPS, "a", namespace, uid="another")
        assert caught.value.status == 409
        await client.delete(CONFIG_MAPS, "a", namespace, uid=found.metadata.uid)
        with pytest.raises(ApiError) as caught:
            await client.get(CONFIG_MAPS, "a", PartialObject, namespace)
        assert (caught.value.status, caught.value.reason) == (404, "NotFound")
        assert caught.value.details["name"] == "a"

    on_server(plane, story)


def test_a_list_comes_in_pages_and_selections(plane: Plane, namespace: str) -> None:
    names = [f"p{i}" for i in range(7)]

    async def story(client: Client) -> None:
        for i, name in enumerate(names):
            await client.create(PODS, pod(name, odd=str(i % 2)), namespace)
        here = Select(namespace)
        found = await client.list(PODS, Pod, here)
        assert [each.metadata.name for each in found.objects] == names
        assert int(found.resource_version)
        odd = await client.list(PODS, Pod, Select(namespace, labels="odd=1"))
        assert [each.metadata.name for each in odd.objects] == names[1::2]
        one = await client.list(PODS, Pod, Select(namespace, fields="metadata.name=p3"))
        assert [each.metadata.name for each in one.objects] == ["p3"]
        meta = await client.list(PODS, Pod, Select(namespace, metadata_only=True))
        assert [each.metadata.name for each in meta.objects] == names
        assert all(isinstance(each, Pod) and not each.spec.containers for each in meta.objects)
        later = await client.list(PODS, Pod, here, since=found.resource_version)
        assert len(later.objects) == 7

    on_server(plane, story)


def test_a_pod_is_bound_once_with_its_annotations(plane: Plane, namespace: str) -> None:
    plane.nodes(1)

    async def story(client: Client) -> None:
        await client.create(PODS, pod("a"), namespace)
        uid = (await client.get(PODS, "a", Pod, namespace)).metadata.uid
        with pytest.raises(ApiError) as caught:
            await client.bind(namespace, "a", "node-0", uid="of an earlier pod")
        assert caught.value.status == 409
        await client.bind(namespace, "a", "node-0", uid=uid, annotations={"mooring.dev/x": "0,3"})
        bound = await client.get(PODS, "a", Pod, namespace)
        assert bound.spec.node_name == "node-0"
        assert bound.metadata.annotations["mooring.dev/x"] == "0,3"
        with pytest.raises(ApiError) as caught:
            await client.bind(namespace, "a", "node-0")
        assert caught.value.status == 409
        with pytest.raises(ApiError) as caught:
            await client.bind(namespace, "b", "node-0")
        assert caught.value.status == 404

    on_server(plane, story)


def test_status_is_a_part_of_its_own(plane: Plane, namespace: str) -> None:
    async def story(client: Client) -> None:
        await client.create(PODS, pod("a"), namespace)
        change = {"status": {"nominatedNodeName": "node-7"}}
        await client.patch(PODS, "a", change, namespace, sub="status", form=STRATEGIC)
        found = await client.get(PODS, "a", Pod, namespace)
        assert found.status.nominated_node_name == "node-7"

    on_server(plane, story)


def test_an_eviction_is_refused_by_a_budget_and_done_without(plane: Plane, namespace: str) -> None:
    plane.nodes(1)
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }  # fmt: skip
    plane.apply(budget)

    async def story(client: Client) -> None:
        for name, app in (("a", "web"), ("b", "free")):
            await client.create(PODS, pod(name, app=app), namespace)
            await client.bind(namespace, name, "node-0")
            running = {"status": {"phase": "Running"}}
            await client.patch(PODS, name, running, namespace, sub="status")
        began = time.monotonic()
        with pytest.raises(ApiError) as caught:
            await client.evict(namespace, "a", grace_s=0)
        assert caught.value.status == 429
        assert caught.value.is_budget
        assert time.monotonic() - began < 5  # it is an answer, not a wish to be asked again
        uid = (await client.get(PODS, "b", Pod, namespace)).metadata.uid
        await client.evict(namespace, "b", uid=uid, grace_s=0)
        left = await client.list(PODS, Pod, Select(namespace))
        assert [each.metadata.name for each in left.objects] == ["a"]

    on_server(plane, story)


def test_the_server_says_what_it_has(plane: Plane) -> None:
    async def story(client: Client) -> None:
        found = await client.discover()
        assert found["", "pods"] == (PODS,)
        assert found["", "nodes"] == (NODES,)
        assert found["batch", "jobs"] == (Resource("batch", "v1", "jobs", kind="Job"),)
        assert ("batch.volcano.sh", "jobs") not in found

    on_server(plane, story)


def test_who_may_not_is_told(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with Client(load_kubeconfig([plane.user("ann")])) as client:
            with pytest.raises(ApiError) as caught:
                await client.list(PODS, Pod, Select(namespace))
        assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
        assert "ann" in caught.value.message

    asyncio.run(story())


def test_a_token_that_was_rotated_is_taken_up(plane: Plane, namespace: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("not a token of this server")
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"tokenFile": str(token)}
    path = tmp_path / "config"
    path.write_text(json.dumps(config))

    async def story() -> None:
        async with Client(load_kubeconfig([path])) as client:
            with pytest.raises(ApiError) as caught:
                await client.get(PODS, "a", Pod, namespace)
            assert caught.value.status == 401
        async with Client(load_kubeconfig([path])) as client:
            await client.credentials.refresh()
            token.write_text(plane.token(namespace, "bot"))
            with pytest.raises(ApiError) as caught:
                await client.get(PODS, "a", Pod, namespace)
            assert caught.value.status == 403  # known now, without rights

    asyncio.run(story())


def test_behind_a_closed_fence_nothing_is_written(plane: Plane, namespace: str) -> None:
    async def story(client: Client) -> None:
        def closed() -> None:
            raise NotLeader("another leads")

        fenced = client.fenced(closed)
        thing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        for write in (
            fenced.create(CONFIG_MAPS, thing, namespace),
            fenced.patch(CONFIG_MAPS, "a", {}, namespace),
            fenced.delete(CONFIG_MAPS, "a", namespace),
            fenced.bind(namespace, "a", "node-0"),
            fenced.evict(namespace, "a"),
        ):
            with pytest.raises(NotLeader):
                await write
        named = Select(namespace, fields="metadata.name=a")
        assert (await fenced.list(CONFIG_MAPS, PartialObject, named)).objects == []
        await client.create(CONFIG_MAPS, thing, namespace)
        await fenced.close()

    on_server(plane, story)
    paths = [event["requestURI"] for event in plane.audit(agent="mooring/")]
    assert len([path for path in paths if f"/{namespace}/" in path]) == 1


# Odd and missing answers.


def test_what_the_server_did_not_do_is_sent_again() -> None:
    async def story(client: Client, server: Scripted) -> None:
        began = time.monotonic()
        await client.bind("lab", "a", "n")
        assert time.monotonic() - began >= 1
        assert len(server.seen) == 3
        assert len({seen.body for seen in server.seen}) == 1

    busy = Answer(429, b"Too many requests, please try again later.", ("Retry-After: 1",))
    scripted([busy, Answer(503, {}, ("Retry-After: 0",)), DONE], story)


@pytest.mark.parametrize("odd", [CUT, Answer(500), Answer(502, b"<html>"), Answer(504)])
def test_a_binding_with_an_unknown_outcome_is_not_sent_again(odd: Answer) -> None:
    async def story(client: Client, server: Scripted) -> None:
        with pytest.raises(Unanswered):
            await client.bind("lab", "a", "n")
        assert len(server.seen) == 1

    scripted([odd, DONE], story)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_nor_is_it_sent_again_behind_our_back_over_an_old_connection(method: str) -> None:
    async def story(client: Client, server: Scripted) -> None:
        await client.get(PODS, "a", Pod)
        with pytest.raises(Unanswered):
            await client.request(method, "/api/v1/pods/a", b"{}", how=How("application/json"))
        assert len(server.seen) == 2

    scripted([OK, CUT, OK], story)


def test_a_write_without_an_answer_in_time_is_unknown() -> None:
    async def story(client: Client, server: Scripted) -> None:
        with pytest.raises(Unanswered):
            await client.bind("lab", "a", "n")
        assert len(server.seen) == 1

    scripted([Answer(201, after_s=5)], story)


@pytest.mark.parametrize("odd", [CUT, Answer(500), Answer(503), Answer(200, b"{}", after_s=1)])
def test_reads_and_harmless_writes_are_repeated(odd: Answer) -> None:
    async def story(client: Client, server: Scripted) -> None:
        assert (await client.get(PODS, "a", Pod)).metadata.name == "a"
        server.answers = [odd, OK]
        await client.patch(PODS, "a", {"metadata": {}}, "lab")
        server.answers = [odd, OK]
        await client.evict("lab", "a", uid="u")
        assert len(server.seen) == 6

    scripted([odd, OK], story)


def test_a_write_that_never_left_is_tried_again_and_then_known_not_to_be_done() -> None:
    async def story(client: Client, server: Scripted) -> None:
        await server.__aexit__()
        with pytest.raises(Unreachable):
            await client.bind("lab", "a", "n")

    scripted([DONE], story)


def test_a_connection_that_takes_too_long_has_sent_nothing() -> None:
    async def run() -> None:
        open_ones = []

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            open_ones.append(writer)

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        credentials = Credentials(url, tls=tls_context(insecure=True))
        limits = Limits(write_timeout_s=0.2, tries=2)
        async with Client(credentials, limits=limits) as client:
            with pytest.raises(Unreachable):
                await client.bind("lab", "a", "n")
        assert len(open_ones) == 2
        server.close()
        for writer in open_ones:
            writer.transport.abort()
        await asyncio.sleep(0.05)

    asyncio.run(run())


def test_a_refusal_by_a_budget_is_an_answer() -> None:
    async def story(client: Client, server: Scripted) -> None:
        with pytest.raises(ApiError) as caught:
            await client.evict("lab", "a", uid="u")
        assert caught.value.is_budget
        assert caught.value.retry_after == 10
        assert len(server.seen) == 1

    details = {"causes": [{"reason": "DisruptionBudget"}], "retryAfterSeconds": 10}
    scripted([Answer(429, {"reason": "TooManyRequests", "details": details})], story)


def test_patience_ends() -> None:
    async def story(client: Client, server: Scripted) -> None:
        with pytest.raises(ApiError) as caught:
            await client.get(PODS, "a", Pod)
        assert caught.value.status == 500
        assert len(server.seen) == QUICK.tries

    scripted([Answer(500)], story)


def test_pages_that_ran_out_of_date_are_begun_again_the_last_time_in_one_piece() -> None:
    def page(name: str, more: str) -> Answer:
        meta = {"resourceVersion": "7", "continue": more}
        return Answer(body={"metadata": meta, "items": [{"metadata": {"name": name}}]})

    gone = Answer(410, {"reason": "Expired"})

    async def story(client: Client, server: Scripted) -> None:
        found = await client.list(PODS, Pod)
        assert [each.metadata.name for each in found.objects] == ["c"]
        assert ["limit=500" in path for path in server.paths()] == [True] * 4 + [False]
        assert ["continue=" in path for path in server.paths()] == [False, True] * 2 + [False]

    scripted([page("a", "x"), gone, page("b", "y"), gone, page("c", "")], story)


def test_one_bad_object_spoils_no_list() -> None:
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "spec": {"nodeName": 5}}]

    async def story(client: Client, server: Scripted) -> None:
        good, bad = (await client.list(PODS, Pod)).objects
        assert isinstance(good, Pod)
        assert isinstance(bad, Unreadable)
        assert bad.name == "b"

    scripted([Answer(body={"metadata": {"resourceVersion": "7"}, "items": items})], story)


def test_an_empty_list_of_go_is_empty() -> None:
    async def story(client: Client, server: Scripted) -> None:
        assert (await client.list(PODS, Pod)).objects == []

    scripted([Answer(body={"metadata": {"resourceVersion": "7"}, "items": None})], story)


@pytest.mark.parametrize("body", [b"<html>no</html>", b"", b"\xff\xfe", b'{"code": "x"}', b"[]"])
def test_an_error_may_have_any_body(body: bytes) -> None:
    async def story(client: Client, server: Scripted) -> None:
        with pytest.raises(ApiError) as caught:
            await client.get(PODS, "a", Pod)
        assert caught.value.status == 404
        assert str(caught.value)

    scripted([Answer(404, body)], story)


def test_an_answer_that_is_no_object_is_an_error() -> None:
    async def story(client: Client, server: Scripted) -> None:
        with pytest.raises(ApiError, match="Unreadable"):
            await client.get(PODS, "a", Pod)

    scripted([Answer(body=b"<html>welcome to the proxy</html>")], story)


def test_a_redirect_is_not_followed_with_our_token() -> None:
    async def story(client: Client, server: Scripted) -> None:
        with pytest.raises(ApiError) as caught:
            await client.get(PODS, "a", Pod)
        assert caught.value.status == 302
        assert len(server.seen) == 1

    scripted([Answer(302, b"", ("Location: /elsewhere",))], story)


def test_headers_are_few() -> None:
    async def story(client: Client, server: Scripted) -> None:
        await client.bind("lab", "a b", "n")
        (seen,) = server.seen
        assert set(seen.headers) == {
            "host", "user-agent", "accept", "content-type", "content-length",
        }  # fmt: skip
        assert seen.headers["user-agent"].startswith("mooring/")
        assert seen.path == "/api/v1/namespaces/lab/pods/a%20b/binding?timeout=500ms"
        assert seen.json == {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "a b", "namespace": "lab"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
        }

    scripted([DONE], story)


def test_answers_are_counted() -> None:
    class Counter:
        def __init__(self) -> None:
            self.seen: list[tuple[str, str, int]] = []

        def answered(self, method: str, resource: str, code: int, seconds: float) -> None:
            assert seconds >= 0
            self.seen.append((method, resource, code))

    async def run() -> None:
        counter = Counter()
        async with Scripted(Answer(500), CUT, OK) as server:
            credentials = Credentials(server.url)
            async with Client(credentials, limits=QUICK, observer=counter) as client:
                await client.get(PODS, "a", Pod)
                await client.bind("lab", "a", "n")
        get = ("GET", "pods")
        assert counter.seen == [(*get, 500), (*get, 0), (*get, 200), ("POST", "pods/binding", 200)]

    asyncio.run(run())


def test_no_more_than_so_many_are_under_way_but_what_is_urgent_passes() -> None:
    async def story(client: Client, server: Scripted) -> None:
        waiting = [asyncio.create_task(client.get(PODS, f"p{i}", Pod)) for i in range(5)]
        await asyncio.sleep(0.1)
        assert len(server.seen) == 2
        urgent = How(urgent=True)
        await client.request("GET", "/urgent", how=urgent)
        assert server.paths()[2] == "/urgent"
        await asyncio.gather(*waiting)
        assert len(server.seen) == 6

    limits = Limits(under_way=2)
    slow = Answer(body={"metadata": {"name": "a"}}, after_s=0.3)
    scripted([slow, slow, OK], story, limits)


def test_the_fence_is_asked_when_the_request_goes_out_not_when_it_was_wished() -> None:
    async def story(client: Client, server: Scripted) -> None:
        leading = True

        def fence() -> None:
            if not leading:
                raise NotLeader("deposed")

        fenced = client.fenced(fence)
        first = asyncio.create_task(fenced.bind("lab", "a", "n"))
        second = asyncio.create_task(fenced.bind("lab", "b", "n"))
        await asyncio.sleep(0.1)  # the second waits for the only slot
        leading = False
        await first
        with pytest.raises(NotLeader):
            await second
        await fenced.at_rest()
        assert len(server.seen) == 1
        await fenced.close()

    scripted([Answer(201, after_s=0.3)], story, Limits(under_way=1))


@pytest.mark.parametrize(
    ("asked", "proxied"), [(1, False), (2, False), (1, True), (2, True), (3, True)]
)
def test_the_fence_holds_to_the_last_moment(asked: int, proxied: bool) -> None:
    async def story(client: Client, server: Scripted) -> None:
        client.credentials.proxy = server.url if proxied else None
        count = 0

        def fence() -> None:
            nonlocal count
            count += 1
            if count == asked:
                raise NotLeader("deposed")

        fenced = client.fenced(fence)
        with pytest.raises(NotLeader):
            await fenced.bind("lab", "a", "n")
        await asyncio.sleep(0.05)
        assert server.seen == []
        await fenced.close()

    scripted([DONE], story)


def test_what_the_fence_allows_goes_through_a_proxy_too() -> None:
    async def story(client: Client, server: Scripted) -> None:
        client.credentials.proxy = server.url
        fenced = client.fenced(lambda: None)
        await fenced.bind("lab", "a", "n")
        (path,) = server.paths()
        assert path.startswith(f"{server.url}/api/v1/namespaces/lab/pods/a/binding")
        await fenced.close()

    scripted([DONE], story)


def test_a_server_may_live_below_a_path() -> None:
    async def story(client: Client, server: Scripted) -> None:
        async with Client(Credentials(server.url + "/k8s/clusters/c-1/")) as other:
            await other.bind("lab", "a", "n")
            await other.get(PODS, "a", Pod, "lab")
        start = "/k8s/clusters/c-1/api/v1/namespaces/lab/pods/a"
        assert [path.startswith(start) for path in server.paths()] == [True, True]

    scripted([DONE], story)


@pytest.mark.parametrize("token", ["two\r\nX-Other: header", "nul\x00"])
def test_a_token_with_odd_characters_is_not_sent(token: str) -> None:
    async def story(client: Client, server: Scripted) -> None:
        async with Client(Credentials(server.url, token=token), limits=QUICK) as other:
            with pytest.raises(Unreachable, match="odd characters"):
                await other.bind("lab", "a", "n")
        assert server.seen == []

    scripted([DONE], story)


def test_connections_are_used_again_unless_the_server_closes_them() -> None:
    async def story(client: Client, server: Scripted) -> None:
        for _ in range(3):
            await asyncio.gather(*(client.bind("lab", f"p{i}", "n") for i in range(4)))
        assert server.connections == 4
        server.answers = [Answer(201, {}, ("Connection: close",)), DONE]
        await client.bind("lab", "a", "n")
        await asyncio.sleep(0.01)
        server.hang_up()  # all that rest
        await asyncio.sleep(0.01)
        await client.bind("lab", "a", "n")
        assert server.connections == 5

    scripted([DONE], story)


def test_where_one_connection_is_dead_the_others_that_rest_are_not_trusted() -> None:
    async def story(client: Client, server: Scripted) -> None:
        await asyncio.gather(*(client.bind("lab", f"p{i}", "n") for i in range(4)))
        server.answers = [Answer(201, after_s=5), DONE]
        with pytest.raises(Unanswered):
            await client.bind("lab", "a", "n")
        await client.bind("lab", "b", "n")
        assert server.connections == 5

    scripted([DONE], story)


def test_a_write_that_is_cancelled_leaves_no_answer_to_the_next() -> None:
    async def story(client: Client, server: Scripted) -> None:
        task = asyncio.create_task(client.create(CONFIG_MAPS, {"first": 1}, "lab"))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.at_rest()
        assert json.loads(await client.create(CONFIG_MAPS, {"second": 2}, "lab")) == {"n": 2}

    scripted([Answer(201, {"n": 1}, after_s=0.2), Answer(201, {"n": 2})], story)


@pytest.mark.parametrize("answer", [CUT, Answer(201, after_s=60)])
def test_a_write_without_an_answer_is_under_way_until_the_server_gives_up(answer: Answer) -> None:
    """Who cancels it, or loses the connection, does not know whether it is done, nor when."""

    async def story(client: Client, server: Scripted) -> None:
        task = asyncio.create_task(client.bind("lab", "a", "n"))
        while not server.seen:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        if not answer.cut:
            task.cancel()
        (error,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(error, Unanswered if answer.cut else asyncio.CancelledError)
        resting = asyncio.create_task(client.at_rest())
        await asyncio.sleep(0.01)
        assert not resting.done()
        await asyncio.wait_for(resting, 5)

    scripted([answer], story)


@pytest.mark.parametrize("answer", [DONE, Answer(409)])
def test_a_write_with_an_answer_is_at_rest(answer: Answer) -> None:
    async def story(client: Client, server: Scripted) -> None:
        await asyncio.gather(client.bind("lab", "a", "n"), return_exceptions=True)
        resting = asyncio.create_task(client.at_rest())
        await asyncio.sleep(0)
        assert resting.done()

    scripted([answer], story)


def test_connections_of_former_certificates_are_closed_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(client: Client, server: Scripted) -> None:
        for _ in range(5):
            await client.get(PODS, "a", Pod)
            client.credentials.generation += 1
            await client._wire.refresh()
        assert len(client._wire._old) == 5  # somebody may watch on them
        monkeypatch.setattr("mooring.kube.client.OLD_S", 0.0)
        for _ in range(5):
            client.credentials.generation += 1
            await client._wire.refresh()
            await client.get(PODS, "a", Pod)
        assert not client._wire._old
        assert len(client._sessions) == 1

    scripted([OK], story)


def test_a_repeated_write_asks_the_fence_again() -> None:
    async def story(client: Client, server: Scripted) -> None:
        def fence() -> None:
            if server.seen:
                raise NotLeader("deposed")

        fenced = client.fenced(fence)
        with pytest.raises(NotLeader):
            await fenced.bind("lab", "a", "n")
        assert len(server.seen) == 1
        await fenced.close()

    scripted([Answer(429, {}, ("Retry-After: 0",)), DONE], story)


def test_sixty_refusals_ask_for_new_credentials_once() -> None:
    class Login:
        shown = 0

        async def show(self) -> Shown:
            self.shown += 1
            return Shown(f"Bearer {self.shown}")

    async def run() -> None:
        login = Login()
        async with Scripted(*[Answer(401)] * 60, OK) as server:
            credentials = Credentials(server.url, login=login)
            async with Client(credentials) as client:
                await asyncio.gather(*(client.get(PODS, "a", Pod) for _ in range(60)))
            assert login.shown == 2
            assert {seen.headers["authorization"] for seen in server.seen[60:]} == {"bearer 2"}

    asyncio.run(run())
