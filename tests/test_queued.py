"""Whole worlds with queues at random: whatever happens, all of design.md § 8 holds.

Books, Gangs, Patience and Replay are checked by `tests.world` and `tests.queued` as the story goes,
Quota and Evictions by `tests.rules`, which judges every plan; Rest when the story is over. The
measure of eviction.md § 4 falls with every exchange.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mooring.engine import Engine
from mooring.model.plan import Bind, Plan, Reserve
from mooring.model.workload import Placement
from mooring.policy.holds import Hold
from tests.policy.kai.cases import Table
from tests.queued import STEPS, Told, play, told_in
from tests.rules import Judge, Moment, Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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


def judged(*binds: int) -> None:
    """Judge a plan of kai that keeps room for task 0 of three and binds others, two at least."""
    table = Table()
    table("", nodes="n=3", queues="A gpu=3", waiting="w A 1x2..3", ends="")
    scenario = table.cases[0].scenario
    engine = Engine(scenario.topology, scenario.policy, queues=scenario.queues)
    for event in scenario.events():
        engine.observe(event)
    moment = Moment(engine)
    with Witness(engine.desk) as witness:
        engine.decide(scenario.now)
    engine.desk.holds._kept["w"] = Hold([], 0.0)
    kept = Reserve("w", (Placement("main", (0,), ("n",), (1,)),), 9.0)
    found = Bind("w", Placement("main", binds, ("n",) * len(binds), (2, 4)[: len(binds)]))
    Judge(moment, witness).judge(Plan((kept, found)))


def test_who_has_its_minimum_may_start_without_a_task_that_room_is_kept_for() -> None:
    judged(1, 2)


def test_who_has_less_may_not() -> None:
    with pytest.raises(AssertionError, match="starts with 1, not 2"):
        judged(1)


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
