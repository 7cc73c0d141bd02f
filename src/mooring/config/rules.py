"""The words of queues and policies, and their JSON schema."""

from __future__ import annotations

from mooring.config.forms import (
    BOUND,
    DURATION,
    EFFECTS,
    FLAG,
    LABELS,
    NAME,
    PRIORITY,
    STEPS,
    TEXT,
    WEIGHT,
    Schema,
    bare_or,
    list_of,
    map_of,
    number,
    object_of,
    ref,
    say,
    whole,
    word_of,
)

NAMES = (
    *("potential", "fgd", "best-fit", "dot-prod", "gpu-packing", "gpu-clustering", "first-fit"),
    *("binpack", "spread", "e-binpack", "e-spread"),
)
"""Scores that `small`, `gang` and `service` of a policy may name."""
DEVICE_NAMES = ("linked", "lowest")
DEFAULT, KAI, KUEUE = "default", "kai", "kueue"
PROFILES = (DEFAULT, KAI, KUEUE)
KEYS_OF_LINE = ("age", "estimate")
ORDERS = ("strict", "best-effort", "backfill", "easy", "conservative")
STOPS = ("hold", "drain")
NEVER = "never"
NEXT = "next"
AT_A_PRICE = ("stop", NEXT)
PREFERENCES = ("borrowing", "preempting")
WITHIN_QUEUE = (NEVER, "lower-priority", "lower-or-newer")
RECLAIM = (NEVER, "lower-priority", "any")
WHILE_BORROWING = (NEVER, "lower-priority")
STRATEGIES = (("final-share",), ("initial-share",), ("final-share", "initial-share"))
CAUSES = (
    *("preempt", "quota", "fair-share", "leximin", "overtaker", "quantum", "headroom", "move"),
)
"""Why work is evicted for another's sake: what may have a minimum run time."""
MINIMUM_RUN_BY = ("lca", "queue")
UNDECLARED = ("block", "ignore")
CHOICES = (
    *(*NAMES, *DEVICE_NAMES, *PROFILES, *ORDERS, *KEYS_OF_LINE, *STOPS, *AT_A_PRICE, *PREFERENCES),
    *(*WITHIN_QUEUE, *RECLAIM, *WHILE_BORROWING, *STRATEGIES[-1], *CAUSES, *MINIMUM_RUN_BY),
    *UNDECLARED,
)
"""Every word that a file may choose."""

_TOPOLOGY_DEFS = {
    "topology": object_of({"levels": say("outermost first", list_of(bare_or("level")))}),
    "level": object_of(
        {
            "name": NAME,
            "bandwidth": say("GB/s between its children", number(0)),
            "label": say("node label that names its domains; left out: a customary one", NAME),
        },
        "name",
    ),
}
_QUEUE_DEFS = {
    "quota": object_of(
        {
            "resource": say("gpu, cpu, memory, pods or any other", NAME),
            "flavor": say("left out: all flavors together", NAME),
            "quota": say("guaranteed; -1 or unlimited: no bound; left out: 0", BOUND),
            "limit": say("most that is used here and below; left out: no limit", BOUND),
            "weight": say("claim on what is left over; left out: that of the queue", WEIGHT),
            "borrowing_limit": say("most that is used above quota", BOUND),
            "lending_limit": say("most of its quota that others may use", BOUND),
        },
        "resource",
    ),
    "resource_group": object_of(
        {
            "resources": say("always charged to one flavor", list_of(NAME, minItems=1)),
            "flavors": say("in the order in which they are tried", list_of(NAME, minItems=1)),
        },
        "resources",
        "flavors",
    ),
    "fungibility": object_of(
        {
            "when_borrowing": say("at a flavor that fits by borrowing", word_of(AT_A_PRICE)),
            "when_preempting": say("at a flavor that fits by eviction", word_of(AT_A_PRICE)),
            "prefer": say("what to do first where both are next", word_of(PREFERENCES)),
        }
    ),
    "eviction_rules": object_of(
        {
            "within_queue": say("whom to evict of the own queue", word_of(WITHIN_QUEUE)),
            "reclaim": say("whom to evict of others to end within quota", word_of(RECLAIM)),
            "while_borrowing": say("the same to end above quota", word_of(WHILE_BORROWING)),
            "borrowing_threshold": say("most priority of victims while borrowing", PRIORITY),
        }
    ),
    "queue": object_of(
        {
            "name": NAME,
            "parent": say("the queue above; left out: it is a root", NAME),
            "quotas": say("one entry a (flavor, resource)", list_of(ref("quota"))),
            "groups": say("resources that keep to one flavor", list_of(ref("resource_group"))),
            "fungibility": ref("fungibility"),
            "weight": say("claim on what is left over", WEIGHT),
            "priority": say("higher gets surplus first", PRIORITY),
            "order": say("left out: as the queue above, else best-effort", word_of(ORDERS)),
            "by": say("who goes first among equals; left out: age", word_of(KEYS_OF_LINE)),
            "by_usage": say("the queues below stand in line by what they used", FLAG),
            "eviction": ref("eviction_rules"),
            "preempt_minimum_run": say("left out: as the queue above says", DURATION),
            "reclaim_minimum_run": say("left out: as the queue above says", DURATION),
            "run_limit": say("most that a workload may run", DURATION),
            "stop": say("nothing starts; drain: besides, what runs leaves", word_of(STOPS)),
            "namespaces": say("who may use it; left out: everybody", list_of(TEXT)),
            "users": say("who may use it; left out: everybody", list_of(TEXT)),
            "local": say("no quota: it stands in the line of the queue above", FLAG),
            "bypass_limit": say("how many may start before one that waits", whole()),
            "created_at": number(),
        },
        "name",
    ),
}
_SECTION_DEFS = {
    "flavor": object_of(
        {
            "name": NAME,
            "labels": say("all nodes with these labels", LABELS),
            "taints": say("what a task must tolerate", list_of(ref("taint"))),
            "price": say("what one device is worth", {"type": "number", "exclusiveMinimum": 0}),
        },
        "name",
    ),
    "taint": object_of({"key": NAME, "value": TEXT, "effect": word_of(EFFECTS)}, "key"),
    "fairness": object_of(
        {
            "half_life": say("how fast the history of use fades", DURATION),
            "window": say("how far back history goes", DURATION),
            "history_weight": say("how much history corrects the weights", WEIGHT),
            "strategies": say("profile kueue", {"enum": [list(one) for one in ((), *STRATEGIES)]}),
            "usage_half_life": say("of the usage that by_usage orders by", DURATION),
            "usage_sampling": DURATION,
            "usage_weights": say("per resource; left out: 1", map_of(WEIGHT)),
        }
    ),
    "eviction": object_of(
        {
            "minimum_run": say("per cause, how long work is left alone", ref("minimum_run")),
            "preempt_minimum_run": say("profile kai: where no queue says how long", DURATION),
            "reclaim_minimum_run": say("profile kai: where no queue says how long", DURATION),
            "minimum_run_by": say("profile kai: whose minimum protects", word_of(MINIMUM_RUN_BY)),
            "steps": say("bound of a search for victims", STEPS),
            "movers": say("most workloads moved to make room for one; -1: any number", whole(-1)),
            "restart": say("what a restart costs where nothing is said", DURATION),
            "hold": say("how long freed room is kept", DURATION),
            "saturation": say("profile kai: multiplier of who reclaims", WEIGHT),
            "consolidates": FLAG,
            "notice": say("how long before its run limit a workload is told", DURATION),
            "leave": say("how long evicted work takes where nothing is said", DURATION),
            "patience": say("how long room that should become free is waited for", DURATION),
        }
    ),
    "minimum_run": object_of(dict.fromkeys(CAUSES, DURATION)),
    "backfill": object_of(
        {
            "reservations": say("blocked workloads per flavor with room reserved", whole()),
            "quantum": say("work from which on one lets others by", DURATION),
            "quantum_evictions": say("how often that may happen to a workload", whole()),
            "patience": say("how long one waits for room behind one without rights", DURATION),
            "longest_patience": say("how long one does so behind one with rights", DURATION),
        }
    ),
    "failure": object_of(
        {
            "restarts": say("after failures; left out: always", whole()),
            "node_failures": say("from so many on a node is avoided", whole(1)),
            "node_window": DURATION,
        }
    ),
    "defragmentation": object_of(
        {
            "automatic": FLAG,
            "ratio": say("least benefit over cost, in GPU-hours", WEIGHT),
            "budget": say("GPU-hours that may be lost a day", WEIGHT),
            "moves": whole(),
        }
    ),
    "headroom": object_of(
        {
            "queue": say("whom it is promised to", NAME),
            "gpus": say("so many devices", whole(1)),
            "within": say("so soon", DURATION),
            "flavor": say("left out: of any flavor", NAME),
        },
        "queue",
        "gpus",
        "within",
    ),
}
_OLD = {**say("the same without _s", DURATION), "deprecated": True}
_POLICY: dict[str, Schema] = {
    "profile": say("who is next, who is charged, who makes room", word_of(PROFILES)),
    "flavors": say("named kinds of nodes", list_of(bare_or("flavor"))),
    "priority_classes": say("name: priority", map_of(PRIORITY)),
    "fairness": ref("fairness"),
    "eviction": ref("eviction"),
    "backfill": ref("backfill"),
    "failure": ref("failure"),
    "defragmentation": ref("defragmentation"),
    "headroom": say("devices that are there soon", list_of(ref("headroom"))),
    "undeclared": say("profile kueue: requests without any quota", word_of(UNDECLARED)),
    "small": say("score for a single task below one node", word_of(NAMES)),
    "rest": say("the same beside other groups of its workload", word_of(NAMES)),
    "gang": say("placement of everything else", word_of(NAMES)),
    "service": say("placement of the replicas of a service", word_of(NAMES)),
    "spread_within": say("level inside one domain of which a service spreads", NAME),
    "devices": say("which devices of a node", word_of(DEVICE_NAMES)),
    "search_steps": say("bound of a search", STEPS),
    "mix_half_life": say("how fast the learnt mix forgets", DURATION),
    "mix_learns": say("whether arrivals change the mix", FLAG),
    "gang_grace": say("how long a gang may be incomplete", DURATION),
    "mix_half_life_s": _OLD,
    "gang_grace_s": _OLD,
}
RULE_DEFS: dict[str, Schema] = {
    **_TOPOLOGY_DEFS,
    **_QUEUE_DEFS,
    **_SECTION_DEFS,
    "policy": object_of(_POLICY),
}
RULE_KEYS: dict[str, Schema] = {
    "topology": ref("topology"),
    "queues": list_of(bare_or("queue")),
    "policy": ref("policy"),
}
"""What a policy file may hold, and a scenario too."""
