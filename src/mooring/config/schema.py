"""The format as a JSON Schema. The reader takes the keys that it knows from here.

The schema says what a file may hold key by key; what keys mean together only the reader checks.
So every file that reads is valid here, and not the other way round.
"""

from __future__ import annotations

from copy import deepcopy

from mooring.config.forms import (
    DURATION,
    EFFECTS,
    FLAG,
    LABELS,
    NAME,
    PRIORITY,
    QUANTITY,
    TEXT,
    Schema,
    list_of,
    map_of,
    number,
    object_of,
    ref,
    say,
    whole,
    word_of,
)
from mooring.config.rules import RULE_DEFS, RULE_KEYS
from mooring.config.units import AMOUNT_MOST
from mooring.model.mig import GEOMETRIES

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
TOLERATION_OPERATORS = ("Equal", "Exists", "Lt", "Gt")

PROTOCOLS = ("TCP", "UDP", "SCTP")

NODES_MOST = 200_000
DEVICES_MOST = 62
"""Devices of a node: a set of them is a signed word of 64 bits."""
PORT_MOST = 65_535
SLICES_MOST = 3


_CPU = say('cores, or millicores as "500m"', QUANTITY)
_MEMORY = say('bytes, as a rule with a suffix: "64Gi"; rounded up to MiB', QUANTITY)
_RESOURCES = say("any other resource: a whole amount", map_of(QUANTITY))

_AMOUNTS = {"cpu": _CPU, "memory": _MEMORY, "resources": _RESOURCES}
_TOPOLOGY = {
    "required": say("all tasks inside one domain of this level", NAME),
    "preferred": say("as few domains of this level as there are", NAME),
    "slices": say("outermost first", list_of(ref("slice"), maxItems=SLICES_MOST)),
    "volume": say("what each task sends per step", QUANTITY),
}
_LEAF = {
    "tasks": say("how many; or give min and max", whole(1)),
    "min": say("start together or not at all", whole()),
    "max": say("above min it is elastic", whole(1)),
    "partial": say("so few will do where min cannot be had", whole(1)),
    **_AMOUNTS,
    "gpus": say("devices, or MIG instances, of each task", whole()),
    "milli": say("thousandths of each device; 1000 is a whole one", whole(1, 1000)),
    "gpu_memory": say("memory of each device instead of thousandths", QUANTITY),
    "mig": say("MIG profile instead of thousandths", NAME),
    "gpu_models": say("GPU models that will do; none: any", list_of(NAME)),
    "selector": say("labels that a node must have", LABELS),
    "affinity": say("any of these, each all of its clauses", list_of(list_of(ref("requirement")))),
    "preferences": say("node affinity that adds to a score", list_of(ref("preference"))),
    "tolerations": list_of(ref("toleration")),
    "labels": say("what the terms of other tasks see", LABELS),
    "near": say("beside tasks with these labels", list_of(ref("term"))),
    "apart": say("away from tasks with these labels", list_of(ref("term"))),
    "spread": say("evenly over domains", list_of(ref("spread_term"))),
    "ports": say("host ports, by TCP on all addresses", list_of(whole(1, PORT_MOST))),
    "host_ports": say("other host ports", list_of(ref("host_port"))),
}
_TERM = {
    "level": say("a level, or label/ and a node label", NAME),
    "labels": say("labels of the other tasks", LABELS),
    "clauses": say("what those labels must meet besides", list_of(ref("requirement"))),
}
_GRACE: Schema = {"anyOf": [*DURATION["anyOf"], {"enum": [-1, "never"]}]}
_GROUPS = say("pod groups; they may have groups themselves", list_of(ref("group"), minItems=1))

_CLUSTER_DEFS = {
    "node": object_of(
        {
            "name": say("with count, a pattern: {i} is the number", NAME),
            "count": say("as many such nodes", whole(1, NODES_MOST)),
            "per": say("with count, nodes per domain of each level", map_of(whole(1))),
            "path": say("name of its domain at each level, outermost first", list_of(TEXT)),
            **_AMOUNTS,
            "pods": say("most tasks; left out: no limit", whole(1, AMOUNT_MOST)),
            "gpus": say("so many equal devices", whole(0, DEVICES_MOST)),
            "devices": say("or one by one", list_of(ref("device"), maxItems=DEVICES_MOST)),
            "gpu_model": NAME,
            "gpu_memory": say("memory of each device", QUANTITY),
            "mig": say("MIG geometry of each device", word_of(tuple(GEOMETRIES))),
            "island_size": say("devices per NVLink island; left out: all", whole(1)),
            "switch_size": say("devices per PCIe switch; left out: all", whole(1)),
            "numa_size": say("devices per NUMA node; left out: all", whole(1)),
            "labels": LABELS,
            "taints": list_of(ref("taint")),
            "ready": FLAG,
        }
    ),
    "device": object_of(
        {
            "memory": QUANTITY,
            "healthy": FLAG,
            "island": say("NVLink island", whole()),
            "switch": say("PCIe switch", whole()),
            "numa": say("NUMA node", whole()),
            "nic": whole(),
            "mig": say("MIG geometry", word_of(tuple(GEOMETRIES))),
        }
    ),
}
_WORKLOAD_DEFS = {
    "workload": object_of(
        {
            "name": NAME,
            "queue": NAME,
            "priority": PRIORITY,
            "priority_class": say("instead of priority: a class of the policy", NAME),
            "submitted_at": number(),
            "service": say("replicas that serve and never end", FLAG),
            "preemptible": FLAG,
            "semi_preemptible": say("only what is above its minimum may be evicted", FLAG),
            "active": say("false: it does not start, and stops if it runs", FLAG),
            "namespace": NAME,
            "user": NAME,
            "run_limit": DURATION,
            "estimate": DURATION,
            "minimum_run": DURATION,
            "checkpoint_at": say("when it last saved its work", number()),
            "checkpoint_every": say("how often it saves its work while it runs", DURATION),
            "restart_cost": DURATION,
            "deadline_at": say("when it should be done", number()),
            "preemption_delay": say("so long it makes nobody leave", DURATION),
            "grace": say("how long it may be incomplete", _GRACE),
            "leave": say("how long it takes to leave", DURATION),
            "running": say("it runs already", FLAG),
            "started_at": number(),
            "running_since": say("when all of its minimum ran", number()),
            "placements": say("where it runs; left out: anywhere", list_of(ref("placement"))),
            "flavors": say(
                "what it is charged to: a flavor, or by resource, or by group and resource",
                {
                    "anyOf": [
                        NAME,
                        {"type": "object", "additionalProperties": {"anyOf": [NAME, map_of(NAME)]}},
                    ]
                },
            ),
            "finished": say("tasks that are done", list_of(ref("some_tasks"))),
            "starting": say("tasks that do not run yet", list_of(ref("some_tasks"))),
            "releasing": say("tasks that are on their way out", list_of(ref("some_tasks"))),
            "groups": _GROUPS,
            **_LEAF,
            **_TOPOLOGY,
        },
        "name",
    ),
    "group": object_of(
        {
            "name": NAME,
            "groups": _GROUPS,
            "needed": say("how many of its groups must be there; left out: all", whole(1)),
            **_LEAF,
            **_TOPOLOGY,
        },
        "name",
    ),
    "slice": object_of({"level": NAME, "size": whole(1)}, "level", "size"),
    "requirement": object_of(
        {"key": NAME, "operator": word_of(OPERATORS), "values": list_of(TEXT)}, "key"
    ),
    "preference": object_of(
        {"weight": whole(1), "clauses": list_of(ref("requirement"), minItems=1)},
        "weight",
        "clauses",
    ),
    "toleration": object_of(
        {
            "key": NAME,
            "operator": word_of(TOLERATION_OPERATORS),
            "value": TEXT,
            "effect": word_of(EFFECTS),
        }
    ),
    "term": object_of({**_TERM, "weight": say("0: required", whole())}, "level"),
    "spread_term": object_of(
        {
            **_TERM,
            "skew": whole(1),
            "required": FLAG,
            "min_domains": say("with fewer domains the emptiest counts as empty", whole()),
            "heed_selectors": say("false: also over nodes that it does not select", FLAG),
            "heed_taints": say("false: also over nodes that it does not tolerate", FLAG),
        },
        "level",
    ),
    "host_port": object_of(
        {
            "port": whole(1, PORT_MOST),
            "protocol": word_of(PROTOCOLS),
            "address": say("left out: on all addresses of the node", TEXT),
        },
        "port",
    ),
    "placement": object_of(
        {
            "group": say("left out: main", NAME),
            "tasks": say("left out: 0, 1, 2 …", list_of(whole())),
            "nodes": say("one a task", list_of(NAME, minItems=1)),
            "devices": say(
                "one list a task: indices, or [device, first memory slice] for MIG",
                list_of(list_of({"anyOf": [whole(), list_of(whole(), minItems=2, maxItems=2)]})),
            ),
        },
        "nodes",
    ),
    "some_tasks": object_of(
        {"group": say("left out: main", NAME), "tasks": list_of(whole(), minItems=1)}, "tasks"
    ),
    "memory": {
        "type": "object",
        "properties": {
            "mix": say("how often each type was asked for", list_of(ref("task_type"))),
            "arrivals": whole(0, AMOUNT_MOST),
            "mix_at": number(),
        },
        "additionalProperties": say("any other field of the memory, as in the journal", {}),
    },
    "task_type": object_of(
        {
            "count": number(0),
            **_AMOUNTS,
            "gpus": whole(),
            "milli": whole(0, 1000),
            "gpu_models": list_of(NAME),
        },
        "count",
    ),
}
_DEFS = {
    **_CLUSTER_DEFS,
    **RULE_DEFS,
    **_WORKLOAD_DEFS,
}
_SCENARIO = object_of(
    {
        "now": say("seconds", number()),
        "nodes": list_of(ref("node"), maxItems=NODES_MOST),
        **RULE_KEYS,
        "workloads": list_of(ref("workload")),
        "memory": say("what the engine must not forget", ref("memory")),
    }
)
_POLICY_FILE = object_of(RULE_KEYS)

KEYS: dict[str, tuple[str, ...]] = {
    name: tuple(definition["properties"])
    for name, definition in {**_DEFS, "scenario": _SCENARIO, "policy_file": _POLICY_FILE}.items()
}
"""The keys that each kind of mapping may have."""
LEAF_KEYS = tuple(_LEAF)
"""Keys of a group that has tasks, besides its name and topology."""


def scenario_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of scenario files."""
    return _file("Mooring scenario", _SCENARIO, _DEFS)


def policy_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of policy files."""
    return _file("Mooring policy", _POLICY_FILE, RULE_DEFS)


def _file(title: str, top: Schema, definitions: dict[str, Schema]) -> Schema:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **deepcopy(top),
        "$defs": deepcopy(definitions),
    }
