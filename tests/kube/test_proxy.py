"""The proxy of the tests: it passes on, counts, and breaks what it is told to break."""

from __future__ import annotations

import http.client
import time
from typing import TYPE_CHECKING

import pytest

from tests.kube.api import Api, ApiError
from tests.kube.plane import pod
from tests.kube.proxy import Fault, Faults, Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kube.plane import Plane


@pytest.fixture
def proxy(plane: Plane) -> Iterator[Proxy]:
    with Proxy(plane) as proxy:
        yield proxy


@pytest.fixture
def admin(plane: Plane, proxy: Proxy) -> Iterator[Api]:
    api = plane.api_of(plane.user("boss", ["system:masters"], server=proxy.url))
    yield api
    api.close()


def test_requests_pass_with_the_identity_of_the_client(
    plane: Plane, proxy: Proxy, namespace: str, admin: Api
) -> None:
    admin.create(pod("a", namespace=namespace))
    assert [event["user"]["username"] for event in plane.audit(user="boss")] == ["boss"]
    (request,) = proxy.seen(writes=True)
    assert (request.method, request.path, request.identity) == (
        *("POST", f"/api/v1/namespaces/{namespace}/pods"),
        "boss",
    )
    account = plane.api_of(plane.service_account(namespace, "bot", server=proxy.url))
    stranger = plane.api_of(plane.user("eve", server=proxy.url))
    try:
        with pytest.raises(ApiError, match=f"system:serviceaccount:{namespace}:bot"):
            account.items("/api/v1/pods")
        with pytest.raises(ApiError, match='User "eve" cannot list'):
            stranger.items("/api/v1/pods")
    finally:
        account.close()
        stranger.close()
    assert len(proxy.seen(writes=True)) == 1


def test_nobody_can_claim_to_be_another(plane: Plane, proxy: Proxy, namespace: str) -> None:
    liar = plane.api_of(plane.user("eve", server=proxy.url))
    liar._headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    try:
        with pytest.raises(ApiError, match='User "eve" cannot list'):
            liar.items("/api/v1/pods")
    finally:
        liar.close()


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.GONE, Fault.TOO_MANY, Fault.BROKEN])
def test_an_error_comes_in_place_of_the_answer(
    plane: Plane, proxy: Proxy, namespace: str, admin: Api, fault: Fault
) -> None:
    admin.path(pod("a"))
    proxy.do_next(fault, f"POST /api/v1/namespaces/{namespace}")
    with pytest.raises(ApiError, match=str(fault.value)):
        admin.create(pod("a", namespace=namespace))
    assert plane.pods(namespace) == []
    assert proxy.seen(writes=True) == []
    assert proxy.made == {fault: 1}


@pytest.mark.parametrize(("fault", "done"), [(Fault.RESET, 0), (Fault.LOST, 1)])
def test_a_connection_breaks_before_or_after_the_deed(
    plane: Plane, proxy: Proxy, namespace: str, admin: Api, fault: Fault, done: int
) -> None:
    admin.path(pod("a"))
    for _ in range(2):  # the client tries twice
        proxy.do_next(fault, "POST")
    with pytest.raises((OSError, http.client.HTTPException)):
        admin.create(pod("a", namespace=namespace))
    assert len(plane.pods(namespace)) == done


def test_watches_end_and_are_cut(plane: Plane, proxy: Proxy, namespace: str, admin: Api) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods?watch=1&timeoutSeconds="
    start = time.monotonic()
    admin.get(f"{path}1")
    assert time.monotonic() - start > 0.9
    admin.get("/version")  # over the same connection
    proxy.faults = Faults(cut=1.0, seconds=0.2, most=3)
    with pytest.raises((OSError, http.client.HTTPException)):
        admin.get(f"{path}20")
    assert proxy.made == {Fault.CUT: 2}, "the client tried twice"


def test_the_same_seed_makes_the_same_faults(proxy: Proxy, admin: Api) -> None:
    def outcomes() -> list[bool]:
        proxy.faults = Faults(seed=5, http=0.3, most=20)
        return [refused(admin) for _ in range(100)]

    first = outcomes()
    assert first == outcomes()
    assert sum(first) == 20


def refused(api: Api) -> bool:
    try:
        api.get("/version")
    except ApiError:
        return True
    return False


def test_a_blocked_client_does_not_reach_the_server(proxy: Proxy, admin: Api) -> None:
    admin.get("/version")
    proxy.block()
    with pytest.raises((OSError, http.client.HTTPException)):
        admin.get("/version")
    proxy.unblock()
    admin.get("/version")
    assert len(proxy.seen(word="/version")) == 2
