"""The traces that are known: what they are, which files they have, and where to get them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.config.reader import nearest
from mooring.sim.traces import chronus, dlrm, muri, nodelists, openb, philly, tidy
from mooring.sim.traces.files import ENDS, Files, stem_of
from mooring.sim.traces.intake import Intake, Options, Reading, mean_gpus, span_of
from mooring.sim.traces.rows import TraceError, columns_of, kind_of
from mooring.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

Reader = Callable[[Files, Intake], Reading]
DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class Family:
    """Traces of one format from one place."""

    name: str
    what: str
    folder: str
    """Where the files are below the folder of traces, if not there."""
    stem: str
    """How the names of the files begin; what follows tells the traces apart."""
    read: Reader
    repository: str
    path: str
    """Of the files, in the repository."""
    sign: tuple[str, ...]
    """Columns by which a file is known."""
    many: bool = False
    """Whether there are several files, each a trace."""
    own_nodes: bool = False
    """Whether it says on which nodes it ran."""
    own_gpus: bool = False
    """Whether it says how many GPUs they have."""
    cuts: bool = False
    """Whether work on more GPUs than a node has is cut into tasks."""
    rest: str = "*"
    """Pattern of what follows, if there are several."""

    def found(self, folder: Path) -> Iterator[tuple[str, Path]]:
        """Yield the name and the file of every trace that is there."""
        seen: set[str] = set()
        for place in (folder / self.folder, folder):
            for path in sorted(place.glob(f"{self.stem}{self.rest if self.many else ''}.csv*")):
                name = self.name_of(path)
                if path.name.endswith(ENDS) and name not in seen:
                    seen.add(name)
                    yield name, path

    def name_of(self, path: Path) -> str:
        """Return the name of the trace in a file."""
        rest = stem_of(path).removeprefix(self.stem).lower()
        return f"{self.name}-{rest}" if self.many else self.name


FAMILIES = (
    Family(
        "openb", "pods that share GPUs, by time", "openb-2023", openb.PODS, openb.read,
        "alibaba/clusterdata", "cluster-trace-gpu-v2023/csv",
        openb.POD_FORM.needs, many=True, own_nodes=True, own_gpus=True,
    ),
    Family(
        "philly-jobs", "jobs of a research cluster", "philly-jobs", "philly", philly.read,
        "siasosp23/artifacts", "sia-simulator/traces/philly.csv",
        ("timestamp", "duration", "num_gpus", "cluster"), cuts=True,
    ),
    Family(
        "philly-muri", "Philly, gangs of all sizes", "philly-muri-vc", "trace", muri.read,
        "Rivendile/Muri", "simulator/trace-data",
        ("job_id", "num_gpu", "submit_time", "duration", "resource_time_0"), many=True,
        rest="[0-9]*", cuts=True,
    ),
    Family(
        "philly-chronus", "Philly, with deadlines", "philly-chronus-slo", "trace_job_Philly_",
        chronus.read, "S-Lab-System-Group/ChronusArtifact", "code/data/exp",
        ("job_id", "user", "num_gpu", "expect_time_list", "job_type"), many=True, cuts=True,
    ),
    Family(
        "dlrm-inference", "instances of services", "dlrm-inference-2025",
        "disaggregated_DLRM_trace", dlrm.read,
        "alibaba/clusterdata", "cluster-trace-gpu-v2025",
        ("instance_sn", "role", "app_name", "gpu_request"),
    ),
    Family(
        "spot-gpu-nodes", "nodes only, of six models", "spot-gpu-nodes-2026", "node_info_df",
        nodelists.read_spot,
        "alibaba/clusterdata", "cluster-trace-v2026-spot-gpu/node_info_df.csv",
        ("gpu_model", "gpu_capacity_num", "cpu_num", "node_name"), own_nodes=True, own_gpus=True,
    ),
    Family(
        "lingjun-topo", "nodes only, with their switches", "lingjun-topo-2023", "topo",
        nodelists.read_lingjun, "alibaba/alibaba-lingjun-dataset-2023", "data/topo.csv",
        ("ip", "DSW", "PSW", "ASW"), own_nodes=True,
    ),
)  # fmt: skip
_ONLY_NODES = Family(
    "nodes", "a table of nodes", "", "", tidy.read_nodes, "", "", (), own_nodes=True, own_gpus=True
)
"""A table of the tidy format by itself; it is no trace."""


@dataclass(frozen=True, slots=True)
class Found:
    """A trace that is there."""

    name: str
    path: Path
    family: Family | None = None
    """None: it is in the tidy format."""

    @property
    def has_nodes(self) -> bool:
        """Return whether it says on which nodes it ran."""
        return self.family.own_nodes if self.family else tidy.beside(self.path, "nodes").is_file()

    @property
    def has_gpus(self) -> bool:
        """Return whether it says how many GPUs these nodes have."""
        return self.family.own_gpus if self.family else self.has_nodes

    def read(self, options: Options = DEFAULTS) -> Reading:
        """Read it."""
        intake = Intake(self.name, options)
        reader = self.family.read if self.family else tidy.read
        return reader(Files(self.path), intake)


def find_all(folder: str | Path) -> tuple[list[Found], list[Family]]:
    """Return the traces that are in a folder, and the families of which there is none."""
    found, missing = [], []
    for family in FAMILIES:
        there = [Found(name, path, family) for name, path in family.found(Path(folder))]
        found += there
        missing += [] if there else [family]
    return found, missing


def find(given: str, folder: str | Path, option: str = "") -> Found:
    """Return a trace by its name, or by its file whose columns tell what it is."""
    path = Path(given)
    if kind_of(path) and path.is_file():
        columns = columns_of(path)
        family = next((f for f in FAMILIES if set(f.sign) <= set(columns)), None)
        return Found(family.name_of(path) if family else stem_of(path), path, family)
    found, missing = find_all(folder)
    for one in found:
        if one.name == given:
            return one
    raise TraceError.about(f"{option} {given}".strip(), _no_trace(given, found, missing))


def _no_trace(given: str, found: Iterable[Found], missing: Iterable[Family]) -> str:
    if kind_of(Path(given)):
        return "there is no such file"
    if Path(given).is_file():
        return "give a file that ends in .csv, .jsonl (or these with .gz) or .parquet"
    for family in missing:
        if given == family.name or (family.many and given.startswith(f"{family.name}-")):
            return f"its file is not here; get it from {family.repository}, {family.path}"
    names = [one.name for one in found]
    near = nearest(given, names)
    return f"there is no such trace or file{near or '; see mooring traces list'}"


def read_trace(given: str, folder: str | Path, options: Options = DEFAULTS) -> Reading:
    """Read a trace by name or file; `folder` is where traces are looked for by name."""
    trace = find(given, folder, "trace")
    if not options.nodes_of:
        _check_gpus(trace, trace, options)
        reading = trace.read(options)
        return reading if trace.has_nodes or options.nodes else _with_note(reading, options)
    found = _find_nodes(options.nodes_of, folder)
    _check_gpus(trace, found, options)
    reading = trace.read(replace(options, nodes=0))
    other = found.read(Options(options.nodes, options.gpus, skip_broken=options.skip_broken))
    nodes, topology = other.load.nodes, other.load.topology
    return Reading(
        replace(reading.load, nodes=nodes, topology=topology),
        reading.rows,
        reading.left_out + other.left_out,
        (*reading.mistakes, *other.mistakes),
        (*reading.notes, *other.notes),
        reading.drafts,
        (*reading.files, *other.files),
    )


def _find_nodes(given: str, folder: str | Path) -> Found:
    """Return the trace, or the table of nodes itself, that gives its nodes to another trace."""
    found = find(given, folder, "--nodes-of")
    if found.has_nodes:
        return found
    columns = () if found.family else columns_of(found.path)
    if "name" in columns and "at" not in columns:
        return replace(found, family=_ONLY_NODES)
    raise TraceError.about(f"--nodes-of {given}", "it has no nodes of its own")


def _check_gpus(trace: Found, nodes: Found, options: Options) -> None:
    """Raise an error if GPUs of nodes are given that say nothing about this work on these nodes."""
    is_cut = trace.family is not None and trace.family.cuts
    if options.gpus != DEFAULTS.gpus and nodes.has_gpus and not is_cut:
        problem = f"the nodes of {nodes.name} have GPUs of their own: leave it out"
        raise TraceError.about(f"--gpus {options.gpus}", problem)


def _with_note(reading: Reading, options: Options) -> Reading:
    """Return a trace without nodes, saying how many it got."""
    nodes = [node for node in reading.load.nodes if node.devices]
    others = len(reading.load.nodes) - len(nodes)
    some = counted(len(nodes), "node")
    gpus = f"{options.gpus} GPUs" if options.gpus > 1 else "one GPU"
    without = f" and {others:,} without" if others else ""
    note = f"it names no nodes, and gets {some} of {gpus}{without}; --nodes says how many"
    return replace(reading, notes=(*reading.notes, note))


# ── in short ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Summary:
    """A trace in numbers."""

    rows: int
    workloads: int
    span_s: float
    """From the first arrival to the last."""
    nodes: int
    gpus: int
    """Of these nodes."""
    mean_gpus: float
    """That would be in use in the mean if nobody ever waited."""
    left_out: int


def summary_of(reading: Reading) -> Summary:
    """Return a trace in numbers."""
    load, drafts = reading.load, reading.drafts
    gpus = sum(len(node.devices) for node in load.nodes)
    spread = span_of(drafts), len(load.nodes), gpus, mean_gpus(drafts)
    return Summary(reading.rows, len(drafts), *spread, reading.left_out)
