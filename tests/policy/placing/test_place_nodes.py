"""Which nodes a task may go to: labels, taints, other tasks, ports, counts, GPU models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mooring.model.cluster import Taint
from mooring.model.plan import Excluded, Impossible, NoRoom
from mooring.model.settings import Policy
from mooring.model.workload import (
    NodePreference,
    Requirement,
    SpreadTerm,
    TaskTerm,
    Toleration,
)
from tests.build import (
    binds,
    by_group,
    by_workload,
    cluster,
    gang,
    gpus,
    group,
    nodes,
    on,
    ranks,
    reasons,
    service,
    share,
    task,
    used,
    workload,
)

if TYPE_CHECKING:
    from tests.build import Needs

WEB = (("app", "web"),)
DB = (("app", "db"),)
RACKS = "r1: a=8 b=8 | r2: c=8 d=8"


# -- labels ---------------------------------------------------------------------------------


def test_selector_keeps_to_nodes_with_all_labels() -> None:
    world = cluster(
        "a=8 b=8 c=8",
        on("a", labels={"disk": "ssd"}),
        on("b", labels={"disk": "ssd", "net": "ib"}),
        on("c", labels={"net": "ib"}),
    )

    plan = world.submit(task("t", selector={"disk": "ssd", "net": "ib"})).cycle()

    assert nodes(plan) == {"b"}
    world.settles()


def test_selector_that_no_node_meets_is_told() -> None:
    world = cluster("a=8 b=8", on("a", labels={"disk": "hdd"}))

    world.submit(task("t", selector={"disk": "ssd"})).cycle()

    assert reasons(world, "t") == (
        Impossible("main", "cluster", 1, 0),
        Excluded("main", "selector", 2),
    )
    world.settles()


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (Requirement("gen", "In", ("3", "x")), {"a", "d"}),
        (Requirement("gen", "NotIn", ("3", "x")), {"b", "c"}),
        (Requirement("gen", "Exists"), {"a", "b", "d"}),
        (Requirement("gen", "DoesNotExist"), {"c"}),
        (Requirement("gen", "Gt", ("3",)), {"b"}),
        (Requirement("gen", "Lt", ("4",)), {"a"}),
    ],
    ids=lambda value: value.operator if isinstance(value, Requirement) else "",
)
def test_affinity_operators(clause: Requirement, expected: set[str]) -> None:
    """Nodes: a has gen 3, b has gen 10, c has none, d has gen x (no number)."""
    world = cluster(
        "a=1 b=1 c=1 d=1",
        on("a", labels={"gen": "3"}),
        on("b", labels={"gen": "10"}),
        on("d", labels={"gen": "x"}),
    )

    plan = world.submit(gang("g", tasks=len(expected), affinity=[[clause]])).cycle()

    assert nodes(plan) == expected
    world.submit(task("t", affinity=[[clause]])).cycle()
    assert Excluded("main", "affinity", 4 - len(expected)) in reasons(world, "t")
    world.settles()


def test_affinity_terms_are_alternatives_of_clauses_that_all_hold() -> None:
    world = cluster(
        "a=8 b=8 c=8",
        on("a", labels={"x": "1"}),
        on("b", labels={"x": "1", "y": "1"}),
        on("c", labels={"z": "1"}),
    ).busy("c=8")

    both = [Requirement("x", "Exists"), Requirement("y", "Exists")]
    plan = world.submit(task("t", affinity=[both, [Requirement("z", "Exists")]])).cycle()

    assert nodes(plan) == {"b"}
    world.settles()


@pytest.mark.parametrize("rule", ["potential", "e-binpack", "binpack", "first-fit"])
def test_preferred_affinity_takes_the_best_liked_node(rule: str) -> None:
    """The weights add up; what is liked more wins over what is fuller or comes first."""
    world = cluster(
        "a=8 b=8 c=8",
        on("b", labels={"x": "1"}),
        on("c", labels={"x": "1", "y": "1"}),
        policy=Policy(small=rule),
    ).busy("a=4 b=2")
    likes = [
        NodePreference(10, (Requirement("x", "Exists"),)),
        NodePreference(5, (Requirement("y", "Exists"),)),
    ]

    plan = world.submit(task("t", 8, preferences=likes), task("u", preferences=likes)).cycle()

    assert by_workload(plan)["t"] == ["c"]
    assert by_workload(plan)["u"] == ["b"]
    world.settles()


def test_preferred_affinity_is_relaxed_for_a_gang_that_does_not_fit_the_liked_nodes() -> None:
    world = cluster("a=4 b=4", on("b", labels={"x": "1"}))
    likes = [NodePreference(1, (Requirement("x", "Exists"),))]

    plan = world.submit(gang("g", tasks=6, preferences=likes)).cycle()

    assert sorted(set(ranks(plan))) == ["a", "b"]
    world.settles()


# -- taints ---------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_hard_taints_keep_tasks_off(effect: str) -> None:
    world = cluster("a=8 b=8", on("a", taints=[Taint("gpu", "yes", effect)]))

    plan = world.submit(gang("g", tasks=8), gang("h", tasks=1)).cycle()

    assert nodes(plan) == {"b"}
    assert Excluded("main", "taint", 1) in reasons(world, "h")
    world.settles()


def test_soft_taint_is_avoided_and_then_used() -> None:
    world = cluster("a=8 b=8", on("a", taints=[Taint("old", "", "PreferNoSchedule")])).busy("a=4")

    plan = world.submit(task("t", 8), task("u", 2)).cycle()

    assert by_workload(plan) == {"t": ["b"], "u": ["a"]}
    world.settles()


def test_tolerated_soft_taint_does_not_count() -> None:
    world = cluster(
        "a=8 b=8",
        on("a", taints=[Taint("old", "", "PreferNoSchedule")]),
        policy=Policy("e-binpack"),
    ).busy("a=4")

    plan = world.submit(task("t", tolerations=[Toleration("old", "Exists")])).cycle()

    assert nodes(plan) == {"a"}
    world.settles()


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("gpu", "Equal", "yes"), True),
        (Toleration("gpu", "Equal", "no"), False),
        (Toleration("gpu", "Exists"), True),
        (Toleration("cpu", "Exists"), False),
        (Toleration("", "Exists"), True),
        (Toleration("gpu", "Equal", "yes", "NoSchedule"), True),
        (Toleration("gpu", "Equal", "yes", "NoExecute"), False),
        (Toleration("", "Exists", "", "NoExecute"), False),
    ],
)
def test_tolerations_cover_by_key_value_and_effect(toleration: Toleration, covers: bool) -> None:
    world = cluster("a=8", on("a", taints=[Taint("gpu", "yes", "NoSchedule")]))

    plan = world.submit(task("t", tolerations=[toleration])).cycle()

    assert bool(plan.decisions) is covers


def test_every_taint_needs_a_toleration() -> None:
    world = cluster("a=8", on("a", taints=[Taint("x"), Taint("y", "", "NoExecute")]))

    world.submit(task("t", tolerations=[Toleration("x", "Exists")])).cycle()
    assert Excluded("main", "taint", 1) in reasons(world, "t")

    both = [Toleration("x", "Exists"), Toleration("y", "Exists")]
    assert nodes(world.submit(task("u", tolerations=both)).cycle()) == {"a"}
    world.settles()


def test_taint_on_a_running_node_moves_nothing_and_stops_newcomers() -> None:
    world = cluster("a=8").run(task("t")).change("a", taints=[Taint("gone")])

    plan = world.submit(task("u")).cycle()

    assert plan.decisions == ()
    assert Excluded("main", "taint", 1) in reasons(world, "u")
    assert nodes(world.change("a", taints=[]).cycle()) == {"a"}
    world.settles()


def test_node_that_is_not_ready_takes_nothing() -> None:
    world = cluster("a=8 b=8", on("a", ready=False))

    assert nodes(world.submit(gang("g", tasks=8), task("t")).cycle()) == {"b"}
    assert Excluded("main", "not-ready", 1) in reasons(world, "t")
    assert nodes(world.change("a", ready=True).cycle()) == {"a"}
    world.settles()


# -- other tasks ----------------------------------------------------------------------------


def test_near_goes_to_the_node_of_its_company() -> None:
    world = cluster("a=8 b=8").adopt(task("db", labels={"app": "db"}), {"b": [1]})

    assert nodes(world.submit(task("t", near=[TaskTerm("node", DB)])).cycle()) == {"b"}
    world.settles()


def test_near_at_rack_level_accepts_any_node_of_the_rack() -> None:
    world = cluster(RACKS).adopt(task("db", 8, labels={"app": "db"}), {"c": [255]})

    assert nodes(world.submit(task("t", near=[TaskTerm("rack", DB)])).cycle()) == {"d"}
    world.settles()


def test_near_waits_for_company_and_starts_when_it_comes() -> None:
    """The one waited for may start in the same cycle, or later."""
    world = cluster("a=8 b=8").submit(task("t", near=[TaskTerm("node", DB)]))
    assert world.cycle().decisions == ()
    assert Excluded("main", "tasks", 2) in reasons(world, "t")

    plan = world.submit(task("db", labels={"app": "db"})).cycle()

    assert len(by_workload(plan)["db"]) == 1
    assert by_workload(plan).get("t") == by_workload(plan)["db"]
    world.settles()


def test_first_of_a_flock_may_settle_anywhere_and_the_rest_joins_it() -> None:
    world = cluster(RACKS).busy("a=6")

    plan = world.submit(
        gang("g", tasks=4, gpus=2, labels={"app": "web"}, near=[TaskTerm("rack", WEB)])
    ).cycle()

    assert nodes(plan) <= {"a", "b"} or nodes(plan) <= {"c", "d"}
    rack = nodes(plan)
    late = gang("h", tasks=1, labels={"app": "web"}, near=[TaskTerm("rack", WEB)])
    assert nodes(world.submit(late).cycle()) <= ({"a", "b"} if rack <= {"a", "b"} else {"c", "d"})
    world.settles()


def test_flock_that_fits_in_no_rack_waits() -> None:
    world = cluster("r1: a=2 | r2: b=2")

    world.submit(gang("g", tasks=3, labels={"app": "web"}, near=[TaskTerm("rack", WEB)])).cycle()

    assert reasons(world, "g")[0] == NoRoom("main", "cluster", 3, 2)
    world.settles()


def test_flock_does_not_settle_in_two_places() -> None:
    """Two pairs have company each, but the second pair should have joined the first."""
    flock = group("x", tasks=4, labels={"app": "web"}, near=[TaskTerm("node", WEB)])
    for groups in ([flock], [flock, group("y")]):
        world = cluster("a=1 b=2 c=2").submit(workload("w", *groups))

        assert world.cycle().decisions == ()
        world.settles()


def test_apart_keeps_replicas_on_different_nodes() -> None:
    world = cluster("a=8 b=8 c=8")

    plan = world.submit(
        gang("g", tasks=3, labels={"app": "web"}, apart=[TaskTerm("node", WEB)])
    ).cycle()

    assert nodes(plan) == {"a", "b", "c"}
    world.submit(task("t", labels={"app": "web"}, apart=[TaskTerm("node", WEB)])).cycle()
    assert reasons(world, "t") == (Excluded("main", "tasks", 3),)
    world.settles()


def test_apart_at_rack_level() -> None:
    world = cluster(RACKS)

    plan = world.submit(
        gang("g", tasks=2, labels={"app": "web"}, apart=[TaskTerm("rack", WEB)])
    ).cycle()

    assert len(nodes(plan) & {"a", "b"}) == 1
    assert len(nodes(plan) & {"c", "d"}) == 1
    world.settles()


def test_apart_is_mutual() -> None:
    """A task that says nothing is kept away from one that wants to be apart from it."""
    world = cluster("a=8 b=8").adopt(task("db", apart=[TaskTerm("node", WEB)]), {"a": [1]})

    plan = world.submit(gang("g", tasks=8, labels={"app": "web"})).cycle()
    assert nodes(plan) == {"b"}

    world.submit(task("t", labels={"app": "web"})).cycle()
    assert Excluded("main", "tasks", 1) in reasons(world, "t")
    assert nodes(world.end("db").cycle()) == {"a"}
    world.settles()


def test_apart_is_mutual_inside_one_workload() -> None:
    world = cluster("a=8 b=8")

    plan = world.submit(
        workload(
            "w",
            group("quiet", tasks=2, apart=[TaskTerm("node", WEB)]),
            group("web", tasks=2, labels={"app": "web"}),
        )
    ).cycle()

    found = by_group(plan)
    assert not {*found["quiet"]} & {*found["web"]}
    world.settles()


def test_task_that_came_first_meets_one_that_wants_to_be_apart_later() -> None:
    """A new shape with a term is heeded by shapes that were known before it."""
    world = cluster("a=8 b=8").run(task("web-1", labels={"app": "web"}))
    assert used(world) == "a=1/8 b=0/8"
    world.run(task("db", 8, apart=[TaskTerm("node", WEB)]))
    world.submit(*(task(f"web-{i}", labels={"app": "web"}) for i in range(2, 10)))

    plan = world.cycle()

    assert nodes(plan) == {"a"}
    assert len(by_workload(plan)) == 7
    world.settles()


def test_preferred_terms_only_order() -> None:
    world = cluster("a=8 b=8 c=8").busy("a=5")
    world.adopt(task("db", labels={"app": "db"}), {"b": [1]})
    world.adopt(task("web", labels={"app": "web"}), {"c": [1]})

    near = task("near", near=[TaskTerm("node", DB, 10)])
    apart = task("apart", apart=[TaskTerm("node", DB, 10), TaskTerm("node", WEB, 5)])
    plan = world.submit(near, apart).cycle()

    assert by_workload(plan) == {"near": ["b"], "apart": ["a"]}
    world.settles()


def test_spread_differs_by_at_most_the_skew() -> None:
    world = cluster("a=8 b=8 c=8")

    plan = world.submit(
        gang("g", tasks=5, labels={"app": "web"}, spread=[SpreadTerm("node", WEB)])
    ).cycle()

    assert sorted(ranks(plan).count(name) for name in "abc") == [1, 2, 2]
    world.settles()


def test_spread_with_a_bigger_skew_may_lean() -> None:
    """The full node stays at one; the others may have two more, and no third."""
    world = cluster("a=8 b=8").busy("a=7")
    spread = [SpreadTerm("node", WEB, 2)]

    plan = world.submit(gang("g", tasks=4, labels={"app": "web"}, spread=spread)).cycle()
    assert sorted(ranks(plan)) == ["a", "b", "b", "b"]

    world.submit(task("t", labels={"app": "web"}, spread=spread)).cycle()
    assert Excluded("main", "tasks", 1) in reasons(world, "t")
    world.settles()


def test_spread_over_racks() -> None:
    world = cluster("r1: a=8 b=8 | r2: c=1")

    world.submit(
        gang("g", tasks=3, labels={"app": "web"}, spread=[SpreadTerm("rack", WEB)])
    ).cycle()
    assert used(world).count("=0/") == 1

    world.submit(task("t", labels={"app": "web"}, spread=[SpreadTerm("rack", WEB)])).cycle()
    assert reasons(world, "t") == (Excluded("main", "tasks", 2), Excluded("main", "gpu", 1))
    world.settles()


def test_a_spread_that_one_rack_cannot_hold_goes_over_several() -> None:
    """One rack has the devices, but not within the skew; what was tried there is taken back."""
    racks = [" ".join(f"a{i}=8" for i in range(14)), " ".join(f"b{i}=6" for i in range(14))]
    world = cluster(f"rack-1: {racks[0]} | rack-2: {racks[1]}")
    spread = [SpreadTerm("node", WEB, 7)]
    world.submit(gang("g", tasks=104, labels={"app": "web"}, spread=spread))

    nodes = [node for bind in binds(world.cycle()) for node in bind.placement.nodes]
    assert len(nodes) == 104
    assert {name[0] for name in nodes} == {"a", "b"}


def test_spread_that_is_a_wish_does_not_exclude() -> None:
    world = cluster("a=8 b=1")

    plan = world.submit(
        gang("g", tasks=5, labels={"app": "web"}, spread=[SpreadTerm("node", WEB, 1, False)])
    ).cycle()

    assert sorted(ranks(plan)) == [*"aaaab"]
    world.settles()


def test_spread_counts_only_nodes_that_the_task_could_use() -> None:
    world = cluster("a=8 b=8 c=8", on("a b", labels={"zone": "x"}))

    plan = world.submit(
        gang(
            "g",
            tasks=4,
            labels={"app": "web"},
            selector={"zone": "x"},
            spread=[SpreadTerm("node", WEB)],
        )
    ).cycle()

    assert sorted(ranks(plan)) == [*"aabb"]
    world.settles()


def test_spread_about_others_does_not_count_the_task_itself() -> None:
    """As in Kubernetes: one who is not meant by its own term adds nothing to the skew."""
    world = cluster("a=8 b=8").adopt(task("web", labels={"app": "web"}), {"a": [1]}).busy("b=8")

    plan = world.submit(task("t", spread=[SpreadTerm("node", WEB, 1)])).cycle()

    assert nodes(plan) == {"a"}
    world.settles()


def test_spread_does_not_mind_other_gpu_models() -> None:
    """Which models there are beside has no part in it."""
    world = cluster("a=3 b=2 c=0").adopt(task("web", labels={"app": "web"}), {"a": [1]})

    plan = world.submit(
        gang("g", tasks=3, labels={"app": "web"}, models=["H100"], spread=[SpreadTerm("node", WEB)])
    ).cycle()

    assert sorted(ranks(plan)) == [*"abb"]
    world.settles()


# -- ports and counts -----------------------------------------------------------------------


def test_one_task_per_node_and_port() -> None:
    world = cluster("a=8 b=8")

    plan = world.submit(gang("g", tasks=2, ports=[80]), task("t", ports=[443])).cycle()

    assert by_workload(plan)["g"] == ["a", "b"]
    world.submit(task("u", ports=[80, 443])).cycle()
    assert reasons(world, "u") == (NoRoom("main", "cluster", 1, 0), Excluded("main", "port/80", 2))
    world.end("g")
    assert len(nodes(world.cycle())) == 1
    world.settles()


def test_ports_are_there_on_nodes_that_join_later() -> None:
    world = cluster("a=8").run(task("t", ports=[80]))
    world.submit(task("u", ports=[80])).cycle()

    from_picture = cluster("a=8 b=8").node("b")
    assert nodes(world.join(from_picture).cycle()) == {"b"}
    world.settles()


def test_node_takes_so_many_tasks_and_no_more() -> None:
    world = cluster("a=8", on("a", pods=3)).submit(*(task(f"t{i}", 0, cpu=1) for i in range(4)))

    plan = world.cycle()

    assert len(by_workload(plan)) == 3
    assert reasons(world, "t3") == (
        NoRoom("main", "cluster", 1, 0),
        Excluded("main", "pods", 1),
    )
    world.settles()


def test_cpu_memory_and_extended_resources_are_told_by_name() -> None:
    world = cluster("a=8 b=8 c=8", on("", extra={"rdma": 2}, cpu=4000, memory=1000))
    world.run(task("x", 0, cpu=3000, selector={}), task("y", 0, memory=900, extra={"rdma": 2}))

    world.submit(gang("t", tasks=1, gpus=8, cpu=4000, memory=1000, extra={"rdma": 2})).cycle()
    world.submit(task("u", 0, extra={"unheard-of": 1})).cycle()

    assert reasons(world, "u") == (
        Impossible("main", "cluster", 1, 0),
        Excluded("main", "unheard-of", 3),
    )
    world.settles()


@pytest.mark.parametrize(
    "wanted",
    [
        {"gpus": 2, "cpu": 1000},
        {"gpus": 2, "cpu": 1000, "milli": 600},
        {"gpus": 2, "cpu": 1000, "gpu_memory": 50_000},
    ],
    ids=["whole", "share", "memory"],
)
def test_a_node_that_lacks_gpus_and_cpu_is_told_to_lack_gpus(wanted: Needs) -> None:
    """Once they are free the CPU is told, and with that it starts. Half of one GPU is in use."""
    world = cluster("a=2", on("a", devices=gpus(2), cpu=4000))
    world.run(share("accelerated", 500), task("plain", 0, cpu=4000))

    world.submit(gang("t", **wanted)).cycle()
    assert reasons(world, "t")[1:] == (Excluded("main", "gpu", 1),)
    world.end("accelerated").cycle()
    assert reasons(world, "t")[1:] == (Excluded("main", "cpu", 1),)
    assert nodes(world.end("plain").cycle()) == {"a"}
    world.settles()


def test_nodes_that_lack_only_cpu_are_counted_apart() -> None:
    world = cluster("a=2 b=2 c=2", on("", cpu=4000)).busy("a=2 b=2")
    world.run(*(task(name, 0, cpu=4000) for name in "xyz"))

    world.submit(task("t", cpu=1000)).cycle()

    assert set(reasons(world, "t")[1:]) == {Excluded("main", "gpu", 2), Excluded("main", "cpu", 1)}
    world.settles()


# -- GPU models -----------------------------------------------------------------------------

MODELS = on("c d", model="A100")


def test_gang_keeps_to_one_model() -> None:
    """Twelve devices are free, six of each model: a gang of eight waits."""
    world = cluster("a=3 b=3 c=3 d=3", MODELS).submit(gang("g", tasks=8), gang("h", tasks=6))

    plan = world.cycle()

    assert by_workload(plan).keys() == {"h"}
    assert nodes(plan) in ({"a", "b"}, {"c", "d"})
    assert reasons(world, "g")[0] == Impossible("main", "cluster", 8, 6)
    world.settles()


def test_gang_takes_the_model_of_which_there_is_most() -> None:
    world = cluster("a=3 b=3 c=4 d=4", MODELS).submit(gang("g", tasks=4, gpus=1))

    assert nodes(world.cycle()) <= {"c", "d"}
    world.settles()


def test_models_restrict() -> None:
    world = cluster("a=8 b=8 c=8 d=8", MODELS)

    plan = world.submit(gang("g", tasks=2, gpus=8, models=["A100"])).cycle()
    assert nodes(plan) == {"c", "d"}

    world.submit(task("t", models=["A100", "B200"]), task("u", models=["B200"])).cycle()
    assert reasons(world, "t") == (
        NoRoom("main", "cluster", 1, 0),
        Excluded("main", "gpu-model", 2),
        Excluded("main", "gpu", 2),
    )
    assert reasons(world, "u")[0] == Impossible("main", "cluster", 1, 0)
    world.settles()


def test_groups_of_one_workload_may_use_different_models() -> None:
    world = cluster("a=4 c=4", MODELS)

    plan = world.submit(
        workload("w", group("x", tasks=4, models=["H100"]), group("y", tasks=4, models=["A100"]))
    ).cycle()

    assert by_group(plan) == {"x": ["a"] * 4, "y": ["c"] * 4}
    world.settles()


def test_tasks_without_devices_go_to_any_model() -> None:
    world = cluster("a=1 c=1", MODELS, on("", cpu=1000))

    plan = world.submit(gang("g", tasks=2, gpus=0, cpu=1000)).cycle()

    assert nodes(plan) == {"a", "c"}
    world.settles()


def test_growth_keeps_to_the_model_of_the_gang() -> None:
    world = cluster("a=2 c=8", MODELS).run(gang("g", tasks=2, most=4, models=["H100"]))
    world.edit(gang("g", tasks=2, most=4, models=["H100"]))

    assert world.cycle().decisions == ()

    world = cluster("a=2 c=8", MODELS).busy("c=7").run(gang("g", tasks=2, most=3))
    assert used(world) == "a=2/2 c=7/8"
    world.settles()


def test_service_keeps_to_one_model() -> None:
    world = cluster("r1: a=2 c=2 | r2: b=2 d=2", MODELS).submit(service("s", 3))

    assert nodes(world.cycle()) in ({"a", "b"}, {"c", "d"})
    world.settles()
