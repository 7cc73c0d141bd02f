"""The table of kinds, with objects as their controllers make them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.kube.convert.pod import PER_POD
from mooring.kube.kin import Missing, Owners
from mooring.kube.kinds import BY_KEY, KINDS
from mooring.kube.objects import Unreadable
from mooring.kube.owners import read_owner
from mooring.kube.resources import JOBS
from tests.kube.manifests import (
    INDEX,
    Cluster,
    Json,
    job,
    job_pod,
    owner_of,
    pod,
    thing,
    training,
    training_pods,
)

JOBSET = "jobset.sigs.k8s.io/"
LWS = "leaderworkerset.sigs.k8s.io/"


# -- Deployment, ReplicaSet, StatefulSet ------------------------------------------------------


def replica_set(name: str, replicas: int, **more: Any) -> Json:
    deployment = thing("apps/v1", "Deployment", name.rpartition("-")[0])
    return thing("apps/v1", "ReplicaSet", name, {"replicas": replicas}, owner=deployment, **more)


def test_a_deployment_is_a_service_of_each_of_its_templates() -> None:
    cluster = Cluster()
    old, new = replica_set("web-5d8f", 2), replica_set("web-7c9a", 1)
    cluster.owns(old, new)
    cluster.sees(pod("web-5d8f-a", old), pod("web-5d8f-b", old), pod("web-7c9a-a", new))
    assert cluster.sizes("lab/replicaset/web-5d8f") == {"main": (1, 2)}
    assert cluster.sizes("lab/replicaset/web-7c9a") == {"main": (1, 1)}
    assert cluster.asks("lab/replicaset/web-5d8f").service
    assert cluster.asks("lab/replicaset/web-5d8f").active


def test_a_replica_set_that_was_rolled_over_is_over_but_one_between_pods_is_not() -> None:
    cluster, web = Cluster(), replica_set("web-5d8f", 1)
    first = pod("web-5d8f-a", web)
    cluster.owns(web)
    cluster.sees(first)
    cluster.loses(first)
    assert cluster.grouping.is_over("lab/replicaset/web-5d8f") is False
    cluster.owns(replica_set("web-5d8f", 0))
    assert cluster.grouping.is_over("lab/replicaset/web-5d8f") is True


def stateful_set(policy: str = "OrderedReady", **more: Any) -> Json:
    spec = {"replicas": 3, "podManagementPolicy": policy, **more.pop("spec", {})}
    return thing("apps/v1", "StatefulSet", "db", spec, **more)


@pytest.mark.parametrize(
    ("name", "labels", "spec", "rank"),
    [
        ("db-2", {"apps.kubernetes.io/pod-index": "2"}, {}, 2),
        ("db-2", {}, {}, 2),
        ("db-7", {"apps.kubernetes.io/pod-index": "7"}, {"ordinals": {"start": 5}}, 2),
        ("db-4", {}, {"ordinals": {"start": 5}}, None),
        ("db-x", {"apps.kubernetes.io/pod-index": "-1"}, {}, None),
    ],
)
def test_pods_of_a_stateful_set_have_their_ordinal(
    name: str, labels: dict[str, str], spec: Json, rank: int | None
) -> None:
    cluster, owner = Cluster(), stateful_set(spec=spec)
    cluster.owns(owner)
    (member,) = cluster.sees(pod(name, owner, labels=labels))
    assert (member.workload, member.rank) == ("lab/statefulset/db", rank)
    assert cluster.sizes("lab/statefulset/db") == {"main": (1, 1)}


def test_a_gang_cannot_come_together_if_its_pods_are_made_one_by_one() -> None:
    gang = {"mooring.dev/min": "3"}
    cluster, owner = Cluster(), stateful_set(annotations=gang)
    cluster.owns(owner)
    cluster.sees(pod("db-0", owner))
    (complaint,) = cluster.complaints("lab/statefulset/db")
    assert complaint.startswith("StatefulSet db: spec.podManagementPolicy OrderedReady: ")
    cluster.owns(stateful_set("Parallel", annotations=gang))
    assert cluster.sizes("lab/statefulset/db") == {"main": (3, 3)}


# -- JobSet -----------------------------------------------------------------------------------


def jobset(**spec: Any) -> Json:
    """Return a driver and two jobs of three workers each."""
    jobs = [
        {"name": "driver", "replicas": 1, "template": {"spec": {"parallelism": 1}}},
        {
            "name": "workers",
            "replicas": 2,
            "template": {"spec": {"parallelism": 3, "completions": 3}},
        },
    ]
    more = spec.pop("more", {})
    whole = {"replicatedJobs": jobs, **spec}
    return thing("jobset.x-k8s.io/v1alpha2", "JobSet", "train", whole, **more)


def jobset_job(owner: Json, name: str, number: int) -> Json:
    parallelism = 1 if name == "driver" else 3
    return job(f"train-{name}-{number}", parallelism, indexed=True, owner=owner)


def jobset_pod(owner: Json, name: str, number: int, index: int, **more: Any) -> Json:
    """Return a pod as the Job controller makes it from the JobSet's template."""
    marks = {
        f"{JOBSET}jobset-name": "train",
        f"{JOBSET}replicatedjob-name": name,
        f"{JOBSET}job-index": str(number),
        f"{JOBSET}job-key": f"hash-{name}-{number}",
        f"{JOBSET}restart-attempt": "0",
    }
    notes = {**marks, **more.pop("annotations", {})}
    parent = jobset_job(owner, name, number)
    return job_pod(parent, index, labels=marks, annotations=notes, **more)


def own_jobs(cluster: Cluster, owner: Json) -> None:
    numbered = [("driver", 0), ("workers", 0), ("workers", 1)]
    cluster.owns(owner, *(jobset_job(owner, name, number) for name, number in numbered))


def test_all_jobs_of_a_jobset_are_one_gang_with_a_group_for_each_replicated_job() -> None:
    cluster, owner = Cluster(), jobset()
    own_jobs(cluster, owner)
    members = cluster.sees(
        jobset_pod(owner, "driver", 0, 0),
        *(jobset_pod(owner, "workers", job, i) for job in (1, 0) for i in range(3)),
    )
    assert {member.workload for member in members} == {"lab/jobset/train"}
    assert [member.rank for member in members] == [0, 3, 4, 5, 0, 1, 2]
    assert cluster.sizes("lab/jobset/train") == {"driver": (1, 1), "workers": (6, 6)}
    assert cluster.asks("lab/jobset/train").active


def test_a_jobset_waits_for_groups_that_have_no_pods_yet() -> None:
    cluster, owner = Cluster(), jobset()
    own_jobs(cluster, owner)
    cluster.sees(jobset_pod(owner, "driver", 0, 0))
    assert not cluster.asks("lab/jobset/train").active


def test_the_job_of_a_jobset_may_be_seen_before_the_jobset() -> None:
    cluster, owner = Cluster(), jobset()
    first = jobset_pod(owner, "driver", 0, 0)
    seen = []
    for step in (jobset_job(owner, "driver", 0), owner):
        missing = cluster.looks_at(first)
        assert isinstance(missing, Missing)
        seen.append(missing.ref.kind)
        cluster.owns(step)
    assert seen == ["Job", "JobSet"]
    assert cluster.sees(first)[0].workload == "lab/jobset/train"


def test_a_suspended_jobset_is_not_active_and_goes_on_where_it_was() -> None:
    cluster, owner = Cluster(), jobset()
    pods = [jobset_pod(owner, "driver", 0, 0, node="n1")]
    pods += [jobset_pod(owner, "workers", job, i, node="n1") for job in (0, 1) for i in range(3)]
    own_jobs(cluster, owner)
    cluster.sees(*pods)
    assert cluster.asks("lab/jobset/train").active
    cluster.owns(jobset(suspend=True))
    assert not cluster.asks("lab/jobset/train").active
    cluster.loses(*pods)
    assert not cluster.asks("lab/jobset/train").active
    assert cluster.grouping.is_over("lab/jobset/train") is False
    cluster.owns(owner)
    assert cluster.sees(*pods)[0].workload == "lab/jobset/train"
    assert cluster.sizes("lab/jobset/train") == {"driver": (1, 1), "workers": (6, 6)}


@pytest.mark.parametrize(
    "spec",
    [
        {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
        {"replicatedJobs": [{"name": "driver", "dependsOn": [{"name": "x", "status": "Ready"}]}]},
    ],
)
def test_jobs_that_start_in_an_order_do_not_wait_for_each_other(spec: Json) -> None:
    cluster, owner = Cluster(), jobset(**spec)
    own_jobs(cluster, owner)
    (member,) = cluster.sees(jobset_pod(owner, "driver", 0, 0))
    assert member.workload == "lab/jobset/train/driver"
    assert cluster.asks("lab/jobset/train/driver").active


def test_a_job_with_a_domain_of_its_own_starts_with_its_first_pod() -> None:
    """The controller makes the others only once that one has a node."""
    cluster, owner = Cluster(), jobset()
    own_jobs(cluster, owner)
    apart = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud/rack"}
    pods = [jobset_pod(owner, "workers", 1, i, annotations=apart) for i in range(3)]
    (first,) = cluster.sees(pods[0])
    assert first.workload == "lab/jobset/train/workers-1/leader"
    assert cluster.asks(first.workload).active
    assert [member.rank for member in cluster.sees(*pods[1:])] == [0, 1]
    assert cluster.sizes("lab/jobset/train/workers-1/followers") == {"followers": (2, 2)}
    by_selector = {**apart, "alpha.jobset.sigs.k8s.io/node-selector": "true"}
    (member,) = cluster.sees(jobset_pod(owner, "workers", 0, 0, annotations=by_selector))
    assert member.workload == "lab/jobset/train"


# -- LeaderWorkerSet --------------------------------------------------------------------------


def lws(size: int = 3, replicas: int = 2, **more: Any) -> Json:
    spec = {"replicas": replicas, "leaderWorkerTemplate": {"size": size}, **more.pop("spec", {})}
    return thing("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "llm", spec, **more)


def lws_pods(owner: Json, group: int, size: int = 3) -> list[Json]:
    """Return a leader and its workers: their set belongs to the leader's pod."""
    leaders = thing("apps/v1", "StatefulSet", "llm", owner=owner)

    def labels(worker: int) -> dict[str, str]:
        return {
            f"{LWS}name": "llm",
            f"{LWS}group-index": str(group),
            f"{LWS}worker-index": str(worker),
            "apps.kubernetes.io/pod-index": str(worker or group),
        }

    leader = pod(f"llm-{group}", leaders, labels=labels(0), gpus=4)
    workers = thing("apps/v1", "StatefulSet", f"llm-{group}", owner=leader)
    others = [pod(f"llm-{group}-{i}", workers, labels=labels(i), gpus=8) for i in range(1, size)]
    return [leader, *others]


def test_each_replica_of_a_leader_worker_set_is_a_gang() -> None:
    cluster, owner = Cluster(), lws()
    cluster.owns(owner)
    members = cluster.sees(*lws_pods(owner, 0), *lws_pods(owner, 1))
    names = ["lab/leaderworkerset/llm/0", "lab/leaderworkerset/llm/1"]
    assert [member.workload for member in members] == [names[0]] * 3 + [names[1]] * 3
    assert [member.rank for member in members][:3] == [0, 0, 1]
    for name in names:
        assert cluster.sizes(name) == {"leader": (1, 1), "workers": (2, 2)}
        assert cluster.asks(name).service


def test_a_leader_worker_set_is_found_by_its_label() -> None:
    cluster, owner = Cluster(), lws()
    worker = lws_pods(owner, 0)[1]
    missing = cluster.looks_at(worker)
    assert isinstance(missing, Missing)
    assert missing.key in cluster.grouping.put(owner_of(owner))
    assert cluster.sees(worker)[0].workload == "lab/leaderworkerset/llm/0"


@pytest.mark.parametrize(
    "more",
    [
        {"spec": {"startupPolicy": "LeaderReady"}},
        {"annotations": {f"{LWS}exclusive-topology": "cloud/rack"}},
    ],
)
def test_workers_that_come_after_their_leader_are_a_gang_of_their_own(more: Json) -> None:
    cluster, owner = Cluster(), lws(**more)
    leader, *workers = lws_pods(owner, 0)
    cluster.owns(owner)
    cluster.sees(leader)
    assert cluster.asks("lab/leaderworkerset/llm/0/leader").active
    cluster.sees(*workers)
    assert cluster.sizes("lab/leaderworkerset/llm/0/workers") == {"workers": (2, 2)}


def test_a_leader_worker_set_that_shrinks_drops_its_last_replica() -> None:
    cluster, owner = Cluster(), lws()
    pods = lws_pods(owner, 1)
    cluster.owns(owner)
    cluster.sees(*lws_pods(owner, 0), *pods)
    cluster.loses(*pods)
    assert cluster.grouping.is_over("lab/leaderworkerset/llm/1") is False
    cluster.owns(lws(replicas=1))
    assert cluster.grouping.is_over("lab/leaderworkerset/llm/1") is True
    assert cluster.grouping.is_over("lab/leaderworkerset/llm/0") is False


# -- training operator ------------------------------------------------------------------------


TORCH = {"Worker": 3, "Master": 1}
TENSOR = {"Worker": 2, "PS": 2, "Chief": 1, "Evaluator": 1}


@pytest.mark.parametrize(
    ("kind", "roles", "spec", "sizes"),
    [
        ("PyTorchJob", TORCH, {}, {"master": (1, 1), "worker": (3, 3)}),
        (
            "PyTorchJob",
            TORCH,
            {"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}},
            {"master": (1, 1), "worker": (2, 3)},
        ),
        (
            "PyTorchJob",
            {"Worker": 4},
            {"elasticPolicy": {"minReplicas": 2, "maxReplicas": 6}},
            {"worker": (2, 4)},
        ),
        (
            "TFJob",
            TENSOR,
            {},
            {"chief": (1, 1), "ps": (2, 2), "worker": (2, 2), "evaluator": (1, 1)},
        ),
        (
            "TFJob",
            TENSOR,
            {"runPolicy": {"schedulingPolicy": {"minAvailable": 4}}},
            {"chief": (1, 1), "ps": (2, 2), "worker": (1, 2), "evaluator": (0, 1)},
        ),
    ],
)
def test_replicas_of_a_training_job_are_groups(
    kind: str, roles: dict[str, int], spec: Json, sizes: dict[str, tuple[int, int]]
) -> None:
    cluster, owner = Cluster(), training(kind, roles, **spec)
    name = f"lab/{kind.lower()}/net"
    cluster.owns(owner)
    members = cluster.sees(*training_pods(owner, roles))
    assert cluster.sizes(name) == sizes
    assert list(cluster.sizes(name)) == list(sizes)
    assert cluster.asks(name).active
    assert {member.workload for member in members} == {name}
    assert [member.rank for member in members if member.group == "worker"][:2] == [0, 1]


def test_a_training_job_is_suspended_limited_and_over_by_its_run_policy() -> None:
    policy = {"suspend": True, "activeDeadlineSeconds": 3600}
    cluster, owner = Cluster(), training("TFJob", {"Worker": 1}, runPolicy=policy)
    cluster.owns(owner)
    cluster.sees(*training_pods(owner, {"Worker": 1}))
    workload = cluster.asks("lab/tfjob/net")
    assert (workload.active, workload.run_limit_s) == (False, 3600.0)
    owner["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    cluster.owns(owner)
    assert cluster.grouping.is_over("lab/tfjob/net") is True
    assert cluster.grouping.has_failed("lab/tfjob/net")


# -- Ray --------------------------------------------------------------------------------------


def ray(groups: list[Json], owner: Json | None = None, **spec: Any) -> Json:
    whole = {"headGroupSpec": {}, "workerGroupSpecs": groups, **spec}
    return thing("ray.io/v1", "RayCluster", "ray", whole, owner=owner)


def ray_pod(owner: Json, group: str, number: int = 0) -> Json:
    labels = {
        "ray.io/cluster": "ray",
        "ray.io/node-type": "head" if group == "headgroup" else "worker",
        "ray.io/group": group,
    }
    return pod(f"ray-{group}-{number}", owner, labels=labels)


@pytest.mark.parametrize(
    ("group", "spec", "size"),
    [
        ({"replicas": 3, "minReplicas": 1, "maxReplicas": 5}, {}, (1, 3)),
        ({"replicas": 3, "minReplicas": 0, "maxReplicas": 5}, {}, (3, 3)),
        (
            {"replicas": 3, "minReplicas": 0, "maxReplicas": 5},
            {"enableInTreeAutoscaling": True},
            (0, 3),
        ),
        ({"replicas": 1, "numOfHosts": 3}, {}, (3, 3)),
        ({"replicas": 2, "minReplicas": 1, "numOfHosts": 2}, {}, (2, 3)),
    ],
)
def test_groups_of_a_ray_cluster(group: Json, spec: Json, size: tuple[int, int]) -> None:
    cluster, owner = Cluster(), ray([{"groupName": "gpu", **group}], **spec)
    cluster.owns(owner)
    pods = [ray_pod(owner, "headgroup"), *(ray_pod(owner, "gpu", i) for i in range(3))]
    assert cluster.sees(*pods)[0].workload == "lab/raycluster/ray"
    assert cluster.sizes("lab/raycluster/ray") == {"headgroup": (1, 1), "gpu": size}


def test_a_ray_group_that_is_scaled_up_from_nothing_later_is_a_workload_beside() -> None:
    groups = [{"groupName": "gpu", "replicas": 0, "minReplicas": 0, "maxReplicas": 4}]
    cluster, owner = Cluster(), ray(groups, enableInTreeAutoscaling=True)
    cluster.owns(owner)
    cluster.sees(ray_pod(owner, "headgroup"))
    assert cluster.asks("lab/raycluster/ray").active
    cluster.begun.add("lab/raycluster/ray")
    (member,) = cluster.sees(ray_pod(owner, "gpu"))
    assert member.workload == "lab/raycluster/ray~2"
    assert cluster.sizes("lab/raycluster/ray~2") == {"gpu": (1, 1)}
    assert cluster.sizes("lab/raycluster/ray") == {"headgroup": (1, 1)}


@pytest.mark.parametrize(("kind", "serves"), [("RayJob", False), ("RayService", True)])
def test_a_ray_cluster_of_something_else_is_what_the_workload_is(kind: str, serves: bool) -> None:
    cluster, owner = Cluster(), ray([], thing("ray.io/v1", kind, "above"))
    cluster.owns(owner)
    cluster.sees(ray_pod(owner, "headgroup"))
    assert cluster.asks("lab/raycluster/ray").service is serves


# -- kinds without a row ----------------------------------------------------------------------

ABOVE = thing("grove.io/v1", "PodCliqueSet", "app")
CLIQUE = thing("grove.io/v1", "PodClique", "app-0", owner=ABOVE)


def test_a_kind_without_a_row_is_grouped_by_its_topmost_owner() -> None:
    cluster = Cluster(Owners(asks=True))
    first = pod("a", CLIQUE)
    steps = []
    for owner in (CLIQUE, ABOVE):
        missing = cluster.looks_at(first)
        assert isinstance(missing, Missing)
        assert not missing.is_watched
        steps.append(missing.ref.kind)
        cluster.owns(owner)
    assert steps == ["PodClique", "PodCliqueSet"]
    cluster.sees(first, pod("b", CLIQUE))
    assert cluster.sizes("lab/podcliqueset.grove.io/app") == {"main": (1, 2)}
    assert cluster.grouping.is_over("lab/podcliqueset.grove.io/app") is None


def test_an_owner_that_may_not_be_read_is_the_top() -> None:
    cluster = Cluster(Owners(asks=True))
    cluster.owns(CLIQUE)
    missing = cluster.looks_at(pod("a", CLIQUE))
    assert isinstance(missing, Missing)
    cluster.grouping.owners.give_up(missing.key)
    assert cluster.sees(pod("a", CLIQUE))[0].workload == "lab/podcliqueset.grove.io/app"


def test_where_nobody_asks_the_first_owner_is_the_top() -> None:
    assert Cluster().sees(pod("a", CLIQUE))[0].workload == "lab/podclique.grove.io/app-0"


def test_kinds_of_one_name_in_two_groups_are_told_apart() -> None:
    cluster, ours = Cluster(), job("train")
    theirs = thing("batch.volcano.sh/v1alpha1", "Job", "train", uid="uid-theirs")
    cluster.owns(ours)
    members = cluster.sees(pod("a", ours), pod("b", theirs))
    assert [each.workload for each in members] == [
        "lab/job/train",
        "lab/job.batch.volcano.sh/train",
    ]


def test_a_kind_that_is_not_watched_is_as_unknown() -> None:
    cluster, owner = Cluster(Owners(watched=[("batch", "Job")])), training("TFJob", {"Worker": 2})
    (member,) = cluster.sees(training_pods(owner, {"Worker": 1})[0])
    assert (member.workload, member.group, member.rank) == ("lab/tfjob/net", "main", None)
    assert cluster.sizes("lab/tfjob/net") == {"main": (1, 1)}


def test_a_job_of_something_that_only_starts_jobs_is_a_workload() -> None:
    cluster = Cluster()
    nightly = job("night-1", owner=thing("batch/v1", "CronJob", "night"))
    cluster.owns(nightly)
    assert cluster.sees(job_pod(nightly, 0))[0].workload == "lab/job/night-1"


def test_a_job_that_is_no_part_of_its_owner_is_a_workload() -> None:
    """A RayCluster makes one to clean up after itself; its pods are not those of the cluster."""
    cluster, above = Cluster(), ray([])
    cleanup = job("clean", owner=above)
    cluster.owns(above, cleanup)
    assert cluster.sees(job_pod(cleanup, 0))[0].workload == "lab/job/clean"


def test_owners_in_a_circle_end_somewhere() -> None:
    cluster = Cluster(Owners(asks=True))
    hen = thing("farm/v1", "Hen", "hen", owner=thing("farm/v1", "Egg", "egg"))
    egg = thing("farm/v1", "Egg", "egg", owner=hen)
    cluster.owns(hen, egg)
    assert cluster.sees(pod("chick", egg))[0].workload.startswith("lab/")


# -- the upstream pod group -------------------------------------------------------------------


def pod_group(policy: Json, **spec: Any) -> Json:
    whole = {"schedulingPolicy": policy, **spec}
    return thing("scheduling.k8s.io/v1beta1", "PodGroup", "gang", whole)


IN_GANG = {"schedulingGroup": {"podGroupName": "gang"}}


def test_a_pod_group_wins_over_owners() -> None:
    cluster, parent = Cluster(), job("train", 8)
    first = pod("train-x", parent, spec=IN_GANG)
    missing = cluster.looks_at(first)
    assert isinstance(missing, Missing)
    keys = cluster.grouping.put(owner_of(pod_group({"gang": {"minCount": 3}}, priority=70)))
    assert missing.key in keys
    cluster.sees(first, pod("other", spec=IN_GANG, gpus=4))
    assert not cluster.asks("lab/podgroup/gang").active
    cluster.sees(pod("train-y", parent, spec=IN_GANG))
    workload = cluster.asks("lab/podgroup/gang")
    assert cluster.sizes("lab/podgroup/gang") == {"main": (2, 2), "main~2": (1, 1)}
    assert (workload.active, workload.priority) == (True, 70)


def test_a_basic_pod_group_is_no_gang() -> None:
    cluster = Cluster()
    cluster.owns(pod_group({"basic": {}}))
    cluster.sees(pod("a", spec=IN_GANG), pod("b", spec=IN_GANG))
    assert cluster.sizes("lab/podgroup/gang") == {"main": (1, 2)}


def test_the_domain_of_a_pod_group_is_a_level_of_the_topology() -> None:
    group = pod_group(
        {"gang": {"minCount": 1}}, schedulingConstraints={"topology": [{"key": "net/leaf"}]}
    )
    cluster, stranger = Cluster(levels={"net/leaf": "leaf"}), Cluster(levels={"net/x": "leaf"})
    for each in (cluster, stranger):
        each.owns(group)
        each.sees(pod("a", spec=IN_GANG))
    assert [g.topology.required for g in cluster.asks("lab/podgroup/gang").groups] == ["leaf"]
    (complaint,) = stranger.complaints("lab/podgroup/gang")
    assert complaint.startswith("PodGroup gang: topology: net/leaf: give a label")


def test_where_the_server_has_no_pod_groups_owners_count() -> None:
    cluster = Cluster(Owners(watched=[key for key in BY_KEY if key[1] != "PodGroup"]))
    assert cluster.sees(pod("a", spec=IN_GANG))[0].workload == "lab/pod/a"


# -- the table itself -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_labels_of_ranks_do_not_make_shapes(kind: Any) -> None:
    assert set(kind.ranks) <= PER_POD


ODD: list[Any] = [
    None, 7, "x", [], {}, True, -3, 1 << 40, [None, 7, {"name": 7, "replicas": "two"}],
]  # fmt: skip
FIELDS = (
    *("parallelism", "completions", "replicas", "suspend", "ordinals", "replicatedJobs"),
    *("leaderWorkerTemplate", "pytorchReplicaSpecs", "tfReplicaSpecs", "runPolicy"),
    *("elasticPolicy", "workerGroupSpecs", "schedulingPolicy", "schedulingConstraints"),
    *("startupPolicy", "priority", "completionMode", "podManagementPolicy"),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_no_owner_is_so_odd_that_its_pods_cannot_be_grouped(kind: Any) -> None:
    """Specs that no server would let through: none raises, each gives a workload with a task."""
    for value in ODD:
        for field in FIELDS:
            owner = thing(kind.resource.api_version, kind.resource.kind, "odd", {field: value})
            owner["status"] = {"conditions": value, "completedIndexes": value, "succeeded": value}
            raw = read_owner(owner, kind.resource)
            cluster = Cluster()
            cluster.grouping.put(raw.rest if isinstance(raw, Unreadable) else raw)
            spec = {"schedulingGroup": {"podGroupName": "odd"}}
            (member,) = cluster.sees(
                pod("p", owner, spec=spec if kind.resource.kind == "PodGroup" else {})
            )
            workload = cluster.asks(member.workload)
            assert sum(leaf.most for leaf in workload.leaves()) >= 1
            cluster.grouping.is_over(member.workload)


def test_wrong_types_of_an_owner_are_told() -> None:
    found = read_owner({"metadata": {"name": "x", "labels": 3}, "spec": {}}, JOBS)
    assert isinstance(found, Unreadable)
    assert found.rest.kind == "Job"
    assert "metadata.labels" in found.problem


def test_only_what_is_asked_of_a_spec_is_kept() -> None:
    template = {"template": {"spec": {"containers": [{"image": "x"}], "volumes": []}}}
    owner = owner_of(thing("batch/v1", "Job", "x", {"parallelism": 2, **template}))
    assert owner.spec == {"parallelism": 2, "template": {"spec": {}}}


def test_a_rank_that_is_none_is_left_out() -> None:
    cluster, train = Cluster(), job("train", 2, indexed=True)
    cluster.owns(train)
    for index in ("-1", "one", "99999999", "²", ""):
        odd = pod(f"p{index}", train, labels={INDEX: index})
        assert cluster.sees(odd)[0].rank is None
