"""On a real control plane each kind of owner makes the right groups: whole, or not at all.

JobSet and LeaderWorkerSet run with their own controllers. Of the others the objects are there, and
the pods are made here as their controllers would.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.kube.plane import node, pod, pod_spec

if TYPE_CHECKING:
    from tests.kube.api import Object
    from tests.kube.live import Live
    from tests.kube.plane import Plane


def _template(gpus: int = 8) -> Object:
    return {"spec": {**pod_spec(gpus), "restartPolicy": "Never"}}


def _owned(live: Live, path: str, owner: Object, pods: list[Object]) -> None:
    """Create an owner and the pods that its controller would make."""
    owner["metadata"]["namespace"] = live.namespace
    made = live.plane.api.create(owner)
    for each in pods:
        each["metadata"]["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": made["metadata"]["name"],
                "uid": made["metadata"]["uid"],
                "controller": True,
            }
        ]
    live.submit(*pods)


def _waits(live: Live, count: int, reason: str = "Unschedulable") -> None:
    """Wait until there are so many pods and they wait for room; none of them has a node."""
    live.plane.wait_for(lambda: len(live.pods()) == count, 30, f"{count} pods are made")
    for name in sorted(live.pods())[:1]:
        live.until_says(name, reason)
    assert not live.nodes_of()


def test_all_jobs_of_a_jobset_start_together(live: Live, jobset: Plane) -> None:
    """A driver and two jobs of two workers: five pods, and room for four at first."""
    live.plane.nodes(4)
    live.start()
    jobs: list[dict[str, Any]] = [
        {"name": "driver", "replicas": 1, "pods": 1},
        {"name": "workers", "replicas": 2, "pods": 2},
    ]
    live.submit(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "train"},
            "spec": {
                "replicatedJobs": [
                    {
                        "name": each["name"],
                        "replicas": each["replicas"],
                        "template": {
                            "spec": {
                                "parallelism": each["pods"],
                                "completions": each["pods"],
                                "template": _template(),
                            }
                        },
                    }
                    for each in jobs
                ]
            },
        }
    )
    _waits(live, 5)

    live.plane.api.create(node("more"))

    assert len(set(live.until_bound(count=5).values())) == 5


def test_each_replica_of_a_leaderworkerset_is_a_gang(live: Live, lws: Plane) -> None:
    """Two replicas of a leader and two workers on four nodes: one of them is whole, one waits."""
    live.plane.nodes(4)
    live.start()
    live.submit(
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "serve"},
            "spec": {
                "replicas": 2,
                "leaderWorkerTemplate": {
                    "size": 3,
                    "workerTemplate": {"spec": pod_spec(8)},
                },
            },
        }
    )
    label = "leaderworkerset.sigs.k8s.io/group-index"
    live.until_bound(count=3, timeout=40)
    live.plane.wait_for(lambda: len(live.pods()) == 6, 30, "all pods are made")

    bound = live.nodes_of()

    groups = {name: each["metadata"]["labels"][label] for name, each in live.pods().items()}
    assert sorted(Counter(groups[name] for name in bound).values()) == [3]
    live.plane.nodes(2, prefix="more-")
    live.until_bound(count=6)


def test_master_and_workers_of_a_pytorchjob_start_together(live: Live, plane: Plane) -> None:
    plane.crds("training-operator")
    plane.nodes(2)
    live.start()
    replicas = {"Master": 1, "Worker": 2}
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train"},
        "spec": {
            "pytorchReplicaSpecs": {
                name: {"replicas": count, "template": _training_template("pytorch")}
                for name, count in replicas.items()
            }
        },
    }
    _owned(live, "pytorchjobs", owner, _training_pods(replicas))
    _waits(live, 3)

    plane.nodes(1, prefix="more-")

    live.until_bound(count=3)


def test_all_replicas_of_a_tfjob_start_together(live: Live, plane: Plane) -> None:
    plane.crds("training-operator")
    plane.nodes(2)
    live.start()
    replicas = {"Chief": 1, "PS": 1, "Worker": 1}
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "train"},
        "spec": {
            "tfReplicaSpecs": {
                name: {"replicas": count, "template": _training_template("tensorflow")}
                for name, count in replicas.items()
            }
        },
    }
    _owned(live, "tfjobs", owner, _training_pods(replicas))
    _waits(live, 3)

    plane.nodes(1, prefix="more-")

    live.until_bound(count=3)


def _training_template(container: str) -> Object:
    template = _template()
    template["spec"]["containers"][0]["name"] = container
    return template


def _training_pods(replicas: dict[str, int]) -> list[Object]:
    return [
        pod(
            f"train-{name.lower()}-{i}",
            gpus=8,
            labels={
                "training.kubeflow.org/job-name": "train",
                "training.kubeflow.org/replica-type": name.lower(),
                "training.kubeflow.org/replica-index": str(i),
            },
        )
        for name, count in replicas.items()
        for i in range(count)
    ]


def test_a_raycluster_starts_with_its_least_workers_and_grows(live: Live, plane: Plane) -> None:
    """Head and two workers are the minimum; a third worker comes when there is room."""
    plane.crds("kuberay")
    plane.nodes(2)
    live.start()
    owner = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray"},
        "spec": {
            "headGroupSpec": {"rayStartParams": {}, "template": _template()},
            "workerGroupSpecs": [
                {
                    "groupName": "gpu",
                    "replicas": 3,
                    "minReplicas": 2,
                    "maxReplicas": 3,
                    "rayStartParams": {},
                    "template": _template(),
                }
            ],
        },
    }
    names = {"ray-head": ("head", "headgroup")} | {f"ray-{i}": ("worker", "gpu") for i in range(3)}
    pods = [
        pod(
            name,
            gpus=8,
            labels={
                "ray.io/cluster": "ray",
                "ray.io/node-type": kind,
                "ray.io/group": group,
            },
        )
        for name, (kind, group) in names.items()
    ]
    _owned(live, "rayclusters", owner, pods)
    _waits(live, 4)

    plane.nodes(1, prefix="more-")

    assert "ray-head" in live.until_bound(count=3)
    plane.nodes(1, prefix="last-")
    live.until_bound(count=4)
