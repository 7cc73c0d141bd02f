"""Shapes: what one task asks for and where it may go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.config.forms import EFFECTS
from mooring.config.reader import ReadError, nearest
from mooring.config.schema import KEYS, OPERATORS, PORT_MOST, PROTOCOLS, TOLERATION_OPERATORS
from mooring.config.units import (
    flag,
    name,
    one_of,
    read_amounts,
    some_mebibytes,
    text,
    whole,
)
from mooring.model.cluster import WHOLE
from mooring.model.mig import GEOMETRIES
from mooring.model.resources import CPU, MEMORY
from mooring.model.workload import (
    HostPort,
    NodePreference,
    Requirement,
    Shape,
    SpreadTerm,
    TaskTerm,
    Toleration,
)

if TYPE_CHECKING:
    from mooring.config.known import Known
    from mooring.config.reader import Cursor, Fields
    from mooring.model.resources import Amounts

PROFILES = tuple(dict.fromkeys(p for geometry in GEOMETRIES.values() for p in geometry.profiles))


def read_shape(fields: Fields, known: Known) -> Shape:
    """Read the fields of a task."""
    amounts = read_amounts(fields)
    if known.cluster.by_name:
        _check_resources(fields, amounts, known.cluster.resources)
    by_share = [key for key in ("milli", "gpu_memory", "mig") if key in fields]
    for key in by_share[1:]:
        fields.wrong(key, f"remove it, or {by_share[0]}: a device is asked for in one way")
    ports = _read_ports(fields)
    gpus = fields.take("gpus", whole(), 1 if by_share else 0)
    if by_share and not gpus:
        fields.wrong("gpus", f"give at least 1, or remove {by_share[0]}")
    return Shape(
        amounts=amounts,
        gpus=gpus,
        milli=fields.take("milli", whole(1, WHOLE), WHOLE),
        gpu_memory=fields.take("gpu_memory", some_mebibytes, 0),
        mig=fields.take("mig", one_of(PROFILES), ""),
        gpu_models=fields.each("gpu_models", name),
        selector=fields.pairs("selector", text),
        affinity=tuple(_read_clauses(item) for item in fields.items("affinity")),
        preferences=tuple(_read_preference(item) for item in fields.items("preferences")),
        tolerations=tuple(_read_toleration(item) for item in fields.items("tolerations")),
        labels=fields.pairs("labels", text),
        near=tuple(_read_term(item, known) for item in fields.items("near")),
        apart=tuple(_read_term(item, known) for item in fields.items("apart")),
        spread=tuple(_read_spread(item, known) for item in fields.items("spread")),
        ports=ports,
        host_ports=_read_host_ports(fields, ports),
    )


def _check_resources(fields: Fields, amounts: Amounts, resources: set[str]) -> None:
    """Find what no node has."""
    for resource, _ in amounts:
        if resource not in resources:
            if resource in (CPU, MEMORY):
                fix = f"no node has {resource}; give the nodes `{resource}:`, or remove it"
                fields.wrong(resource, fix)
                continue
            near = nearest(resource, sorted(resources))
            fix = near or "; give it to the nodes at `resources:`, or remove it"
            fields.at("resources").entries().wrong(resource, f"no node has {resource}{fix}")


def _read_clauses(cursor: Cursor) -> tuple[Requirement, ...]:
    """Read the clauses of one alternative: all of them must hold."""
    clauses = tuple(_read_requirement(item) for item in cursor.items())
    if cursor.value == []:
        cursor.wrong("give at least one clause")
    return clauses


def _read_requirement(cursor: Cursor) -> Requirement:
    fields = cursor.fields(KEYS["requirement"])
    operator = fields.take("operator", one_of(OPERATORS), "In")
    values = fields.each("values", text)
    if operator in ("In", "NotIn") and not values:
        fields.wrong("values", f"give at least one value for {operator}")
    if operator in ("Exists", "DoesNotExist") and values:
        fields.wrong("values", f"remove them: {operator} has none")
    if operator in ("Gt", "Lt") and not (len(values) == 1 and _is_integer(values[0])):
        fields.wrong("values", f'give one whole number as text for {operator}, like ["8"]')
    return Requirement(fields.need("key", name, ""), operator, values)


def _is_integer(value: str) -> bool:
    return value.isascii() and value.removeprefix("-").isdigit() and len(value) < 20


def _read_preference(cursor: Cursor) -> NodePreference:
    fields = cursor.fields(KEYS["preference"])
    weight = fields.need("weight", whole(1), 1)
    if "clauses" not in fields:
        fields.wrong("clauses", "give at least one clause")
        return NodePreference(weight, ())
    return NodePreference(weight, _read_clauses(fields.at("clauses")))


def _read_toleration(cursor: Cursor) -> Toleration:
    fields = cursor.fields(KEYS["toleration"])
    return Toleration(
        key=fields.take("key", name, ""),
        operator=fields.take("operator", one_of(TOLERATION_OPERATORS), "Equal"),
        value=fields.take("value", text, ""),
        effect=fields.take("effect", one_of(EFFECTS), ""),
    )


def _read_term(cursor: Cursor, known: Known) -> TaskTerm:
    fields = cursor.fields(KEYS["term"])
    return TaskTerm(
        level=fields.need("level", known.level_or_label, ""),
        labels=_need_labels(fields),
        weight=fields.take("weight", whole(), 0),
        clauses=tuple(_read_requirement(item) for item in fields.items("clauses")),
    )


def _read_spread(cursor: Cursor, known: Known) -> SpreadTerm:
    fields = cursor.fields(KEYS["spread_term"])
    return SpreadTerm(
        level=fields.need("level", known.level_or_label, ""),
        labels=_need_labels(fields),
        skew=fields.take("skew", whole(1), 1),
        required=fields.take("required", flag, True),
        clauses=tuple(_read_requirement(item) for item in fields.items("clauses")),
        min_domains=fields.take("min_domains", whole(), 0),
        heed_selectors=fields.take("heed_selectors", flag, True),
        heed_taints=fields.take("heed_taints", flag, True),
    )


def _need_labels(fields: Fields) -> tuple[tuple[str, str], ...]:
    if "labels" not in fields and "clauses" not in fields:
        fields.wrong("labels", "give the labels of the other tasks")
    return fields.pairs("labels", text)


def _read_host_ports(fields: Fields, ports: tuple[int, ...]) -> tuple[HostPort, ...]:
    """Read host ports that are not plain, each once; `ports` are those that are."""
    found = dict.fromkeys(map(HostPort, ports))
    for cursor in fields.items("host_ports"):
        port = _read_host_port(cursor)
        if port in found:
            cursor.wrong("give each port once")
        found[port] = None
    return tuple(found)[len(ports) :]


def _read_host_port(cursor: Cursor) -> HostPort:
    fields = cursor.fields(KEYS["host_port"])
    return HostPort(
        port=fields.need("port", whole(1, PORT_MOST), 1),
        protocol=fields.take("protocol", one_of(PROTOCOLS), "TCP"),
        address=fields.take("address", text, ""),
    )


def _read_ports(fields: Fields) -> tuple[int, ...]:
    """Read host ports, each once."""
    seen: set[int] = set()

    def port(value: object) -> int:
        number = whole(1, PORT_MOST)(value)
        if number in seen:
            raise ReadError("give each port once")
        seen.add(number)
        return number

    return fields.each("ports", port)
