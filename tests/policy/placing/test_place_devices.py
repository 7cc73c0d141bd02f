"""Which devices of a node: linked, packed, by memory, by MIG geometry; never shared, never bad."""

from __future__ import annotations

import pytest

from mooring.model.cluster import Device
from mooring.model.plan import Excluded, Impossible, NoRoom, Unknown
from mooring.model.settings import Policy
from tests.build import (
    binds,
    cluster,
    devices,
    gang,
    gpus,
    group,
    nodes,
    on,
    reasons,
    share,
    task,
    used,
    workload,
)

QUADS = on("", devices=gpus(8, island=4))
PAIRS = on("", devices=gpus(8, switch=2))


# -- whole devices --------------------------------------------------------------------------


def test_best_linked_devices_are_taken() -> None:
    """Four from one island, not four with the lowest index."""
    world = cluster("a=8", QUADS).busy("a=1")

    assert devices(world.submit(task("t", 4)).cycle()) == [(4, 5, 6, 7)]
    world.settles()


def test_two_come_from_a_broken_quad_and_not_from_a_whole_one() -> None:
    world = cluster("a=8", QUADS).busy("a=2")

    assert devices(world.submit(task("t", 2)).cycle()) == [(2, 3)]
    world.settles()


def test_one_comes_from_the_broken_pair() -> None:
    world = cluster("a=8", PAIRS)
    world.adopt(task("x"), {"a": [1 << 5]})

    assert devices(world.submit(task("t")).cycle()) == [(4,)]
    world.settles()


def test_pairs_behind_one_switch_stay_together() -> None:
    world = cluster("a=8", PAIRS)
    world.adopt(task("x"), {"a": [1]})

    assert devices(world.submit(task("t", 2)).cycle()) == [(2, 3)]
    world.settles()


def test_tasks_of_a_gang_on_one_node_each_get_linked_devices() -> None:
    world = cluster("a=8", QUADS).submit(gang("g", tasks=2, gpus=4))

    assert devices(world.cycle()) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    world.settles()


def test_lowest_index_when_the_policy_says_so() -> None:
    world = cluster("a=8", QUADS, policy=Policy(devices="lowest")).busy("a=1")

    assert devices(world.submit(task("t", 4)).cycle()) == [(1, 2, 3, 4)]
    world.settles()


def test_more_than_eight_devices_on_a_node() -> None:
    """Sixteen devices in four islands: the smallest island that suffices."""
    world = cluster("a=16", on("a", devices=gpus(16, island=4))).busy("a=2")

    assert devices(world.submit(task("t", 2)).cycle()) == [(2, 3)]
    assert devices(world.submit(task("u", 8)).cycle()) == [tuple(range(4, 12))]
    assert devices(world.submit(gang("g", tasks=4)).cycle()) == [(12,), (13,), (14,), (15,)]
    assert used(world) == "a=16/16"
    world.settles()


def test_whole_devices_are_never_shared_ones() -> None:
    """Seven devices are untouched: a task for eight waits, one for seven does not."""
    world = cluster("a=8").run(share("s", 100)).submit(task("t", 8), task("u", 7))

    plan = world.cycle()

    assert [bind.workload for bind in binds(plan)] == ["u"]
    assert len(devices(plan)[0]) == 7
    assert reasons(world, "t") == (NoRoom("main", "cluster", 1, 0), Excluded("main", "gpu", 1))
    world.settles()


def test_unhealthy_devices_are_never_given() -> None:
    world = cluster("a=8", on("a", devices=gpus(8, bad=[0, 5])))

    assert devices(world.submit(task("t", 6)).cycle()) == [(1, 2, 3, 4, 6, 7)]
    world.submit(task("u")).cycle()
    assert reasons(world, "u")[0] == NoRoom("main", "cluster", 1, 0)
    world.settles()


def test_device_that_goes_bad_in_use_is_not_given_again() -> None:
    """The task keeps it; when the task ends the device stays out until it is healthy."""
    world = cluster("a=2").run(task("t"))
    world.change("a", devices=gpus(2, bad=[0]))
    assert devices(world.submit(task("u")).cycle()) == [(1,)]

    world.end("t").submit(task("v"))
    assert world.cycle().decisions == ()

    world.change("a", devices=gpus(2))
    assert devices(world.cycle()) == [(0,)]
    world.settles()


def test_node_with_only_bad_devices_makes_a_request_impossible() -> None:
    world = cluster("a=2", on("a", devices=gpus(2, bad=[0, 1]))).submit(task("t"))

    world.cycle()

    assert reasons(world, "t")[0] == Impossible("main", "cluster", 1, 0)


# -- shares ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["potential", "e-binpack", "binpack", "first-fit", "fgd"])
def test_shares_go_to_devices_that_are_shared_already(rule: str) -> None:
    world = cluster("a=8", policy=Policy(small=rule)).run(share("s", 300))
    (first,) = devices(world.plans[-1])

    plan = world.submit(share("t", 300), share("u", 400)).cycle()

    assert devices(plan) == [first, first]
    world.settles()


def test_share_that_does_not_fit_beside_others_opens_a_device() -> None:
    world = cluster("a=8").run(share("s", 300))
    (first,) = devices(world.plans[-1])

    assert devices(world.submit(share("t", 800)).cycle()) != [first]
    world.settles()


def test_shares_of_two_devices_use_two_different_ones() -> None:
    world = cluster("a=2").submit(share("s", 600, gpus=2))

    assert devices(world.cycle()) == [(0, 1)]
    world.submit(share("t", 400, gpus=2)).cycle()
    assert used(world) == "a=2/2"
    world.settles()


@pytest.mark.parametrize("rule", ["e-binpack", "e-spread", "binpack", "spread", "potential", "fgd"])
def test_gang_of_shares_uses_every_device_to_the_end(rule: str) -> None:
    """Three tasks of two halves each on three devices: only an even choice fits."""
    world = cluster("a=3", policy=Policy(gang=rule))

    found = devices(world.submit(gang("g", tasks=3, gpus=2, milli=500)).cycle())

    assert sorted(found) == [(0, 1), (0, 2), (1, 2)]
    world.settles()


@pytest.mark.parametrize(
    "rule", ["e-binpack", "binpack", "spread", "first-fit", "potential", "fgd"]
)
def test_gang_of_shares_stays_off_devices_in_use(rule: str) -> None:
    """Of four devices one is taken; what is left takes three tasks, and not at its cost."""
    world = cluster("a=4", policy=Policy(gang=rule)).busy("a=1")

    found = devices(world.submit(gang("g", tasks=3, gpus=2, milli=500)).cycle())

    assert sorted(found) == [(1, 2), (1, 3), (2, 3)]
    assert used(world) == "a=4/4"
    world.settles()


def test_share_opens_a_device_of_the_broken_quad() -> None:
    """With no shared device the one is opened that leaves the best-linked rest."""
    world = cluster("a=8", QUADS, policy=Policy(small="e-binpack")).busy("a=2")

    assert devices(world.submit(share("s", 500)).cycle())[0][0] in (2, 3)
    world.settles()


def test_bad_share_is_told() -> None:
    world = cluster("a=8").submit(share("s", 1500))

    world.cycle()

    assert reasons(world, "s") == (Unknown("main", "thousandths of a device", "1500"),)


# -- memory ---------------------------------------------------------------------------------


def test_memory_shares_count_by_the_memory_of_the_device() -> None:
    """20 GiB is a quarter of an 80 GiB device and half of a 40 GiB one."""
    world = cluster(
        "a=1 b=1", on("a", devices=gpus(1, memory=40_960)), on("b", devices=gpus(1))
    ).submit(gang("g", tasks=6, gpu_memory=20_480))

    plan = world.cycle()

    assert sorted(bind for bind in binds(plan)[0].placement.nodes) == [*"aabbbb"]
    assert used(world) == "a=1/1 b=1/1"
    world.submit(task("t", gpu_memory=20_480)).cycle()
    assert reasons(world, "t")[0] == NoRoom("main", "cluster", 1, 0)
    world.settles()


def test_memory_shares_on_devices_of_one_node_with_different_memory() -> None:
    """Only the big device has so much memory; the small one takes what is left to ask."""
    mixed = (Device(memory=40_960), Device(memory=81_920))
    world = cluster("a=2", on("a", devices=mixed))

    assert devices(world.submit(task("t", gpu_memory=61_440)).cycle()) == [(1,)]
    assert devices(world.submit(task("u", gpu_memory=40_960)).cycle()) == [(0,)]
    assert devices(world.submit(task("v", gpu_memory=20_480)).cycle()) == [(1,)]
    assert used(world) == "a=2/2"
    world.settles()


def test_memory_that_no_device_has_is_impossible() -> None:
    world = cluster("a=2").submit(task("t", gpu_memory=100_000))

    world.cycle()

    assert reasons(world, "t")[0] == Impossible("main", "cluster", 1, 0)


def test_whole_devices_and_memory_shares_find_each_other_by_search() -> None:
    """The whole task must leave the big device to the one that needs its memory."""
    mixed = (Device(memory=81_920), Device(memory=40_960))
    world = cluster("a=2", on("a", devices=mixed))

    plan = world.submit(workload("w", group("x"), group("y", gpu_memory=61_440))).cycle()

    assert devices(plan) == [(1,), (0,)]
    world.settles()


def test_memory_of_a_device_that_changes_in_use_leaves_the_books_right() -> None:
    """A device's memory is corrected while a share runs on it: all is free again at the end."""
    world = cluster("a=1").run(task("t", gpu_memory=40_960))
    assert used(world) == "a=0.5/1"

    world.change("a", devices=gpus(1, memory=40_960)).end("t").cycle()

    assert used(world) == "a=0/1"


def test_memory_of_a_device_that_was_corrected_in_use_counts_once_it_is_free() -> None:
    world = cluster("a=1").run(task("t", gpu_memory=20_480))
    world.change("a", devices=gpus(1, memory=40_960)).end("t")

    world.submit(task("u", gpu_memory=61_440)).cycle()

    assert reasons(world, "u")[0] == Impossible("main", "cluster", 1, 0)


# -- MIG ------------------------------------------------------------------------------------


def test_mig_instances_follow_the_geometry() -> None:
    """A 3g and two 2g fit on one device; then only one slice is left, for a 1g."""
    world = cluster("a=1", on("a", devices=gpus(1, mig="a100-40gb")))

    world.submit(task("x", mig="3g.20gb"), task("y", mig="2g.10gb"), task("z", mig="2g.10gb"))
    plan = world.cycle()

    taken = [set(found) for found in devices(plan)]
    assert [len(found) for found in taken] == [4, 2, 2] or [len(f) for f in taken] == [4, 2]
    assert len(set().union(*taken)) == sum(len(found) for found in taken)
    world.settles()


def test_mig_gang_fills_devices_and_then_waits() -> None:
    """Seven 1g instances on each of two devices, and no fifteenth."""
    world = cluster("a=2", on("a", devices=gpus(2, mig="a100-40gb")))

    plan = world.submit(gang("g", tasks=14, mig="1g.5gb")).cycle()
    assert len(set(devices(plan))) == 14
    assert {device // 8 for (device,) in devices(plan)} == {0, 1}

    world.submit(task("t", mig="1g.5gb")).cycle()
    assert reasons(world, "t") == (NoRoom("main", "cluster", 1, 0), Excluded("main", "gpu", 1))
    world.end("g")
    assert nodes(world.cycle()) == {"a"}
    world.settles()


def test_mig_devices_take_nothing_else() -> None:
    world = cluster("a=2", on("a", devices=gpus(2, mig="a100-40gb")))

    world.submit(task("whole"), share("part", 100), task("memory", gpu_memory=1000)).cycle()

    for name in ("whole", "part", "memory"):
        assert reasons(world, name)[0] == Impossible("main", "cluster", 1, 0)
    world.settles()


def test_mig_unhealthy_devices_take_no_instance() -> None:
    world = cluster("a=2", on("a", devices=gpus(2, mig="a100-40gb", bad=[0])))

    plan = world.submit(task("t", mig="1g.5gb")).cycle()

    assert devices(plan)[0][0] // 8 == 1
    world.settles()


def test_mig_unhealthy_devices_are_no_room_that_others_could_leave() -> None:
    """Two devices would hold fourteen instances; one is broken, and the other holds seven."""
    world = cluster("a=2", on("a", devices=gpus(2, mig="a100-40gb", bad=[0])))

    world.submit(gang("g", tasks=14, mig="1g.5gb")).cycle()

    assert reasons(world, "g")[0] == Impossible("main", "cluster", 14, 7)
    world.change("a", devices=gpus(2, mig="a100-40gb"))
    assert len(devices(world.cycle())) == 14
    world.settles()


def test_mig_profile_that_no_geometry_has_is_unknown() -> None:
    world = cluster("a=2", on("a", devices=gpus(2, mig="a100-40gb")))

    world.submit(task("t", mig="9g.99gb")).cycle()

    assert reasons(world, "t") == (Unknown("main", "MIG profile", "9g.99gb"),)


def test_mig_profile_of_another_device_is_impossible() -> None:
    world = cluster("a=2", on("a", devices=gpus(2, mig="a100-40gb")))

    world.submit(task("t", mig="1g.12gb")).cycle()

    assert reasons(world, "t")[0] == Impossible("main", "cluster", 1, 0)
