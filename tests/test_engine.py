"""The engine over time: binds and their answers, nodes that come and go, edits, reasons, copies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.engine import Engine, EventError
from mooring.model.events import (
    Adopted,
    BindRefused,
    Ended,
    Event,
    NodeChanged,
    NodeLeft,
    PolicyChanged,
    QueuesChanged,
    Submitted,
    TasksChanged,
    WorkloadChanged,
)
from mooring.model.plan import Behind, Excluded, Impossible, NoRoom, NotTogether, Plan, Unknown
from mooring.model.queues import EvictionRules, Queue, Quota
from mooring.model.settings import Policy
from mooring.model.workload import Placement, TaskState, TaskTerm, Workload
from tests.build import (
    QUEUES,
    World,
    by_group,
    by_workload,
    cluster,
    decided,
    devices,
    evicts,
    gang,
    gpus,
    group,
    node,
    nodes,
    on,
    ranks,
    reasons,
    service,
    share,
    task,
    told_about,
    used,
    within,
    workload,
)

BOUND, RUNNING, RELEASING = TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING
PENDING, FINISHED, FAILED = TaskState.PENDING, TaskState.FINISHED, TaskState.FAILED


def states(world: World, name: str, group: str = "main") -> list[TaskState]:
    """Return the states of the tasks of a group."""
    return [TaskState(s) for s in world.engine.entries()[name].members[group].states]


# -- assume, confirm, forget ----------------------------------------------------------------


def test_assumed_work_is_booked_at_once() -> None:
    """The engine does not wait for the world before it counts what it decided."""
    world = cluster("a=8").submit(task("t", 8), task("u", 8))

    assert by_workload(world.cycle()) == {"t": ["a"]}
    assert used(world) == "a=8/8"
    assert states(world, "t") == [TaskState.ASSUMED]
    world.settles()


def test_confirmed_work_goes_through_its_states_and_changes_no_books() -> None:
    world = cluster("a=8").submit(gang("g", tasks=2))
    world.cycle()

    for state in (BOUND, RUNNING):
        world.tasks("g", state)
        assert states(world, "g") == [state, state]
        assert used(world) == "a=2/8"
    world.settles()


def test_task_may_be_seen_running_before_it_was_seen_bound() -> None:
    world = cluster("a=8").submit(task("t"))
    world.cycle()

    assert states(world.tasks("t", RUNNING), "t") == [RUNNING]


def test_forgotten_bind_is_free_again_and_tried_elsewhere() -> None:
    """The node that refused is not asked again."""
    world = cluster("a=8 b=8").submit(task("t"))
    (first,) = nodes(world.cycle())

    plan = world.refuse("t", 0).cycle()

    assert nodes(plan) == {"a", "b"} - {first}
    assert used(world).count("=1/8") == 1
    world.settles()


def test_bind_refused_everywhere_waits_and_says_so() -> None:
    world = cluster("a=8").submit(task("t"))
    world.cycle()

    plan = world.refuse("t", 0).cycle()

    assert plan.decisions == ()
    assert Excluded("main", "refused", 1) in reasons(world, "t")
    world.settles()


def test_node_that_changes_may_be_tried_again_after_a_refusal() -> None:
    world = cluster("a=8").submit(task("t"))
    world.cycle()
    world.refuse("t", 0).cycle()

    assert nodes(world.change("a", labels={"fixed": "yes"}).cycle()) == {"a"}
    world.settles()


def test_finished_tasks_free_their_room_and_do_not_come_back() -> None:
    world = cluster("a=2").run(gang("g", tasks=2)).submit(task("t"))
    assert world.cycle().decisions == ()

    plan = world.tasks("g", FINISHED, 0).cycle()

    assert by_workload(plan) == {"t": ["a"]}
    world.settles()


def test_last_task_failing_after_others_finished_is_run_again_alone() -> None:
    world = cluster("a=2").run(gang("g", tasks=2))

    plan = world.tasks("g", FINISHED, 0).tasks("g", FAILED, 1).cycle()

    assert decided(plan) == [("bind", "g", (1,))]
    world.settles()


def test_workload_whose_tasks_all_finished_does_not_start_again() -> None:
    world = cluster("a=2").run(gang("g", tasks=2)).tasks("g", FINISHED)

    world.edit(gang("g", tasks=2, priority=5))

    assert world.cycle().decisions == ()
    assert used(world) == "a=0/2"
    world.settles()


def test_ended_workload_frees_everything_at_once() -> None:
    world = cluster("a=8").run(gang("g", tasks=4)).submit(task("t", 8)).end("g")

    assert by_workload(world.cycle()) == {"t": ["a"]}
    world.settles()


def test_releasing_room_is_not_given_before_it_is_free() -> None:
    world = cluster("a=8").run(task("t", 8)).tasks("t", RELEASING).submit(task("u", 8))
    assert world.cycle().decisions == ()

    world.end("t")

    assert by_workload(world.cycle()) == {"u": ["a"]}
    world.settles()


def test_refused_eviction_makes_a_task_run_again() -> None:
    world = cluster("a=8").run(task("t", 8)).tasks("t", RELEASING).tasks("t", RUNNING)

    assert states(world, "t") == [RUNNING]
    assert int(world.engine.books.releasing.sum()) == 0
    world.settles()


# -- gangs that lose tasks ------------------------------------------------------------------


def test_refused_member_is_replaced_in_the_same_domain() -> None:
    """Rack r2 is as good for one task, but its siblings are in r1."""
    world = cluster("r1: a=2 b=2 c=2 | r2: d=2 e=2 f=2 h=2")
    before = ranks(world.submit(gang("g", tasks=4, level="rack")).cycle())
    assert before == ["a", "a", "b", "b"]

    plan = world.refuse("g", 3).cycle()

    assert decided(plan) == [("bind", "g", (3,))]
    assert nodes(plan) == {"c"}
    world.settles()


def test_refused_member_goes_to_a_neighbour_even_if_nothing_is_required() -> None:
    world = cluster("r1: a=2 b=2 c=2 | r2: d=1").submit(gang("g", tasks=4))
    assert nodes(world.cycle()) == {"a", "b"}

    assert nodes(world.refuse("g", 0).cycle()) == {"c"}
    world.settles()


def test_refused_member_of_one_group_stays_in_the_rack_of_its_group() -> None:
    """Each group has a rack of its own; what is missing joins its own group."""
    world = cluster("r1: a=2 b=1 | r2: c=2").submit(
        workload("w", group("x", tasks=2, level="rack"), group("y", tasks=2, level="rack"))
    )
    assert by_group(world.cycle()) == {"x": ["a", "a"], "y": ["c", "c"]}

    plan = world.refuse("w", 0, group="x").cycle()

    assert by_group(plan) == {"x": ["b"]}
    world.settles()


def test_refused_member_of_a_slice_rejoins_its_slice() -> None:
    """Pairs in racks: the missing one goes beside its other half."""
    world = cluster("r1: a=2 b=1 | r2: c=2 d=1").submit(
        gang("g", tasks=4, gpus=1, slices=[("rack", 2)])
    )
    assert ranks(world.cycle()) == ["a", "a", "c", "c"]

    plan = world.refuse("g", 2).cycle()

    assert decided(plan) == [("bind", "g", (2,))]
    assert nodes(plan) == {"d"}
    world.settles()


def test_gang_that_cannot_be_completed_is_undone_whole_after_its_grace() -> None:
    world = cluster("a=1 b=1").submit(gang("g", tasks=2))
    world.cycle(0.0)
    world.refuse("g", 1)

    plan = world.cycle(10.0)
    assert plan.decisions == ()
    assert plan.wake_at == 70.0
    assert world.cycle(69.0).decisions == ()

    plan = world.cycle(70.0)
    assert decided(plan) == [("evict", "g", (0,))]
    assert evicts(plan)[0].cause == "stale-gang"


def test_undone_gang_starts_again_with_its_old_place_in_line() -> None:
    """It was submitted before the other, and so it goes first again."""
    world = cluster("a=1 b=1").submit(gang("old", tasks=2))
    world.confirm(world.cycle(0.0))
    world.leave("b").cycle(1.0)
    world.submit(gang("new", tasks=2)).cycle(2.0)

    plan = world.cycle(61.0)
    assert decided(plan) == [("evict", "old", (0,))]
    world.confirm(plan).join(node("b", 1))

    assert decided(world.cycle(62.0)) == [("bind", "old", (0, 1))]
    world.settles()


def test_incomplete_gang_has_a_reason() -> None:
    """What keeps a gang from being complete is told like any other wait."""
    world = cluster("a=1 b=1").submit(gang("g", tasks=2))
    world.cycle()

    plan = world.refuse("g", 1).cycle()

    assert reasons(world, "g") != ()
    assert told_about(plan).keys() == {"g"}


def test_lost_node_replaces_its_tasks_beside_the_others() -> None:
    world = cluster("r1: a=2 b=2 c=2 | r2: d=2 e=2 f=2 h=2").run(gang("g", tasks=4, level="rack"))
    assert used(world).startswith("a=2/2 b=2/2 c=0/2")

    plan = world.leave("b").cycle()

    assert decided(plan) == [("bind", "g", (2, 3))]
    assert nodes(plan) == {"c"}
    world.settles()


def test_lost_node_requeues_a_workload_that_was_only_there() -> None:
    world = cluster("a=2 b=2").run(gang("g", tasks=2))
    first = used(world)

    plan = world.leave("a" if first.startswith("a=2") else "b").cycle()

    assert decided(plan) == [("bind", "g", (0, 1))]
    world.settles()


def test_gang_that_lost_a_node_for_good_is_evicted_with_that_cause() -> None:
    world = cluster("a=1 b=1").run(gang("g", tasks=2)).leave("b")
    world.cycle(0.0)

    plan = world.cycle(60.0)

    assert [(evict.workload, evict.cause) for evict in evicts(plan)] == [("g", "lost-node")]


def test_incomplete_gang_is_completed_before_others_get_the_room() -> None:
    fixed = replace(gang("g", tasks=2, priority=0), preemptible=False)
    world = cluster("a=1 b=1").run(fixed).leave("b")
    world.cycle(0.0)

    plan = world.join(node("c", 1)).submit(task("t", priority=9)).cycle(1.0)

    assert decided(plan) == [("bind", "g", (1,))]
    world.settles()


def test_failed_task_of_a_gang_is_run_again() -> None:
    world = cluster("a=2").run(gang("g", tasks=2)).tasks("g", FAILED, 0)

    assert decided(world.cycle()) == [("bind", "g", (0,))]
    world.settles()


def test_gang_whose_last_tasks_finish_while_it_is_incomplete_comes_back() -> None:
    """One task is missing and the other is done: the missing one can run anywhere."""
    world = cluster("a=1 b=1").run(gang("g", tasks=2)).leave("b")
    world.cycle(0.0)
    world.tasks("g", FINISHED, 0)

    assert decided(world.cycle(1.0)) == [("bind", "g", (1,))]
    world.settles()


def test_growth_never_starts_a_workload_that_lost_its_minimum() -> None:
    """It waited to grow when it lost its node: what waits now is its minimum, and only that."""
    world = cluster("a=2").run(gang("g", tasks=2, most=3))

    plan = world.leave("a").join(node("b", 1)).cycle()

    assert plan.decisions == ()
    assert decided(world.join(node("c", 2)).cycle()) == [("bind", "g", (0, 1)), ("bind", "g", (2,))]
    world.settles()


def test_two_gangs_undone_in_one_cycle_are_both_on_their_way_out() -> None:
    """What one gang's failed completion takes back is not the eviction of another."""
    world = cluster("a=1 b=1 c=1 d=1").run(gang("g", tasks=2), gang("h", tasks=2))
    world.leave("b", "d").cycle(0.0)

    plan = world.cycle(60.0)

    assert decided(plan) == [("evict", "g", (0,)), ("evict", "h", (0,))]
    assert int(world.engine.books.releasing.sum()) == 2
    world.confirm(plan).cycle(61.0)
    assert int(world.engine.books.releasing.sum()) == 0


# -- nodes ----------------------------------------------------------------------------------


def test_nodes_that_join_renumber_and_nothing_is_lost() -> None:
    """The rows move twice; what runs is still where it is, and ends cleanly."""
    world = cluster("r2: c=8").run(task("t", 3), gang("g", tasks=2, gpus=2))
    assert used(world) == "c=7/8"

    world.join(node("a", 8, "r1"), node("d", 16, "r2")).cycle()
    assert used(world) == "a=0/8 c=7/8 d=0/16"
    world.join(node("b", 4, "r1")).cycle()
    world.run(task("u", 16))

    assert used(world) == "a=0/8 b=0/4 c=7/8 d=16/16"
    world.end("g", "t").cycle()
    assert used(world) == "a=0/8 b=0/4 c=0/8 d=16/16"
    world.settles()


def test_wide_node_may_leave_and_a_narrow_one_join() -> None:
    world = cluster("a=8")
    world.cycle()
    world.leave("a").cycle()

    plan = world.join(node("b", 4)).submit(task("t", 4)).cycle()

    assert nodes(plan) == {"b"}
    world.settles()


def test_wide_node_in_use_may_leave_and_a_narrow_one_join() -> None:
    world = cluster("a=8 b=2").run(task("t", 8)).leave("a")

    world.join(node("c", 2)).cycle()

    assert used(world) == "b=0/2 c=0/2"
    assert reasons(world, "t")[0] == Impossible("main", "cluster", 1, 0)


def test_node_that_left_may_come_back() -> None:
    world = cluster("a=8").run(task("t", 8)).leave("a")
    assert world.cycle().decisions == ()

    assert nodes(world.join(node("a", 8)).cycle()) == {"a"}
    assert used(world) == "a=8/8"
    world.settles()


def test_node_that_moves_to_another_rack_takes_its_work_along() -> None:
    world = cluster("r1: a=8 | r2: b=8").run(gang("g", tasks=8, level="rack"))
    world.change("a", path=["r2"]).submit(gang("h", tasks=9, level="rack")).cycle()

    assert world.engine.books.tree.names[1] == ["r2"]
    assert reasons(world, "h")[0] == NoRoom("main", "rack", 9, 8)
    world.settles()


def test_node_that_shrinks_below_its_use_takes_nothing_until_it_is_free() -> None:
    world = cluster("a=8").run(task("t", 6)).change("a", devices=gpus(4))
    assert world.submit(task("u")).cycle().decisions == ()

    plan = world.end("t").cycle()

    assert nodes(plan) == {"a"}
    assert used(world) == "a=1/4"
    world.settles()


def test_node_whose_cpu_shrinks_below_its_use() -> None:
    world = cluster("a=8").run(task("t", 0, cpu=60_000)).change("a", cpu=1000)
    world.submit(task("u", 0, cpu=500))
    assert world.cycle().decisions == ()
    assert Excluded("main", "cpu", 1) in reasons(world, "u")

    assert nodes(world.end("t").cycle()) == {"a"}
    world.settles()


def test_node_that_becomes_unready_keeps_its_work_and_takes_no_more() -> None:
    world = cluster("a=8 b=8").run(task("t", 4))
    at = "a" if used(world).startswith("a=4") else "b"

    plan = world.change(at, ready=False).submit(gang("g", tasks=4)).cycle()

    assert nodes(plan) == {"a", "b"} - {at}
    assert states(world, "t") == [RUNNING]
    world.settles()


def test_node_with_a_new_resource_can_be_asked_for_it() -> None:
    world = cluster("a=8").submit(task("t", 0, extra={"rdma": 1}))
    world.cycle()
    assert Excluded("main", "rdma", 1) in reasons(world, "t")

    assert nodes(world.change("a", extra={"rdma": 2}).cycle()) == {"a"}
    world.settles()


def test_cluster_without_nodes_says_that_nothing_is_possible() -> None:
    world = World(Engine(cluster("r1: a=8").engine.books.topology)).submit(
        task("t"), gang("g", tasks=2, level="rack"), service("s", 2), share("u", 100)
    )

    world.cycle()

    assert reasons(world, "t") == (Impossible("main", "cluster", 1, 0),)
    assert reasons(world, "g") == (Impossible("main", "rack", 2, 0),)
    assert nodes(world.join(node("a", 8, "r1")).cycle()) == {"a"}
    world.settles()


def test_charges_follow_a_node_whose_model_becomes_known_later() -> None:
    """Labels may come late; what is refunded at the end is what was charged."""
    world = cluster("a=8", on("a", model="")).run(task("t", 2))

    world.change("a", model="H100").end("t").cycle()

    assert world.engine.books.charged("default") == {}


# -- edits ----------------------------------------------------------------------------------


def test_priority_of_a_waiting_workload_moves_it_in_line() -> None:
    world = cluster("a=8").run(replace(task("fixed", 8), preemptible=False))
    world.submit(task("t", 8), task("u", 8)).cycle()
    assert reasons(world, "u") == (Behind("t"),)

    plan = world.edit(task("u", 8, priority=1)).cycle()
    assert told_about(plan)["t"] == (Behind("u"),)

    assert by_workload(world.end("fixed").cycle()) == {"u": ["a"]}
    world.settles()


def test_size_of_a_waiting_workload_decides_whether_it_starts() -> None:
    world = cluster("a=4").submit(gang("g", tasks=5))
    assert world.cycle().decisions == ()

    assert ranks(world.edit(gang("g", tasks=4)).cycle()) == ["a"] * 4
    world.settles()


def test_edited_workload_keeps_its_place_in_line() -> None:
    world = cluster("a=4").busy("a=4").submit(gang("g", tasks=3), gang("h", tasks=4))
    world.cycle()

    world.edit(gang("g", tasks=4)).cycle()

    assert reasons(world, "h") == (Behind("g"),)
    world.settles()


def test_queue_of_a_waiting_workload_is_charged_when_it_starts() -> None:
    world = cluster("a=8").submit(task("t", 2)).edit(task("t", 2, queue="other"))
    world.cycle()

    assert world.engine.books.charged("default") == {}
    assert world.engine.books.charged("other") == {("H100", "gpu"): 2000, ("H100", "pods"): 1}


def test_queue_of_running_work_moves_its_charge() -> None:
    world = (
        cluster("a=8")
        .run(gang("g", tasks=2, gpus=2))
        .edit(gang("g", tasks=2, gpus=2, queue="other"))
    )

    assert world.cycle().decisions == ()
    assert world.engine.books.charged("default") == {}
    assert world.engine.books.charged("other") == {("H100", "gpu"): 4000, ("H100", "pods"): 2}
    world.end("g").cycle()
    assert world.engine.books.charged("other") == {}
    world.settles()


def test_priority_of_running_work_changes_nothing_at_once() -> None:
    world = cluster("a=8").run(task("t")).edit(task("t", priority=7))

    assert world.cycle() == Plan()
    assert world.engine.entries()["t"].workload.priority == 7
    world.settles()


def test_bigger_maximum_makes_running_work_grow() -> None:
    world = cluster("a=8").run(gang("g", tasks=2)).edit(gang("g", tasks=2, most=5))

    assert decided(world.cycle()) == [("bind", "g", (2,)), ("bind", "g", (3,)), ("bind", "g", (4,))]
    world.settles()


def test_smaller_maximum_evicts_the_surplus() -> None:
    world = cluster("a=8").run(gang("g", tasks=2, most=6))
    assert used(world) == "a=6/8"

    plan = world.edit(gang("g", tasks=2, most=3)).cycle()

    assert decided(plan) == [("evict", "g", (3, 4, 5))]
    assert evicts(plan)[0].cause == "resized"
    world.confirm(plan).cycle()
    assert used(world) == "a=3/8"
    world.settles()


def test_smaller_maximum_does_not_evict_more_than_is_above_it() -> None:
    """Two run and two may run: it does not matter which two they are."""
    world = cluster("a=8").run(gang("g", tasks=2, most=4))
    world.tasks("g", FAILED, 0, 1)
    world.edit(gang("g", tasks=2, most=2))

    plan = world.cycle()

    assert evicts(plan) == []


def test_surplus_that_refused_to_leave_is_asked_again() -> None:
    world = cluster("a=4").run(gang("g", tasks=1, most=3)).edit(gang("g", tasks=1, most=1))
    assert decided(world.cycle()) == [("evict", "g", (1, 2))]

    world.tasks("g", RUNNING, 1, 2)

    assert decided(world.cycle()) == [("evict", "g", (1, 2))]


def test_bigger_minimum_of_running_work_is_reached() -> None:
    world = cluster("a=8").run(gang("g", tasks=2)).edit(gang("g", tasks=4))

    assert [verb for verb, _, _ in decided(world.cycle())].count("evict") == 0
    assert used(world) == "a=4/8"
    world.settles()


def test_shape_of_running_work_cannot_change() -> None:
    world = cluster("a=8").run(task("t", 1))

    with pytest.raises(EventError, match="shape"):
        world.edit(task("t", 2))
    assert used(world) == "a=1/8"


def test_group_cannot_be_added_to_running_work() -> None:
    """Nor is it ignored until something breaks."""
    world = cluster("a=8").run(workload("w", group("x")))

    with pytest.raises(EventError):
        world.edit(workload("w", group("x", most=2), group("y")))
    assert world.cycle().decisions == ()
    world.settles()


def test_policy_can_change_while_everything_runs() -> None:
    world = cluster("a=8 b=8").busy("a=4").run(task("t"))

    world.see(PolicyChanged(Policy(small="spread")))
    assert nodes(world.submit(task("u")).cycle()) == {"b"}
    world.see(PolicyChanged(Policy(small="binpack")))
    assert nodes(world.submit(task("v")).cycle()) == {"a"}
    world.settles()


# -- growth ---------------------------------------------------------------------------------


def test_growth_comes_after_the_minimum_of_everyone() -> None:
    """Four devices: two and two for the minimums, and nothing is left to grow with."""
    world = cluster("a=4").submit(gang("g", tasks=2, most=4, priority=9), gang("h", tasks=2))

    assert decided(world.cycle()) == [("bind", "g", (0, 1)), ("bind", "h", (0, 1))]
    assert reasons(world, "g") == (NoRoom("main", "cluster", 1, 0), Excluded("main", "gpu", 1))
    world.settles()


def test_growth_is_unit_by_unit_and_takes_what_there_is() -> None:
    world = cluster("a=5").submit(gang("g", tasks=2, most=8))

    plan = world.cycle()

    assert decided(plan) == [("bind", "g", tasks) for tasks in [(0, 1), (2,), (3,), (4,)]]
    world.settles()


def test_growth_of_slices_is_a_whole_slice() -> None:
    world = cluster("r1: a=2 b=3 | r2: c=1").submit(
        gang("g", tasks=2, most=6, slices=[("rack", 2)])
    )

    plan = world.cycle()

    assert [tasks for _, _, tasks in decided(plan)] == [(0, 1), (2, 3)]
    world.settles()


def test_growth_of_slices_from_one_node() -> None:
    """All tasks are on one node at first; the next slice may go to another node of a rack."""
    world = cluster("r1: a=2 b=2").submit(gang("g", tasks=2, most=4, slices=[("rack", 2)]))
    assert ranks(world.cycle()) == ["a", "a", "b", "b"]
    world.settles()


def test_growth_of_slices_on_the_same_node() -> None:
    world = cluster("r1: a=4").submit(gang("g", tasks=2, most=4, slices=[("rack", 2)]))

    assert ranks(world.cycle()) == ["a", "a", "a", "a"]
    world.settles()


def test_growth_stays_inside_the_required_domain() -> None:
    world = (
        cluster("r1: a=3 | r2: b=8").busy("b=5").submit(gang("g", tasks=2, most=5, level="rack"))
    )

    plan = world.cycle()

    assert nodes(plan) in ({"a"}, {"b"})
    assert len(ranks(plan)) == 3
    world.settles()


def test_growth_that_its_own_domain_stops_says_so() -> None:
    """There is room elsewhere, but not in the rack where the gang is."""
    world = (
        cluster("r1: a=2 | r2: b=3")
        .busy("b=1")
        .submit(gang("g", tasks=2, most=3, level="rack", selector={}))
    )
    world.cycle()

    assert reasons(world, "g")[0] == NoRoom("main", "rack", 1, 0)


def test_growth_of_a_group_is_not_stopped_by_another_group() -> None:
    """The first group has no room; the second has."""
    world = cluster("a=1 b=8", on("a", labels={"z": "a"}), on("b", labels={"z": "b"})).submit(
        workload(
            "w",
            group("x", most=2, selector={"z": "a"}),
            group("y", most=3, selector={"z": "b"}),
        )
    )

    assert by_group(world.cycle()) == {"x": ["a"], "y": ["b", "b", "b"]}
    world.settles()


def test_growth_that_wants_company_comes_when_the_company_has_grown() -> None:
    """Both grow in one cycle; the first in line waits for the second."""
    near = [TaskTerm("node", (("app", "db"),))]
    world = cluster("a=8").submit(
        gang("g", tasks=0, most=1, near=near), gang("db", tasks=0, most=1, labels={"app": "db"})
    )

    assert by_workload(world.cycle()) == {"db": ["a"], "g": ["a"]}
    world.settles()


def test_growth_uses_room_that_becomes_free_later() -> None:
    world = cluster("a=4").busy("a=3").run(gang("g", tasks=1, most=3))

    plan = world.end("busy-a").cycle()

    assert decided(plan) == [("bind", "g", (1,)), ("bind", "g", (2,))]
    world.settles()


def test_task_above_the_minimum_that_fails_is_only_grown_again() -> None:
    world = cluster("a=4").run(gang("g", tasks=1, most=2)).tasks("g", FAILED, 1)
    world.submit(task("t", 4))

    plan = world.cycle()

    assert decided(plan) == [("bind", "g", (1,))]
    world.settles()


def test_growth_goes_on_after_a_refused_eviction() -> None:
    """The surplus that could not be evicted runs on, and a bigger maximum still counts."""
    world = cluster("a=8").run(gang("g", tasks=1, most=3))
    world.edit(gang("g", tasks=1, most=2))
    assert decided(world.cycle()) == [("evict", "g", (2,))]
    world.edit(gang("g", tasks=1, most=4))
    world.tasks("g", RUNNING, 2)

    assert decided(world.cycle()) == [("bind", "g", (3,))]
    world.settles()


def test_growth_goes_on_when_released_tasks_finish() -> None:
    """Two tasks are on their way out; one waits again, the other turns out to be done."""
    world = cluster("a=8").run(gang("g", tasks=1, most=3))
    world.tasks("g", RELEASING, 1, 2).tasks("g", PENDING, 1).tasks("g", FINISHED, 2)

    assert decided(world.cycle()) == [("bind", "g", (1,))]
    world.settles()


def test_service_scaled_to_zero_grows_when_it_may() -> None:
    """A minimum of nothing is always there; the rest is growth."""
    world = cluster("a=8")

    with within(10):
        plan = world.submit(service("s", 0, most=2)).cycle()

    assert len(ranks(plan)) == 2
    with within(10):
        world.settles()


def test_group_with_no_minimum_beside_one_with() -> None:
    world = cluster("a=3").submit(workload("w", group("x", tasks=2), group("y", tasks=0, most=2)))

    with within(10):
        plan = world.cycle()

    assert by_group(plan) == {"x": ["a", "a"], "y": ["a"]}
    world.settles()


# -- reasons --------------------------------------------------------------------------------


def test_equal_asks_stand_behind_each_other() -> None:
    world = cluster("a=8").busy("a=8").submit(*(task(f"t{i}") for i in range(3)))

    plan = world.cycle()

    full = (NoRoom("main", "cluster", 1, 0), Excluded("main", "gpu", 1))
    assert told_about(plan) == {"t0": full, "t1": (Behind("t0"),), "t2": (Behind("t1"),)}
    world.settles()


def test_reasons_are_told_when_they_change_and_only_then() -> None:
    world = cluster("a=8").busy("a=8").submit(task("t", 2), task("u", 2))
    assert told_about(world.cycle()).keys() == {"t", "u"}
    assert told_about(world.cycle()) == {}

    plan = world.end("t").cycle()
    assert told_about(plan).keys() == {"u"}
    assert isinstance(reasons(world, "u")[0], NoRoom)

    world.run(task("other", 0, cpu=1)).cycle()
    assert told_about(world.cycle()) == {}
    world.settles()


def test_reason_that_comes_out_the_same_is_not_told_again() -> None:
    """A release wakes the line; it still does not fit, with the same numbers."""
    world = cluster("a=4 b=4").busy("a=4 b=3").submit(task("g", 3))
    first = told_about(world.cycle())

    world.end("busy-b").see(Adopted(task("x", 3), (Placement("main", (0,), ("b",), (7,)),)))

    assert first.keys() == {"g"}
    assert world.cycle() == Plan()
    world.settles()


def test_numbers_in_a_reason_are_those_of_now() -> None:
    """Room for one more of two came free: whoever asks is told so."""
    world = cluster("a=4 b=4").busy("a=4 b=4").submit(gang("g", tasks=2, gpus=4))
    world.cycle()
    assert reasons(world, "g")[0] == NoRoom("main", "cluster", 2, 0)

    world.end("busy-a").cycle()

    assert reasons(world, "g") == (NoRoom("main", "cluster", 2, 1), Excluded("main", "gpu", 1))


def test_impossible_request_is_refused_with_numbers() -> None:
    world = (
        cluster("a=8 b=8")
        .busy("a=8")
        .submit(gang("big", tasks=3, gpus=8), task("wide", 9), task("cpu", 0, cpu=65_000))
    )

    assert world.cycle().decisions == ()
    assert reasons(world, "big")[0] == Impossible("main", "cluster", 3, 2)
    assert reasons(world, "wide")[0] == Impossible("main", "cluster", 1, 0)
    assert reasons(world, "cpu") == (
        Impossible("main", "cluster", 1, 0),
        Excluded("main", "cpu", 2),
    )
    world.settles()


def test_line_wakes_though_another_that_avoids_the_node_does_not() -> None:
    """Two asks of one shape; only one of them was refused by the node that becomes free."""
    world = cluster("a=2 b=1 c=1").submit(gang("v", tasks=2, level="node"))
    assert nodes(world.cycle()) == {"a"}
    world.refuse("v", 0, 1).busy("a=2").cycle()
    world.submit(gang("u", tasks=2, level="node")).cycle()

    plan = world.end("busy-a").cycle()

    assert by_workload(plan) == {"u": ["a", "a"]}
    world.settles()


def test_quiet_cycle_is_empty_and_leaves_no_trace() -> None:
    """A cycle that is not in the journal must not change what comes after it."""
    world = cluster("a=8").run(task("t")).submit(task("u", 8))
    world.cycle(1.0)
    memory = world.engine.memory()

    assert world.cycle(1000.0) == Plan()
    assert world.engine.memory() == memory


def test_quiet_cycle_with_work_on_its_way_out_leaves_no_trace() -> None:
    world = cluster("a=1 b=1").run(gang("g", tasks=2)).leave("b")
    world.cycle(0.0)
    assert decided(world.cycle(60.0)) == [("evict", "g", (0,))]
    memory = world.engine.memory()

    assert world.cycle(1000.0) == Plan()
    assert world.engine.memory() == memory


def test_waiting_lists_those_who_wait_in_order_of_rank() -> None:
    world = cluster("a=8").busy("a=8")
    world.submit(task("low"), task("high", priority=5), task("early", 2, submitted_at=-1.0))
    world.cycle()

    assert world.engine.waiting() == ["high", "early", "low"]


# -- adoption -------------------------------------------------------------------------------


def test_adopted_work_is_booked_where_it_runs() -> None:
    world = cluster("a=8").adopt(gang("g", tasks=2, gpus=2), {"a": [0b11, 0b1100]})

    plan = world.submit(task("t", 5), task("u", 4)).cycle()

    assert by_workload(plan) == {"u": ["a"]}
    assert devices(plan) == [(4, 5, 6, 7)]
    assert states(world, "g") == [RUNNING, RUNNING]
    world.settles()


def test_adopted_work_without_placements_is_charged_only() -> None:
    world = cluster("a=8").see(Adopted(gang("g", tasks=2, gpus=2)))

    assert world.cycle().decisions == ()
    assert used(world) == "a=0/8"
    assert world.engine.books.charged("default") == {("", "gpu"): 4000, ("", "pods"): 2}
    world.edit(gang("g", tasks=2, gpus=2, queue="other")).cycle()
    assert world.engine.books.charged("default") == {}
    world.end("g").cycle()
    assert world.engine.books.charged("other") == {}
    world.settles()


def test_adopted_work_without_placements_may_be_resized() -> None:
    world = cluster("a=8").see(Adopted(gang("g", tasks=2))).edit(gang("g", tasks=4)).end("g")

    world.cycle()

    assert world.engine.books.charged("default") == {}


def test_adopted_gang_that_is_incomplete_is_completed() -> None:
    world = cluster("a=8").adopt(gang("g", tasks=3), {"a": [1, 2]})

    assert decided(world.cycle()) == [("bind", "g", (2,))]
    world.settles()


def test_adopted_elastic_work_grows() -> None:
    world = cluster("a=8").adopt(gang("g", tasks=1, most=2), {"a": [1]})

    assert decided(world.cycle()) == [("bind", "g", (1,))]
    world.settles()


def test_work_on_a_device_that_is_gone_survives_a_restart() -> None:
    """A node lost a device under a running task: the next life of the engine takes both as told."""
    world = cluster("a=2").run(task("t"), task("u")).change("a", devices=gpus(1))
    scene = world.engine.snapshot()

    other = Engine(scene.topology, scene.policy, scene.memory, scene.queues)
    for event in scene.events():
        other.observe(event)

    assert other.decide(0.0) == Plan()
    assert other.entries().keys() == {"t", "u"}
    assert other.snapshot() == scene


def test_resized_work_survives_a_restart() -> None:
    """Its last task runs on though the maximum is lower now: there are no more than it may have."""
    world = cluster("a=8").run(gang("g", tasks=1, most=3)).tasks("g", FAILED, 0)
    world.edit(gang("g", tasks=1, most=2))
    assert world.cycle().decisions == ()
    scene = world.engine.snapshot()

    other = Engine(scene.topology, scene.policy, scene.memory, scene.queues)
    for event in scene.events():
        other.observe(event)

    assert other.decide(0.0) == Plan()
    assert other.snapshot() == scene


def test_work_that_had_more_tasks_than_it_may_have_now_survives_a_restart() -> None:
    """Two are done and one is on its way out, of a group that may have only one by now."""
    world = cluster("a=8").run(gang("g", tasks=1, most=4)).tasks("g", FINISHED, 0, 1)
    world.edit(gang("g", tasks=1, most=1))
    assert [verb for verb, _, _ in decided(world.cycle())] == ["evict"]
    scene = world.engine.snapshot()

    other = Engine(scene.topology, scene.policy, scene.memory, scene.queues)
    for event in scene.events():
        other.observe(event)

    assert other.decide(0.0).decisions == ()
    assert other.snapshot() == scene


# -- contradictions -------------------------------------------------------------------------


def _world_in_motion() -> World:
    world = cluster("r1: a=8 b=8 | r2: c=8").run(task("t", 2), gang("g", tasks=2, most=3))
    world.submit(task("wait", 99))
    world.cycle()
    return world.leave("c")


CONTRADICTIONS: dict[str, Event] = {
    "submitted twice": Submitted(task("t")),
    "adopted twice": Adopted(task("t")),
    "without groups": Submitted(Workload("new", ())),
    "group named twice": Submitted(workload("new", group("x"), group("x"))),
    "adopted on an unknown node": Adopted(
        task("new"), (Placement("main", (0,), ("nowhere",), (1,)),)
    ),
    "adopted on a node that left": Adopted(task("new"), (Placement("main", (0,), ("c",), (1,)),)),
    "adopted with an unknown group": Adopted(
        task("new"), (Placement("other", (0,), ("a",), (1,)),)
    ),
    "adopted with too many tasks": Adopted(
        task("new"), (Placement("main", (0, 1), ("a", "a"), (1, 2)),)
    ),
    "adopted with a task that has no number": Adopted(
        task("new"), (Placement("main", (-1,), ("a",), (1,)),)
    ),
    "adopted with uneven tuples": Adopted(
        gang("new", tasks=2), (Placement("main", (0, 1), ("a",), (1,)),)
    ),
    "adopted one task twice": Adopted(
        gang("new", tasks=2), (Placement("main", (0, 0), ("a", "a"), (16, 32)),)
    ),
    "adopted on devices that are not there": Adopted(
        task("new"), (Placement("main", (0,), ("a",), (1 << 12,)),)
    ),
    "adopted on devices that are not there, beside tasks without any": Adopted(
        workload("new", group("x", gpus=1), group("y", gpus=0)),
        (Placement("x", (0,), ("a",), (1 << 12,)), Placement("y", (0,), ("a",), (0,))),
    ),
    "adopted where there is room only for the first": Adopted(
        gang("new", tasks=2, gpus=5), (Placement("main", (0, 1), ("b", "b"), (0, 0)),)
    ),
    "changed but unknown": WorkloadChanged(task("new")),
    "running shape changed": WorkloadChanged(task("t", 1)),
    "running group added": WorkloadChanged(
        workload("t", group("main", gpus=2), group("more", gpus=1))
    ),
    "ended but unknown": Ended("new"),
    "unknown workload": TasksChanged("new", "main", (0,), RUNNING),
    "unknown group": TasksChanged("t", "other", (0,), RUNNING),
    "unknown task": TasksChanged("t", "main", (1,), FINISHED),
    "one task named twice": TasksChanged("t", "main", (0, 0), FINISHED),
    "illegal change": TasksChanged("t", "main", (0,), BOUND),
    "waiting task": TasksChanged("wait", "main", (0,), RUNNING),
    "refused but running": BindRefused("t", "main", (0,)),
    "refused but unknown": BindRefused("new", "main", (0,)),
    "unknown node left": NodeLeft("nowhere"),
    "node left twice": NodeLeft("c"),
    "unknown score": PolicyChanged(Policy(small="nonsense")),
    "unknown device rule": PolicyChanged(Policy(devices="nonsense")),
}


@pytest.mark.parametrize("event", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_contradiction_raises_and_changes_nothing(event: Event) -> None:
    """The engine goes on exactly as one that never heard of it."""
    world, other = _world_in_motion(), _world_in_motion()

    with pytest.raises(EventError):
        world.see(event)

    assert world.engine.snapshot() == other.engine.snapshot()
    for each in (world, other):
        each.join(node("d", 8, "r2")).submit(task("more", 8)).end("t")
    assert world.cycle() == other.cycle()
    assert used(world) == used(other)


def test_refused_twice_in_one_event_is_a_contradiction() -> None:
    world = cluster("a=8").submit(task("t"))
    world.cycle()

    with pytest.raises(EventError):
        world.see(BindRefused("t", "main", (0, 0)))
    assert used(world) == "a=1/8"


# -- copies ---------------------------------------------------------------------------------


def test_fork_gives_the_same_plans_and_does_not_disturb_the_original() -> None:
    world = cluster("r1: a=8 b=8 | r2: c=8 d=8").run(
        task("t", 3), gang("g", tasks=3, gpus=4, most=5), service("s", 2), share("p", 300)
    )
    world.submit(gang("h", tasks=4, gpus=8), task("u", 6))
    before = world.engine.snapshot()
    fork = World(world.engine.fork())

    for each in (fork, World(world.engine.fork())):
        each.cycle(5.0)
        each.end("g").leave("d").run(task("v", 8), now=6.0)
    assert world.engine.snapshot() == before

    twin = World(world.engine.fork())
    for each in (world, twin):
        each.cycle(5.0)
        each.end("g").join(node("e", 8, "r3")).run(task("v", 8), now=6.0)
    assert world.plans[-2:] == twin.plans
    assert world.engine.snapshot() == twin.engine.snapshot()


def test_fork_after_a_workload_that_was_to_grow_has_ended() -> None:
    world = cluster("a=8").adopt(gang("g", tasks=1, most=2), {"a": [1]}).end("g")

    assert world.engine.fork().decide(0.0) == world.cycle()


def test_fork_knows_what_was_not_yet_told() -> None:
    world = cluster("a=8").busy("a=8").submit(task("t"))
    fork = world.engine.fork()

    assert fork.decide(0.0) == world.cycle()


def test_who_looks_does_not_change_in_what_order_it_is_told_who_waits() -> None:
    """Queues are not told of in the order in which somebody came to wait there."""

    def told(*, looks: bool) -> list[str]:
        world = cluster("a=8").run(replace(task("low", 8), queue="other"))
        world.submit(replace(task("high", 8, priority=1), queue="other")).cycle(1.0)
        assert "high" in world.engine.desk.holds
        world.see(QueuesChanged(QUEUES)).change("a", ready=False)
        if looks:
            world.engine.snapshot()  # the room that was kept will not do any more
        plan = world.submit(task("new", 8)).cycle(2.0)
        return [each.workload for each in plan.waiting]

    assert told(looks=True) == told(looks=False) == ["high", "new"]


@pytest.mark.parametrize("goes", [True, False])
def test_who_looks_does_not_change_what_becomes_of_room_that_is_kept(goes: bool) -> None:
    """A node with room kept on it goes, or is not ready, and is back before the next cycle."""

    def plans(*, looks: bool) -> list[Plan]:
        world = cluster("a=8").run(task("low", 8), now=0.0)
        world.submit(task("high", 8, priority=1)).cycle(1.0)
        assert "high" in world.engine.desk.holds
        back = world.node("a")
        if goes:
            world.leave("a")
        else:
            world.change("a", ready=False)
        if looks:
            world.engine.snapshot()
        world.join(back)
        return [world.cycle(2.0), world.cycle(3.0)]

    assert plans(looks=True) == plans(looks=False)


def test_who_looks_does_not_change_when_to_look_for_moves_again() -> None:
    """A node with work on it is of another model for a moment; nobody can be moved for `big`."""

    def plan(*, looks: bool) -> Plan:
        world = cluster("a=2 b=2")
        both = [replace(gang(name, gpus=1), preemptible=False) for name in ("one", "two")]
        world.adopt(both[0], {"a": [0b1]}).adopt(both[1], {"b": [0b1]})
        world.submit(task("big", 2)).cycle(1.0)
        back = world.node("a")
        world.change("a", model="A100")
        if looks:
            world.engine.snapshot()
        return world.join(back).cycle(100.0)

    assert plan(looks=True) == plan(looks=False)


def test_who_looks_does_not_change_what_is_likely_to_be_charged() -> None:
    """There is no node for a moment, and two come to wait meanwhile; quota covers one of them."""

    def starts(*, looks: bool) -> dict[str, list[str]]:
        some, none = (Quota("gpu", "H100", quota=quota) for quota in (8000, 0))
        asks_nobody = EvictionRules(reclaim="never")
        covered = Queue("covered", quotas=(some,), eviction=asks_nobody)
        queues = (Queue("beyond", quotas=(none,)), covered)
        world = cluster("a=8").see(QueuesChanged(queues)).run(now=0.0)
        back = world.node("a")
        world.leave("a")
        if looks:
            world.engine.snapshot()
        world.submit(task("first", 8, queue="beyond", priority=1), task("due", 8, queue="covered"))
        return by_workload(world.join(back).cycle(1.0))

    assert starts(looks=True) == starts(looks=False) == {"due": ["a"]}


def test_snapshot_makes_an_engine_with_the_same_reasons() -> None:
    world = cluster("r1: a=8 b=8 | r2: c=8").run(
        task("t", 3), gang("g", tasks=2, gpus=4, most=3, level="rack"), share("p", 300)
    )
    world.submit(gang("h", tasks=2, gpus=8, level="rack"), task("u", 9), task("v", 9), task("x", 8))
    world.submit(gang("y", tasks=2, level="rak"), workload("z", group("m"), group("n", gpus=8)))
    world.run(now=7.0)
    scene = world.engine.snapshot(7.0)

    other = Engine(scene.topology, scene.policy, scene.memory, scene.queues)
    for event in scene.events():
        other.observe(event)
    plan = other.decide(7.0)

    assert plan.decisions == ()
    assert other.waiting() == world.engine.waiting()
    for name in world.engine.waiting():
        assert other.reasons(name) == reasons(world, name)
    assert replace(other.snapshot(7.0), memory=scene.memory) == scene


def test_restart_does_not_count_waiting_work_twice() -> None:
    """The memory has counted it already when it was first submitted."""
    world = cluster("a=1").submit(task("t", 2))
    world.cycle()
    scene = world.engine.snapshot()

    other = Engine(scene.topology, scene.policy, scene.memory, scene.queues)
    for event in scene.events():
        other.observe(event)

    assert other.memory().arrivals == 1


def test_snapshot_remembers_what_is_finished() -> None:
    """A new engine does not run again what is done."""
    world = cluster("a=8").run(gang("g", tasks=2), gang("h", tasks=2))
    world.tasks("g", FINISHED, 0).tasks("h", FINISHED)
    scene = world.engine.snapshot()

    other = Engine(scene.topology, scene.policy, scene.memory, scene.queues)
    for event in scene.events():
        other.observe(event)

    assert other.decide(0.0).decisions == ()


def test_memory_round_trip() -> None:
    """What was learnt is handed out, taken in, and fades on from there."""
    world = cluster("a=8 b=8").run(*(share(f"s{i}", 250, cpu=500) for i in range(70)), now=100.0)
    memory = world.engine.memory()
    assert memory.arrivals == 70

    other = Engine(world.engine.books.topology, memory=memory, queues=QUEUES)

    assert other.memory() == memory
    half_life = world.engine.policy.mix_half_life_s
    for engine in (world.engine, other):
        engine.observe(Submitted(task("late", 3)))
        engine.decide(100.0 + half_life)
    kinds = dict(other.memory().mix)
    assert kinds == pytest.approx(dict(world.engine.memory().mix))
    assert min(kinds.values()) == pytest.approx(1.0)
    assert max(kinds.values()) == pytest.approx(35.0, rel=1e-3)


def test_what_arrives_before_the_first_cycle_is_not_forgotten_by_it() -> None:
    """A live engine begins in the middle of time: 1.8 billion seconds are not an age."""
    world = cluster("a=8").submit(task("t", submitted_at=1.8e9))

    world.cycle(1.8e9)

    assert [count for _, count in world.engine.memory().mix] == [pytest.approx(1.0)]


def test_node_changed_and_joined_mean_the_same() -> None:
    world = cluster("a=8")
    world.see(NodeChanged(node("b", 4))).cycle()

    assert used(world) == "a=0/8 b=0/4"


def test_together_is_told_only_of_groups_that_fit_alone() -> None:
    world = cluster("a=2").submit(workload("w", group("x", tasks=2), group("y", tasks=1)))
    world.cycle()

    assert reasons(world, "w") == (NotTogether(("x", "y")),)
    world.edit(replace(workload("w", group("x", tasks=2, level="nowhere"), group("y"))))
    world.cycle()
    assert reasons(world, "w") == (Unknown("x", "level", "nowhere"),)


@pytest.mark.parametrize("profile", ["default", "kai", "kueue"])
def test_a_group_without_tasks_is_no_hindrance_to_the_others(profile: str) -> None:
    """Workers that were scaled to none: the head runs, and they come back when asked for."""
    head, none = group("head", tasks=1), replace(group("workers", tasks=1), min=0, max=0)
    world = cluster("a=8", policy=Policy(profile=profile)).submit(workload("ray", head, none))

    world.cycle()
    world.settles()
    assert used(world) == "a=1/8"
    world.edit(workload("ray", head, replace(none, max=2)))
    for _ in range(3):
        world.cycle()
    world.settles()
    assert used(world) == "a=3/8"
