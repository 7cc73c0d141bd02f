"""The upstream pod group, on a server that has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kube.live import Live
from tests.kube.plane import pod

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.plane import Plane


def test_an_upstream_pod_group_starts_with_its_least_count(
    gang_plane: Plane, gang_namespace: str, tmp_path: Path
) -> None:
    """Three of four pods are the minimum: on two nodes nobody starts, on three three do."""
    plane = gang_plane
    live = Live(plane, gang_namespace, tmp_path)
    try:
        plane.nodes(2)
        live.start()
        live.submit(
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": "gang"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
            },
            *(pod(f"p{i}", gpus=8, schedulingGroup={"podGroupName": "gang"}) for i in range(4)),
        )
        live.until_says("p0", "Unschedulable")
        assert not live.nodes_of()

        plane.nodes(1, prefix="more-")

        live.until_bound(count=3)
        plane.nodes(1, prefix="last-")
        live.until_bound(count=4)
    finally:
        live.close()
