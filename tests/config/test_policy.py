"""What queues and policies mean: amounts, shorthands, defaults, and what may be left out."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import pytest

from mooring.config import PolicyFile, read_policy, read_scenario
from mooring.config.rules import STRATEGIES
from mooring.config.units import bound
from mooring.model.cluster import Taint
from mooring.model.queues import (
    DEFAULT_QUEUE,
    EvictionRules,
    Flavor,
    Fungibility,
    Queue,
    Quota,
    ResourceGroup,
)
from mooring.model.settings import (
    Backfill,
    Defragmentation,
    Eviction,
    Failure,
    Fairness,
    Headroom,
    Policy,
)
from mooring.model.topology import Level, Topology
from mooring.model.workload import PodGroup, Workload


def one_queue(text: str, profile: str = "default") -> Queue:
    given = f"policy: {{profile: {profile}}}\nqueues: [{{name: q, {text}}}]"
    (queue,) = read_policy(given).queues
    return queue


def one_quota(text: str) -> Quota:
    (quota,) = one_queue(f"quotas: [{{{text}}}]").quotas
    return quota


def policy(text: str) -> Policy:
    return read_policy(f"policy: {{{text}}}").policy


@pytest.mark.parametrize(
    ("resource", "given", "amount"),
    [
        ("gpu", 64, 64_000),
        ("gpu", 0.5, 500),
        ("gpu", "500m", 500),
        ("gpu", 0.3339, 333),
        ("cpu", 500, 500_000),
        ("cpu", 0.0019, 1),
        ("memory", "64Gi", 65_536),
        ("memory", "1M", 0),
        ("memory", "1.9Mi", 1),
        ("pods", 110, 110),
        ("rdma", "1Ki", 1024),
        ("gpu", -1, None),
        ("cpu", "unlimited", None),
        ("memory", -1.0, None),
        ("gpu", 0, 0),
    ],
)
def test_amounts_of_a_quota_are_rounded_down(
    resource: str, given: object, amount: int | None
) -> None:
    """A limit is never more than was said."""
    assert bound(resource)(given) == amount


def test_a_queue_with_everything() -> None:
    (queue, above) = read_policy(
        """
        queues:
          - name: research
            parent: org
            quotas:
              - {resource: gpu, flavor: H100, quota: 64, limit: 128, weight: 2,
                 borrowing_limit: 32, lending_limit: 16}
              - {resource: cpu, quota: 500}
              - {resource: memory, quota: unlimited, limit: 64Gi}
            groups: [{resources: [gpu, cpu], flavors: [H100, A100]}]
            fungibility: {when_borrowing: next, when_preempting: next, prefer: preempting}
            weight: 3
            priority: -2
            order: easy
            by_usage: true
            eviction: {within_queue: lower-or-newer, reclaim: any,
                       while_borrowing: lower-priority, borrowing_threshold: 100}
            preempt_minimum_run: 10m
            reclaim_minimum_run: 0
            run_limit: 2d
            stop: drain
            namespaces: [a, b]
            users: []
            bypass_limit: 5
            created_at: -3
            by: estimate
          - org
        policy: {profile: kueue}
        """
    ).queues
    assert above == Queue("org")
    assert queue == Queue(
        "research",
        "org",
        (
            Quota("gpu", "H100", 64_000, 128_000, 2.0, 32_000, 16_000),
            Quota("cpu", quota=500_000),
            Quota("memory", quota=None, limit=65_536),
        ),
        (ResourceGroup(("gpu", "cpu"), ("H100", "A100")),),
        Fungibility("next", "next", "preempting"),
        weight=3.0,
        priority=-2,
        order="easy",
        by_usage=True,
        eviction=EvictionRules("lower-or-newer", "any", "lower-priority", 100),
        preempt_minimum_run_s=600.0,
        reclaim_minimum_run_s=0.0,
        run_limit_s=172_800.0,
        stop="drain",
        namespaces=("a", "b"),
        users=(),
        bypass_limit=5,
        created_at=-3.0,
        by="estimate",
    )
    untold = {"local"}
    assert [f.name for f in fields(Queue) if getattr(queue, f.name) == f.default] == [*untold]


def test_of_a_quota_only_the_resource_is_needed() -> None:
    assert one_quota("resource: gpu") == Quota("gpu", "", 0, None, None, None, None)
    assert one_quota("resource: gpu, limit: -1, quota: -1") == Quota("gpu", quota=None)


def test_a_preference_may_be_given_where_it_is_the_usual_one() -> None:
    assert one_queue("fungibility: {when_borrowing: stop, prefer: borrowing}") == Queue("q")


def test_borrowing_is_limited_at_the_top_where_a_profile_takes_it() -> None:
    assert one_quota("resource: gpu, borrowing_limit: 1").borrowing_limit == 1000


def test_without_nodes_any_name_may_be_a_flavor_or_a_resource() -> None:
    assert one_quota("resource: rdma, flavor: B300") == Quota("rdma", "B300")


def test_with_nodes_a_flavor_is_declared_or_a_gpu_model() -> None:
    scenario = read_scenario(
        """
        nodes: [{name: a, gpus: 1, gpu_model: H100}]
        policy: {flavors: [spot]}
        queues: [{name: q, quotas: [{resource: gpu, flavor: H100}, {resource: gpu, flavor: spot}]}]
        """
    )
    assert [quota.flavor for quota in scenario.queues[0].quotas] == ["H100", "spot"]


def test_local_queues_stand_below_a_leaf_and_take_workloads_as_it_does() -> None:
    scenario = read_scenario(
        """
        queues: [org, {name: q, parent: org}, {name: l, parent: q, local: true}]
        workloads: [{name: v, queue: l}, {name: w, queue: q}]
        """
    )
    assert [workload.queue for workload in scenario.waiting] == ["l", "q"]
    assert scenario.queues[2] == Queue("l", "q", local=True)


def test_a_policy_with_everything() -> None:
    found = read_policy(
        """
        topology: {levels: [rack]}
        policy:
          profile: kueue
          flavors: [H100, {name: slow, labels: {tier: "2"}, taints: [{key: k}], price: 0.5}]
          priority_classes: {low: -5, high: 100}
          fairness:
            half_life: 7d
            window: 30d
            history_weight: 0.5
            strategies: [final-share, initial-share]
            usage_half_life: 0
            usage_sampling: 1m
            usage_weights: {gpu: 10, cpu: 0}
          eviction:
            minimum_run: {quota: 5m}
            preempt_minimum_run: 1m
            reclaim_minimum_run: 2m
            minimum_run_by: queue
            steps: 9
            movers: 3
            restart: 5m
            hold: 10m
            saturation: 1.5
            consolidates: false
            notice: 1m
            leave: 45s
            patience: 2m
          backfill:
            {reservations: 3, quantum: 1h, quantum_evictions: 2, patience: 10m,
             longest_patience: 2h}
          failure: {restarts: 4, node_failures: 5, node_window: 2h}
          defragmentation: {automatic: false, ratio: 3, budget: 4.5, moves: 6}
          headroom: [{queue: default, gpus: 16, within: 5m, flavor: H100}]
          undeclared: ignore
          small: fgd
          rest: spread
          gang: binpack
          service: spread
          spread_within: rack
          devices: lowest
          search_steps: 7
          mix_half_life: 1d
          mix_learns: false
          gang_grace: 30
        """
    )
    expected = Policy(
        profile="kueue",
        flavors=(Flavor("H100"), Flavor("slow", (("tier", "2"),), (Taint("k"),), 0.5)),
        priority_classes=(("high", 100), ("low", -5)),
        fairness=Fairness(
            half_life_s=604_800.0,
            window_s=2_592_000.0,
            history_weight=0.5,
            strategies=("final-share", "initial-share"),
            usage_half_life_s=0.0,
            usage_sampling_s=60.0,
            usage_weights=(("cpu", 0.0), ("gpu", 10.0)),
        ),
        eviction=Eviction(
            minimum_run_s=(
                ("fair-share", 900.0),
                ("leximin", 1800.0),
                ("move", 1800.0),
                ("quantum", 3600.0),
                ("quota", 300.0),
            ),
            preempt_minimum_run_s=60.0,
            reclaim_minimum_run_s=120.0,
            minimum_run_by="queue",
            steps=9,
            movers=3,
            restart_s=300.0,
            hold_s=600.0,
            saturation=1.5,
            consolidates=False,
            notice_s=60.0,
            leave_s=45.0,
            patience_s=120.0,
        ),
        backfill=Backfill(3, 3600.0, 2, 600.0, 7200.0),
        failure=Failure(4, 5, 7200.0),
        defragmentation=Defragmentation(automatic=False, ratio=3.0, budget=4.5, moves=6),
        headroom=(Headroom("default", 16, 300.0, "H100"),),
        undeclared="ignore",
        small="fgd",
        rest="spread",
        gang="binpack",
        service="spread",
        spread_within="rack",
        devices="lowest",
        search_steps=7,
        mix_half_life_s=86_400.0,
        mix_learns=False,
        gang_grace_s=30.0,
    )
    assert found == PolicyFile(Topology((Level("rack"),)), (DEFAULT_QUEUE,), expected)
    parts = [getattr(found.policy, field.name) for field in fields(Policy)]
    for value in (found.policy, *filter(is_dataclass, parts)):
        untold = [f.name for f in fields(value) if getattr(value, f.name) == f.default]
        assert untold in ([], ["automatic"]), value  # that is for profile default


def test_what_is_left_out_of_a_policy_has_its_default() -> None:
    assert read_policy("{}") == read_policy("policy: {}") == PolicyFile()
    assert policy("eviction: {}, fairness: {}, backfill: {}") == Policy()


def test_minimum_run_times_are_changed_one_by_one() -> None:
    """What is not named keeps its default; 0 is none."""
    given = policy("eviction: {minimum_run: {leximin: 0, quota: 10m, fair-share: 15m}}")
    assert given.eviction.minimum_run_s == (
        ("fair-share", 900.0),
        ("move", 1800.0),
        ("quantum", 3600.0),
        ("quota", 600.0),
    )


@pytest.mark.parametrize("strategies", [(), *STRATEGIES], ids=str)
def test_strategies_of_fair_sharing(strategies: tuple[str, ...]) -> None:
    given = policy(f"profile: kueue, fairness: {{strategies: [{', '.join(strategies)}]}}")
    assert given.fairness.strategies == strategies


def test_a_class_gives_the_priority() -> None:
    (workload,) = read_scenario(
        """
        policy: {priority_classes: {high: 100}}
        workloads: [{name: w, priority_class: high}]
        """
    ).waiting
    assert workload == Workload("w", (PodGroup("main"),), priority=100, priority_class="high")


def test_rights_and_wishes_of_a_workload() -> None:
    (workload,) = read_scenario(
        """
        workloads:
          - {name: w, namespace: n, user: u, active: false, semi_preemptible: true,
             deadline_at: 5, preemption_delay: 2m, grace: never, tasks: 8, partial: 4}
        """
    ).waiting
    assert workload == Workload(
        "w",
        (PodGroup("main", min=8, partial=4),),
        namespace="n",
        user="u",
        active=False,
        semi_preemptible=True,
        deadline_at=5.0,
        preemption_delay_s=120.0,
        grace_s=-1.0,
    )


@pytest.mark.parametrize(("given", "seconds"), [("-1", -1.0), ("never", -1.0), ("5m", 300.0)])
def test_grace_may_have_no_end(given: str, seconds: float) -> None:
    assert read_scenario(f"workloads: [{{name: w, grace: {given}}}]").waiting[0].grace_s == seconds


def test_some_of_the_groups_may_be_enough() -> None:
    (workload,) = read_scenario(
        "workloads: [{name: w, groups: [{name: g, needed: 1, groups: [{name: a}, {name: b}]}]}]"
    ).waiting
    assert workload.groups == (PodGroup("g", groups=(PodGroup("a"), PodGroup("b")), needed=1),)


def test_tasks_on_their_way_out() -> None:
    (adopted,) = read_scenario(
        """
        nodes: [{name: a, cpu: 4}]
        workloads:
          - {name: w, tasks: 3, running: true, placements: [{nodes: [a, a], tasks: [0, 2]}],
             finished: [{tasks: [1]}], releasing: [{group: main, tasks: [2]}]}
        """
    ).running
    assert adopted.releasing == (("main", (2,)),)
    assert adopted.finished == (("main", (1,)),)


def test_a_queue_above_others_lends_what_these_have() -> None:
    """It has no quota of its own; those below it have two GPUs, of which others may use one."""
    queues = read_policy(
        """
        queues:
          - {name: org, quotas: [{resource: gpu, quota: 0, lending_limit: 1}]}
          - {name: team, parent: org, quotas: [{resource: gpu, quota: 2}]}
        """
    ).queues
    assert queues[0].quotas[0].lending_limit == 1000
