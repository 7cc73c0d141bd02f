"""Demand-weighted fragmentation: idle GPUs that the typical task cannot use (FGD's measure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mooring.model.cluster import WHOLE
from mooring.model.resources import CPU, amount_of
from mooring.policy.placing.mix import Mix
from mooring.policy.placing.score import Typical

if TYPE_CHECKING:
    from mooring.metrics.cluster import Cluster
    from mooring.metrics.job import Job


class Fragments:
    """How much of the idle GPUs is of no use to what is asked for; looked at now and then."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._mix = Mix()
        self._arrivals = 0

    def arrive(self, job: Job) -> None:
        """Learn from a workload what is asked for."""
        for leaf in job.workload.leaves():
            self._mix.arrive(leaf.shape, leaf.most)

    def look(self) -> float:
        """Return the thousandths of GPUs that are idle and of no use, over those installed."""
        seen = [
            each
            for each in self._cluster.nodes.values()
            if each.node.ready and each.installed and not any(d.mig for d in each.node.devices)
        ]
        if not self._mix.is_ready or not seen:
            return 0.0
        widest = max(len(each.node.devices) for each in seen)
        share = np.zeros((widest, len(seen)), np.int16)
        for column, each in enumerate(seen):
            for device, facts in enumerate(each.node.devices):
                share[device, column] = max(WHOLE - each.taken[device], 0) * facts.healthy
        cpu = np.array([amount_of(each.node.capacity, CPU) - each.cpu for each in seen])
        models = sorted({each.node.gpu_model for each in seen})
        flavor = np.array([models.index(each.node.gpu_model) for each in seen])
        found = Typical(self._mix, models).fragments(cpu, share, flavor)
        return float(found.sum()) / sum(each.installed for each in seen)
