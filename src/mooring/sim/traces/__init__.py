"""Traces: public formats and our own, read into loads."""

from mooring.sim.traces.columns import trace_schema
from mooring.sim.traces.intake import NOTHING, Options, Reading, Remarks
from mooring.sim.traces.registry import (
    FAMILIES,
    Family,
    Found,
    Summary,
    find,
    find_all,
    read_trace,
    summary_of,
)
from mooring.sim.traces.rows import TraceError
from mooring.sim.traces.write import write_trace

__all__ = [
    "FAMILIES",
    "NOTHING",
    "Family",
    "Found",
    "Options",
    "Reading",
    "Remarks",
    "Summary",
    "TraceError",
    "find",
    "find_all",
    "read_trace",
    "summary_of",
    "trace_schema",
    "write_trace",
]
