"""Queues and policies as plain values in the words of the file: only what is not the default."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from mooring.config.emit import emit
from mooring.config.units import say_bound, say_duration
from mooring.model.codec import encode
from mooring.model.queues import Queue, Quota
from mooring.model.settings import Eviction
from mooring.model.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.config.scenario import PolicyFile
    from mooring.model.settings import Policy

Data = dict[str, object]
"""A mapping of the file: text, numbers, lists and mappings."""

_AMOUNTS = ("quota", "limit", "borrowing_limit", "lending_limit")


def dump_policy(policy: PolicyFile) -> str:
    """Return the policy file as YAML."""
    data: Data = {
        "topology": topology_data(policy.topology) if policy.topology != Topology() else None,
        "queues": [queue_data(queue) for queue in policy.queues],
        "policy": policy_data(policy.policy),
    }
    return emit({key: value for key, value in data.items() if value or key == "queues"})


def topology_data(topology: Topology) -> Data:
    """Return a topology in the words of the file."""
    return {"levels": [short(encode(level)) for level in topology.levels]}


def queue_data(queue: Queue) -> object:
    """Return a queue in the words of the file: a mapping, or the name alone."""
    return short(section_data(queue))


def policy_data(policy: Policy) -> Data:
    """Return a policy in the words of the file."""
    data = section_data(policy)
    if policy.flavors:
        data["flavors"] = [short(section_data(flavor)) for flavor in policy.flavors]
    return data


def short(data: Mapping[str, object]) -> object:
    """Return the name alone if there is nothing else."""
    return data["name"] if len(data) == 1 else data


def key_of(field: str) -> str:
    """Return the key of a field of the model: durations have no `_s`."""
    return field.removesuffix("_s")


def section_data(value: Any) -> Data:
    """Return what differs from its default of a section of the policy, a queue or a quota."""
    data: Data = {}
    for field in fields(value):
        item = getattr(value, field.name)
        if item != field.default:
            data[key_of(field.name)] = _data(field.name, item)
    if isinstance(value, Quota):
        data |= {k: say_bound(value.resource, getattr(value, k)) for k in _AMOUNTS if k in data}
    if isinstance(value, Eviction) and "minimum_run" in data:
        data["minimum_run"] = _minimum_run(value)
    return data


def _data(field: str, item: Any) -> object:
    """Return one value of a section."""
    if field.endswith("_s") and isinstance(item, float):
        return say_duration(item)
    if is_dataclass(item):
        return section_data(item)
    if not isinstance(item, tuple):
        return item
    if item and isinstance(item[0], tuple):
        return dict(item)
    return [section_data(one) if is_dataclass(one) else one for one in item]


def _minimum_run(eviction: Eviction) -> Data:
    """Return the minimum run times that are not the default; a cause without one has 0."""
    default, found = dict(Eviction().minimum_run_s), dict(eviction.minimum_run_s)
    causes = sorted({*default, *found})
    changed = [cause for cause in causes if default.get(cause, 0.0) != found.get(cause, 0.0)]
    return {cause: say_duration(found.get(cause, 0.0)) for cause in changed}
