"""Room that is on its way out: it is given in order too, to minimums and to more, and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.config import read_scenario
from mooring.engine import Engine
from mooring.model.events import Adopted, Ended, Submitted, TasksChanged
from mooring.model.plan import Bind, Evict, Reserve
from mooring.model.resources import amounts
from mooring.model.workload import Placement, PodGroup, Shape, TaskState, Workload
from mooring.sim.settle import settle
from tests.policy.kai.cases import KAI, Case, Table, check_starts, places_of, read_workload

case = Table()
GONE = "D gpu.limit=0"
"""A queue whose work, once it has left, does not come back."""

# -- one queue: priority, then who lacks something, then age ---------------------------------

case(
    "priority comes first: all of its tasks before any of another",
    nodes="n=3",
    queues="A gpu=3",
    running="old A 3 @n out",
    waiting="hi A 1x1..3 p=1 | lo A 2",
    first="",
    ends="hi:3 | waits old lo",
)
case(
    "on several nodes",
    nodes="n0=2 n1=2",
    queues=f"{GONE} | A gpu=4",
    running="old D 2x2 @n0,n1 out",
    waiting="grows A 1x1..3 p=1 | low A 2",
    ends="grows:3 | waits old low",
)
case(
    "of equals, minimums come before more",
    nodes="n=3",
    queues=f"{GONE} | A gpu=3",
    running="old D 3 @n out",
    waiting="a A 1x1..3 s=1 | b A 1 s=2",
    ends="a:2 b | waits old",
)
case(
    "then they take turns",
    nodes="n=4",
    queues=f"{GONE} | A gpu=4",
    running="old D 4 @n out",
    waiting="a A 1x1..4 s=1 | b A 1x1..4 s=2",
    ends="a:2 b:2 | waits old",
)
case(
    "a gang that does not fit beside the growth of a better one is passed by a small one",
    nodes="n=4",
    queues=f"{GONE} | A gpu=4",
    running="old D 4 @n out",
    waiting="hi A 1x2..3 p=1 | lo A 1x2 s=1 | small A 1 s=2",
    ends="hi:3 small | waits old lo",
)
case(
    "a gang of which one task must wait waits whole, and grows before others start",
    # Free is one, three are being left: two for the gang, one to grow, one is left.
    nodes="n0=1 n1=3",
    queues=f"{GONE} | A gpu=4",
    running="old D 3 @n1 out",
    waiting="hi A 1x2..3 p=1 | lo A 1x2 s=1 | small A 1 s=2",
    first="",
    ends="hi:3 small | waits old lo",
)
case(
    "one that runs grows before one of lower priority starts",
    nodes="n=3",
    queues=f"{GONE} | A gpu=3",
    running="a A 1x1..3 @n p=1 | old D 2 @n out",
    waiting="lo A 1",
    ends="a:3 | waits old lo",
)
case(
    "and after one of higher priority",
    nodes="n=3",
    queues=f"{GONE} | A gpu=3",
    running="a A 1x1..3 @n | old D 2 @n out",
    waiting="hi A 1 p=1",
    ends="a:2 hi | waits old",
)
case(
    "what is free at once is taken at once, by one that has its minimum",
    nodes="n0=2 n1=2",
    queues=f"{GONE} | A gpu=4",
    running="old D 2 @n1 out",
    waiting="hi A 1x1..4 p=1 | lo A 1",
    first="hi",
    ends="hi:4 | waits old lo",
)
case(
    "or that needs none: room for one of its tasks does not keep the next from starting",
    nodes="n0=1 n1=1",
    queues=f"{GONE} | A gpu=2",
    running="stays A 0.3 @n0/0 | old D 0.7 @n0/0 out",
    waiting="any A 0.5x0..2",
    first="any",
    ends="stays any@n0,n1 | waits old",
)
case(
    "parts of devices",
    nodes="n=1",
    queues=f"{GONE} | A gpu=1",
    running="old D 1 @n out",
    waiting="hi A 0.5x1..2 p=1 | lo A 0.5",
    ends="hi:2 | waits old lo",
)
case(
    "a rack for all: growth stays where the gang will be",
    nodes="r1: a=2 | r2: b=2",
    queues=f"{GONE} | A gpu=4",
    running="old D 2x2 @a,b out",
    waiting="hi A 1x1..4 p=1 level=rack | lo A 2",
    ends="hi:2 lo | waits old",
)

case(
    "who has left comes back at its place in line",
    nodes="n=1",
    queues="A gpu=1",
    running="old A 1 @n p=1 out",
    waiting="lo A 1 fixed",
    first="",
    ends="old | waits lo",
)

# -- several queues --------------------------------------------------------------------------

case(
    "queues take turns",
    nodes="n=4",
    queues=f"{GONE} | A | B",
    running="old D 4 @n out",
    waiting="a A 1x1..4 | b B 1x1..4",
    ends="a:2 b:2 | waits old",
)
case(
    "growth within quota comes before others beyond theirs",
    nodes="n=2",
    queues=f"{GONE} | A gpu=2 | B",
    running="old D 2 @n out",
    waiting="a A 1x1..2 | b B 1",
    ends="a:2 | waits old b",
)
case(
    "a limit counts what is to come",
    # Of four A may have two: the growth of the better one is the second.
    nodes="n=4",
    queues=f"{GONE} | A gpu=2 gpu.limit=2 | B",
    running="old D 4 @n out",
    waiting="hi A 1x1..4 p=1 | lo A 1 | b B 1x2",
    ends="hi:2 b:2 | waits old lo",
)
case(
    "so does quota, for what is not to be evicted",
    nodes="n=3",
    queues=f"{GONE} | A gpu=2",
    running="old D 3 @n out",
    waiting="hi A 1x1..3 fixed p=1 | lo A 1",
    ends="hi:2 lo | waits old",
)
case(
    "what is left over is reclaimed",
    # Shares: A 1, B 2. One is being left, and one more is A's to give.
    nodes="n=3",
    queues=f"{GONE} | A | B gpu=2",
    running="a1 A 1 @n | a2 A 1 @n | old D 1 @n out",
    waiting="b B 1x1..2",
    evicted=None,
    ends="a1 b:2 | waits old a2",
)
case(
    "room that is to come spares others",
    nodes="n=4",
    queues=f"{GONE} | A | B gpu=2",
    running="a1 A 1 @n | a2 A 1 @n | old D 2 @n out",
    waiting="b B 1x1..2",
    ends="a1 a2 b:2 | waits old",
)


@pytest.mark.parametrize("each", case.cases, ids=lambda each: each.name)
def test_leaving(each: Case) -> None:
    each.check()


# -- over several cycles ---------------------------------------------------------------------


def _engine(name: str, **facts: str) -> Engine:
    """Return an engine that knows of everything, before its first cycle."""
    table = Table()
    table(name, ends="", **facts)  # type: ignore[arg-type]
    scenario = table.cases[0].scenario
    engine = Engine(scenario.topology, KAI, scenario.memory, scenario.queues)
    for event in scenario.events():
        engine.observe(event)
    return engine


def _of(engine: Engine, now: float) -> tuple[set[str], set[str], set[str]]:
    """Return whom a cycle binds, keeps room for, and evicts."""
    found = engine.decide(now).decisions
    return (
        {d.workload for d in found if isinstance(d, Bind)},
        {d.workload for d in found if isinstance(d, Reserve)},
        {d.workload for d in found if isinstance(d, Evict)},
    )


def test_room_to_grow_is_kept_as_long_as_the_others_take_to_leave() -> None:
    engine = _engine(
        "slow", nodes="n=3", queues="A gpu=3", running="old A 3 @n out",
        waiting="hi A 1x1..3 p=1 | lo A 2",
    )  # fmt: skip
    assert _of(engine, 1000.0) == (set(), {"hi"}, set())
    engine.observe(Submitted(read_workload("more A 1")[0]))
    for later in range(1, 4):
        assert _of(engine, 1000.0 + later) == (set(), set(), set())
    engine.observe(Ended("old"))
    assert _of(engine, 1005.0) == ({"hi"}, set(), set())
    assert places_of(engine) == {"hi": {"n": 3}}


def test_a_minimum_does_not_wait_for_room_to_grow() -> None:
    engine = _engine(
        "one by one", nodes="n0=1 n1=1", queues="A gpu=3",
        running="old0 A 1 @n0 out | old1 A 1 @n1 out", waiting="hi A 1x1..2 p=1 | lo A 1",
    )  # fmt: skip
    assert _of(engine, 1000.0) == (set(), {"hi"}, set())
    engine.observe(Ended("old0"))
    assert _of(engine, 1001.0)[0] == {"hi"}
    engine.observe(Ended("old1"))
    assert _of(engine, 1002.0) == ({"hi"}, set(), set())
    assert places_of(engine)["hi"] == {"n0": 1, "n1": 1}


def test_who_comes_before_the_room_is_free_may_be_better() -> None:
    """Next cycle everything is looked at anew: nobody starts only to leave for the newcomer."""
    engine = _engine(
        "late", nodes="n=1", queues="A gpu=1", running="old A 1 @n out", waiting="lo A 1"
    )
    assert _of(engine, 1000.0) == (set(), {"lo"}, set())
    engine.observe(Ended("old"))
    engine.observe(Submitted(read_workload("hi A 1 p=9")[0]))
    assert _of(engine, 1001.0) == ({"hi"}, set(), set())
    assert _of(engine, 1002.0) == (set(), set(), set())
    assert engine.reasons("lo")


def test_who_comes_while_others_still_leave_may_be_better_too() -> None:
    """It has the room that is to come, so that nobody else need leave for it."""
    engine = _engine(
        "late", nodes="n=2", queues="A gpu=2", running="v A 1 @n | old A 1 @n out", waiting="lo A 1"
    )
    assert _of(engine, 1000.0) == (set(), {"lo"}, set())
    engine.observe(Submitted(read_workload("hi A 1 p=9")[0]))
    assert _of(engine, 1001.0) == (set(), {"hi"}, set())
    assert engine.reasons("lo")
    engine.observe(Ended("old"))
    assert _of(engine, 1002.0) == ({"hi"}, set(), set())
    assert set(places_of(engine)) == {"hi", "v"}


def test_who_others_have_left_for_starts() -> None:
    """A still better one has its place afterwards, not in the same plan."""
    engine = _engine(
        "paid", nodes="n=1", queues="A gpu=1", running="lo A 1 @n", waiting="mid A 1 p=1"
    )
    assert _of(engine, 1000.0) == (set(), {"mid"}, {"lo"})
    engine.observe(TasksChanged("lo", "main", (0,), TaskState.PENDING))
    engine.observe(Submitted(read_workload("hi A 1 p=9")[0]))
    assert _of(engine, 1001.0) == ({"mid"}, set(), set())
    assert _of(engine, 1002.0) == (set(), {"hi"}, {"mid"})


# -- tasks that come while others of their workload run -------------------------------------

_CPU = "n0=1:cpu=1000 n1=0:cpu=3000"
"""Where `hi` needs the device of `v`, and the CPU that one more task of `g` was given before."""


def _run(engine: Engine, workload: Workload, *where: Placement) -> None:
    engine.observe(Adopted(workload, where, 0.0))


def _evicted(engine: Engine, now: float) -> set[tuple[str, str, int]]:
    """Return the tasks that a cycle lets leave."""
    plan = engine.decide(now)
    return {spot for each in plan.decisions if isinstance(each, Evict) for spot in each.spots}


def test_those_that_run_do_not_leave_for_later_ones_of_their_own_workload() -> None:
    """Story 104310: tasks 0 and 1 were lost. They come back, and one of them is moved at once."""
    engine = _engine(
        "back", nodes=_CPU, queues="A gpu=1", running="v A 1 @n0 s=2",
        waiting="hi A 1 cpu=1000 p=1",
    )  # fmt: skip
    gang = read_workload("g A 0x2..4 cpu=1000 s=1")[0]
    _run(engine, gang, Placement("main", (2, 3), ("n1", "n1"), (0, 0)))
    assert _evicted(engine, 1000.0) == {("v", "main", 0)}
    assert places_of(engine) == {"g": {"n1": 3}}


def test_one_that_runs_is_moved_though_an_earlier_one_waits() -> None:
    engine = _engine(
        "moved", nodes="n0=2 n1=2", queues="A gpu=1 gpu.limit=1 | B gpu=3",
        running="x B 1 @n0 fixed", waiting="e B 2",
    )  # fmt: skip
    _run(engine, read_workload("g A 1x1..2")[0], Placement("main", (1,), ("n1",), (1,)))
    assert _of(engine, 1000.0) == (set(), {"e", "g"}, {"g"})
    engine.observe(TasksChanged("g", "main", (1,), TaskState.PENDING))
    engine.decide(1001.0)
    assert places_of(engine) == {"x": {"n0": 1}, "g": {"n0": 1}, "e": {"n1": 1}}


def test_a_group_that_comes_for_one_that_leaves_waits_whole() -> None:
    """Of two groups one is needed: the other comes where this one was, and not by halves."""
    engine = _engine(
        "instead", nodes=_CPU, queues="A gpu=1", running="v A 1 @n0 s=2",
        waiting="hi A 1 cpu=1000 p=1",
    )  # fmt: skip
    shape = Shape(amounts=amounts({"cpu": 1000}))
    either = PodGroup("all", groups=(PodGroup("a", shape, 2), PodGroup("z", shape, 2)), needed=1)
    gang = Workload("g", (either,), "A", submitted_at=1.0)
    _run(engine, gang, Placement("z", (0, 1), ("n1", "n1"), (0, 0)))
    assert _of(engine, 1000.0) == (set(), {"hi", "g"}, {"v", "g"})
    past, since = engine.entries()["g"].past, engine.entries()["g"].running_since
    assert (past.evictions, past.attained_s, since) == (1, 1000.0, None)
    engine.observe(TasksChanged("v", "main", (0,), TaskState.PENDING))
    engine.observe(TasksChanged("g", "z", (0, 1), TaskState.PENDING))
    engine.decide(1001.0)
    assert places_of(engine) == {"hi": {"n0": 1}, "g": {"n1": 2}}


# -- what was found -------------------------------------------------------------------------


FOUND = sorted(Path(__file__).with_name("found").glob("*.yaml"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: str(path.stem))
def test_nobody_comes_and_goes_in_worlds_where_they_did(path: Path) -> None:
    result = settle(read_scenario(path.read_text("utf-8")))
    assert result.is_settled
    check_starts(path.stem, result.decisions)
