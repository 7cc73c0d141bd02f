"""Every metric on a story of a hundred seconds, computed by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mooring.metrics import Metrics, numbers_of
from mooring.metrics.job import MOST_STEPS
from mooring.metrics.live import Live
from mooring.metrics.packing import room_of
from mooring.metrics.summary import Evictions, Failed, Spread, Tted, Waited
from mooring.metrics.waits import WORST, Waits, bucket_of, quantile, survival
from mooring.model.events import (
    Adopted,
    BindRefused,
    Ended,
    Event,
    NodeChanged,
    NodeJoined,
    NodeLeft,
    QueuesChanged,
    Submitted,
    TasksChanged,
    WorkloadChanged,
)
from mooring.model.plan import Bind, Blocked, Decision, Evict, Plan, Reserved, Waiting
from mooring.model.queues import Queue
from mooring.model.resources import amounts
from mooring.model.scenario import Scenario
from mooring.model.topology import Level, Topology
from mooring.model.workload import Placement, Shape, TaskState, Workload
from mooring.policy.placing.mix import FIRST_LESSON
from tests.build import gang, gpus, group, node, task

if TYPE_CHECKING:
    from mooring.model.cluster import Node
    from tests.build import Needs

RACKS = Topology((Level("rack"),))
NODES = (node("a", 4, "r1"), node("b", 4, "r1"), node("c", 4, "r2"))
START = Scenario(0.0, RACKS, NODES)


def bind(name: str, group: str, *nodes: str, devices: int = 0b1111) -> Bind:
    tasks = tuple(range(len(nodes)))
    return Bind(name, Placement(group, tasks, nodes, (devices,) * len(nodes)))


def runs(name: str, *tasks: int, group: str = "main", at: float | None = None) -> TasksChanged:
    return TasksChanged(name, group, tasks or (0,), TaskState.RUNNING, at)


def at(workload: Workload) -> Submitted:
    return Submitted(workload)


def tell(metrics: Metrics, now: float, *events: Event, plan: tuple[Decision, ...] = ()) -> None:
    metrics.hear(now, events, Plan(plan))


NOT_KNOWN = Spread(None, None, None, None)
WHOLE_NODE = task("w", 4, submitted_at=0.0)
PAIR = gang("g", tasks=2, gpus=2, submitted_at=10.0)
GROUP, PAIRED = WHOLE_NODE.groups[0].name, PAIR.groups[0].name


def story(begin: float | None = None) -> Metrics:
    """A whole node is used for 100 s; a gang across racks has room for 30 s and runs for 10."""
    metrics = Metrics(START, begin)
    tell(metrics, 0.0, at(WHOLE_NODE), plan=(bind("w", GROUP, "a"),))
    spread = bind("g", PAIRED, "b", "c", devices=0b11)
    tell(metrics, 10.0, runs("w", group=GROUP, at=10.0), at(PAIR), plan=(spread,))
    tell(metrics, 20.0, runs("g", 0, 1, group=PAIRED, at=20.0))
    tell(metrics, 30.0, plan=(Evict("g", PAIRED, (0, 1), "preempt", "somebody"),))
    tell(metrics, 40.0, TasksChanged("g", PAIRED, (0, 1), TaskState.PENDING))
    tell(metrics, 100.0, Ended("w"))
    return metrics


def test_allocation_over_time() -> None:
    """4 of 12 for 70 s, 8 of 12 for 30 s."""
    gar = story().summary().gar
    assert gar.mean == pytest.approx((70 * 4 + 30 * 8) / 12 / 100)
    assert (gar.p10, gar.median, gar.p90) == pytest.approx((1 / 3, 1 / 3, 2 / 3))


def test_occupation_from_held_to_useful() -> None:
    """Held 4·100 + 4·30; ran 4·90 + 4·10; of that the gang's 4·10 are lost."""
    summary = story().summary()
    assert summary.sor == pytest.approx(520 / 1200)
    assert summary.sor_run == pytest.approx(400 / 1200)
    assert summary.sor_useful == pytest.approx(360 / 1200)


def test_fragmentation_by_nodes_and_by_gpus() -> None:
    """For 30 s two of three nodes are in part use, with 2 idle GPUs each."""
    summary = story().summary()
    assert summary.gfr.mean == pytest.approx(2 / 3 * 0.3)
    assert summary.gfr_gpu == pytest.approx(4 / 12 * 0.3)


def test_idle_parts_of_nodes_are_no_more_than_what_is_idle_also_when_a_node_leaves() -> None:
    """For 100 s half of two nodes is in use, then for 100 s all of the one that is left.

    A half and nothing; as sums of GPU-seconds, of which there are fewer then, it would be a third.
    """
    metrics = Metrics(Scenario(0.0, RACKS, NODES[:2]))
    jobs = [task(name, 2, submitted_at=0.0) for name in "xyz"]
    plan = (bind("x", GROUP, "a", devices=0b11), bind("y", GROUP, "b", devices=0b11))
    tell(metrics, 0.0, *map(at, jobs), plan=plan)
    tell(metrics, 100.0, NodeLeft("b"), Ended("y"), plan=(bind("z", GROUP, "a", devices=0b1100),))
    tell(metrics, 200.0)

    summary = metrics.summary()

    assert summary.gar.mean == pytest.approx((1 / 2 + 1) / 2)
    assert summary.gfr_gpu == pytest.approx((1 / 2 + 0) / 2)
    assert summary.sor == pytest.approx((4 * 100 + 4 * 100) / (8 * 100 + 4 * 100))


def test_of_no_time_there_is_no_number() -> None:
    """It begins and ends at 200 s, when nothing happens; nor did anybody ask for anything."""
    summary = story(200.0).summary()

    assert (summary.start, summary.end) == (200.0, 200.0)
    assert (summary.gar, summary.gfr) == (NOT_KNOWN, NOT_KNOWN)
    assert (summary.sor, summary.sor_run, summary.sor_useful) == (None, None, None)
    assert (summary.gfr_gpu, summary.gfr_demand) == (None, None)


def test_of_no_gangs_and_no_demand_there_is_no_number() -> None:
    """An idle cluster is not evenly shared, and work on one node says nothing of gangs."""
    idle, alone = Metrics(START), Metrics(START)
    tell(idle, 100.0)
    tell(alone, 0.0, at(WHOLE_NODE), plan=(bind("w", GROUP, "a"),))
    tell(alone, 100.0, runs("w", group=GROUP, at=0.0))

    fairness, row = idle.summary().fairness, numbers_of(idle.summary())

    assert (fairness.jain, fairness.least) == (None, None)
    assert [row[key] for key in ("jain", "least", "longest_wait_s")] == [None, None, None]
    assert [row[key] for key in ("gar_median", "sor", "gfr_gpu")] == [0.0, 0.0, 0.0]
    for metrics in (idle, alone):
        assert metrics.summary().tted == Tted(0, None, None, None, None)
        row = numbers_of(metrics.summary())
        assert [row[f"jtted{part}"] for part in ("_gangs", "", "_nodes", "_leaves")] == [
            *(0, None, None, None),
        ]
    assert numbers_of(story().summary())["jtted_gangs"] == 1


def test_waits_until_the_minimum_runs() -> None:
    """Both ask for 4 GPUs; both run 10 s after they came."""
    (curve,) = story().summary().waits
    assert (curve.bucket, curve.started, curve.waiting) == ("2-7", 2, 0)
    assert (curve.mean, curve.p50, curve.p99, curve.longest) == (10.0, 10.0, 10.0, 10.0)


def test_steps_take_longer_across_racks() -> None:
    """It could be on one node (400 GB/s), and goes over the cluster (25 GB/s): 4 GiB a step."""
    tted = story().summary().tted
    volume = 4096 * (1 << 20) / 1e9
    assert tted.gangs == 1
    assert tted.time == pytest.approx((1 + volume / 25) / (1 + volume / 400))
    assert (tted.nodes, tted.leaves) == (2.0, 2.0)


def test_steps_of_many_gangs() -> None:
    """One across racks, ten on one node: the 90th percentile is the best there is."""
    metrics = Metrics(START)
    for number in range(11):
        name = f"g{number}"
        where = ("b", "c") if number == 0 else ("a", "a")
        pair = bind(name, PAIRED, *where, devices=0b1)
        tell(metrics, 0.0, at(gang(name, tasks=2, gpus=1, submitted_at=0.0)), plan=(pair,))
        tell(metrics, 0.0, runs(name, 0, 1, group=PAIRED, at=0.0), Ended(name))

    tted = metrics.summary().tted
    volume = 4096 * (1 << 20) / 1e9
    far = (1 + volume / 25) / (1 + volume / 400)

    assert tted.gangs == 11
    assert (tted.time, tted.time_p90) == pytest.approx(((far + 10) / 11, 1.0))
    assert (tted.nodes, tted.leaves) == pytest.approx((12 / 11, 12 / 11))


def test_steps_compute_once_and_send_for_every_group() -> None:
    """One group on a node, one across racks; each could be on one node."""
    two = replace(PAIR, groups=(PAIR.groups[0], replace(PAIR.groups[0], name="far")))
    metrics = Metrics(START)
    plan = (bind("g", PAIRED, "a", "a", devices=0b1), bind("g", "far", "b", "c", devices=0b1))
    tell(metrics, 10.0, at(two), plan=plan)
    tell(metrics, 10.0, runs("g", 0, 1, group=PAIRED), runs("g", 0, 1, group="far"))

    volume = 4096 * (1 << 20) / 1e9
    best = 1 + 2 * volume / 400
    time = metrics.summary().tted.time
    assert time == pytest.approx((1 + volume / 400 + volume / 25) / best)


def test_shares_and_instances_could_be_on_one_device() -> None:
    """Sixteen halves fill eight devices; seven instances of an eighth one device."""
    whole, cut = node("n", 8), node("m", 1)
    assert room_of(Shape(gpus=1, milli=500), whole) == 16
    assert room_of(Shape(gpus=1, milli=400), whole) == 16
    assert room_of(Shape(gpus=3), whole) == 2
    assert room_of(Shape(gpus=2, milli=500), whole) == 8
    assert room_of(Shape(gpus=3, milli=500), whole) == 5
    assert room_of(Shape((("cpu", 24_000),), gpus=1), whole) == 2
    assert room_of(Shape(gpus=1, mig="1g.10gb"), whole) == 0
    device = replace(cut.devices[0], mig="h100-80gb", memory=81_920)
    assert room_of(Shape(gpus=1, mig="1g.10gb"), replace(cut, devices=(device,))) == 7
    assert room_of(Shape(gpus=1, mig="3g.40gb"), replace(cut, devices=(device,))) == 2
    assert room_of(Shape(gpus=1), replace(cut, devices=(device,))) == 0
    memory = replace(device, mig="")
    assert room_of(Shape(gpus=1, gpu_memory=30_000), replace(cut, devices=(memory,))) == 2
    assert room_of(Shape(gpus=1, gpu_memory=90_000), replace(cut, devices=(memory,))) == 0
    assert room_of(Shape(gpus=1), replace(cut, devices=(replace(memory, healthy=False),))) == 0


def test_nodes_and_leaves_are_counted_over_all_groups() -> None:
    """Two groups of 2 GPUs in two racks, where one node would do; neither sends any further."""
    two = replace(task("t", 2), groups=(task("t", 2).groups[0], group("other", gpus=2)))
    metrics = Metrics(START)
    plan = (bind("t", GROUP, "a", devices=0b11), bind("t", "other", "c", devices=0b11))
    tell(metrics, 0.0, at(two), plan=plan)
    tell(metrics, 0.0, runs("t", group=GROUP), runs("t", group="other"))

    tted = metrics.summary().tted

    assert (tted.gangs, tted.time, tted.nodes, tted.leaves) == (1, 1.0, 2.0, 2.0)


def test_two_groups_on_one_node_use_one() -> None:
    two = replace(task("t", 2), groups=(task("t", 2).groups[0], group("other", gpus=2)))
    metrics = Metrics(START)
    plan = (bind("t", GROUP, "a", devices=0b11), bind("t", "other", "a", devices=0b1100))
    tell(metrics, 0.0, at(two), plan=plan)
    tell(metrics, 0.0, runs("t", group=GROUP), runs("t", group="other"))

    tted = metrics.summary().tted

    assert (tted.gangs, tted.time, tted.nodes, tted.leaves) == (1, 1.0, 1.0, 1.0)


NARROW: list[tuple[dict[str, int], int]] = [
    ({"cpu": 32_000}, 0),
    ({"memory": 1 << 19}, 0),
    ({"nvidia.com/nic": 1}, 0),
    ({}, 2),
    ({}, 0),
]


@pytest.mark.parametrize(("each", "pods"), NARROW, ids=["cpu", "memory", "other", "pods", "ports"])
def test_the_fewest_nodes_have_all_that_is_asked_for(each: dict[str, int], pods: int) -> None:
    """A node has room for two of four tasks of one GPU each, or for one if they share a port."""
    facts = {"nvidia.com/nic": 2} | ({"pods": pods} if pods else {})
    nodes = tuple(node(name, 4, "r1", extra=facts) for name in "abcd")
    ports = (80,) if not each and not pods else ()
    shape = Shape(amounts(each), gpus=1, ports=ports)
    four = replace(PAIR, groups=(replace(PAIR.groups[0], shape=shape, min=4),))
    metrics = Metrics(Scenario(0.0, RACKS, nodes))
    names = tuple("abcd" if ports else "aabb")
    masks = (0b1,) * 4 if ports else (0b1, 0b10) * 2
    tell(metrics, 10.0, at(four))
    tell(metrics, 10.0, plan=(Bind("g", Placement(PAIRED, (0, 1, 2, 3), names, masks)),))
    tell(metrics, 10.0, runs("g", 0, 1, 2, 3, group=PAIRED))

    tted = metrics.summary().tted

    assert (tted.gangs, tted.time, tted.nodes, tted.leaves) == (1, 1.0, 1.0, 1.0)


def test_groups_that_ask_for_different_things_fill_nodes_together() -> None:
    """A node has 4 GPUs and 64 cores: two of 2 GPUs go with two of 2 GPUs and all but 4 cores."""
    small = group("small", gpus=2, tasks=2, cpu=2_000)
    large = group("large", gpus=2, tasks=2, cpu=60_000)
    metrics = Metrics(START)
    both = replace(PAIR, groups=(small, large))
    plan = (bind("g", "small", "a", "b", devices=0b11), bind("g", "large", "b", "c", devices=0b11))
    tell(metrics, 10.0, at(both), plan=plan)
    tell(metrics, 10.0, runs("g", 0, 1, group="small"), runs("g", 0, 1, group="large"))

    tted = metrics.summary().tted

    assert (tted.nodes, tted.leaves) == (3 / 2, 2.0)


def test_a_placement_is_never_better_than_the_best() -> None:
    """The pair started on one node of which two GPUs have broken since: nowhere else is better."""
    metrics = Metrics(Scenario(0.0, RACKS, NODES[:1]))
    broken = [replace(d, healthy=index > 1) for index, d in enumerate(NODES[0].devices)]
    pair = Bind("g", Placement(PAIRED, (0, 1), ("a", "a"), (0b11, 0b1100)))
    tell(metrics, 10.0, at(PAIR), plan=(pair,))
    tell(metrics, 20.0, NodeChanged(replace(NODES[0], devices=tuple(broken))))
    tell(metrics, 20.0, runs("g", 0, 1, group=PAIRED))

    tted = metrics.summary().tted

    assert (tted.time, tted.nodes, tted.leaves) == (1.0, 1.0, 1.0)


def test_a_node_that_is_not_ready_is_no_better_place() -> None:
    """The pair would fit on a, which is not ready: two nodes are the fewest there are."""
    small = tuple(replace(each, devices=each.devices[:2]) for each in NODES[1:])
    metrics = Metrics(Scenario(0.0, RACKS, (replace(NODES[0], ready=False), *small)))
    tell(metrics, 10.0, at(PAIR), plan=(bind("g", PAIRED, "b", "c", devices=0b11),))
    tell(metrics, 10.0, runs("g", 0, 1, group=PAIRED))

    assert metrics.summary().tted.nodes == 1.0


def test_idle_gpus_that_what_is_asked_for_cannot_use() -> None:
    """Only nodes of four are asked for; one GPU of a is in use, so its other three are lost."""
    metrics = Metrics(START)
    asked = [task(f"w{number}", 4, submitted_at=0.0) for number in range(FIRST_LESSON)]
    tell(metrics, 0.0, *(at(each) for each in asked))
    tell(metrics, 0.0, *(Ended(each.name) for each in asked))
    metrics.hear(
        0.0, [Adopted(task("x", 4), (Placement(GROUP, (0,), ("a",), (0b1,)),), 0.0)], Plan()
    )
    tell(metrics, 3600.0)

    summary = metrics.summary()

    assert summary.gfr_demand == pytest.approx(3 / 12)


def test_evictions_and_what_they_cost() -> None:
    evictions = story().summary().evictions
    assert evictions.workloads == 1
    assert evictions.by_cause == (("preempt", 1),)
    assert evictions.lost_gpu_hours == pytest.approx(4 * 10 / 3600)


def ends(begin: float | None = None) -> Metrics:
    """The gang has 2·2 GPUs from 10 to 40 s, runs on one node again from 50 to 70 s, and fails.

    A whole node is had from 0 to 90 s and done; one that never started is taken back as failed.
    """
    metrics = Metrics(START, begin)
    never = task("x", 4, submitted_at=0.0)
    tell(metrics, 0.0, at(WHOLE_NODE), at(never), plan=(bind("w", GROUP, "a"),))
    tell(metrics, 10.0, at(PAIR), plan=(bind("g", PAIRED, "b", "c", devices=0b11),))
    tell(metrics, 30.0, plan=(Evict("g", PAIRED, (0, 1), "preempt", "somebody"),))
    tell(metrics, 40.0, TasksChanged("g", PAIRED, (0, 1), TaskState.PENDING))
    tell(metrics, 50.0, plan=(bind("g", PAIRED, "b", "b", devices=0b11),))
    tell(metrics, 60.0, runs("g", 0, 1, group=PAIRED, at=55.0))
    tell(metrics, 70.0, Ended("g", failed=True))
    tell(metrics, 80.0, Ended("x", failed=True))
    tell(metrics, 90.0, Ended("w"))
    return metrics


@pytest.mark.parametrize(
    ("begin", "workloads", "seconds"),
    [(None, 2, 30 + 20), (20.0, 2, 20 + 20), (65.0, 2, 5), (75.0, 1, 0), (85.0, 0, 0)],
)
def test_who_failed_held_gpus_as_long_as_it_had_them_in_the_window(
    begin: float | None, workloads: int, seconds: float
) -> None:
    summary = ends(begin).summary()
    assert summary.failed.workloads == workloads
    assert summary.failed.gpu_hours == pytest.approx(4 * seconds / 3600)


def test_what_a_failed_one_had_counts_only_when_it_has_failed() -> None:
    """It has had 4 GPUs for 100 s, of which two are broken for the last 40; then all is counted."""
    metrics = Metrics(START)
    broken = [replace(device, healthy=index > 1) for index, device in enumerate(NODES[0].devices)]
    tell(metrics, 0.0, at(WHOLE_NODE), plan=(bind("w", GROUP, "a"),))
    tell(metrics, 60.0, NodeChanged(replace(NODES[0], devices=tuple(broken))))
    tell(metrics, 100.0)
    assert metrics.summary().failed == Failed(0, 0.0)
    tell(metrics, 100.0, TasksChanged("w", GROUP, (0,), TaskState.FAILED))
    tell(metrics, 130.0, Ended("w", failed=True))

    failed = metrics.summary().failed

    assert failed.workloads == 1
    assert failed.gpu_hours == pytest.approx((4 * 60 + 2 * 40) / 3600)


def test_a_checkpoint_saves_work() -> None:
    metrics = Metrics(START)
    saved = replace(WHOLE_NODE, checkpoint_at=25.0, restart_cost_s=2.0)
    tell(metrics, 0.0, at(saved), plan=(bind("w", GROUP, "a"),))
    tell(metrics, 10.0, runs("w", group=GROUP, at=10.0))
    tell(metrics, 30.0, plan=(Evict("w", GROUP, (0,), "preempt", "x"),))
    tell(metrics, 30.0, TasksChanged("w", GROUP, (0,), TaskState.PENDING))
    tell(metrics, 30.0, plan=(bind("w", GROUP, "b"),))
    tell(metrics, 30.0, runs("w", group=GROUP, at=30.0))
    tell(metrics, 50.0, Ended("w"))

    summary = metrics.summary()

    assert summary.evictions.lost_gpu_hours == pytest.approx(4 * (5 + 2) / 3600)
    assert summary.sor_useful == pytest.approx(4 * (40 - 7) / (12 * 50))


@pytest.mark.parametrize("says", [True, False])
def test_a_restart_is_lost_as_far_as_it_came(*, says: bool) -> None:
    """Ran 20 s, lost; 5 s of a restart of 10 s; then all of it: 20 + 5 + 10 s of four GPUs."""
    metrics = Metrics(START, restart_s=0.0 if says else 10.0)
    workload = replace(WHOLE_NODE, restart_cost_s=10.0 if says else None)
    tell(metrics, 0.0, at(workload), plan=(bind("w", GROUP, "a"),))
    for begin, end in ((0.0, 20.0), (30.0, 35.0)):
        tell(metrics, begin, runs("w", group=GROUP, at=begin))
        tell(metrics, end, plan=(Evict("w", GROUP, (0,), "preempt", "x"),))
        tell(metrics, end, TasksChanged("w", GROUP, (0,), TaskState.PENDING))
        tell(metrics, end, plan=(bind("w", GROUP, "a"),))
    tell(metrics, 40.0, runs("w", group=GROUP, at=40.0))
    tell(metrics, 45.0)
    so_far = metrics.summary()
    tell(metrics, 100.0, Ended("w"))
    summary = metrics.summary()

    assert so_far.evictions.lost_gpu_hours == pytest.approx(4 * (20 + 5 + 5) / 3600)
    assert summary.evictions.lost_gpu_hours == pytest.approx(4 * (20 + 5 + 10) / 3600)
    assert summary.sor_useful == pytest.approx(4 * (20 + 5 + 60 - 35) / (12 * 100))


def test_what_a_service_has_served_is_not_lost() -> None:
    metrics = Metrics(START)
    tell(metrics, 0.0, at(replace(WHOLE_NODE, service=True)), plan=(bind("w", GROUP, "a"),))
    tell(metrics, 10.0, runs("w", group=GROUP, at=10.0))
    tell(metrics, 30.0, plan=(Evict("w", GROUP, (0,), "preempt", "x"),))
    tell(metrics, 30.0, TasksChanged("w", GROUP, (0,), TaskState.PENDING))

    summary = metrics.summary()

    assert (summary.evictions.workloads, summary.evictions.lost_gpu_hours) == (1, 0)
    assert summary.sor_useful == summary.sor_run == pytest.approx(4 * 20 / (12 * 30))


def test_warm_up_does_not_count() -> None:
    """From 20 s on: nobody came, the gang's room lasts 20 s more, 10 s of work are lost."""
    summary = story(begin=20.0).summary()
    assert (summary.submitted, summary.started, summary.ended) == (0, 0, 1)
    assert summary.sor == pytest.approx((80 * 4 + 20 * 4) / (12 * 80))
    assert summary.waits == ()
    assert summary.evictions.lost_gpu_hours == pytest.approx(4 * 10 / 3600)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_start_is_counted_from_when_it_was_wherever_it_stands_in_a_cycle(
    *, is_first: bool
) -> None:
    """It ran from 30 s on, which is told at 60 s together with somebody who came then."""
    metrics = Metrics(START)
    tell(metrics, 0.0, at(WHOLE_NODE), plan=(bind("w", GROUP, "a"),))
    start, other = runs("w", group=GROUP, at=30.0), at(replace(PAIR, submitted_at=60.0))
    tell(metrics, 60.0, *((start, other) if is_first else (other, start)))

    summary = metrics.summary()
    (curve,) = summary.waits

    assert (curve.started, curve.longest) == (1, 30.0)
    assert summary.sor_run == pytest.approx(4 * 30 / (12 * 60))


def test_a_start_without_a_time_is_counted_from_the_last_cycle_wherever_it_stands() -> None:
    metrics = Metrics(START)
    tell(metrics, 10.0, at(WHOLE_NODE), plan=(bind("w", GROUP, "a"),))
    tell(metrics, 60.0, at(replace(PAIR, submitted_at=60.0)), runs("w", group=GROUP))

    summary = metrics.summary()

    assert summary.waits[0].longest == 10.0
    assert summary.sor_run == pytest.approx(4 * 50 / (12 * 60))


def test_what_is_told_of_one_workload_stays_in_order() -> None:
    """w lost its place before it is said to run, so it does not; x ran from 20 s on."""
    metrics = Metrics(START)
    other = task("x", 4, submitted_at=0.0)
    places = (bind("w", GROUP, "a"), bind("x", GROUP, "b"))
    tell(metrics, 0.0, at(WHOLE_NODE), at(other), plan=places)
    refused, late = BindRefused("w", GROUP, (0,)), runs("w", group=GROUP, at=30.0)
    tell(metrics, 60.0, refused, late, runs("x", group=GROUP, at=20.0))

    summary = metrics.summary()

    assert (summary.started, summary.evictions.workloads) == (1, 0)
    assert {waited.name: waited.wait_s for waited in summary.worst} == {"w": 60.0, "x": 20.0}


def test_who_waits_still_is_censored() -> None:
    """One starts after 5 s, another has waited 50 s and has not started."""
    metrics = Metrics(START)
    tell(metrics, 0.0, at(WHOLE_NODE), at(task("x", 4, submitted_at=0.0)))
    tell(metrics, 5.0, plan=(bind("w", GROUP, "a"),))
    tell(metrics, 5.0, runs("w", group=GROUP))
    tell(metrics, 50.0)

    summary = metrics.summary()
    (curve,) = summary.waits

    assert (curve.started, curve.waiting, curve.p50, curve.p90) == (1, 1, 5.0, None)
    assert curve.longest == 50.0
    assert [(each.name, each.is_waiting) for each in summary.worst] == [("x", True), ("w", False)]
    assert [each.name for each in summary.not_started] == ["x"]


def test_who_leaves_without_a_start_is_censored_too() -> None:
    """One starts after 5 s, another leaves after 50 s and never ran."""
    heard = list[Waited]()
    metrics = Metrics(START, waited=heard.append)
    tell(metrics, 0.0, at(WHOLE_NODE), at(task("x", 4, submitted_at=0.0)))
    metrics.hear(1.0, [], Plan((), (Waiting("x", (Blocked("w"),)),)))
    tell(metrics, 5.0, plan=(bind("w", GROUP, "a"),))
    tell(metrics, 5.0, runs("w", group=GROUP))
    tell(metrics, 50.0, Ended("x"))
    tell(metrics, 60.0, Ended("w"))

    summary = metrics.summary()
    (curve,) = summary.waits

    assert (curve.started, curve.waiting, curve.p50, curve.p90) == (1, 1, 5.0, None)
    assert [(each.name, each.wait_s, each.reasons) for each in summary.worst] == [
        ("x", 50.0, (Blocked("w"),)),
        ("w", 5.0, ()),
    ]
    assert [each.name for each in summary.not_started] == ["x"]
    assert {(each.name, each.is_waiting) for each in heard} == {("w", False), ("x", True)}


def test_who_has_not_started_is_told_behind_many_who_waited_longer() -> None:
    """Thirty waited a minute and more, one waits for 10 s: nobody is to look for him in vain."""
    waits = Waits()
    for number in range(30):
        waits.over(Waited(f"w{number}", "q", 1, 0.0, 60.0 + number))
    late = Waited("late", "q", 1, 80.0, 10.0, is_waiting=True)

    assert len(waits.worst([late])) == WORST
    assert late not in waits.worst([late])
    assert waits.not_started([late]) == (late,)


def test_a_name_that_comes_again_waits_as_long() -> None:
    waits = Waits()
    every = [Waited("w", "q", 1, float(at), 60.0) for at in range(WORST + 2)]
    for waited in every:
        waits.over(waited)
    assert set(waits.worst([])) == set(every[2:])


def test_who_is_found_running_was_not_submitted() -> None:
    metrics = Metrics(START)
    place = Placement(GROUP, (0,), ("a",), (0b1111,))
    tell(metrics, 10.0, Adopted(WHOLE_NODE, (place,), 0.0))

    summary = metrics.summary()

    assert (summary.submitted, summary.started, summary.waits) == (0, 0, ())


def test_survival_by_kaplan_and_meier() -> None:
    """Of three at risk one starts at 1; one is lost sight of at 2; the last starts at 3."""
    curve = survival([1.0, 3.0], [2.0])
    assert curve.times.tolist() == [1.0, 3.0]
    assert curve.waiting.tolist() == pytest.approx([2 / 3, 0.0])
    assert (quantile(curve, 0.3), quantile(curve, 0.5)) == (1.0, 3.0)
    assert quantile(survival([1.0], [2.0, 2.0]), 0.5) is None


def test_sizes_fall_into_buckets() -> None:
    firsts = {bucket_of(gpus) for gpus in (1, 2, 8, 9, 64, 256, 1024)}
    lasts = {bucket_of(gpus) for gpus in (1, 7, 8, 63, 255, 1023, 100_000)}
    assert firsts == lasts == set(range(7))


def test_fairness_is_use_over_right() -> None:
    """Two queues ask for all 12 GPUs; each has a right to 6; one has 8 and the other 4."""
    start = Scenario(0.0, RACKS, NODES, (Queue("x"), Queue("y")))
    metrics = Metrics(start)
    many = gang("m", tasks=3, gpus=4, queue="x", submitted_at=0.0)
    other = gang("n", tasks=3, gpus=4, queue="y", submitted_at=0.0)
    more = (bind("m", many.groups[0].name, "a", "b"), bind("n", other.groups[0].name, "c"))
    tell(metrics, 0.0, at(many), at(other), plan=more)
    tell(metrics, 3600.0)

    fairness = metrics.summary().fairness

    assert [use.queue for use in fairness.queues] == ["x", "y"]
    assert [use.gpu_hours for use in fairness.queues] == pytest.approx([8.0, 4.0])
    assert [use.fair_gpu_hours for use in fairness.queues] == pytest.approx([6.0, 6.0])
    assert fairness.least == pytest.approx(4 / 6)
    assert fairness.jain == pytest.approx(2.0**2 / (2 * ((8 / 6) ** 2 + (4 / 6) ** 2)))


CUT = node("cut", 1, "r1", devices=gpus(1, mig="h100-80gb"))
"""An eighth is the smallest instance of its GPU, and a half that of 40 GB."""
FORTY, EIGHTY = (
    node(name, 2, "r1", devices=gpus(2, memory=memory), model=name)
    for name, memory in (("forty", 40_960), ("eighty", 81_920))
)


@pytest.mark.parametrize(
    ("there", "wanted", "devices", "each"),
    [
        ((CUT,), {"mig": "3g.40gb"}, 0b1111, 0.5),
        ((CUT,), {"mig": "1g.10gb"}, 0b1, 0.125),
        ((FORTY,), {"gpu_memory": 10_240}, 0b1, 0.25),
        ((EIGHTY, FORTY), {"gpu_memory": 10_240, "models": ["forty"]}, 0b1, 0.25),
        ((EIGHTY,), {"milli": 300}, 0b1, 0.3),
    ],
    ids=["mig half", "mig eighth", "memory", "memory of one model", "share"],
)
def test_who_gets_all_it_asks_for_in_parts_of_gpus_has_its_right(
    there: tuple[Node, ...], wanted: Needs, devices: int, each: float
) -> None:
    """Two tasks of x, which wait for half an hour and run for one."""
    metrics = Metrics(Scenario(0.0, RACKS, there, (Queue("x"),)))
    parts = gang("m", tasks=2, queue="x", submitted_at=0.0, **wanted)
    place = there[-1].name
    tell(metrics, 0.0, at(parts))
    tell(metrics, 1800.0, plan=(bind("m", "main", place, place, devices=devices),))
    tell(metrics, 5400.0, Ended("m"))
    tell(metrics, 7200.0)

    summary = metrics.summary()

    (x,) = summary.fairness.queues
    assert (x.gpu_hours, x.fair_gpu_hours) == pytest.approx((2 * each, 3 * each))
    assert max(summary.curve.waiting_gpus) == pytest.approx(2 * each)
    assert [curve.bucket for curve in summary.waits] == ["1"]


def test_who_asks_for_parts_has_a_right_to_the_parts_only() -> None:
    """x asks for two eighths of a GPU and has them; y asks for seven and has the other six."""
    metrics = Metrics(Scenario(0.0, RACKS, (CUT,), (Queue("x"), Queue("y"))))
    x, y = (
        gang(name, tasks=tasks, mig="1g.10gb", queue=name, submitted_at=0.0, most=most)
        for name, tasks, most in (("x", 2, 2), ("y", 6, 7))
    )
    plan = bind("x", "main", *["cut"] * 2, devices=1), bind("y", "main", *["cut"] * 6, devices=1)
    tell(metrics, 0.0, at(x), at(y), plan=plan)
    tell(metrics, 3600.0)

    fairness = metrics.summary().fairness

    assert [use.fair_gpu_hours for use in fairness.queues] == pytest.approx([0.25, 0.75])
    assert (fairness.jain, fairness.least) == pytest.approx((1.0, 1.0))


def test_a_part_by_memory_is_what_it_is_where_it_runs() -> None:
    """It is an eighth of one GPU and a quarter of another; nobody knows beforehand of which.

    It waits for an hour, runs on the small GPU for one, and then moves to another queue.
    """
    metrics = Metrics(Scenario(0.0, RACKS, (EIGHTY, FORTY), (Queue("x"), Queue("y"))))
    part = task("m", 1, gpu_memory=10_240, queue="x", submitted_at=0.0)
    tell(metrics, 0.0, at(part))
    tell(metrics, 3600.0, plan=(bind("m", "main", "forty", devices=1),))
    tell(metrics, 7200.0, WorkloadChanged(replace(part, queue="y")))
    tell(metrics, 10_800.0, TasksChanged("m", "main", (0,), TaskState.PENDING))
    tell(metrics, 14_400.0, Ended("m"))
    tell(metrics, 18_000.0)

    x, y = metrics.summary().fairness.queues

    assert (x.gpu_hours, x.fair_gpu_hours) == pytest.approx((0.25, 0.125 + 0.25))
    assert (y.gpu_hours, y.fair_gpu_hours) == pytest.approx((0.25, 0.25 + 0.125))


@pytest.mark.parametrize("has_place", [False, True])
@pytest.mark.parametrize("order", [1, -1])
def test_parts_are_weighed_anew_when_the_first_node_comes(*, has_place: bool, order: int) -> None:
    """Four quarters of 40 GiB are one GPU, whether the work or the node was seen first."""
    work = gang("m", tasks=4, gpu_memory=10_240, queue="x", submitted_at=0.0)
    place = Placement("main", (0, 1), ("forty", "forty"), (0b1, 0b1))
    found = Adopted(work, (place,), 0.0) if has_place else at(work)
    metrics = Metrics(Scenario(0.0, RACKS, (), (Queue("x"),)))
    tell(metrics, 0.0, *(found, NodeJoined(FORTY))[::order])
    tell(metrics, 3600.0)

    summary = metrics.summary()

    (x,) = summary.fairness.queues
    assert (x.gpu_hours, x.fair_gpu_hours) == pytest.approx((0.5 if has_place else 0.0, 1.0))
    assert max(summary.curve.waiting_gpus) == pytest.approx(0.0 if has_place else 1.0)


@pytest.mark.parametrize("wanted", [{"mig": "1g.5gb"}, {"gpu_memory": 100_000}])
def test_a_part_of_gpus_that_nobody_has_counts_as_one(wanted: Needs) -> None:
    metrics = Metrics(Scenario(0.0, RACKS, (CUT, EIGHTY), (Queue("x"),)))
    tell(metrics, 0.0, at(gang("m", tasks=2, queue="x", submitted_at=0.0, **wanted)))
    tell(metrics, 60.0)

    summary = metrics.summary()

    assert summary.curve.waiting_gpus == (2.0,)
    assert [curve.bucket for curve in summary.waits] == ["2-7"]


def test_announced_starts_are_compared_with_what_came() -> None:
    """Announced for 30 s, then for 60 s; it starts at 50 s: 20 s late by the first word."""
    metrics = Metrics(START)
    metrics.hear(0.0, [at(WHOLE_NODE)], Plan((), (Waiting("w", (Reserved(30.0, 1),)),)))
    metrics.hear(10.0, [], Plan((), (Waiting("w", (Reserved(60.0, 1),)),)))
    tell(metrics, 50.0, plan=(bind("w", GROUP, "a"),))
    tell(metrics, 60.0, runs("w", group=GROUP, at=50.0))

    promises = metrics.summary().promises

    assert (promises.announced, promises.kept, promises.mean_error_s) == (1, 0, 20.0)


def test_a_start_that_was_announced_is_kept_by_a_place_not_by_coming_up() -> None:
    """Announced for 30 s: it has a place at 25 s, loses it at 26, has one at 29 and runs at 60."""
    metrics = Metrics(START)
    metrics.hear(0.0, [at(WHOLE_NODE)], Plan((), (Waiting("w", (Reserved(30.0, 1),)),)))
    tell(metrics, 25.0, plan=(bind("w", GROUP, "a"),))
    tell(metrics, 26.0, BindRefused("w", GROUP, (0,)))
    tell(metrics, 29.0, plan=(bind("w", GROUP, "a"),))
    tell(metrics, 40.0)
    comes_up = metrics.summary().promises
    tell(metrics, 60.0, runs("w", group=GROUP, at=60.0))
    runs_now = metrics.summary().promises

    for promises in (comes_up, runs_now):
        assert (promises.announced, promises.kept, promises.mean_error_s) == (1, 1, 1.0)


def test_who_is_due_and_waits_is_late() -> None:
    """Of four announced for 30 s: started at 20 s, at 50 s, left at 70 s, waits still at 100 s."""
    metrics = Metrics(START)
    jobs = [task(name, 1, submitted_at=0.0) for name in "abcd"]
    told = tuple(Waiting(job.name, (Reserved(30.0, 1),)) for job in jobs)
    metrics.hear(0.0, [at(job) for job in jobs], Plan((), told))
    tell(metrics, 10.0)
    assert metrics.summary().promises.announced == 0  # none is due

    for name, begin in (("a", 20.0), ("b", 50.0)):
        tell(metrics, begin, plan=(bind(name, GROUP, "a", devices=1),))
        tell(metrics, begin, runs(name, group=GROUP, at=begin))
    tell(metrics, 70.0, Ended("c"))
    tell(metrics, 100.0)
    promises = metrics.summary().promises

    assert (promises.announced, promises.kept) == (4, 1)
    assert promises.mean_error_s == pytest.approx((10 + 20 + 40 + 70) / 4)
    assert promises.p90_error_s == pytest.approx(40 + 0.7 * 30)  # between the third and the fourth


def test_a_lost_node_takes_its_gpus_and_its_work_with_it() -> None:
    metrics = Metrics(START)
    tell(metrics, 0.0, at(WHOLE_NODE), plan=(bind("w", GROUP, "a"),))
    tell(metrics, 0.0, runs("w", group=GROUP))
    tell(metrics, 10.0, NodeLeft("a"))
    tell(metrics, 20.0)

    summary = metrics.summary()

    assert summary.gpus == pytest.approx((12 * 10 + 8 * 10) / 20)
    assert summary.sor == pytest.approx(4 * 10 / (12 * 10 + 8 * 10))
    assert summary.evictions.lost_gpu_hours == pytest.approx(4 * 10 / 3600)


def test_curves_are_means_over_stretches() -> None:
    """One minute a point: the first hundred seconds are two points."""
    curve = story().summary().curve
    assert (curve.start, curve.step_s, len(curve.gar)) == (0.0, 60.0, 2)
    assert curve.gar[0] == pytest.approx((30 * 4 + 30 * 8) / 12 / 60)
    assert curve.gar[1] == pytest.approx(4 / 12)
    assert curve.queues[0][1][1] == pytest.approx(4.0)


def test_the_last_stretch_of_the_curve_counts_for_as_long_as_it_is() -> None:
    """Idle for a minute, then all 12 GPUs for 4 s: 4 s of 64, not of two equal stretches."""
    metrics = Metrics(START)
    tell(metrics, 60.0, at(gang("g", tasks=3, gpus=4)), plan=(bind("g", PAIRED, *"abc"),))
    tell(metrics, 64.0)

    summary = metrics.summary()

    assert summary.sor == pytest.approx(4 / 64)
    assert summary.curve.sor == pytest.approx((0.0, 4 / 64))


ELASTIC = gang("e", tasks=1, gpus=1, most=4, submitted_at=0.0)
"""One task of one GPU, and up to three more."""


@pytest.mark.parametrize(
    ("shrinks", "held_s"), [(False, 60 + 4 * 40), (True, 4 * 60 + 40)], ids=["grows", "shrinks"]
)
def test_of_what_grows_and_shrinks_the_work_that_was_done_is_lost(
    *, shrinks: bool, held_s: float
) -> None:
    """One GPU and four, for 60 and 40 s, or the other way round: lost is what ran, no more."""
    metrics = Metrics(START)
    first, rest = bind("e", "main", "a", devices=0b1), (1, 2, 3)
    more = Bind("e", Placement("main", rest, ("a",) * 3, (0b10, 0b100, 0b1000)))
    away = Evict("e", "main", rest, "fair-share", "somebody")
    gone = TasksChanged("e", "main", rest, TaskState.PENDING)
    if shrinks:
        tell(metrics, 0.0, at(ELASTIC), plan=(first, more))
        tell(metrics, 0.0, runs("e", 0, *rest, at=0.0))
        tell(metrics, 60.0, plan=(away,))
        tell(metrics, 60.0, gone)
    else:
        tell(metrics, 0.0, at(ELASTIC), plan=(first,))
        tell(metrics, 0.0, runs("e", 0, at=0.0))
        tell(metrics, 60.0, plan=(more,))
        tell(metrics, 60.0, runs("e", *rest, at=60.0))
    left = (0,) if shrinks else (0, *rest)
    tell(metrics, 100.0, plan=(Evict("e", "main", left, "preempt", "somebody"),))
    tell(metrics, 100.0, TasksChanged("e", "main", left, TaskState.PENDING))

    summary = metrics.summary()

    assert summary.sor_run == pytest.approx(held_s / 1200)
    assert summary.evictions.lost_gpu_hours == pytest.approx(held_s / 3600)
    assert summary.sor_useful == 0.0


def test_of_what_grows_the_work_since_the_checkpoint_is_lost() -> None:
    """One GPU to 60 s and four to 100 s, saved at 80 s: four for 20 s are lost."""
    metrics = Metrics(START)
    rest = (1, 2, 3)
    more = Bind("e", Placement("main", rest, ("a",) * 3, (0b10, 0b100, 0b1000)))
    tell(metrics, 0.0, at(replace(ELASTIC, checkpoint_every_s=80.0)))
    tell(metrics, 0.0, plan=(bind("e", "main", "a", devices=0b1),))
    tell(metrics, 0.0, runs("e", 0, at=0.0))
    tell(metrics, 60.0, plan=(more,))
    tell(metrics, 60.0, runs("e", *rest, at=60.0))
    tell(metrics, 100.0, plan=(Evict("e", "main", (0, *rest), "preempt", "somebody"),))

    assert metrics.summary().evictions.lost_gpu_hours == pytest.approx(4 * 20 / 3600)


def test_what_the_owner_makes_smaller_is_not_evicted() -> None:
    metrics = Metrics(START)
    more = Bind("e", Placement("main", (0, 1), ("a", "a"), (0b1, 0b10)))
    tell(metrics, 0.0, at(ELASTIC), plan=(more,))
    tell(metrics, 0.0, runs("e", 0, 1, at=0.0))
    tell(metrics, 50.0, plan=(Evict("e", "main", (1,), "resized"),))

    evictions = metrics.summary().evictions

    assert (evictions.workloads, evictions.by_cause) == (0, ())


def test_gpus_that_break_under_work_do_not_count_until_they_are_mended() -> None:
    """Two of four GPUs of a node for 20 s, then the node for 20 s, then all is well again."""
    start = Scenario(0.0, RACKS, NODES[:1])
    whole = start.nodes[0]
    broken = [replace(d, healthy=index > 1) for index, d in enumerate(whole.devices)]
    metrics, live = Metrics(start), Live()
    live.hear(0.0, tuple(start.events()), Plan())

    def both(now: float, *events: Event, plan: tuple[Decision, ...] = ()) -> None:
        tell(metrics, now, *events, plan=plan)
        live.hear(now, events, Plan(plan))

    both(0.0, at(WHOLE_NODE), plan=(bind("w", GROUP, "a"),))
    both(0.0, runs("w", group=GROUP, at=0.0))
    both(20.0, NodeChanged(replace(whole, devices=tuple(broken))))
    assert live.gar == 1.0
    both(40.0, NodeChanged(replace(whole, ready=False)))
    both(60.0, NodeChanged(whole))
    both(80.0)

    summary = metrics.summary()

    assert summary.gpus == pytest.approx((4 + 2 + 0 + 4) / 4)
    assert (summary.sor, summary.sor_run, live.sor) == pytest.approx((1.0, 1.0, 1.0))
    assert summary.gar.median == 1.0


def test_idle_parts_of_nodes_are_no_more_than_what_is_idle_also_when_gpus_break() -> None:
    """One of four GPUs is in use for 20 s; then two of the idle ones are broken for 60 s."""
    whole = NODES[0]
    broken = [replace(d, healthy=index < 2) for index, d in enumerate(whole.devices)]
    metrics = Metrics(Scenario(0.0, RACKS, (whole,)))
    tell(metrics, 0.0, at(task("x", 1)), plan=(bind("x", GROUP, "a", devices=0b1),))
    tell(metrics, 20.0, NodeChanged(replace(whole, devices=tuple(broken))))
    tell(metrics, 80.0)

    summary = metrics.summary()

    assert summary.gfr_gpu == pytest.approx((3 / 4 * 20 + 1 / 2 * 60) / 80)
    assert summary.gar.mean == pytest.approx(1 - (3 / 4 * 20 + 1 / 2 * 60) / 80)


def test_a_queue_that_comes_later_has_a_curve() -> None:
    """It has 4 GPUs from 60 to 120 s: nothing in the first minute, all of them in the second."""
    metrics = Metrics(START)
    tell(metrics, 60.0, QueuesChanged((Queue("default"), Queue("late"))))
    tell(metrics, 60.0, at(replace(WHOLE_NODE, queue="late")), plan=(bind("w", GROUP, "a"),))
    tell(metrics, 120.0)

    queues = dict(metrics.summary().curve.queues)

    assert queues["late"] == pytest.approx((0.0, 4.0))
    assert set(queues) == {"default", "late"}


def test_who_is_about_to_start_is_told_from_who_waits() -> None:
    """One is bound and has not begun, one waits; a node has left."""
    metrics = Metrics(START)
    tell(metrics, 0.0, at(WHOLE_NODE), at(PAIR), plan=(bind("w", GROUP, "a"),))
    tell(metrics, 10.0, NodeLeft("c"))

    summary = metrics.summary()

    assert {waited.name: waited.has_place for waited in summary.not_started} == {
        "w": True,
        "g": False,
    }
    assert summary.nodes_lost == 1


@pytest.mark.parametrize("left", [0, 2])
def test_gpus_that_are_gone_under_work_do_not_count(left: int) -> None:
    """Of four GPUs of a node none or two are left after 20 s; who had all has what is left."""
    start = Scenario(0.0, RACKS, NODES[:1])
    whole = start.nodes[0]
    metrics = Metrics(start)
    tell(metrics, 0.0, at(WHOLE_NODE), plan=(bind("w", GROUP, "a"),))
    tell(metrics, 0.0, runs("w", group=GROUP, at=0.0))
    tell(metrics, 20.0, NodeChanged(replace(whole, devices=whole.devices[:left])))
    tell(metrics, 40.0)

    summary = metrics.summary()

    assert summary.gpus == pytest.approx((4 + left) / 2)
    assert (summary.sor, summary.sor_run) == pytest.approx((1.0, 1.0))
    assert summary.gar.p90 == 1.0


@pytest.mark.parametrize("is_known", [True, False])
def test_who_is_found_on_a_broken_gpu_has_less(*, is_known: bool) -> None:
    """One has half of a GPU by its memory, one three GPUs of which two are broken."""
    first, second, *others = NODES[0].devices
    broken = (replace(device, healthy=False) for device in others)
    known = replace(NODES[0], devices=(replace(first, memory=80), second, *broken))
    half = gang("h", tasks=1, gpus=1, submitted_at=0.0)
    shape = replace(half.groups[0].shape, gpu_memory=40)
    half = replace(half, groups=(replace(half.groups[0], shape=shape),))
    three = task("t", 3, submitted_at=0.0)
    events: list[Event] = [
        NodeJoined(known),
        Adopted(half, (Placement("main", (0,), ("a",), (0b1,)),), 0.0),
        Adopted(three, (Placement("main", (0,), ("a",), (0b1110,)),), 0.0),
    ]
    metrics = Metrics(Scenario(0.0, RACKS))
    tell(metrics, 0.0, *(events if is_known else [*events[1:], events[0]]))
    tell(metrics, 10.0)

    summary = metrics.summary()

    assert summary.gpus == pytest.approx(2.0)
    assert summary.sor == summary.sor_run == pytest.approx((0.5 + 1) / 2)


def test_who_was_done_before_it_had_to_leave_has_lost_nothing() -> None:
    """It is told to leave at 50 and ends at 60, while its place is not free yet."""
    metrics = Metrics(START)
    tell(metrics, 0.0, at(WHOLE_NODE), plan=(bind("w", GROUP, "a"),))
    tell(metrics, 0.0, runs("w", group=GROUP, at=0.0))
    tell(metrics, 50.0, plan=(Evict("w", GROUP, (0,), "preempt", "x"),))
    assert metrics.summary().evictions.lost_gpu_hours == pytest.approx(4 * 50 / 3600)
    tell(metrics, 60.0, Ended("w"))

    evictions = metrics.summary().evictions

    assert (evictions.workloads, evictions.lost_gpu_hours) == (0, 0.0)


def told_to_leave(*last: tuple[float, tuple[Event, ...]], service: bool = False) -> Evictions:
    """A pair runs on two nodes from 0 s on and is told to leave at 50 s; then this happens."""
    metrics = Metrics(START)
    tell(metrics, 0.0, at(replace(PAIR, service=service)))
    tell(metrics, 0.0, plan=(bind("g", PAIRED, "a", "b", devices=0b11),))
    tell(metrics, 0.0, runs("g", 0, 1, group=PAIRED, at=0.0))
    tell(metrics, 50.0, plan=(Evict("g", PAIRED, (0, 1), "preempt", "x"),))
    for now, events in last:
        tell(metrics, now, *events)
    return metrics.summary().evictions


FAILED = Ended("g", failed=True)
OVER = (Ended("g"),)


@pytest.mark.parametrize("end", [*OVER, FAILED], ids=["done", "failed"])
def test_whose_own_run_ends_before_it_has_to_leave_has_lost_nothing(end: Ended) -> None:
    """All of it has its place still when that is told: it ended by itself, well or not."""
    evictions = told_to_leave((60.0, (end,)))
    assert (evictions.workloads, evictions.lost_gpu_hours) == (0, 0.0)


def test_who_is_told_to_leave_and_has_finished_by_then_has_lost_nothing() -> None:
    """Its tasks are done at 60 and at 70, whatever else happens meanwhile; it is over at 80."""
    done = [TasksChanged("g", PAIRED, (task,), TaskState.FINISHED) for task in (0, 1)]
    evictions = told_to_leave((60.0, (done[0],)), (70.0, (done[1],)), (80.0, OVER))
    assert (evictions.workloads, evictions.lost_gpu_hours) == (0, 0.0)


@pytest.mark.parametrize(
    "last",
    [
        [(55.0, ()), (60.0, OVER)],
        [(60.0, (TasksChanged("g", PAIRED, (0, 1), TaskState.FAILED), FAILED))],
        [(60.0, (TasksChanged("g", PAIRED, (0, 1), TaskState.PENDING), FAILED))],
        [(60.0, (TasksChanged("g", PAIRED, (0, 1), TaskState.FINISHED), FAILED))],
        [(60.0, (TasksChanged("g", PAIRED, (0, 1), TaskState.PENDING), *OVER))],
        [(60.0, (TasksChanged("g", PAIRED, (0,), TaskState.FINISHED),)), (70.0, OVER)],
        [(60.0, (NodeLeft("a"), *OVER))],
    ],
    ids=[
        *("taken back later", "its tasks failed", "gone, and failed", "not well done"),
        *("gone", "half of it done", "lost a node meanwhile"),
    ],
)
def test_who_is_told_to_leave_and_ends_otherwise_was_broken_off(
    last: list[tuple[float, tuple[Event, ...]]],
) -> None:
    """Two tasks of 2 GPUs ran for 50 s."""
    evictions = told_to_leave(*last)
    assert (evictions.workloads, evictions.lost_gpu_hours) == pytest.approx((1, 4 * 50 / 3600))


def test_a_service_is_never_done_before() -> None:
    assert told_to_leave((60.0, OVER), service=True).workloads == 1


def test_who_lost_a_node_and_is_taken_back_while_the_rest_leaves_was_broken_off() -> None:
    """Two tasks of 2 GPUs for 50 s: one loses its node, the other is told to leave with it."""
    metrics = Metrics(START)
    tell(metrics, 0.0, at(PAIR), plan=(bind("g", PAIRED, "a", "b", devices=0b11),))
    tell(metrics, 0.0, runs("g", 0, 1, group=PAIRED, at=0.0))
    tell(metrics, 50.0, NodeLeft("a"), plan=(Evict("g", PAIRED, (1,), "lost-node"),))
    tell(metrics, 60.0, Ended("g"))

    evictions = metrics.summary().evictions

    assert (evictions.workloads, evictions.lost_gpu_hours) == pytest.approx((1, 4 * 50 / 3600))


def test_work_that_changes_often_is_kept_in_little_room() -> None:
    """One GPU and two, in turn, a thousand times a second each; all of it is lost, exactly."""
    metrics = Metrics(START)
    tell(metrics, 0.0, at(ELASTIC), plan=(bind("e", "main", "a", devices=0b1),))
    tell(metrics, 0.0, runs("e", 0, at=0.0))
    more = Bind("e", Placement("main", (1,), ("a",), (0b10,)))
    for second in range(1, 2001, 2):
        tell(metrics, float(second), plan=(more,))
        tell(metrics, float(second), runs("e", 1, at=float(second)))
        tell(metrics, second + 1.0, TasksChanged("e", "main", (1,), TaskState.PENDING))
    assert 1 < len(metrics._people.jobs["e"].steps) <= MOST_STEPS
    tell(metrics, 2000.0, plan=(Evict("e", "main", (0,), "preempt", "x"),))

    assert metrics.summary().evictions.lost_gpu_hours == pytest.approx(3000 / 3600)
