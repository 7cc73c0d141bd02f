"""Which flavor a workload is charged to: order, fungibility, taints, labels, resource groups."""

from __future__ import annotations

import pytest

from mooring.model.cluster import Device, Node
from mooring.model.plan import Bind, Excluded, OverQuota
from mooring.model.queues import Flavor
from mooring.model.resources import amounts
from mooring.model.workload import PodGroup, Requirement, Shape, Toleration, Workload
from mooring.policy.kueue.groups import groups_in
from tests.policy.kueue.cases import Case, End, flavor, queues_of, workload_of

TWO = "a one/cpu=4 two/cpu=4"
BOTH_NEXT = """
    co
    b < co one/cpu=0 two/cpu=4
    a < co one/cpu=4 two/cpu=0 within=lower-priority when_borrowing=next when_preempting=next"""

CHOICES = {
    # name: (queues, running, waiting, starts, evicts)
    "the first that fits": (TWO, "", "w a cpu=3", "w@one", ""),
    "the next where the first is full": (TWO, "r a cpu=4 on=one", "w a cpu=3", "w@two", ""),
    "the next where the first is too small for ever": (
        "a one/cpu=2 two/cpu=4",
        "",
        "w a cpu=3",
        "w@two",
        "",
    ),
    "none fits": (TWO, "r a cpu=4 on=one\ns a cpu=4 on=two", "w a cpu=3", "", ""),
    "flavors are never added up": (TWO, "", "w a cpu=5", "", ""),
    "every workload looks anew": (TWO, "", "v a cpu=3 at=1\nw a cpu=3 at=2", "v@one w@two", ""),
    # -- borrowing
    "borrowing stops the search": (
        "co\na < co one/cpu=2 two/cpu=4\nb < co one/cpu=4 two/cpu=0",
        "",
        "w a cpu=4",
        "w@one",
        "",
    ),
    "unless the next is to be tried": (
        "co\na < co one/cpu=2 two/cpu=4 when_borrowing=next\nb < co one/cpu=4 two/cpu=0",
        "",
        "w a cpu=4",
        "w@two",
        "",
    ),
    "and borrows from the first where the next does not fit": (
        "co\na < co one/cpu=2 two/cpu=2+0 when_borrowing=next\nb < co one/cpu=4 two/cpu=4",
        "",
        "w a cpu=4",
        "w@one",
        "",
    ),
    "the first of two that borrow equally far": (
        "co\na < co one/cpu=2 two/cpu=2 when_borrowing=next\nb < co one/cpu=4 two/cpu=4",
        "",
        "w a cpu=4",
        "w@one",
        "",
    ),
    "the one that borrows less far": (
        """
        root
        co < root one/cpu=0 two/cpu=4
        a < co one/cpu=0 two/cpu=0 when_borrowing=next
        b < root one/cpu=9
        """,
        "",
        "w a cpu=4",
        "w@two",
        "",
    ),
    "a borrowing limit of one flavor leads to the next": (
        "co\na < co one/cpu=2+1 two/cpu=4\nb < co one/cpu=4",
        "",
        "w a cpu=4",
        "w@two",
        "",
    ),
    # -- preempting
    "rather the next flavor than eviction": (
        "a one/cpu=4 two/cpu=4 within=lower-priority",
        "r a cpu=4 on=one",
        "w a cpu=4 prio=1",
        "w@two",
        "",
    ),
    "unless eviction is enough": (
        "a one/cpu=4 two/cpu=4 within=lower-priority when_preempting=stop",
        "r a cpu=4 on=one",
        "w a cpu=4 prio=1",
        "",
        "r:preempt",
    ),
    "eviction on the first of two that both need it": (
        "a one/cpu=4 two/cpu=4 within=lower-priority",
        "r a cpu=4 on=one\ns a cpu=4 on=two",
        "w a cpu=4 prio=1",
        "",
        "r:preempt",
    ),
    "eviction where somebody may be asked at all": (
        "a one/cpu=4 two/cpu=4 within=lower-priority",
        "r a cpu=4 on=one prio=2\ns a cpu=4 on=two",
        "w a cpu=4 prio=1",
        "",
        "s:preempt",
    ),
    "rather taking back from others than from its own": (
        """
        co
        a < co one/cpu=4 two/cpu=4 within=lower-priority reclaim=any
        b < co one/cpu=0 two/cpu=0
        """,
        "r a cpu=4 on=one\ns b cpu=4 on=two",
        "w a cpu=4 prio=1",
        "",
        "s:quota",
    ),
    "rather borrowing than evicting": (
        # one: evicts r, no borrowing; two: fits, borrows
        BOTH_NEXT,
        "r a cpu=4 on=one",
        "w a cpu=4 prio=1",
        "w@two",
        "",
    ),
    "or rather evicting than borrowing": (
        BOTH_NEXT + " prefer=preempting",
        "r a cpu=4 on=one",
        "w a cpu=4 prio=1",
        "",
        "r:preempt",
    ),
    "but rather borrowing than evicting nobody": (
        BOTH_NEXT + " prefer=preempting",
        "r a cpu=4 on=one prio=5",
        "w a cpu=4 prio=1",
        "w@two",
        "",
    ),
    # -- resource groups
    "resources of one group share a flavor": (
        "a one/cpu=4 one/memory=2 two/cpu=4 two/memory=8",
        "",
        "w a cpu=2 memory=4",
        "w@two",
        "",
    ),
    "the worst resource decides": (
        "a one/cpu=4 one/memory=4 two/cpu=4 two/memory=4",
        "r a cpu=1 memory=4 on=one",
        "w a cpu=1 memory=1",
        "w@two",
        "",
    ),
    "groups may be named": (
        "a two/cpu=4 one/cpu=4 groups=cpu:one,two",
        "",
        "w a cpu=3",
        "w@one",
        "",
    ),
}


@pytest.mark.parametrize(
    ("queues", "running", "waiting", "starts", "evicts"), CHOICES.values(), ids=CHOICES
)
def test_choice(queues: str, running: str, waiting: str, starts: str, evicts: str) -> None:
    end = Case(queues, running, waiting).decide()
    assert (end.starts, end.evicts) == (starts, evicts)


def asking(name: str = "w", **shape: object) -> Workload:
    return workload_of(f"{name} a cpu=1", **shape).workload


LABELLED = (flavor("spot", "cheap", kind="spot"), flavor("firm", kind="firm", zone="x"))
TOLERANT = (Toleration("cheap", "Exists"),)
SPOT = Requirement("kind", "In", ("spot",))


class TestLabelsAndTaints:
    def decide(self, workload: Workload) -> End:
        queues = "a spot/cpu=4 firm/cpu=4"
        return Case(queues, flavors=LABELLED, more_waiting=(workload,)).decide()

    def test_a_taint_that_is_not_tolerated_rules_a_flavor_out(self) -> None:
        assert self.decide(asking()).starts == "w@firm"

    def test_a_toleration_lets_it_on(self) -> None:
        assert self.decide(asking(tolerations=TOLERANT)).starts == "w@spot"

    def test_a_selector_picks_the_flavor(self) -> None:
        picky = asking(tolerations=TOLERANT, selector=(("kind", "firm"),))
        assert self.decide(picky).starts == "w@firm"

    def test_an_affinity_picks_the_flavor(self) -> None:
        not_spot = Requirement("kind", "NotIn", ("spot",))
        picky = asking(tolerations=TOLERANT, affinity=((not_spot,),))
        assert self.decide(picky).starts == "w@firm"

    def test_any_term_of_an_affinity_will_do(self) -> None:
        gone = Requirement("kind", "In", ("gone",))
        picky = asking(tolerations=TOLERANT, affinity=((gone,), (SPOT,)))
        assert self.decide(picky).starts == "w@spot"

    def test_a_key_that_a_flavor_does_not_have_does_not_rule_it_out(self) -> None:
        # Only `firm` has a zone; the node of `spot` has none, so there is no place there,
        # and the next flavor is tried.
        picky = asking(tolerations=TOLERANT, selector=(("zone", "x"),))
        assert self.decide(picky).starts == "w@firm"

    def test_nothing_matches(self) -> None:
        end = self.decide(asking(affinity=((SPOT,),)))
        assert end.starts == ""
        assert end.why("w") == (Excluded("main", "taint", 1), Excluded("main", "affinity", 1))


def gpu_node(name: str, **labels: str) -> Node:
    capacity = amounts({"cpu": 100_000})
    return Node(name, capacity, tuple(sorted(labels.items())), devices=(Device(),) * 8)


class TestSeveralGroups:
    FLAVORS = (
        Flavor("plain", (("pool", "x"),)),
        Flavor("ga", (("gpu", "a"),)),
        Flavor("gb", (("gpu", "b"),)),
    )
    NODES = (gpu_node("n1", pool="x", gpu="a"), gpu_node("n2", pool="x", gpu="b"))
    QUEUES = "a plain/cpu=9 ga/gpu=2 gb/gpu=2 groups=cpu:plain;gpu:ga,gb"

    def case(self, running: str, waiting: str) -> Case:
        return Case(self.QUEUES, running, waiting, flavors=self.FLAVORS, nodes=self.NODES)

    def test_each_group_has_a_flavor_of_its_own(self) -> None:
        end = self.case("", "w a cpu=1 gpu=1").decide()
        assert end.starts == "w@cpu=plain,gpu=ga"
        assert end.nodes("w") == "n1=1"

    def test_one_group_moves_on_alone(self) -> None:
        end = self.case("r a cpu=1 gpu=2 on=n1", "w a cpu=1 gpu=1").decide()
        assert end.starts == "w@cpu=plain,gpu=gb"
        assert end.nodes("w") == "n2=1"

    def test_a_workload_may_ask_for_resources_of_one_group_only(self) -> None:
        assert self.case("", "w a cpu=2").decide().starts == "w@plain"


class TestSeveralPodGroups:
    def test_earlier_groups_count(self) -> None:
        groups = tuple(PodGroup(n, Shape(amounts({"cpu": 3000})), 1) for n in ("x", "y"))
        end = Case(TWO, more_waiting=(Workload("w", groups, "a"),)).decide()
        binds = [d for d in end.decisions if isinstance(d, Bind)]
        assert {b.placement.group: b.flavor for b in binds} == {"x": "one", "y": "two"}

    def test_all_or_nothing(self) -> None:
        groups = tuple(PodGroup(n, Shape(amounts({"cpu": 3000})), 1) for n in ("x", "y", "z"))
        end = Case(TWO, more_waiting=(Workload("w", groups, "a"),)).decide()
        assert end.starts == ""

    def test_together_they_may_borrow(self) -> None:
        groups = tuple(PodGroup(n, Shape(amounts({"cpu": 3000})), 1) for n in ("x", "y"))
        case = Case("co\na < co cpu=4\nb < co cpu=2", more_waiting=(Workload("w", groups, "a"),))
        assert case.decide().starts == "w"


GROUPS = {
    "resources that share a flavor": ("a one/cpu=1 one/gpu=1", "cpu,gpu:one"),
    "flavors that share a resource": ("a one/cpu=1 two/cpu=1", "cpu:one,two"),
    "nothing in common": ("a one/cpu=1 two/gpu=1", "cpu:one;gpu:two"),
    "joined by a third": ("a one/cpu=1 two/gpu=1 one/gpu=1", "cpu,gpu:one,two"),
    "as named": ("a one/cpu=1 two/cpu=1 groups=cpu:two,one", "cpu:two,one"),
    "none": ("a", ""),
}


@pytest.mark.parametrize(("text", "groups"), GROUPS.values(), ids=GROUPS)
def test_groups_of_a_queue(text: str, groups: str) -> None:
    found = groups_in(queues_of(text)[0])
    words = [f"{','.join(each.resources)}:{','.join(each.flavors)}" for each in found]
    assert ";".join(words) == groups


def test_reasons_name_every_flavor() -> None:
    end = Case(TWO, "r a cpu=2 on=one", "w a cpu=5").decide()
    assert end.why("w") == (
        OverQuota("a", "one", "cpu", 5000, 2000, ever=False),
        OverQuota("a", "two", "cpu", 5000, 4000, ever=False),
    )


def test_a_flavor_whose_nodes_are_full_leads_to_the_next() -> None:
    """Quota alone would take `one`; there is no place, and nobody may be asked to leave."""
    nodes = (gpu_node("n1", flavor="one"), gpu_node("n2", flavor="two"))
    case = Case("a one/gpu=9 two/gpu=9", "r a gpu=8 on=n1", "w a gpu=8", nodes=nodes)
    end = case.decide()
    assert (end.starts, end.nodes("w")) == ("w@two", "n2=1")
