"""Selectors: of labels, of nodes, of namespaces, as clauses of the model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mooring.model.cluster import NODE_NAME
from mooring.model.workload import NodePreference, Requirement
from mooring.policy.placing.constraints import is_met

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.kube import objects
    from mooring.kube.convert.notes import Notes
    from mooring.model.cluster import Labels

NAMESPACE = "@namespace"
"""In the place of a label of a shape: the namespace of its pods. No label can be called so."""
NOBODY = Requirement(NAMESPACE, "DoesNotExist")
"""Meets no pod: each is in a namespace."""
NO_NODE = Requirement(NODE_NAME, "DoesNotExist")
"""Meets no node: each has a name."""

_SETS = ("In", "NotIn")
_LABELS = (*_SETS, "Exists", "DoesNotExist")
_NODES = (*_LABELS, "Gt", "Lt")
_WHOLE = re.compile(r"[-+]?[0-9]{1,18}")
WEIGHT_MOST = 100


def labels_of(given: Mapping[str, str]) -> Labels:
    """Return labels in the order of the model."""
    return tuple(sorted(given.items()))


def clause(
    given: objects.Requirement, field: str, notes: Notes, *, of_nodes: bool = False
) -> Requirement:
    """Return one expression of a selector."""
    values = given.values
    if not given.key:
        notes.wrong(f"{field}.key", given.key, "give the key of a label")
    operators = _NODES if of_nodes else _LABELS
    if notes.one_of(f"{field}.operator", given.operator, operators):
        if given.operator in _SETS and not values:
            notes.wrong(f"{field}.values", [], f"give at least one value for {given.operator}")
        elif given.operator in ("Exists", "DoesNotExist") and values:
            notes.wrong(f"{field}.values", values, f"remove them: {given.operator} takes none")
        elif given.operator in ("Gt", "Lt") and not is_whole(values):
            notes.wrong(f"{field}.values", values, "give one whole number")
    return Requirement(given.key, given.operator, values)


def is_whole(values: tuple[str, ...]) -> bool:
    """Return whether these values are one whole number."""
    return len(values) == 1 and _WHOLE.fullmatch(values[0]) is not None


def label_clauses(
    selector: objects.LabelSelector, field: str, notes: Notes
) -> tuple[Requirement, ...]:
    """Return the expressions of a selector of labels."""
    return tuple(
        clause(one, f"{field}.matchExpressions[{i}]", notes)
        for i, one in enumerate(selector.match_expressions)
    )


def selects(selector: objects.LabelSelector, labels: Mapping[str, str], notes: Notes) -> bool:
    """Return whether a selector means something with these labels; an empty one means all."""
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    clauses = label_clauses(selector, "selector", notes)
    return not notes and all(is_met(one, labels) for one in clauses)


def node_term(term: objects.NodeSelectorTerm, field: str, notes: Notes) -> tuple[Requirement, ...]:
    """Return the clauses of one alternative of a node affinity; none: it means no node."""
    clauses = [
        clause(one, f"{field}.matchExpressions[{i}]", notes, of_nodes=True)
        for i, one in enumerate(term.match_expressions)
    ]
    for i, one in enumerate(term.match_fields):
        where = f"{field}.matchFields[{i}]"
        notes.one_of(f"{where}.key", one.key, ("metadata.name",))
        if notes.one_of(f"{where}.operator", one.operator, _SETS) and not one.values:
            notes.wrong(f"{where}.values", one.values, "give the name of a node")
        clauses.append(Requirement(NODE_NAME, one.operator, one.values))
    return tuple(clauses)


def required_nodes(
    affinity: objects.NodeAffinity, field: str, notes: Notes
) -> tuple[tuple[Requirement, ...], ...]:
    """Return the alternatives of a required node affinity; none: every node will do."""
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is None:
        return ()
    field += ".requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    terms = (
        node_term(term, f"{field}[{i}]", notes)
        for i, term in enumerate(required.node_selector_terms)
    )
    return tuple(term for term in terms if term) or ((NO_NODE,),)


def preferred_nodes(
    affinity: objects.NodeAffinity, field: str, notes: Notes
) -> tuple[NodePreference, ...]:
    """Return the wishes of a node affinity; one that asks for nothing is none."""
    field += ".preferredDuringSchedulingIgnoredDuringExecution"
    wishes: list[NodePreference] = []
    for i, term in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        check_weight(term.weight, f"{field}[{i}].weight", notes)
        clauses = node_term(term.preference, f"{field}[{i}].preference", notes)
        if clauses:
            wishes.append(NodePreference(term.weight, clauses))
    return tuple(wishes)


def check_weight(weight: int, field: str, notes: Notes) -> None:
    """Check the weight of a wish."""
    if not 1 <= weight <= WEIGHT_MOST:
        notes.wrong(field, weight, f"give a weight from 1 to {WEIGHT_MOST}")
