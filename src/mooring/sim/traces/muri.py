"""The lists of Muri (SIGCOMM 2022): four virtual clusters of Philly, with gangs of all sizes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from mooring.model.workload import Workload
from mooring.sim.traces.intake import Cluster, Draft, Intake, Reading, gang, nodes_for
from mooring.sim.traces.rows import Cells, Form, Names, number, whole

if TYPE_CHECKING:
    from mooring.sim.traces.files import Files

_FORM = Form(("job_id", "num_gpu", "submit_time", "model_name", "duration", "resource_time_0"))
_GPUS = whole(1)
_PRIORITY = whole(0, 1)
_MILLISECONDS = number()


def read(files: Files, intake: Intake) -> Reading:
    """Read a list; its times are milliseconds."""
    taken, options = Names(), intake.options
    queue = intake.queue("")

    def draft(cells: Cells) -> Draft:
        gpus, priority = cells.need("num_gpu", _GPUS), cells.take("priority", _PRIORITY, 0)
        at = cells.need("submit_time", _MILLISECONDS) / 1000
        run_s = cells.need("duration", _MILLISECONDS) / 1000
        pattern = _pattern(gpus, options.gpus, queue, priority)
        return Draft(at, f"job-{taken.take(cells, 'job_id')}", pattern, run_s)

    intake.drafts = [made for _, made in intake.rows(files.main, draft, _FORM)]
    intake.order()
    return intake.reading(Cluster(nodes_for(intake), queues=intake.queues()))


@lru_cache(maxsize=4096)
def _pattern(gpus: int, node_gpus: int, queue: str, priority: int) -> Workload:
    return Workload("", gang(gpus, node_gpus), queue, priority=priority)
