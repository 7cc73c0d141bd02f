"""The rules of placement: E-Binpack, E-Spread, the plain scores, and the potential."""

from __future__ import annotations

import pytest

from mooring.model.memory import Memory, TaskType
from mooring.model.settings import Policy
from tests.build import (
    by_workload,
    cluster,
    devices,
    gang,
    gpus,
    node,
    nodes,
    on,
    ranks,
    service,
    share,
    task,
    used,
)

SMALL = Policy(small="e-binpack")
PLAIN = ["binpack", "spread", "first-fit", "best-fit", "fgd", "dot-prod", "gpu-packing"]
SINGLES = Memory(mix=((TaskType((("cpu", 8000),), 1, 1000, ()), 300.0),), arrivals=400)
WHOLE_NODE = TaskType((("cpu", 64_000),), 8, 1000, ())
SHARES_AND_NODES = Memory(
    mix=((TaskType((), 1, 300, ()), 300.0), (WHOLE_NODE, 100.0)), arrivals=400
)
SINGLES_AND_NODES = Memory(
    mix=((TaskType((("cpu", 8000),), 1, 1000, ()), 300.0), (WHOLE_NODE, 100.0)), arrivals=400
)


# -- E-Binpack ------------------------------------------------------------------------------


def test_small_work_goes_to_a_used_node() -> None:
    world = cluster("a=8 b=8 c=8", policy=SMALL).busy("b=2")

    assert nodes(world.submit(task("t")).cycle()) == {"b"}
    world.settles()


def test_small_work_goes_to_the_most_used_node_that_has_room() -> None:
    world = cluster("a=8 b=8 c=8", policy=SMALL).busy("a=2 b=7 c=4")

    assert nodes(world.submit(task("t", 2)).cycle()) == {"c"}
    world.settles()


def test_small_work_goes_to_the_used_leaf_of_the_used_superpod() -> None:
    """The busiest superpod first, in it the busiest leaf, though a busier leaf is elsewhere."""
    world = cluster(
        "s1/l1: a=8 b=8 | s1/l2: c=8 d=8 | s2/l3: e=8 f=8 | s2/l4: g=8 h=8", policy=SMALL
    ).busy("a=4 c=5 e=6")

    assert nodes(world.submit(task("t")).cycle()) == {"c"}
    world.settles()


def test_small_work_opens_a_node_in_a_used_leaf_before_an_untouched_leaf() -> None:
    """No used node has room; the node to be opened is a neighbour of what runs."""
    world = cluster("l1: a=8 b=8 | l2: c=8 d=8", policy=SMALL).busy("c=8")

    assert nodes(world.submit(task("t")).cycle()) == {"d"}
    world.settles()


def test_used_node_of_a_quiet_leaf_comes_before_a_whole_node_of_a_busy_one() -> None:
    """Whole nodes stay whole: a used node anywhere is taken before any is opened."""
    world = cluster("l1: a=8 b=8 | l2: c=8 d=8", policy=SMALL).busy("a=8 c=1")

    assert nodes(world.submit(task("t")).cycle()) == {"c"}
    world.settles()


def test_many_small_tasks_keep_whole_nodes_and_leaves_free() -> None:
    """Twelve single devices fill one node and half of its neighbour, and touch nothing else."""
    world = cluster("l1: a=8 b=8 | l2: c=8 d=8", policy=SMALL)

    world.submit(*(task(f"t{i}") for i in range(12))).cycle()

    assert used(world) == "a=8/8 b=4/8 c=0/8 d=0/8"
    world.settles()


def test_gang_leaves_the_least_crumbs() -> None:
    """Of the nodes that hold the gang alone the one is taken that is left with nothing."""
    world = cluster("a=8 b=8 c=8").busy("b=4 c=2")

    assert nodes(world.submit(gang("g", tasks=2, gpus=2)).cycle()) == {"b"}
    world.settles()


def test_gang_takes_the_fewest_domains_and_the_rest_goes_to_the_tightest() -> None:
    """Two whole nodes and a third for the rest: the one with the least to spare."""
    world = cluster("a=8 b=8 c=8 d=8").busy("c=6 d=4")

    plan = world.submit(gang("g", tasks=9, gpus=2)).cycle()

    assert nodes(plan) == {"a", "b", "c"}
    world.settles()


def test_gang_prefers_a_leaf_that_it_fills_to_an_empty_one() -> None:
    world = cluster("l1: a=8 b=8 c=8 | l2: d=8 e=8 f=8").busy("d=8")

    assert nodes(world.submit(gang("g", tasks=2, gpus=8)).cycle()) == {"e", "f"}
    world.settles()


def test_ties_between_leaves_go_to_the_used_one_and_then_to_the_first() -> None:
    world = cluster("l1: a=8 b=4 | l2: c=8 d=8 | l3: e=8 f=4").busy("d=4")

    assert nodes(world.submit(gang("g", tasks=3, gpus=4)).cycle()) == {"c", "d"}

    fresh = cluster("l1: a=8 b=4 | l2: c=8 d=4")
    assert nodes(fresh.submit(gang("g", tasks=3, gpus=4)).cycle()) == {"a", "b"}


def test_whole_node_task_goes_to_the_busiest_leaf() -> None:
    world = cluster("l1: a=8 b=8 | l2: c=8 d=8").busy("c=8")

    assert nodes(world.submit(task("t", 8)).cycle()) == {"d"}
    world.settles()


# -- E-Spread -------------------------------------------------------------------------------


def test_replicas_spread_over_failure_domains_inside_one_superpod() -> None:
    """Four replicas: one superpod, two leaves with two each, every node with one."""
    world = cluster("s1/l1: a=8 b=8 | s1/l2: c=8 d=8 | s2/l3: e=8 f=8 | s2/l4: g=8 h=8")

    plan = world.submit(service("s", 4)).cycle()

    assert sorted(ranks(plan)) == ["a", "b", "c", "d"]
    world.settles()


def test_replicas_spread_as_evenly_as_room_allows() -> None:
    world = cluster("s1/l1: a=8 | s1/l2: b=8 | s1/l3: c=8").busy("b=7")

    plan = world.submit(service("s", 7)).cycle()

    assert sorted(ranks(plan)) == [*"aaabccc"]
    world.settles()


def test_replicas_stay_inside_one_domain_and_nibble_at_no_other() -> None:
    """The domain with the least to spare is the one that is spread over."""
    world = cluster("s1/l1: a=8 b=8 | s2/l2: c=8 d=8").busy("c=4")

    assert nodes(world.submit(service("s", 2)).cycle()) == {"c", "d"}
    world.settles()


def test_replicas_spread_inside_the_level_that_the_policy_names() -> None:
    policy = Policy(spread_within="leaf")
    world = cluster("s1/l1: a=8 b=8 | s1/l2: c=8 d=8", policy=policy)

    plan = world.submit(service("s", 4)).cycle()

    assert sorted(ranks(plan)) == ["a", "a", "b", "b"]
    world.settles()


def test_replicas_climb_out_of_the_domain_when_it_is_too_small() -> None:
    """Spreading stays inside one domain if one holds all, else goes over the cluster."""
    world = cluster("s1/l1: a=2 | s2/l2: b=2").submit(service("s", 4))

    assert sorted(ranks(world.cycle())) == ["a", "a", "b", "b"]
    world.settles()


SIXTEEN = "s/l1: a=8 b=8 c=8 d=8 e=8 f=8 g=8 h=8 | s/l2: i=8 j=8 k=8 l=8 m=8 n=8 o=8 p=8"


@pytest.mark.parametrize("least", [1, 16])
def test_a_service_of_many_replicas_leaves_whole_nodes_free(least: int) -> None:
    """Sixteen replicas: eight in each leaf, two on a node, so that half of the nodes stay empty."""
    world = cluster(SIXTEEN)

    plan = world.submit(service("s", least, most=16)).cycle()

    assert sorted(ranks(plan)) == [*"aabbccddiijjkkll"]
    assert nodes(world.submit(service("large", 8, gpus=8)).cycle()) == {*"efghmnop"}
    world.settles()


def test_a_service_goes_to_nodes_in_use() -> None:
    """In each leaf one replica more than nodes in use: it opens one, not two."""
    world = cluster(SIXTEEN).busy("c=2 g=4 j=1 p=6")

    assert nodes(world.submit(service("s", 6)).cycle()) == {*"acg", *"ijp"}
    world.settles()


def test_no_node_has_more_than_an_eighth_of_a_service() -> None:
    """Of eight each is on a node of its own; of nine two may be together."""
    world = cluster("a=8 b=8 c=8 d=8 e=8 f=8 g=8 h=8 i=8 j=8").busy("j=3")

    assert sorted(ranks(world.submit(service("s", 8)).cycle())) == [*"abcdefgj"]
    assert sorted(ranks(world.submit(service("t", 9)).cycle())) == [*"aabbccdjj"]
    world.settles()


def test_a_service_has_more_on_a_node_where_there_are_too_few() -> None:
    """Ten on three nodes, as level as room allows."""
    world = cluster("l1: a=8 b=2 c=8").busy("c=3")

    assert sorted(ranks(world.submit(service("s", 10)).cycle())) == [*"aaaabbcccc"]
    world.settles()


def test_growth_of_a_service_keeps_it_even() -> None:
    """From two replicas to six: every node gets as many as the next."""
    world = cluster("s1/l1: a=8 b=8 | s1/l2: c=8")

    plan = world.submit(service("s", 2, most=6)).cycle()

    assert sorted(ranks(plan)) == [*"aabccc"] or sorted(ranks(plan)) == [*"abbccc"]
    world.settles()


def test_growth_from_one_replica_goes_to_another_node() -> None:
    """The second replica does not join the first on its node."""
    world = cluster("r1: a=8 b=8 | r2: c=8 d=8").submit(service("s", 1, most=2))

    found = ranks(world.cycle())

    assert found in (["a", "b"], ["c", "d"])
    world.settles()


def test_growth_of_a_service_after_a_node_joins_goes_to_the_empty_node() -> None:
    world = cluster("r1: a=2 b=2").run(service("s", 4, most=6))
    assert used(world) == "a=2/2 b=2/2"

    plan = world.join(node("c", 8, "r1")).cycle()

    assert ranks(plan) == ["c", "c"]
    world.settles()


# -- plain scores ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "expected"), [("binpack", "b"), ("spread", "c"), ("first-fit", "a")]
)
def test_single_tasks_follow_the_score_that_the_policy_names(rule: str, expected: str) -> None:
    world = cluster("a=8 b=8 c=8", policy=Policy(small=rule)).busy("a=2 b=5")

    assert nodes(world.submit(task("t")).cycle()) == {expected}
    world.settles()


@pytest.mark.parametrize(
    ("rule", "expected"), [("binpack", ["b"] * 3 + ["a"]), ("spread", ["c"] * 4)]
)
def test_gangs_follow_the_score_that_the_policy_names(rule: str, expected: list[str]) -> None:
    """Task by task, each in sight of the one before."""
    world = cluster("a=8 b=8 c=8", policy=Policy(gang=rule)).busy("a=4 b=5")

    plan = world.submit(gang("g", tasks=4)).cycle()

    assert ranks(plan) == expected
    world.settles()


@pytest.mark.parametrize("rule", PLAIN)
def test_gang_placed_by_score_keeps_to_its_required_domain(rule: str) -> None:
    world = cluster("r1: a=3 b=3 | r2: c=4 d=4", policy=Policy(gang=rule)).busy("c=1 d=1")

    plan = world.submit(gang("g", tasks=6, level="rack")).cycle()

    assert nodes(plan) in ({"a", "b"}, {"c", "d"})
    world.settles()


@pytest.mark.parametrize("rule", [*PLAIN, "potential"])
def test_gang_placed_by_score_is_all_or_nothing(rule: str) -> None:
    world = cluster("a=3 b=3", policy=Policy(gang=rule)).submit(gang("g", tasks=7))

    assert world.cycle().decisions == ()
    assert used(world) == "a=0/3 b=0/3"
    world.settles()


@pytest.mark.parametrize("rule", [*PLAIN, "potential"])
def test_tasks_without_devices_can_be_placed_by_every_score(rule: str) -> None:
    world = cluster("a=8 b=0", policy=Policy(small=rule)).submit(task("t", 0, cpu=1000))

    assert len(nodes(world.cycle())) == 1
    world.settles()


# -- the potential --------------------------------------------------------------------------


def test_potential_is_the_default_for_shares_and_packs_them() -> None:
    """Ten shares of 300 fill three devices and a bit of a fourth, all on one node."""
    world = cluster("a=8 b=8", memory=SHARES_AND_NODES)

    plan = world.submit(*(share(f"s{i}", 300) for i in range(10))).cycle()

    assert len(nodes(plan)) == 1
    assert len({device for found in devices(plan) for device in found}) == 4
    world.settles()


def test_potential_keeps_whole_nodes() -> None:
    """Where whole nodes are asked for too, single devices gather on one before another opens."""
    world = cluster("l1: a=8 b=8 | l2: c=8 d=8", memory=SINGLES_AND_NODES)

    world.submit(*(task(f"t{i}", cpu=8000) for i in range(8))).cycle()

    assert sorted(item[2:] for item in used(world).split()) == ["0/8", "0/8", "0/8", "8/8"]
    world.settles()


def test_potential_breaks_ties_by_the_order_of_domains() -> None:
    """Equal nodes: the one in the used leaf."""
    world = cluster("l1: a=8 b=8 | l2: c=8 d=8", memory=SINGLES_AND_NODES).busy("d=8")

    assert nodes(world.submit(task("t", cpu=8000)).cycle()) == {"c"}
    world.settles()


def test_potential_puts_work_with_much_cpu_where_cpu_is_left_over() -> None:
    """It asks for twice the CPU of others: the node poor in CPU keeps its own for its devices."""
    world = cluster("a=8 b=8", on("a", cpu=16_000), on("b", cpu=128_000), memory=SINGLES)

    assert nodes(world.submit(task("t", cpu=16_000)).cycle()) == {"b"}
    world.settles()


def test_potential_survives_tasks_that_ask_for_no_cpu_at_all() -> None:
    """A mix without CPU, then a task with: nothing overflows, and it goes where CPU is."""
    world = cluster("a=8 b=8", on("a", cpu=1000))
    world.run(*(share(f"s{i}", 100) for i in range(70)))

    plan = world.submit(task("t", 0, cpu=2000)).cycle()

    assert nodes(plan) == {"b"}
    world.settles()


def test_potential_learns_without_losing_its_way() -> None:
    """Over several lessons all that fits is placed, and shares fill devices wholly."""
    world = cluster("a=8 b=8", on("", devices=gpus(8, island=4)))

    plan = world.submit(*(share(f"s{i:03}", 500) for i in range(200))).cycle()

    assert len(by_workload(plan)) == 32
    assert used(world) == "a=8/8 b=8/8"
    world.settles()
