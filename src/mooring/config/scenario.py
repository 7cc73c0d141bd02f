"""A scenario file: everything, from text to values. And a policy file, which is part of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mooring.config.files import load, read_from, read_text
from mooring.config.known import Known
from mooring.config.memory import read_memory
from mooring.config.nodes import Cluster, read_nodes
from mooring.config.policy import read_headroom
from mooring.config.policy import read_policy as read_policy_section
from mooring.config.queues import queues_below, read_queues
from mooring.config.schema import KEYS
from mooring.config.units import instant, name, number
from mooring.config.unused import find_unused
from mooring.config.workloads import WorkloadReader
from mooring.model.queues import DEFAULT_QUEUE, Queue
from mooring.model.scenario import Scenario
from mooring.model.settings import Policy
from mooring.model.topology import CLUSTER, NODE, Level, Topology

if TYPE_CHECKING:
    import os
    from typing import BinaryIO

    from mooring.config.reader import Cursor, Fields


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """What somebody who runs a cluster decides, and not what happens to be in it."""

    topology: Topology = Topology()
    queues: tuple[Queue, ...] = (DEFAULT_QUEUE,)
    policy: Policy = Policy()


def read_scenario(text: str, source: str = "") -> Scenario:
    """Return the scenario that a YAML or JSON text holds; raise `ConfigError` with all mistakes."""
    return read_text(text, source, _read_scenario)


def load_scenario(path: str | os.PathLike[str]) -> Scenario:
    """Return the scenario in a file."""
    return load(path, _read_scenario)


def read_scenario_from(file: BinaryIO, source: str) -> Scenario:
    """Return the scenario in an open file, of which no more is read than a scenario may have."""
    return read_from(file, source, _read_scenario)


def read_policy(text: str, source: str = "policy") -> PolicyFile:
    """Return the policy that a YAML or JSON text holds; raise `ConfigError` with all mistakes."""
    return read_text(text, source, _read_policy_file)


def load_policy(path: str | os.PathLike[str]) -> PolicyFile:
    """Return the policy in a file."""
    return load(path, _read_policy_file)


def _read_scenario(cursor: Cursor) -> Scenario:
    fields = cursor.fields(KEYS["scenario"])
    topology = _read_topology(fields)
    levels = tuple(level.name for level in topology.levels)
    known = _read_rules(fields, topology, read_nodes(fields, levels))
    workloads = WorkloadReader(known)
    for item in fields.items("workloads"):
        workloads.read(item)
    return Scenario(
        now=fields.take("now", instant, 0.0),
        topology=topology,
        nodes=tuple(known.cluster.nodes),
        queues=tuple(known.queues.values()),
        policy=known.policy,
        waiting=tuple(workloads.waiting),
        running=tuple(workloads.running),
        memory=read_memory(fields),
    )


def _read_policy_file(cursor: Cursor) -> PolicyFile:
    fields = cursor.fields(KEYS["policy_file"])
    topology = _read_topology(fields)
    known = _read_rules(fields, topology, Cluster())
    return PolicyFile(topology, tuple(known.queues.values()), known.policy)


def _read_rules(fields: Fields, topology: Topology, cluster: Cluster) -> Known:
    """Read policy and queues: each names parts of the other."""
    known = Known({level: index for index, level in enumerate(topology.names)}, cluster)
    known = replace(known, policy=read_policy_section(fields, known))
    queues = read_queues(fields, known)
    known = replace(known, queues=queues, below=queues_below(queues))
    policy = replace(known.policy, headroom=read_headroom(fields, known))
    find_unused(fields, policy)
    return replace(known, policy=policy)


def _read_topology(fields: Fields) -> Topology:
    if "topology" not in fields:
        return Topology()
    levels: dict[str, Level] = {}
    for cursor in fields.at("topology").fields(KEYS["topology"]).items("levels"):
        if isinstance(cursor.value, dict):
            entry = cursor.fields(KEYS["level"])
            bandwidth = entry.take("bandwidth", number(0), 0.0)
            label = entry.take("label", name, "")
            level = Level(entry.need("name", name, ""), bandwidth, label)
        else:
            level = Level(cursor.take(name, ""))
        if level.name in levels:
            cursor.wrong("give another name: there is already such a level")
        elif level.name in (CLUSTER, NODE):
            cursor.wrong(f"give another name: {level.name} is a level of every topology")
        elif level.name:
            levels[level.name] = level
    return Topology(tuple(levels.values()))
