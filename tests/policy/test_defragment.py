"""Defragmentation: what is moved, what it costs and brings, and that it keeps its word."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.engine import Engine
from mooring.model.events import Adopted, NodeJoined, PolicyChanged, QueuesChanged, Submitted
from mooring.model.plan import Bind, Delays, Evict, Leaving, Moving, Reserve, Reserved
from mooring.model.queues import Queue, Quota
from mooring.model.resources import GPU
from mooring.model.settings import Defragmentation, Eviction, Headroom, Policy
from mooring.model.workload import Placement, TaskState
from mooring.policy.defragment import free_of
from mooring.policy.fragments import gpu_columns, gpu_node_fragmentation_ratio
from mooring.sim.loop import Loop
from tests.build import (
    World,
    binds,
    cluster,
    evicts,
    gang,
    group,
    on,
    picture,
    reasons,
    share,
    task,
    used,
    workload,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.invoice import Invoice
    from mooring.model.plan import Plan
    from mooring.model.workload import Workload

HOUR = 3600.0
CALM = Eviction(consolidates=False)
"""Nobody is moved but by defragmentation."""
PLAIN = Policy(eviction=CALM)
AUTOMATIC = Policy(
    eviction=CALM, defragmentation=Defragmentation(automatic=True, ratio=2.0, budget=1000.0)
)
TIDY = Policy(
    eviction=CALM, defragmentation=Defragmentation(automatic=True, ratio=0.0, budget=1000.0)
)


def timed(work: Workload, hours: float) -> Workload:
    """Return work that says how long it runs."""
    return replace(work, estimate_s=hours * HOUR)


def halves(policy: Policy = PLAIN, hours: float = 6.0) -> World:
    """Return three nodes with half of their devices in use, and a whole node wanted."""
    world = cluster("a=8 b=8 c=8", policy=policy)
    for name in "abc":
        world.adopt(timed(task(f"t-{name}", 4), hours), {name: [0b1111]})
    return world.submit(task("whole", 8))


def invoice(world: World, now: float = HOUR) -> Invoice:
    found = world.engine.defragmentation(now)
    assert found is not None
    return found


def moved(found: Invoice) -> dict[str, tuple[str, ...]]:
    """Return where each workload would go."""
    return {m.workload: tuple(n for p in m.placements for n in p.nodes) for m in found.moves}


def fragmentation(world: World) -> float:
    return gpu_node_fragmentation_ratio(*gpu_columns(world.engine.books))


def confirm(world: World, plan: Plan) -> None:
    """Let binds run, and what is evicted be gone."""
    for decision in plan.decisions:
        if isinstance(decision, Bind):
            world.tasks(decision.workload, TaskState.RUNNING, *decision.placement.tasks)
        elif isinstance(decision, Evict):
            world.tasks(decision.workload, TaskState.PENDING, *decision.tasks)


# -- the invoice ----------------------------------------------------------------------------


def test_an_invoice_names_moves_costs_and_gains() -> None:
    found = invoice(halves())

    (move,), (gain,) = found.moves, found.gains
    assert move.beneficiary == gain.workload == "whole"
    # 4 GPUs ran for an hour without a checkpoint, and a restart takes a minute
    assert move.cost == found.cost == pytest.approx(4 * (1 + 1 / 60))
    # all end in five hours; the one that is moved needs 30 s to leave
    assert gain.earlier_s == pytest.approx(5 * HOUR - 30)
    assert gain.saved == found.saved == pytest.approx(8 * (5 - 30 / HOUR))
    assert found.ratio == pytest.approx(found.saved / found.cost)
    assert found.gfr_before == 1.0
    assert found.gfr_after == pytest.approx(1 / 3)


def test_asking_changes_nothing() -> None:
    world = halves()
    world.cycle(HOUR)
    before = world.engine.snapshot(HOUR)

    first, second = invoice(world), invoice(world)

    assert first == second
    assert world.engine.snapshot(HOUR) == before
    assert world.cycle(HOUR).decisions == ()


def test_the_cheapest_are_moved() -> None:
    """What was checkpointed a minute ago costs next to nothing."""
    world = halves()
    world.edit(replace(timed(task("t-b", 4), 6.0), checkpoint_at=HOUR - 60))

    found = invoice(world)

    assert list(moved(found)) == ["t-b"]
    assert found.cost == pytest.approx(4 * 2 / 60)


@pytest.mark.parametrize(
    "fixed",
    [
        {"preemptible": False},
        {"semi_preemptible": True},
        {"minimum_run_s": 2 * HOUR},
    ],
)
def test_who_may_not_be_made_to_leave_is_not_moved(fixed: dict[str, float]) -> None:
    world = halves()
    for name in ("t-a", "t-b", "t-c"):
        world.edit(replace(timed(task(name, 4), 6.0), **fixed))  # type: ignore[arg-type]

    assert world.engine.defragmentation(HOUR) is None


def test_nobody_is_moved_who_has_just_started() -> None:
    world = halves()

    assert world.engine.defragmentation(1799.0) is None
    assert world.engine.defragmentation(1800.0) is not None


def test_without_any_idea_of_the_end_a_day_is_counted() -> None:
    world = cluster("a=8 b=8", policy=PLAIN)
    for name in "ab":
        world.adopt(task(f"t-{name}", 4), {name: [0b1111]})

    found = invoice(world.submit(task("whole", 8)))

    assert found.gains[0].earlier_s is None
    assert found.saved == 8 * 24


def test_one_plan_may_let_several_start() -> None:
    world = cluster("a=8 b=8 c=8 d=8", policy=PLAIN)
    for name in "abcd":
        world.adopt(timed(task(f"t-{name}", 4), 6.0), {name: [0b1111]})

    found = invoice(world.submit(task("one", 8), task("two", 8), task("three", 8)))

    assert [gain.workload for gain in found.gains] == ["one", "two"]
    assert len(found.moves) == 2
    assert found.gfr_after == 0.0


def test_a_gang_moves_whole() -> None:
    world = cluster("r1: a=8 b=8 | r2: c=8 d=8", policy=PLAIN)
    pair = timed(gang("pair", tasks=2, gpus=4, level="rack"), 6.0)
    world.adopt(pair, {"a": [0b1111], "b": [0b1111]})
    world.adopt(timed(task("t", 4), 9.0), {"c": [0b1111]})

    found = invoice(world.submit(gang("rack", tasks=2, gpus=8, level="rack")))

    assert [gain.workload for gain in found.gains] == ["rack"]
    for move in found.moves:
        rows = [n for p in move.placements for n in p.nodes]
        assert len({"ab".count(n) for n in rows}) == 1  # all of it in one rack
        assert len(rows) == len(next(p for p in move.placements).tasks)


def test_elastic_work_moves_with_all_that_it_has() -> None:
    world = cluster("a=8 b=8 c=8", policy=PLAIN)
    elastic = timed(gang("e", tasks=1, most=3, gpus=1), 6.0)
    world.adopt(elastic, {"a": [0b1, 0b10, 0b100]})
    world.adopt(replace(timed(task("t", 4), 6.0), preemptible=False), {"b": [0b1111]})
    world.adopt(replace(timed(task("u", 8), 6.0), preemptible=False), {"c": [0xFF]})

    found = invoice(world.submit(task("whole", 8)))

    assert [(m.workload, p.tasks, p.nodes) for m in found.moves for p in m.placements] == [
        ("e", (0, 1, 2), ("b", "b", "b"))
    ]


def test_moves_keep_to_the_flavor_that_is_charged() -> None:
    world = cluster("a=8 b=8 c=8", on("c", model="A100"), policy=PLAIN)
    world.adopt(timed(task("t-a", 4), 6.0), {"a": [0b1111]})
    world.adopt(timed(task("t-b", 6), 6.0), {"b": [0b111111]})
    wanted = task("whole", 8, models=["H100"])

    assert world.submit(wanted).engine.defragmentation(HOUR) is None


def two_kinds(text: str, work: Workload, *groups: str) -> World:
    """Return tasks on a H100 node and an A100 node, and one that wants all of the H100 node."""
    quotas = (Quota(GPU, "H100", quota=8000), Quota(GPU, "A100", quota=2000))
    world = cluster(text, on("b", model="A100"), policy=PLAIN)
    world.see(QueuesChanged((Queue("default", quotas=quotas),)))
    numbers = [groups[:n].count(name) for n, name in enumerate(groups)]
    there = zip(groups, numbers, "ab", strict=True)
    places = tuple(Placement(name, (number,), (at,), (0b11,)) for name, number, at in there)
    world.see(Adopted(timed(work, 6.0), places))
    return world.submit(task("whole", 4, models=["H100"]))


def test_a_group_moves_to_the_kind_of_nodes_that_it_was_on() -> None:
    """There is more room on the A100 node, but not the quota for it."""
    halves = [group(name, gpus=2) for name in ("one", "two")]
    world = two_kinds("a=4 b=8 c=2", workload("pair", *halves), "one", "two")
    world.adopt(replace(task("t", 2), preemptible=False), {"b": [0b1100]})

    assert moved(invoice(world)) == {"pair": ("c", "b")}

    world.see(PolicyChanged(AUTOMATIC))
    plan = world.cycle(HOUR)
    kept = {d.workload: d.placements for d in plan.decisions if isinstance(d, Reserve)}
    assert [each.nodes for each in kept["pair"]] == [("c",), ("b",)]
    assert world.engine.books.charged("default")["A100", GPU] == 2000 + 2000


def test_no_group_moves_from_nodes_of_two_kinds_to_one_of_them() -> None:
    """There is room on the A100 node, but not the quota for twice as many of those."""
    world = two_kinds("a=4 b=4", gang("pair", tasks=2, gpus=2), "main", "main")

    assert world.engine.defragmentation(HOUR) is None


def test_a_plan_has_no_more_moves_than_it_may() -> None:
    few = Policy(eviction=CALM, defragmentation=Defragmentation(moves=1))
    world = cluster("a=4 b=4 c=4 d=4", policy=few)
    for name in "abcd":
        world.adopt(timed(task(f"t-{name}", 1), 6.0), {name: [0b1]})
    world.submit(gang("two", tasks=2, gpus=4))

    found = invoice(world)
    assert (len(found.moves), found.gains) == (1, ())
    world.see(PolicyChanged(replace(few, defragmentation=Defragmentation(moves=2))))
    found = invoice(world)
    assert (len(found.moves), len(found.gains)) == (2, 1)


def test_who_has_no_quota_left_is_not_helped() -> None:
    queues = (Queue("default"), Queue("small", quotas=(Quota(GPU, limit=4000),)))
    topology, nodes = picture("a=8 b=8")
    world = World(Engine(topology, queues=queues)).join(*nodes)
    for name in "ab":
        world.adopt(replace(timed(task(f"t-{name}", 4), 6.0), preemptible=True), {name: [0b1111]})
    world.submit(task("whole", 8, queue="small"))
    found = world.engine.defragmentation(HOUR)

    assert found is None or found.gains == ()


def test_a_strict_queue_helps_its_head_alone() -> None:
    queues = (Queue("default"), Queue("strict", order="strict"))
    topology, nodes = picture("a=8 b=8")
    world = World(Engine(topology, queues=queues)).join(*nodes)
    for name in "ab":
        world.adopt(timed(task(f"t-{name}", 3), 6.0), {name: [0b111]})
    head = gang("head", tasks=2, gpus=6, queue="strict", submitted_at=1.0)
    world.submit(head, task("behind", 8, queue="strict", submitted_at=2.0))
    found = world.engine.defragmentation(HOUR)

    assert found is None or found.gains == ()


def in_line(*queues: Queue, behind: Sequence[str] = ("t",), policy: Policy = PLAIN) -> World:
    """Return two nodes with five free devices each; a gang of 2 x 6 waits before whole nodes."""
    topology, nodes = picture("a=8 b=8")
    world = World(Engine(topology, policy, queues=queues)).join(*nodes)
    for name in "ab":
        world.adopt(timed(task(f"r-{name}", 3, queue="t"), 6.0), {name: [0b111]})
    world.submit(gang("head", tasks=2, gpus=6, queue="t", submitted_at=1.0))
    for i, queue in enumerate(behind):
        world.submit(task(f"behind-{i}", 8, queue=queue, submitted_at=2.0 + i))
    return world


@pytest.mark.parametrize(
    ("queues", "behind"),
    [
        ((Queue("org", order="strict"), Queue("t", "org")), "t"),
        (
            (
                Queue("org", order="strict"),
                Queue("t", "org", local=True),
                Queue("u", "org", local=True),
            ),
            "u",
        ),
        ((Queue("t", bypass_limit=0),), "t"),
    ],
    ids=["the queue above is strict", "two local queues stand in one line", "nobody may pass"],
)
def test_nobody_is_helped_past_one_who_may_not_be_passed(
    queues: tuple[Queue, ...], behind: str
) -> None:
    world = in_line(*queues, behind=[behind])
    found = world.engine.defragmentation(HOUR)

    assert found is None or found.gains == ()


def test_whoever_is_not_in_a_strict_line_is_helped_all_the_same() -> None:
    world = in_line(Queue("org", order="strict"), Queue("t", "org"), Queue("u"), behind=["u"])

    assert [gain.workload for gain in invoice(world).gains] == ["behind-0"]


def test_a_head_that_can_never_start_keeps_nobody_from_being_helped() -> None:
    world = in_line(Queue("t", order="strict"))
    world.edit(gang("head", tasks=2, gpus=9, queue="t", submitted_at=1.0))

    assert [gain.workload for gain in invoice(world).gains] == ["behind-0"]


def test_who_is_helped_past_others_has_passed_them() -> None:
    """One may start before the head. Three nodes can be emptied, and only one is."""
    topology, nodes = picture("a=8 b=8 c=8 d=8")
    queues = (Queue("t", bypass_limit=1),)
    world = World(Engine(topology, AUTOMATIC, queues=queues)).join(*nodes)
    for name in "abcd":
        world.adopt(timed(task(f"r-{name}", 2, queue="t"), 6.0), {name: [0b11]})
    world.submit(gang("head", tasks=4, gpus=7, queue="t", submitted_at=1.0))
    for i in range(3):
        world.submit(task(f"behind-{i}", 8, queue="t", submitted_at=2.0 + i))
    assert [gain.workload for gain in invoice(world).gains] == ["behind-0"]

    confirm(world, world.cycle(HOUR))
    confirm(world, world.cycle(HOUR + 30))

    assert world.engine.entries()["head"].past.bypassed == 1
    assert invoice(world, 2 * HOUR).gains == ()


def test_helped_first_is_who_would_be_served_first() -> None:
    """A guest came first, but what can be made free is within the quota of another."""
    topology, nodes = picture("a=8 b=8")
    queues = (Queue("own", quotas=(Quota(GPU, quota=16_000),)), Queue("guest"))
    world = World(Engine(topology, AUTOMATIC, queues=queues)).join(*nodes)
    for name in "ab":
        world.adopt(timed(task(f"r-{name}", 4, queue="own"), 6.0), {name: [0b1111]})
    world.submit(task("a-guest", 8, queue="guest", submitted_at=1.0))
    world.submit(task("mine", 8, queue="own", submitted_at=2.0))
    for later in range(0, 6000, 1000):
        confirm(world, world.cycle(HOUR + later))

    assert [e.cause for plan in world.plans for e in evicts(plan)] == ["move"]
    assert world.engine.waiting() == ["a-guest"]


def test_gaps_are_closed_where_nobody_waits() -> None:
    world = cluster("a=8 b=8 c=8", policy=PLAIN)
    for name, mask in (("a", 0b11), ("b", 0b1111), ("c", 0b1)):
        world.adopt(task(f"t-{name}", mask.bit_count()), {name: [mask]})

    found = invoice(world)

    assert found.gains == ()
    assert moved(found) == {"t-c": ("b",), "t-a": ("b",)}
    assert all(move.beneficiary == "" for move in found.moves)
    assert (found.ratio, found.gfr_before) == (0.0, 1.0)
    assert found.gfr_after == pytest.approx(1 / 3)


def test_no_move_that_closes_no_gap() -> None:
    world = cluster("a=8 b=8", policy=PLAIN)
    for name in "ab":
        world.adopt(task(f"t-{name}", 5), {name: [0b11111]})

    assert world.engine.defragmentation(HOUR) is None


def test_shares_are_packed_together() -> None:
    world = cluster("a=1 b=1", policy=PLAIN)
    for name in "ab":
        world.adopt(share(f"s-{name}", 400), {name: [0b1]})

    found = invoice(world)

    assert len(found.moves) == 1
    assert found.gfr_after == 0.5


def test_promised_room_stays_as_it_was() -> None:
    """A share on a device of its own would break the promise, so it stays with the other."""
    queues = (Queue("default"), Queue("serving"))
    policy = Policy(eviction=CALM, headroom=(Headroom("serving", 8, 60.0),))
    topology, nodes = picture("a=8 b=8")
    world = World(Engine(topology, policy, queues=queues)).join(*nodes)
    for name in "ab":
        world.adopt(timed(task(f"t-{name}", 4), 6.0), {name: [0b1111]})
    found = world.submit(task("whole", 8)).engine.defragmentation(HOUR)

    assert found is None or found.gains == ()


def test_guests_on_promised_room_are_not_moved() -> None:
    """They would not be guests any more: a mark is given only at a start."""
    queues = (Queue("default"), Queue("serving"))
    policy = Policy(eviction=CALM, headroom=(Headroom("serving", 8, 60.0),))
    topology, nodes = picture("a=4 b=4")
    world = World(Engine(topology, policy, queues=queues)).join(*nodes)
    world.run(task("one", 2)).run(task("more", 2)).run(task("two", 2)).end("more")
    assert used(world) == "a=2/4 b=2/4"

    assert world.engine.defragmentation(HOUR) is None
    world.see(PolicyChanged(PLAIN))
    assert invoice(world).gfr_after == 0.0


# -- by itself ------------------------------------------------------------------------------


def test_moves_are_carried_out_with_all_places_kept() -> None:
    world = halves(AUTOMATIC)

    plan = world.cycle(HOUR)

    (evict,) = evicts(plan)
    assert (evict.cause, evict.beneficiary) == ("move", "whole")
    kept = [d.workload for d in plan.decisions if isinstance(d, Reserve)]
    assert kept == ["whole", evict.workload]
    assert reasons(world, "whole") == (Leaving((evict.workload,)),)
    assert reasons(world, evict.workload) == (Moving(),)
    confirm(world, plan)
    after = world.cycle(HOUR + 30)
    assert {d.workload for d in after.decisions} == {"whole", evict.workload}
    assert all(isinstance(d, Bind) for d in after.decisions)
    confirm(world, after)
    assert fragmentation(world) == pytest.approx(1 / 3)
    world.settles()


def test_who_has_room_on_its_way_does_not_start_twice() -> None:
    world = halves(AUTOMATIC)
    plan = world.cycle(HOUR)
    (evict,) = evicts(plan)
    (held,) = [d for d in plan.decisions if isinstance(d, Reserve) and d.workload == evict.workload]
    target = held.placements[0].nodes[0]
    free = next(n for n in "abc" if n not in (target, evict.workload[-1]))

    assert world.end(f"t-{free}").cycle(HOUR + 10).decisions == ()  # a whole node is free
    confirm(world, plan)

    after = world.cycle(HOUR + 30)
    assert sorted(bind.workload for bind in binds(after)) == sorted(["whole", evict.workload])


def test_a_gang_of_which_a_task_is_done_comes_back_once() -> None:
    """Its place is kept: nobody looks for another one for what it misses."""
    world = cluster("a=8 b=8 c=8", policy=AUTOMATIC)
    world.adopt(timed(gang("pair", tasks=2, gpus=4), 6.0), {"a": [0b1111, 0b11110000]})
    for name in "bc":
        fixed = replace(timed(task(f"t-{name}", 4), 6.0), preemptible=False)
        world.adopt(fixed, {name: [0b1111]})
    world.tasks("pair", TaskState.FINISHED, 0).submit(task("whole", 8))
    (evict,) = evicts(world.cycle(HOUR))

    world.tasks(evict.workload, TaskState.PENDING, 1)

    spots = [spot for bind in binds(world.cycle(HOUR + 30)) for spot in bind.spots]
    assert sorted(spots) == [("pair", "main", 1), ("whole", "main", 0)]


def test_who_is_done_on_its_way_out_does_not_start_again() -> None:
    world = halves(AUTOMATIC)
    (evict,) = evicts(world.cycle(HOUR))

    world.tasks(evict.workload, TaskState.FINISHED)

    assert evict.workload not in world.engine.desk.holds
    assert [bind.workload for bind in binds(world.cycle(HOUR + 30))] == ["whole"]
    assert evict.workload not in world.engine.waiting()


def test_nobody_takes_a_place_before_it_is_free() -> None:
    """One moves to where another is still leaving."""
    world = cluster("a=8 b=8 c=8", policy=AUTOMATIC)
    for name, mask in (("a", 0b11), ("c", 0b11111)):
        fixed = replace(task(f"f-{name}", mask.bit_count()), preemptible=False)
        world.adopt(fixed, {name: [mask]})
    world.adopt(timed(task("v", 2), 60.0), {"a": [0b1100]})
    world.adopt(timed(task("u", 3), 60.0), {"b": [0b111]})
    plan = world.submit(gang("wide", tasks=2, gpus=6)).cycle(HOUR)
    to = {d.workload: d.placements[0].nodes for d in plan.decisions if isinstance(d, Reserve)}
    assert (to["u"], to["v"]) == (("c",), ("b",))

    world.tasks("v", TaskState.PENDING)
    assert world.cycle(HOUR + 10).decisions == ()
    world.tasks("u", TaskState.PENDING)
    assert {bind.workload for bind in binds(world.cycle(HOUR + 20))} == {"wide", "u", "v"}


def test_one_that_is_moved_keeps_its_place_in_the_line_of_all_who_run() -> None:
    world = halves(AUTOMATIC)
    plan = world.cycle(HOUR)
    confirm(world, plan)
    confirm(world, world.cycle(HOUR + 30))

    entry = world.engine.entries()[evicts(plan)[0].workload]

    assert entry.started_at == 0.0
    assert entry.running_since == HOUR + 30


@pytest.mark.parametrize(
    ("rules", "moves"),
    [
        (Defragmentation(automatic=True, ratio=2.0, budget=8.0), True),
        (Defragmentation(automatic=True, ratio=10.0, budget=8.0), False),
        (Defragmentation(automatic=True, ratio=2.0, budget=4.0), False),
        (Defragmentation(automatic=True, ratio=2.0, budget=8.0, moves=0), False),
        (Defragmentation(automatic=False), False),
    ],
    ids=["pays", "ratio too low", "over budget", "no moves", "not automatic"],
)
def test_nothing_is_moved_that_does_not_pay(rules: Defragmentation, moves: bool) -> None:
    world = halves(Policy(eviction=CALM, defragmentation=rules))

    assert bool(world.cycle(HOUR).decisions) == moves


def test_the_budget_is_for_a_day_and_outlives_a_restart() -> None:
    rules = Defragmentation(automatic=True, ratio=2.0, budget=5.0)
    world = halves(Policy(eviction=CALM, defragmentation=rules), hours=100.0)
    confirm(world, world.cycle(HOUR))
    confirm(world, world.cycle(HOUR + 30))
    moment = world.engine.snapshot(HOUR + 60)
    assert [(at, round(lost, 2)) for at, lost in moment.memory.defragmented] == [(HOUR, 4.07)]

    again = World(Engine(moment.topology, moment.policy, moment.memory, moment.queues))
    again.see(*moment.events()).end("whole")
    empty = evicts(world.plans[0])[0].workload.removeprefix("t-")
    again.adopt(replace(timed(task("v", 2), 100.0), checkpoint_at=23 * HOUR), {empty: [0b11]})
    again.submit(task("second", 8))
    early = again.cycle(24 * HOUR)

    assert early.decisions == ()  # an hour of two GPUs is more than is left
    assert early.wake_at == 25 * HOUR
    assert [e.workload for e in evicts(again.cycle(25 * HOUR))] == ["v"]


def test_a_move_goes_on_after_a_restart() -> None:
    world = halves(AUTOMATIC)
    plan = world.cycle(HOUR)
    (evict,) = evicts(plan)
    moment = world.engine.snapshot(HOUR)

    again = World(Engine(moment.topology, moment.policy, moment.memory, moment.queues))
    again.see(*moment.events())
    assert again.cycle(HOUR + 10).decisions == ()
    again.tasks(evict.workload, TaskState.PENDING)
    after = again.cycle(HOUR + 30)

    kept = {d.workload: d.placements for d in plan.decisions if isinstance(d, Reserve)}
    assert {d.workload: (d.placement,) for d in binds(after)} == kept


def test_gaps_are_closed_by_itself_only_where_no_benefit_is_asked_for() -> None:
    for policy, moves in ((AUTOMATIC, False), (TIDY, True)):
        world = cluster("a=8 b=8", policy=policy)
        for name in "ab":
            world.adopt(task(f"t-{name}", 4), {name: [0b1111]})

        plan = world.cycle(HOUR)

        assert [e.cause for e in evicts(plan)] == ["defragment"] * moves
        assert all(e.beneficiary == "" for e in evicts(plan))


def test_it_wakes_when_somebody_may_be_moved() -> None:
    world = halves(AUTOMATIC)

    plan = world.cycle(60.0)

    assert plan.decisions == ()
    assert plan.wake_at == 1800.0
    assert evicts(world.cycle(1800.0)) != []


def test_it_comes_to_rest_when_there_is_nothing_to_gain() -> None:
    world = cluster("a=8 b=8", policy=TIDY)
    for name in "ab":
        world.adopt(task(f"t-{name}", 5), {name: [0b11111]})

    assert world.cycle(HOUR).wake_at is None
    world.settles()


def test_a_fork_spends_its_own_budget() -> None:
    world = halves(AUTOMATIC)
    fork = World(world.engine.fork())

    assert evicts(fork.cycle(HOUR)) == evicts(world.cycle(HOUR)) != []
    assert fork.engine.memory().defragmented == world.engine.memory().defragmented


# -- who starts when at the latest ----------------------------------------------------------


def booked(order: str, policy: Policy, hours: float = 6.0) -> World:
    """Return two nodes with half of their devices in use, both of which are wanted.

    `fixed` ends after six hours, and `t` after so many.
    """
    topology, nodes = picture("a=8 b=8")
    queues = (Queue("timed", order=order), Queue("other"))
    world = World(Engine(topology, policy, queues=queues)).join(*nodes)
    fixed = replace(timed(task("fixed", 4, queue="other"), 6.0), preemptible=False)
    world.adopt(fixed, {"a": [0b1111]})
    world.adopt(timed(task("t", 4, queue="other"), hours), {"b": [0b1111]})
    world.submit(timed(gang("wide", tasks=2, gpus=8, queue="timed"), 1.0)).cycle(60.0)
    assert reasons(world, "wide")[-1] == Reserved(6 * HOUR, 2)
    return world


def latest(world: World, plan: Plan) -> list[object]:
    """Return when `wide` starts at the latest, while a plan comes true."""
    found = [reasons(world, "wide")[-1]]
    world.cycle(world.now + 5)
    found.append(reasons(world, "wide")[-1])
    after = world.confirm(plan).cycle(world.now + 5)
    found.append(reasons(world, "wide")[-1])
    world.confirm(after).cycle(world.now + 5)
    return [*found, reasons(world, "wide")[-1]]


@pytest.mark.parametrize("order", ["easy", "conservative"])
@pytest.mark.parametrize(("hours", "moves"), [(6.0, []), (4.99, []), (4.9, ["t"])])
def test_no_gap_is_closed_if_a_latest_start_would_be_later(
    order: str, hours: float, moves: list[str]
) -> None:
    """`t` is moved after an hour if it is done in time even if it takes its time to leave."""
    world = booked(order, TIDY, hours)

    plan = world.cycle(HOUR)

    assert [evict.workload for evict in evicts(plan)] == moves
    assert latest(world, plan) == [Reserved(6 * HOUR, 2)] * 4


@pytest.mark.parametrize("order", ["easy", "conservative"])
@pytest.mark.parametrize(
    ("moved", "started", "moves"), [(4.0, 4.0, ["t"]), (4.0, 5.0, []), (6.0, 4.0, [])]
)
def test_nobody_is_helped_if_a_latest_start_would_be_later(
    order: str, moved: float, started: float, moves: list[str]
) -> None:
    """Neither who is moved nor who starts by that may be in the way of `wide`."""
    world = booked(order, AUTOMATIC, moved)
    world.submit(timed(task("whole", 8, queue="other", submitted_at=60.0), started))

    plan = world.cycle(HOUR)

    assert [evict.workload for evict in evicts(plan)] == moves
    assert latest(world, plan) == [Reserved(6 * HOUR, 2)] * 4


@pytest.mark.parametrize("order", ["easy", "conservative"])
def test_who_is_kept_back_does_not_start_by_a_plan_without_moves(order: str) -> None:
    world = booked(order, AUTOMATIC)
    world.submit(timed(task("long", 4, queue="other", submitted_at=60.0), 7.0))

    assert world.cycle(HOUR).decisions == ()
    assert reasons(world, "long") == (Delays("wide"),)
    assert world.engine.defragmentation(HOUR) is None


@pytest.mark.parametrize("order", ["easy", "conservative"])
@pytest.mark.parametrize(("now", "helped"), [(HOUR, ["whole"]), (6 * HOUR - 100, [])])
def test_whose_own_start_is_booked_starts_by_moves_if_that_is_earlier(
    order: str, now: float, helped: list[str]
) -> None:
    """Who leaves may take two minutes."""
    topology, nodes = picture("a=8 b=8")
    world = World(Engine(topology, TIDY, queues=(Queue("timed", order=order),))).join(*nodes)
    world.submit(task("whole", 8, queue="timed"))
    for name in "ab":
        world.adopt(timed(task(f"t-{name}", 4, queue="timed"), 6.0), {name: [0b1111]})
    world.cycle(60.0)
    assert reasons(world, "whole")[-1] == Reserved(6 * HOUR, 1)

    plan = world.cycle(now)

    assert [evict.beneficiary for evict in evicts(plan)] == helped
    assert helped or reasons(world, "whole")[-1] == Reserved(6 * HOUR, 1)


def test_who_was_moved_is_expected_to_run_as_long_as_ever_from_its_new_start() -> None:
    """Its place in the line of all who run is that of its first start; its end is not."""
    topology, nodes = picture("a=8 b=8")
    world = World(Engine(topology, TIDY, queues=(Queue("timed", order="easy"),))).join(*nodes)
    for name in "ab":
        world.adopt(timed(task(f"t-{name}", 4, queue="timed"), 6.0), {name: [0b1111]})
    plan = world.cycle(HOUR)
    (evict,) = evicts(plan)
    after = world.confirm(plan).cycle(HOUR + 30)
    assert [bind.workload for bind in binds(after)] == [evict.workload]

    world.submit(gang("wide", tasks=2, gpus=8, queue="timed")).cycle(HOUR + 30)
    assert reasons(world, "wide")[-1] == Reserved(7 * HOUR + 30, 2)
    world.confirm(after).cycle(HOUR + 40)
    assert reasons(world, "wide")[-1] == Reserved(7 * HOUR + 30, 2)


# -- it keeps its word ----------------------------------------------------------------------


def simulate(policy: Policy) -> tuple[dict[str, float], dict[str, float], list[Invoice]]:
    """Run a fragmented cluster to its end; return starts, ends, and what was invoiced."""
    topology, nodes = picture("a=8 b=8 c=8 d=8")
    engine = Engine(topology, policy)
    starts: dict[str, float] = {}
    ends: dict[str, float] = {}
    invoices: list[Invoice] = []

    def listen(now: float, events: object, plan: Plan) -> None:
        for decision in plan.decisions:
            if isinstance(decision, Bind):
                starts.setdefault(decision.workload, now)
        for name in [name for name in starts if name not in ends]:
            if name not in engine.entries():
                ends[name] = now

    def run_time(work: Workload) -> float | None:
        return work.estimate_s

    loop = Loop(engine, run_time, [listen], grace_s=policy.eviction.leave_s)
    for node in nodes:
        loop.at(0.0, NodeJoined(node))
    for i, name in enumerate("abcd"):
        work = timed(task(f"t-{name}", 4), 5.0 + i)
        placement = Placement("main", (0,), (name,), (0b1111,))
        loop.at(0.0, Adopted(work, (placement,)))
        starts[work.name] = 0.0
    loop.run(HOUR - 1)
    loop.at(HOUR, Submitted(replace(timed(gang("wide", tasks=2, gpus=8), 2.0), submitted_at=HOUR)))
    if policy.defragmentation.automatic:
        probe = engine.fork()
        probe.observe(Submitted(replace(timed(gang("wide", tasks=2, gpus=8), 2.0))))
        probe.observe(PolicyChanged(replace(policy, defragmentation=Defragmentation())))
        found = probe.defragmentation(HOUR)
        assert found is not None
        invoices.append(found)
    loop.run()
    return starts, ends, invoices


def test_a_defragmentation_brings_what_its_invoice_says() -> None:
    """The same day with and without: who starts earlier, by how much, and what it costs."""
    starts, ends, _ = simulate(PLAIN)
    earlier, later, (found,) = simulate(AUTOMATIC)

    (gain,) = found.gains
    assert gain.workload == "wide"
    assert gain.earlier_s == pytest.approx(starts["wide"] - earlier["wide"])
    # what is moved begins again: it ends later by what it had run, and by the time it left in
    lost = sum(4 * (later[move.workload] - ends[move.workload]) for move in found.moves) / HOUR
    leaving = sum(4 * 30.0 for _ in found.moves) / HOUR
    restarts = sum(4 * 60.0 for _ in found.moves) / HOUR
    assert lost - leaving == pytest.approx(found.cost - restarts)
    assert found.ratio is not None
    assert found.ratio > 1.0
    others = [name for name in starts if name not in {m.workload for m in found.moves}]
    assert all(later[name] <= ends[name] for name in others)


WORK = st.tuples(st.integers(1, 4), st.sampled_from("abcd"), st.booleans())


@given(
    st.lists(WORK, max_size=8),
    st.lists(st.tuples(st.integers(1, 2), st.sampled_from([2, 3, 4])), max_size=3),
)
def test_every_move_helps_and_it_comes_to_rest(
    running: list[tuple[int, str, bool]], waiting: list[tuple[int, int]]
) -> None:
    """Whatever runs: evictions have a reason, everybody runs again, gaps never become more."""
    world = cluster("a=4 b=4 c=4 d=4", policy=TIDY)
    free = dict.fromkeys("abcd", 0)
    for number, (count, name, preemptible) in enumerate(running):
        if free[name] + count <= 4:
            mask = (1 << count) - 1 << free[name]
            free[name] += count
            work = replace(task(f"r{number}", count), preemptible=preemptible)
            world.adopt(timed(work, 12.0), {name: [mask]})
    for number, (tasks, gpus) in enumerate(waiting):
        world.submit(gang(f"w{number}", tasks=tasks, gpus=gpus))
    world.now = HOUR
    began = set(world.engine.running())
    for _ in range(30):
        found = world.engine.defragmentation(world.now + 300.0)
        runs = set(world.engine.running())
        plan = world.cycle(world.now + 300.0)
        for evict in evicts(plan):
            assert evict.cause == ("move" if evict.beneficiary else "defragment")
        confirm(world, plan)
        if evicts(plan):
            assert found is not None
            confirm(world, world.cycle(world.now + 1.0))
            assert runs <= set(world.engine.running())
            assert {e.workload for e in evicts(plan)} == set(moved(found))
            assert fragmentation(world) == pytest.approx(found.gfr_after)
            assert found.gains or found.gfr_after < found.gfr_before
        if not plan.decisions:
            break
    else:
        raise AssertionError(f"no rest: {used(world)}")
    assert began <= set(world.engine.running())
    world.settles()


def test_nobody_is_moved_for_one_whose_minimum_is_nothing() -> None:
    """It waits only to grow, and has all that it must have."""
    policy = Policy(eviction=CALM, defragmentation=Defragmentation(automatic=True, ratio=0.1))
    world = cluster("a=1", policy=policy)
    world.run(task("busy", 1), now=0.0)

    world.submit(gang("empty", tasks=0, most=1)).cycle(1.0)

    assert world.cycle(4000.0).decisions == ()


def test_a_node_that_has_left_has_nothing_free() -> None:
    """Its row stays for a while: that must not be seen in what is looked for."""
    world = cluster("a=8 b=8").leave("b")
    world.cycle(0.0)

    alone = cluster("a=8")
    alone.cycle(0.0)
    assert free_of(world.engine.desk).tolist() == free_of(alone.engine.desk).tolist()
