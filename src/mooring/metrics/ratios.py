"""Metrics as pure folds over columns.

Over healthy nodes n with g_n GPUs of which a_n are allocated, both in thousandths of a GPU. What is
on its way out is still allocated; what is only held for somebody is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.policy.fragments import gpu_columns, gpu_node_fragmentation_ratio

if TYPE_CHECKING:
    from mooring.model.columns import Ints

__all__ = ["gpu_allocation_ratio", "gpu_columns", "gpu_node_fragmentation_ratio"]


def gpu_allocation_ratio(allocated: Ints, installed: Ints) -> float:
    """Return GAR: Σ a_n / Σ g_n; 0 without GPUs."""
    total = int(installed.sum())
    return int(allocated.sum()) / total if total else 0.0
