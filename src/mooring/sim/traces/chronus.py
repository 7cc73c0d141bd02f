"""The lists of Chronus (SoCC 2021): Philly jobs with deadlines, and best effort among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.config.reader import ReadError
from mooring.model.workload import Workload
from mooring.sim.traces.intake import Cluster, Draft, Intake, Reading, gang, nodes_for
from mooring.sim.traces.rows import Cells, Form, Names, name, number, text, whole

if TYPE_CHECKING:
    from typing import Any

    from mooring.sim.traces.files import Files

_FORM = Form(
    ("job_id", "user", "num_gpu", "submit_time", "duration", "expect_time_list", "job_type")
)
_MINUTE_S = 60
_GPUS = whole()
_MINUTES = number()
PRIORITIES = {"strict": 2, "soft": 1, "best": 0}
"""By type: a deadline that must be kept, one that should be, none."""


def read(files: Files, intake: Intake) -> Reading:
    """Read a list; its times are minutes, users are queues. What asks for no GPU is passed over."""
    taken, options = Names(), intake.options

    def draft(cells: Cells) -> Draft | None:
        gpus, kind = cells.need("num_gpu", _GPUS), cells.need("job_type", _job_type)
        at = cells.need("submit_time", _MINUTES) * _MINUTE_S
        run_s = cells.need("duration", _MINUTES) * _MINUTE_S
        within = cells.need("expect_time_list", _first_minutes) * _MINUTE_S
        pattern = Workload(
            "",
            gang(gpus or 1, options.gpus),
            intake.queue(cells.need("user", name)),
            priority=PRIORITIES[kind],
            deadline_at=at + within - options.since_s if PRIORITIES[kind] else None,
        )
        job = taken.take(cells, "job_id")
        return Draft(at, f"job-{job}", pattern, run_s) if gpus else None

    found = [made for _, made in intake.rows(files.main, draft, _FORM)]
    intake.drafts = [made for made in found if made]
    intake.note(len(found) - len(intake.drafts), "no GPU asked for")
    intake.order()
    return intake.reading(Cluster(nodes_for(intake), queues=intake.queues()))


def _job_type(value: Any) -> str:
    if value not in PRIORITIES:
        raise ReadError(f"give one of {', '.join(PRIORITIES)}")
    return str(value)


def _first_minutes(value: Any) -> float:
    """Return the first of some times, which is the one that counts in full."""
    return _MINUTES(text(value).partition("-")[0])
