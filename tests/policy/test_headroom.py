"""Promised room: who may use it meanwhile, who must leave, and what cannot be promised."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.engine import Engine, EventError
from mooring.model.events import NodeJoined, PolicyChanged, QueuesChanged, Submitted
from mooring.model.plan import Bind, Evict, Promised
from mooring.model.queues import Flavor, Queue, Quota
from mooring.model.resources import GPU
from mooring.model.settings import Eviction, Headroom, Policy
from mooring.model.workload import TaskState
from mooring.policy.headroom import matched
from mooring.policy.pledge import broken_promises
from mooring.sim.loop import Loop
from tests.build import World, binds, evicts, gang, nodes, on, picture, reasons, share, task, told

if TYPE_CHECKING:
    from mooring.model.plan import Plan
    from mooring.model.workload import Workload
    from tests.build import On

QUEUES = (Queue("serving"), Queue("batch"), Queue("other"))


def world(text: str, *promises: Headroom, queues: tuple[Queue, ...] = QUEUES) -> World:
    """Return a cluster with promises."""
    topology, nodes = picture(text)
    made = World(Engine(topology, Policy(headroom=promises), queues=queues))
    return made.join(*nodes)


def serving(gpus: int, within_s: float = 60.0, flavor: str = "") -> Headroom:
    return Headroom("serving", gpus, within_s, flavor)


def quick(name: str, count: int, leave_s: float = 10.0, queue: str = "batch") -> Workload:
    """Return work that leaves soon."""
    return replace(task(name, count, queue=queue), leave_s=leave_s)


def slow(name: str, count: int, queue: str = "batch") -> Workload:
    return quick(name, count, 3600.0, queue)


def stand(made: World) -> list[tuple[int, int, int, int]]:
    """Return used, idle, lent and missing of every promise."""
    return [(p.used, p.idle, p.lent, p.missing) for p in made.engine.headroom()]


def test_where_nothing_is_promised_there_is_nothing_to_report() -> None:
    assert stand(world("a=8")) == []


def started(plan: Plan) -> list[str]:
    return [bind.workload for bind in binds(plan)]


# -- who may use it -------------------------------------------------------------------------


def test_work_that_cannot_leave_in_time_keeps_off() -> None:
    made = world("a=8", serving(4)).run(slow("first", 4))
    assert stand(made) == [(0, 4, 0, 0)]

    plan = made.submit(slow("second", 1)).cycle()

    assert plan.decisions == ()
    assert reasons(made, "second") == (Promised("serving", 4),)
    made.settles()


def test_what_is_beyond_the_promise_is_for_all() -> None:
    made = world("a=8", serving(4)).run(slow("first", 3), slow("second", 1), slow("third", 1))

    assert made.engine.running() == ["first", "second"]


def test_work_that_can_leave_in_time_is_let_in() -> None:
    made = world("a=8", serving(4)).run(slow("slow", 4), quick("guest", 4))

    assert made.engine.running() == ["slow", "guest"]
    assert stand(made) == [(0, 0, 4, 0)]


@pytest.mark.parametrize(
    "late",
    [
        quick("late", 1, leave_s=61.0),
        replace(quick("late", 1), preemptible=False),
        replace(quick("late", 1), semi_preemptible=True),
        replace(quick("late", 1), minimum_run_s=51.0),
        share("late", 500, queue="batch"),
    ],
    ids=["leaves too late", "not preemptible", "semi-preemptible", "runs a minimum", "a share"],
)
def test_who_is_no_loan(late: Workload) -> None:
    queues = (Queue("serving"), Queue("batch", quotas=(Quota(GPU, quota=8000),)))
    made = world("a=8", serving(4), queues=queues).run(slow("slow", 4), late)

    assert made.engine.running() == ["slow"]
    assert reasons(made, "late") == (Promised("serving", 4),)


def test_the_policy_says_how_long_leaving_takes_where_the_workload_does_not() -> None:
    made = world("a=4", serving(4, within_s=60.0)).run(task("guest", 4, queue="batch"))
    assert made.engine.running() == ["guest"]

    patient = Policy(eviction=Eviction(leave_s=90.0), headroom=(serving(4),))
    made.see(PolicyChanged(patient)).submit(task("late", 1, queue="batch")).cycle()

    assert stand(made) == [(0, 0, 0, 4)]  # the guest needs longer now, and everybody can see it


def test_a_share_may_join_others_on_their_device() -> None:
    queues = (Queue("serving"), Queue("batch"))
    made = world("a=5", serving(4), queues=queues).run(share("s", 500, queue="batch"))

    made.run(share("t", 500, queue="batch"), share("u", 500, queue="batch"))

    assert made.engine.running() == ["s", "t"]
    assert stand(made) == [(0, 4, 0, 0)]


def test_the_promise_is_drawn_on_by_the_queue_itself() -> None:
    made = world("a=8", serving(4)).run(slow("mine", 4, queue="serving"), slow("theirs", 4))

    assert made.engine.running() == ["mine", "theirs"]
    assert stand(made) == [(4, 0, 0, 0)]


def test_work_of_queues_below_is_the_queue_s_own() -> None:
    queues = (Queue("serving"), Queue("web", "serving"), Queue("batch"))
    made = world("a=8", serving(4), queues=queues)

    made.run(slow("web", 4, queue="web"), slow("batch", 4))

    assert made.engine.running() == ["web", "batch"]


def test_a_promise_of_a_flavor_leaves_other_flavors_alone() -> None:
    topology, nodes = picture("a=4 b=4")
    nodes = [nodes[0], told(nodes[1], on("", model="A100").facts)]
    made = World(Engine(topology, Policy(headroom=(serving(4, flavor="H100"),)), queues=QUEUES))
    made.join(*nodes)

    plan = made.submit(slow("one", 4), slow("two", 4)).cycle()

    assert [(b.workload, b.placement.nodes) for b in binds(plan)] == [("one", ("b",))]
    assert reasons(made, "two") == (Promised("serving", 4),)


def test_several_promises_are_kept_side_by_side() -> None:
    both = (serving(2), Headroom("other", 3, 600.0))
    made = world("a=8", *both).run(slow("three", 3), quick("guest", 4, leave_s=300.0))

    # the guest leaves in time for one of them only, and that one has 3
    assert made.engine.running() == ["three"]
    made.run(quick("smaller", 3, leave_s=300.0))
    assert made.engine.running() == ["three", "smaller"]
    assert [p.missing for p in made.engine.headroom()] == [0, 0]


def test_room_that_a_lost_gang_member_would_take_is_promised_too() -> None:
    made = world("a=4 b=4 c=4", serving(4))
    made.run(replace(gang("g", tasks=2, gpus=4, queue="batch"), leave_s=3600.0))
    assert stand(made) == [(0, 4, 0, 0)]

    made.leave("a")
    plan = made.cycle(1.0)

    assert binds(plan) == []
    assert reasons(made, "g") == (Promised("serving", 4),)


def test_growth_is_lent_unit_by_unit() -> None:
    elastic = replace(gang("e", tasks=4, most=8, queue="batch"), leave_s=10.0)
    made = world("a=8", serving(4)).run(elastic)
    made.confirm(made.cycle())
    while made.plans[-1].decisions:
        made.confirm(made.cycle())
    assert stand(made) == [(0, 0, 4, 0)]

    plan = made.submit(task("mine", 2, queue="serving")).cycle(made.now + 1)

    assert sorted(task for e in evicts(plan) for task in e.tasks) == [6, 7]
    assert {(e.workload, e.cause) for e in evicts(plan)} == {("e", "headroom")}
    assert {e.beneficiary for e in evicts(plan)} == {"mine"}


def test_one_kept_off_starts_as_soon_as_there_is_enough_beyond_the_promise() -> None:
    """Devices come free on nodes where it has no room itself: all the same there is more."""
    made = world("a=4 b=2 c=2", serving(4))
    small = [slow(f"s{i}", 1) for i in range(4)]
    for each, (at, mask) in zip(small, [("b", 1), ("b", 2), ("c", 1), ("c", 2)], strict=True):
        made.adopt(each, {at: [mask]})
    made.submit(slow("late", 2)).cycle()
    assert reasons(made, "late") == (Promised("serving", 4),)

    assert started(made.end("s0").cycle(1.0)) == []
    assert started(made.end("s2").cycle(2.0)) == ["late"]


def test_shares_of_the_queue_itself_are_not_kept_off_by_its_own_promise() -> None:
    made = world("a=4", serving(4))

    made.run(*(share(f"s{i}", 600, queue="serving") for i in range(4)))

    assert len(made.engine.running()) == 4


# -- who must leave -------------------------------------------------------------------------


def test_a_guest_leaves_at_once_for_the_queue_that_was_promised() -> None:
    made = world("a=8", serving(4)).run(slow("slow", 4), quick("guest", 4))

    plan = made.submit(slow("mine", 4, queue="serving")).cycle(1.0)

    assert [(e.workload, e.cause, e.beneficiary) for e in evicts(plan)] == [
        ("guest", "headroom", "mine")
    ]
    assert stand(made) == [(4, 0, 0, 0)]
    made.tasks("guest", TaskState.PENDING)
    assert started(made.cycle(11.0)) == ["mine"]
    made.tasks("mine", TaskState.RUNNING).settles()


def test_a_guest_leaves_for_nobody_else_and_for_no_more_than_was_promised() -> None:
    made = world("a=8", serving(4)).run(slow("slow", 4), quick("guest", 4))

    made.submit(slow("theirs", 4, queue="other"), slow("much", 5, queue="serving"))

    assert made.cycle(1.0).decisions == ()


def test_idle_room_is_used_before_a_guest_is_asked() -> None:
    made = world("a=8", serving(4)).run(slow("slow", 2), quick("guest", 4))

    plan = made.submit(task("mine", 2, queue="serving")).cycle(1.0)

    assert started(plan) == ["mine"]
    assert evicts(plan) == []


def test_a_guest_of_another_promise_that_is_too_slow_for_this_one_stays() -> None:
    made = world("a=3 b=2", serving(2), Headroom("other", 3, 600.0))
    made.run(quick("guest", 3, leave_s=300.0))
    made.leave("b")

    plan = made.submit(slow("mine", 2, "serving")).cycle(1.0)

    assert plan.decisions == ()
    plan = made.submit(slow("theirs", 2, "other")).cycle(2.0)
    assert [(e.cause, e.beneficiary) for e in evicts(plan)] == [("headroom", "theirs")]


def test_surplus_of_a_guest_that_leaves_is_still_there_for_the_promise() -> None:
    """It gives way for one device; the other three come free with it, and nobody takes them."""
    made = world("a=4", serving(4)).run(quick("guest", 4))
    made.submit(task("mine", 1, queue="serving"), slow("late", 3))

    made.cycle(1.0)

    assert stand(made)[0][3] == 0
    made.tasks("guest", TaskState.PENDING)
    assert started(made.cycle(2.0)) == ["mine"]
    assert reasons(made, "late") == (Promised("serving", 4),)


def test_a_promise_is_not_broken_by_evictions_of_others() -> None:
    """One with a right to the guest's place could not leave in time: it does not get it."""
    queues = (
        Queue("serving"),
        Queue("batch"),
        Queue("other", quotas=(Quota(GPU, flavor="H100", quota=4000),)),
    )
    made = world("a=4 b=4", serving(4), queues=queues)
    made.run(quick("one", 4), quick("two", 4))
    assert made.engine.running() == ["one", "two"]

    plan = made.submit(slow("first", 4, "other"), slow("second", 4, "other")).cycle(7200.0)

    assert [e.beneficiary for e in evicts(plan)] == ["first"]
    assert [p.missing for p in made.engine.headroom()] == [0]


def test_loans_leave_in_time() -> None:
    """A day of services that come and go: each runs within the promised minute."""
    promise = serving(8, within_s=60.0)
    topology, nodes = picture("a=8 b=8")
    engine = Engine(topology, Policy(headroom=(promise,)), queues=QUEUES)
    began: dict[str, float] = {}
    evicted: list[tuple[str, str]] = []

    def listen(now: float, _: object, plan: Plan) -> None:
        assert [p for p in engine.headroom() if not p.is_kept] == []
        began.update({d.workload: now for d in plan.decisions if isinstance(d, Bind)})
        evicted.extend((d.workload, d.cause) for d in plan.decisions if isinstance(d, Evict))

    run_s = {"s": 1800.0}
    loop = Loop(engine, lambda w: run_s.get(w.name[0], 7200.0), [listen], grace_s=30.0)
    for each in nodes:
        loop.at(0.0, NodeJoined(each))
    for i in range(12):
        at = 600.0 * i
        loop.at(at, Submitted(replace(quick(f"b{i}", 2), submitted_at=at, leave_s=30.0)))
        loop.at(at, Submitted(replace(slow(f"x{i}", 3), submitted_at=at)))
    for i in range(6):
        at = 3000.0 + 1000.0 * i
        loop.at(at, Submitted(replace(slow(f"s{i}", 4, "serving"), submitted_at=at)))
    loop.run()

    waits = {
        name: began[name] - (3000.0 + 1000.0 * int(name[1:])) for name in began if name[0] == "s"
    }
    assert len(waits) == 6
    assert max(waits.values()) <= promise.within_s
    assert any(cause == "headroom" for _, cause in evicted)
    assert all(name[0] == "b" for name, cause in evicted if cause == "headroom")


# -- what cannot be promised ----------------------------------------------------------------


def refusal(policy: Policy, queues: tuple[Queue, ...], text: str, *facts: On) -> str:
    """Return why a policy is refused on a cluster."""
    topology, nodes = picture(text)
    made = World(Engine(topology, queues=queues)).join(*nodes)
    with pytest.raises(EventError) as error:
        made.see(PolicyChanged(policy))
    assert made.engine.policy == Policy()  # nothing has changed
    return str(error.value)


def test_a_headroom_promise_refused() -> None:
    """A cluster of 16 with 6 guaranteed to batch cannot promise 12 to serving, but 10."""
    queues = (Queue("serving"), Queue("batch", quotas=(Quota(GPU, flavor="H100", quota=6000),)))

    said = refusal(Policy(headroom=(serving(12),)), queues, "a=8 b=8")

    assert said == (
        "policy.headroom[0].gpus: 12: give at most 10: "
        "there are 16 GPUs, of which others were promised or have as quota 6"
    )
    topology, nodes = picture("a=8 b=8")
    made = World(Engine(topology, queues=queues)).join(*nodes)
    made.see(PolicyChanged(Policy(headroom=(serving(10),))))
    assert [p.is_kept for p in made.engine.headroom()] == [True]


BATCH = Queue("batch", quotas=(Quota(GPU, quota=8000),))


@pytest.mark.parametrize(
    ("promises", "queues", "words"),
    [
        ((serving(17),), QUEUES, "give at most 16: there are 16 GPUs"),
        ((serving(9), Headroom("other", 8, 0.0)), QUEUES, "[1].gpus: 8: give at most 7"),
        ((serving(9),), (Queue("serving"), BATCH), "give at most 8"),
        ((serving(4, flavor="A100"),), QUEUES, "remove it: there are 0 GPUs of flavor A100"),
        ((serving(4),), (Queue("s"),), ".queue: 'serving': give the name of a queue"),
        ((serving(0),), QUEUES, ".gpus: 0: give at least 1"),
        ((serving(1, within_s=-1.0),), QUEUES, ".within_s: -1: give at least 0"),
        (
            (serving(5),),
            (Queue("org", quotas=(Quota(GPU, limit=4000),)), Queue("serving", "org")),
            "give at most 4: queue org has a limit",
        ),
        (
            (serving(5),),
            (Queue("serving", quotas=(Quota(GPU, quota=1000, borrowing_limit=2000),)),),
            "give at most 3: queue serving has a limit",
        ),
    ],
)
def test_promises_that_could_never_be_kept(
    promises: tuple[Headroom, ...], queues: tuple[Queue, ...], words: str
) -> None:
    assert words in refusal(Policy(headroom=promises), queues, "a=8 b=8")


@pytest.mark.parametrize(
    "queues",
    [
        (Queue("serving", quotas=(Quota(GPU, quota=16_000),)), Queue("batch")),
        (Queue("org", quotas=(Quota(GPU, quota=16_000),)), Queue("serving", "org")),
        (Queue("serving"), Queue("web", "serving", quotas=(Quota(GPU, quota=16_000),))),
        (Queue("serving"), Queue("batch", quotas=(Quota(GPU, quota=None),))),
    ],
    ids=["own quota", "quota above", "quota below", "whatever there is"],
)
def test_quotas_that_a_promise_may_be_part_of(queues: tuple[Queue, ...]) -> None:
    _, nodes = picture("a=8 b=8")

    assert broken_promises(Policy(headroom=(serving(16),)), queues, nodes) == []


def test_other_profiles_promise_nothing() -> None:
    said = refusal(Policy(profile="kai", headroom=(serving(1),)), QUEUES, "a=8")

    assert said == "policy.headroom: profile kai keeps no promises; remove them"


def test_queues_that_would_break_a_promise_are_refused() -> None:
    made = world("a=8 b=8", serving(10))

    with pytest.raises(EventError, match="give at most 8"):
        made.see(QueuesChanged((Queue("serving"), BATCH)))

    assert made.engine.queues == QUEUES


def test_prices_are_no_reason_to_refuse_what_may_be_kept() -> None:
    flavors = (Flavor("H100", price=4.0),)
    queues = (Queue("serving", quotas=(Quota(GPU, limit=32_000),)), BATCH)
    _, nodes = picture("a=8 b=8")

    assert broken_promises(Policy(flavors=flavors, headroom=(serving(8),)), queues, nodes) == []
    wrong = broken_promises(Policy(flavors=flavors, headroom=(serving(9),)), queues, nodes)
    assert wrong == ["policy.headroom[0].gpus: 9: give at most 8: queue serving has a limit"]


def test_a_promise_that_is_not_kept_now_is_told() -> None:
    made = world("a=8 b=8", serving(8)).run(slow("slow", 8))
    free = "a" if nodes(made.plans[-1]) == {"b"} else "b"

    made.change(free, ready=False)

    assert [(p.idle, p.missing, p.is_kept) for p in made.engine.headroom()] == [(0, 8, False)]
    made.change(free, ready=True)
    assert [p.is_kept for p in made.engine.headroom()] == [True]


def test_nobody_deadlocks_over_promises_that_cannot_all_be_kept() -> None:
    made = world("a=4 b=4", serving(4), Headroom("other", 4, 60.0))
    made.leave("b")

    plan = made.submit(slow("mine", 4, "serving")).cycle(1.0)

    assert started(plan) == ["mine"]


# -- restarts and forks ---------------------------------------------------------------------


def test_guests_are_guests_after_a_restart() -> None:
    made = world("a=8", serving(4)).run(slow("slow", 4), quick("guest", 4))
    moment = made.engine.snapshot(1.0)
    assert moment.memory.loans == (("guest", "main", (0,), "serving"),)

    again = World(Engine(moment.topology, moment.policy, moment.memory, moment.queues))
    again.see(*moment.events())
    again.submit(slow("mine", 4, queue="serving"))

    assert [e.cause for e in evicts(again.cycle(2.0))] == ["headroom"]


def test_a_fork_knows_its_guests() -> None:
    made = world("a=8", serving(4)).run(slow("slow", 4), quick("guest", 4))
    fork = World(made.engine.fork())

    made.end("guest")
    made.run(quick("next", 4))

    assert [e.workload for e in evicts(fork.submit(slow("m", 4, "serving")).cycle(1.0))] == [
        "guest"
    ]
    assert stand(made) == [(0, 0, 4, 0)]


def test_a_promise_taken_back_makes_guests_of_nobody() -> None:
    made = world("a=8", serving(4)).run(slow("slow", 4), quick("guest", 4))

    made.see(PolicyChanged(Policy())).submit(slow("mine", 4, queue="serving"))

    assert all(e.cause != "headroom" for e in evicts(made.cycle(1.0)))
    assert made.engine.memory().loans == ()


# -- matching -------------------------------------------------------------------------------


def test_matching_swaps_where_that_helps() -> None:
    """The first need takes what both could have; the second makes it take the other."""
    assert matched({(0, 1): 4, (0,): 4}, [4, 4]) == [4, 4]
    assert matched({(0, 1): 4}, [3, 4]) == [3, 1]
    assert matched({}, [2]) == [0]


@given(
    st.dictionaries(
        st.sampled_from([(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)]),
        st.integers(0, 5),
    ),
    st.lists(st.integers(0, 6), min_size=3, max_size=3),
)
def test_a_matching_is_as_large_as_hall_says(
    supply: dict[tuple[int, ...], int], needs: list[int]
) -> None:
    """The most that can be met is bounded by every set of needs, and one bound is tight."""
    got = matched(supply, needs)

    def bound(some: set[int]) -> int:
        inside = sum(n for serves, n in supply.items() if some.intersection(serves))
        return inside + sum(n for i, n in enumerate(needs) if i not in some)

    sets = [{i for i in range(3) if mask >> i & 1} for mask in range(8)]
    assert sum(got) == min(map(bound, sets))
    assert all(0 <= g <= n for g, n in zip(got, needs, strict=True))


# -- always ---------------------------------------------------------------------------------

WORK = st.tuples(
    st.sampled_from(["serving", "batch", "other"]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([10.0, 3600.0]),
    st.booleans(),
)


@given(st.lists(st.one_of(WORK, st.integers(0, 9)), min_size=1, max_size=14))
def test_no_start_breaks_a_promise(steps: list[tuple[str, int, float, bool] | int]) -> None:
    """Whatever comes and ends: a promise that was kept is kept, and it comes to rest."""
    made = world("a=4 b=4", serving(3), Headroom("other", 2, 20.0))
    for number, step in enumerate(steps):
        if isinstance(step, int):
            running = made.engine.running()
            if running:
                made.end(running[step % len(running)])
        else:
            queue, count, leave_s, preemptible = step
            work = quick(f"w{number}", count, leave_s, queue)
            made.submit(replace(work, preemptible=preemptible, submitted_at=float(number)))
        for _ in range(20):
            plan = made.cycle(made.now + 1.0)
            assert [p.missing for p in made.engine.headroom()] == [0, 0]
            confirm(made, plan)
            if not plan.decisions:
                break
        else:
            raise AssertionError("no rest")
    made.settles()


def confirm(made: World, plan: Plan) -> None:
    """Let binds run, and what is evicted be gone."""
    for decision in plan.decisions:
        if isinstance(decision, Bind):
            made.tasks(decision.workload, TaskState.RUNNING, *decision.placement.tasks)
        elif isinstance(decision, Evict):
            made.tasks(decision.workload, TaskState.PENDING, *decision.tasks)
