"""Every mistake is found, with the path of the value and what to do; all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mooring.config import ConfigError, Mistake, load_scenario, read_policy, read_scenario
from mooring.config.parse import FILE_MOST
from mooring.config.reader import MISTAKES_MOST, VALUES_MOST, Cursor, EnoughError, Notes

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = """
topology: {levels: [superpod, leaf]}
nodes:
  - {name: a, path: [s, l], cpu: 8, memory: 64Gi, pods: 3, gpus: 4, gpu_memory: 40Gi,
     gpu_model: H100}
  - {name: m, path: [s, l], cpu: 8, gpus: 2, mig: a100-40gb, gpu_model: A100}
  - {name: c, path: [s, k], cpu: 8, resources: {rdma: 2}}
"""


def mistakes(text: str) -> list[Mistake]:
    with pytest.raises(ConfigError) as caught:
        read_scenario(text)
    return list(caught.value.mistakes)


def workload(text: str) -> str:
    return f"{CLUSTER}workloads: [{{name: w, {text}}}]"


def running(shape: str, placement: str) -> str:
    return workload(f"{shape}, running: true, placements: [{{{placement}}}]")


def queue(text: str, more: str = "") -> str:
    return f"{CLUSTER}queues: [{{name: q, {text}}}]\n{more}"


def quota(text: str, more: str = "") -> str:
    return queue(f"quotas: [{{{text}}}]", more)


KUEUE = "policy: {profile: kueue}"

# file, path, part of the fix
TABLE: dict[str, tuple[str, str, str]] = {
    # the file
    "empty": ("", "", "the file is empty"),
    "only a comment": ("# nothing", "", "the file is empty"),
    "a list": ("[1]", "", "give a mapping"),
    "text": ("hello", "", "give a mapping"),
    "YAML syntax": ("now: 0\nnodes: [\n", "", "expected"),
    "JSON syntax": ('{"now": 0,\n "nodes" []}', "", "delimiter"),
    "two documents": ("now: 0\n---\nnow: 1", "", "second document"),
    "a tag": ("now: !!float 3", "", "not known"),
    "a python tag": ("now: !!python/object/apply:os.system [ls]", "", "not known"),
    "a tagged mapping": ("policy: !!set {a}", "", "not known"),
    "an alias of nothing": ("now: *a", "", "no anchor"),
    "a list as key": ("? [a]\n: 1", "", "key must be text"),
    "<< of a number": ("policy: {<<: 3}", "", "give a mapping"),
    "a control character": ("now: \x01", "", "not allowed"),
    "half a character": ("now: \ud800", "", "characters"),
    "nested in flow": ("nodes: " + "[" * 70 + "]" * 70, "", "64 deep"),
    "nested in block": ("- " * 70 + "x", "", "64 deep"),
    "nested in JSON": ('{"nodes": ' + "[" * 100_000, "", "too deeply"),
    "digits in JSON": ('{"now": ' + "1" * 5000 + "}", "", "too many digits"),
    "an unknown key": ("node: []", "node", "unknown key; did you mean 'nodes'?"),
    "a strange key": ("zzz: []", "zzz", "remove it: unknown key"),
    "a key twice": ("now: 0\nnow: 1", "now", "once"),
    "a key three times": ("now: 0\nnow: 1\nnow: 2", "now", "once"),
    "a key twice in JSON": ('{"now": 0, "now": 1}', "now", "once"),
    "an empty key": ("nodes: [{name: a, labels: {'': x}}]", "nodes[0].labels['']", "printable"),
    # single values
    "a number too large": ("now: 1e14", "now", "give a number from -2^40 to 2^40"),
    "a weight too large": (queue("weight: 1e14"), "queues[0].weight", "from 0 to 2^40"),
    "a word for a number": ("now: soon", "now", "a number"),
    "null": ("now:", "now", "a number"),
    "true for a number": ("now: true", "now", "a number"),
    "not a number": ("now: .nan", "now", "a number from"),
    "infinite": ("now: .inf", "now", "a number from"),
    "infinite in JSON": ('{"now": -Infinity}', "now", "a number from"),
    "huge": ("now: 1e300", "now", "a number from"),
    "very huge": (f"now: {'9' * 400}", "now", "a number from"),
    "very huge in JSON": (f'{{"now": {"9" * 400}}}', "now", "a number from"),
    "a date": (workload("queue: 2024-01-01"), "workloads[0].queue", "exists"),
    "a number for a text": (workload("queue: 3"), "workloads[0].queue", 'write "3"'),
    "a list for a text": (workload("queue: []"), "workloads[0].queue", "a text"),
    "an empty name": (workload("queue: ''"), "workloads[0].queue", "not empty"),
    "two lines": (workload('queue: "a\\nb"'), "workloads[0].queue", "one line"),
    "a long text": (workload(f"queue: {'x' * 2000}"), "workloads[0].queue", "shorter"),
    "half a character in JSON": ('{"queues": ["\\ud800"]}', "queues[0]", "printable"),
    "a mapping for a list": ("nodes: {}", "nodes", "a list"),
    "a list for a mapping": ("policy: []", "policy", "a mapping"),
    "text for a flag": (workload("service: 'yes'"), "workloads[0].service", "true or false"),
    "an old flag": (workload("service: yes"), "workloads[0].service", "true or false"),
    "a fraction": (workload("tasks: 1.5"), "workloads[0].tasks", "whole number"),
    "true for a count": (workload("tasks: true"), "workloads[0].tasks", "whole number"),
    "underscores": (workload("tasks: 1_000"), "workloads[0].tasks", "whole number"),
    "too many": (workload("tasks: 1000001"), "workloads[0].tasks", "to 1000000"),
    "cores as words": (workload("cpu: eight"), "workloads[0].cpu", "cores"),
    "negative cores": (workload("cpu: -1"), "workloads[0].cpu", "not less than 0"),
    "true for cores": (workload("cpu: true"), "workloads[0].cpu", "cores"),
    "cores not a number": (workload("cpu: .nan"), "workloads[0].cpu", "cores"),
    "too many cores": (workload("cpu: 2000000000000"), "workloads[0].cpu", "less"),
    "an unknown suffix": (workload("memory: 64GB"), "workloads[0].memory", "bytes"),
    "negative bytes": (workload("memory: -64Gi"), "workloads[0].memory", "bytes"),
    "too many bytes": (workload("memory: 2e30"), "workloads[0].memory", "less"),
    "half a thing": (
        workload("resources: {rdma: 500m}"),
        "workloads[0].resources.rdma",
        "whole number",
    ),
    "a duration in words": (workload("estimate: long"), "workloads[0].estimate", "2h"),
    "an empty duration": (workload("estimate: ''"), "workloads[0].estimate", "2h"),
    "units out of order": (workload("estimate: 1m2h"), "workloads[0].estimate", "2h"),
    "a duration without unit": (workload("estimate: '90'"), "workloads[0].estimate", "2h"),
    "a negative duration": (workload("restart_cost: -1"), "workloads[0].restart_cost", "negative"),
    "a negative run time": (workload("run_limit: -2h"), "workloads[0].run_limit", "like 90s"),
    "no run time": (workload("run_limit: 0"), "workloads[0].run_limit", "longer than 0"),
    # topology, queues, policy, memory
    "a level twice": ("topology: {levels: [a, a]}", "topology.levels[1]", "already"),
    "a level named node": ("topology: {levels: [node]}", "topology.levels[0]", "every topology"),
    "a level without name": (
        "topology: {levels: [{bandwidth: 1}]}",
        "topology.levels[0].name",
        "needed",
    ),
    "negative bandwidth": (
        "topology: {levels: [{name: a, bandwidth: -1}]}",
        "topology.levels[0].bandwidth",
        "from 0",
    ),
    "a queue twice": ("queues: [a, {name: a}]", "queues[1]", "already"),
    "a parent unknown": (
        "queues: [{name: team, parent: defalt}, default]",
        "queues[0].parent",
        "did you mean 'default'?",
    ),
    "cyclic queues": (
        "queues: [{name: a, parent: b}, {name: b, parent: a}]",
        "queues[0].parent",
        "cyclic queues, 'a' below 'b' below 'a'",
    ),
    "a cycle of three queues": (
        "queues: [{name: x, parent: b}, {name: a, parent: c}, {name: b, parent: a}, "
        "{name: c, parent: b}]",
        "queues[2].parent",
        "cyclic queues, 'b' below 'a' below 'c' below 'b'",
    ),
    "its own parent": ("queues: [x, {name: a, parent: a}]", "queues[1].parent", "cyclic"),
    "an unknown score": ("policy: {small: potental}", "policy.small", "did you mean 'potential'?"),
    "an unknown choice of devices": ("policy: {devices: best}", "policy.devices", "'lowest'"),
    "an unknown level of a policy": ("policy: {spread_within: x}", "policy.spread_within", "node"),
    "a domain to spread inside without e-spread": (
        "policy: {spread_within: cluster, service: spread}",
        "policy.spread_within",
        "give `service: e-spread`",
    ),
    "no steps": ("policy: {search_steps: 0}", "policy.search_steps", "from 1"),
    "no half-life": ("policy: {mix_half_life: 0}", "policy.mix_half_life", "longer"),
    "a negative half-life": ("policy: {mix_half_life: -1}", "policy.mix_half_life", "like 90s"),
    "an old name with a mistake": ("policy: {gang_grace_s: x}", "policy.gang_grace_s", "seconds"),
    "the old name beside the new": (
        "policy: {gang_grace_s: 1, gang_grace: 1}",
        "policy.gang_grace_s",
        "remove it: `gang_grace` says the same",
    ),
    "a type twice": ("memory: {mix: [{count: 1}, {count: 2}]}", "memory.mix[1]", "once"),
    "a type without count": ("memory: {mix: [{gpus: 1}]}", "memory.mix[0].count", "needed"),
    "a negative count": ("memory: {mix: [{count: -1}]}", "memory.mix[0].count", "from 0"),
    "memory of another type": ("memory: {pasts: {}}", "memory.pasts", "give a list"),
    "memory deep inside": (
        "memory: {pasts: [[w, {failures: 1}], [v, {failures: x}]]}",
        "memory.pasts[1][1].failures",
        "give a whole number",
    ),
    "memory with an unknown field": (
        "memory: {pasts: [[w, {failuers: 1}]]}",
        "memory.pasts[0][1]",
        "unknown field 'failuers'",
    ),
    "memory without a field": ("memory: {pasts: [[w]]}", "memory.pasts[0]", "a list of 2"),
    "memory that contains itself": (
        "memory: {pasts: &p [*p]}",
        "memory.pasts" + "[0]" * 65,
        "64 deep",
    ),
    "memory of two lines": ('memory: {pasts: [["a\\nb", {}]]}', "memory.pasts[0][0]", "one line"),
    "memory with a huge number": (
        f"memory: {{pasts: [[w, {{failures: {'9' * 99}9}}]]}}",
        "memory.pasts[0][1].failures",
        "whole number",
    ),
    "memory with a huge number in JSON": (
        f'{{"memory": {{"pasts": [["w", {{"failures": 1{"0" * 99}}}]]}}}}',
        "memory.pasts[0][1].failures",
        "99 digits",
    ),
    "an unknown memory": ("memory: {past: []}", "memory.past", "did you mean 'pasts'?"),
    # queues
    "an unknown key of a queue": (queue("qoutas: []"), "queues[0].qoutas", "'quotas'?"),
    "a quota without resource": (quota("quota: 1"), "queues[0].quotas[0].resource", "needed"),
    "a quota of devices by the key": (
        quota("resource: gpus"),
        "queues[0].quotas[0].resource",
        "did you mean 'gpu'?",
    ),
    "a quota of devices by their plugin": (
        quota("resource: nvidia.com/gpu"),
        "queues[0].quotas[0].resource",
        "did you mean 'gpu'?",
    ),
    "a quota in capitals": (
        "queues: [{name: q, quotas: [{resource: CPU}]}]",
        "queues[0].quotas[0].resource",
        "did you mean 'cpu'?",
    ),
    "a quota of what no node has": (
        quota("resource: rdna"),
        "queues[0].quotas[0].resource",
        "did you mean 'rdma'?",
    ),
    "a quota of what nobody knows": (
        quota("resource: zzz"),
        "queues[0].quotas[0].resource",
        "some node has, or 'gpu'",
    ),
    "a quota of a port": (
        quota("resource: port/80"),
        "queues[0].quotas[0].resource",
        "host port",
    ),
    "an unknown flavor": (
        quota("resource: gpu, flavor: H10"),
        "queues[0].quotas[0].flavor",
        "(there are 'H100', 'A100'); did you mean 'H100'?",
    ),
    "an unknown flavor beside a declared one": (
        quota("resource: gpu, flavor: slo", "policy: {flavors: [slow]}"),
        "queues[0].quotas[0].flavor",
        "did you mean 'slow'?",
    ),
    "an unknown flavor where no nodes are": (
        "queues: [{name: q, quotas: [{resource: gpu, flavor: H10}]}]\npolicy: {flavors: [H100]}",
        "queues[0].quotas[0].flavor",
        "give a flavor of the policy (there are 'H100'); did you mean 'H100'?",
    ),
    "an unknown flavor of a group where no nodes are": (
        "queues: [{name: q, groups: [{resources: [gpu], flavors: [spto]}]}]\n"
        "policy: {flavors: [{name: spot, labels: {capacity: spot}}, H100]}",
        "queues[0].groups[0].flavors[0]",
        "did you mean 'spot'?",
    ),
    "headroom of an unknown flavor where no nodes are": (
        "policy: {flavors: [H100], headroom: [{queue: default, gpus: 1, within: 1m, flavor: H10}]}",
        "policy.headroom[0].flavor",
        "did you mean 'H100'?",
    ),
    "a limit below the quota": (
        quota("resource: gpu, flavor: H100, quota: 2.5, limit: 2"),
        "queues[0].quotas[0].limit",
        "give at least 2.5, the quota",
    ),
    "a quota above the limit of the queue above": (
        "queues: [{name: org, quotas: [{resource: cpu, limit: 8}, {resource: gpu, limit: 16}]}, "
        "{name: q, parent: org, quotas: [{resource: gpu, quota: 17}]}]",
        "queues[1].quotas[0].quota",
        "give at most 16, the limit of 'org' above it",
    ),
    "a quota above a limit further up": (
        "queues: [{name: q, parent: dept, quotas: [{resource: memory, quota: 2Gi}]}, "
        "{name: dept, parent: org}, {name: org, quotas: [{resource: memory, limit: 1Gi}]}]",
        "queues[0].quotas[0].quota",
        "give at most 1Gi, the limit of 'org' above it",
    ),
    "a pair twice": (
        queue("quotas: [{resource: gpu, flavor: H100}, {flavor: H100, resource: gpu}]"),
        "queues[0].quotas[1]",
        "already one for gpu of H100",
    ),
    "a pair of all flavors twice": (
        queue("quotas: [{resource: gpu}, {resource: gpu}]"),
        "queues[0].quotas[1]",
        "already one for gpu",
    ),
    "a negative quota": (
        quota("resource: gpu, quota: -2"),
        "queues[0].quotas[0].quota",
        "give devices, like 8 or 0.5, not less than 0; or unlimited",
    ),
    "a quota in words": (
        quota("resource: cpu, quota: all"),
        "queues[0].quotas[0].quota",
        "or unlimited",
    ),
    "a limit that is a flag": (
        quota("resource: memory, limit: true"),
        "queues[0].quotas[0].limit",
        "bytes",
    ),
    "half a pod": (quota("resource: pods, quota: 0.5"), "queues[0].quotas[0].quota", "whole"),
    "a quota beyond all": (
        quota("resource: gpu, quota: 1e15"),
        "queues[0].quotas[0].quota",
        "give less, or unlimited",
    ),
    "a negative weight": (
        quota("resource: gpu, weight: -1"),
        "queues[0].quotas[0].weight",
        "from 0",
    ),
    "more lent than there is": (
        quota("resource: gpu, quota: 1.5, lending_limit: 2"),
        "queues[0].quotas[0].lending_limit",
        "at most 1.5, the quota",
    ),
    "lent without quota": (
        quota("resource: memory, lending_limit: 1Gi"),
        "queues[0].quotas[0].lending_limit",
        "at most 0, the quota",
    ),
    "borrowing from nobody": (
        quota("resource: gpu, borrowing_limit: 2", KUEUE),
        "queues[0].quotas[0].borrowing_limit",
        "give the queue a parent",
    ),
    "lending to nobody": (
        quota("resource: gpu, quota: 2, lending_limit: 2", KUEUE),
        "queues[0].quotas[0].lending_limit",
        "give the queue a parent",
    ),
    "a group without flavors": (
        queue("groups: [{resources: [gpu]}]"),
        "queues[0].groups[0].flavors",
        "at least one",
    ),
    "a group of nothing": (
        queue("groups: [{resources: [], flavors: [H100]}]"),
        "queues[0].groups[0].resources",
        "at least one",
    ),
    "an unknown flavor of a group": (
        queue("groups: [{resources: [gpu], flavors: [H100, B200]}]"),
        "queues[0].groups[0].flavors[1]",
        "GPU model of a node",
    ),
    "an unknown resource of a group": (
        queue("groups: [{resources: [gpu, rdna], flavors: [H100]}]"),
        "queues[0].groups[0].resources[1]",
        "did you mean 'rdma'?",
    ),
    "a flavor in two groups": (
        queue("groups: [{resources: [gpu], flavors: [H100]}, {resources: [cpu], flavors: [H100]}]"),
        "queues[0].groups[1].flavors[0]",
        "each flavor once, in one group",
    ),
    "a resource in two groups": (
        queue("groups: [{resources: [gpu], flavors: [H100]}, {resources: [gpu], flavors: [A100]}]"),
        "queues[0].groups[1].resources[0]",
        "each resource once, in one group",
    ),
    "an unknown fungibility": (
        queue("fungibility: {when_borrowing: go}"),
        "queues[0].fungibility.when_borrowing",
        "'stop', 'next'",
    ),
    "a preference that is never asked": (
        queue("fungibility: {when_borrowing: stop, prefer: preempting}"),
        "queues[0].fungibility.prefer",
        "when_borrowing: next",
    ),
    "an unknown rule of eviction": (
        queue("eviction: {within_queue: lower-newer}"),
        "queues[0].eviction.within_queue",
        "did you mean 'lower-or-newer'?",
    ),
    "reclaim of another kind": (
        queue("eviction: {reclaim: lower-or-newer}"),
        "queues[0].eviction.reclaim",
        "'any'",
    ),
    "evicting further than allowed": (
        "policy: {profile: kueue}\n"
        + queue("eviction: {reclaim: never, while_borrowing: lower-priority}"),
        "queues[0].eviction.while_borrowing",
        "reclaim: lower-priority",
    ),
    "evicting further than kueue does by itself": (
        queue("eviction: {while_borrowing: lower-priority}", KUEUE),
        "queues[0].eviction.while_borrowing",
        "reclaim: lower-priority",
    ),
    "an unknown order": (queue("order: fifo"), "queues[0].order", "'strict', 'best-effort'"),
    "an unknown stop": (queue("stop: halt"), "queues[0].stop", "'hold', 'drain'"),
    "a queue of negative weight": (queue("weight: -0.5"), "queues[0].weight", "from 0"),
    "no run limit of a queue": (queue("run_limit: 0"), "queues[0].run_limit", "longer than 0"),
    "a namespace for all": (queue("namespaces: all"), "queues[0].namespaces", "give a list"),
    "local without parent": (queue("local: true"), "queues[0].parent", "give one"),
    "local with quota": (
        "queues: [a, {name: b, parent: a, local: true, quotas: []}]",
        "queues[1].quotas",
        "has no quota",
    ),
    "local with groups": (
        "queues: [a, {name: b, parent: a, local: true, groups: []}]",
        "queues[1].groups",
        "has no quota",
    ),
    "below a local queue": (
        "queues: [a, {name: b, parent: a, local: true}, {name: c, parent: b}]",
        "queues[2].parent",
        "'b' is local",
    ),
    "local beside queues with quota": (
        "queues: [a, {name: b, parent: a}, {name: c, parent: a, local: true}]",
        "queues[2].parent",
        "below 'a' are queues with quota",
    ),
    # policy
    "an unknown section": ("policy: {evictions: {}}", "policy.evictions", "'eviction'?"),
    "a section that is none": ("policy: {fairness: high}", "policy.fairness", "a mapping"),
    "a profile that is none": ("policy: {profile: kuueue}", "policy.profile", "'kueue'?"),
    "a flavor twice": ("policy: {flavors: [a, {name: a}]}", "policy.flavors[1]", "already"),
    "a flavor without name": ("policy: {flavors: [{price: 2}]}", "policy.flavors[0].name", "it"),
    "a flavor for nothing": (
        "policy: {flavors: [{name: a, price: 0}]}",
        "policy.flavors[0].price",
        "above 0",
    ),
    "a class in words": (
        "policy: {priority_classes: {high: much}}",
        "policy.priority_classes.high",
        "whole number",
    ),
    "a class too high": (
        "policy: {priority_classes: {high: 3000000000}}",
        "policy.priority_classes.high",
        "2147483647",
    ),
    "strategies the wrong way round": (
        "policy: {fairness: {strategies: [initial-share, final-share]}}",
        "policy.fairness.strategies",
        "[final-share, initial-share]",
    ),
    "an unknown strategy": (
        "policy: {fairness: {strategies: [last-share]}}",
        "policy.fairness.strategies[0]",
        "'final-share'",
    ),
    "history that fades at once": (
        "policy: {fairness: {half_life: 0}}",
        "policy.fairness.half_life",
        "longer than 0",
    ),
    "usage of devices by the key": (
        "policy: {fairness: {usage_weights: {gpus: 2}}}",
        "policy.fairness.usage_weights.gpus",
        "did you mean 'gpu'?",
    ),
    "a negative weight of usage": (
        "policy: {fairness: {usage_weights: {gpu: -2}}}",
        "policy.fairness.usage_weights.gpu",
        "from 0",
    ),
    "an unknown cause": (
        "policy: {eviction: {minimum_run: {fairshare: 1h}}}",
        "policy.eviction.minimum_run.fairshare",
        "did you mean 'fair-share'?",
    ),
    "a minimum in words": (
        "policy: {eviction: {minimum_run: {quota: long}}}",
        "policy.eviction.minimum_run.quota",
        "2h",
    ),
    "a minimum by another": (
        "policy: {eviction: {minimum_run_by: leaf}}",
        "policy.eviction.minimum_run_by",
        "'lca', 'queue'",
    ),
    "half a reservation": (
        "policy: {backfill: {reservations: 0.5}}",
        "policy.backfill.reservations",
        "whole",
    ),
    "nodes avoided from the start": (
        "policy: {failure: {node_failures: 0}}",
        "policy.failure.node_failures",
        "from 1",
    ),
    "a negative budget": (
        "policy: {defragmentation: {budget: -1}}",
        "policy.defragmentation.budget",
        "from 0",
    ),
    "headroom for nobody": (
        "policy: {headroom: [{gpus: 1, within: 1m}]}",
        "policy.headroom[0].queue",
        "needed",
    ),
    "headroom for an unknown queue": (
        "policy: {headroom: [{queue: defalt, gpus: 1, within: 1m}]}",
        "policy.headroom[0].queue",
        "did you mean 'default'?",
    ),
    "headroom of an unknown flavor": (
        f"{CLUSTER}policy: {{headroom: [{{queue: default, gpus: 1, within: 1m, flavor: H10}}]}}",
        "policy.headroom[0].flavor",
        "did you mean 'H100'?",
    ),
    "headroom some day": (
        "policy: {headroom: [{queue: default, gpus: 1}]}",
        "policy.headroom[0].within",
        "needed",
    ),
    "undeclared in other words": ("policy: {undeclared: no}", "policy.undeclared", "'ignore'"),
    "borrowing in a profile that knows no rule for it": (
        queue("eviction: {while_borrowing: lower-priority}"),
        "queues[0].eviction.while_borrowing",
        "only profile kueue",
    ),
    "a threshold of it": (
        queue("eviction: {borrowing_threshold: 3}"),
        "queues[0].eviction.borrowing_threshold",
        "only profile kueue",
    ),
    "what only kai goes by": (
        "policy: {profile: default, eviction: {saturation: 2}}",
        "policy.eviction.saturation",
        "only profile kai",
    ),
    "what only kueue goes by": (
        "policy: {undeclared: ignore}",
        "policy.undeclared",
        "only profile kueue",
    ),
    "moves in a profile that makes none": (
        "policy: {profile: kai, defragmentation: {automatic: true}}",
        "policy.defragmentation.automatic",
        "only profile default",
    ),
    # nodes
    "a node without name": ("nodes: [{cpu: 1}]", "nodes[0].name", "needed"),
    "a node twice": ("nodes: [{name: a}, {name: a}]", "nodes[1].name", "already"),
    "a path too many": ("nodes: [{name: a, path: [x]}]", "nodes[0].path", "no levels"),
    "no path": (f"{CLUSTER}  - {{name: b}}", "nodes[3].path", "superpod, leaf"),
    "a short path": (f"{CLUSTER}  - {{name: b, path: [s]}}", "nodes[3].path", "superpod, leaf"),
    "cpu among resources": (
        "nodes: [{name: a, resources: {cpu: 1}}]",
        "nodes[0].resources.cpu",
        "beside",
    ),
    "gpu among resources": (
        "nodes: [{name: a, resources: {gpu: 1}}]",
        "nodes[0].resources.gpu",
        "`gpus`",
    ),
    "a port among resources": (
        "nodes: [{name: a, resources: {port/80: 1}}]",
        "nodes[0].resources['port/80']",
        "`ports`",
    ),
    "no pods": ("nodes: [{name: a, pods: 0}]", "nodes[0].pods", "from 1"),
    "too many devices": ("nodes: [{name: a, gpus: 63}]", "nodes[0].gpus", "to 62"),
    "a long list of devices": (
        f"nodes: [{{name: a, devices: [{'{}, ' * 63}]}}]",
        "nodes[0].devices",
        "at most 62",
    ),
    "both kinds of devices": (
        "nodes: [{name: a, gpus: 1, devices: []}]",
        "nodes[0].gpus",
        "remove",
    ),
    "sizes and a list": (
        "nodes: [{name: a, devices: [], numa_size: 1}]",
        "nodes[0].numa_size",
        "remove",
    ),
    "memory of no device": ("nodes: [{name: a, gpu_memory: 1Gi}]", "nodes[0].gpu_memory", "`gpus`"),
    "an empty island": ("nodes: [{name: a, gpus: 2, island_size: 0}]", "nodes[0].island_size", "1"),
    "an unknown geometry": (
        "nodes: [{name: a, devices: [{mig: a100-40g}]}]",
        "nodes[0].devices[0].mig",
        "did you mean 'a100-40gb'?",
    ),
    "an unknown effect": (
        "nodes: [{name: a, taints: [{key: k, effect: noschedule}]}]",
        "nodes[0].taints[0].effect",
        "did you mean 'NoSchedule'?",
    ),
    "a label of a number": (
        "nodes: [{name: a, labels: {zone: 1}}]",
        "nodes[0].labels.zone",
        "quotes",
    ),
    "no nodes at all": ("nodes: [{count: 0}]", "nodes[0].count", "from 1"),
    "more nodes than fit": ("nodes: [{count: 200001}]", "nodes[0].count", "to 200000"),
    "more nodes in all": (
        "nodes: [{count: 150000}, {count: 150000, name: 'b{i}'}]",
        "nodes[1].count",
        "in all",
    ),
    "a pattern without number": ("nodes: [{count: 2, name: a}]", "nodes[0].name", "{i}"),
    "generated twice": ("nodes: [{count: 2}, {count: 2}]", "nodes[1].name", "already"),
    "generated nowhere": (
        "topology: {levels: [leaf]}\nnodes: [{count: 2}]",
        "nodes[0].path",
        "leaf",
    ),
    "generated in two ways": (
        "topology: {levels: [leaf]}\nnodes: [{count: 2, path: [x], per: {leaf: 1}}]",
        "nodes[0].path",
        "remove",
    ),
    "per without count": (
        "topology: {levels: [leaf]}\nnodes: [{name: a, per: {leaf: 1}}]",
        "nodes[0].per",
        "`count`",
    ),
    "per of an unknown level": (
        "topology: {levels: [leaf]}\nnodes: [{count: 2, per: {leaf: 1, laef: 1}}]",
        "nodes[0].per.laef",
        "did you mean 'leaf'?",
    ),
    "per without a level": (
        "topology: {levels: [superpod, leaf]}\nnodes: [{count: 2, per: {leaf: 1}}]",
        "nodes[0].per.superpod",
        "needed",
    ),
    "leaves across superpods": (
        "topology: {levels: [superpod, leaf]}\nnodes: [{count: 8, per: {leaf: 2, superpod: 3}}]",
        "nodes[0].per.superpod",
        "multiple of 2",
    ),
    # workloads
    "a workload that is none": ("workloads: [train]", "workloads[0]", "a mapping"),
    "a workload without name": ("workloads: [{tasks: 1}]", "workloads[0].name", "needed"),
    "a workload twice": ("workloads: [{name: a}, {name: a}]", "workloads[1].name", "already"),
    "an unknown queue": (
        workload("queue: defalt"),
        "workloads[0].queue",
        "did you mean 'default'?",
    ),
    "an unknown queue of several": (
        "queues: [x, y]\nworkloads: [{name: a, queue: team}]",
        "workloads[0].queue",
        "(there are 'x', 'y')",
    ),
    "no default queue": (
        "queues: [team]\nworkloads: [{name: a}]",
        "workloads[0].queue",
        "'default'",
    ),
    "a queue that has queues below it": (
        "queues: [a, {name: b, parent: a}, {name: c, parent: a}]\nworkloads: [{name: w, queue: a}]",
        "workloads[0].queue",
        "under 'a' there are 'b', 'c'",
    ),
    "an unknown class": (
        "policy: {priority_classes: {high: 9, low: 1}}\n"
        "workloads: [{name: w, priority_class: hihg}]",
        "workloads[0].priority_class",
        "(there are 'high', 'low'); did you mean 'high'?",
    ),
    "a class where there is none": (
        workload("priority_class: high"),
        "workloads[0].priority_class",
        "(there is none)",
    ),
    "a class and a priority": (
        "policy: {priority_classes: {high: 9}}\n"
        "workloads: [{name: w, priority: 9, priority_class: high}]",
        "workloads[0].priority",
        "remove it",
    ),
    "a negative grace": (workload("grace: -2"), "workloads[0].grace", "negative, or never"),
    "a deadline in words": (workload("deadline_at: soon"), "workloads[0].deadline_at", "number"),
    "more than all in part": (workload("tasks: 4, partial: 5"), "workloads[0].partial", "most 4"),
    "none in part": (workload("tasks: 4, partial: 0"), "workloads[0].partial", "from 1"),
    "part of nothing": (workload("min: 0, max: 4, partial: 1"), "workloads[0].partial", "most 0"),
    "needed without groups": (
        workload("groups: [{name: a, needed: 1}]"),
        "workloads[0].groups[0].needed",
        "remove it",
    ),
    "more needed than there are": (
        workload("groups: [{name: a, needed: 2, groups: [{name: b}]}]"),
        "workloads[0].groups[0].needed",
        "at most 1",
    ),
    "needed beside all groups": (
        workload("needed: 1, groups: [{name: a}, {name: b}]"),
        "workloads[0].needed",
        "unknown key",
    ),
    "an unknown resource": (
        workload("resources: {rdna: 1}"),
        "workloads[0].resources.rdna",
        "did you mean 'rdma'?",
    ),
    "memory that no node has": (
        "nodes: [{name: a, cpu: 1}]\nworkloads: [{name: w, memory: 1Gi}]",
        "workloads[0].memory",
        "no node has memory; give the nodes `memory:`, or remove it",
    ),
    "no tasks": (workload("tasks: 0"), "workloads[0].tasks", "from 1"),
    "negative tasks": (workload("min: -1"), "workloads[0].min", "from 0"),
    "tasks and min": (workload("tasks: 2, min: 1"), "workloads[0].min", "`tasks`"),
    "max below min": (workload("min: 4, max: 2"), "workloads[0].max", "at least 4"),
    "never any": (workload("min: 0"), "workloads[0].min", "at least 1"),
    "negative gpus": (workload("gpus: -1"), "workloads[0].gpus", "from 0"),
    "more than whole": (workload("milli: 1001"), "workloads[0].milli", "to 1000"),
    "share of no device": (workload("gpus: 0, milli: 500"), "workloads[0].gpus", "at least 1"),
    "milli and memory": (
        workload("milli: 5, gpu_memory: 1Gi"),
        "workloads[0].gpu_memory",
        "one way",
    ),
    "milli and mig": (workload("milli: 5, mig: 1g.5gb"), "workloads[0].mig", "one way"),
    "memory and mig": (workload("gpu_memory: 1Gi, mig: 1g.5gb"), "workloads[0].mig", "one way"),
    "no memory": (workload("gpu_memory: 0"), "workloads[0].gpu_memory", "more than 0"),
    "an unknown profile": (workload("mig: 1g.6g"), "workloads[0].mig", "did you mean '1g.6gb'?"),
    "an unknown level": (
        workload("required: laef"),
        "workloads[0].required",
        "did you mean 'leaf'?",
    ),
    "an unknown level preferred": (
        workload("preferred: x"),
        "workloads[0].preferred",
        "'superpod'",
    ),
    "an unknown level of a slice": (
        workload("slices: [{level: x, size: 1}]"),
        "workloads[0].slices[0].level",
        "'leaf'",
    ),
    "an unknown level of a term": (
        workload("near: [{level: rack, labels: {}}]"),
        "workloads[0].near[0].level",
        "'leaf'",
    ),
    "an unknown level of a spread": (
        workload("spread: [{level: rack, labels: {}}]"),
        "workloads[0].spread[0].level",
        "'leaf'",
    ),
    "a term without labels": (
        workload("apart: [{level: node}]"),
        "workloads[0].apart[0].labels",
        "give",
    ),
    "a slice without size": (
        workload("slices: [{level: leaf}]"),
        "workloads[0].slices[0].size",
        "needed",
    ),
    "four slices": (
        workload(
            "tasks: 8, slices: [{level: cluster, size: 8}, {level: superpod, size: 4},"
            " {level: leaf, size: 2}, {level: node, size: 1}]"
        ),
        "workloads[0].slices",
        "at most 3",
    ),
    "slices innermost first": (
        workload("tasks: 4, slices: [{level: leaf, size: 2}, {level: superpod, size: 2}]"),
        "workloads[0].slices[1]",
        "outermost first",
    ),
    "slices that do not divide": (
        workload("tasks: 4, slices: [{level: superpod, size: 4}, {level: leaf, size: 3}]"),
        "workloads[0].slices[1]",
        "divides 4",
    ),
    "a count that is no multiple": (
        workload("tasks: 6, slices: [{level: leaf, size: 4}]"),
        "workloads[0].slices[0]",
        "number of tasks, 6",
    ),
    "a max that is no multiple": (
        workload("min: 4, max: 6, slices: [{level: leaf, size: 4}]"),
        "workloads[0].slices[0]",
        "number of tasks, 6",
    ),
    "all groups no multiple": (
        workload(
            "slices: [{level: leaf, size: 2}], groups: [{name: a, tasks: 2}, {name: b, tasks: 3}]"
        ),
        "workloads[0].slices[0]",
        "number of tasks, 5",
    ),
    "a group twice": (
        workload("groups: [{name: a, groups: [{name: b}]}, {name: b}]"),
        "workloads[0].groups[1].name",
        "already",
    ),
    "a group without name": (workload("groups: [{}]"), "workloads[0].groups[0].name", "needed"),
    "no groups": (workload("groups: []"), "workloads[0].groups", "at least one"),
    "tasks beside groups": (
        workload("groups: [{name: a}], gpus: 1"),
        "workloads[0].gpus",
        "remove",
    ),
    "tasks on an inner group": (
        workload("groups: [{name: a, tasks: 2, groups: [{name: b}]}]"),
        "workloads[0].groups[0].tasks",
        "remove",
    ),
    "cyclic groups": (
        workload("groups: &g [{name: a, groups: *g}]"),
        "workloads[0].groups[0].groups[0]",
        "cyclic groups",
    ),
    "a group that is its workload": (
        "workloads: &w [{name: a, groups: *w}]",
        "workloads[0].groups[0]",
        "cyclic groups",
    ),
    "groups too deep": (
        workload("".join(f"groups: [{{name: g{i}, " for i in range(17)) + "}]" * 17),
        "workloads[0]" + ".groups[0]" * 17,
        "at most 16",
    ),
    "an unknown operator": (
        workload("affinity: [[{key: k, operator: in, values: [x]}]]"),
        "workloads[0].affinity[0][0].operator",
        "did you mean 'In'?",
    ),
    "In of nothing": (
        workload("affinity: [[{key: k}]]"),
        "workloads[0].affinity[0][0].values",
        "at least one",
    ),
    "Exists of something": (
        workload("affinity: [[{key: k, operator: Exists, values: [x]}]]"),
        "workloads[0].affinity[0][0].values",
        "remove",
    ),
    "Gt of a word": (
        workload("affinity: [[{key: k, operator: Gt, values: [x]}]]"),
        "workloads[0].affinity[0][0].values",
        "whole number",
    ),
    "an empty alternative": (
        workload("affinity: [[]]"),
        "workloads[0].affinity[0]",
        "at least one",
    ),
    "a preference of nothing": (
        workload("preferences: [{weight: 1}]"),
        "workloads[0].preferences[0].clauses",
        "at least one",
    ),
    "a port twice": (workload("ports: [80, 80]"), "workloads[0].ports[1]", "once"),
    "a host port twice": (
        workload("host_ports: [{port: 53, protocol: UDP}, {port: 53, protocol: UDP}]"),
        "workloads[0].host_ports[1]",
        "once",
    ),
    "a host port that is a plain one": (
        workload("ports: [80], host_ports: [{port: 80}]"),
        "workloads[0].host_ports[0]",
        "once",
    ),
    "a level that is a label without a name": (
        workload("near: [{level: label/, labels: {}}]"),
        "workloads[0].near[0].level",
        "node label",
    ),
    "a port too high": (workload("ports: [65536]"), "workloads[0].ports[0]", "65535"),
    # what runs
    "placed but not running": (
        workload("placements: []"),
        "workloads[0].placements",
        "running: true",
    ),
    "started but not running": (
        workload("started_at: 0"),
        "workloads[0].started_at",
        "running: true",
    ),
    "an unknown group": (
        running("tasks: 1", "group: mian, nodes: [a]"),
        "workloads[0].placements[0].group",
        "did you mean 'main'?",
    ),
    "no nodes": (
        running("min: 0, max: 1", "tasks: []"),
        "workloads[0].placements[0].nodes",
        "each task",
    ),
    "an unknown node": (
        running("tasks: 1", "nodes: [x]"),
        "workloads[0].placements[0].nodes[0]",
        "exists",
    ),
    "a node that is no text": (
        running("tasks: 1", "nodes: [1]"),
        "workloads[0].placements[0].nodes[0]",
        "quotes",
    ),
    "tasks of another length": (
        running("tasks: 2", "nodes: [a, a], tasks: [0]"),
        "workloads[0].placements[0].tasks",
        "nodes: 2",
    ),
    "devices of another length": (
        running("tasks: 2, gpus: 1", "nodes: [a, a], devices: [[0]]"),
        "workloads[0].placements[0].devices",
        "nodes: 2",
    ),
    "a task too many": (
        running("tasks: 1", "nodes: [a, a]"),
        "workloads[0].placements[0].nodes",
        "at most 1",
    ),
    "a task too high": (
        running("min: 1, max: 2", "nodes: [a], tasks: [1048576]"),
        "workloads[0].placements[0].tasks[0]",
        "1048575",
    ),
    "a task twice": (
        running("min: 1, max: 2", "nodes: [a, a], tasks: [0, 0]"),
        "workloads[0].placements[0].tasks[1]",
        "once",
    ),
    "first tasks twice": (
        workload("max: 2, running: true, placements: [{nodes: [a]}, {nodes: [a]}]"),
        "workloads[0].placements[1].tasks",
        "placed before",
    ),
    "done and running": (
        running("tasks: 2", "nodes: [a]").replace(
            "placements", "finished: [{tasks: [0]}], placements"
        ),
        "workloads[0].finished[0].tasks[0]",
        "each task once",
    ),
    "leaving but not running": (
        workload("releasing: []"),
        "workloads[0].releasing",
        "running: true",
    ),
    "leaving and never there": (
        running("tasks: 2", "nodes: [a]").replace(
            "placements", "releasing: [{tasks: [0, 1]}], placements"
        ),
        "workloads[0].releasing[0].tasks[1]",
        "that one of the placements has",
    ),
    "leaving twice": (
        running("tasks: 2", "nodes: [a]").replace(
            "placements", "releasing: [{tasks: [0]}, {tasks: [0]}], placements"
        ),
        "workloads[0].releasing[1].tasks[0]",
        "each once",
    ),
    "nobody is leaving": (
        running("tasks: 1", "nodes: [a]").replace(
            "placements", "releasing: [{group: main}], placements"
        ),
        "workloads[0].releasing[0].tasks",
        "at least one",
    ),
    "too few devices": (
        running("gpus: 2", "nodes: [a], devices: [[0]]"),
        "workloads[0].placements[0].devices[0]",
        "give 2 devices",
    ),
    "devices not asked for": (
        running("cpu: 1", "nodes: [a], devices: [[0]]"),
        "workloads[0].placements[0].devices[0]",
        "give 0 devices",
    ),
    "a device out of range": (
        running("gpus: 1", "nodes: [a], devices: [[4]]"),
        "workloads[0].placements[0].devices[0][0]",
        "it has 4",
    ),
    "a node without devices": (
        running("gpus: 1", "nodes: [c], devices: [[0]]"),
        "workloads[0].placements[0].devices[0][0]",
        "c has no devices",
    ),
    "a device twice": (
        running("gpus: 2", "nodes: [a], devices: [[0, 0]]"),
        "workloads[0].placements[0].devices[0][1]",
        "device 0 of a is given twice",
    ),
    "a device for two tasks": (
        running("tasks: 2, gpus: 1", "nodes: [a, a], devices: [[0], [0]]"),
        "workloads[0].placements[0].devices[1][0]",
        "more of device 0 of a is used",
    ),
    "too many thousandths": (
        running("tasks: 3, milli: 400", "nodes: [a, a, a], devices: [[0], [0], [0]]"),
        "workloads[0].placements[0].devices[2][0]",
        "more of device 0 of a is used",
    ),
    "too much device memory": (
        running("tasks: 2, gpu_memory: 21Gi", "nodes: [a, a], devices: [[0], [0]]"),
        "workloads[0].placements[0].devices[1][0]",
        "more of device 0 of a is used",
    ),
    "a device too small": (
        running("gpu_memory: 41Gi", "nodes: [a], devices: [[0]]"),
        "workloads[0].placements[0].devices[0][0]",
        "only 40960Mi",
    ),
    "a whole task on a cut device": (
        running("gpus: 1", "nodes: [m], devices: [[0]]"),
        "workloads[0].placements[0].devices[0][0]",
        "MIG profiles only",
    ),
    "an instance on a whole device": (
        running("mig: 1g.5gb", "nodes: [a], devices: [[[0, 0]]]"),
        "workloads[0].placements[0].devices[0][0]",
        "no profile",
    ),
    "a profile of another geometry": (
        running("mig: 1g.6gb", "nodes: [m], devices: [[[0, 0]]]"),
        "workloads[0].placements[0].devices[0][0]",
        "no profile",
    ),
    "an instance where none may begin": (
        running("mig: 2g.10gb", "nodes: [m], devices: [[[0, 6]]]"),
        "workloads[0].placements[0].devices[0][0]",
        "begin: 0, 2, 4",
    ),
    "instances that overlap": (
        running("gpus: 2, mig: 3g.20gb", "nodes: [m], devices: [[[0, 4], [0, 4]]]"),
        "workloads[0].placements[0].devices[0][1]",
        "given twice",
    ),
    "an index for MIG": (
        running("mig: 1g.5gb", "nodes: [m], devices: [[0]]"),
        "workloads[0].placements[0].devices[0][0]",
        "a pair",
    ),
    "a pair of words": (
        running("mig: 1g.5gb", "nodes: [m], devices: [[[a, b]]]"),
        "workloads[0].placements[0].devices[0][0]",
        "whole number",
    ),
    "a MIG device out of range": (
        running("mig: 1g.5gb", "nodes: [m], devices: [[[2, 0]]]"),
        "workloads[0].placements[0].devices[0][0]",
        "it has 2",
    ),
    "too much cpu": (
        running("tasks: 3, cpu: 3", "nodes: [a, a, a]"),
        "workloads[0].placements[0].nodes[2]",
        "more cpu",
    ),
    "too many pods": (
        running("tasks: 4", "nodes: [a, a, a, a]"),
        "workloads[0].placements[0].nodes[3]",
        "more pods",
    ),
    "a resource of other nodes": (
        running("resources: {rdma: 1}", "nodes: [a]"),
        "workloads[0].placements[0].nodes[0]",
        "more rdma",
    ),
    "a port for two tasks": (
        running("tasks: 2, ports: [80]", "nodes: [a, a]"),
        "workloads[0].placements[0].nodes[1]",
        "more port/80",
    ),
}


FINE = {
    "quota without bound and a limit": "quotas: [{resource: gpu, quota: unlimited, limit: 2}]",
    "a limit as large as the quota": "quotas: [{resource: gpu, quota: 2, limit: 2}]",
    "limits of other pairs": "quotas: [{resource: gpu, limit: 2}, {resource: cpu, quota: 4}]",
}


@pytest.mark.parametrize("text", FINE.values(), ids=FINE)
def test_what_can_be_used_is_no_mistake(text: str) -> None:
    assert read_scenario(queue(text)).queues


@pytest.mark.parametrize("profile", ["kai", "kueue"])
def test_what_other_systems_take_is_taken_in_their_profiles(profile: str) -> None:
    """They know flavors that do not exist yet, and quotas above limits, which bound them."""
    queues = read_policy(
        f"""
        policy: {{profile: {profile}, flavors: [H100]}}
        queues:
          - {{name: org, quotas: [{{resource: gpu, flavor: H10, quota: 4, limit: 2}}]}}
          - {{name: q, parent: org, quotas: [{{resource: gpu, flavor: H10, quota: 4}}]}}
        """
    ).queues
    assert [queue.quotas[0].quota for queue in queues] == [4000, 4000]


@pytest.mark.parametrize(("text", "path", "fix"), TABLE.values(), ids=TABLE)
def test_one_mistake_is_reported_once_with_path_and_fix(text: str, path: str, fix: str) -> None:
    found = mistakes(text)
    assert [(mistake.path, fix in mistake.fix) for mistake in found] == [(path, True)], found


def test_all_mistakes_are_reported_at_once() -> None:
    found = mistakes(
        """
        now: never
        topology: {levels: [leaf, leaf]}
        nodes: [{name: a, path: [l], cpu: lots, gpsu: 8}]
        queues: [{name: x, parent: y}]
        policy: {gang: nothing}
        workloads:
          - {name: w, queue: x, cpu: 1, required: laef, tasks: -4}
          - {name: w, queue: z, groups: [{name: g, gpus: eight}]}
        """
    )
    assert sorted(mistake.path for mistake in found) == [
        "nodes[0].cpu",
        "nodes[0].gpsu",
        "now",
        "policy.gang",
        "queues[0].parent",
        "topology.levels[1]",
        "workloads[0].required",
        "workloads[0].tasks",
        "workloads[1].groups[0].gpus",
        "workloads[1].name",
        "workloads[1].queue",
    ]


def test_all_mistakes_of_a_policy_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        read_policy(
            """
            nodes: []
            queues:
              - {name: org, weight: -1, quotas: [{resource: gpus}, {resource: cpu, quota: -3}]}
              - {name: a, parent: orgg, order: fifo, local: yes}
            policy:
              profile: kube
              fairness: {strategies: [x], window: 0}
              headroom: [{queue: b, gpus: 0, within: 1m}]
            """
        )
    assert sorted(mistake.path for mistake in caught.value.mistakes) == [
        "nodes",
        "policy.fairness.strategies[0]",
        "policy.fairness.window",
        "policy.headroom[0].gpus",
        "policy.headroom[0].queue",
        "policy.profile",
        "queues[0].quotas[0].resource",
        "queues[0].quotas[1].quota",
        "queues[0].weight",
        "queues[1].local",
        "queues[1].order",
        "queues[1].parent",
    ]
    assert str(caught.value).startswith("policy: 12 mistakes\n")


def test_a_queue_that_cannot_be_read_causes_no_more_mistakes() -> None:
    """Its amounts are in a unit that nobody knows, and its rules are unknown."""
    found = mistakes(
        """
        queues:
          - name: q
            quotas: [{resource: gpus, quota: 0.5, lending_limit: 7}]
            eviction: {reclaim: nevr, while_borrowing: lower-priority}
        policy: {profile: kueue}
        """
    )
    assert [mistake.path for mistake in found] == [
        "queues[0].quotas[0].resource",
        "queues[0].eviction.reclaim",
    ]


def test_a_mistake_says_what_it_found() -> None:
    (mistake,) = mistakes("now: soon")
    assert str(mistake) == "now: 'soon': give a number"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("now: true", "true"),
        ("now:", "null"),
        ("now: [1, [2, [3]], {a: b}, x, y]", "[1, [2, […]], {'a': 'b'}, 'x', …]"),
        ("now: {a: 1, b: {}, c: {d: {e: 1}}, f: [], g: 1}", None),
        (f"now: {'x' * 80}", f"'{'x' * 60}…'"),
        ('{"now": 99999999999999999999}', "a huge number"),
        ("now: &a [*a]", "[[[…]]]"),
    ],
    ids=["flag", "null", "list", "mapping", "long", "huge", "cyclic"],
)
def test_values_are_shown_short(text: str, value: str | None) -> None:
    (mistake,) = mistakes(text)
    expected = value or "{'a': 1, 'b': {}, 'c': {'d': {…}}, 'f': [], …}"
    assert mistake.value == expected


def test_the_error_lists_everything_under_its_source() -> None:
    with pytest.raises(ConfigError) as caught:
        read_scenario("now: a\nnodes: b", "x.yaml")
    assert str(caught.value) == (
        "x.yaml: 2 mistakes\n  nodes: 'b': give a list\n  now: 'a': give a number"
    )


def test_a_syntax_mistake_says_its_line() -> None:
    (mistake,) = mistakes("now: 0\npolicy: {\nnodes: ]\n")
    assert mistake.value == "line 3"


def test_a_node_with_mistakes_causes_no_more() -> None:
    """What runs on a node that cannot be read is not reported as well."""
    (mistake,) = mistakes(
        """
        nodes: [{name: a, cpu: many, gpus: 1}]
        workloads: [{name: w, cpu: 9, running: true, placements: [{nodes: [a]}]}]
        """
    )
    assert mistake.path == "nodes[0].cpu"


def test_a_number_of_nodes_that_is_none_is_told_once() -> None:
    """It divides nothing, and is no multiple either."""
    levels = "topology: {levels: [zone, rack]}"
    found = mistakes(f"{levels}\nnodes: [{{count: 8, per: {{zone: many, rack: 4}}}}]")
    assert [(mistake.path, mistake.fix) for mistake in found] == [
        ("nodes[0].per.zone", "give a whole number")
    ]


def test_an_overfull_node_is_reported_once() -> None:
    """The task that is too much is named, those after it are not."""
    nodes = ", ".join("a" * 9)
    (mistake,) = mistakes(
        f"""
        nodes: [{{name: a, cpu: 2}}]
        workloads:
          - {{name: w, tasks: 9, cpu: 1, running: true, placements: [{{nodes: [{nodes}]}}]}}
        """
    )
    assert mistake.path == "workloads[0].placements[0].nodes[2]"


def test_reading_stops_after_many_mistakes() -> None:
    assert len(mistakes("nodes: [" + "x, " * 1000 + "]")) == MISTAKES_MOST


@pytest.mark.soak
def test_aliases_cannot_make_a_small_file_endless() -> None:
    clauses = "&c {key: k, operator: Exists}" + ", *c" * 4000
    alternatives = f"&a [{clauses}]" + ", *a" * 4000
    (mistake,) = mistakes(f"workloads: [{{name: w, affinity: [{alternatives}]}}]")
    assert "values are read" in mistake.fix


def test_only_so_many_values_are_read() -> None:
    notes = Notes()
    notes.count("", VALUES_MOST)
    with pytest.raises(EnoughError):
        Cursor("x", [1], notes).items()
    assert [mistake.path for mistake in notes.mistakes] == ["x"]


def test_merges_cannot_make_a_small_file_endless() -> None:
    keys = ", ".join(f"k{i}: 0" for i in range(2000))
    merges = "".join("- {<<: *a}\n" for _ in range(2000))
    (mistake,) = mistakes(f"- &a {{{keys}}}\n{merges}")
    assert "copies more than" in mistake.fix


def test_a_text_may_not_be_too_long() -> None:
    (mistake,) = mistakes("#" * (FILE_MOST + 1))
    assert "64 MiB" in mistake.fix


def test_files_that_cannot_be_read_are_mistakes(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"now: \xe9")
    long = tmp_path / "long.yaml"
    with long.open("wb") as file:
        file.truncate(FILE_MOST + 1)
    expected = {
        tmp_path / "none.yaml": "there is no such file",
        tmp_path: "this is a folder; give a file",
        latin: "this is not text (UTF-8)",
        long: "64 MiB",
        tmp_path / "a\0b": "null",
    }
    for path, fix in expected.items():
        with pytest.raises(ConfigError) as caught:
            load_scenario(path)
        (mistake,) = caught.value.mistakes
        assert fix in mistake.fix
        assert caught.value.source == str(path)
