"""Node constraints of a shape, compiled into masks over all nodes.

Labels and taints become columns of codes the first time somebody asks for their key, so that a
selector is one comparison of a column and not a loop over nodes.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.cluster import NODE_NAME
from mooring.model.columns import INT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mooring.model.books import Books
    from mooring.model.cluster import Taint
    from mooring.model.columns import Bools, Floats, Ints
    from mooring.model.workload import Requirement, Shape, SpreadTerm, TaskTerm, Toleration

HARD_EFFECTS = ("NoSchedule", "NoExecute")
UNTOLERATED = 10
"""What a taint of effect PreferNoSchedule takes from a node's preference."""


class Facts:
    """What is known of the nodes of one epoch, as columns."""

    def __init__(self, books: Books) -> None:
        self.epoch = books.epoch
        self._books = books
        self._codes: dict[str, tuple[Ints, dict[str, int]]] = {}
        nodes = books.nodes
        self.ready: Bools = np.fromiter((n.ready for n in nodes), np.bool_, len(nodes))
        self.ready &= books.present
        self.all_ready = bool((self.ready == books.present).all())
        sets = {node.taints: 0 for node in nodes}
        self.taint_sets = list(sets)
        code = {taints: i for i, taints in enumerate(self.taint_sets)}
        self.taints: Ints = np.fromiter((code[n.taints] for n in nodes), INT, len(nodes))

    @cached_property
    def _labels(self) -> list[dict[str, str]]:
        """The labels of every node, its own name among them."""
        return [{**dict(node.labels), NODE_NAME: node.name} for node in self._books.nodes]

    def codes(self, key: str) -> tuple[Ints, dict[str, int]]:
        """Return the code of every node's value of a label (-1: has none), and the codes."""
        if key not in self._codes:
            code: dict[str, int] = {}
            column = np.full(len(self._books.nodes), -1, INT)
            for row, labels in enumerate(self._labels):
                value = labels.get(key)
                if value is not None:
                    column[row] = code.setdefault(value, len(code))
            self._codes[key] = column, code
        return self._codes[key]

    def holds(self, clause: Requirement) -> Bools:
        """Return which nodes meet one clause of an affinity."""
        column, code = self.codes(clause.key)
        test = _OPERATORS[clause.operator]
        verdict = np.array([*(test(v, clause.values) for v in code), test(None, clause.values)])
        return verdict[column]  # -1 picks the last: the node has no such label

    def domains(self, key: str) -> Ints:
        """Return the code of every node's value of a label, counted from 1; 0: it has none."""
        return self.codes(key)[0] + 1


_NUMBER = re.compile(r"[-+]?[0-9]{1,20}")
_NUMBER_MOST = 1 << 63


def _number(value: str | None) -> int | None:
    """Return a label as the whole number that it is written as; None: it is none, or too large."""
    if value is None or not _NUMBER.fullmatch(value):
        return None
    number = int(value)
    return number if -_NUMBER_MOST <= number < _NUMBER_MOST else None


def _less(value: str | None, bound: str, sign: int) -> bool:
    one, other = _number(value), _number(bound)
    return one is not None and other is not None and sign * one < sign * other


_OPERATORS: dict[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Lt": lambda value, values: _less(value, values[0], 1),
    "Gt": lambda value, values: _less(value, values[0], -1),
}
OPERATORS = tuple(_OPERATORS)
TOLERATION_OPERATORS = ("Equal", "Exists", "Lt", "Gt")


def is_met(clause: Requirement, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet one clause of an affinity."""
    return _OPERATORS[clause.operator](labels.get(clause.key), clause.values)


def means(term: TaskTerm | SpreadTerm, shape: Shape) -> bool:
    """Return whether a term is about tasks of a shape; one that asks for nothing is about all."""
    if not set(term.labels) <= set(shape.labels):
        return False
    labels = dict(shape.labels)
    return all(is_met(clause, labels) for clause in term.clauses)


def exclusions(books: Books, facts: Facts, shape: Shape) -> list[tuple[str, Bools]]:
    """Return which nodes each constraint of `shape` excludes, in the order they are told."""
    found = [("not-ready", ~facts.ready)]
    if shape.gpu_models and shape.gpus:
        codes = [i for i, name in enumerate(books.flavors) if name in shape.gpu_models]
        found.append(("gpu-model", ~np.isin(books.flavor, codes)))
    if shape.selector:
        met = np.ones(books.count, np.bool_)
        for key, value in shape.selector:
            column, code = facts.codes(key)
            met &= column == code.get(value, -2)
        found.append(("selector", ~met))
    if shape.affinity:
        met = np.zeros(books.count, np.bool_)
        for clauses in shape.affinity:
            met |= np.logical_and.reduce([facts.holds(clause) for clause in clauses])
        found.append(("affinity", ~met))
    bad = [not tolerates(shape, taints, HARD_EFFECTS) for taints in facts.taint_sets]
    if any(bad):
        found.append(("taint", np.array(bad)[facts.taints]))
    return found


def preference(books: Books, facts: Facts, shape: Shape) -> Floats | None:
    """Return how much `shape` prefers each node; None if it prefers none."""
    soft = [tolerates(shape, taints, ("PreferNoSchedule",)) for taints in facts.taint_sets]
    if not shape.preferences and all(soft):
        return None
    total = np.zeros(books.count)
    for wish in shape.preferences:
        total += wish.weight * np.logical_and.reduce([facts.holds(c) for c in wish.clauses])
    return total - UNTOLERATED * ~np.array(soft, np.bool_)[facts.taints]


def tolerates(shape: Shape, taints: Sequence[Taint], effects: Sequence[str]) -> bool:
    """Return whether `shape` tolerates the taints that have one of these effects."""
    return all(
        any(_covers(toleration, taint) for toleration in shape.tolerations)
        for taint in taints
        if taint.effect in effects
    )


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    if toleration.key != taint.key:
        return False
    if toleration.operator in ("Lt", "Gt"):
        return _less(taint.value, toleration.value, 1 if toleration.operator == "Lt" else -1)
    return toleration.operator == "Exists" or toleration.value == taint.value
