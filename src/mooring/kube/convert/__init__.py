"""From objects of the Kubernetes API to values of the model.

With `objects`, this is the only place that knows what fields of Kubernetes mean. What cannot be
understood is told, all of it; nothing is guessed, and nothing is raised.
"""

from mooring.kube.convert.budget import budget_matches
from mooring.kube.convert.gpus import claim
from mooring.kube.convert.node import Levels, levels_of, node
from mooring.kube.convert.pod import (
    Around,
    is_gated,
    may_preempt,
    priority,
    seen,
    seen_keys,
    shape,
    term_keys,
)
from mooring.kube.convert.selectors import NAMESPACE
from mooring.kube.problems import Problem, Problems

__all__ = [
    "NAMESPACE",
    "Around",
    "Levels",
    "Problem",
    "Problems",
    "budget_matches",
    "claim",
    "is_gated",
    "levels_of",
    "may_preempt",
    "node",
    "priority",
    "seen",
    "seen_keys",
    "shape",
    "term_keys",
]
