"""The format as a JSON Schema. The reader takes the keys that it knows from here.

The schema says what a file may hold key by key; what keys mean together only the reader checks.
So every file that reads is valid here, and not the other way round.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from mooring.config.units import AMOUNT_MOST, COUNT_MOST, DURATION, QUANTITY
from mooring.model.mig import GEOMETRIES

Schema = dict[str, Any]
"""A JSON Schema is JSON: any."""

NAMES = (
    *("potential", "fgd", "best-fit", "dot-prod", "gpu-packing", "gpu-clustering", "first-fit"),
    *("binpack", "spread", "e-binpack", "e-spread"),
)
"""Scores that `small`, `gang` and `service` of a policy may name."""
DEVICE_NAMES = ("linked", "lowest")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
TOLERATION_OPERATORS = ("Equal", "Exists")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

NODES_MOST = 200_000
DEVICES_MOST = 62
"""Devices of a node: a set of them is a signed word of 64 bits."""
PRIORITY_MOST = (1 << 31) - 1
STEPS_MOST = 1_000_000_000
PORT_MOST = 65_535
SLICES_MOST = 3


def _say(words: str, schema: Schema) -> Schema:
    return {"description": words, **schema}


def _whole(least: int = 0, most: int = COUNT_MOST) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def _number(least: float = -AMOUNT_MOST, most: float = AMOUNT_MOST) -> Schema:
    return {"type": "number", "minimum": least, "maximum": most}


def _word(words: tuple[str, ...]) -> Schema:
    return {"enum": list(words)}


def _list(items: Schema, **more: int) -> Schema:
    return {"type": "array", "items": items, **more}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _object(properties: dict[str, Schema], *required: str) -> Schema:
    needed = {"required": list(required)} if required else {}
    return {
        "type": "object",
        "properties": properties,
        **needed,
        "additionalProperties": False,
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _bare_or(name: str) -> Schema:
    return {"anyOf": [_NAME, _ref(name)]}


_FLAG: Schema = {"type": "boolean"}
_TEXT: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "minLength": 1}
_LABELS = _map(_TEXT)
_QUANTITY: Schema = {
    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": f"^{QUANTITY}$"}]
}
_DURATION: Schema = {
    "anyOf": [_number(0), {"type": "string", "pattern": f"^{DURATION}$", "minLength": 2}]
}
_CPU = _say('cores, or millicores as "500m"', _QUANTITY)
_MEMORY = _say('bytes, as a rule with a suffix: "64Gi"; rounded up to MiB', _QUANTITY)
_RESOURCES = _say("any other resource: a whole amount", _map(_QUANTITY))

_AMOUNTS = {"cpu": _CPU, "memory": _MEMORY, "resources": _RESOURCES}
_TOPOLOGY = {
    "required": _say("all tasks inside one domain of this level", _NAME),
    "preferred": _say("as few domains of this level as there are", _NAME),
    "slices": _say("outermost first", _list(_ref("slice"), maxItems=SLICES_MOST)),
    "volume": _say("what each task sends per step", _QUANTITY),
}
_LEAF = {
    "tasks": _say("how many; or give min and max", _whole(1)),
    "min": _say("start together or not at all", _whole()),
    "max": _say("above min it is elastic", _whole(1)),
    **_AMOUNTS,
    "gpus": _say("devices, or MIG instances, of each task", _whole()),
    "milli": _say("thousandths of each device; 1000 is a whole one", _whole(1, 1000)),
    "gpu_memory": _say("memory of each device instead of thousandths", _QUANTITY),
    "mig": _say("MIG profile instead of thousandths", _NAME),
    "gpu_models": _say("GPU models that will do; none: any", _list(_NAME)),
    "selector": _say("labels that a node must have", _LABELS),
    "affinity": _say("any of these, each all of its clauses", _list(_list(_ref("requirement")))),
    "preferences": _say("node affinity that adds to a score", _list(_ref("preference"))),
    "tolerations": _list(_ref("toleration")),
    "labels": _say("what the terms of other tasks see", _LABELS),
    "near": _say("beside tasks with these labels", _list(_ref("term"))),
    "apart": _say("away from tasks with these labels", _list(_ref("term"))),
    "spread": _say("evenly over domains", _list(_ref("spread_term"))),
    "ports": _say("host ports", _list(_whole(1, PORT_MOST))),
}
_GROUPS = _say("pod groups; they may have groups themselves", _list(_ref("group"), minItems=1))

_CLUSTER_DEFS = {
    "topology": _object({"levels": _say("outermost first", _list(_bare_or("level")))}),
    "level": _object(
        {"name": _NAME, "bandwidth": _say("GB/s between its children", _number(0))}, "name"
    ),
    "node": _object(
        {
            "name": _say("with count, a pattern: {i} is the number", _NAME),
            "count": _say("as many such nodes", _whole(1, NODES_MOST)),
            "per": _say("with count, nodes per domain of each level", _map(_whole(1))),
            "path": _say("name of its domain at each level, outermost first", _list(_TEXT)),
            **_AMOUNTS,
            "pods": _say("most tasks; left out: no limit", _whole(1, AMOUNT_MOST)),
            "gpus": _say("so many equal devices", _whole(0, DEVICES_MOST)),
            "devices": _say("or one by one", _list(_ref("device"), maxItems=DEVICES_MOST)),
            "gpu_model": _NAME,
            "gpu_memory": _say("memory of each device", _QUANTITY),
            "mig": _say("MIG geometry of each device", _word(tuple(GEOMETRIES))),
            "island_size": _say("devices per NVLink island; left out: all", _whole(1)),
            "switch_size": _say("devices per PCIe switch; left out: all", _whole(1)),
            "numa_size": _say("devices per NUMA node; left out: all", _whole(1)),
            "labels": _LABELS,
            "taints": _list(_ref("taint")),
            "ready": _FLAG,
        }
    ),
    "device": _object(
        {
            "memory": _QUANTITY,
            "healthy": _FLAG,
            "island": _say("NVLink island", _whole()),
            "switch": _say("PCIe switch", _whole()),
            "numa": _say("NUMA node", _whole()),
            "nic": _whole(),
            "mig": _say("MIG geometry", _word(tuple(GEOMETRIES))),
        }
    ),
    "taint": _object({"key": _NAME, "value": _TEXT, "effect": _word(EFFECTS)}, "key"),
    "queue": _object({"name": _NAME, "parent": _NAME}, "name"),
    "policy": _object(
        {
            "small": _say("score for a single task below one node", _word(NAMES)),
            "gang": _say("placement of everything else", _word(NAMES)),
            "service": _say("placement of the replicas of a service", _word(NAMES)),
            "spread_within": _say("level inside one domain of which a service spreads", _NAME),
            "devices": _say("which devices of a node", _word(DEVICE_NAMES)),
            "search_steps": _say("bound of a search", _whole(1, STEPS_MOST)),
            "mix_half_life_s": _say("how fast the learnt mix forgets", _DURATION),
            "mix_learns": _say("whether arrivals change the mix", _FLAG),
            "gang_grace_s": _say("how long a gang may be incomplete", _DURATION),
        }
    ),
}
_WORKLOAD_DEFS = {
    "workload": _object(
        {
            "name": _NAME,
            "queue": _NAME,
            "priority": _whole(-PRIORITY_MOST, PRIORITY_MOST),
            "submitted_at": _number(),
            "service": _say("replicas that serve and never end", _FLAG),
            "preemptible": _FLAG,
            "run_limit": _DURATION,
            "estimate": _DURATION,
            "minimum_run": _DURATION,
            "checkpoint_at": _number(),
            "restart_cost": _DURATION,
            "running": _say("it runs already", _FLAG),
            "started_at": _number(),
            "placements": _say("where it runs", _list(_ref("placement"))),
            "finished": _say("tasks that are done", _list(_ref("finished"))),
            "groups": _GROUPS,
            **_LEAF,
            **_TOPOLOGY,
        },
        "name",
    ),
    "group": _object({"name": _NAME, "groups": _GROUPS, **_LEAF, **_TOPOLOGY}, "name"),
    "slice": _object({"level": _NAME, "size": _whole(1)}, "level", "size"),
    "requirement": _object(
        {"key": _NAME, "operator": _word(OPERATORS), "values": _list(_TEXT)}, "key"
    ),
    "preference": _object(
        {"weight": _whole(1), "clauses": _list(_ref("requirement"), minItems=1)},
        "weight",
        "clauses",
    ),
    "toleration": _object(
        {
            "key": _NAME,
            "operator": _word(TOLERATION_OPERATORS),
            "value": _TEXT,
            "effect": _word(EFFECTS),
        }
    ),
    "term": _object(
        {"level": _NAME, "labels": _LABELS, "weight": _say("0: required", _whole())},
        "level",
        "labels",
    ),
    "spread_term": _object(
        {"level": _NAME, "labels": _LABELS, "skew": _whole(1), "required": _FLAG},
        "level",
        "labels",
    ),
    "placement": _object(
        {
            "group": _say("left out: main", _NAME),
            "tasks": _say("left out: 0, 1, 2 …", _list(_whole())),
            "nodes": _say("one a task", _list(_NAME, minItems=1)),
            "devices": _say(
                "one list a task: indices, or [device, first memory slice] for MIG",
                _list(_list({"anyOf": [_whole(), _list(_whole(), minItems=2, maxItems=2)]})),
            ),
        },
        "nodes",
    ),
    "finished": _object(
        {"group": _say("left out: main", _NAME), "tasks": _list(_whole(), minItems=1)}, "tasks"
    ),
    "memory": _object(
        {
            "mix": _say("how often each type was asked for", _list(_ref("task_type"))),
            "arrivals": _whole(0, AMOUNT_MOST),
            "mix_at": _number(),
        }
    ),
    "task_type": _object(
        {
            "count": _number(0),
            **_AMOUNTS,
            "gpus": _whole(),
            "milli": _whole(0, 1000),
            "gpu_models": _list(_NAME),
        },
        "count",
    ),
}
_DEFS = {**_CLUSTER_DEFS, **_WORKLOAD_DEFS}
_TOP = _object(
    {
        "now": _say("seconds", _number()),
        "topology": _ref("topology"),
        "nodes": _list(_ref("node"), maxItems=NODES_MOST),
        "queues": _list(_bare_or("queue")),
        "policy": _ref("policy"),
        "workloads": _list(_ref("workload")),
        "memory": _say("what the engine must not forget", _ref("memory")),
    }
)

KEYS: dict[str, tuple[str, ...]] = {
    name: tuple(definition["properties"])
    for name, definition in {**_DEFS, "scenario": _TOP}.items()
}
"""The keys that each kind of mapping may have."""
LEAF_KEYS = tuple(_LEAF)
"""Keys of a group that has tasks, besides its name and topology."""


def scenario_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of scenario files."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Mooring scenario",
        **deepcopy(_TOP),
        "$defs": deepcopy(_DEFS),
    }
