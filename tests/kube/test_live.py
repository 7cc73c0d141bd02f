"""Stories on a real control plane: gangs, topology, shares of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kube.live import condition, devices, job
from tests.kube.plane import pod
from tests.kube.test_life import replayed

if TYPE_CHECKING:
    from tests.kube.live import Live

RACKS = """
topology:
  levels:
    - {name: rack, label: example.com/rack}
"""


def test_a_gang_starts_whole_or_not_at_all(live: Live) -> None:
    """Five pods of a whole node each do not begin on four nodes; with a fifth they all do."""
    live.plane.nodes(4)
    live.start()
    live.submit(job("train", 5, gpus=8))
    live.plane.wait_for(lambda: len(live.pods()) == 5, what="the pods are made")
    first = sorted(live.pods())[0]

    message = live.until_says(first, "Unschedulable")

    assert "4" in message, message
    assert not live.nodes_of()
    live.plane.nodes(1, prefix="more-")
    assert len(set(live.until_bound(count=5).values())) == 5
    reasons = [reason for name, reason, _ in live.events() if name == "train"]
    assert reasons.count("Unschedulable") == 1, "one Event for a change, not one for a pod"


def test_a_gang_that_asks_for_a_rack_gets_one_with_its_ranks_in_order(live: Live) -> None:
    """Of two racks one is too full; in the other ranks follow the order of the nodes."""
    live.plane.nodes(8, labels=lambda i: {"example.com/rack": f"rack-{i // 4}"})
    live.start(RACKS)
    live.submit(pod("small", gpus=8, nodeSelector={"example.com/rack": "rack-0"}))
    live.until_bound("small")

    live.submit(job("train", 4, gpus=8, annotations={"mooring.dev/topology-required": "rack"}))

    found = live.until_bound(count=5)
    ranks = {
        pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]: found[name]
        for name, pod in live.pods(run="train").items()
    }
    assert [ranks[str(i)] for i in range(4)] == ["node-4", "node-5", "node-6", "node-7"]


def test_two_halves_share_a_device_and_a_third_does_not_overfill_it(live: Live) -> None:
    """Shares of devices are on the pods, so another life of the scheduler knows them."""
    live.plane.nodes(1, gpus=1)
    half = {"mooring.dev/gpu-fraction": "0.5"}
    live.start()
    live.submit(pod("a", annotations=dict(half)), pod("b", annotations=dict(half)))
    live.until_bound("a", "b")

    live.submit(pod("c", annotations=dict(half)))

    live.until_says("c", "Unschedulable")
    assert {devices(each) for name, each in live.pods().items() if name in "ab"} == {"0"}
    live.kill()
    live.start()
    live.submit(pod("d", annotations=dict(half)))
    live.until_says("d", "WaitsForTurn")
    live.plane.api.delete(f"/api/v1/namespaces/{live.namespace}/pods/a")
    assert live.until_bound("c") == {"c": "node-0"}
    assert condition(live.pods()["d"])["status"] == "False"


def test_a_label_that_nobody_named_before_keeps_pods_apart(live: Live) -> None:
    """Who runs has had that label all along: it is seen by another engine, and stays."""
    live.plane.nodes(2)
    live.start()
    live.submit(pod("a", gpus=1, labels={"app": "web"}), job("train", 2, gpus=1))
    before = live.until_bound(count=3)
    given = {name: devices(each) for name, each in live.pods().items()}
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    live.submit(pod("b", gpus=1, affinity=alone))

    assert live.until_bound("b", timeout=10)["b"] != before["a"]
    assert live.nodes_of(before) == before
    after = live.pods()
    assert {name: devices(after[name]) for name in given} == given
    assert len(list(live.journals.glob("*.journal"))) == 2
    live.submit(pod("c", gpus=1, affinity=alone), pod("d", gpus=1))
    assert live.until_bound("c", "d")["c"] != before["a"]
    live.stop()
    assert replayed(live) == [True, True], "two engines: the label is known by now"
