"""Philly: jobs of a research cluster with virtual clusters, which become queues."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from mooring.model.workload import Workload
from mooring.sim.traces.intake import Cluster, Draft, Intake, Reading, gang, nodes_for
from mooring.sim.traces.rows import COUNT, Cells, Form, moment, name, number, whole

if TYPE_CHECKING:
    from mooring.sim.traces.files import Files

NODES = 96
"""Nodes of 8 GPUs on which the benchmark runs it."""
_VIRTUAL_CLUSTERS = "philly_vc"
_FORM = Form(("timestamp", "duration", "num_gpus", "cluster"))
_VC_FORM = Form(("vc", "node num"))
_GPUS = whole(1)
_SECONDS = number()


def read(files: Files, intake: Intake) -> Reading:
    """Read the list of jobs; time begins with the first of them.

    Queues have the number of nodes of their virtual cluster as weight where that is known.
    """
    options = intake.options

    def draft(cells: Cells) -> Draft:
        queue = intake.queue(cells.need("cluster", name))
        pattern = _pattern(cells.need("num_gpus", _GPUS), options.gpus, queue)
        at, run_s = cells.need("timestamp", moment), cells.need("duration", _SECONDS)
        return Draft(at, "", pattern, run_s)

    found = intake.rows(files.main, draft, _FORM)
    intake.drafts = [made._replace(name=f"job-{line - 1:06d}") for line, made in found]
    intake.order(min((draft.at for draft in intake.drafts), default=0.0))
    weights = _weights(files, intake)
    return intake.reading(Cluster(nodes_for(intake, NODES), queues=intake.queues(weights)))


def _weights(files: Files, intake: Intake) -> dict[str, float]:
    path = files.find(_VIRTUAL_CLUSTERS)
    weights: Counter[str] = Counter()
    if path:
        rows = intake.rows(path, _virtual_cluster, _VC_FORM)
        for _, (queue, nodes) in rows:
            weights[intake.queue(queue)] += nodes
    return {queue: float(nodes) for queue, nodes in weights.items()}


def _virtual_cluster(cells: Cells) -> tuple[str, int]:
    return cells.need("vc", name), cells.need("node num", COUNT)


@lru_cache(maxsize=4096)
def _pattern(gpus: int, node_gpus: int, queue: str) -> Workload:
    return Workload("", gang(gpus, node_gpus), queue)
