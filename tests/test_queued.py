"""Whole worlds with queues at random: whatever happens, all of design.md § 8 holds.

Books, Gangs, Patience and Replay are checked by `tests.world` and `tests.queued` as the story goes,
Quota and Evictions by `tests.rules`, which judges every plan; Rest when the story is over. The
measure of eviction.md § 4 falls with every exchange.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mooring.config import read_scenario
from mooring.engine import Engine
from mooring.model.events import Adopted, NodeJoined, Submitted
from mooring.model.plan import Bind, Evict, Plan, Reserve
from mooring.model.queues import Queue, Quota, ResourceGroup
from mooring.model.settings import Policy
from mooring.model.workload import Placement, SpreadTerm
from mooring.policy.holds import Hold
from mooring.policy.standing.case import Case
from tests.build import gang, node
from tests.policy.kai.cases import Table, read_workload
from tests.queued import STEPS, Told, check_rest, play, told_in
from tests.rules import Judge, Moment, Witness
from tests.world import Story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mooring.model.plan import Decision
    from mooring.model.scenario import Scenario

ROOT = Path(__file__).parents[1]
TOGETHER = 4
"""Stories of one test."""
QUICK = 20_000 // STEPS // TOGETHER
LONG = 1_000_000 // STEPS // TOGETHER


def tell(seeds: Iterable[int], record_property: Callable[[str, object], None]) -> Told:
    """Tell stories, and note what was seen for the summary."""
    told = Told()
    for seed in seeds:
        told += told_in(play(seed))
    record_property("told", tuple(told))
    return told


@pytest.mark.parametrize("block", range(QUICK))
def test_stories_of_queues(block: int, record_property: Callable[[str, object], None]) -> None:
    """20,000 steps in all."""
    told = tell(range(block * TOGETHER, (block + 1) * TOGETHER), record_property)

    assert told.steps == TOGETHER * STEPS
    assert told.starts


@pytest.mark.soak
@pytest.mark.parametrize("block", range(LONG))
def test_many_stories_of_queues(block: int, record_property: Callable[[str, object], None]) -> None:
    """A million steps in all."""
    first = 100_000 + block * TOGETHER

    tell(range(first, first + TOGETHER), record_property)


# -- the judge ------------------------------------------------------------------------------


def judged(scenario: Scenario, *plan: Decision) -> list[tuple[type, str, tuple[int, ...]]]:
    """Judge what is decided, or another plan; return what is done with which tasks of whom."""
    engine = Engine(scenario.topology, scenario.policy, queues=scenario.queues)
    for event in scenario.events():
        engine.observe(event)
    moment = Moment(engine)
    with Witness(engine) as witness:
        found = engine.decide(scenario.now)
    if plan:
        found = Plan(plan)
        engine.desk.holds._kept["w"] = Hold([], 0.0)
    Judge(moment, witness).judge(found)
    spots = [each.spots for each in found.decisions if isinstance(each, Bind | Evict)]
    kinds = [type(each) for each in found.decisions if isinstance(each, Bind | Evict)]
    return [(k, s[0][0], tuple(t for *_, t in s)) for k, s in zip(kinds, spots, strict=True)]


def of_kai(**facts: str) -> Scenario:
    """Return a scene of kai."""
    table = Table()
    table("", ends="", **facts)  # type: ignore[arg-type]
    return table.cases[0].scenario


def kept_and_bound(*binds: int) -> tuple[Decision, ...]:
    """Return that room is kept for task 0 of a workload, and others start."""
    kept = Reserve("w", (Placement("main", (0,), ("n",), (1,)),), 9.0)
    return kept, Bind("w", Placement("main", binds, ("n",) * len(binds), (2, 4)[: len(binds)]))


def test_who_has_its_minimum_may_start_without_a_task_that_room_is_kept_for() -> None:
    scene = of_kai(nodes="n=3", queues="A gpu=3", waiting="w A 1x2..3")

    judged(scene, *kept_and_bound(1, 2))
    with pytest.raises(AssertionError, match="starts with 1, not 2"):
        judged(scene, *kept_and_bound(1))


@pytest.mark.parametrize("done", [0, 1])
def test_under_kai_what_is_finished_counts(done: int) -> None:
    """A gang of two at least: if one is done, one of two others may leave, or else both."""
    scene = of_kai(nodes="n=2", queues="A gpu=2", waiting="high A 1 p=9")
    gang = read_workload("gang A 1x2..3")[0]
    places = (Placement("main", (1, 2), ("n", "n"), (1, 2)),)
    adopted = Adopted(gang, places, finished=(("main", (0,)),) if done else ())

    assert judged(replace(scene, running=(adopted,))) == [(Evict, "gang", (2,) if done else (1, 2))]


LESS = """
policy: {profile: kueue, flavors: [{name: f, labels: {f: x}}]}
nodes: [{name: n, cpu: 9, labels: {f: x}}]
queues:
  - name: a
    quotas: [{resource: cpu, flavor: f, quota: 4, limit: 2}]
    groups: [{resources: [cpu], flavors: [f]}]
workloads:
  - {name: w, queue: a, cpu: 2, min: 2, max: 3, running: true, placements: [{nodes: [n]}]}
  - {name: new, queue: a, cpu: 1}
"""


def test_under_kueue_what_was_let_in_is_completed_though_there_is_less_to_be_had_now() -> None:
    """It does not grow, and nobody else is let in."""
    assert judged(read_scenario(LESS)) == [(Bind, "w", (1,))]


TWICE = """
policy: {eviction: {minimum_run: {fair-share: 0s}}}
nodes: [{name: n, cpu: 1}, {name: m, cpu: 1}]
queues:
  - {name: a, priority: 1, quotas: [{resource: cpu, quota: 0}, {resource: gpu, quota: 0}]}
  - {name: b}
  - {name: c}
workloads:
  - {name: first, queue: a, priority: 1, gpus: 1}
  - {name: w, queue: a, cpu: 1, min: 1, max: 2}
  - {name: new, queue: b, priority: 2, cpu: 1}
  - {name: old, queue: c, cpu: 1, running: true, placements: [{nodes: [m]}]}
"""


def test_exchange_is_measured_by_the_shares_of_its_own_moment() -> None:
    """`new` starts and leaves for `w`, which the plan does not say; only then `w` asks for more."""
    assert judged(read_scenario(TWICE)) == [(Bind, "w", (0,)), (Evict, "old", (0,))]


BEYOND = """
policy: {eviction: {minimum_run: {fair-share: 0s, leximin: 0s}}}
nodes: [{name: n, cpu: 2}, {name: m, cpu: 5}]
queues: [{name: a, quotas: [{resource: cpu, quota: 0}]}, {name: b}]
workloads:
  - {name: w, queue: a, cpu: 2, min: 1, max: 2}
  - {name: old, queue: b, cpu: 1, min: 3, max: 5, running: true, placements: [{nodes: [m,m,m,m,m]}]}
"""


def test_growth_beyond_a_share_is_no_fair_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others leave for it since they are further beyond; that is another cause."""
    assert judged(read_scenario(BEYOND)) == [(Bind, "w", (0,)), (Evict, "old", (3, 4))]
    monkeypatch.setattr(Case, "claims", lambda *_: iter(["fair-share"]))

    with pytest.raises(AssertionError, match="and a has 4000 of 3500 then"):
        judged(read_scenario(BEYOND))


NO_H100 = Quota("gpu", "H100", 0, limit=0)
ONLY_A100 = ResourceGroup(("gpu",), ("A100",))


@pytest.mark.parametrize(
    ("gpus", "tasks", "queue", "starts"),
    [
        (0, 1, Queue("a"), True),
        (0, 2, Queue("a"), False),  # the node of the other pod stays empty
        (1, 2, Queue("a"), True),  # of one GPU model: only its nodes count
        (1, 1, Queue("a", quotas=(NO_H100,)), False),  # beside `old`; the other counts, quota or no
        (1, 1, Queue("a", groups=(ONLY_A100,)), True),  # the flavor is chosen: only its nodes count
    ],
)
def test_who_rests_by_spread_is_measured_by_all_nodes_that_it_may_select(
    gpus: int, tasks: int, queue: Queue, *, starts: bool
) -> None:
    """On a node of each model, in two pods; before anything is decided, who could start is seen."""
    story = Story(Policy(), (queue,))
    for each in (node("n", 4, "p1", "r1", model="A100"), node("m", 4, "p2", "r2")):
        story.nodes[each.name] = each
        story.see(NodeJoined(each))
    app = {"app": "x"}
    if tasks == 1:
        old = gang("old", queue="a", gpus=1, models=["A100"], labels=app)
        story.see(Adopted(old, (Placement("main", (0,), ("n",), (1,)),)))
    spread = [SpreadTerm("node", tuple(app.items()), 1)]
    wanted = gang("w", queue="a", gpus=gpus, tasks=tasks, level="pod", labels=app, spread=spread)
    story.see(Submitted(wanted))

    if starts:
        with pytest.raises(AssertionError, match="w could start on"):
            check_rest(story)
    story.engine.decide(0.0)

    assert story.engine.entries()["w"].has_begun == starts
    check_rest(story)


# -- replay ---------------------------------------------------------------------------------


def digests() -> str:
    """Return the digests of a few stories; for another process."""
    return " ".join(play(seed, 60).digest() for seed in range(2, 9, 2))


def test_plans_for_queues_do_not_depend_on_the_hash_seed() -> None:
    """Replay: in other processes with other hash seeds the plans are the same to the letter."""
    script = "from tests.test_queued import digests; print(digests())"
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(found) == 1
