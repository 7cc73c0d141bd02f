"""Cohorts that are above each other: nobody in them is let in, all others carry on."""

from __future__ import annotations

import pytest

from mooring.config import ConfigError, read_scenario
from mooring.engine.check import EventError
from mooring.model.events import QueuesChanged
from mooring.model.plan import Unknown
from mooring.model.queues import Queue
from mooring.sim.settle import settle
from tests.build import cluster
from tests.policy.kai.cases import places_of

CYCLE = """
policy: {profile: kueue}
nodes: [{name: n, gpus: 8, gpu_model: H}]
queues:
  - {name: left, parent: right}
  - {name: right, parent: left}
  - {name: inner, parent: right}
  - {name: a, parent: left, quotas: [{resource: gpu, flavor: H, quota: 4}]}
  - {name: b, parent: inner, quotas: [{resource: gpu, flavor: H, quota: 2}]}
  - {name: free, quotas: [{resource: gpu, flavor: H, quota: 2}]}
workloads:
  - {name: stays, queue: a, gpus: 1, running: true, placements: [{nodes: [n]}]}
  - {name: x, queue: a, gpus: 1}
  - {name: y, queue: b, gpus: 1}
  - {name: z, queue: free, gpus: 1}
"""


def test_members_of_a_cycle_wait_and_the_others_start() -> None:
    result = settle(read_scenario(CYCLE))
    assert result.is_settled
    assert set(places_of(result.engine)) == {"stays", "z"}
    assert result.engine.reasons("x") == (Unknown("", "parent queue", "right"),)
    assert result.engine.reasons("y") == (Unknown("", "parent queue", "left"),)


def test_they_go_on_once_the_cycle_is_gone() -> None:
    engine = settle(read_scenario(CYCLE)).engine
    queues = [q if q.name != "left" else Queue("left") for q in engine.queues]
    engine.observe(QueuesChanged(tuple(queues)))
    engine.decide(1.0)
    assert set(places_of(engine)) == {"stays", "x", "y", "z"}


def test_a_cycle_may_come_while_it_runs_but_only_here() -> None:
    engine = settle(read_scenario(CYCLE)).engine
    engine.observe(QueuesChanged((Queue("a", "b"), Queue("b", "a"), Queue("free"))))
    engine.decide(1.0)
    assert set(places_of(engine)) == {"stays", "z"}
    world = cluster("a=1")
    with pytest.raises(EventError, match="above itself"):
        world.engine.observe(QueuesChanged((Queue("a", "b"), Queue("b", "a"))))


@pytest.mark.parametrize("profile", ["default", "kai"])
def test_other_profiles_take_a_cycle_for_a_mistake(profile: str) -> None:
    with pytest.raises(ConfigError, match="cyclic"):
        read_scenario(CYCLE.replace("kueue", profile))


NAMED = """
policy: {profile: kueue}
nodes: [{name: n, gpus: 4, gpu_model: H100}]
queues:
 - {name: a, parent: cohort, quotas: [{resource: gpu, flavor: H100, quota: 2}]}
 - {name: b, parent: cohort, quotas: [{resource: gpu, flavor: H100, quota: 2}]}
workloads: [{name: w, queue: a, gpus: 4}]
"""


def test_a_cohort_is_there_once_it_is_named() -> None:
    """Nobody declares it, and what one of its queues does not use the other borrows."""
    assert set(places_of(settle(read_scenario(NAMED)).engine)) == {"w"}
    with pytest.raises(ConfigError, match="name of a queue as parent"):
        read_scenario(NAMED.replace("kueue", "default"))
