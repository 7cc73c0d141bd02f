"""A small language for cases of profile `kueue`: queues, what runs, what waits, what becomes of it.

    queues    co
              a < co   cpu=6 spot/cpu=4+2^3   reclaim=any within=lower-priority
    running   a1 a cpu=4 prio=1 at=5 on=spot
    waiting   b1 b cpu=3

`4+2^3`: quota 4, borrowing limit 2, lending limit 3. Amounts are cores and devices. Every flavor
has one huge node of its name; `nodes` gives others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mooring.engine import Engine
from mooring.model.cluster import Device, Node, Taint
from mooring.model.events import Adopted
from mooring.model.memory import Memory
from mooring.model.plan import Bind, Decision, Evict
from mooring.model.queues import EvictionRules, Flavor, Fungibility, Queue, Quota, ResourceGroup
from mooring.model.resources import amounts
from mooring.model.scenario import Scenario
from mooring.model.settings import Fairness, Policy
from mooring.model.topology import Level, Topology
from mooring.model.workload import (
    Placement,
    PodGroup,
    Shape,
    Slice,
    TopologyRequest,
    Workload,
)
from mooring.sim.settle import decide_once, settle

if TYPE_CHECKING:
    from mooring.model.plan import Reason

UNITS = {"cpu": 1000, "gpu": 1000, "memory": 1024}
DEFAULT = "default"
HUGE = 1_000_000


def lines(text: str) -> list[str]:
    """Return the lines of a text that say something."""
    return [line.strip() for line in text.strip().splitlines() if line.strip()]


# -- queues -----------------------------------------------------------------------------------


def queues_of(text: str) -> tuple[Queue, ...]:
    """Read queues, one a line."""
    return tuple(_queue(line) for line in lines(text))


def _queue(line: str) -> Queue:
    head, *words = line.split()
    parent, is_local = "", False
    if words and words[0] in ("<", "<<"):
        is_local = words[0] == "<<"
        parent, words = words[1], words[2:]
    given = [word.partition("=")[::2] for word in words]
    rules = {key: value for key, value in given if key in _RULES}
    quotas = tuple(_quota(key, value) for key, value in given if key not in _RULES)
    evicts = EvictionRules(
        rules.get("within", ""),
        rules.get("reclaim", ""),
        rules.get("borrowing", ""),
        int(rules["threshold"]) if "threshold" in rules else None,
    )
    fungible = Fungibility(
        rules.get("when_borrowing", "stop"),
        rules.get("when_preempting", "next"),
        rules.get("prefer", "borrowing"),
    )
    return Queue(
        head,
        parent,
        quotas,
        groups=_groups(rules.get("groups", "")),
        fungibility=fungible,
        weight=float(rules.get("weight", 1)),
        order=rules.get("order", ""),
        by_usage="by_usage" in rules,
        eviction=evicts,
        stop=rules.get("stop", ""),
        namespaces=tuple(rules["namespaces"].split(",")) if "namespaces" in rules else None,
        local=is_local,
    )


_RULES = (
    *("within", "reclaim", "borrowing", "threshold", "when_borrowing", "when_preempting"),
    *("prefer", "weight", "order", "by_usage", "stop", "namespaces", "groups"),
)


def _groups(text: str) -> tuple[ResourceGroup, ...]:
    """Read `cpu,memory:default;gpu:a,b`."""
    found = []
    for part in filter(None, text.split(";")):
        resources, _, flavors = part.partition(":")
        found.append(ResourceGroup(tuple(resources.split(",")), tuple(flavors.split(","))))
    return tuple(found)


def _quota(key: str, value: str) -> Quota:
    flavor, _, resource = key.rpartition("/")
    unit = UNITS.get(resource, 1)
    value, _, lends = value.partition("^")
    value, _, borrows = value.partition("+")
    return Quota(
        resource,
        flavor or DEFAULT,
        int(value) * unit,
        borrowing_limit=int(borrows) * unit if borrows else None,
        lending_limit=int(lends) * unit if lends else None,
    )


# -- workloads --------------------------------------------------------------------------------

_FACTS = (
    *("prio", "at", "on", "tasks", "partial", "required", "preferred", "slices", "ns"),
    *("inactive", "fixed", "groups", "leaving", "since"),
)


@dataclass(frozen=True)
class Line:
    """One workload of a case."""

    workload: Workload
    nodes: tuple[str, ...]
    since: float
    is_leaving: bool

    @property
    def adopted(self) -> Adopted:
        placements, taken = [], dict.fromkeys(self.nodes, 0)
        groups = list(self.workload.leaves())
        nodes = list(self.nodes)
        for group in groups:
            count = len(nodes) if len(groups) == 1 else group.min
            some, nodes = nodes[:count], nodes[count:]
            masks = []
            for node in some:
                masks.append((1 << group.shape.gpus) - 1 << taken[node])
                taken[node] += group.shape.gpus
            placements.append(Placement(group.name, tuple(range(count)), tuple(some), tuple(masks)))
        out = tuple((p.group, p.tasks) for p in placements) if self.is_leaving else ()
        return Adopted(self.workload, tuple(placements), self.since, (), out)


def workload_of(line: str, **more: object) -> Line:
    """Read `name queue cpu=3 gpu=1 tasks=2 prio=1 at=5 on=node`."""
    name, queue, *words = line.split()
    given = dict(word.partition("=")[::2] for word in words)
    facts = {key: value for key, value in given.items() if key in _FACTS}
    asks = {key: int(value) for key, value in given.items() if key not in _FACTS}
    shape = Shape(
        amounts({key: n * UNITS.get(key, 1) for key, n in asks.items() if key != "gpu"}),
        gpus=asks.get("gpu", 0),
        **more,  # type: ignore[arg-type]
    )
    slices = [each.split(":") for each in filter(None, facts.get("slices", "").split(","))]
    request = TopologyRequest(
        facts.get("required", ""),
        facts.get("preferred", ""),
        tuple(Slice(level, int(size)) for level, size in slices),
    )
    tasks, at = int(facts.get("tasks", 1)), float(facts.get("at", 0))
    group = PodGroup("main", shape, tasks, 0, request, partial=int(facts.get("partial", 0)))
    workload = Workload(
        name,
        (group,),
        queue,
        int(facts.get("prio", 0)),
        at,
        preemptible="fixed" not in facts,
        namespace=facts.get("ns", ""),
        active="inactive" not in facts,
    )
    nodes = tuple(facts.get("on", DEFAULT).split(","))
    nodes = nodes * tasks if len(nodes) == 1 else nodes
    return Line(workload, nodes, float(facts.get("since", at)), "leaving" in facts)


# -- cases ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A moment, and how it ends."""

    queues: str
    running: str = ""
    waiting: str = ""
    flavors: tuple[Flavor, ...] = ()
    nodes: tuple[Node, ...] = ()
    levels: str = ""
    policy: Policy = Policy(profile="kueue")
    fair: str = ""
    memory: Memory = Memory()
    now: float = 100.0
    more_waiting: Sequence[Workload] = field(default=())
    more_running: Sequence[Adopted] = field(default=())

    def scenario(self) -> Scenario:
        """Return the case as a scenario."""
        queues = queues_of(self.queues)
        names = dict.fromkeys(quota.flavor for queue in queues for quota in queue.quotas)
        flavors = self.flavors or tuple(Flavor(n, (("flavor", n),)) for n in names)
        policy = replace(self.policy, flavors=flavors)
        if self.fair:
            policy = replace(policy, fairness=Fairness(strategies=tuple(self.fair.split("+"))))
        return Scenario(
            self.now,
            Topology(tuple(Level(name) for name in self.levels.split())),
            self.nodes or tuple(_node_of(flavor) for flavor in flavors),
            queues,
            policy,
            (*(workload_of(line).workload for line in lines(self.waiting)), *self.more_waiting),
            (*(workload_of(line).adopted for line in lines(self.running)), *self.more_running),
            self.memory,
        )

    def decide(self) -> End:
        """Decide once."""
        scenario = self.scenario()
        plan, engine = decide_once(scenario)
        return End(engine, plan.decisions)

    def settle(self) -> End:
        """Decide until it rests."""
        result = settle(self.scenario())
        assert result.is_settled, f"does not settle: {result.repeats}"
        return End(result.engine, result.decisions)


def _node_of(flavor: Flavor) -> Node:
    capacity = {"cpu": HUGE, "memory": HUGE, "other": HUGE}
    return Node(
        flavor.name,
        amounts(capacity),
        flavor.labels,
        flavor.taints,
        devices=(Device(),) * 60,
    )


@dataclass(frozen=True)
class End:
    """What came of a case."""

    engine: Engine
    decisions: Sequence[Decision]

    @property
    def starts(self) -> str:
        """Return who was started, in order of names: `a b@spot`."""
        found = {}
        for decision in self.decisions:
            if isinstance(decision, Bind):
                flavor = decision.flavor
                found[decision.workload] = f"@{flavor}" if flavor not in ("", DEFAULT) else ""
        return " ".join(f"{name}{flavor}" for name, flavor in sorted(found.items()))

    @property
    def evicts(self) -> str:
        """Return who was evicted and why: `a:quota b:preempt`."""
        found = {d.workload: d.cause for d in self.decisions if isinstance(d, Evict)}
        return " ".join(f"{name}:{cause}" for name, cause in sorted(found.items()))

    @property
    def runs(self) -> str:
        """Return who runs, in order of names."""
        return " ".join(sorted(self.engine.running()))

    @property
    def waits(self) -> str:
        """Return who waits, in order of names."""
        return " ".join(sorted(self.engine.waiting()))

    def nodes(self, name: str, group: str = "main") -> str:
        """Return where a workload's tasks are: `x1=2 x2=1`."""
        members = self.engine.entries()[name].members[group]
        books = self.engine.books
        found: dict[str, int] = {}
        for task in members.staying():
            node = books.nodes[members.rows[task]].name
            found[node] = found.get(node, 0) + 1
        return " ".join(f"{node}={count}" for node, count in sorted(found.items()))

    def tasks(self, name: str) -> int:
        """Return how many tasks of a workload run."""
        members = self.engine.entries()[name].members.values()
        return sum(len(each.staying()) for each in members)

    def why(self, name: str) -> tuple[Reason, ...]:
        """Return why a workload waits."""
        return self.engine.reasons(name)


def flavor(name: str, taint: str = "", **labels: str) -> Flavor:
    """Return a flavor with a label of its name, or with these labels."""
    given = tuple(sorted(labels.items())) or (("flavor", name),)
    taints = (Taint(taint),) if taint else ()
    return Flavor(name, given, taints)
