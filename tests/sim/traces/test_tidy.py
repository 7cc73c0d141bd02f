"""The tidy format: what is written is read back the same, and mistakes are told."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mooring.cli import main
from mooring.model.cluster import Device, Node, Taint
from mooring.model.events import Ended, NodeLeft
from mooring.model.queues import DEFAULT_QUEUE, Queue, Quota
from mooring.model.resources import amounts
from mooring.model.topology import Level, Topology
from mooring.model.workload import PodGroup, Shape, TopologyRequest, Workload
from mooring.sim.load import Arrival, Load
from mooring.sim.mixes import Options as MixOptions
from mooring.sim.mixes import make_load
from mooring.sim.mixes.cluster import TOPOLOGY, make_nodes
from mooring.sim.traces import Options, TraceError, read_trace, trace_schema, write_trace
from mooring.sim.traces.intake import Cluster, Intake
from mooring.sim.traces.tidy import beside

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ENDS = (".csv", ".csv.gz", ".jsonl", ".jsonl.gz")


def load_of(*arrivals: Arrival, **more: Any) -> Load:
    given: dict[str, Any] = {"topology": Topology(), "nodes": (), **more}
    return Load("x", arrivals=arrivals, **given)


def job(name: str = "job", at: float = 0.0, *groups: PodGroup, **more: Any) -> Workload:
    return Workload(name, groups or (PodGroup("main"),), submitted_at=at, **more)


def same(load: Load, other: Load) -> None:
    assert list(other.arrivals) == list(load.arrivals)
    assert list(other.changes) == list(load.changes)
    assert (other.nodes, other.topology, other.queues) == (load.nodes, load.topology, load.queues)


def round_trip(load: Load, path: Path) -> Load:
    files = write_trace(load, path)
    assert files[0] == path
    return read_trace(str(path), path.parent).load


# -- there and back -------------------------------------------------------------------------

GANG = PodGroup(
    "workers",
    Shape(amounts({"cpu": 96_000, "memory": 4096, "rdma": 3}), 8, gpu_models=("A", "B 2")),
    4,
    6,
    TopologyRequest("leaf", "superpod"),
)
SHARE = PodGroup("main", Shape(gpus=1, milli=250, selector=(("zone", "a,b"),)))
EVERYTHING = load_of(
    Arrival(0.1, job('né "quoted", it\'s', 0.1, PodGroup("leader"), GANG), 1 / 3),
    Arrival(5.0, job("plain", 5.0), 60.0),
    Arrival(6.0, job("broken", 6.0, PodGroup("leader"), GANG), 60.0, fails=True),
    Arrival(
        7.0,
        job(
            "full",
            7.0,
            SHARE,
            queue="research",
            user="ann",
            namespace="lab",
            priority=-3,
            preemptible=False,
            estimate_s=10.5,
            run_limit_s=1e9,
            minimum_run_s=60.0,
            restart_cost_s=5.0,
            deadline_at=99.0,
        ),
        12.0,
    ),
    Arrival(7.0, job("serve", 7.0, service=True), inf),
    Arrival(9.0, job("ended", 9.0), inf),
    topology=TOPOLOGY,
    nodes=(
        *make_nodes(160),
        Node(
            "odd",
            amounts({"cpu": 1, "fpga": 2}),
            (("role", "x"), ("zone", "a,b")),
            path=("s", "l"),
        ),
    ),
    changes=((20.0, Ended("ended")),),
    queues=(
        DEFAULT_QUEUE,
        Queue("org", quotas=(Quota("gpu", quota=32_500, limit=64_000),)),
        Queue("research", "org", weight=2.5, priority=7),
    ),
)


@pytest.mark.parametrize("end", ENDS)
def test_everything_comes_back(tmp_path: Path, end: str) -> None:
    same(EVERYTHING, round_trip(EVERYTHING, tmp_path / f"a{end}"))


def test_everything_comes_back_from_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    same(EVERYTHING, round_trip(EVERYTHING, tmp_path / "a.parquet"))


@pytest.mark.parametrize("end", ENDS)
def test_nodes_alone_are_a_trace(tmp_path: Path, end: str) -> None:
    load = load_of(nodes=make_nodes(24), topology=TOPOLOGY)
    same(load, round_trip(load, tmp_path / f"a{end}"))


def test_arrivals_that_can_be_taken_once_are_written(tmp_path: Path) -> None:
    load = Load("x", Topology(), (), iter([Arrival(1.0, job("a", 1.0), 2.0)]))
    write_trace(load, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "name,at,run_s\na,1,2\n"


def test_work_that_fails_is_written_as_such(tmp_path: Path) -> None:
    """What runs until it is ended has no end of its own at which it could fail."""
    some = [(60.0, False), (60.0, True), (inf, True)]
    load = load_of(*(Arrival(1.0, job(f"j{i}", 1.0), *each) for i, each in enumerate(some)))
    write_trace(load, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == (
        "name,at,run_s,fails\nj0,1,60,\nj1,1,60,true\nj2,1,,\n"
    )


def test_a_mix_comes_back_with_those_that_fail(tmp_path: Path) -> None:
    load = make_load("lab", 1, MixOptions(64, days=0.5))
    arrivals = list(load.arrivals)
    back = round_trip(replace(load, arrivals=iter(arrivals)), tmp_path / "a.csv")
    assert list(back.arrivals) == arrivals
    assert any(arrival.fails for arrival in arrivals)


@pytest.mark.parametrize(("said", "fails"), [("true", True), ("0", False), ("", False)])
def test_a_row_says_whether_it_fails(tmp_path: Path, said: str, fails: bool) -> None:
    (tmp_path / "a.csv").write_text(f"name,at,run_s,fails\na,0,5,{said}\nb,0,,\n")
    load = read_trace(str(tmp_path / "a.csv"), "", Options(known=True, checkpoint_s=60.0)).load
    assert [arrival.fails for arrival in load.arrivals] == [fails, False]


def test_the_same_load_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        write_trace(EVERYTHING, tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1)
SHAPES = st.builds(
    Shape,
    st.dictionaries(st.sampled_from(["cpu", "memory", "rdma"]), st.integers(0, 1 << 40)).map(
        amounts
    ),
    st.integers(0, 16),
    st.integers(1, 1000),
    gpu_models=st.lists(WORDS.filter(lambda word: "|" not in word), max_size=2).map(tuple),
)


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrival]:
    """Draw workloads in order of time."""
    names = draw(st.lists(WORDS, unique=True, max_size=5))
    times = sorted(draw(st.floats(0, 1e9)) for _ in names)
    made = []
    for name, at in zip(names, times, strict=True):
        groups = [
            PodGroup(group, draw(SHAPES), draw(st.integers(1, 100)))
            for group in draw(st.lists(WORDS, min_size=1, max_size=3, unique=True))
        ]
        deadline = draw(st.none() | st.floats(-1e9, 1e9))
        run_s = draw(st.just(inf) | st.floats(0, 1e9))
        fails = run_s < inf and draw(st.booleans())
        made.append(Arrival(at, job(name, at, *groups, deadline_at=deadline), run_s, fails))
    return made


@given(arrivals())
def test_whatever_comes_comes_back(
    tmp_path_factory: pytest.TempPathFactory, made: list[Arrival]
) -> None:
    load, folder = load_of(*made), tmp_path_factory.mktemp("tidy")
    for end in (".csv", ".jsonl"):
        back = round_trip(load, folder / f"a{end}")
        assert list(back.arrivals) == made


@given(arrivals())
def test_every_line_that_is_written_is_valid(
    tmp_path_factory: pytest.TempPathFactory, made: list[Arrival]
) -> None:
    path = tmp_path_factory.mktemp("tidy") / "a.jsonl"
    write_trace(load_of(*made), path)
    validator = Draft202012Validator(trace_schema())
    for line in path.read_text("utf-8").split("\n")[:-1]:
        validator.validate(json.loads(line))


def test_lines_of_nodes_and_queues_are_valid(tmp_path: Path) -> None:
    paths = write_trace(EVERYTHING, tmp_path / "a.jsonl")
    schema = trace_schema()
    Draft202012Validator.check_schema(schema)
    for path, kind in zip(paths, (schema, *schema["$defs"].values()), strict=True):
        lines = path.read_text("utf-8").splitlines()
        assert lines
        for line in lines:
            Draft202012Validator(kind).validate(json.loads(line))


# -- what it cannot say ---------------------------------------------------------------------

UNSAID = {
    "ports": (load_of(Arrival(0.0, job("j", 0.0, PodGroup("main", Shape(ports=(80,)))))), "all of"),
    "groups of groups": (
        load_of(Arrival(0.0, job("j", 0.0, PodGroup("top", groups=(PodGroup("main"),))))),
        "all of it",
    ),
    "another time": (load_of(Arrival(5.0, job("j", 0.0))), "all of it"),
    "no name": (load_of(Arrival(0.0, job("", 0.0))), "cannot say it: name"),
    "blanks around a name": (
        load_of(Arrival(0.0, job("a", 0.0)), Arrival(0.0, job("b ", 0.0))),
        "workload b : the tidy format cannot say all of it",
    ),
    "lost nodes": (load_of(changes=[(0.0, NodeLeft("n"))]), "NodeLeft: the tidy format has no"),
    "taints": (load_of(nodes=(Node("n", taints=(Taint("t"),)),)), "node n: the tidy format"),
    "sick devices": (load_of(nodes=(Node("n", devices=(Device(healthy=False),)),)), "node n"),
    "half a tree": (
        load_of(nodes=(Node("a", path=("x",)), Node("b")), topology=Topology((Level("leaf"),))),
        "node b: .* give every node a domain",
    ),
    "stopped queues": (load_of(queues=(Queue("q", stop="hold"),)), "queue q"),
    "queues before their parents": (
        load_of(queues=(Queue("q", "p"), Queue("p"))),
        "queue q: .* give a queue of a row before",
    ),
}


@pytest.mark.parametrize(("load", "said"), UNSAID.values(), ids=UNSAID)
def test_what_the_format_cannot_say_is_told(tmp_path: Path, load: Load, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        write_trace(load, tmp_path / "a.jsonl")
    assert list(tmp_path.iterdir()) == [], "nothing is left of it"


def test_a_bar_in_a_model_is_told_in_csv_only(tmp_path: Path) -> None:
    group = PodGroup("main", Shape(gpus=1, gpu_models=("A|B",)))
    load = load_of(Arrival(0.0, job("j", 0.0, group)))
    with pytest.raises(TraceError, match=r"use .jsonl"):
        write_trace(load, tmp_path / "a.csv")
    back = round_trip(load, tmp_path / "a.jsonl")
    assert list(back.arrivals) == list(load.arrivals)


@pytest.mark.parametrize("name", ["a.yaml", "a", "a.parquet.gz", "none/a.csv"])
def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match=r"give a name that ends in|cannot be written"):
        write_trace(EVERYTHING, tmp_path / name)


def test_no_file_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.nodes.csv").write_text("mine")
    with pytest.raises(TraceError, match=r"a.nodes.csv: 1 mistake\n.*there is such a file"):
        write_trace(EVERYTHING, tmp_path / "a.csv")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


# -- queues that are odd ----------------------------------------------------------------------


def queue_notes(folder: Path, queues: str, work: Sequence[str], options: Options) -> list[str]:
    """Return the notes of a trace with these queues, and work in those."""
    rows = "".join(f"j{at},{at},60,1,{queue}\n" for at, queue in enumerate(work))
    (folder / "jobs.csv").write_text(f"name,at,run_s,gpus,queue\n{rows}")
    (folder / "jobs.nodes.csv").write_text("name,gpus\nn,8\n")
    (folder / "jobs.queues.csv").write_text(queues)
    return list(read_trace(str(folder / "jobs.csv"), ".", options).notes)


TREE = "name,parent,gpus\norg,,\nprod,org,8\n"


@pytest.mark.parametrize(
    ("queues", "work", "notes"),
    [
        (TREE, ["prod"], []),
        (
            TREE,
            ["prod", "prdo", "prdo", "prdo"],
            [
                "queue prdo (3 workloads) is not in jobs.queues.csv: it has no quota there; "
                "did you mean 'prod'?"
            ],
        ),
        (
            TREE,
            [""],
            [
                "queue default (1 workload) is not in jobs.queues.csv: it has no quota there",
                "no work is in prod of jobs.queues.csv",
            ],
        ),
        ("name\na\nb\nc\n", ["a"], ["no work is in b and c of jobs.queues.csv"]),
        ("name\n", ["a"], []),
    ],
    ids=["as said", "misspelt", "not said", "idle", "no rows"],
)
def test_queues_of_the_work_alone_or_of_the_table_alone_are_told(
    tmp_path: Path, queues: str, work: list[str], notes: list[str]
) -> None:
    assert queue_notes(tmp_path, queues, work, Options()) == notes


def test_of_many_odd_queues_some_are_told_by_name(tmp_path: Path) -> None:
    queues = "name\n" + "".join(f"x{number}\n" for number in range(12))
    notes = queue_notes(tmp_path, queues, [f"{letter}-z" for letter in "abcdefg"], Options())
    assert len(notes) == 7
    assert notes[-2:] == [
        "2 more queues with work are not in jobs.queues.csv",
        "no work is in x0, x1, x2, x3, x4 and 7 more of jobs.queues.csv",
    ]


def test_a_queue_is_not_idle_for_a_window_or_a_mapping(tmp_path: Path) -> None:
    for options in (Options(until_s=1.0), Options(queues=(("*", "a"),))):
        assert queue_notes(tmp_path, "name\na\nb\n", ["a", "b"], options) == []


# -- mistakes -------------------------------------------------------------------------------

WRONG = {
    "no name": ('{"at": 1}', "line 1, column name: nothing: give it: it is needed"),
    "no time": ('{"name": "a"}', "line 1, column at: nothing: give it: it is needed"),
    "before": ('{"name": "a", "at": -1}', "line 1, column at: -1: give a number from 0"),
    "unknown": ('{"name": "a", "at": 1, "gpu": 1}', "column gpu: 'gpu': unknown column; did you"),
    "both": ('{"name": "a", "at": 1, "run_s": 1, "ends_at": 2}', "give run_s or ends_at, not both"),
    "fails": (
        '{"name": "a", "at": 1, "run_s": 1, "fails": "no"}',
        "line 1, column fails: 'no': give true or false",
    ),
    "fails at no end": (
        '{"name": "a", "at": 1, "ends_at": 2, "fails": true}',
        "line 1, column fails: true: give run_s too: it fails at the end of its run",
    ),
    "ends before": ('{"name": "a", "at": 3, "ends_at": 2}', "ends_at: 2: give a time from 3 on"),
    "fewer": ('{"name": "a", "at": 1, "tasks": 4, "max_tasks": 2}', "give at least 4, or nothing"),
    "milli": ('{"name": "a", "at": 1, "milli": 2000}', "milli: 2000: give a whole number from 1"),
    "a number with lines": ('{"name": "a", "at": "3_600"}', "at: '3_600': give a number from 0"),
    "names that are the same": (
        '{"name": "a", "at": 1}\n{"name": "b", "at": 1}\n{"name": "a ", "at": 1}',
        "line 3, column name: 'a': give every name once",
    ),
    "no label": ('{"name": "a", "at": 1, "selector.": "x"}', "give a name after selector."),
    "twice": (
        '{"name": "a", "at": 1}\n{"name": "b", "at": 1}\n{"name": "a", "at": 1}',
        "line 3, column name: 'a': give every name once",
    ),
    "groups": (
        '{"name": "a", "at": 1}\n{"name": "a", "at": 1}',
        "line 2, column name: 'a': the row before has it: give another, or both rows a group each",
    ),
    "groups of one name": (
        '{"name": "a", "at": 1, "group": "g"}\n{"name": "a", "at": 1, "group": "g"}',
        "line 2, column group: 'g': give every group of a workload its own name",
    ),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_line_is_told(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(TraceError) as error:
        read_trace(str(tmp_path / "a.jsonl"), tmp_path)
    (mistake,) = map(str, error.value.mistakes)
    assert said in mistake


@pytest.mark.parametrize(
    ("table", "text", "said"),
    [
        ("nodes", "name,gpus\nn,63\n", "line 2, column gpus: '63'"),
        ("nodes", "name\nn\nn\n", "line 3, column name: 'n': give every name once"),
        ("nodes", "name,level.leaf\na,x\nb,\n", "line 3, column level.leaf: nothing: give every"),
        (
            "nodes",
            "name,level.leaf,bandwidth.leaf\na,x,1\nb,x,2\n",
            "line 3, column bandwidth.leaf: '2': give the same for every node",
        ),
        ("nodes", "node\na\n", "there is no column 'name'"),
        ("nodes", "name,leaf\na,x\n", "column leaf: unknown column; did you mean 'level.leaf'?"),
        ("nodes", "name,gpu\na,1\n", "column gpu: unknown column; did you mean 'gpus'?"),
        ("nodes", "name,a.b\na,1\n", "column a.b: unknown column"),
        ("queues", "name,leaf\na,x\n", "column leaf: unknown column"),
        ("queues", "name,parent\nq,none\n", "line 2, column parent: 'none': give a queue of a row"),
    ],
)
def test_a_wrong_table_beside_it_is_told(tmp_path: Path, table: str, text: str, said: str) -> None:
    (tmp_path / "a.csv").write_text("name,at\n")
    (tmp_path / f"a.{table}.csv").write_text(text)
    with pytest.raises(TraceError) as error:
        read_trace(str(tmp_path / "a.csv"), tmp_path)
    assert error.value.source.endswith(f"a.{table}.csv")
    assert said in str(error.value)
    assert ("did you mean" in said) == ("did you mean" in str(error.value))


def test_a_workload_with_a_broken_group_is_left_out_whole(tmp_path: Path) -> None:
    rows = [
        {"name": "a", "at": 0, "group": "x"},
        {"name": "a", "at": 0, "group": "y", "gpus": -1},
        {"name": "a", "at": 0, "group": "z"},
        {"name": "b", "at": 0, "group": "x", "gpus": -1},
        {"name": "b", "at": 0, "group": "y"},
        {"name": "c", "at": 0},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    reading = read_trace(str(tmp_path / "a.jsonl"), tmp_path, Options(skip_broken=True))

    assert [arrival.workload.name for arrival in reading.load.arrivals] == ["c"]
    assert reading.left_out == 4
    assert reading.rows == 6
    assert reading.notes[0] == "1 row passed over: another row of the same workload is broken"


def test_a_row_of_the_name_of_a_broken_one_is_left_out_too(tmp_path: Path) -> None:
    """It could be another group of that workload, wherever it stands."""
    (tmp_path / "a.csv").write_text("name,at,run_s\na,x,10\na,5,10\nb,5,10\na,6,10\n")
    reading = read_trace(str(tmp_path / "a.csv"), tmp_path, Options(skip_broken=True))

    assert [draft.name for draft in reading.drafts] == ["b"]
    assert reading.left_out == 3


def test_blanks_around_a_name_are_not_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "name,at,queue,gpu_models,user\n a ,0, y ,H100 | H200, Ann B \n"
    )
    (tmp_path / "a.queues.csv").write_text("name,parent\nx,\ny ,x \n")
    load = read_trace(str(tmp_path / "a.csv"), tmp_path).load
    (arrival,) = load.arrivals
    workload = arrival.workload
    assert (workload.name, workload.queue, workload.user) == ("a", "y", "Ann B")
    assert workload.groups[0].shape.gpu_models == ("H100", "H200")
    assert [(queue.name, queue.parent) for queue in load.queues] == [("x", ""), ("y", "x")]


def test_queues_that_no_table_names_are_there(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,at,queue\na,0,x\nb,0,y\n")
    (tmp_path / "a.queues.csv").write_text("name,weight\ny,3\n")
    load = read_trace(str(tmp_path / "a.csv"), tmp_path).load
    assert [(queue.name, queue.weight) for queue in load.queues] == [("y", 3.0), ("x", 1.0)]


@pytest.mark.parametrize(
    ("rows", "nodes"),
    [
        ("a,0,1,1,8\n", 1),
        ("a,0,1e9,1,8\nb,1e-9,1e9,1,8\n", 2),  # as if both ran at once
        ("a,0,1,40,8\n", 40),
        ("a,0,100,1,8\nb,100,0,1,8\n", 2),  # twice eight GPUs in the mean
        ("a,0,1,1000000,1000000\n", 200_000),
    ],
)
def test_a_trace_without_nodes_gets_what_it_needs(tmp_path: Path, rows: str, nodes: int) -> None:
    (tmp_path / "a.csv").write_text(f"name,at,run_s,tasks,gpus\n{rows}")
    assert len(read_trace(str(tmp_path / "a.csv"), tmp_path).load.nodes) == nodes


def test_rows_may_be_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,at\nlate,9\nearly,1\nsoon,1\n")
    load = read_trace(str(tmp_path / "a.csv"), tmp_path).load
    assert [a.workload.name for a in load.arrivals] == ["early", "soon", "late"]


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("a.csv", "a.nodes.csv"),
        ("a.csv.gz", "a.nodes.csv.gz"),
        ("a.2023.v1.jsonl", "a.2023.v1.nodes.jsonl"),
    ],
)
def test_tables_stand_beside_each_other(tmp_path: Path, name: str, nodes: str) -> None:
    assert beside(tmp_path / name, "nodes") == tmp_path / nodes


def test_all_mistakes_of_a_row_are_told(tmp_path: Path) -> None:
    trace = tmp_path / "mine.csv"
    trace.write_text(
        "name,at,run_s,queue,priority,tasks,gpus\nb,x,10,q,high,-2,8\n,5,10,q,,1,1.5\n"
    )
    with pytest.raises(TraceError) as error:
        read_trace(str(trace), ".")
    told = [mistake.path for mistake in error.value.mistakes]
    rows = {2: ("at", "priority", "tasks"), 3: ("name", "gpus")}
    assert sorted(told) == sorted(f"line {n}, column {c}" for n, some in rows.items() for c in some)


def test_mistakes_of_all_tables_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where one has no row that can be read, or one of them is well."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("name,at,run_s\na,x,10\nb,5,10\n")
    (tmp_path / "a.nodes.csv").write_text("name,gpus\nn,8\nn,x\n")
    (tmp_path / "a.queues.csv").write_text("queue\nq\n")
    wrong = [
        "a.csv: line 2, column at: 'x': give a number from 0",
        "a.nodes.csv: line 3, column gpus: 'x': give a whole number from 0 to 62",
        "a.queues.csv: there is no column 'name'",
    ]

    assert main(["simulate", "--trace", "a.csv"]) == 2
    assert capsys.readouterr().err.splitlines() == wrong
    with pytest.raises(TraceError) as error:
        read_trace("a.csv", ".")
    assert str(error.value).startswith("trace: 3 mistakes\n  a.csv: line 2, column at: 'x'")
    (tmp_path / "a.csv").write_text("name,at,run_s\na,5,10\n")
    assert main(["simulate", "--trace", "a.csv", "--skip-broken"]) == 2
    assert capsys.readouterr().err.splitlines() == wrong[2:]


def test_more_broken_rows_than_are_told_hide_no_other_table_that_cannot_be_read(
    tmp_path: Path,
) -> None:
    """Of all tables together the first are told one by one."""
    (tmp_path / "a.csv").write_text("name,at\n" + "".join(f"a{i},x\n" for i in range(30)))
    (tmp_path / "a.nodes.csv").write_text("gpus\n8\n")
    with pytest.raises(TraceError) as error:
        read_trace(str(tmp_path / "a.csv"), tmp_path)
    *rows, more, head = map(str, error.value.mistakes)
    assert len(rows) == 20
    assert more.endswith("a.csv: more than 20 rows are broken")
    assert head.endswith("a.nodes.csv: there is no column 'name'")


def test_a_queue_that_nobody_is_in_is_told(tmp_path: Path) -> None:
    trace = tmp_path / "mine.csv"
    trace.write_text("name,at,run_s,gpus,queue\na,0,10,8,research\nb,0,10,8,\n")
    for wrong, told in (("reserch", "did you mean 'research'?"), ("x", "; there are research")):
        with pytest.raises(TraceError, match=f"no work of mine is in queue {wrong}") as error:
            read_trace(str(trace), ".", Options(queues=((wrong, "here"),)))
        assert told in str(error.value)
    assert read_trace(str(trace), ".", Options(queues=(("research", "here"), ("*", "b")))).drafts


def test_nodes_are_taken_of_traces_that_have_some(tmp_path: Path) -> None:
    trace, other = tmp_path / "mine.csv", tmp_path / "other.csv"
    for file in (trace, other):
        file.write_text("name,at,run_s,gpus\na,0,10,8\n")
    with pytest.raises(TraceError, match="it has no nodes of its own"):
        read_trace(str(trace), ".", Options(nodes_of=str(other)))
    assert "it names no nodes, and gets 1 node of 8 GPUs" in read_trace(str(trace), ".").notes[0]
    (tmp_path / "other.nodes.csv").write_text("name,gpus\nn,16\n")
    taken = read_trace(str(trace), ".", Options(nodes_of=str(other)))
    assert [len(node.devices) for node in taken.load.nodes] == [16]
    assert not taken.notes


def test_queues_of_what_has_no_work_are_not_asked_for() -> None:
    assert not Intake("nodes", Options(queues=(("a", "b"),))).reading(Cluster(())).drafts
