"""On a real API server, under the rights that are in the tree: what is told, and what is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from mooring.kube.client import Client
from mooring.kube.intake import ALWAYS
from mooring.kube.kinds import KINDS
from mooring.kube.kubeconfig import find_credentials
from mooring.kube.store import MOST_BYTES, NotOursError, Place, Store
from mooring.kube.tell import PodRef, Rates, Subject, Tell
from mooring.model.memory import Memory, Past
from mooring.model.plan import NoRoom, OverQuota, Plan, Waiting
from tests.kube.plane import pod

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.kube.api import Object
    from tests.kube.plane import Plane

RBAC = Path(__file__).parents[2] / "deploy/rbac.yaml"
RULES = {
    document["kind"]: document["rules"]
    for document in yaml.safe_load_all(RBAC.read_text("utf-8"))
    if "rules" in document
}
QUOTA = Plan(waiting=(Waiting("w", (OverQuota("lab", "", "gpu", 1000, 0),)),))
ROOM = Plan(waiting=(Waiting("w", (NoRoom("main", "cluster", 1, 0),)),))
QUICK = Rates(conditions=1000, events=1000, quiet_s=0.0)


@pytest.fixture
def account(plane: Plane) -> Path:
    """Return a kubeconfig of a service account with the rights of the tree."""
    plane.apply(RBAC)
    return plane.service_account("mooring", "mooring")


def under(account: Path, act: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Client(find_credentials(str(account))) as client:
            await act(client)

    asyncio.run(run())


class Audience:
    """Sees the pods of one namespace as they were when it last looked."""

    def __init__(self, plane: Plane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.look()

    def look(self) -> None:
        self.pods = {each["metadata"]["uid"]: each for each in self.plane.pods(self.namespace)}

    def waiting(self, workload: str) -> list[str]:
        return list(self.pods)

    def pod(self, workload: str, uid: str) -> PodRef:
        meta, told = self.pods[uid]["metadata"], condition(self.pods[uid])
        version = meta["resourceVersion"]
        return PodRef(self.namespace, meta["name"], uid, version, *told[1:])

    def subject(self, workload: str) -> Subject:
        meta = next(iter(self.pods.values()))["metadata"]
        return Subject("v1", "Pod", self.namespace, meta["name"], meta["uid"])


def condition(given: Object) -> tuple[str, str, str]:
    for each in given["status"].get("conditions", ()):
        if each["type"] == "PodScheduled":
            return each["status"], each.get("reason", ""), each.get("message", "")
    return "", "", ""


def test_people_are_told(plane: Plane, namespace: str, account: Path) -> None:
    for name in ("a", "b", "c"):
        plane.api.create(pod(name, gpus=1, namespace=namespace))
    audience = Audience(plane, namespace)

    async def act(client: Client) -> None:
        tell = Tell(client, audience, QUICK, instance="one")
        tell.start()
        for plan in (QUOTA, ROOM, QUOTA):
            tell.hear(plan)
            await tell.stop(5.0)
            audience.look()
            tell.start()
        await tell.stop()
        assert (tell.counts.conditions, tell.counts.events, tell.counts.errors) == (9, 3, 0)

    under(account, act)
    message = "Queue lab may be charged 0 more gpu; it needs 1."
    assert {condition(each) for each in plane.pods(namespace)} == {
        ("False", "WaitsForQuota", message)
    }
    events = plane.api.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    counts = {
        each["reason"]: (each.get("series") or {}).get("count", 1)
        for each in events
        if each["reportingController"] == "mooring.dev/scheduler"
    }
    assert counts == {"WaitsForQuota": 2, "Unschedulable": 1}


def test_a_pod_that_was_bound_meanwhile_stays_scheduled(
    plane: Plane, namespace: str, account: Path
) -> None:
    plane.api.create(pod("a", gpus=1, namespace=namespace))
    audience = Audience(plane, namespace)
    (node,) = plane.nodes(1, prefix=f"{namespace}-")

    async def act(client: Client) -> None:
        await client.bind(namespace, "a", node)
        tell = Tell(client, audience, QUICK)
        tell.start()
        tell.hear(QUOTA)
        await tell.stop(5.0)
        assert tell.counts.conditions == 0

    under(account, act)
    assert condition(plane.pod("a", namespace)) == ("True", "", "")


def test_the_memory_is_kept(plane: Plane, namespace: str, account: Path) -> None:
    """Also one that is as large as it may be, and one that cannot be read."""
    del namespace
    many = Memory(pasts=tuple((f"lab/job/{i}", Past(failures=i)) for i in range(1000)))

    async def act(client: Client) -> None:
        old, new = (Store(client, Place("mooring", writer=name)) for name in ("old", "new"))
        await old.load()
        assert await old.save(many)
        assert await new.load() == many
        with pytest.raises(NotOursError):
            await old.save(Memory())
        text = {"memory": "A" * (MOST_BYTES * 4 // 3 // 4 * 4)}
        plane.api.patch(f"{maps}/mooring-memory", {"binaryData": text})
        third = Store(client, Place("mooring", writer="third"))
        assert await third.load() == Memory()
        assert plane.api.get(f"{maps}/mooring-memory-aside")["binaryData"] == text
        assert await third.save(many)

    maps = "/api/v1/namespaces/mooring/configmaps"
    under(account, act)
    for name in ("mooring-memory", "mooring-memory-aside"):
        plane.api.delete(f"{maps}/{name}")


def may(api: Any, verb: str, group: str, resource: str, **more: str) -> bool:
    plural, _, sub = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": sub, **more}
    review = api.request(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        },
    )
    return bool(review["status"]["allowed"])


FORBIDDEN = [
    ("get", "", "secrets", "kube-system", ""),
    ("list", "", "secrets", "mooring", ""),
    ("create", "", "pods", "default", ""),
    ("delete", "", "pods", "default", ""),
    ("patch", "", "pods", "default", ""),
    ("create", "", "pods/exec", "default", ""),
    ("patch", "", "nodes", "", "n"),
    ("patch", "batch", "jobs", "default", "j"),
    ("get", "", "configmaps", "mooring", "other"),
    ("update", "", "configmaps", "mooring", "other"),
    ("list", "", "configmaps", "mooring", ""),
    ("get", "", "configmaps", "default", "mooring-memory"),
    ("update", "coordination.k8s.io", "leases", "mooring", "other"),
    ("create", "coordination.k8s.io", "leases", "default", ""),
    ("create", "rbac.authorization.k8s.io", "clusterroles", "", ""),
]
ALLOWED = [
    ("watch", "", "pods", "", ""),
    ("create", "", "pods/binding", "default", "p"),
    ("create", "", "pods/eviction", "default", "p"),
    ("patch", "", "pods/status", "default", "p"),
    ("update", "coordination.k8s.io", "leases", "mooring", "mooring"),
]


def test_it_may_do_what_it_must_and_not_more(plane: Plane, namespace: str, account: Path) -> None:
    del namespace
    api = plane.api_of(account)
    try:
        for rows, answer in ((FORBIDDEN, False), (ALLOWED, True)):
            for verb, group, resource, where, name in rows:
                found = may(api, verb, group, resource, namespace=where, name=name)
                assert found is answer, (verb, resource, where, name)
    finally:
        api.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_every_kind_of_owner_can_be_watched(kind: Any) -> None:
    resource = kind.resource
    assert any(
        resource.group in rule["apiGroups"]
        and resource.plural in rule["resources"]
        and {"list", "watch"} <= {*rule["verbs"]}
        for rule in RULES["ClusterRole"]
    )


def test_nothing_is_granted_by_a_star() -> None:
    for rule in (*RULES["ClusterRole"], *RULES["Role"]):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


def test_what_nobody_watches_may_not_be_read() -> None:
    readable = {
        (group, resource)
        for rule in RULES["ClusterRole"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if {"get", "list", "watch"} & {*rule["verbs"]}
    }
    watched = [*(kind.resource for kind in KINDS), *(resource for resource, _ in ALWAYS)]
    assert readable == {(each.group, each.plural) for each in watched}
