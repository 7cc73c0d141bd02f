"""Every metric on a story of a hundred seconds, computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.metrics import Metrics
from mooring.metrics.waits import bucket_of, quantile, survival
from mooring.model.events import Ended, Event, NodeLeft, Submitted, TasksChanged
from mooring.model.plan import Bind, Decision, Evict, Plan, Reserved, Waiting
from mooring.model.queues import Queue
from mooring.model.scenario import Scenario
from mooring.model.topology import Level, Topology
from mooring.model.workload import Placement, TaskState, Workload
from tests.build import gang, node, task

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
    assert summary.gfr_gpu <= 1 - summary.gar.mean


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


def test_evictions_and_what_they_cost() -> None:
    evictions = story().summary().evictions
    assert evictions.workloads == 1
    assert evictions.by_cause == (("preempt", 1),)
    assert evictions.lost_gpu_hours == pytest.approx(4 * 10 / 3600)


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


def test_what_a_service_has_served_is_not_lost() -> None:
    metrics = Metrics(START)
    tell(metrics, 0.0, at(replace(WHOLE_NODE, service=True)), plan=(bind("w", GROUP, "a"),))
    tell(metrics, 10.0, runs("w", group=GROUP, at=10.0))
    tell(metrics, 30.0, plan=(Evict("w", GROUP, (0,), "preempt", "x"),))
    tell(metrics, 30.0, TasksChanged("w", GROUP, (0,), TaskState.PENDING))

    summary = metrics.summary()

    assert (summary.evictions.workloads, summary.evictions.lost_gpu_hours) == (1, 0)
    assert summary.sor_useful == summary.sor_run > 0


def test_warm_up_does_not_count() -> None:
    """From 20 s on: nobody came, the gang's room lasts 20 s more, 10 s of work are lost."""
    summary = story(begin=20.0).summary()
    assert (summary.submitted, summary.started, summary.ended) == (0, 0, 1)
    assert summary.sor == pytest.approx((80 * 4 + 20 * 4) / (12 * 80))
    assert summary.waits == ()
    assert summary.evictions.lost_gpu_hours == pytest.approx(4 * 10 / 3600)


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


def test_announced_starts_are_compared_with_what_came() -> None:
    """Announced for 30 s, then for 60 s; it starts at 50 s: 20 s late by the first word."""
    metrics = Metrics(START)
    metrics.hear(0.0, [at(WHOLE_NODE)], Plan((), (Waiting("w", (Reserved(30.0, 1),)),)))
    metrics.hear(10.0, [], Plan((), (Waiting("w", (Reserved(60.0, 1),)),)))
    tell(metrics, 50.0, plan=(bind("w", GROUP, "a"),))
    tell(metrics, 60.0, runs("w", group=GROUP, at=50.0))

    promises = metrics.summary().promises

    assert (promises.announced, promises.kept, promises.mean_error_s) == (1, 0, 20.0)


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
