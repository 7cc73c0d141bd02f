"""Stories on a real control plane: nodes that are lost, services that scale, gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kube.live import condition, job
from tests.kube.plane import pod, pod_spec
from tests.kube.test_life import replayed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kube.api import Object
    from tests.kube.live import Live

RACKS = """
topology:
  levels:
    - {name: rack, label: example.com/rack}
"""


def replicas(kind: str, name: str, count: int, gpus: int, **annotations: str) -> Object:
    """Return a Deployment or ReplicaSet; its pods do not stay on a node that is lost."""
    lost = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    spec = pod_spec(gpus, tolerations=[{**lost, "tolerationSeconds": 0}])
    labels = {"run": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec},
        },
    }


def rack_of(live: Live, node: str) -> str:
    """Return the rack of a node."""
    labels = live.plane.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
    return str(labels["example.com/rack"])


def remove(live: Live, name: str, node: str) -> None:
    """Remove a node; and, as the garbage collector of pods does a minute later, its pod."""
    live.plane.api.delete(f"/api/v1/nodes/{node}")
    path = f"/api/v1/namespaces/{live.namespace}/pods/{name}"
    live.plane.api.patch(f"{path}/status", {"status": {"phase": "Failed"}})
    live.plane.api.delete(path, gracePeriodSeconds=0)


def silence(live: Live, name: str, node: str) -> None:
    """Let a node fall silent: its pod is to leave, and never says that it has."""
    live.plane.set_ready(node, False)

    def leaves() -> bool:
        return "deletionTimestamp" in live.pods()[name]["metadata"]

    live.plane.wait_for(leaves, what=f"{name} is to leave")


@pytest.mark.parametrize("lose", [remove, silence])
def test_a_gang_gets_a_member_back_in_its_rack_when_a_node_is_lost(
    live: Live, lose: Callable[[Live, str, str], None]
) -> None:
    """Twice; the others run on. What happened stands in the journal, and replays."""
    live.plane.nodes(12, labels=lambda i: {"example.com/rack": f"rack-{i % 2}"})
    live.start(RACKS)
    notes = {"mooring.dev/topology-required": "rack", "mooring.dev/min": "4"}
    live.submit(replicas("ReplicaSet", "train", 4, 8, **notes))
    there = live.until_started("train", 4)
    (rack,) = {rack_of(live, node) for node in there.values()}
    name = node = ""
    for _ in range(2):
        name, node = sorted(there.items())[1]

        lose(live, name, node)

        after = live.until_started("train", 4)
        ((new, at),) = after.items() - there.items()
        assert after.items() - {(new, at)} == there.items() - {(name, node)}
        assert rack_of(live, at) == rack
        there = after
    if lose is silence:
        assert name in live.pods(), "nobody has heard of it"
        live.plane.set_ready(node, True)
        live.plane.wait_for(lambda: name not in live.pods(), what="it is heard of, and leaves")
    assert live.nodes_of() == there
    live.stop()
    assert replayed(live) == [True]


def test_a_deployment_scales_within_the_limit_of_its_queue(live: Live) -> None:
    """Beyond the limit pods wait for quota; scaled down, there is room for another workload."""
    live.plane.nodes(2)
    live.start("queues: [{name: web, quotas: [{resource: gpu, quota: 2, limit: 4}]}]")
    web = {"mooring.dev/queue": "web"}
    live.submit(replicas("Deployment", "web", 2, 1, **web))
    live.until_started("web", 2)
    path = f"/apis/apps/v1/namespaces/{live.namespace}/deployments/web"

    live.plane.api.patch(path, {"spec": {"replicas": 6}})

    started = live.until_started("web", 4)
    waiting = live.plane.wait_for(lambda: sorted(set(live.pods()) - set(started))[1:], what="six")
    assert len(waiting) == 1
    for name in set(live.pods()) - set(started):
        assert "Queue web may be charged 0 more gpu" in live.until_says(name, "WaitsForQuota")
    patient = {"mooring.dev/preemption-delay": "1h"}  # else it would take what is above a minimum
    live.submit(pod("batch", gpus=2, annotations={**web, **patient}))
    live.until_says("batch", "WaitsForQuota")
    assert len(live.nodes_of()) == 4
    live.plane.api.patch(path, {"spec": {"replicas": 2}})
    live.until_bound("batch")
    live.plane.wait_for(lambda: len(live.pods()) == 3, what="it has shrunk")
    assert len(live.nodes_of()) == 3


def test_a_gang_with_a_gated_pod_does_not_start_until_the_gate_is_gone(live: Live) -> None:
    """Three of four may start; they wait for the fourth."""
    live.plane.nodes(4)
    live.start()
    live.submit(job("train", 4, gpus=8, schedulingGates=[{"name": "example.com/data"}]))
    names = live.plane.wait_for(lambda: sorted(live.pods())[:4][3:] and sorted(live.pods()))
    path = f"/api/v1/namespaces/{live.namespace}/pods"
    *most, last = names
    for name in most:
        live.plane.api.patch(f"{path}/{name}", {"spec": {"schedulingGates": []}})

    said = live.until_says(most[0], "WaitsForPods")

    assert "3 of 4 pods" in said
    assert "1 wait at a scheduling gate" in said
    assert not live.nodes_of()
    assert condition(live.pods()[last])["reason"] == "SchedulingGated"
    live.plane.api.patch(f"{path}/{last}", {"spec": {"schedulingGates": []}})
    live.until_started("train", 4)
