"""The columns of the tidy format: how each is read, its place in the schema, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mooring.config.forms import FLAG, NAME, Schema, list_of, say
from mooring.config.forms import number as number_form
from mooring.config.forms import whole as whole_form
from mooring.config.units import AMOUNT_MOST
from mooring.sim.traces.rows import COUNT, CellError, Form, flag, name, names, number, whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from mooring.sim.traces.rows import Cells

RESOURCE, SELECTOR, LABEL = "resource.", "selector.", "label."
LEVEL, BANDWIDTH = "level.", "bandwidth."
DEVICES_MOST = 62
PRIORITY_MOST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Kind:
    """What stands in a column."""

    read: Callable[[Any], Any]
    schema: Schema
    arrow: str
    """Its type in Parquet."""


_NAME = Kind(name, NAME, "string")
_NAMES = Kind(names, list_of(NAME), "strings")
_FLAG = Kind(flag, FLAG, "bool_")
_SECONDS = Kind(number(), number_form(0), "float64")
_NUMBER = _SECONDS
_SPAN = Kind(number(1.0), number_form(1), "float64")
_INSTANT = Kind(number(-AMOUNT_MOST), number_form(), "float64")
_COUNT = Kind(COUNT, whole_form(), "int64")
_AMOUNT = Kind(whole(0, AMOUNT_MOST), whole_form(0, AMOUNT_MOST), "int64")
_PRIORITY = Kind(
    whole(-PRIORITY_MOST, PRIORITY_MOST), whole_form(-PRIORITY_MOST, PRIORITY_MOST), "int64"
)


def _whole(least: int, most: int) -> Kind:
    return Kind(whole(least, most), whole_form(least, most), "int64")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the format."""

    what: str
    columns: dict[str, tuple[Kind, str]]
    """Of each column: what stands there, and what it says."""
    needs: tuple[str, ...]
    prefixes: dict[str, tuple[Kind, str]]

    @property
    def form(self) -> Form:
        """Return which columns there are."""
        readers = {column: self.reader(column) for column in self.columns}
        usual = LEVEL if LEVEL in self.prefixes else ""
        return Form(self.needs, tuple(self.columns), tuple(self.prefixes), readers, usual)

    def kind(self, column: str) -> Kind:
        """Return what stands in a column."""
        if column in self.columns:
            return self.columns[column][0]
        return self.prefixes[column[: column.index(".") + 1]][0]

    def reader(self, column: str) -> Callable[[Any], Any]:
        """Return the reader of a column."""
        return self.columns[column][0].read

    def schema(self) -> Schema:
        """Return the JSON schema of a row."""
        return {
            "description": self.what,
            "type": "object",
            "properties": {
                key: say(words, kind.schema) for key, (kind, words) in self.columns.items()
            },
            "patternProperties": {
                f"^{prefix[:-1]}\\..+$": say(words, kind.schema)
                for prefix, (kind, words) in self.prefixes.items()
            },
            "required": list(self.needs),
            "additionalProperties": False,
        }


_RESOURCES = (_AMOUNT, "any other resource, by its name: a whole amount")
_CPU = (_AMOUNT, "thousandths of cores")
_MEMORY = (_AMOUNT, "MiB of memory")

WORKLOADS = Table(
    "A workload, or one pod group of it: rows of one name follow each other.",
    {
        "name": (_NAME, "of the workload"),
        "at": (_SECONDS, "when it comes, in seconds from the beginning"),
        "run_s": (_SECONDS, "seconds that it has to run; empty: until it is ended"),
        "ends_at": (_SECONDS, "when it is ended, whether it has run or not, instead of run_s"),
        "fails": (_FLAG, "whether it fails at the end of run_s; empty: no"),
        "queue": (_NAME, "where it waits; empty: default"),
        "user": (_NAME, "whose it is"),
        "namespace": (_NAME, "where it belongs"),
        "priority": (_PRIORITY, "higher goes first; empty: 0"),
        "service": (_FLAG, "replicas that serve, instead of work that ends"),
        "preemptible": (_FLAG, "whether it may be evicted; empty: yes"),
        "estimate_s": (_SECONDS, "how long it is thought to run"),
        "run_limit_s": (_SECONDS, "how long it may run"),
        "minimum_run_s": (_SECONDS, "how long it runs before it may be evicted"),
        "restart_cost_s": (_SECONDS, "what a restart costs"),
        "checkpoint_every_s": (_SPAN, "how often it saves what is done; empty: never"),
        "deadline_at": (_INSTANT, "when it should be done"),
        "group": (_NAME, "of the pod group; empty: main"),
        "tasks": (
            _whole(1, 1_000_000),
            "how many start together; empty: 1. Where a cluster has several GPU models, those of a "
            "group keep to one",
        ),
        "max_tasks": (_whole(1, 1_000_000), "above tasks it is elastic"),
        "gpus": (_COUNT, "devices of each task; empty: 0"),
        "milli": (_whole(1, 1000), "thousandths of each device; empty: 1000, a whole one"),
        "gpu_models": (
            _NAMES,
            "GPU models that will do: a list, in CSV with bars (A|B). The tasks of a group keep to "
            "one of them",
        ),
        "cpu_milli": (_AMOUNT, "thousandths of cores of each task"),
        "memory_mib": (_AMOUNT, "MiB of memory of each task"),
        "required": (_NAME, "all tasks inside one domain of this level"),
        "preferred": (_NAME, "as few domains of this level as there are"),
    },
    ("name", "at"),
    {RESOURCE: _RESOURCES, SELECTOR: (_NAME, "label that a node must have, by its key")},
)
OF_GROUP = frozenset(
    ("group", "tasks", "max_tasks", "gpus", "milli", "gpu_models", "cpu_milli", "memory_mib",
     "required", "preferred")
)  # fmt: skip
"""Columns that are about the pod group."""

NODES = Table(
    "A node.",
    {
        "name": (_NAME, "of the node"),
        "gpus": (_whole(0, DEVICES_MOST), "devices; empty: 0"),
        "gpu_model": (_NAME, "of its devices"),
        "gpu_memory_mib": (_AMOUNT, "MiB of each device"),
        "cpu_milli": _CPU,
        "memory_mib": _MEMORY,
    },
    ("name",),
    {
        LEVEL: (_NAME, "its domain at this level of the topology; outermost column first"),
        BANDWIDTH: (_NUMBER, "of this level, in GB/s: the same for every node"),
        RESOURCE: _RESOURCES,
        LABEL: (_NAME, "label of the node, by its key"),
    },
)

QUEUES = Table(
    "A queue; it comes after the queue above it.",
    {
        "name": (_NAME, "of the queue"),
        "parent": (_NAME, "the queue above; empty: none"),
        "gpus": (_NUMBER, "GPUs that it can count on"),
        "gpu_limit": (_NUMBER, "most GPUs that it may use"),
        "weight": (_NUMBER, "its claim on what is left over; empty: 1"),
        "priority": (_PRIORITY, "higher gets surplus first; empty: 0"),
    },
    ("name",),
    {},
)


def values(
    cells: Cells, table: Table, only: Collection[str] | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield the cells of a row that are not empty, read; those of a prefix are left out."""
    for column, value in cells.values.items():
        if value is None or value == "" or (only is not None and column not in only):
            continue
        if column in table.columns:
            yield column, cells.need(column, table.reader(column))


def prefixed(
    cells: Cells, table: Table, prefix: str, *, keep_order: bool = False
) -> tuple[tuple[str, Any], ...]:
    """Return the cells of the columns with a prefix, without it; ordered by name or as given."""
    found = []
    for column, value in cells.values.items():
        if value is None or value == "" or not column.startswith(prefix):
            continue
        if len(column) == len(prefix):
            raise CellError(column, column, f"give a name after {prefix}")
        found.append((column[len(prefix) :], cells.need(column, table.prefixes[prefix][0].read)))
    return tuple(found if keep_order else sorted(found))


def trace_schema() -> Schema:
    """Return the JSON schema of a line of workloads; in `$defs` those of nodes and queues."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A trace: one line of the table of workloads",
        **WORKLOADS.schema(),
        "$defs": {"node": NODES.schema(), "queue": QUEUES.schema()},
    }
