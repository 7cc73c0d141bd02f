"""Labels that no term names make no shapes; one that is named for the first time is seen anew."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from mooring.engine import Engine
from mooring.kube import driver
from mooring.kube.adopt import OTHERS, refusal
from mooring.kube.driver import ANEW, Driver, Inbox, Office
from mooring.model.queues import Queue
from mooring.model.settings import Policy
from mooring.model.topology import Topology
from mooring.model.workload import Shape, Workload
from tests.kube.manifests import job, job_pod, pod
from tests.kube.test_world import Tale, gang

if TYPE_CHECKING:
    from tests.kube.manifests import Json

HOST = "kubernetes.io/hostname"


def shapes(tale: Tale) -> set[Shape]:
    """Return the shapes that the engine knows."""
    found = tale.engine.entries().values()
    return {leaf.shape for entry in found for leaf in entry.workload.leaves()}


def apart(**labels: str) -> Json:
    """Return a part of a spec: on no node with pods that have these labels."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {"podAntiAffinity": {f"required{DURING}": [term]}}}


DURING = "DuringSchedulingIgnoredDuringExecution"


def wants(tale: Tale) -> bool:
    """Return whether the world wants a new engine."""
    return tale.world.wants_anew


def renew(tale: Tale) -> None:
    """Let a new engine begin with what the old one remembers."""
    memory = tale.engine.memory()
    tale.engine = Engine(Topology(), Policy(gang_grace_s=60), memory, (Queue("default"),))
    tale.world.begin()


def test_jobs_that_differ_by_their_names_have_one_shape() -> None:
    tale = Tale(nodes=25)
    for number in range(200):
        owner = job(f"train-{number}")
        tale.sees(owner, job_pod(owner, 0, labels={"run": str(number)}))
    assert len(tale.decides()) == 200
    (shape,) = shapes(tale)
    assert shape.labels == ()
    assert not wants(tale)


def test_a_label_that_is_named_for_the_first_time_is_seen_on_those_who_run() -> None:
    """Until then its pod waits, and everybody else goes on."""
    tale = Tale(gpus=4)
    tale.sees(pod("a", labels={"app": "web"}))
    assert tale.decides() == {"a": "node-0"}
    tale.turns("a", "Running")

    tale.sees(pod("b", spec=apart(app="web")), pod("c"))
    assert tale.decides() == {"c": "node-0"}
    assert wants(tale)
    assert (tale.world.take_held(), tale.world.take_held()) == (["lab/pod/b"], [])

    renew(tale)
    assert not wants(tale)
    assert tale.decides() == {"b": "node-1"}
    assert tale.states("lab/pod/a") == "R"
    tale.sees(pod("d", spec=apart(app="web")))
    assert tale.decides(), "the label is known by now"
    assert not wants(tale)


def test_those_who_run_keep_others_away_whoever_placed_them() -> None:
    """A pod of another scheduler wants to be alone: ours have their labels from then on."""
    tale = Tale(gpus=4)
    spec = {"schedulerName": "default-scheduler", **apart(app="web")}
    tale.sees(pod("other", node="node-0", spec=spec, phase="Running"))
    tale.decides()
    assert wants(tale)

    renew(tale)
    tale.sees(pod("a", labels={"app": "web"}), pod("b", labels={"app": "db"}))
    assert tale.decides() == {"a": "node-1", "b": "node-0"}


def test_devices_and_places_of_gangs_are_the_same_afterwards() -> None:
    tale = Tale()
    owner, pods = gang(2, gpus=3)
    tale.sees(owner, *pods)
    where = tale.decides()
    for name in where:
        tale.turns(name, "Running")
    before = tale.engine.entries()["lab/job/train"]
    tale.tells()
    held = {name: each.rows for name, each in before.members.items()}

    tale.sees(pod("b", gpus=8, spec=apart(app="web")))
    tale.decides()
    renew(tale)
    tale.decides()

    after = tale.engine.entries()["lab/job/train"]
    assert {name: each.rows for name, each in after.members.items()} == held
    assert tale.states("lab/job/train") == "RR"


def test_groups_that_differed_by_a_label_nobody_names_any_more_are_one() -> None:
    """And the other way round: what tells pods of one gang apart is a group of its own."""
    tale = Tale()
    owner = job("train", 2)
    pods = [job_pod(owner, i, labels={"side": side}) for i, side in enumerate("lr")]
    tale.sees(owner, *pods)
    tale.tells()
    name = "lab/job/train"
    assert [leaf.name for leaf in tale.engine.entries()[name].workload.leaves()] == ["main"]

    one = pod("one", gpus=8, spec=apart(side="l"))
    tale.sees(one)
    renew(tale)
    tale.tells()
    leaves = tale.engine.entries()[name].workload.leaves()
    assert [leaf.name for leaf in leaves] == ["main", "main~2"]

    tale.loses(one)
    renew(tale)
    tale.tells()
    assert [leaf.name for leaf in tale.engine.entries()[name].workload.leaves()] == ["main"]
    assert len(tale.decides()) == 2


def test_who_asked_for_a_new_engine_and_went_needs_none() -> None:
    tale = Tale()
    lonely = pod("b", spec=apart(app="web"))
    tale.sees(lonely)
    tale.tells()
    assert wants(tale)
    tale.loses(lonely)
    assert not wants(tale)


def test_pods_that_come_later_are_told_apart_from_those_that_only_changed() -> None:
    """Also where their workload is not understood, of which the engine hears nothing."""
    tale = Tale()
    owner = job("train", 2)
    first, second = (job_pod(owner, i, gpus="many") for i in range(2))
    tale.sees(owner, first)
    assert tale.world.take_joined() == ["lab/job/train~?"]
    tale.turns("train-0-x", "Pending")
    assert tale.world.take_joined() == []
    tale.sees(second)
    assert tale.world.take_joined() == ["lab/job/train~?"]


def test_labels_that_differ_within_a_group_are_no_key() -> None:
    """Else anybody could take the gangs of others apart by naming their ranks."""
    tale = Tale()
    owner, pods = gang(2)
    index = "batch.kubernetes.io/job-completion-index"
    tale.sees(pod("b", gpus=0, spec=apart(**{index: "0"})))
    renew(tale)
    tale.sees(owner, *pods)
    assert len(tale.decides()) == 3
    assert [leaf.name for leaf in tale.engine.entries()["lab/job/train"].workload.leaves()] == [
        "main"
    ]


class Hearer:
    """Hears nothing."""

    def cycle(self, *_: object) -> None:
        """Forget it."""


def test_a_new_engine_begins_at_once_and_then_not_so_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever names ever new labels does not keep the scheduler from its work."""
    tale, inbox = Tale(), Inbox()
    loop = Driver(tale.world, inbox, cast("Any", Hearer()))

    async def lead() -> asyncio.Task[str]:
        engine = Engine(Topology())
        task = asyncio.create_task(loop.lead(Office(engine, engine), lambda: None))
        await asyncio.sleep(0.05)
        return task

    async def story() -> None:
        inbox.do(lambda: tale.sees(pod("a", spec=apart(one="x"))))
        first = await lead()
        assert not first.done(), "what is there when it begins is known"
        inbox.do(lambda: tale.sees(pod("b", spec=apart(two="x"))))
        assert await asyncio.wait_for(first, 10) == ANEW

        second = await lead()
        inbox.do(lambda: tale.sees(pod("c", spec=apart(three="x"))))
        await asyncio.sleep(0.1)
        assert wants(tale)
        assert not second.done()
        monkeypatch.setattr(driver, "ANEW_S", 0.0)
        inbox.do(lambda: None)
        assert await asyncio.wait_for(second, 10) == ANEW

    asyncio.run(story())


# -- queues -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "why"),
    [
        ({"queue": "red", "namespace": "red"}, ""),
        ({"queue": "red", "namespace": "lab"}, "namespace lab"),
        ({"queue": "below", "namespace": "lab"}, "namespace lab"),
        ({"queue": "private", "user": "ann"}, ""),
        ({"queue": "private", "user": "bob"}, "user bob"),
        ({"queue": "nowhere", "namespace": "lab"}, ""),
        ({"queue": "round", "namespace": "lab"}, ""),
    ],
)
def test_who_may_not_use_a_queue(workload: dict[str, Any], why: str) -> None:
    queues = (
        Queue("red", namespaces=("red",)),
        Queue("below", parent="red"),
        Queue("private", users=("ann",)),
        Queue("round", parent="trip"),
        Queue("trip", parent="round"),
    )
    found = refusal({each.name: each for each in queues}, Workload("lab/pod/a", (), **workload))
    assert why in found
    assert bool(found) == bool(why)


def test_running_work_is_not_charged_to_a_queue_that_it_may_not_use() -> None:
    """Anybody may write a queue on a pod that is on a node already."""
    tale = Tale()
    tale.world.refusal = lambda work: "no" if work.queue == "theirs" else ""
    notes = {"mooring.dev/queue": "theirs"}
    tale.sees(pod("a", node="node-0", phase="Running", annotations=notes))
    tale.decides()
    assert tale.engine.entries()["lab/pod/a"].workload.queue == OTHERS
    assert tale.world.take_news() == [("lab/pod/a", ["mooring.dev/queue: theirs: no"])]
    tale.turns("a", "Running")
    assert not tale.tells(), "it stays so"
