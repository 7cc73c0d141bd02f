"""Stories on a real control plane: who must leave, for whom, and who may not be asked to."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.kube.live import job, stamped
from tests.kube.plane import pod
from tests.kube.test_life import replayed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kube.api import Object
    from tests.kube.kubelet import Kubelet
    from tests.kube.live import Live
    from tests.kube.plane import Plane

HALVES = """
queues:
  - {name: org, quotas: [{resource: gpu, quota: 16, limit: 16}]}
  - {name: a, parent: org, quotas: [{resource: gpu, quota: 8}]}
  - {name: b, parent: org, quotas: [{resource: gpu, quota: 8}]}
"""
A, B = {"mooring.dev/queue": "a"}, {"mooring.dev/queue": "b"}


@pytest.fixture
def classes(plane: Plane) -> Iterator[None]:
    """Let there be the priority classes `low`, `high`, and `polite`, which makes nobody leave."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name, value in {"low": -10, "high": 1000, "polite": 2000}.items():
        never = {"preemptionPolicy": "Never"} if name == "polite" else {}
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        plane.api.create({**body, "metadata": {"name": name}, "value": value, **never})
    yield
    for name in ("low", "high", "polite"):
        plane.api.delete(f"{path}/{name}")


def budget(name: str, least: int) -> Object:
    """Return a disruption budget: so many pods with label `guarded: name` are there always."""
    selector = {"matchLabels": {"guarded": name}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": least, "selector": selector},
    }


def until_allows(live: Live, name: str, count: int) -> None:
    """Wait until a disruption budget lets so many go."""
    path = f"/apis/policy/v1/namespaces/{live.namespace}/poddisruptionbudgets/{name}"

    def allows() -> bool:
        status = live.plane.api.get(path).get("status", {})
        return bool(status.get("expectedPods")) and status["disruptionsAllowed"] == count

    live.plane.wait_for(allows, what=f"budget {name} allows {count}")


def evictions(live: Live) -> list[tuple[str, int]]:
    """Return the evictions that Mooring asked for, by name of the workload, and the answers."""
    return [
        (event["objectRef"]["name"], event["responseStatus"]["code"])
        for event in live.plane.audit(agent="mooring")
        if event["objectRef"].get("subresource") == "eviction"
        and event["objectRef"]["namespace"] == live.namespace
    ]


def asked_to_leave(live: Live) -> list[str]:
    """Return the Jobs whose pods were evicted, in order."""
    return [name.split("-")[0] for name, code in evictions(live) if code == 201]


def test_only_the_surplus_of_a_borrower_leaves_for_the_owner_of_the_quota(live: Live) -> None:
    """The owner starts on the very node that was freed; what the Job makes anew waits for quota."""
    live.plane.nodes(2)
    live.start(HALVES)
    live.submit(job("borrower", 2, gpus=8, annotations={**A, "mooring.dev/min": "1"}))
    before = live.until_bound(count=2)

    live.submit(job("owner", 1, gpus=8, annotations=B))

    (where,) = live.until_started("owner", 1).values()
    ((gone, _),) = evictions(live)
    (kept,) = set(before) - {gone}
    assert where == before[gone]
    assert live.nodes_of([kept]) == {kept: before[kept]}
    (new,) = live.plane.wait_for(
        lambda: set(live.pods(run="borrower")) - {kept, gone}, what="another pod is made"
    )
    assert "Queue org may be charged 0 more gpu" in live.until_says(new, "WaitsForQuota")
    said = {(name, reason): note for name, reason, note in live.events()}
    assert "it used what is another queue's quota" in said["borrower", "Evicted"]
    assert said["owner", "Scheduled"] == f"1 task on node {where}."
    assert ("borrower", "Unschedulable") not in said, "an autoscaler would buy nodes for a borrower"


def test_who_has_just_saved_its_work_leaves_rather_than_one_that_ran_for_less(
    live: Live, classes: None
) -> None:
    """A running training says on its pod that it has a checkpoint: now it has the least to lose."""
    live.plane.nodes(2)
    live.start()
    live.submit(job("saved", 1, gpus=8, priorityClassName="low"))
    (name,) = live.until_started("saved", 1)
    time.sleep(1.5)
    live.submit(job("unsaved", 1, gpus=8, priorityClassName="low"))
    live.until_started("unsaved", 1)
    time.sleep(1.5)
    live.annotate(name, {"mooring.dev/last-checkpoint": stamped(time.time())})
    time.sleep(0.2)

    live.submit(job("urgent", 1, gpus=8, priorityClassName="high"))

    live.until_started("urgent", 1)
    assert asked_to_leave(live) == ["saved"]


def test_a_budget_keeps_one_from_leaving_and_another_leaves_instead(
    live: Live, classes: None
) -> None:
    """The one that would lose least is guarded; when only it is left, nobody leaves."""
    live.plane.nodes(2)
    live.start()
    live.submit(job("free", 1, gpus=8, priorityClassName="low"))
    live.until_started("free", 1)
    time.sleep(1.5)
    live.submit(budget("one", 1))
    live.submit(job("guarded", 1, gpus=8, labels={"guarded": "one"}, priorityClassName="low"))
    live.until_started("guarded", 1)
    until_allows(live, "one", 0)

    live.submit(job("urgent", 1, gpus=8, priorityClassName="high"))

    live.until_started("urgent", 1)
    assert asked_to_leave(live) == ["free"]
    live.submit(pod("another", gpus=8, priorityClassName="high"))
    live.until_says("another", "Unschedulable")
    assert asked_to_leave(live) == ["free"]
    live.plane.api.delete(f"/apis/policy/v1/namespaces/{live.namespace}/poddisruptionbudgets/one")
    live.until_bound("another")
    assert asked_to_leave(live) == ["free", "guarded"]


def test_a_refused_eviction_is_a_fact_and_another_leaves(live: Live, classes: None) -> None:
    """Two share a budget that lets one of them go: the server refuses the second, a third goes."""
    live.plane.nodes(3)
    live.start()
    live.submit(job("costly", 1, gpus=8, priorityClassName="low"))
    live.until_started("costly", 1)
    time.sleep(2)
    live.submit(budget("both", 1))
    for name in ("one", "two"):
        live.submit(job(name, 1, gpus=8, labels={"guarded": "both"}, priorityClassName="low"))
        live.until_started(name, 1)
    until_allows(live, "both", 1)

    live.submit(job("urgent", 2, gpus=8, priorityClassName="high"))

    live.until_started("urgent", 2)
    assert [code for _, code in evictions(live)].count(429) == 1
    left = asked_to_leave(live)
    assert sorted(left)[0] == "costly"
    assert len(left) == 2


def test_where_nobody_else_may_leave_the_room_is_kept_no_longer(live: Live, classes: None) -> None:
    """One of two was refused: the gang waits, and no node stands on its pods any more."""
    live.plane.nodes(2)
    live.start()
    live.submit(budget("both", 1))
    for name in ("one", "two"):
        live.submit(job(name, 1, gpus=8, labels={"guarded": "both"}, priorityClassName="low"))
        live.until_started(name, 1)
    until_allows(live, "both", 1)

    live.submit(job("urgent", 2, gpus=8, priorityClassName="high"))

    live.plane.wait_for(lambda: 429 in dict(evictions(live)).values(), what="one is refused")
    for name in live.pods(run="urgent"):
        live.until_says(name, "Unschedulable")
    live.plane.wait_for(
        lambda: (
            not any(
                each["status"].get("nominatedNodeName") for each in live.pods(run="urgent").values()
            )
        ),
        what="no node stands on a pod",
    )


def test_a_higher_priority_makes_a_lower_one_leave_unless_it_is_polite(
    live: Live, classes: None
) -> None:
    """`preemptionPolicy: Never` waits, however high; the next one in priority does not."""
    live.plane.nodes(1)
    live.start()
    live.submit(job("cheap", 1, gpus=8, priorityClassName="low"))
    live.until_started("cheap", 1)
    live.submit(pod("gentle", gpus=8, priorityClassName="polite"))
    live.until_says("gentle", "Unschedulable")
    live.submit(pod("equal", gpus=8, priorityClassName="low"))
    live.until_says("equal", "Unschedulable")
    assert not evictions(live)

    live.submit(pod("urgent", gpus=8, priorityClassName="high"))

    assert live.until_bound("urgent") == {"urgent": "node-0"}
    assert asked_to_leave(live) == ["cheap"]
    said = {(name, reason): note for name, reason, note in live.events()}
    assert "lower priority" in said["cheap", "Evicted"]


def test_room_that_is_being_freed_stays_kept_for_its_beneficiary_over_a_kill(
    live: Live, classes: None, kubelet: Kubelet
) -> None:
    """One victim has left and one is leaving when the scheduler is killed; small ones come."""
    live.plane.nodes(1)
    live.start(lease_duration="3s")
    slow = {"test/stop-seconds": "4"}
    live.submit(job("quick", 1, gpus=4, priorityClassName="low"))
    live.submit(job("slow", 1, gpus=4, priorityClassName="low", annotations=slow))
    live.until_started("quick", 1)
    live.until_started("slow", 1)
    live.submit(pod("big", gpus=8, priorityClassName="high"))
    live.plane.wait_for(
        lambda: not live.pods(run="quick") and not live.nodes_of(),
        what="one has left, and one is leaving",
    )
    kubelet.paused = True  # so that it does not leave yet
    assert live.pods(run="slow")
    live.plane.wait_for(
        lambda: live.pods()["big"]["status"].get("nominatedNodeName") == "node-0",
        what="the node of the one that they leave for stands on it",
    )
    live.kill()
    live.submit(pod("small", gpus=1))

    live.start(lease_duration="3s")

    live.until_says("small", "Unschedulable")
    assert not live.nodes_of()
    kubelet.paused = False
    assert live.until_bound("big") == {"big": "node-0"}
    assert not live.nodes_of(["small"])
    assert sorted(asked_to_leave(live)) == ["quick", "slow"]
    live.stop()
    assert replayed(live) == [True, True]
