"""Health, readiness and metrics are what they say, and the manual names them all."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mooring.engine import Engine
from mooring.kube.meters import Meters
from mooring.kube.serve import ADDRESS, Address, Health, Server
from mooring.kube.store import DROPPED, Counts, Store
from mooring.kube.tell import Tell
from mooring.model.events import Ended, NodeJoined, Submitted
from mooring.model.plan import Evict, NoRoom, Plan, Waiting
from mooring.model.queues import Queue, Quota
from mooring.model.topology import Topology
from tests.build import node, task

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.model.events import Event

PAGE = (Path(__file__).parents[2] / "docs/metrics.md").read_text("utf-8")
QUEUES = (Queue("default", quotas=(Quota("gpu", quota=4000),)), Queue("idle"))


class Nobody:
    """Stands for a part of which only numbers are asked."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.taken = self.refused = 1

    def subject(self, workload: str) -> None:
        return None


async def told() -> Tell:
    return Tell(cast("Any", None), cast("Any", Nobody()))


def meters() -> Meters:
    """Return the meters of a small cluster in which one works, one waits and one had to leave."""
    engine = Engine(Topology(), queues=QUEUES)
    events: list[Event] = [NodeJoined(node(name, 4)) for name in "ab"]
    events += [Submitted(task(name, gpus)) for name, gpus in (("x", 2), ("y", 8))]
    for event in events:
        engine.observe(event)
    plan = engine.decide(1000.0)
    found = Meters(clock=lambda: 1010.0)
    found.queues = lambda: engine.queues
    found.standings = engine.standings
    found.cycle(1000.0, events, plan, 0.002)
    found.cycle(1005.0, [], Plan((Evict("z", "main", (0,), "quota"),)), 0.004)
    found.bound(0.3)
    found.refused()
    found.answered("POST", "pods/binding", 201, 0.004)
    found.answered("POST", "pods/binding", 409, 0.004)
    found.answered("GET", "pods", 0, 30.0)
    found.tell = asyncio.run(told())
    found.store = cast("Store", Nobody())
    found.policy = cast("Any", Nobody())
    found.health = Health()
    return found


def samples(registry_text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sorted(v for key, v in sample.labels.items() if key != "le"))): (
            sample.value
        )
        for family in text_string_to_metric_families(registry_text)
        for sample in family.samples
    }


def scrape(given: Meters, *paths: str, health: Health | None = None) -> list[tuple[int, str]]:
    async def run() -> list[tuple[int, str]]:
        server = Server(health or given.health or Health(), given, "127.0.0.1:0")
        port = await server.start()
        found = []
        try:
            async with aiohttp.ClientSession() as session:
                for path in paths:
                    async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                        found.append((answer.status, await answer.text()))
        finally:
            await server.stop()
        return found

    return asyncio.run(run())


def test_no_word_is_kept_of_workloads_that_have_ended_though_nobody_reads_the_numbers() -> None:
    found = meters()
    found.cycle(1010.0, [], Plan(waiting=(Waiting("y", (NoRoom("main", "cluster", 8, 5),)),)), 0.0)
    assert "y" in found._words
    found.cycle(1015.0, [Ended("y")], Plan(), 0.0)
    assert "y" not in found._words


def test_the_numbers_of_a_small_cluster() -> None:
    ((status, text),) = scrape(meters(), "/metrics")
    assert status == 200
    found = samples(text)
    expected: dict[tuple[str, tuple[str, ...]], float] = {
        ("mooring_gpu_allocation_ratio", ()): 0.25,
        ("mooring_gpu_fragmentation_ratio", ()): 0.5,
        ("mooring_scheduling_occupancy_ratio", ()): 0.25,
        ("mooring_gpus", ()): 8,
        ("mooring_gpus_allocated", ()): 2,
        ("mooring_gpu_seconds_total", ()): 80,
        ("mooring_gpu_held_seconds_total", ()): 20,
        ("mooring_nodes", ()): 2,
        ("mooring_cycles_total", ()): 2,
        ("mooring_cycles_not_counted_total", ()): 0,
        ("mooring_decide_seconds_count", ()): 2,
        ("mooring_queue_waiting", ("default",)): 1,
        ("mooring_queue_waiting", ("idle",)): 0,
        ("mooring_queue_running", ("default",)): 1,
        ("mooring_waiting", ("Unschedulable",)): 1,
        ("mooring_evictions_total", ("quota",)): 1,
        ("mooring_binds_total", ("bound",)): 1,
        ("mooring_binds_total", ("refused",)): 1,
        ("mooring_bind_latency_seconds_sum", ()): 0.3,
        ("mooring_api_errors_total", ("409", "POST", "pods/binding")): 1,
        ("mooring_api_errors_total", ("0", "GET", "pods")): 1,
        ("mooring_queue_quota", ("", "default", "gpu")): 4,
        ("mooring_leader", ()): 0,
    }
    for key, value in expected.items():
        assert found.get(key) == pytest.approx(value), key
    used = [value for (name, labels), value in found.items() if name == "mooring_queue_used"]
    assert 2.0 in used  # whole GPUs
    assert ("mooring_api_errors_total", ("201", "POST", "pods/binding")) not in found


def names(given: Meters) -> Iterable[str]:
    for family in given.registry.collect():
        yield f"{family.name}_total" if family.type == "counter" else family.name


def test_the_manual_names_every_metric_and_no_other() -> None:
    told = set(re.findall(r"`((?:mooring|process)_[a-z_]+)`", PAGE))
    assert set(names(meters())) | {"process_start_time_seconds"} == told
    for name in told:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name)


def test_the_manual_says_what_the_memory_leaves_out() -> None:
    assert ", ".join(f"`{name}`" for name in DROPPED) in " ".join(PAGE.split())


def test_names_follow_the_conventions() -> None:
    """Counters end in _total, times are in seconds, and no name is a number of another kind."""
    for family in meters().registry.collect():
        assert family.documentation.strip(), family.name
        if family.type == "histogram":
            assert family.name.endswith("_seconds")
        assert not re.search(r"_(ms|millis|mib|count|sum|bucket)(_|$)", family.name), family.name


def test_who_starts_waits_no_more() -> None:
    found = meters()
    found.cycle(1006.0, [], Plan(waiting=(Waiting("y", ()),)), 0.001)
    assert "mooring_waiting{" not in scrape(found, "/metrics")[0][1]
    found.cycle(1007.0, [], Plan(waiting=(Waiting("gone", (NoRoom("m", "cluster", 1, 0),)),)), 0.1)
    assert "mooring_waiting{" not in scrape(found, "/metrics")[0][1]


def test_a_new_term_counts_nobody_twice() -> None:
    found = meters()
    events: list[Event] = [NodeJoined(node("a", 4)), Submitted(task("x", 2))]
    found.begin()
    found.cycle(1007.0, events, Plan(), 0.001)
    numbers = samples(scrape(found, "/metrics")[0][1])
    assert numbers["mooring_gpus", ()] == 4
    assert numbers["mooring_gpu_allocation_ratio", ()] == 0
    assert numbers["mooring_queue_waiting", ("default",)] == 1
    assert numbers["mooring_cycles_total", ()] == 3


def test_a_cycle_that_cannot_be_counted_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    found = meters()
    found.cycle(1006.0, [cast("Any", NodeJoined(cast("Any", None)))], Plan(), 0.001)
    text = scrape(found, "/metrics")[0][1]
    assert "mooring_cycles_not_counted_total 1.0" in text
    assert "cycle not counted" in caplog.text


def test_health_and_readiness() -> None:
    now = [0.0]
    health = Health(limit_s=30.0, clock=lambda: now[0])

    def ask() -> list[tuple[int, str]]:
        return scrape(Meters(), "/healthz", "/readyz", health=health)

    assert ask() == [(200, "ok\n"), (503, "it has not seen the whole cluster yet\n")]
    health.is_synced = True
    assert ask()[1] == (200, "ok: standby\n")
    health.is_leader = True
    assert ask()[1] == (200, "ok: leader\n")
    now[0] = 31.0
    assert ask() == [(503, "the loop has not turned for 31 s\n")] * 2
    health.beat()
    assert ask() == [(200, "ok\n"), (200, "ok: leader\n")]
    health.is_stopping = True
    assert ask() == [(200, "ok\n"), (503, "it is stopping\n")]


def test_nothing_else_is_answered() -> None:
    assert [status for status, _ in scrape(Meters(), "/", "/metrics/x")] == [404, 404]


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (ADDRESS, "127.0.0.1", 8080),
        (":9090", "", 9090),
        ("[::1]:0", "::1", 0),
        ("localhost:80", "localhost", 80),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert Address.read(text) == Address(host, port)


@pytest.mark.parametrize(
    "text", ["", "8080", "host", "host:", "host:x", "::1:80", "h:70000", "[::1:80"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        Address.read(text)
