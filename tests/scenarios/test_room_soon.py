"""Who would get room soon anyway waits for it, and makes nobody leave meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mooring.config import dump_scenario, read_scenario
from mooring.model.memory import Memory
from mooring.model.plan import Protected
from mooring.model.settings import Eviction, Headroom, Policy
from mooring.policy.queues.flow import MEAN_S
from tests.build import gang, task
from tests.scenarios.story import Left, Story, queue

if TYPE_CHECKING:
    from mooring.model.workload import Workload

OWNER, GUEST = queue("owner", 4), queue("guest")
SECONDS = 100.0
"""Within which one task of eight devices ends."""
BUSY = Memory(freed=(("H100", 8000, 0.0, MEAN_S / SECONDS),))
"""Much has ended lately: one task of a node every so many seconds."""
PATIENT = Policy(eviction=Eviction(patience_s=600.0))
PATIENCE = 300.0
"""Twice the expected wait, rounded up to a half of ten minutes."""


def mine(count: int = 1, name: str = "mine", priority: int = 0) -> Workload:
    return task(name, count, queue="owner", priority=priority)


def guest(name: str = "guest", count: int = 8) -> Workload:
    return task(name, count, queue="guest")


def busy() -> Story:
    """Return a node that a guest fills, and where much has ended lately."""
    return Story("a=8", OWNER, GUEST, memory=BUSY, policy=PATIENT).at(0, guest())


def test_it_is_told_how_long_it_waits_and_then_somebody_leaves() -> None:
    story = busy().at(10, mine()).go(20)
    assert story.why("mine") == (Protected(10 + PATIENCE),)
    story.rests()

    story.go(1000)

    assert story.left() == [Left(10 + PATIENCE, "guest", "quota", "mine")]
    assert story.starts("mine") == [10 + PATIENCE]
    story.rests()


def test_room_that_becomes_free_is_its_own() -> None:
    """The other guest has waited for longer, and would fit; nobody has to leave."""
    story = Story("a=8 b=8", OWNER, GUEST, memory=BUSY, policy=PATIENT)
    story.at(0, guest("g1")).at(0, guest("g2"), runs=100).at(5, guest("g3", 8))
    story.at(10, mine(1)).go(99)
    assert story.waiting() == ["g3", "mine"]

    story.go(1000)

    assert story.starts("mine") == [100]
    assert story.left() == []


@pytest.mark.parametrize(
    ("memory", "patience_s"),
    [
        (Memory(), 600.0),  # nothing has ended yet
        (BUSY, 0.0),  # it is switched off
        (BUSY, 150.0),  # too long
        (Memory(freed=(("H100", 4000, 0.0, 1000.0),)), 600.0),  # only small tasks end
        (Memory(freed=(("A10", 8000, 0.0, 1000.0),)), 600.0),  # elsewhere
    ],
)
def test_where_no_room_is_expected_nobody_waits(memory: Memory, patience_s: float) -> None:
    policy = Policy(eviction=Eviction(patience_s=patience_s))
    all_of_it = queue("owner", 8)
    story = Story("a=8", all_of_it, GUEST, memory=memory, policy=policy).at(0, guest())
    story.at(10, mine(8)).go(20)
    assert story.left() == [Left(10, "guest", "quota", "mine")]


def test_a_gang_waits_for_as_many_nodes_as_it_has_tasks() -> None:
    """Two nodes take 200 s on average: it waits for ten minutes; three are too long to wait for."""
    story = Story("a=8 b=8 c=8", queue("owner", 24), GUEST, memory=BUSY, policy=PATIENT)
    story.at(0, *(guest(f"g{i}") for i in range(3)))
    story.at(10, replace(gang("two", tasks=2, gpus=8), queue="owner")).go(20)
    assert story.why("two") == (Protected(610.0),)

    story.at(30, replace(gang("three", tasks=3, gpus=8), queue="owner")).go(40)

    assert {left.beneficiary for left in story.left()} == {"three"}


def test_who_outranks_others_of_its_queue_need_not_wait() -> None:
    """It could ask its own junior; that a guest is cheaper is no reason to let it wait."""
    story = Story("a=1 b=4", queue("owner", 5), GUEST, memory=BUSY, policy=PATIENT)
    story.at(0, mine(4, "junior")).at(1, guest("guest", 1)).go(2)
    assert story.running() == ["guest", "junior"]

    story.at(10, mine(1, "senior", priority=5)).go(20)

    assert story.left() == [Left(10, "guest", "quota", "senior")]


def test_room_that_was_promised_is_had_at_once() -> None:
    policy = replace(PATIENT, headroom=(Headroom("owner", 2, 60.0),))
    story = Story("a=8", OWNER, GUEST, memory=BUSY, policy=policy)
    story.at(0, guest()).at(10, mine(2)).go(20)
    assert story.left() == [Left(10, "guest", "headroom", "mine")]


def test_whose_turn_has_come_need_not_wait() -> None:
    """In strict order it would have started: the one that overtook leaves at once."""
    whole = queue("owner", 8, order="backfill"), queue("guest", order="backfill")
    story = Story("a=8 b=8", *whole, memory=BUSY, policy=PATIENT)
    story.at(0, mine(8, "first"), runs=50).at(0, mine(8, "second"), runs=1000)
    big = replace(gang("big", tasks=2, gpus=8), queue="guest")
    story.at(1, big).at(60, guest("small", 1)).go(999)
    assert story.running() == ["second", "small"]

    story.go(2000)

    assert story.left("small") == [Left(1000, "small", "overtaker", "big")]
    assert story.starts("big") == [1000]


def test_who_had_to_leave_waits_from_then_on() -> None:
    story = busy().at(10, mine()).go(20)
    entry = story.engine.entries()["mine"]
    entry.past = replace(entry.past, evicted_at=15.0)
    story.engine.desk.books.epoch += 1
    story.go(30)
    assert story.why("mine") == (Protected(15.0 + PATIENCE),)


def test_what_ends_is_learnt_and_survives_a_restart() -> None:
    """Of a gang that is over every task counts; of one that had to leave none."""
    both = replace(gang("both", tasks=2, gpus=4), queue="guest")
    story = Story("a=8 b=8", queue("owner", 8), GUEST).at(0, both, runs=50)
    story.at(60, guest()).at(61, guest("g2")).at(70, mine(8)).go(100)
    assert story.left("guest", "g2")
    snapshot = story.engine.snapshot(story.loop.now)
    assert snapshot.memory.freed == (("H100", 4000, 50.0, 2.0),)

    again = read_scenario(dump_scenario(snapshot)).memory

    assert again.freed == snapshot.memory.freed


def test_a_fork_waits_as_long() -> None:
    story = busy().at(10, mine()).go(20)
    fork = story.engine.fork()
    for engine in (story.engine, fork):
        assert engine.decide(10 + PATIENCE - 1).decisions == ()
        assert engine.decide(10 + PATIENCE).decisions
