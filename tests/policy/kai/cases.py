"""Cases of profile kai as tables: nodes, queues, who runs, who waits, and how it must end.

    case(
        "a queue takes back its quota",
        nodes="n=2",
        queues="A gpu=1 | B gpu=1",
        running="a1 A 1 @n | a2 A 1 @n",
        waiting="b1 B 1",
        ends="a1 b1 | waits a2",
        evicted="a2:quota",
    )

A workload: `name queue SIZE`, where SIZE is the devices of a task (`0.5`: half of one), `2x3`:
three tasks of two devices, `1x2..4`: two tasks at least and four at most. Then words: `@n0,n1`
where its tasks run (one node: all of them there; `@n0,`: one alone), `p=50` priority, `fixed`,
`cpu=4000`, `mem=GiB`, `gpumem=MiB`, `level=rack`, `prefers=rack`, `s=10` submitted, `t=5` started,
`delay=60`, `grace=0`, `out`: it runs and is on its way out.

What must come: `ends` names all that run in the end (`a1@n0,n1` where, `a1:2` how many tasks) and
after `waits` those that do not run at all; `evicted` and `moved` those of the first cycle. Whoever
others leave for must start, and nobody starts only to leave.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mooring.model.cluster import WHOLE, Node
from mooring.model.events import Adopted
from mooring.model.memory import Memory
from mooring.model.plan import Bind, Evict, Plan
from mooring.model.queues import Queue, Quota
from mooring.model.resources import amounts
from mooring.model.scenario import Scenario
from mooring.model.settings import Policy
from mooring.model.topology import Level, Topology
from mooring.model.workload import Placement, PodGroup, Shape, TopologyRequest, Workload
from mooring.sim.settle import decide_once, settle
from tests.build import node as build_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.engine import Engine
    from mooring.model.plan import Decision

KAI = Policy(profile="kai")


# -- nodes and queues -----------------------------------------------------------------------


def read_nodes(text: str) -> tuple[Topology, list[Node]]:
    """Read `zone1/r1: n0=4 n1=4:cpu=8000 | …`; levels are `zone` and `rack`, or `rack` alone."""
    found, depth = [], 0
    for part in text.split("|"):
        before, _, rest = part.rpartition(": ")
        path = tuple(before.strip().split("/")) if before.strip() else ()
        depth = max(depth, len(path))
        for item in rest.split():
            head, *facts = item.split(":")
            name, _, count = head.partition("=")
            more: dict[str, Any] = {}
            for fact in facts:
                key, _, value = fact.partition("=")
                more[key] = int(value) if value.isdigit() else value == "yes"
            if "gpumem" in more:
                memory = more.pop("gpumem")
                node = build_node(name, int(count), *path, **more)
                devices = tuple(replace(d, memory=memory) for d in node.devices)
                found.append(replace(node, devices=devices, gpu_model=f"gpu-{memory}"))
            else:
                found.append(build_node(name, int(count), *path, **more))
    names = {0: (), 1: ("rack",), 2: ("zone", "rack"), 3: ("zone", "row", "rack")}[depth]
    return Topology(tuple(Level(name) for name in names)), found


_AMOUNT = {"gpu": WHOLE, "cpu": 1, "memory": 1}


def _bound(resource: str, text: str) -> int | None:
    return None if text == "none" else round(float(text) * _AMOUNT[resource])


def read_queues(text: str) -> tuple[Queue, ...]:
    """Read `dept gpu=4 | A <dept gpu=2 gpu.limit=3 gpu.weight=2 w=2 p=5 …`."""
    queues = []
    for age, part in enumerate(text.split("|")):
        name, *words = part.split()
        facts: dict[str, Any] = {"created_at": float(age)}
        quotas: dict[str, dict[str, Any]] = {}
        for word in words:
            key, _, value = word.partition("=")
            resource, _, what = key.partition(".")
            if word.startswith("<"):
                facts["parent"] = word[1:]
            elif resource in _AMOUNT:
                amount = float(value) if what == "weight" else _bound(resource, value)
                quotas.setdefault(resource, {})[what or "quota"] = amount
            elif key in ("p", "w"):
                facts["priority" if key == "p" else "weight"] = int(value)
            elif key in ("preempt", "reclaim"):
                facts[f"{key}_minimum_run_s"] = float(value)
            elif key == "born":
                facts["created_at"] = float(value)
            else:
                raise ValueError(word)
        each = tuple(Quota(resource, **rest) for resource, rest in quotas.items())
        queues.append(Queue(name, quotas=each, **facts))
    return tuple(queues)


# -- workloads ------------------------------------------------------------------------------


def read_workload(text: str) -> tuple[Workload, list[str], float]:
    """Read one workload; return where its tasks run and since when, besides."""
    name, queue, size, *words = text.split()
    each, _, count = size.partition("x")
    least, _, most = (count or "1").partition("..")
    facts: dict[str, Any] = {}
    shape: dict[str, Any] = {"gpus": 1, "milli": WHOLE}
    places: list[str] = []
    started = 0.0
    topology: dict[str, Any] = {}
    extra: dict[str, int] = {}
    if "." in each:
        shape["milli"] = round(float(each) * WHOLE)
    else:
        shape["gpus"] = int(each)
    for word in words:
        key, _, value = word.partition("=")
        if word.startswith("@"):
            places = word[1:].split(",")
        elif key in _WORDS:
            facts[_WORDS[key]] = float(value) if "_" in _WORDS[key] else int(value)
        elif key == "fixed":
            facts["preemptible"] = False
        elif key == "out":
            continue
        elif key in ("level", "prefers"):
            topology["required" if key == "level" else "preferred"] = value
        elif key == "cpu":
            extra["cpu"] = int(value)
        elif key == "mem":
            extra["memory"] = int(value) * 1024
        elif key == "gpumem":
            shape |= {"gpu_memory": int(value), "milli": WHOLE}
        elif key == "devices":
            shape["gpus"] = int(value)
        elif key == "t":
            started = float(value)
        else:
            raise ValueError(word)
    group = PodGroup(
        "main",
        Shape(amounts=amounts(extra), **shape),
        int(least),
        int(most or 0),
        TopologyRequest(**topology),
    )
    return Workload(name, (group,), queue, **facts), places, started


_WORDS = {
    "p": "priority",
    "s": "submitted_at",
    "delay": "preemption_delay_s",
    "grace": "grace_s",
}


class Floor:
    """Gives running tasks devices: the lowest that are free."""

    def __init__(self, nodes: list[Node]) -> None:
        self.free = {node.name: [WHOLE] * len(node.devices) for node in nodes}
        self.memory = {node.name: [d.memory for d in node.devices] for node in nodes}

    def take(self, node: str, shape: Shape, fixed: int | None = None) -> int:
        """Return the devices of one task on a node."""
        mask, left = 0, shape.gpus
        for device, free in enumerate(self.free[node]):
            need = shape.milli
            if shape.gpu_memory:
                need = -(-shape.gpu_memory * WHOLE // self.memory[node][device])
            if left and free >= need and (fixed is None or device == fixed):
                self.free[node][device] -= need
                mask |= 1 << device
                left -= 1
        assert not left, f"{node} has no room for {shape}"
        return mask


def adopt(workload: Workload, places: list[str], started: float, floor: Floor) -> Adopted:
    """Return a workload that runs; tasks are spread over its groups in order."""
    leaves = list(workload.leaves())
    if len(places) == 1 and len(leaves) == 1:
        places = places * max(leaves[0].min, 1)
    places = [place for place in places if place]
    placements, at = [], 0
    for leaf in leaves:
        left = len(places) - at
        number = min(leaf.most, left) if leaf is not leaves[-1] else left
        some = places[at : at + number]
        at += number
        where = [place.partition("/") for place in some]
        masks = [floor.take(n, leaf.shape, int(d) if d else None) for n, _, d in where]
        names = tuple(name for name, _, _ in where)
        placements.append(Placement(leaf.name, tuple(range(number)), names, tuple(masks)))
    return Adopted(workload, tuple(p for p in placements if p.tasks), started)


def on_its_way(adopted: Adopted) -> Adopted:
    """Return a workload that is leaving."""
    return replace(adopted, releasing=tuple((p.group, p.tasks) for p in adopted.placements))


# -- cases ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One moment and how it must go on."""

    name: str
    scenario: Scenario
    ends: str
    evicted: str | None = None
    moved: str | None = None
    first: str | None = None

    def check(self) -> None:
        """Check the first cycle, the end, and that five more cycles change nothing."""
        plan, _ = decide_once(self.scenario)
        self._check_first(plan)
        result = settle(self.scenario)
        assert result.is_settled, f"{self.name}: does not settle"
        check_starts(self.name, result.decisions)
        self._check_end(result.engine)
        for later in range(5):
            more = result.engine.decide(self.scenario.now + 1 + later)
            assert more.decisions == (), f"{self.name}: {more.decisions}"

    def _check_first(self, plan: Plan) -> None:
        gone = [d for d in plan.decisions if isinstance(d, Evict)]
        if self.evicted is not None:
            found = {(d.workload, d.cause) for d in gone if d.cause != "move"}
            wanted = [item.partition(":") for item in self.evicted.split()]
            assert {name for name, _ in found} == {name for name, _, _ in wanted}, (
                f"{self.name}: evicted {sorted(found)}"
            )
            for name, _, cause in wanted:
                assert not cause or (name, cause) in found, f"{self.name}: {sorted(found)}"
        if self.moved is not None:
            moved = {d.workload for d in gone if d.cause == "move"}
            assert moved == set(self.moved.split()), f"{self.name}: moved {sorted(moved)}"
        if self.first is not None:
            bound = {d.workload for d in plan.decisions if isinstance(d, Bind)}
            assert bound == set(self.first.split()), f"{self.name}: bound {sorted(bound)}"

    def _check_end(self, engine: Engine) -> None:
        running, _, waiting = self.ends.partition("|")
        where = places_of(engine)
        wanted = {}
        for item in running.split():
            name, _, rest = item.partition("@")
            name, _, count = name.partition(":")
            wanted[name] = (count, rest)
        assert set(where) == set(wanted), f"{self.name}: runs {where}"
        for name, (count, rest) in wanted.items():
            if count:
                assert sum(where[name].values()) == int(count), f"{self.name}: {name} {where}"
            if rest:
                assert where[name] == Counter(rest.split(",")), f"{self.name}: {where}"
        names = waiting.split()[1:]
        idle = [n for n, entry in engine.entries().items() if n not in where]
        assert sorted(idle) == sorted(names), f"{self.name}: waits {idle}"
        for name in names:
            assert engine.reasons(name), f"{self.name}: {name} waits and nobody says why"


def check_starts(name: str, decisions: Sequence[Decision]) -> None:
    """Check that nobody starts only to leave, nor leaves for one that does not start."""
    bound: set[tuple[str, str, int]] = set()
    owed: set[str] = set()
    for each in decisions:
        if isinstance(each, Bind):
            bound.update(each.spots)
            owed.discard(each.workload)
        elif isinstance(each, Evict) and each.beneficiary:
            assert not bound & set(each.spots), f"{name}: {each.workload} comes and goes"
            owed.add(each.beneficiary)
    assert not owed, f"{name}: others left for {sorted(owed)} in vain"


def places_of(engine: Engine) -> dict[str, Counter[str]]:
    """Return where the tasks of every workload are."""
    nodes = engine.books.nodes
    found: dict[str, Counter[str]] = {}
    for name, entry in engine.entries().items():
        rows = [m.rows[task] for m in entry.members.values() for task in m.staying()]
        if rows:
            found[name] = Counter(nodes[row].name for row in rows)
    return found


@dataclass
class Table:
    """Collects cases."""

    cases: list[Case] = field(default_factory=list)

    # wide: all that a case may say
    def __call__(
        self,
        name: str,
        *,
        nodes: str,
        queues: str,
        ends: str,
        running: str = "",
        waiting: str = "",
        evicted: str | None = "",
        moved: str | None = "",
        first: str | None = None,
        now: float = 1000.0,
        policy: Policy = KAI,
        memory: Memory = Memory(),
        more: tuple[Workload, ...] = (),
        busy: tuple[tuple[Workload, str], ...] = (),
    ) -> None:
        """Add a case; `more` and `busy` are workloads that the table cannot say."""
        topology, found = read_nodes(nodes)
        floor = Floor(found)
        read = [read_workload(text) for text in running.split("|") if text.strip()]
        read += [(workload, places.split(","), 0.0) for workload, places in busy]
        adopted = tuple(adopt(*each, floor) for each in read)
        out = [text.split()[0] for text in running.split("|") if "out" in text.split()]
        adopted = tuple(on_its_way(a) if a.workload.name in out else a for a in adopted)
        waits = [read_workload(text)[0] for text in waiting.split("|") if text.strip()]
        scenario = Scenario(
            now,
            topology,
            tuple(found),
            read_queues(queues),
            policy,
            (*waits, *more),
            adopted,
            memory,
        )
        self.cases.append(Case(name, scenario, ends, evicted, moved, first))
