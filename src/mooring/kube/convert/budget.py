"""Disruption budgets: whom they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.kube.convert.notes import Notes
from mooring.kube.convert.selectors import selects

if TYPE_CHECKING:
    from mooring.kube.objects import Pod, PodDisruptionBudget


def budget_matches(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether a budget is about a pod. One without a selector is about none."""
    selector = budget.spec.selector
    if selector is None or budget.metadata.namespace != pod.metadata.namespace:
        return False
    return selects(selector, pod.metadata.labels, Notes())
