"""Terms about other pods: affinity, anti-affinity, spread. Domains are values of node labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mooring.kube import objects
from mooring.kube.convert.notes import Notes
from mooring.kube.convert.selectors import (
    NAMESPACE,
    NOBODY,
    check_weight,
    label_clauses,
    labels_of,
    selects,
)
from mooring.model.topology import LABEL
from mooring.model.workload import Requirement, SpreadTerm, TaskTerm

if TYPE_CHECKING:
    from collections.abc import Sequence

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_POLICIES = ("", "Honor", "Ignore")
COUNT_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the terms of one pod."""

    pod: objects.Pod
    namespaces: Mapping[str, Mapping[str, str]]
    """The labels of every namespace."""
    notes: Notes

    def near(self, affinity: objects.PodAffinity, field: str) -> tuple[TaskTerm, ...]:
        """Return the terms of an affinity.

        Company is only who all required terms mean, so each of them asks for what the others do.
        """
        required = self._required(affinity, field)
        if len(required) > 1:
            required = [_with_all(term, required) for term in required]
        return (*required, *self._preferred(affinity, field))

    def apart(self, affinity: objects.PodAffinity, field: str) -> tuple[TaskTerm, ...]:
        """Return the terms of an anti-affinity."""
        return (*self._required(affinity, field), *self._preferred(affinity, field))

    def spread(self) -> tuple[SpreadTerm, ...]:
        """Return the terms of spread."""
        field = "spec.topologySpreadConstraints"
        given = self.pod.spec.topology_spread_constraints
        return tuple(self._spread(one, f"{field}[{i}]") for i, one in enumerate(given))

    def _required(self, affinity: objects.PodAffinity, field: str) -> list[TaskTerm]:
        given = affinity.required_during_scheduling_ignored_during_execution
        return [self._term(one, f"{field}.{_REQUIRED}[{i}]", 0) for i, one in enumerate(given)]

    def _preferred(self, affinity: objects.PodAffinity, field: str) -> list[TaskTerm]:
        found: list[TaskTerm] = []
        given = affinity.preferred_during_scheduling_ignored_during_execution
        for i, one in enumerate(given):
            where = f"{field}.{_PREFERRED}[{i}]"
            check_weight(one.weight, f"{where}.weight", self.notes)
            found.append(self._term(one.pod_affinity_term, f"{where}.podAffinityTerm", one.weight))
        return found

    def _term(self, term: objects.PodTerm, field: str, weight: int) -> TaskTerm:
        selector = term.label_selector
        clauses = self._in_namespaces(term, field)
        if selector is None:
            clauses = [*clauses, NOBODY]
        else:
            clauses += label_clauses(selector, f"{field}.labelSelector", self.notes)
        clauses += self._like_mine(term.match_label_keys, "In")
        clauses += self._like_mine(term.mismatch_label_keys, "NotIn")
        labels = labels_of(selector.match_labels) if selector else ()
        return TaskTerm(self._level(term.topology_key, field), labels, weight, _once(clauses))

    def _spread(self, given: objects.TopologySpreadConstraint, field: str) -> SpreadTerm:
        notes, selector = self.notes, given.label_selector
        actions = ("DoNotSchedule", "ScheduleAnyway")
        notes.one_of(f"{field}.whenUnsatisfiable", given.when_unsatisfiable, actions)
        for key, policy in (
            ("nodeAffinityPolicy", given.node_affinity_policy),
            ("nodeTaintsPolicy", given.node_taints_policy),
        ):
            notes.one_of(f"{field}.{key}", policy, _POLICIES)
        self._check_count(given.max_skew, f"{field}.maxSkew")
        if given.min_domains is not None:
            self._check_count(given.min_domains, f"{field}.minDomains")
        clauses = [Requirement(NAMESPACE, "In", (self.pod.metadata.namespace,))]
        if selector is None:
            clauses.append(NOBODY)
        else:
            clauses += label_clauses(selector, f"{field}.labelSelector", notes)
        clauses += self._like_mine(given.match_label_keys, "In")
        return SpreadTerm(
            self._level(given.topology_key, field),
            labels_of(selector.match_labels) if selector else (),
            given.max_skew,
            given.when_unsatisfiable == actions[0],
            _once(clauses),
            given.min_domains or 0,
            given.node_affinity_policy != "Ignore",
            given.node_taints_policy == "Honor",
        )

    def _check_count(self, count: int, field: str) -> None:
        if not 1 <= count <= COUNT_MOST:
            self.notes.wrong(field, count, f"give a number from 1 to {COUNT_MOST}")

    def _level(self, key: str, field: str) -> str:
        if not key:
            self.notes.wrong(f"{field}.topologyKey", key, "give the name of a node label")
        return LABEL + key

    def _like_mine(self, keys: Sequence[str], operator: str) -> list[Requirement]:
        """Return clauses that ask for the pod's own values of some labels."""
        mine = self.pod.metadata.labels
        return [Requirement(key, operator, (mine[key],)) for key in keys if key in mine]

    def _in_namespaces(self, term: objects.PodTerm, field: str) -> list[Requirement]:
        """Return the clause that says in which namespaces the other pods are; none: in any."""
        names = dict.fromkeys(term.namespaces)
        selector = term.namespace_selector
        if selector is None:
            if not names:
                names[self.pod.metadata.namespace] = None
        elif not selector.match_labels and not selector.match_expressions:
            return []
        else:
            notes = Notes()
            label_clauses(selector, f"{field}.namespaceSelector", self.notes)
            meant = (name for name, has in self.namespaces.items() if selects(selector, has, notes))
            names |= dict.fromkeys(meant)
        if not names:
            return [NOBODY]
        return [Requirement(NAMESPACE, "In", tuple(sorted(names)))]


def _with_all(term: TaskTerm, terms: Sequence[TaskTerm]) -> TaskTerm:
    """Return a term that asks for everything that these ask for."""
    clauses = list(term.clauses)
    for other in terms:
        clauses += other.clauses
        extra = (pair for pair in other.labels if pair not in term.labels)
        clauses += [Requirement(key, "In", (value,)) for key, value in extra]
    return replace(term, clauses=_once(clauses))


def _once(clauses: Sequence[Requirement]) -> tuple[Requirement, ...]:
    """Return clauses in their order, each once."""
    return tuple(dict.fromkeys(clauses))
