"""Which pods are one workload, and what it asks for: stories of pods and their owners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from mooring.engine.check import check_groups
from mooring.engine.engine import Engine
from mooring.kube.kin import GIVEN_UP_MOST, Missing
from mooring.model.plan import Bind
from mooring.model.topology import Topology
from mooring.model.workload import TaskState, Workload
from tests.build import World, node
from tests.kube.manifests import (
    CREATED_S,
    Cluster,
    job,
    job_pod,
    owner_of,
    pod,
    thing,
    training,
    training_pods,
)

if TYPE_CHECKING:
    from mooring.kube.groups import Membership


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
    assert missing.key == "lab/uid-train"
    assert missing.is_watched
    cluster.owns(train)
    (member,) = cluster.sees(first)
    assert member.workload == "lab/job/train"


def test_pods_of_an_indexed_job_have_ranks() -> None:
    cluster, train = Cluster(), job("train", 2, indexed=True)
    cluster.owns(train)
    members = cluster.sees(job_pod(train, 1), job_pod(train, 0))
    assert [member.rank for member in members] == [1, 0]


# -- coming and going -------------------------------------------------------------------------


def test_a_job_that_is_scaled_asks_for_another_minimum() -> None:
    cluster, train = Cluster(), job("train", 2)
    cluster.owns(train)
    pods = [job_pod(train, i, node="n1") for i in range(2)]
    cluster.sees(*pods)
    cluster.begun.add("lab/job/train")
    cluster.owns(job("train", 3))
    assert cluster.sizes("lab/job/train") == {"main": (3, 3)}
    assert cluster.asks("lab/job/train").active  # it runs: what it misses is the engine's to mend
    cluster.owns(job("train", 1))
    cluster.loses(pods[1])
    assert cluster.sizes("lab/job/train") == {"main": (1, 1)}


def test_a_replica_set_has_as_many_tasks_as_live_pods() -> None:
    cluster = Cluster()
    web = thing("apps/v1", "ReplicaSet", "web", {"replicas": 4})
    cluster.owns(web)
    cluster.sees(*(pod(f"web-{i}", web) for i in range(4)))
    assert cluster.sizes("lab/replicaset/web") == {"main": (1, 4)}
    cluster.sees(
        pod("web-0", web, deletionTimestamp="2026-05-01T13:00:00Z"),
        pod("web-1", web, spec={"schedulingGates": [{"name": "later"}]}),
        pod("web-2", web, phase="Failed"),
    )
    assert cluster.sizes("lab/replicaset/web") == {"main": (1, 1)}


def test_gates_keep_a_gang_from_being_complete() -> None:
    cluster, train = Cluster(), job("train", 2)
    cluster.owns(train)
    cluster.sees(job_pod(train, 0), job_pod(train, 1, spec={"schedulingGates": [{"name": "x"}]}))
    assert not cluster.asks("lab/job/train").active
    cluster.sees(job_pod(train, 1))
    assert cluster.asks("lab/job/train").active


def test_a_suspended_job_is_not_active() -> None:
    cluster, train = Cluster(), job("train", 1, suspend=True)
    cluster.owns(train)
    cluster.sees(job_pod(train, 0))
    assert not cluster.asks("lab/job/train").active


def test_a_pod_that_is_adopted_moves_to_its_owner() -> None:
    cluster = Cluster()
    web = thing("apps/v1", "ReplicaSet", "web", {"replicas": 1})
    cluster.owns(web)
    (alone,) = cluster.sees(pod("stray", node="n1"))
    (adopted,) = cluster.sees(pod("stray", web, node="n1"))
    assert (alone.workload, adopted.workload) == ("lab/pod/stray", "lab/replicaset/web")
    assert cluster.grouping.is_over("lab/pod/stray") is True
    assert cluster.sizes("lab/replicaset/web") == {"main": (1, 1)}
    (orphan,) = cluster.sees(pod("stray", node="n1"))
    assert orphan.workload == "lab/pod/stray"


def test_pods_stay_where_they_were_while_their_owner_is_being_deleted() -> None:
    cluster, train = Cluster(), job("train", 1)
    first = job_pod(train, 0, node="n1")
    cluster.owns(train)
    cluster.sees(first)
    cluster.disowns(train)
    (member,) = cluster.sees(job_pod(train, 0, node="n1", deletionTimestamp="2026-05-01T13:00:00Z"))
    assert member.workload == "lab/job/train"
    assert cluster.grouping.is_over("lab/job/train") is True


def test_pods_found_without_their_owner_after_a_restart_are_still_a_workload() -> None:
    cluster, train = Cluster(), job("train", 4)
    cluster.grouping.owners.give_up("lab/uid-train")
    (member,) = cluster.sees(job_pod(train, 0, node="n1"))
    assert member.workload == "lab/job/train"
    assert cluster.sizes("lab/job/train") == {"main": (1, 1)}


def test_a_new_owner_of_an_old_name_is_another_workload() -> None:
    cluster, old = Cluster(), job("train", 1)
    new = job("train", 1, uid="uid-again")
    leaving = job_pod(old, 0, node="n1", deletionTimestamp="2026-05-01T13:00:00Z")
    cluster.owns(old)
    cluster.sees(leaving)
    cluster.disowns(old)
    cluster.owns(new)
    (member,) = cluster.sees(job_pod(new, 0, "y"))
    assert (member.workload, member.uid) == ("lab/job/train~2", "uid-again")
    assert cluster.asks("lab/job/train~2").active
    cluster.loses(leaving)
    cluster.grouping.forget("lab/job/train")
    third = job("train", 1, uid="uid-third")
    cluster.owns(third)
    assert cluster.sees(job_pod(third, 0, "z"))[0].workload == "lab/job/train"


def test_workloads_of_one_name_in_two_namespaces_are_two() -> None:
    cluster = Cluster()
    here, there = pod("p"), pod("p", uid="uid-there", namespace="office")
    names = [member.workload for member in cluster.sees(here, there)]
    assert names == ["lab/pod/p", "office/pod/p"]


# -- completions, retries ---------------------------------------------------------------------


def test_a_job_has_more_tasks_as_its_pods_finish() -> None:
    cluster, sweep = Cluster(), job("sweep", 2, completions=5)
    cluster.owns(sweep)
    cluster.sees(job_pod(sweep, 0), job_pod(sweep, 1))
    assert cluster.sizes("lab/job/sweep") == {"main": (2, 2)}
    cluster.sees(job_pod(sweep, 0, phase="Succeeded", node="n1"), job_pod(sweep, 2))
    assert cluster.sizes("lab/job/sweep") == {"main": (2, 3)}


def test_the_last_pods_of_a_job_need_no_gang() -> None:
    cluster, sweep = Cluster(), job("sweep", 4, completions=5)
    cluster.owns(sweep)
    cluster.sees(*(job_pod(sweep, i, phase="Succeeded", node="n1") for i in range(4)))
    cluster.sees(job_pod(sweep, 4))
    assert cluster.sizes("lab/job/sweep") == {"main": (4, 5)}
    assert cluster.asks("lab/job/sweep").active


def test_indexes_that_are_done_count_also_when_their_pods_are_gone() -> None:
    cluster = Cluster()
    status = {"completedIndexes": "0,2-3", "succeeded": 3}
    train = job("train", 2, completions=5, indexed=True, status=status)
    cluster.owns(train)
    cluster.sees(job_pod(train, 1), job_pod(train, 4))
    assert cluster.grouping.finished("lab/job/train").indexes == {0, 2, 3}
    assert cluster.sizes("lab/job/train") == {"main": (2, 5)}
    assert cluster.asks("lab/job/train").active


def test_a_job_is_over_when_it_says_so() -> None:
    cluster, train = Cluster(), job("train", 1)
    cluster.owns(train)
    cluster.sees(job_pod(train, 0, phase="Failed"))
    assert cluster.grouping.is_over("lab/job/train") is False  # it may try again
    train["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    cluster.owns(train)
    assert cluster.grouping.is_over("lab/job/train") is True
    assert cluster.grouping.has_failed("lab/job/train")


def test_the_engine_takes_a_job_with_more_completions_than_parallelism_to_its_end() -> None:
    """What the module says of tasks, with the engine itself: no task is placed twice or lost."""
    cluster, sweep = Cluster(), job("sweep", 2, completions=4)
    world = World(Engine(Topology())).join(node("n1", 2))
    entries = world.engine.entries
    cluster.grouping.has_begun = lambda name: name in entries() and entries()[name].has_begun
    cluster.owns(sweep)
    cluster.sees(job_pod(sweep, 0), job_pod(sweep, 1))
    world.submit(cluster.asks("lab/job/sweep"))
    assert bound(world) == [0, 1]
    world.tasks("lab/job/sweep", TaskState.RUNNING, 0, 1)

    world.tasks("lab/job/sweep", TaskState.FINISHED, 0)
    cluster.sees(job_pod(sweep, 0, phase="Succeeded", node="n1"), job_pod(sweep, 2))
    world.edit(cluster.asks("lab/job/sweep"))
    assert bound(world) == [2]
    world.tasks("lab/job/sweep", TaskState.RUNNING, 2)

    world.tasks("lab/job/sweep", TaskState.FAILED, 1)
    cluster.sees(job_pod(sweep, 1, phase="Failed", node="n1"), job_pod(sweep, 3))
    world.edit(cluster.asks("lab/job/sweep"))
    assert bound(world) == [1]  # the retry has the task of the one that failed
    assert world.cycle(1e6).decisions == ()


def bound(world: World) -> list[int]:
    """Return the tasks that the next plan starts."""
    decisions = world.cycle().decisions
    assert all(isinstance(each, Bind) for each in decisions), decisions
    return [task for each in decisions if isinstance(each, Bind) for task in each.placement.tasks]


# -- shapes -----------------------------------------------------------------------------------


def test_pods_of_another_shape_are_a_group_of_the_same_gang_before_it_begins() -> None:
    cluster, train = Cluster(), job("train", 3)
    cluster.owns(train)
    cluster.sees(job_pod(train, 0), job_pod(train, 1, gpus=2), job_pod(train, 2))
    assert cluster.sizes("lab/job/train") == {"main": (2, 2), "main~2": (1, 1)}
    assert cluster.asks("lab/job/train").active


def test_an_edited_template_replaces_the_shape_of_what_has_not_begun() -> None:
    cluster, train = Cluster(), job("train", 2)
    cluster.owns(train)
    old = [job_pod(train, i, "a") for i in range(2)]
    new = [job_pod(train, i, "b", gpus=4) for i in range(2)]
    cluster.sees(*old)
    cluster.loses(*old)
    cluster.sees(*new)
    (leaf,) = cluster.asks("lab/job/train").leaves()
    assert (leaf.min, leaf.shape.gpus) == (2, 4)


def test_pods_of_another_shape_are_a_workload_beside_one_that_has_begun() -> None:
    cluster = Cluster()
    db = thing("apps/v1", "StatefulSet", "db", {"replicas": 3})
    cluster.owns(db)
    old = [pod(f"db-{i}", db, node="n1") for i in range(3)]
    cluster.sees(*old)
    cluster.begun.add("lab/statefulset/db")
    cluster.loses(old[2])
    (member,) = cluster.sees(pod("db-2", db, uid="uid-new", gpus=2))
    assert (member.workload, member.group, member.rank) == ("lab/statefulset/db~2", "main", None)
    assert cluster.grouping.take_touched() == ["lab/statefulset/db"]
    assert cluster.sizes("lab/statefulset/db") == {"main": (1, 2)}
    assert cluster.sizes("lab/statefulset/db~2") == {"main": (1, 1)}
    cluster.loses(*old[:2])
    assert cluster.grouping.is_over("lab/statefulset/db") is True
    assert cluster.grouping.is_over("lab/statefulset/db~2") is False


def test_the_minimum_of_a_gang_is_shared_with_a_replacement_of_another_shape() -> None:
    cluster, train = Cluster(), job("train", 3)
    pods = [job_pod(train, i, node="n1") for i in range(3)]
    cluster.owns(train)
    cluster.sees(*pods)
    cluster.begun.add("lab/job/train")
    cluster.loses(pods[1])
    assert cluster.sizes("lab/job/train") == {"main": (3, 3)}
    cluster.sees(job_pod(train, 1, "again", gpus=2))
    assert cluster.sizes("lab/job/train") == {"main": (2, 2)}
    assert cluster.sizes("lab/job/train~2") == {"main": (1, 1)}


def test_a_restart_finds_one_workload_however_many_groups_run() -> None:
    roles = {"Master": 1, "Worker": 2}
    cluster, owner = Cluster(), training("PyTorchJob", roles)
    cluster.owns(owner)
    pods = training_pods(owner, roles)
    for each in pods:
        each["spec"]["nodeName"] = "n1"
    assert {member.workload for member in cluster.sees(*pods)} == {"lab/pytorchjob/net"}


def test_a_pod_that_cannot_be_understood_is_apart_and_says_why() -> None:
    cluster, train = Cluster(), job("train", 2)
    cluster.owns(train)
    members = cluster.sees(job_pod(train, 0), job_pod(train, 1, gpus="half"))
    assert [member.workload for member in members] == ["lab/job/train", "lab/job/train~?"]
    (complaint,) = cluster.complaints("lab/job/train~?")
    assert "half: give whole devices" in complaint
    assert not cluster.asks("lab/job/train").active
    assert cluster.grouping.is_over("lab/job/train") is False


def test_pods_of_two_owners_of_one_name_that_cannot_be_understood_are_not_mixed() -> None:
    cluster, old, new = Cluster(), job("train"), job("train", uid="uid-again")
    cluster.owns(old, new)
    members = cluster.sees(job_pod(old, 0, gpus="half"), job_pod(new, 0, "y", gpus="third"))
    assert [member.workload for member in members] == ["lab/job/train~?", "lab/job/train~??"]
    for name, word in (("lab/job/train~?", "half"), ("lab/job/train~??", "third")):
        assert word in cluster.complaints(name)[0]


def test_an_owner_is_not_remembered_for_ever() -> None:
    cluster = Cluster()
    for number in range(GIVEN_UP_MOST + 2):
        cluster.grouping.owners.give_up(f"lab/uid-{number}")
    assert isinstance(cluster.looks_at(job_pod(job("0"), 0)), Missing)
    assert cluster.sees(job_pod(job("5"), 0))[0].workload == "lab/job/5"


def test_nothing_is_computed_again_for_news_that_change_nothing() -> None:
    cluster = Cluster()
    cluster.sees(pod("p", node="n1"))
    (before,) = cluster.sees(pod("p", node="n1", phase="Running"))
    (after,) = cluster.sees(pod("p", node="n1", phase="Running", annotations={"x": "y"}))
    assert before is after


STEPS = st.tuples(
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "gone", "bound", "scale"]),
    st.integers(0, 3),
    st.sampled_from([{}, {"mooring.dev/min": "2"}, {"mooring.dev/estimate": "soon"}]),
    st.sampled_from([1, 2, "half"]),
    st.booleans(),
)


@given(st.lists(STEPS, max_size=14), st.booleans())
def test_what_is_remembered_is_what_would_be_found_anew(
    steps: list[tuple[str, int, dict[str, str], int | str, bool]], indexed: bool
) -> None:
    """Whatever happens, the engine would take every description, and none is out of date."""
    cluster, size = Cluster(), 2
    cluster.owns(job("train", size, indexed=indexed))
    for what, index, notes, gpus, begun in steps:
        size = index if what == "scale" else size
        train = job("train", size, indexed=indexed)
        given_pod = job_pod(train, index, str(gpus), annotations=dict(notes), gpus=gpus)
        if what == "scale":
            cluster.owns(train)
        elif what == "gone":
            cluster.loses(given_pod)
        else:
            given_pod["status"]["phase"] = what if what != "bound" else "Pending"
            given_pod["spec"] |= {} if what == "Pending" else {"nodeName": "n1"}
            cluster.sees(given_pod)
        names = cluster.grouping.workloads_of(owner_of(train))
        cluster.begun |= {name for name in names if begun and not name.endswith("?")}
        for name in names:
            found = cluster.grouping.describe(name)
            cluster.owns(train)  # looks at everything again
            assert cluster.grouping.describe(name) == found
            if isinstance(found, Workload):
                check_groups(found)
                leaves = {leaf.name for leaf in found.leaves()}
                assert {m.group for m in members_of(cluster, name)} <= leaves


def members_of(cluster: Cluster, name: str) -> list[Membership]:
    """Return the pods of a workload."""
    found = cluster.grouping._sibling_of.values()
    return [member for each in found if each.name == name for member in each.members.values()]


def test_a_group_without_pods_stays_in_a_workload_that_has_begun() -> None:
    groups = [{"groupName": "gpu", "replicas": 1, "minReplicas": 0}]
    spec = {"workerGroupSpecs": groups, "enableInTreeAutoscaling": True}
    cluster, owner = Cluster(), thing("ray.io/v1", "RayCluster", "ray", spec)
    head = pod("head", owner, labels={"ray.io/node-type": "head"})
    worker = pod("worker", owner, labels={"ray.io/node-type": "worker", "ray.io/group": "gpu"})
    cluster.owns(owner)
    cluster.sees(head, worker)
    cluster.begun.add("lab/raycluster/ray")
    cluster.loses(worker)
    check_groups(cluster.asks("lab/raycluster/ray"))
    assert list(cluster.sizes("lab/raycluster/ray")) == ["headgroup", "gpu"]
