"""All single numbers of a summary as one flat row: the columns of every table and file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.metrics.waits import BUCKETS

if TYPE_CHECKING:
    from mooring.metrics.summary import Promises, Summary, WaitCurve

    Numbers = dict[str, float | int | None]


def numbers_of(summary: Summary) -> Numbers:
    """Return the row; None is what cannot be told."""
    return {
        "submitted": summary.submitted,
        "started": summary.started,
        "ended": summary.ended,
        "nodes_lost": summary.nodes_lost,
        "gar_median": summary.gar.median,
        "gar_mean": summary.gar.mean,
        "sor": summary.sor,
        "sor_run": summary.sor_run,
        "sor_useful": summary.sor_useful,
        "gfr": summary.gfr.mean,
        "gfr_gpu": summary.gfr_gpu,
        "gfr_demand": summary.gfr_demand,
        **_waits(summary),
        "jtted_gangs": summary.tted.gangs,
        "jtted": summary.tted.time,
        "jtted_nodes": summary.tted.nodes,
        "jtted_leaves": summary.tted.leaves,
        "evictions": summary.evictions.workloads,
        "lost_gpu_hours": summary.evictions.lost_gpu_hours,
        "failed": summary.failed.workloads,
        "failed_gpu_hours": summary.failed.gpu_hours,
        "jain": summary.fairness.jain,
        "least": summary.fairness.least,
        **_promises(summary.promises),
        **_quantiles(summary),
    }


def _waits(summary: Summary) -> Numbers:
    """Return waits of all sizes together."""
    curves = summary.waits
    started = sum(curve.started for curve in curves)
    waited = sum((curve.mean or 0.0) * curve.started for curve in curves)
    return {
        "mean_wait_s": waited / started if started else None,
        "longest_wait_s": max((curve.longest for curve in curves), default=None),
        "waiting": sum(curve.waiting for curve in curves),
    }


def _promises(promises: Promises) -> Numbers:
    """Return what came of announced starts; without any there is no error."""
    due = promises.announced
    return {
        "announced": due,
        "announced_kept": promises.kept,
        "announced_error_s": promises.mean_error_s if due else None,
        "announced_error_p90_s": promises.p90_error_s if due else None,
    }


def _quantiles(summary: Summary) -> Numbers:
    """Return waits by size."""
    curves = {curve.bucket: curve for curve in summary.waits}
    row: Numbers = {}
    for bucket in BUCKETS:
        curve: WaitCurve | None = curves.get(bucket)
        for name in ("p50", "p90", "p99"):
            row[f"{name}_{bucket}_s"] = None if curve is None else getattr(curve, name)
    return row
