"""Which pods are one workload, and what it asks for: stories of pods and their owners."""

from __future__ import annotations

from mooring.kube.kin import Missing
from tests.kube.manifests import CREATED_S, Cluster, job, job_pod, pod


def test_a_pod_without_owner_is_a_workload() -> None:
    cluster = Cluster()
    (member,) = cluster.sees(pod("notebook", gpus=2, spec={"priority": 50}))
    assert (member.workload, member.uid) == ("lab/pod/notebook", "uid-notebook")
    workload = cluster.asks("lab/pod/notebook")
    assert cluster.sizes("lab/pod/notebook") == {"main": (1, 1)}
    assert (workload.namespace, workload.queue, workload.priority) == ("lab", "default", 50)
    assert workload.submitted_at == CREATED_S
    assert workload.active
    assert [leaf.shape.gpus for leaf in workload.leaves()] == [2]


def test_a_job_is_a_gang_of_its_parallelism() -> None:
    cluster, train = Cluster(), job("train", 3)
    cluster.owns(train)
    cluster.sees(job_pod(train, 0, "a"), job_pod(train, 1, "b"))
    assert cluster.sizes("lab/job/train") == {"main": (3, 3)}
    assert not cluster.asks("lab/job/train").active
    cluster.sees(job_pod(train, 2, "c"))
    assert cluster.asks("lab/job/train").active


def test_a_pod_may_come_before_its_owner() -> None:
    cluster, train = Cluster(), job("train", 1)
    first = job_pod(train, 0)
    missing = cluster.looks_at(first)
    assert isinstance(missing, Missing)
    assert missing.uid == "uid-train"
    assert missing.is_watched
    cluster.owns(train)
    (member,) = cluster.sees(first)
    assert member.workload == "lab/job/train"


def test_pods_of_an_indexed_job_have_ranks() -> None:
    cluster, train = Cluster(), job("train", 2, indexed=True)
    cluster.owns(train)
    members = cluster.sees(job_pod(train, 1), job_pod(train, 0))
    assert [member.rank for member in members] == [1, 0]
