"""Labels and annotations: what is read, from where, and what is told of mistakes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.annotations import BY_KEY, NOTES, Annotations, instant
from mooring.kube.convert.gpus import COUNT, FRACTION, MEMORY_OF, MODEL
from mooring.kube.kinds import KINDS, UNKNOWN
from mooring.kube.names import DEVICES, PREFIX
from mooring.model.workload import Slice, TopologyRequest
from tests.kube.manifests import (
    CREATED_S,
    Cluster,
    Json,
    job,
    job_pod,
    pod,
    training,
    training_pods,
)

PAGE = (Path(__file__).parents[2] / "docs/kubernetes-labels.md").read_text("utf-8")


def read(key: str, words: str) -> Any:
    """Return what is read of one annotation, or the complaint."""
    said = Annotations(["pod", "leaf"]).read({PREFIX + key: words}, {})
    if said.problems:
        (problem,) = said.problems
        assert (problem.field, problem.value) == (f"metadata.annotations[{PREFIX}{key}]", words)
        return problem.fix
    return said.get(key)


@pytest.mark.parametrize(
    ("key", "words", "value"),
    [
        ("queue", "team-a", "team-a"),
        ("preemptible", "semi", "semi"),
        ("service", "false", False),
        ("min", "4", 4),
        ("partial-min", "2", 2),
        ("topology-required", "leaf", "leaf"),
        ("topology-preferred", "node", "node"),
        ("topology-slice", "leaf:8", (Slice("leaf", 8),)),
        (
            "topology-slice",
            "pod:16, leaf:8,node:2",
            (*map(Slice, ("pod", "leaf", "node"), (16, 8, 2)),),
        ),
        ("volume", "64Mi", 64),
        ("run-limit", "1d12h", 129600.0),
        ("estimate", "90", 90.0),
        ("estimate", "0.5", 0.5),
        ("minimum-run", "0", 0.0),
        ("last-checkpoint", "2026-05-01T12:00:00Z", CREATED_S),
        ("last-checkpoint", "2026-05-01T14:00:00.5+02:00", CREATED_S + 0.5),
        ("last-checkpoint", "1777636800.25", CREATED_S + 0.25),
        ("checkpoint-every", "30m", 1800.0),
        ("restart-cost", "5m", 300.0),
        ("deadline", "1777636800", CREATED_S),
        ("preemption-delay", "10s", 10.0),
        ("grace", "never", -1.0),
        ("grace", "-1", -1.0),
        ("leave", "2m", 120.0),
    ],
)
def test_values_are_read(key: str, words: str, value: Any) -> None:
    assert read(key, words) == value


@pytest.mark.parametrize(
    ("key", "words", "fix"),
    [
        ("queue", "", "give a name that is not empty"),
        ("preemptible", "no", "give true, false, or semi: only what is above"),
        ("service", "True", "give true or false"),
        ("min", "0", "give a whole number from 1 to"),
        ("min", "1.5", "give a whole number"),
        ("min", "many", "give a whole number"),
        ("topology-required", "laef", "give one of 'cluster', 'pod', 'leaf', 'node'; did you mean"),
        ("topology-slice", "leaf", "give level:size, like"),
        ("topology-slice", "rack:4", "give one of 'cluster'"),
        ("topology-slice", "leaf:8,node:3", "give outer slices first, of sizes that divide"),
        ("topology-slice", "a:8,b:4,c:2,d:1", "give at most 3 slices"),
        ("volume", "lots", "give bytes, like"),
        ("run-limit", "0", "give a duration longer than 0"),
        ("estimate", "soon", "give seconds, or a duration like"),
        ("estimate", "-5", "give a duration, like 90s or 2h, not negative"),
        ("last-checkpoint", "yesterday", "give a moment, like"),
        ("last-checkpoint", "2026-05-01T12:00:00", "give a moment, like"),
        ("last-checkpoint", "2026-05-01", "give a moment, like"),
        ("last-checkpoint", "99999999999999999999", "give a moment after 1970"),
        ("grace", "soon", "or never"),
        ("premtible", "true", "remove it: there is no such name; did you mean 'preemptible'?"),
    ],
)
def test_a_mistake_is_told_with_what_is_accepted(key: str, words: str, fix: str) -> None:
    assert fix in read(key, words)


@given(st.sampled_from([note.key for note in NOTES]), st.text(max_size=30))
def test_no_value_is_so_odd_that_it_raises(key: str, words: str) -> None:
    said = Annotations(["leaf"]).read({PREFIX + key: words}, {})
    assert not (said.problems and said.values)


def test_all_mistakes_are_told_at_once_wherever_they_are() -> None:
    cluster = Cluster()
    train = job("train", 2, annotations={"mooring.dev/estimate": "soon"})
    cluster.owns(train)
    wrong = {"mooring.dev/min": "x", "mooring.dev/grace": "y"}
    cluster.sees(job_pod(train, 0, annotations=wrong, labels={"mooring.dev/queue": "a b" * 400}))
    assert [each.partition("]")[0] for each in cluster.complaints("lab/job/train")] == [
        "metadata.annotations[mooring.dev/grace",
        "metadata.annotations[mooring.dev/min",
        "metadata.labels[mooring.dev/queue",
        "Job train: metadata.annotations[mooring.dev/estimate",
    ]


QUEUES = [
    ({"annotations": "a", "labels": "b"}, {"annotations": "c", "labels": "d"}, "e", "a"),
    ({"labels": "b"}, {"annotations": "c", "labels": "d"}, "e", "b"),
    ({}, {"annotations": "c", "labels": "d"}, "e", "c"),
    ({}, {"labels": "d"}, "e", "d"),
    ({}, {}, "e", "e"),
    ({}, {}, "", "default"),
]


@pytest.mark.parametrize(("on_pod", "on_owner", "on_namespace", "queue"), QUEUES)
def test_nearest_to_the_pod_wins(
    on_pod: Json, on_owner: Json, on_namespace: str, queue: str
) -> None:
    def marks(given: Json) -> Json:
        return {place: {"mooring.dev/queue": word} for place, word in given.items()}

    cluster, train = Cluster(), job("train", 1, **marks(on_owner))
    if on_namespace:
        cluster.grouping.namespaces["lab"] = {"mooring.dev/queue": "another"}
    cluster.owns(train)
    cluster.sees(job_pod(train, 0, **marks(on_pod)))
    cluster.asks("lab/job/train")
    if on_namespace:
        cluster.grouping.namespaces["lab"] = {"mooring.dev/queue": on_namespace}
    assert cluster.asks("lab/job/train").queue == queue


def test_everything_that_is_said_arrives() -> None:
    cluster = Cluster()
    said = {
        "queue": "team",
        "user": "ada",
        "preemptible": "semi",
        "service": "true",
        "run-limit": "2h",
        "estimate": "1h",
        "minimum-run": "10m",
        "last-checkpoint": "1777636900",
        "checkpoint-every": "5m",
        "restart-cost": "1m",
        "deadline": "1777640000",
        "preemption-delay": "30s",
        "grace": "never",
        "leave": "45",
    }
    cluster.sees(pod("p", annotations={PREFIX + key: value for key, value in said.items()}))
    found = cluster.asks("lab/pod/p")
    assert (found.queue, found.user, found.preemptible, found.semi_preemptible, found.service) == (
        *("team", "ada", True, True, True),
    )
    assert (found.run_limit_s, found.estimate_s, found.minimum_run_s) == (7200, 3600, 600)
    assert (found.checkpoint_at, found.checkpoint_every_s) == (1777636900, 300)
    assert (found.restart_cost_s, found.deadline_at) == (60, 1777640000)
    assert (found.preemption_delay_s, found.grace_s, found.leave_s) == (30, -1, 45)


def test_a_pod_itself_says_how_long_it_takes_to_leave_and_that_it_preempts_nobody() -> None:
    cluster = Cluster()
    spec = {"terminationGracePeriodSeconds": 90, "preemptionPolicy": "Never"}
    cluster.sees(pod("p", spec=spec))
    found = cluster.asks("lab/pod/p")
    assert found.leave_s == 90
    assert found.preemption_delay_s > 1e9


def test_the_shorter_of_two_limits_holds() -> None:
    cluster = Cluster()
    train = job("train", 1, activeDeadlineSeconds=60, annotations={"mooring.dev/run-limit": "2m"})
    cluster.owns(train)
    cluster.sees(job_pod(train, 0))
    assert cluster.asks("lab/job/train").run_limit_s == 60


def test_the_latest_checkpoint_of_any_pod_counts_also_while_it_runs() -> None:
    cluster, train = Cluster(), job("train", 2)
    cluster.owns(train)

    def saves(index: int, at: int) -> Json:
        note = {"mooring.dev/last-checkpoint": str(at)}
        return job_pod(train, index, annotations=note, node="n1", phase="Running")

    cluster.sees(saves(0, 100), saves(1, 300))
    assert cluster.asks("lab/job/train").checkpoint_at == 300
    cluster.sees(saves(0, 500))
    assert cluster.asks("lab/job/train").checkpoint_at == 500


def test_a_running_workload_with_a_mistake_goes_on_and_the_mistake_is_told() -> None:
    cluster = Cluster()
    cluster.sees(pod("p", node="n1", annotations={"mooring.dev/estimate": "soon"}))
    assert cluster.asks("lab/pod/p").estimate_s is None
    (problem,) = cluster.grouping.problems["lab/pod/p"]
    assert problem.value == "soon"


# -- topology and minimum ---------------------------------------------------------------------


def test_topology_of_pods_is_that_of_their_group_and_of_the_owner_that_of_all() -> None:
    cluster = Cluster(levels={"l/pod": "pod", "l/leaf": "leaf"})
    roles = {"Master": 1, "Worker": 4}
    owner = training("PyTorchJob", roles)
    owner["metadata"]["annotations"] = {"mooring.dev/topology-required": "pod"}
    pods = training_pods(owner, roles)
    for each in pods[1:]:
        each["metadata"]["annotations"] = {"mooring.dev/topology-slice": "leaf:2"}
    cluster.owns(owner)
    cluster.sees(*pods)
    workload = cluster.asks("lab/pytorchjob/net")
    assert workload.topology == TopologyRequest(required="pod")
    slices = TopologyRequest(slices=(Slice("leaf", 2),))
    assert [group.topology for group in workload.groups] == [TopologyRequest(), slices]


def test_a_slice_divides_the_minimum_and_what_is_above_grows_by_whole_slices() -> None:
    cluster, train = (
        Cluster(),
        job("train", 5, annotations={"mooring.dev/topology-slice": "leaf:2"}),
    )
    cluster.owns(train)
    cluster.sees(*(job_pod(train, i) for i in range(5)))
    (complaint,) = cluster.complaints("lab/job/train")
    assert complaint.startswith("mooring.dev/topology-slice: leaf:2: give a size that divides")
    train["metadata"]["annotations"]["mooring.dev/min"] = "2"
    cluster.owns(train)
    assert cluster.sizes("lab/job/train") == {"main": (2, 4)}


def test_a_partial_minimum_is_at_most_the_minimum() -> None:
    cluster, train = Cluster(), job("train", 4)
    cluster.owns(train)
    cluster.sees(*(job_pod(train, i, annotations={"mooring.dev/partial-min": "2"}) for i in (0, 1)))
    workload = cluster.asks("lab/job/train")
    assert (workload.groups[0].min, workload.groups[0].partial) == (4, 2)
    assert workload.active
    cluster.sees(pod("p", annotations={"mooring.dev/partial-min": "2"}))
    assert "give at most 1" in cluster.complaints("lab/pod/p")[0]


def test_a_minimum_on_the_owner_is_shared_out_in_the_order_of_its_groups() -> None:
    cluster, roles = Cluster(), {"Master": 1, "Worker": 4}
    owner = training("PyTorchJob", roles)
    owner["metadata"]["annotations"] = {"mooring.dev/min": "3"}
    cluster.owns(owner)
    cluster.sees(*training_pods(owner, roles))
    assert cluster.sizes("lab/pytorchjob/net") == {"master": (1, 1), "worker": (2, 4)}


# -- the manual -------------------------------------------------------------------------------


def table(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading of the page."""
    body = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*) \|$", body, re.M)
    return [row.split(" | ") for row in rows[1:]]


def test_the_manual_has_every_label_and_annotation() -> None:
    assert table("Labels and annotations") == [
        [f"`{note.name}`", note.accepts, note.meaning, note.default or "–", "yes" * note.is_live]
        for note in NOTES
    ]


def test_the_manual_has_every_kind() -> None:
    unknown = ["any other", UNKNOWN.workload, UNKNOWN.minimum]
    assert table("Kinds") == [
        *([f"`{kind.resource.kind}`", kind.workload, kind.minimum] for kind in KINDS),
        unknown,
    ]


@pytest.mark.parametrize("name", [FRACTION, MEMORY_OF, COUNT, MODEL, DEVICES])
def test_what_is_read_elsewhere_is_no_mistake(name: str) -> None:
    assert name.removeprefix(PREFIX) in BY_KEY
    assert not Annotations().read({name: "anything"}, {}).problems


def test_moments_are_in_seconds() -> None:
    assert instant("1970-01-01T00:00:01Z") == 1.0
