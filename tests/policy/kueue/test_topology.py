"""Where work goes: required, preferred, unconstrained, slices, a leader and its workers.

A picture is `rack-1: x=4 y=2 | rack-2: z=4`: racks, and how many tasks of one core each node takes.
"""

from __future__ import annotations

import pytest

from mooring.model.cluster import Device, Node
from mooring.model.plan import Impossible, NoRoom
from mooring.model.resources import amounts
from mooring.model.workload import PodGroup, Shape, TopologyRequest, Workload
from tests.policy.kueue.cases import Case, End

LEVELS = {1: "rack", 2: "block rack"}
QUEUES = "a cpu=999"


def nodes_of(picture: str) -> tuple[Node, ...]:
    found = []
    for part in picture.split("|"):
        path, _, rest = part.partition(":")
        for item in rest.split():
            name, _, cpu = item.partition("=")
            capacity = amounts({"cpu": int(cpu) * 1000})
            where = tuple(path.strip().split("/"))
            found.append(Node(name, capacity, (("flavor", "default"),), path=where))
    return tuple(found)


def end_of(picture: str, waiting: str, running: str = "", queues: str = QUEUES) -> End:
    nodes = nodes_of(picture)
    levels = LEVELS[len(nodes[0].path)]
    return Case(queues, running, waiting, nodes=nodes, levels=levels).decide()


PLACES = {
    # name: (picture, what it asks, where it goes)
    # -- nothing asked: the least room first
    "one task goes where the least room is": ("r: x=4 y=2 z=3", "", "y=1"),
    "of equal nodes the first": ("r: z=2 x=2 y=2", "", "x=1"),
    "all on the tightest node that holds them": ("r: x=4 y=2 z=3", "tasks=3", "z=3"),
    "else the least room first": ("r: x=4 y=2 z=3", "tasks=6", "x=1 y=2 z=3"),
    "over racks, as if there were none": ("r: x=4 y=1 | s: z=2", "tasks=5", "x=2 y=1 z=2"),
    "full nodes are left out": ("r: x=0 y=2", "tasks=2", "y=2"),
    "no room": ("r: x=2 y=2", "tasks=5", ""),
    # -- required: one domain, the tightest
    "the tightest rack": ("r: x=4 y=4 | s: z=3 | t: u=5", "tasks=3 required=rack", "z=3"),
    "exactly": ("r: x=4 | s: z=3 | t: u=5", "tasks=4 required=rack", "x=4"),
    "of equal racks the first": ("s: z=3 | r: x=3", "tasks=2 required=rack", "x=2"),
    "no rack is large enough": ("r: x=2 y=1 | s: z=3", "tasks=4 required=rack", ""),
    "inside a rack as few nodes as possible": (
        "r: x=2 y=3 z=1",
        "tasks=4 required=rack",
        "y=3 z=1",
    ),
    "the largest first, the last the tightest": (
        "r: x=2 y=4 z=3 u=1",
        "tasks=6 required=rack",
        "x=2 y=4",
    ),
    "one node of a rack if it holds all, the tightest": (
        "r: x=2 y=4 z=3",
        "tasks=3 required=rack",
        "z=3",
    ),
    "a single node": ("r: x=2 y=4 | s: z=3", "tasks=3 required=node", "z=3"),
    "no single node": ("r: x=2 y=2", "tasks=3 required=node", ""),
    "a block": (
        "b1/r: x=2 y=2 | b2/s: z=3 | b2/t: u=3",
        "tasks=5 required=block",
        "u=2 z=3",
    ),
    "inside a block as few racks as possible": (
        "b1/r: x=2 | b1/s: y=3 | b1/t: z=4",
        "tasks=6 required=block",
        "x=2 z=4",
    ),
    # -- preferred: that level, then up
    "preferred is had": ("r: x=4 y=4 | s: z=3", "tasks=3 preferred=rack", "z=3"),
    "preferred climbs to the next level": (
        "b1/r: x=2 | b1/s: y=2 | b2/t: z=2 | b2/u: w1=3",
        "tasks=4 preferred=rack",
        "x=2 y=2",
    ),
    "the tightest block then": (
        "b1/r: x=3 | b1/s: y=3 | b2/t: z=2 | b2/u: v=3",
        "tasks=5 preferred=rack",
        "v=3 z=2",
    ),
    "at the top it is spread, the largest first": (
        "r: x=2 | s: y=3 | t: z=4",
        "tasks=7 preferred=rack",
        "y=3 z=4",
    ),
    "and the last the tightest": (
        "r: x=2 | s: y=3 | t: z=4",
        "tasks=6 preferred=rack",
        "x=2 z=4",
    ),
    "preferred node climbs to the rack": (
        "r: x=2 y=2 | s: z=3",
        "tasks=4 preferred=node",
        "x=2 y=2",
    ),
    "preferred, and there is no room at all": ("r: x=2 | s: y=1", "tasks=4 preferred=rack", ""),
    # -- slices
    "slices of two inside racks": (
        # r takes one slice, s two: least room first
        "r: x=3 | s: y=4",
        "tasks=4 slices=rack:2",
        "y=4",
    ),
    "slices that no one rack takes": (
        "r: x=3 | s: y=4",
        "tasks=6 slices=rack:2",
        "x=2 y=4",
    ),
    "half a slice is no use": ("r: x=3 | s: y=3", "tasks=6 slices=rack:2", ""),
    "slices inside a required block": (
        "b1/r: x=3 | b1/s: y=3 | b2/t: z=2 | b2/u: v=4",
        "tasks=6 required=block slices=rack:2",
        "v=4 z=2",
    ),
    "slices on nodes inside a required rack": (
        "r: x=3 y=3 | s: z=2 v=2 w1=2",
        "tasks=6 required=rack slices=node:2",
        "v=2 w1=2 z=2",
    ),
    "slices inside a preferred rack": (
        # both racks take two slices, s with less to spare
        "r: x=3 y=3 | s: z=5",
        "tasks=4 preferred=rack slices=node:2",
        "z=4",
    ),
    "inside the domain of a slice the least room first": (
        # the rack takes the slice of 4; its nodes are filled from the smallest
        "r: x=3 y=1 z=4",
        "tasks=4 required=rack slices=rack:4",
        "x=3 y=1",
    ),
    "slices in slices": (
        # a slice of 4 per rack, in runs of 2 per node
        "b1/r: x=3 y=2 | b1/s: z=2 v=1",
        "tasks=4 required=block slices=rack:4,node:2",
        "x=2 y=2",
    ),
    "an inner slice may make the outer impossible": (
        "b1/r: x=3 y=1 | b1/s: z=3 v=1",
        "tasks=4 required=block slices=rack:4,node:2",
        "",
    ),
}


@pytest.mark.parametrize(("picture", "asks", "where"), PLACES.values(), ids=PLACES)
def test_place(picture: str, asks: str, where: str) -> None:
    end = end_of(picture, f"w a cpu=1 {asks}")
    assert end.nodes("w") == where
    assert end.starts == ("w" if where else "")


class TestOthers:
    def test_what_runs_takes_room(self) -> None:
        end = end_of("r: x=4 | s: y=4", "w a cpu=1 tasks=3 required=rack", "r1 a cpu=2 on=x")
        assert end.nodes("w") == "y=3"

    def test_tighter_because_of_what_runs(self) -> None:
        end = end_of("r: x=4 | s: y=4", "w a cpu=1 tasks=2 required=rack", "r1 a cpu=2 on=y")
        assert end.nodes("w") == "y=2"

    def test_no_room_in_one_rack_now(self) -> None:
        end = end_of(
            "r: x=4 | s: y=4", "w a cpu=1 tasks=4 required=rack", "r1 a cpu=1 on=x,y tasks=2"
        )
        assert end.why("w")[0] == NoRoom("main", "rack", 4, 3)

    def test_no_room_in_one_rack_ever(self) -> None:
        end = end_of("r: x=4 | s: y=4", "w a cpu=1 tasks=5 required=rack")
        assert end.why("w")[0] == Impossible("main", "rack", 5, 4)

    def test_ranks_go_by_the_names_of_nodes(self) -> None:
        # two racks are needed; below them their nodes are taken together, all equal
        end = end_of("r: y=2 x=2 | q: z=2", "w a cpu=1 tasks=5 preferred=rack")
        rows = end.engine.entries()["w"].members["main"].rows
        names = [end.engine.books.nodes[row].name for row in rows]
        assert names == ["z", "z", "x", "x", "y"]


class TestLeaderAndWorkers:
    """A group of two: one leader, and workers, in one domain."""

    def end(
        self,
        picture: str,
        leader: int,
        workers: int,
        cpu: int = 1,
        required: str = "",
        preferred: str = "",
    ) -> End:
        groups = (
            PodGroup("leader", Shape(amounts({"cpu": leader * 1000})), 1),
            PodGroup("workers", Shape(amounts({"cpu": cpu * 1000})), workers),
        )
        request = TopologyRequest(required, preferred)
        both = PodGroup("both", groups=groups, topology=request)
        nodes = nodes_of(picture)
        work = Workload("w", (both,), "a")
        levels = LEVELS[len(nodes[0].path)]
        return Case(QUEUES, nodes=nodes, levels=levels, more_waiting=(work,)).decide()

    def where(self, end: End) -> tuple[str, str]:
        return end.nodes("w", "leader"), end.nodes("w", "workers")

    def test_both_in_the_tightest_rack(self) -> None:
        end = self.end("r: x=9 | s: y=4 | t: z=3", 1, 3, required="rack")
        assert self.where(end) == ("y=1", "y=3")

    def test_the_leader_costs_room(self) -> None:
        end = self.end("r: x=9 | s: y=4", 2, 3, required="rack")
        assert self.where(end) == ("x=1", "x=3")

    def test_no_rack_takes_both(self) -> None:
        end = self.end("r: x=3 | s: y=3", 1, 3, required="rack")
        assert end.starts == ""

    def test_the_leader_goes_where_it_costs_the_workers_nothing(self) -> None:
        # workers of two cores: 1, 2 and 1 fit; only on z is there a core to spare
        end = self.end("r: x=2 y=4 z=3", 1, 4, cpu=2, required="rack")
        assert self.where(end) == ("z=1", "x=1 y=2 z=1")

    def test_spread_over_racks_where_one_is_only_preferred(self) -> None:
        end = self.end("r: x=4 | s: y=2", 1, 5, preferred="rack")
        assert self.where(end) == ("x=1", "x=3 y=2")

    def test_a_large_leader_decides_the_rack(self) -> None:
        end = self.end("r: x=2 y=2 z=2 | s: u=4 v=2", 4, 2, required="rack")
        assert self.where(end) == ("u=1", "v=2")

    def test_without_topology_each_group_goes_its_own_way(self) -> None:
        groups = (
            PodGroup("leader", Shape(amounts({"cpu": 3000})), 1),
            PodGroup("workers", Shape(amounts({"cpu": 1000})), 2),
        )
        case = Case(
            QUEUES,
            nodes=nodes_of("r: x=4 | s: y=2"),
            levels="rack",
            more_waiting=(Workload("w", groups, "a"),),
        )
        # The leader takes the tightest node that holds it; then x has the least room, but y
        # holds both workers.
        assert self.where(case.decide()) == ("x=1", "y=2")


class TestPlaceAndVictims:
    """Victims leave in the order of quota until there is quota and a place."""

    QUEUES = "a cpu=99 within=lower-priority"

    def test_one_who_is_in_the_way_leaves(self) -> None:
        end = end_of(
            "r: x=4 | s: y=4",
            "w a cpu=1 tasks=4 required=rack prio=1",
            "r1 a cpu=1 on=x since=1\nr2 a cpu=1 on=y since=2",
            self.QUEUES,
        )
        assert end.evicts == "r2:preempt"

    def test_one_who_is_not_in_the_way_comes_back(self) -> None:
        # r2 is asked first, but only without r1 is there a rack with room for 4
        end = end_of(
            "r: x=4 | s: y=4",
            "w a cpu=1 tasks=4 required=rack prio=1",
            "r1 a cpu=1 on=x since=1\nr2 a cpu=1 on=y since=2\nr3 a cpu=1 on=y prio=5",
            self.QUEUES,
        )
        assert end.evicts == "r1:preempt"

    def test_nobody_leaves_where_it_could_never_be_placed(self) -> None:
        end = end_of(
            "r: x=4 | s: y=4",
            "w a cpu=1 tasks=5 required=rack prio=1",
            "r1 a cpu=1 on=x",
            self.QUEUES,
        )
        assert end.evicts == ""

    def test_nobody_leaves_where_priority_forbids(self) -> None:
        end = end_of(
            "r: x=4 | s: y=4",
            "w a cpu=1 tasks=4 required=rack",
            "r1 a cpu=1 on=x\nr2 a cpu=1 on=y",
            self.QUEUES,
        )
        assert end.evicts == ""

    def test_the_place_is_the_one_that_was_proven(self) -> None:
        nodes = nodes_of("r: x=4 | s: y=4")
        end = Case(
            self.QUEUES,
            "r1 a cpu=1 on=x since=1\nr2 a cpu=1 on=y since=2",
            "w a cpu=1 tasks=4 required=rack prio=1",
            nodes=nodes,
            levels="rack",
        ).settle()
        # r2, evicted, finds another place
        assert (end.nodes("w"), end.runs) == ("y=4", "r1 r2 w")

    def test_two_who_want_the_same_rack(self) -> None:
        nodes = nodes_of("r: x=4 | s: y=4")
        end = Case(
            "a cpu=4\nb cpu=4",
            "",
            "w a cpu=1 tasks=4 required=rack\nv b cpu=1 tasks=4 required=rack at=1",
            nodes=nodes,
            levels="rack",
        ).decide()
        assert (end.nodes("w"), end.nodes("v")) == ("x=4", "y=4")

    def test_one_rack_for_two(self) -> None:
        nodes = nodes_of("r: x=4 | s: y=3")
        waiting = "w a cpu=1 tasks=4 required=rack\nv b cpu=1 tasks=4 required=rack at=1"
        end = Case("a cpu=4\nb cpu=4", "", waiting, nodes=nodes, levels="rack").decide()
        assert (end.starts, end.waits) == ("w", "v")

    def test_who_comes_too_late_for_a_rack_looks_for_victims(self) -> None:
        # Both could have r; w is older. So v asks low, of its own queue, to leave s.
        nodes = nodes_of("r: x=4 | s: y=4")
        end = Case(
            "a cpu=4\nb cpu=8 within=lower-priority",
            "low b cpu=1 tasks=4 on=y",
            "w a cpu=1 tasks=4 required=rack at=1 prio=2\nv b cpu=1 tasks=4 required=rack prio=1",
            nodes=nodes,
            levels="rack",
        ).decide()
        assert (end.starts, end.evicts) == ("w", "low:preempt")


def test_groups_without_topology_are_placed_with_second_thoughts() -> None:
    """One by one x would go to n1, y to n2, and z nowhere."""
    sizes = {"x": 1, "y": 3, "z": 4}
    groups = tuple(PodGroup(n, Shape(amounts({"cpu": c * 1000})), 1) for n, c in sizes.items())
    case = Case(
        QUEUES,
        nodes=nodes_of("r: n1=3 n2=5"),
        levels="rack",
        more_waiting=(Workload("w", groups, "a"),),
    )
    assert case.decide().starts == "w"


def test_a_leader_on_a_shared_device() -> None:
    """Half a device for the leader costs a whole one: three of four are left for workers."""
    nodes = [
        Node(name, (), (("flavor", "default"),), devices=(Device(),) * 2, path=("r",))
        for name in ("x", "y")
    ]
    groups = (
        PodGroup("leader", Shape(gpus=1, milli=500), 1),
        PodGroup("workers", Shape(gpus=1), 3),
    )
    both = PodGroup("both", groups=groups, topology=TopologyRequest("rack"))
    case = Case(
        "a gpu=9", nodes=tuple(nodes), levels="rack", more_waiting=(Workload("w", (both,), "a"),)
    )
    end = case.decide()
    assert end.nodes("w", "leader") == "x=1"
    assert end.nodes("w", "workers") == "x=1 y=2"
