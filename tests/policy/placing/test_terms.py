"""Terms about other tasks as Kubernetes has them: clauses, node labels as domains, ports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.model.cluster import NODE_NAME, Taint
from mooring.model.workload import (
    HostPort,
    PodGroup,
    Requirement,
    Shape,
    SpreadTerm,
    TaskTerm,
    Toleration,
    Workload,
)
from tests.build import World, cluster, gang, nodes, on

ZONE = "label/zone"
PICTURE = "a=8 b=8 c=8"
ZONES = (on("a", labels={"zone": "x"}), on("b", labels={"zone": "y"}))
"""Node c has no label: it is in no zone."""


def asks(name: str, wanted: Shape) -> Workload:
    """Return a workload of one task."""
    return Workload(name, (PodGroup("main", wanted),))


def settled(*shapes: tuple[str, Shape], facts: tuple[object, ...] = ZONES) -> World:
    """Return nodes on which tasks of these shapes run."""
    world = cluster(PICTURE, *facts)  # type: ignore[arg-type]
    for number, (where, wanted) in enumerate(shapes):
        pinned = replace(wanted, affinity=((Requirement(NODE_NAME, "In", (where,)),),))
        plan = world.submit(asks(f"old-{number}", pinned)).cycle()
        assert nodes(plan) == {where}
    return world


def places(world: World, wanted: Shape) -> set[str]:
    """Return every node that would take a task, one after the other."""
    found: set[str] = set()
    for name in "abc":
        pinned = Requirement(NODE_NAME, "In", (name,))
        plan = world.submit(asks(f"try-{name}", replace(wanted, affinity=((pinned,),)))).cycle()
        found |= nodes(plan)
        world.end(f"try-{name}")
    return found


def tagged(**labels: str) -> Shape:
    return Shape(labels=tuple(sorted(labels.items())))


CLAUSES: dict[str, tuple[Requirement, set[str]]] = {
    "one of these": (Requirement("app", "In", ("web", "db")), {"a"}),
    "none of these: it is the first of its own flock": (
        Requirement("app", "NotIn", ("web",)),
        {"a", "b"},
    ),
    "any": (Requirement("app", "Exists"), {"a"}),
    "none": (Requirement("tier", "DoesNotExist"), {"a"}),
    "another": (Requirement("tier", "Exists"), set()),
}


@pytest.mark.parametrize(("clause", "expected"), CLAUSES.values(), ids=CLAUSES)
def test_company_that_meets_a_clause(clause: Requirement, expected: set[str]) -> None:
    world = settled(("a", tagged(app="web")))
    assert places(world, Shape(near=(TaskTerm(ZONE, (), 0, (clause,)),))) == expected


def test_apart_in_a_zone_and_free_where_there_is_none() -> None:
    """Zone x is taken; node c is in no zone, so nobody can be too close to it."""
    world = settled(("a", tagged(app="web")), ("c", tagged(app="web")))
    apart = TaskTerm(ZONE, (("app", "web"),))
    assert places(world, Shape(apart=(apart,))) == {"b", "c"}


def test_apart_is_mutual_by_clause() -> None:
    shy = Shape(apart=(TaskTerm(ZONE, (), 0, (Requirement("app", "Exists"),)),))
    world = settled(("a", shy))
    assert places(world, tagged(app="web")) == {"b", "c"}
    assert places(world, tagged(tier="db")) == {"a", "b", "c"}


def test_first_of_a_flock_must_be_in_a_domain() -> None:
    flock = replace(tagged(app="web"), near=(TaskTerm(ZONE, (("app", "web"),)),))
    assert places(settled(), flock) == {"a", "b"}
    assert places(settled(("b", tagged(app="web"))), flock) == {"b"}


SPREADS: dict[str, tuple[SpreadTerm, set[str]]] = {
    "the emptier zone": (SpreadTerm(ZONE, (("app", "web"),)), {"b"}),
    "a larger skew": (SpreadTerm(ZONE, (("app", "web"),), 2), {"a", "b"}),
    "too few domains: the emptiest counts as empty": (
        SpreadTerm(ZONE, (("app", "web"),), 2, min_domains=3),
        {"a", "b"},
    ),
    "too few domains, and no more than one each": (
        SpreadTerm(ZONE, (("app", "web"),), 1, min_domains=3),
        {"b"},
    ),
    "others by clause": (
        SpreadTerm(ZONE, (), 1, True, (Requirement("app", "NotIn", ("web",)),)),
        {"a", "b"},
    ),
}


@pytest.mark.parametrize(("term", "expected"), SPREADS.values(), ids=SPREADS)
def test_spread_over_values_of_a_label(term: SpreadTerm, expected: set[str]) -> None:
    world = settled(("a", tagged(app="web")))
    term = replace(term, heed_selectors=False)  # the others are where the task is not looked for
    assert places(world, replace(tagged(app="web"), spread=(term,))) == expected


def test_who_is_measured() -> None:
    """With b tainted, zone y is no domain for those who heed taints: nothing is emptier than x."""
    taint = on("b", labels={"zone": "y"}, taints=[Taint("no")])
    world = settled(("a", tagged(app="web")), facts=(ZONES[0], taint))
    term = SpreadTerm(ZONE, (("app", "web"),), heed_selectors=False)
    wanted = tagged(app="web")
    assert places(world, replace(wanted, spread=(term,))) == {"a"}
    assert places(world, replace(wanted, spread=(replace(term, heed_taints=False),))) == set()


def test_who_selects_is_measured_where_it_selects() -> None:
    """Pinned to a, a task that heeds its selectors knows no emptier zone."""
    world = settled(("a", tagged(app="web")))
    term = SpreadTerm(ZONE, (("app", "web"),))
    assert places(world, replace(tagged(app="web"), spread=(term,))) == {"a", "b"}


PORTS: dict[str, tuple[Shape, Shape, bool]] = {
    "the same": (Shape(ports=(80,)), Shape(ports=(80,)), False),
    "another": (Shape(ports=(80,)), Shape(ports=(81,)), True),
    "another protocol": (Shape(ports=(80,)), Shape(host_ports=(HostPort(80, "UDP"),)), True),
    "one address beside all": (
        Shape(ports=(80,)),
        Shape(host_ports=(HostPort(80, address="10.0.0.1"),)),
        False,
    ),
    "all beside one address": (
        Shape(host_ports=(HostPort(80, address="10.0.0.1"),)),
        Shape(ports=(80,)),
        False,
    ),
    "two addresses": (
        Shape(host_ports=(HostPort(80, address="10.0.0.1"),)),
        Shape(host_ports=(HostPort(80, address="10.0.0.2"),)),
        True,
    ),
    "one address twice": (
        Shape(host_ports=(HostPort(80, "UDP", "10.0.0.1"),)),
        Shape(host_ports=(HostPort(80, "UDP", "10.0.0.1"),)),
        False,
    ),
    "all and one address in one task": (
        Shape(ports=(80,), host_ports=(HostPort(80, address="10.0.0.1"),)),
        Shape(host_ports=(HostPort(80, address="10.0.0.2"),)),
        False,
    ),
}


@pytest.mark.parametrize(("there", "comes", "fits"), PORTS.values(), ids=PORTS)
def test_ports(there: Shape, comes: Shape, fits: bool) -> None:
    assert ("a" in places(settled(("a", there)), comes)) == fits


NUMBERS: dict[str, tuple[Toleration, bool]] = {
    "below": (Toleration("cost", "Lt", "10"), True),
    "not below": (Toleration("cost", "Lt", "5"), False),
    "above": (Toleration("cost", "Gt", "4"), True),
    "not above": (Toleration("cost", "Gt", "5"), False),
    "no number": (Toleration("cost", "Gt", "few"), False),
}


@pytest.mark.parametrize(("toleration", "fits"), NUMBERS.values(), ids=NUMBERS)
def test_taints_that_are_numbers(toleration: Toleration, fits: bool) -> None:
    world = cluster(PICTURE, on("a", taints=[Taint("cost", "5")]))
    assert ("a" in places(world, Shape(tolerations=(toleration,)))) == fits


@pytest.mark.parametrize("value", ["1_0", " 9", "\u0669", "9" * 30, "+"])
def test_what_is_no_number_is_neither_less_nor_more(value: str) -> None:
    world = cluster(PICTURE, on("", labels={"cores": value}))
    for operator in ("Lt", "Gt"):
        clause = Requirement("cores", operator, ("5",))
        plan = world.submit(gang(f"w-{operator}", affinity=[[clause]])).cycle()
        assert plan.decisions == ()
