"""Where a gang goes in the topology: required, preferred, unconstrained, slices, groups, ranks."""

from __future__ import annotations

import pytest

from mooring.model.plan import CutShort, Excluded, Impossible, NoRoom, NotTogether, Unknown
from mooring.model.workload import PodGroup, SpreadTerm, TaskTerm
from tests.build import (
    by_group,
    by_workload,
    cluster,
    gang,
    group,
    near_by,
    nodes,
    on,
    ranks,
    reasons,
    together,
    used,
    workload,
)

TWO_LEVELS = "s1/l1: a=8 b=8 | s1/l2: c=8 d=8 | s2/l3: e=8 f=8 | s2/l4: g=8 h=8"


# -- required -------------------------------------------------------------------------------


def test_required_gang_goes_to_the_tighter_domain() -> None:
    """Of two racks that both hold the gang, the one with less left over is taken."""
    world = cluster("rack-1: a=8 b=8 | rack-2: c=8 d=4")

    plan = world.submit(gang("g", tasks=3, gpus=4, level="rack")).cycle()

    assert nodes(plan) == {"c", "d"}
    world.settles()


def test_required_gang_never_spans_domains() -> None:
    """Six places are free, but no rack has four: the gang waits, with the numbers."""
    world = cluster("rack-1: a=3 | rack-2: b=3").busy("b=1")

    plan = world.submit(gang("g", tasks=3, level="rack")).cycle()
    assert nodes(plan) == {"a"}

    world.submit(gang("h", tasks=3, level="rack")).cycle()
    assert reasons(world, "h") == (
        NoRoom("main", "rack", 3, 2),
        Excluded("main", "gpu", 1),
    )
    world.settles()


def test_required_gang_too_big_for_any_domain_is_impossible() -> None:
    """No rack has four devices even when empty: the reason says so and names the most."""
    world = cluster("rack-1: a=3 | rack-2: b=3")

    plan = world.submit(gang("g", tasks=4, level="rack")).cycle()

    assert plan.decisions == ()
    assert reasons(world, "g") == (Impossible("main", "rack", 4, 3),)
    world.settles()


def test_required_cluster_and_node_are_levels_too() -> None:
    """`cluster` and `node` can be required as any named level."""
    world = cluster("rack-1: a=4 b=4 | rack-2: c=8")

    plan = world.submit(
        gang("whole", tasks=3, gpus=4, level="cluster"), gang("one", tasks=4, level="node")
    ).cycle()

    assert used(world) == "a=4/4 b=4/4 c=8/8"
    assert len(set(by_workload(plan)["one"])) == 1
    world.settles()


def test_required_of_the_workload_binds_all_groups() -> None:
    """A level required of the workload holds for all its groups together."""
    world = cluster("rack-1: a=4 b=2 | rack-2: c=8")

    plan = world.submit(
        workload("w", group("x", tasks=4), group("y", tasks=3), level="rack")
    ).cycle()

    assert nodes(plan) == {"c"}
    world.settles()


def test_required_of_the_workload_is_told_with_its_level() -> None:
    """The reason names the level that the workload requires, and what a domain of it takes."""
    world = cluster("rack-1: a=3 | rack-2: b=3").busy("a=1")

    world.submit(workload("w", group("g", tasks=3), level="rack")).cycle()
    world.submit(workload("v", group("g", tasks=3), level="rack")).cycle()

    assert reasons(world, "v")[0] == NoRoom("g", "rack", 3, 2)
    world.settles()


def test_required_of_the_workload_can_be_impossible() -> None:
    world = cluster("rack-1: a=3 | rack-2: b=3")

    world.submit(workload("w", group("g", tasks=4), level="rack")).cycle()

    assert reasons(world, "w")[0] == Impossible("g", "rack", 4, 3)


def test_unknown_level_is_told_by_name() -> None:
    """A level that does not exist is no reason to guess."""
    world = cluster("rack-1: a=8")

    plan = world.submit(gang("g", tasks=2, level="rak")).cycle()

    assert plan.decisions == ()
    assert reasons(world, "g") == (Unknown("main", "level", "rak"),)
    world.settles()


@pytest.mark.parametrize("where", ["near", "apart", "spread"])
def test_unknown_level_of_a_term_is_told_by_name(where: str) -> None:
    """A term about other tasks at a level that does not exist is not taken for another level."""
    world = cluster("rack-1: a=8 b=8")
    labels = {"app": "x"}
    terms = (("app", "x"),)
    submitted = {
        "near": gang("g", labels=labels, near=[TaskTerm("rak", terms)]),
        "apart": gang("g", labels=labels, apart=[TaskTerm("rak", terms)]),
        "spread": gang("g", labels=labels, spread=[SpreadTerm("rak", terms)]),
    }[where]

    world.submit(submitted).cycle()

    assert reasons(world, "g") == (Unknown("main", "level", "rak"),)


# -- preferred ------------------------------------------------------------------------------


def test_preferred_level_is_used_when_one_domain_holds_the_gang() -> None:
    """The preferred rack with the least left over, though one node elsewhere would hold it."""
    world = cluster("rack-1: a=4 b=4 | rack-2: c=3 d=3").submit(
        gang("g", tasks=5, preferred="rack")
    )

    assert nodes(world.cycle()) == {"c", "d"}
    world.settles()


def test_preferred_level_climbs_to_the_next_one() -> None:
    """No leaf holds the gang; one superpod does, and in it the fewest leaves are used."""
    world = cluster("s1/l1: a=2 | s1/l2: b=2 | s1/l3: c=2 | s2/l4: d=2 | s2/l5: e=3")

    plan = world.submit(gang("g", tasks=5, preferred="leaf")).cycle()

    assert nodes(plan) == {"d", "e"}
    world.settles()


def test_preferred_gang_that_fits_nowhere_whole_takes_as_few_domains_as_possible() -> None:
    """Climbing ends at the cluster; there the fewest superpods, then the fewest leaves count."""
    world = cluster("s1/l1: a=3 | s1/l2: b=3 | s2/l3: c=5 | s2/l4: d=1 | s3/l5: e=1")

    plan = world.submit(gang("g", tasks=11, preferred="leaf")).cycle()

    assert nodes(plan) == {"a", "b", "c"}
    world.settles()


def test_preferred_node_prefers_a_single_node() -> None:
    world = cluster("rack-1: a=2 b=2 | rack-2: c=4").submit(gang("g", tasks=4, preferred="node"))

    assert nodes(world.cycle()) == {"c"}
    world.settles()


def test_preferred_is_kept_by_tasks_with_terms_too() -> None:
    """A term about other tasks does not make a group forget the level that it prefers."""
    world = cluster("rack-1: a=2 b=1 | rack-2: c=2 d=2").busy("a=1")

    plan = world.submit(
        gang("g", tasks=4, preferred="rack", apart=[TaskTerm("node", (("app", "loud"),))])
    ).cycle()

    assert nodes(plan) == {"c", "d"}
    world.settles()


# -- unconstrained --------------------------------------------------------------------------


def test_unconstrained_gang_goes_to_one_node_if_one_holds_it() -> None:
    world = cluster("rack-1: a=2 b=2 | rack-2: c=6").submit(gang("g", tasks=4))

    assert nodes(world.cycle()) == {"c"}
    world.settles()


def test_unconstrained_gang_takes_the_lowest_level_that_holds_it() -> None:
    """One leaf holds it: not two leaves, and not the emptier superpod."""
    world = cluster(TWO_LEVELS).busy("a=4 e=8")

    plan = world.submit(gang("g", tasks=2, gpus=8)).cycle()

    assert nodes(plan) == {"c", "d"}
    world.settles()


def test_unconstrained_gang_takes_the_fewest_leaves_of_a_superpod() -> None:
    """Three nodes from a leaf of two and one more: two leaves, in the fuller superpod."""
    world = cluster(TWO_LEVELS).busy("a=8")

    plan = world.submit(gang("g", tasks=3, gpus=8)).cycle()

    assert nodes(plan) == {"b", "c", "d"}
    world.settles()


def test_unconstrained_gang_over_all_superpods_fills_the_fewest_nodes() -> None:
    world = cluster("s1/l1: a=2 b=4 | s2/l2: c=4 d=1 | s3/l3: e=3")

    plan = world.submit(gang("g", tasks=9)).cycle()

    assert len(nodes(plan)) == 3
    assert {"b"} < nodes(plan) <= {"a", "b", "c", "d", "e"}
    assert not {"c", "e"} <= nodes(plan)
    world.settles()


def test_gang_without_levels_takes_the_fewest_nodes() -> None:
    world = cluster("a=2 b=3 c=4 d=5").submit(gang("g", tasks=9))

    assert nodes(world.cycle()) == {"c", "d"}
    world.settles()


# -- slices ---------------------------------------------------------------------------------


def test_each_slice_lies_inside_one_domain() -> None:
    """Runs of two, each inside one node; devices that make no pair stay free."""
    world = cluster("rack-1: a=3 b=3 | rack-2: c=3")

    plan = world.submit(gang("g", tasks=6, slices=[("node", 2)])).cycle()

    assert ranks(plan) == ["a", "a", "b", "b", "c", "c"]
    world.settles()


def test_slices_that_do_not_fit_are_counted_in_whole_slices() -> None:
    """Five devices are free, but only two pairs: the most that fit are four tasks."""
    world = cluster("a=3 b=3").busy("b=1").submit(gang("g", tasks=6, slices=[("node", 2)]))

    world.cycle()

    assert reasons(world, "g")[0] == Impossible("main", "cluster", 6, 4)


def test_slices_that_no_empty_cluster_takes_are_impossible() -> None:
    world = cluster("rack-1: a=1 b=1").submit(gang("g", tasks=2, slices=[("node", 2)]))

    world.cycle()

    assert reasons(world, "g")[0] == Impossible("main", "cluster", 2, 0)


def test_slices_wait_with_numbers_of_tasks() -> None:
    world = cluster("a=2 b=2").busy("b=1").submit(gang("g", tasks=4, slices=[("node", 2)]))

    world.cycle()

    assert reasons(world, "g") == (NoRoom("main", "cluster", 4, 2),)
    world.settles()


def test_slices_inside_a_required_domain() -> None:
    world = cluster("s1/l1: a=2 | s1/l2: b=2 | s2/l3: c=2 | s2/l4: d=3")

    plan = world.submit(gang("g", tasks=4, level="superpod", slices=[("leaf", 2)])).cycle()

    assert ranks(plan) == ["a", "a", "b", "b"]
    world.settles()


def test_slices_nest_in_three_layers() -> None:
    """Eight in a superpod, fours in a leaf, twos in a node; ranks follow the nesting."""
    text = "s1/l1: a=3 b=3 c=1 | s1/l2: d=5 e=1 | s2/l3: f=2 g=2 | s2/l4: h=3 i=3"
    world = cluster(text)

    plan = world.submit(
        gang("g", tasks=16, slices=[("superpod", 8), ("leaf", 4), ("node", 2)])
    ).cycle()

    assert ranks(plan) == [*"aabb", *"dddd", *"ffgg", *"hhii"]
    world.settles()


def test_slices_of_a_level_above_the_required_one_hold_of_themselves() -> None:
    """All tasks in one node are also in one rack."""
    world = cluster("rack-1: a=4 b=4")

    plan = world.submit(gang("g", tasks=4, level="node", slices=[("rack", 2)])).cycle()

    assert len(nodes(plan)) == 1
    world.settles()


def test_slices_that_do_not_divide_the_group_are_refused() -> None:
    world = cluster("rack-1: a=8").submit(gang("g", tasks=5, slices=[("rack", 2)]))

    world.cycle()

    assert reasons(world, "g") == (Unknown("main", "slices", "2 in 5"),)


def test_inner_slices_hold_for_tasks_with_terms_too() -> None:
    """Pairs stay inside a node though each task is placed in sight of the others."""
    world = cluster("rack-1: a=3 b=3")

    plan = world.submit(
        gang(
            "g",
            tasks=4,
            slices=[("rack", 4), ("node", 2)],
            apart=[TaskTerm("node", (("app", "loud"),))],
        )
    ).cycle()

    assert ranks(plan) == ["a", "a", "b", "b"]
    world.settles()


def test_slices_are_found_by_search() -> None:
    """The first choice for the slices would take the place that the other group needs."""
    world = cluster("rack-1: a=4 | rack-2: b=2 c=2", on("b c", labels={"kind": "slow"}))

    plan = world.submit(
        workload(
            "w",
            group("x", tasks=4, slices=[("rack", 2)]),
            group("y", tasks=1, gpus=2, selector={"kind": "slow"}),
            group("z", tasks=1, gpus=2, selector={"kind": "slow"}),
        )
    ).cycle()

    assert by_group(plan)["x"] == ["a", "a", "a", "a"]
    world.settles()


def test_slices_search_puts_runs_in_different_domains() -> None:
    """Both racks take both runs, but the other groups leave only one run in each."""
    world = cluster(
        "rack-1: a=8 | rack-2: b=4 c=4",
        on("a", labels={"kind": "new"}),
        on("b c", labels={"k": "o"}),
    )

    plan = world.submit(
        workload(
            "w",
            group("x", tasks=4, gpus=2, slices=[("rack", 2)]),
            group("y", tasks=4, selector={"kind": "new"}),
            group("z", tasks=4, selector={"k": "o"}),
        )
    ).cycle()

    first, second = by_group(plan)["x"][:2], by_group(plan)["x"][2:]
    assert sorted([first == ["a", "a"], second == ["a", "a"]]) == [False, True]
    assert used(world) == "a=8/8 b=4/4 c=4/4"
    world.settles()


# -- groups ---------------------------------------------------------------------------------


def test_nested_groups_keep_their_own_constraints() -> None:
    """Each replica inside a leaf, all replicas inside a superpod, the router anywhere."""
    world = cluster(TWO_LEVELS).busy("a=8")

    plan = world.submit(
        workload(
            "w",
            together(
                "model",
                together("r1", group("lead-1", gpus=8), group("work-1", gpus=8), level="leaf"),
                together("r2", group("lead-2", gpus=8), group("work-2", gpus=8), level="leaf"),
                level="superpod",
            ),
            group("router", gpus=4),
        )
    ).cycle()

    found = by_group(plan)
    assert {*found["lead-1"], *found["work-1"]} in ({"e", "f"}, {"g", "h"})
    assert {*found["lead-2"], *found["work-2"]} in ({"e", "f"}, {"g", "h"})
    assert found["router"][0] in "bcd"
    world.settles()


def test_preferred_of_an_inner_group_climbs() -> None:
    """No leaf takes both groups; one superpod does."""
    world = cluster("s1/l1: a=8 | s1/l2: b=4 | s2/l3: c=8 | s2/l4: d=8").busy("a=4")

    plan = world.submit(
        workload("w", group("x", gpus=8), group("y", gpus=8), preferred="leaf")
    ).cycle()

    assert nodes(plan) == {"c", "d"}
    world.settles()


def test_groups_that_fit_alone_but_not_together_say_so() -> None:
    world = cluster("a=8").submit(workload("w", group("x", tasks=5), group("y", tasks=4)))

    plan = world.cycle()

    assert plan.decisions == ()
    assert reasons(world, "w") == (NotTogether(("x", "y")),)
    world.settles()


def test_all_groups_start_or_none() -> None:
    """The second group does not fit, so nothing of the first is taken."""
    world = cluster("a=8").submit(workload("w", group("x", tasks=5), group("y", tasks=9)))

    plan = world.cycle()

    assert plan.decisions == ()
    assert used(world) == "a=0/8"
    assert reasons(world, "w")[0] == Impossible("y", "cluster", 9, 8)
    world.settles()


def test_search_finds_what_the_first_choice_misses() -> None:
    """Greedy puts the pair on the tight node, where only the picky task can go."""
    world = cluster("a=2 b=3", on("a", labels={"kind": "old"})).busy("b=1")

    plan = world.submit(
        workload("w", group("x", tasks=2, gpus=1), group("y", gpus=2, selector={"kind": "old"}))
    ).cycle()

    assert by_group(plan) == {"x": ["b", "b"], "y": ["a"]}
    world.settles()


def test_search_moves_a_required_group_to_another_rack() -> None:
    """Both groups want the tight rack; only one of them has another."""
    world = cluster(
        "rack-1: a=4 | rack-2: b=5", on("a", cpu=8000), on("b", cpu=2000, labels={"x": "y"})
    )

    plan = world.submit(
        workload(
            "w",
            group("free", tasks=4, level="rack"),
            group("bound", tasks=4, cpu=2000, level="rack"),
        )
    ).cycle()

    assert by_group(plan) == {"free": ["b"] * 4, "bound": ["a"] * 4}
    world.settles()


def test_search_remembers_who_is_where_and_not_only_how_full() -> None:
    """Two groups of one size may change places, and for a third it matters which is where."""
    world = cluster("a=2 b=2", on("a", labels={"only": "a"}), on("b", labels={"only": "b"}))

    plan = world.submit(
        workload(
            "w",
            group("x", labels={"app": "x"}),
            group("y", labels={"app": "y"}),
            group("z", selector={"only": "b"}, near=[TaskTerm("node", (("app", "x"),))]),
            group("v", selector={"only": "a"}),
        )
    ).cycle()

    assert by_group(plan) == {"x": ["b"], "y": ["a"], "z": ["b"], "v": ["a"]}
    world.settles()


def test_leader_and_workers_are_placed_together() -> None:
    """The leader asks for no device, and still goes to the rack of its workers."""
    world = cluster("rack-1: a=8 b=8 | rack-2: c=8 d=8", on("a b", cpu=4000))

    plan = world.submit(
        workload("w", group("lead", gpus=0, cpu=6000), group("work", tasks=16), level="rack")
    ).cycle()

    found = by_group(plan)
    assert set(found["work"]) == {"c", "d"}
    assert found["lead"][0] in {"c", "d"}
    world.settles()


def test_leader_on_the_node_of_its_workers() -> None:
    """Required at the level of nodes: the node must have room for both."""
    world = cluster("a=4 b=5")

    plan = world.submit(
        workload("w", group("lead", gpus=1), group("work", tasks=4), level="node")
    ).cycle()

    assert nodes(plan) == {"b"}
    world.settles()


# -- ranks ----------------------------------------------------------------------------------


def test_ranks_follow_the_order_of_domains() -> None:
    """Task i sits beside task i + 1: ranks run through nodes, leaves and superpods in order."""
    world = cluster(TWO_LEVELS)

    plan = world.submit(gang("g", tasks=16, gpus=4)).cycle()

    assert ranks(plan) == [name for name in "abcdefgh" for _ in range(2)]
    world.settles()


def test_ranks_of_a_gang_over_uneven_leaves_stay_neighbours() -> None:
    world = cluster("s1/l1: a=2 b=1 | s1/l2: c=2 d=3")

    plan = world.submit(gang("g", tasks=8)).cycle()

    assert ranks(plan) == [*"aab", *"ccddd"]
    world.settles()


def test_ranks_found_by_search_stay_neighbours() -> None:
    """Searched task by task, the tasks of one domain still have consecutive ranks."""
    world = cluster("a=3 b=3 c=3", on("a", labels={"kind": "old"}))

    plan = world.submit(
        workload("w", group("x", tasks=6), group("y", tasks=3, selector={"kind": "old"}))
    ).cycle()

    assert by_group(plan)["x"] == [*"bbbccc"]
    world.settles()


def test_request_with_level_and_slices_reads_as_written() -> None:
    """The builder and the model agree on the order of slices."""
    request = near_by("rack", "", ("rack", 4), ("node", 2))

    assert [(s.level, s.size) for s in request.slices] == [("rack", 4), ("node", 2)]


@pytest.mark.parametrize("level", ["node", "rack"])
def test_equal_shapes_in_two_groups_are_counted_apart(level: str) -> None:
    """Three devices for four tasks: after one group is tried and taken back, all is as before."""
    world = cluster("r1: a=1 b=1 c=1")

    plan = world.submit(
        workload("w", group("x", tasks=3, slices=[(level, 1)]), group("y", tasks=1))
    ).cycle()

    assert plan.decisions == ()
    assert reasons(world, "w") == (NotTogether(("x", "y")),)
    world.settles()


BIG = "r1: " + " ".join(f"n{i:02}=8" for i in range(24))
WEB = (("app", "web"),)


@pytest.mark.parametrize(
    "groups",
    [
        [group("x", tasks=100), group("y", tasks=100)],
        [group(f"g{i:02}", tasks=9, milli=700) for i in range(30)],
        [
            group(
                "x", tasks=2, level="node", labels={"app": "web"}, spread=[SpreadTerm("node", WEB)]
            ),
            group("y", tasks=4),
        ],
    ],
    ids=["whole", "shares", "one group cannot"],
)
def test_groups_that_cannot_be_are_refused_in_few_steps(groups: list[PodGroup]) -> None:
    """What counting can tell is not searched for: 192 devices, and more asked than they serve."""
    world = cluster(BIG)

    plan = world.submit(workload("w", *groups)).cycle()

    assert plan.decisions == ()
    assert not any(isinstance(reason, CutShort) for reason in reasons(world, "w"))
