"""Every public format: a few rows made by hand, and what becomes of them."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest

from mooring.model.events import Ended
from mooring.sim.traces import Options, Reading, TraceError, read_trace
from mooring.sim.traces.intake import equal_nodes, gang

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mooring.sim.load import Arrival, Load

OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,65536,2,A\nn1,32000,65536,1,\n"
OPENB_PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p-late,1000,1024,1,1000,A|B,LS,Running,50,90,60
p-share,2000,2048,1,250,,BE,Failed,10,30,10
p-never,1000,1024,2,1000,,LS,Pending,20,70,
p-cpu,1000,1024,0,0,,LS,Running,0,5,0
p-gone,1000,1024,0,0,,LS,Pending,40,40,
"""
PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-02 00:01:00,60.0,1,60.0,vc2
2017-10-02 00:00:00,3600.0,20,72000.0,vc1

2017-10-03 00:00:00,5,8,40,vc1
"""
PHILLY_VC = "vc,node num\nvc1,6\nvc9,3\n"
MURI = """\
job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,resource_time_1,resource_time_2,priority
7,1,0,10,net,8,2000,0,1,1,1,1,1
8,16,1500,10,net,8,600000,0,1,1,1,1,0
"""
CHRONUS = """\
job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type
0,u1,4,10,1,net,30,1,45,10,0,strict
1,u2,0,5,1,net,30,1,45,10,0,strict
2,u2,1,2,1,net,30,1,40-50-60,10-8-5,0,soft
3,u1,1,1,1,net,30,1,1,10,1,best
"""
DLRM = """\
instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time
i-old,HN,app,8,8,1,1,25,25,40.5,40.5,100.0,100.0,2,,,500.0
i-new,HN,app,8,8,1,1,25,25,40.0,40.0,100.0,100.0,2,100.0,110.0,
i-cpu,CN,app,64,64,0,0,1,1,320.0,320.0,255.0,255.0,-1,50.0,50.0,200.0
i-odd,CN,app,64,64,0,0,1,1,320.0,320.0,255.0,255.0,-1,60.0,60.0,60.0
"""
SPOT = "gpu_model,gpu_capacity_num,cpu_num,node_name\nA,8,128,0\nB,1,64,17\n"
LINGJUN = "ip,DSW,PSW,ASW\nx1,D,P1,S1\nx2,D,P1,S2\nx3,D,P2,S1\n"

FILES = {
    "openb-default": ("openb_pod_list_default.csv", OPENB_PODS),
    "philly-jobs": ("philly.csv", PHILLY),
    "philly-muri-1": ("trace1.csv", MURI),
    "philly-chronus-mix1": ("trace_job_Philly_MIX1.csv", CHRONUS),
    "dlrm-inference": ("disaggregated_DLRM_trace.csv", DLRM),
    "spot-gpu-nodes": ("node_info_df.csv", SPOT),
    "lingjun-topo": ("topo.csv", LINGJUN),
}


def write_traces(folder: Path) -> Path:
    """Write a small trace of every format into a folder."""
    for file, text in FILES.values():
        (folder / file).write_text(text)
    (folder / "openb_node_list_gpu_node.csv").write_text(OPENB_NODES)
    (folder / "philly_vc.csv").write_text(PHILLY_VC)
    return folder


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Reading]:
    """Return a function that reads a small trace."""
    write_traces(tmp_path)
    return lambda trace, **options: read_trace(trace, tmp_path, Options(**options))


def came(load: Load) -> dict[str, Arrival]:
    """Return the arrivals by name, having seen that they are in order."""
    arrivals = list(load.arrivals)
    times = [arrival.at for arrival in arrivals]
    assert times == sorted(times)
    assert all(arrival.at == arrival.workload.submitted_at for arrival in arrivals)
    assert arrivals == list(load.arrivals), "they can be taken again"
    return {arrival.workload.name: arrival for arrival in arrivals}


def times(load: Load) -> dict[str, tuple[float, float]]:
    return {name: (arrival.at, arrival.run_s) for name, arrival in came(load).items()}


# -- the formats ----------------------------------------------------------------------------


def test_openb_pods_run_as_long_as_they_ran(read: Callable[..., Reading]) -> None:
    reading = read("openb-default")
    load = reading.load

    assert times(load) == {
        "p-cpu": (0, 5),
        "p-share": (10, 20),
        "p-never": (20, inf),
        "p-late": (50, 30),
    }
    assert list(load.changes) == [(70, Ended("p-never"))]
    assert reading.rows == 5
    assert reading.notes == ("1 row passed over: no time between coming and going",)


def test_openb_pods_fail_whose_phase_says_so(read: Callable[..., Reading]) -> None:
    """Other phases are those in which pods were seen last; a file need not tell them."""
    assert {name for name, a in came(read("openb-default").load).items() if a.fails} == {"p-share"}


def test_openb_without_phases_is_read_too(tmp_path: Path) -> None:
    write_traces(tmp_path)
    rows = [line.split(",") for line in OPENB_PODS.splitlines()]
    text = "\n".join(",".join([*row[:7], *row[8:]]) for row in rows)
    (tmp_path / "openb_pod_list_default.csv").write_text(text)
    arrivals = came(read_trace("openb-default", tmp_path).load)
    assert arrivals["p-late"].run_s == 30
    assert not any(arrival.fails for arrival in arrivals.values())


def test_openb_pods_ask_for_shares_and_models(read: Callable[..., Reading]) -> None:
    load = read("openb-default").load
    shapes = {name: a.workload.groups[0].shape for name, a in came(load).items()}

    assert (shapes["p-share"].gpus, shapes["p-share"].milli) == (1, 250)
    assert shapes["p-late"].gpu_models == ("A", "B")
    assert shapes["p-cpu"].gpus == 0
    assert dict(shapes["p-share"].amounts) == {"cpu": 2000, "memory": 2048}
    assert [(n.name, n.gpu_model, len(n.devices)) for n in load.nodes] == [
        ("n0", "A", 2),
        ("n1", "", 1),
    ]


def test_openb_best_effort_comes_last(read: Callable[..., Reading]) -> None:
    arrivals = came(read("openb-default", queues=(("BE", "spot"),)).load)

    assert arrivals["p-share"].workload.priority < arrivals["p-late"].workload.priority
    assert {name: a.workload.queue for name, a in arrivals.items()} == {
        "p-cpu": "default",
        "p-share": "spot",
        "p-never": "default",
        "p-late": "default",
    }


def test_philly_begins_with_its_first_job(read: Callable[..., Reading]) -> None:
    load = read("philly-jobs").load

    assert times(load) == {
        "job-000002": (0, 3600),
        "job-000001": (60, 60),
        "job-000004": (86_400, 5),
    }
    assert len(load.nodes) == 96


def test_philly_virtual_clusters_are_queues(read: Callable[..., Reading]) -> None:
    assert [(q.name, q.weight) for q in read("philly-jobs").load.queues] == [
        ("vc1", 6.0),
        ("vc2", 1.0),
    ]
    one = read("philly-jobs", queues=(("*", "all"),)).load
    assert [(q.name, q.weight) for q in one.queues] == [("all", 9.0)]
    assert {a.workload.queue for a in one.arrivals} == {"all"}


def test_more_gpus_than_a_node_has_are_a_gang(read: Callable[..., Reading]) -> None:
    def groups(reading: Reading) -> list[tuple[int, int]]:
        workload = came(reading.load)["job-000002"].workload
        return [(group.min, group.shape.gpus) for group in workload.groups]

    assert groups(read("philly-jobs")) == [(2, 8), (1, 4)]
    assert groups(read("philly-jobs", gpus=4)) == [(5, 4)]
    assert groups(read("philly-jobs", gpus=32)) == [(1, 20)]


@pytest.mark.parametrize("gpus", range(1, 40))
def test_a_gang_has_all_its_gpus(gpus: int) -> None:
    assert sum(group.min * group.shape.gpus for group in gang(gpus, 8)) == gpus


def test_muri_counts_milliseconds(read: Callable[..., Reading]) -> None:
    load = read("philly-muri-1").load

    assert times(load) == {"job-7": (0, 2), "job-8": (1.5, 600)}
    assert [a.workload.priority for a in load.arrivals] == [1, 0]


def test_chronus_has_deadlines_in_minutes(read: Callable[..., Reading]) -> None:
    reading = read("philly-chronus-mix1")
    arrivals = came(reading.load)

    assert times(reading.load) == {
        "job-3": (60, 1800),
        "job-2": (120, 1800),
        "job-0": (600, 1800),
    }
    assert {
        name: (a.workload.priority, a.workload.deadline_at) for name, a in arrivals.items()
    } == {
        "job-3": (0, None),
        "job-2": (1, 120 + 2400),
        "job-0": (2, 600 + 2700),
    }
    assert [queue.name for queue in reading.load.queues] == ["u1", "u2"]
    assert reading.notes[0] == "1 row passed over: no GPU asked for"


def test_dlrm_instances_stand_until_they_are_deleted(read: Callable[..., Reading]) -> None:
    load = read("dlrm-inference").load

    assert times(load) == {"i-old": (0, inf), "i-cpu": (50, inf), "i-new": (100, inf)}
    assert list(load.changes) == [(200, Ended("i-cpu")), (500, Ended("i-old"))]
    old = came(load)["i-old"].workload
    assert old.service
    assert old.user == "app"
    assert dict(old.groups[0].shape.amounts) == {
        "cpu": 8000,
        "memory": 41_472,
        "rdma": 25,
        "disk_gib": 100,
    }
    assert [(n.name, n.labels, len(n.devices)) for n in load.nodes] == [
        ("gpu-0000", (("role", "HN"),), 8),
        ("cpu-0000", (("role", "CN"),), 0),
    ]


def test_spot_nodes_are_of_many_models(read: Callable[..., Reading]) -> None:
    load = read("spot-gpu-nodes").load

    assert [(n.name, n.gpu_model, len(n.devices)) for n in load.nodes] == [
        ("node-0000", "A", 8),
        ("node-0017", "B", 1),
    ]
    assert list(load.arrivals) == []


def test_lingjun_hosts_hang_in_a_tree(read: Callable[..., Reading]) -> None:
    load = read("lingjun-topo").load

    assert [level.name for level in load.topology.levels] == ["core", "aggregation", "leaf"]
    assert [(n.name, n.path, len(n.devices)) for n in load.nodes] == [
        ("host-0000", ("D", "P1", "S1"), 8),
        ("host-0001", ("D", "P1", "S2"), 8),
        ("host-0002", ("D", "P2", "S1"), 8),
    ]


# -- options --------------------------------------------------------------------------------


def test_a_window_begins_a_new_time(read: Callable[..., Reading]) -> None:
    assert times(read("openb-default", since_s=5, until_s=50).load) == {
        "p-share": (5, 20),
        "p-never": (15, inf),
    }


def test_what_stands_already_comes_when_the_window_begins(read: Callable[..., Reading]) -> None:
    load = read("dlrm-inference", since_s=150, until_s=1000).load

    assert times(load) == {"i-old": (0, inf), "i-cpu": (0, inf), "i-new": (0, inf)}
    assert list(load.changes) == [(50, Ended("i-cpu")), (350, Ended("i-old"))]


def test_deadlines_count_from_the_window_too(read: Callable[..., Reading]) -> None:
    (arrival,) = read("philly-chronus-mix1", since_s=300).load.arrivals
    assert (arrival.at, arrival.workload.deadline_at) == (300, 300 + 2700)


@pytest.mark.parametrize("trace", FILES)
def test_nodes_are_as_many_as_asked_for(read: Callable[..., Reading], trace: str) -> None:
    with_gpus = [node for node in read(trace, nodes=2).load.nodes if node.devices]
    assert len(with_gpus) == 2


def write_tidy(folder: Path) -> str:
    """Write a trace in the tidy format, with three nodes; return its file."""
    (folder / "tidy.csv").write_text("name,at,gpus\na,0,1\n")
    (folder / "tidy.nodes.csv").write_text("name,gpus\nx,8\ny,8\nz,4\n")
    return str(folder / "tidy.csv")


@pytest.mark.parametrize(
    ("trace", "has"),
    [("openb-default", 2), ("spot-gpu-nodes", 2), ("lingjun-topo", 3), ("tidy", 3)],
)
def test_more_nodes_than_a_trace_has_are_refused(
    read: Callable[..., Reading], tmp_path: Path, trace: str, has: int
) -> None:
    given = write_tidy(tmp_path) if trace == "tidy" else trace
    assert len(read(given, nodes=has).load.nodes) == has
    said = rf"^--nodes {has + 1}: .*\n.*{trace} has {has} nodes: give at most {has}, or nodes of"
    with pytest.raises(TraceError, match=said):
        read(given, nodes=has + 1)


def test_only_nodes_that_are_used_count(read: Callable[..., Reading], tmp_path: Path) -> None:
    """What is asked for is the nodes of the other trace."""
    assert len(read("openb-default", nodes_of="lingjun-topo", nodes=3).load.nodes) == 3
    with pytest.raises(TraceError, match="lingjun-topo has 3 nodes"):
        read("philly-jobs", nodes_of="lingjun-topo", nodes=4)
    (tmp_path / "none.csv").write_text("name,at\n")
    (tmp_path / "none.nodes.csv").write_text("name\n")
    with pytest.raises(
        TraceError, match=r"--nodes 1: 1 mistake\n.*none has no nodes: leave it out"
    ):
        read(str(tmp_path / "none.csv"), nodes=1)


SIZED = "have GPUs of their own: leave it out"


@pytest.mark.parametrize(
    ("trace", "nodes_of", "whose"),
    [
        ("openb-default", "", "openb-default"),
        ("spot-gpu-nodes", "", "spot-gpu-nodes"),
        ("tidy", "", "tidy"),
        ("dlrm-inference", "openb-default", "openb-default"),
        ("lingjun-topo", "openb-default", "openb-default"),
    ],
)
def test_gpus_of_nodes_that_have_their_own_are_refused(
    read: Callable[..., Reading], tmp_path: Path, trace: str, nodes_of: str, whose: str
) -> None:
    given = write_tidy(tmp_path) if trace == "tidy" else trace
    with pytest.raises(TraceError, match=f"^--gpus 4: .*\n.*the nodes of {whose} {SIZED}"):
        read(given, nodes_of=nodes_of, gpus=4)
    read(given, nodes_of=nodes_of, gpus=8)


@pytest.mark.parametrize(
    ("trace", "nodes_of", "gpus"),
    [
        ("lingjun-topo", "", {4}),
        ("dlrm-inference", "", {4, 0}),
        ("openb-default", "lingjun-topo", {4}),
        ("philly-jobs", "openb-default", {1, 2}),  # its work is cut into tasks of 4
    ],
)
def test_gpus_are_taken_where_they_say_something(
    read: Callable[..., Reading], trace: str, nodes_of: str, gpus: set[int]
) -> None:
    load = read(trace, nodes_of=nodes_of, gpus=4).load
    assert {len(node.devices) for node in load.nodes} == gpus


def test_nodes_can_be_those_of_another_trace(read: Callable[..., Reading]) -> None:
    load = read("philly-jobs", nodes_of="lingjun-topo").load

    assert [node.name for node in load.nodes] == ["host-0000", "host-0001", "host-0002"]
    assert len(load.topology.levels) == 3
    assert len(list(load.arrivals)) == 3


def test_without_nodes_there_are_enough_for_the_largest(read: Callable[..., Reading]) -> None:
    assert len(read("philly-muri-1").load.nodes) * 8 >= 16


def test_run_times_are_known_only_if_asked(read: Callable[..., Reading]) -> None:
    assert {a.workload.estimate_s for a in read("philly-jobs").load.arrivals} == {None}
    known = read("philly-jobs", known=True).load.arrivals
    assert [a.workload.estimate_s for a in known] == [3600, 60, 5]


def test_equal_nodes_are_in_order_by_name() -> None:
    names = [node.name for node in equal_nodes(12_000, 8)]
    assert names == sorted(names)


# -- broken rows ----------------------------------------------------------------------------

BROKEN = {
    "openb-default": (1, "p-late,1000", "p-late,x", "line 2, column cpu_milli: 'x'"),
    "openb milli": (1, "1,1000,A|B", "1,0,A|B", "line 2, column gpu_milli: '0'"),
    "openb end": (1, "50,90,60", "50,55,60", "line 2, column deletion_time: '55'"),
    "openb twice": (2, "p-share", "p-late", "line 3, column name: 'p-late'"),
    "philly-jobs": (1, "2017-10-02 00:01:00", "soon", "line 2, column timestamp: 'soon'"),
    "philly size": (1, "60.0,1,", "60.0,0,", "line 2, column num_gpus: '0'"),
    "philly-muri-1": (1, "2000", "-2000", "line 2, column duration: '-2000'"),
    "philly-chronus-mix1": (1, "strict", "lax", "line 2, column job_type: 'lax'"),
    "dlrm-inference": (1, "HN", "XN", "line 2, column role: 'XN'"),
    "spot-gpu-nodes": (1, "A,8", "A,99", "line 2, column gpu_capacity_num: '99'"),
    "lingjun-topo": (2, "x2", "x1", "line 3, column ip: 'x1'"),
}


@pytest.mark.parametrize(("case", "change"), BROKEN.items(), ids=BROKEN)
def test_a_broken_row_is_told_or_left_out(
    tmp_path: Path, case: str, change: tuple[int, str, str, str]
) -> None:
    write_traces(tmp_path)
    trace = {"openb": "openb-default", "philly": "philly-jobs"}.get(case.split(" ")[0], case)
    line, old, new, said = change
    file, text = FILES[trace]
    lines = text.splitlines(keepends=True)
    assert old in lines[line]
    lines[line] = lines[line].replace(old, new, 1)
    (tmp_path / file).write_text("".join(lines))

    with pytest.raises(TraceError) as error:
        read_trace(trace, tmp_path)
    assert error.value.source.endswith(file)
    (mistake,) = map(str, error.value.mistakes)
    assert mistake.startswith(said)

    whole = write_and_count(tmp_path / "whole", trace)
    reading = read_trace(trace, tmp_path, Options(skip_broken=True))
    assert reading.left_out == 1
    assert reading.rows == whole.rows
    ((path, told),) = reading.mistakes
    assert (path, str(told)) == (error.value.source, mistake)
    load, all_there = reading.load, whole.load
    left = len(list(load.arrivals)) + len(load.nodes) * (not list(load.arrivals))
    there = len(list(all_there.arrivals)) + len(all_there.nodes) * (not list(all_there.arrivals))
    assert left == there - 1


def write_and_count(folder: Path, trace: str) -> Reading:
    folder.mkdir()
    return read_trace(trace, write_traces(folder))


def test_openb_without_times_is_told(tmp_path: Path) -> None:
    write_traces(tmp_path)
    short = "\n".join(",".join(row.split(",")[:5]) for row in OPENB_PODS.splitlines())
    (tmp_path / "openb_pod_list_default.csv").write_text(short)
    with pytest.raises(TraceError, match="it has no times"):
        read_trace("openb-default", tmp_path)


def test_openb_without_nodes_is_told(tmp_path: Path) -> None:
    write_traces(tmp_path)
    (tmp_path / "openb_node_list_gpu_node.csv").unlink()
    with pytest.raises(TraceError, match="there is no file openb_node_list_gpu_node"):
        read_trace("openb-default", tmp_path)


def test_rows_of_one_kind_share_what_they_ask_for(tmp_path: Path) -> None:
    head, row = PHILLY.splitlines()[:2]
    (tmp_path / "philly.csv").write_text(f"{head}\n{row}\n{row}\n")
    first, second = read_trace("philly-jobs", tmp_path).drafts
    assert first.pattern is second.pattern
