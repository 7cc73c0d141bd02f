"""A whole world at random: whatever happens, the invariants hold, and the story can be told again.

Hypothesis chooses what happens, or a generator with a fixed seed does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mooring.model.events import (
    Ended,
    NodeChanged,
    NodeJoined,
    Submitted,
    WorkloadChanged,
)
from mooring.model.plan import (
    Behind,
    CutShort,
    Excluded,
    Impossible,
    Leaving,
    NoRoom,
    NotTogether,
    Protected,
    Unknown,
)
from mooring.model.workload import PodGroup, Workload
from tests.build import gpus, group, near_by, node
from tests.queued import obey
from tests.world import (
    PATHS,
    Drawn,
    Rolled,
    Story,
    a_node,
    check_all,
    check_nothing_could_start,
)

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

    from mooring.engine import Engine
    from mooring.model.cluster import Node
    from mooring.model.plan import Reason
    from tests.world import Chooser

ROOT = Path(__file__).parents[1]


# -- the machine ----------------------------------------------------------------------------


class Machine(RuleBasedStateMachine):
    """Hypothesis plays the world."""

    def __init__(self) -> None:
        super().__init__()
        self.story = Story()

    @rule(data=st.data())
    def node_comes(self, data: DataObject) -> None:
        self.story.node_comes(Drawn(data))

    @rule(data=st.data())
    def node_wavers(self, data: DataObject) -> None:
        self.story.node_wavers(Drawn(data))

    @rule(data=st.data())
    def node_goes(self, data: DataObject) -> None:
        self.story.node_goes(Drawn(data))

    @rule(data=st.data())
    def submit(self, data: DataObject) -> None:
        self.story.submit(Drawn(data))

    @rule(data=st.data())
    def submit_and_decide(self, data: DataObject) -> None:
        self.story.submit(Drawn(data))
        self.story.cycle(Drawn(data))

    @rule(data=st.data())
    def edit(self, data: DataObject) -> None:
        self.story.edit(Drawn(data))

    @rule(data=st.data())
    def end(self, data: DataObject) -> None:
        self.story.end(Drawn(data))

    @rule(data=st.data())
    def policy(self, data: DataObject) -> None:
        self.story.policy(Drawn(data))

    @rule(data=st.data())
    def answer(self, data: DataObject) -> None:
        self.story.answer(Drawn(data))

    @rule(data=st.data())
    def nonsense(self, data: DataObject) -> None:
        self.story.nonsense(Drawn(data))

    @rule(data=st.data())
    def cycle(self, data: DataObject) -> None:
        self.story.cycle(Drawn(data))

    @invariant()
    def holds(self) -> None:
        check_all(self.story)

    def teardown(self) -> None:
        note(self.story.sketch())
        self.story.rest()
        check_all(self.story)
        check_nothing_could_start(self.story)
        self.story.again()


TestWorld = Machine.TestCase


# -- stories with a seed --------------------------------------------------------------------

VERBS = (
    *("node_comes", "node_comes", "node_wavers", "node_goes", "submit", "submit", "submit"),
    *("edit", "end", "answer", "answer", "answer", "policy", "cycle", "cycle", "cycle"),
)


def story_of(seed: int, steps: int) -> Story:
    """Return a story of so many steps."""
    by, story = Rolled(seed), Story()
    for _ in range(3):
        story.node_comes(by)
    for _ in range(steps):
        getattr(story, by.pick(VERBS))(by)
    story.cycle(by)
    return story


@pytest.mark.parametrize("seed", range(6))
def test_long_stories_hold_and_come_to_rest(seed: int) -> None:
    """The same as the machine, over more steps than it takes."""
    by, story = Rolled(1000 + seed), Story()
    for _ in range(4):
        story.node_comes(by)
    for step in range(300):
        getattr(story, by.pick(VERBS))(by)
        if step % 10 == 0:
            check_all(story)
    story.rest()
    check_all(story)
    check_nothing_could_start(story)
    story.again()


def digests() -> str:
    """Return the digest of a few stories; for another process."""
    return " ".join(story_of(seed, 120).digest() for seed in range(4))


def test_plans_do_not_depend_on_the_hash_seed() -> None:
    """The same story, in other processes with other seeds: the same plans to the letter."""
    found = set()
    for seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        script = "from tests.test_world import digests; print(digests())"
        run = subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(run.stdout)
    assert len(found) == 1


# -- truth of reasons -----------------------------------------------------------------------


def crowded(by: Chooser) -> Story:
    """Return a small world in which some workloads run and some wait."""
    story = Story()
    for name in sorted(PATHS)[: by.number(1, 4)]:
        story.nodes[name] = a_node(by, name)
        story.see(NodeJoined(story.nodes[name]))
    for _ in range(by.number(2, 6)):
        story.submit(by)
    story.decide()
    story.come_true()
    story.now += 1.0
    story.decide()
    note(story.sketch())
    return story


def waiting_to_start(engine: Engine) -> list[str]:
    """Return the workloads of which nothing runs and something must."""
    entries = engine.entries()
    return [n for n in engine.waiting() if entries[n].is_incomplete and not entries[n].has_begun]


def without_reason(story: Story, name: str, reason: Reason) -> Engine:
    """Return a fork of the engine in whose world the reason has been taken away."""
    engine = story.engine.fork()
    match reason:
        case Behind(other):
            engine.observe(Ended(other))
        case NoRoom():
            end_all_but(engine, name)
        case Impossible():
            add_room(engine)
        case Excluded(by=by):
            end_all_but(engine, name)
            for facts in story.nodes.values():
                engine.observe(NodeChanged(relieved(facts, by)))
        case NotTogether():
            engine.observe(WorkloadChanged(first_group(engine.entries()[name].workload)))
        case Leaving():
            obey(engine)
        case Protected(until=until):
            engine.decide(until)
            return engine
        case _:  # not in these stories
            raise AssertionError(reason)
    engine.decide(story.now + 1.0)
    return engine


def end_all_but(engine: Engine, name: str) -> None:
    """End everything else."""
    for other in sorted(engine.entries()):
        if other != name:
            engine.observe(Ended(other))


def add_room(engine: Engine) -> None:
    """Let four big nodes of every kind join one new rack."""
    for index in range(12):
        model, partition = (("H100", ""), ("A100", ""), ("A100", "a100-40gb"))[index % 3]
        facts = node(
            f"new-{index}",
            16,
            "p9",
            "r9",
            model=model,
            devices=gpus(16, mig=partition),
            labels={"zone": "x"},
        )
        engine.observe(NodeJoined(facts))


def relieved(facts: Node, by: str) -> Node:
    """Return a node that no longer excludes for that reason."""
    if by == "not-ready":
        return replace(facts, ready=True)
    if by == "taint":
        return replace(facts, taints=())
    if by == "selector":
        return replace(facts, labels=(("zone", "x"),))
    if by == "gpu":
        bare = node(facts.name, 16, *facts.path).devices
        cut = gpus(16, mig="a100-40gb")
        return replace(facts, devices=bare + cut, gpu_model=facts.gpu_model or "H100")
    if by in ("tasks", "refused") or by.startswith("port/"):
        return facts
    capacity = dict(facts.capacity) | {by: 1 << 20}
    return replace(facts, capacity=tuple(sorted(capacity.items())))


def first_group(wanted: Workload) -> Workload:
    """Return a workload with only the first of its groups."""
    return replace(wanted, groups=(next(wanted.leaves()),), topology=near_by())


def can_be_helped(story: Story, name: str, reason: Reason) -> bool:
    """Return whether room could help: not where company is missing, or tasks bar each other."""
    leaves = {leaf.name: leaf.shape for leaf in story.engine.entries()[name].workload.leaves()}
    match reason:
        case NoRoom() | Excluded():
            return not leaves[reason.group].near
        case Impossible():
            wanted = leaves[reason.group]
            alone = any(term.level == "rack" and not term.weight for term in wanted.apart)
            one_a_node = (wanted.ports or wanted.apart) and reason.level == "node"
            spread = any(term.required for term in wanted.spread)
            return not (wanted.near or spread or alone or one_a_node)  # there is one new rack
        case _:
            return True


def told_of(engine: Engine, name: str) -> list[Reason]:
    """Return the reasons of a workload; none: it has started."""
    if name in engine.entries() and not engine.entries()[name].has_begun:
        return list(engine.reasons(name))
    return []


@given(st.data())
def test_taking_a_reason_away_starts_the_workload_or_changes_the_reason(data: DataObject) -> None:
    """Whatever is named is what is in the way."""
    story = crowded(Drawn(data))
    for name in waiting_to_start(story.engine):
        reasons = story.engine.reasons(name)
        assert reasons, f"{name} waits for nothing"
        for reason in reasons:
            note(f"{name}: {reason}")
            if isinstance(reason, CutShort) or not can_be_helped(story, name, reason):
                continue
            after = told_of(without_reason(story, name, reason), name)
            assert reason not in after


@given(st.data())
def test_numbers_in_reasons_are_exact(data: DataObject) -> None:
    """As many tasks as the best domain is said to take can start, and not one more."""
    story = crowded(Drawn(data))
    for name in waiting_to_start(story.engine):
        leaves = {leaf.name: leaf for leaf in story.engine.entries()[name].workload.leaves()}
        for reason in story.engine.reasons(name):
            note(f"{name}: {reason}")
            if isinstance(reason, Excluded):
                assert 0 < reason.nodes <= len(story.nodes)
            if not isinstance(reason, NoRoom):
                continue
            leaf = leaves[reason.group]
            assert reason.best < reason.wanted == leaf.min
            if leaf.topology.slices:
                continue
            for count in (reason.best, reason.best + 1):
                starts = bool(count) and probe(story, leaf, reason.level, count)
                assert starts == (0 < count <= reason.best)


def probe(story: Story, leaf: PodGroup, level: str, count: int) -> bool:
    """Return whether so many tasks of a group could start together in one domain of a level."""
    engine = story.engine.fork()
    part = replace(leaf, min=count, max=0, topology=near_by(level))
    first = Workload("probe", (part,), priority=9, submitted_at=-1.0, preemption_delay_s=1e9)
    engine.observe(Submitted(first))  # it starts at once, or not: nobody leaves for it
    plan = engine.decide(story.now + 1.0)
    return any(decision.workload == "probe" for decision in plan.decisions)


def test_unknown_names_are_reasons_until_they_are_mended() -> None:
    """A level or profile that does not exist is told; the right name starts the workload."""
    story = Story()
    story.see(NodeJoined(node("n0", 4, *PATHS["n0"])))
    right = Workload("w", (group("a", tasks=2, level="rack"),))
    wrong = replace(right, groups=(group("a", tasks=2, level="rak"),))
    story.see(Submitted(wrong))
    assert story.decide().decisions == ()
    assert story.engine.reasons("w") == (Unknown("a", "level", "rak"),)

    story.see(WorkloadChanged(right))

    assert len(story.decide().decisions) == 1
