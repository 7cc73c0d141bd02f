"""Objects come in, facts for the engine come out: stories without a server, with a real engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.engine import Engine
from mooring.kube import kin
from mooring.kube.audience import Audience
from mooring.kube.carry import Carrier, Place
from mooring.kube.crew import BEYOND
from mooring.kube.driver import Driver, Inbox
from mooring.kube.family import LEAVES_MOST, Sibling
from mooring.kube.intake import Intake
from mooring.kube.kin import Owners
from mooring.kube.objects import Namespace, PodDisruptionBudget, Unreadable, read, read_node
from mooring.kube.resources import NAMESPACES, PODS
from mooring.kube.tell import Tell
from mooring.kube.watch import Replaced
from mooring.kube.world import World
from mooring.model.events import Ended
from mooring.model.memory import Memory
from mooring.model.plan import Bind, Evict, Plan
from mooring.model.queues import Queue
from mooring.model.settings import Policy
from mooring.model.topology import Topology
from mooring.model.workload import Shape, TaskState
from tests.kube.manifests import CREATED_S, Json, as_pod, job, job_pod, owner_of, pod
from tests.kube.manifests import thing as some
from tests.kube.plane import node

if TYPE_CHECKING:
    from mooring.model.events import Event

NODE, DEVICES = "nodeName", "mooring.dev/devices"


class Tale:
    """A world, an engine that leads, and hands that do at once what it decides."""

    def __init__(self, nodes: int = 2, gpus: int = 8) -> None:
        self.world = World(Topology(), Owners())
        self.now = CREATED_S
        self.pods: dict[str, Json] = {}
        self._version = 0
        self.take_over()
        for number in range(nodes):
            self.sees_node(f"node-{number}", gpus)

    def take_over(self) -> None:
        """Let another life begin, which knows only what can be seen."""
        self.engine = Engine(Topology(), Policy(gang_grace_s=60), Memory(), (Queue("default"),))
        self.world.begin()

    # -- what is seen -------------------------------------------------------------------------

    def sees(self, *things: Json) -> None:
        """Bring pods and owners, as they are now."""
        for thing in things:
            if thing["kind"] == "Pod":
                self._version += 1
                thing["metadata"]["resourceVersion"] = str(self._version)
                self.pods[thing["metadata"]["name"]] = thing
                self.world.put_pod(as_pod(thing))
            else:
                self.world.put_owner(owner_of(thing))

    def sees_node(self, name: str, gpus: int = 8) -> None:
        """Bring a node."""
        found = read_node(node(name, gpus))
        assert not isinstance(found, Unreadable)
        self.world.estate.put(found)

    def loses(self, *things: Json) -> None:
        """Bring that pods or owners are gone."""
        for thing in things:
            if thing["kind"] == "Pod":
                del self.pods[thing["metadata"]["name"]]
                self.world.drop_pod(as_pod(thing))
            else:
                self.world.drop_owner(owner_of(thing))

    def turns(self, name: str, phase: str = "", **more: Any) -> Json:
        """Let a pod go on: `node`, `deleted`, `gates`, `devices`."""
        old = self.pods[name]
        meta, spec = {**old["metadata"]}, {**old["spec"]}
        if "node" in more:
            spec[NODE] = more["node"]
        if "devices" in more:
            meta["annotations"] = meta.get("annotations", {}) | {DEVICES: more["devices"]}
        if "deleted" in more:
            meta["deletionTimestamp"] = "2026-05-01T12:30:00Z"
        if "gates" in more:
            spec["schedulingGates"] = more["gates"]
        status = {"phase": phase} if phase else old["status"]
        new = {**old, "metadata": meta, "spec": spec, "status": status}
        self.sees(new)
        return new

    # -- what is decided ----------------------------------------------------------------------

    def tells(self) -> list[str]:
        """Tell the engine what is new; return the kinds of facts, with states of tasks."""
        facts: list[str] = []

        def observe(event: Event) -> None:
            self.engine.observe(event)
            state = getattr(event, "state", None)
            facts.append(type(event).__name__ + (f" {state.name.lower()}" if state else ""))

        self.world.settle(self.now, self.engine.entries(), observe)
        assert not self.world.errors, self.world.errors
        return facts

    def stumbles(self) -> list[str]:
        """Return what the engine did not take, once."""
        self.world.settle(self.now, self.engine.entries(), self.engine.observe)
        errors, self.world.errors = self.world.errors, []
        return errors

    def decides(self, seconds: float = 1.0) -> dict[str, str]:
        """Settle, decide and bind; return where pods went, and `-` for those that must leave."""
        self.now += seconds
        self.tells()
        plan: Plan = self.engine.decide(self.now)
        done: dict[str, str] = {}
        for decision in plan.decisions:
            if isinstance(decision, Bind):
                placement = decision.placement
                nodes = dict(zip(placement.tasks, placement.nodes, strict=True))
                masks = dict(zip(placement.tasks, placement.devices, strict=True))
                found = self.world.seat(decision.workload, placement.group, nodes)
                assert len(found) == len(nodes), "every task has its pod"
                for task, each in found.items():
                    bits = [str(i) for i in range(16) if masks[task] >> i & 1]
                    name = each.metadata.name
                    done[name] = nodes[task]
                    self.turns(name, node=nodes[task], devices=",".join(bits))
            elif isinstance(decision, Evict):
                for spot in decision.spots:
                    leaves = self.world.pod_at(*spot)
                    assert leaves is not None
                    done[leaves.metadata.name] = "-"
        return done

    def states(self, workload: str, group: str = "main") -> str:
        """Return the states of the tasks of a group, a letter each."""
        entry = self.engine.entries()[workload]
        return "".join(TaskState(each).name[0] for each in entry.members[group].states)


def gang(size: int, gpus: int = 8, name: str = "train") -> tuple[Json, list[Json]]:
    owner = job(name, size, indexed=True)
    return owner, [job_pod(owner, index, gpus=gpus) for index in range(size)]


def test_pods_that_come_before_their_owner_wait_for_it() -> None:
    """A watch of Jobs may be behind the watch of pods."""
    tale = Tale()
    owner, pods = gang(2)
    tale.sees(*pods)
    assert tale.tells() == ["NodeJoined", "NodeJoined"]
    tale.sees(owner)
    assert tale.tells() == ["Submitted"]
    assert sorted(tale.decides().values()) == ["node-0", "node-1"]


def test_a_gang_waits_until_all_its_pods_are_there() -> None:
    tale = Tale()
    owner, (first, second) = gang(2)
    tale.sees(owner, first)
    assert not tale.decides()
    tale.sees(second)
    assert len(tale.decides()) == 2


def test_gated_pods_are_not_there_yet() -> None:
    tale = Tale()
    owner, pods = gang(2)
    pods[1]["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    tale.sees(owner, *pods)
    assert not tale.decides()
    tale.turns("train-1-x", gates=[])
    assert len(tale.decides()) == 2


def test_another_pod_may_come_while_the_old_one_leaves() -> None:
    """Its task is free once the old one is gone, and not before; then the new one has it."""
    tale = Tale()
    owner, pods = gang(2)
    tale.sees(owner, *pods)
    tale.decides()
    for each in pods:
        tale.turns(each["metadata"]["name"], "Running")
    tale.tells()
    left = tale.turns("train-1-x", deleted=True)
    tale.sees(job_pod(owner, 1, suffix="y", gpus=8))
    assert not tale.decides()
    assert tale.states("lab/job/train") == "RR"  # one runs, one is releasing
    tale.loses(left)
    assert tale.decides() == {"train-1-y": left["spec"][NODE]}


@pytest.mark.parametrize(("asked", "crashes"), [(True, 0), (False, 1)])
def test_who_was_asked_to_leave_has_not_crashed(asked: bool, crashes: int) -> None:
    """The last that a kubelet says of either is that it Failed; the room is free at once."""
    tale = Tale()
    owner, pods = gang(2)
    tale.sees(owner, *pods)
    tale.decides()
    for each in pods:
        tale.turns(each["metadata"]["name"], "Running")
    tale.tells()
    if asked:
        tale.turns("train-1-x", deleted=True)
        assert tale.tells() == ["TasksChanged releasing"]
    tale.turns("train-1-x", "Failed")
    tale.tells()
    assert tale.states("lab/job/train") == "RP"
    assert tale.engine.entries()["lab/job/train"].past.failures == crashes
    tale.sees(job_pod(owner, 1, suffix="y", gpus=8))
    assert list(tale.decides()) == ["train-1-y"]


def test_a_pod_that_another_has_bound_is_counted_where_it_is() -> None:
    tale = Tale()
    tale.sees(pod("a", gpus=8))
    assert tale.decides() == {"a": "node-0"}
    tale.turns("a", "Running", node="node-1", devices="")
    tale.sees(pod("b", gpus=8))
    assert tale.decides() == {"b": "node-0"}


def test_old_news_of_a_pod_are_no_news() -> None:
    """Who has asked for a pod knows more than the watch, which tells the older story later."""
    tale = Tale(nodes=1)
    tale.sees(pod("a", gpus=8))
    older = as_pod(tale.pods["a"])
    assert tale.decides() == {"a": "node-0"}
    tale.tells()
    tale.world.put_pod(older)
    tale.sees(pod("b", gpus=8))
    assert not tale.decides()
    tale.turns("a", "Running")
    assert tale.tells() == ["TasksChanged running"]


def test_a_lost_node_gives_its_members_back_and_takes_new_ones_when_it_is_back() -> None:
    tale = Tale()
    owner, pods = gang(2)
    tale.sees(owner, *pods)
    where = tale.decides()
    lost = where["train-0-x"]
    tale.world.estate.drop(lost)
    assert not tale.decides()
    gone = tale.turns("train-0-x", deleted=True)
    tale.loses(gone)
    tale.sees(job_pod(owner, 0, suffix="y", gpus=8))
    assert not tale.decides(), "there is no room for it"
    tale.sees_node(lost)
    assert tale.decides() == {"train-0-y": lost}


def test_a_node_that_comes_back_with_its_pods_is_not_given_twice() -> None:
    """It was only away: the pod still runs there."""
    tale = Tale(nodes=1)
    tale.sees(pod("a", gpus=8))
    tale.decides()
    tale.turns("a", "Running")
    tale.tells()
    tale.world.estate.drop("node-0")
    tale.decides()
    tale.sees_node("node-0")
    tale.sees(pod("b", gpus=8))
    assert not tale.decides()
    assert tale.states("lab/pod/a") == "R"


def test_half_a_gang_is_completed_by_the_next_life() -> None:
    tale = Tale(nodes=4)
    owner, pods = gang(4)
    tale.sees(owner, *pods)
    tale.turns("train-1-x", node="node-1", devices="0,1,2,3,4,5,6,7")
    tale.turns("train-2-x", "Running", node="node-2", devices="0,1,2,3,4,5,6,7")
    tale.take_over()
    assert tale.decides() == {"train-0-x": "node-0", "train-3-x": "node-3"}


def test_half_a_gang_without_room_is_undone_after_its_grace() -> None:
    tale = Tale(nodes=2)
    owner, pods = gang(3)
    tale.sees(owner, *pods)
    tale.turns("train-0-x", node="node-0", devices="0,1,2,3,4,5,6,7")
    tale.take_over()
    assert not tale.decides()
    assert not tale.decides(50)
    assert tale.decides(20) == {"train-0-x": "-"}


def test_who_was_not_let_go_is_left_in_peace_for_a_while() -> None:
    tale = Tale(nodes=1)
    tale.sees(pod("a", gpus=8))
    tale.decides()
    tale.turns("a", "Running")
    tale.tells()
    assert tale.engine.entries()["lab/pod/a"].workload.preemptible
    tale.world.refuse("lab/pod/a", tale.now + 60)
    tale.tells()
    assert not tale.engine.entries()["lab/pod/a"].workload.preemptible
    tale.now += 61
    tale.tells()
    assert tale.engine.entries()["lab/pod/a"].workload.preemptible


def test_who_has_no_disruptions_left_does_not_leave() -> None:
    tale = Tale(nodes=1)
    tale.sees(pod("a", gpus=8, labels={"app": "web"}))
    tale.decides()
    tale.turns("a", "Running")
    budget: Json = {"metadata": {"name": "keep", "namespace": "lab", "uid": "budget"}}
    budget |= {"spec": {"selector": {"matchLabels": {"app": "web"}}}}
    for allowed in (0, 1):
        found = read(PodDisruptionBudget, budget | {"status": {"disruptionsAllowed": allowed}})
        assert not isinstance(found, Unreadable)
        tale.world.put_budget(found)
        tale.tells()
        assert tale.engine.entries()["lab/pod/a"].workload.preemptible is bool(allowed)


def test_a_job_with_more_completions_than_pods_at_once_goes_on_to_its_end() -> None:
    tale = Tale(nodes=1, gpus=2)
    owner = job("sweep", 2, completions=4)
    tale.sees(owner)
    for number in range(2):
        tale.sees(job_pod(owner, number, gpus=1))
    assert len(tale.decides()) == 2
    for number in range(2, 4):
        tale.turns(f"sweep-{number - 2}-x", "Running")
        tale.tells()
        tale.turns(f"sweep-{number - 2}-x", "Succeeded")
        tale.sees(job_pod(owner, number, gpus=1))
        assert tale.decides() == {f"sweep-{number}-x": "node-0"}
    for number in range(2, 4):
        tale.turns(f"sweep-{number}-x", "Succeeded")
    over = {"conditions": [{"type": "Complete", "status": "True"}]}
    tale.sees({**owner, "status": over})
    assert tale.tells()[-1] == "Ended"


def test_a_pod_without_owner_that_is_deleted_has_ended() -> None:
    tale = Tale(nodes=1)
    tale.sees(pod("a", gpus=8), pod("b", gpus=8, creationTimestamp="2026-05-01T12:00:01Z"))
    assert tale.decides() == {"a": "node-0"}
    tale.turns("a", "Running")
    left = tale.turns("a", deleted=True)
    assert not tale.decides()
    tale.loses(left)
    assert tale.decides() == {"b": "node-0"}
    assert "lab/pod/a" not in tale.engine.entries()


def test_another_pod_of_the_same_name_is_another_workload() -> None:
    """The old one is still leaving when its successor comes."""
    tale = Tale(nodes=1)
    tale.sees(pod("a", gpus=8))
    tale.decides()
    tale.turns("a", "Running")
    left = tale.turns("a", deleted=True)
    again = pod("a", gpus=8)
    again["metadata"]["uid"] = "uid-a-again"
    tale.world.put_pod(as_pod(again))
    assert not tale.decides()
    tale.world.drop_pod(as_pod(left))
    tale.pods["a"] = again
    assert tale.decides() == {"a": "node-0"}


def test_what_cannot_be_understood_is_told_again_in_another_term() -> None:
    tale = Tale(nodes=1)
    tale.sees(pod("a", gpus=1, annotations={"mooring.dev/min": "many"}))
    tale.tells()
    assert [name for name, _ in tale.world.take_news()] == ["lab/pod/a"]
    tale.take_over()
    tale.tells()
    assert [name for name, _ in tale.world.take_news()] == ["lab/pod/a"]


def test_all_mistakes_are_told_wherever_they_are_found() -> None:
    """Some are found when the shape of a pod is read, others when its annotations are."""
    tale = Tale(nodes=1)
    notes = {"mooring.dev/gpu-fraction": "half", "mooring.dev/min": "many"}
    owner = job("odd", 1, annotations={"mooring.dev/quue": "default"})
    tale.sees(owner, job_pod(owner, 0, gpus=0, annotations=notes))
    tale.tells()
    ((_, lines),) = tale.world.take_news()
    for name in ("gpu-fraction", "min", "quue"):
        assert any(name in line for line in lines), lines


def test_pods_whose_devices_cannot_be_true_still_take_their_room() -> None:
    """Two say that they have the same device: both are there, and nobody else fits beside them."""
    tale = Tale(nodes=1, gpus=2)
    for name in ("a", "b"):
        tale.sees(pod(name, gpus=1, node="node-0", phase="Running", annotations={DEVICES: "0"}))
    tale.tells()
    tale.sees(pod("c", gpus=1))
    assert not tale.decides()


def test_more_than_a_node_has_still_takes_all_of_it() -> None:
    """Somebody bound too much by hand; it is there all the same."""
    tale = Tale(nodes=1, gpus=2)
    for name in ("a", "b", "c"):
        tale.sees(pod(name, gpus=1, node="node-0", phase="Running"))
    assert len(tale.stumbles()) == 1
    tale.sees(pod("d", gpus=1))
    assert not tale.decides()
    tale.loses(tale.pods["a"])
    assert not tale.decides()
    tale.loses(tale.pods["b"])
    assert tale.decides() == {"d": "node-0"}


def foreign(name: str, **more: Any) -> Json:
    """Return a pod that another scheduler has bound."""
    found = pod(name, **{"node": "node-0", "phase": "Running", **more})
    found["spec"]["schedulerName"] = "default-scheduler"
    return found


def with_claim(given: Json) -> Json:
    """Return a pod with a volume that this scheduler does not understand."""
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    return {**given, "spec": {**given["spec"], "volumes": [claim]}}


def test_a_number_of_thousands_of_digits_is_no_device() -> None:
    """Everybody may write on his pods what he likes; it must not stop the scheduler."""
    tale = Tale(nodes=1, gpus=2)
    tale.sees(foreign("a", annotations={DEVICES: "9" * 5000}))
    tale.tells()
    assert "lab/foreign/a" in tale.engine.entries()


def test_what_others_have_placed_takes_its_room_whatever_it_uses() -> None:
    """Most pods of others have volumes; they would not be placed here, but they are there."""
    tale = Tale(nodes=1, gpus=2)
    tale.sees(with_claim(foreign("a", gpus=2)), pod("b", gpus=1))
    assert not tale.decides()


def test_a_pod_of_ours_that_cannot_be_understood_takes_its_room_where_it_is() -> None:
    """Its node was written by hand."""
    tale = Tale(nodes=1, gpus=2)
    tale.sees(with_claim(pod("a", gpus=2, node="node-0", phase="Running")), pod("b", gpus=1))
    assert not tale.decides()
    tale.loses(tale.pods["a"])
    assert tale.decides() == {"b": "node-0"}


def test_a_pod_that_still_leaves_after_its_owner_takes_its_room() -> None:
    """A Job was deleted and we began anew: its owner will never be seen."""
    tale = Tale(nodes=1)
    owner, (member,) = gang(1)
    tale.sees(member)
    tale.turns("train-0-x", "Running", node="node-0", devices="0,1,2,3,4,5,6,7", deleted=True)
    tale.sees(pod("b", gpus=8))
    assert not tale.decides()
    tale.sees(owner)
    assert "Adopted" in tale.tells()
    tale.loses(tale.pods["train-0-x"])
    assert tale.decides() == {"b": "node-0"}


def test_who_waits_for_an_owner_in_vain_leaves_nothing_behind() -> None:
    tale = Tale(nodes=1)
    _, (member,) = gang(1)
    tale.sees(member)
    tale.loses(member)
    assert not len(tale.world._orphans)
    assert not tale.world._orphans.crews


def test_a_pod_on_a_node_that_is_gone_does_not_run() -> None:
    """After a restart it must not be taken for one that runs somewhere: its successor starts."""
    tale = Tale(nodes=1)
    owner = some("apps/v1", "ReplicaSet", "web", {"replicas": 1})
    tale.sees(owner, pod("web-1", owner, gpus=8, node="gone", phase="Running"))
    assert "Submitted" in tale.tells()
    tale.loses(tale.pods["web-1"])
    tale.sees(pod("web-2", owner, gpus=8))
    assert tale.decides() == {"web-2": "node-0"}


def test_work_of_an_unknown_owner_is_forgotten_a_while_after_its_last_pod() -> None:
    """Nobody says that no more pods will come; nothing else happens that would make one look."""
    tale = Tale(nodes=1)
    tale.sees(pod("w-1", some("example.com/v1", "Workflow", "w"), gpus=8))
    tale.decides()
    tale.turns("w-1", "Running")
    tale.tells()
    tale.loses(tale.turns("w-1", "Succeeded"))
    tale.tells()
    assert "lab/workflow.example.com/w" in tale.engine.entries()
    tale.now += 61
    assert tale.tells() == ["Ended"]
    assert not tale.world.crews


def test_nothing_is_remembered_of_pods_that_are_gone() -> None:
    tale = Tale(nodes=1)
    tale.sees(pod("a", gpus=8))
    tale.decides()
    tale.turns("a", "Running")
    tale.tells()
    tale.loses(tale.turns("a", "Succeeded"))
    tale.tells()
    assert not tale.world._on
    assert not tale.world._crew_of


def test_who_runs_may_not_move_to_another_queue() -> None:
    """Else what it uses would count there, or nowhere, whoever may use that queue."""
    tale = Tale(nodes=1)
    tale.sees(pod("a", gpus=4))
    tale.decides()
    running = tale.turns("a", "Running")
    running["metadata"]["annotations"] |= {"mooring.dev/queue": "vip", "mooring.dev/user": "eve"}
    running["metadata"]["annotations"]["mooring.dev/preemptible"] = "false"
    running["metadata"]["annotations"]["mooring.dev/estimate"] = "1h"
    tale.sees(running)
    assert tale.tells() == ["TasksChanged running", "WorkloadChanged"]
    found = tale.engine.entries()["lab/pod/a"].workload
    assert (found.queue, found.user, found.preemptible) == ("default", "", True)
    assert found.estimate_s == 3600


def test_who_waits_may_choose_another_queue() -> None:
    tale = Tale(nodes=0)
    tale.sees(pod("a", gpus=4))
    tale.tells()
    tale.sees(pod("a", gpus=4, annotations={"mooring.dev/queue": "vip"}))
    assert tale.tells() == ["WorkloadChanged"]
    assert tale.engine.entries()["lab/pod/a"].workload.queue == "vip"


def test_the_queue_of_a_namespace_counts_for_those_who_wait() -> None:
    tale = Tale(nodes=0)
    tale.sees(pod("a", gpus=4))
    tale.tells()
    text: Json = {"metadata": {"name": "lab", "annotations": {"mooring.dev/queue": "vip"}}}
    found = read(Namespace, text)
    assert not isinstance(found, Unreadable)
    tale.world.put_namespace(found)
    assert tale.tells() == ["WorkloadChanged"]
    assert tale.engine.entries()["lab/pod/a"].workload.queue == "vip"
    tale.world.put_namespace(found)
    assert not tale.tells()
    tale.world.drop_namespace(found)
    assert not tale.world.namespaces


def test_a_rank_that_a_group_does_not_have_is_none() -> None:
    """A million written on one pod must not make a million tasks."""
    tale = Tale(nodes=1)
    owner = some("apps/v1", "StatefulSet", "web", {"replicas": 1})
    odd = {"apps.kubernetes.io/pod-index": "1048575"}
    tale.sees(owner, pod("web-0", owner, node="node-0", phase="Running", annotations=odd))
    tale.tells()
    assert tale.states("lab/statefulset/web") == "R"


def test_a_job_that_succeeded_after_a_retry_has_not_failed() -> None:
    tale = Tale(nodes=1)
    owner = job("train")
    tale.sees(owner)
    for suffix, phase in ("x", "Failed"), ("y", "Succeeded"):
        tale.sees(job_pod(owner, 0, suffix))
        tale.decides()
        tale.turns(f"train-0-{suffix}", "Running")
        tale.tells()
        tale.turns(f"train-0-{suffix}", phase)
        tale.tells()
    tale.sees({**owner, "status": {"conditions": [{"type": "Complete", "status": "True"}]}})
    seen: list[Event] = []
    tale.world.settle(tale.now, tale.engine.entries(), seen.append)
    assert seen == [Ended("lab/job/train", failed=False)]


def test_a_mistake_on_a_node_drives_nobody_away() -> None:
    """Also if it was not understood from the beginning: half a gang would be undone else."""
    tale = Tale(nodes=2)
    owner, pods = gang(2)
    tale.sees(owner, *pods)
    where = tale.decides()
    for name in where:
        tale.turns(name, "Running")
    given = node("node-1", 8)
    given["metadata"]["annotations"] = {"mooring.dev/device-layout": "island=eight"}
    found = read_node(given)
    assert not isinstance(found, Unreadable)
    tale.world.estate.drop("node-1")
    tale.take_over()
    tale.world.estate.put(found)
    for _ in range(10):
        assert not tale.decides(30)
    assert tale.states("lab/job/train") == "RR"
    assert "node-1" in tale.world.estate.problems


def test_a_daemon_set_of_ours_is_told_that_another_places_it() -> None:
    tale = Tale(nodes=1)
    tale.sees(pod("d-1", some("apps/v1", "DaemonSet", "d"), gpus=0))
    tale.tells()
    ((name, (line,)),) = tale.world.take_news()
    assert name.startswith("lab/daemonset.apps/d")
    assert "default scheduler" in line
    tale.turns("d-1", "Running", node="node-0")
    assert tale.tells() == ["NodeChanged"]
    assert not tale.world.crews


def test_namespaces_are_known_before_pods_are_read() -> None:
    """All is listed at once, and terms of pods name namespaces by their labels."""
    tale = Tale(nodes=1)
    tale.sees(pod("a", gpus=1, labels={"app": "a"}, node="node-0", phase="Running"))
    tale.sees_node("node-1")
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
    term["namespaceSelector"] = {"matchLabels": {"team": "x"}}
    wish = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    waits = as_pod(pod("b", gpus=1, spec={"affinity": wish}))
    namespace = read(Namespace, {"metadata": {"name": "lab", "labels": {"team": "x"}}})
    assert not isinstance(namespace, Unreadable)
    inbox = Inbox()
    inbox.put(Replaced(PODS, [as_pod(tale.pods["a"]), waits]))
    inbox.put(Replaced(NAMESPACES, [namespace]))
    inbox.take(Intake(tale.world))
    tale.pods["b"] = pod("b", gpus=1, spec={"affinity": wish})
    tale.take_over()
    assert tale.decides() == {"b": "node-1"}


def test_of_owners_that_nobody_watches_only_so_many_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kin, "ASKED_MOST", 2)
    owners = Owners(asks=True)
    for name in "abc":
        owners.put(owner_of(some("example.com/v1", "Workflow", name)))
    owners.put(owner_of(job("train")))
    assert [owners.get(f"uid-{name}") is not None for name in "abc"] == [False, True, True]
    assert owners.get("uid-train") is not None


def test_a_task_whose_pod_never_came_is_forgotten_with_its_group() -> None:
    """The workload is another by now, and smaller."""
    tale = Tale(nodes=1)
    tale.sees(pod("a", gpus=1))
    tale.tells()
    hands = Carrier(cast("Any", None), tale.world, cast("Any", None))
    hands._expected["lab/pod/a", "main", 7] = Place("node-0", "", tale.now + 30)
    hands.look(tale.now, tale.engine.entries())
    assert not hands._expected


def test_devices_that_stand_on_pods_go_before_those_that_are_assumed() -> None:
    """Nobody says which device a pod of another scheduler has: one that nobody else says he has."""
    tale = Tale(nodes=1, gpus=2)
    half = pod("half", node="node-0", phase="Running")
    half["metadata"]["annotations"] = {DEVICES: "0", "mooring.dev/gpu-fraction": "0.5"}
    half["spec"]["containers"][0]["resources"] = {}
    tale.sees(foreign("other", gpus=1), half, pod("b", gpus=1))
    assert not tale.decides()


CLAIM = {"mooring.dev/gpu-fraction": "1", "mooring.dev/gpu-count": "8"}


def claims(name: str, notes: Json, **more: Any) -> Json:
    """Return a pod on a node that asks for nothing, and says that it has devices."""
    found = pod(name, **{"node": "node-0", "phase": "Running", "annotations": notes, **more})
    found["spec"]["containers"][0]["resources"] = {}
    return found


@pytest.mark.parametrize("count", ["8", "99"])
@pytest.mark.parametrize("scheduler", ["default-scheduler", "mooring"])
@pytest.mark.parametrize("devices", [{}, {DEVICES: "0"}, {DEVICES: "0-7"}])
def test_a_note_alone_takes_no_devices(count: str, scheduler: str, devices: Json) -> None:
    """Anybody may write it, on a pod that he puts on a node himself: it costs him nothing."""
    tale = Tale(nodes=1)
    idle = claims("idle", CLAIM | devices | {"mooring.dev/gpu-count": count})
    idle["spec"]["schedulerName"] = scheduler
    tale.sees(idle, pod("b", gpus=8))
    assert tale.decides() == {"b": "node-0"}
    told = dict(tale.world.take_news())
    if scheduler == "mooring":
        assert "spec.nodeName" in told["lab/pod/idle~?"][0]


def test_a_note_on_a_pod_of_others_hides_no_request() -> None:
    tale = Tale(nodes=1)
    tale.sees(foreign("a", gpus=8, annotations=CLAIM), pod("b", gpus=1))
    assert not tale.decides()


def test_what_a_pod_requests_counts_also_where_its_note_is_not_believed() -> None:
    tale = Tale(nodes=1)
    idle = claims("idle", CLAIM)
    idle["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "64"}}
    small = pod("b", gpus=0)
    small["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "200"}}
    tale.sees(idle, small)
    assert tale.tells()
    (entry,) = [each for name, each in tale.engine.entries().items() if "foreign" in name]
    assert dict(entry.workload.groups[0].shape.amounts)["cpu"] == 64_000


def test_devices_that_are_not_there_close_no_node() -> None:
    """What is written looks like a place that we gave, on a node that has no such devices."""
    tale = Tale(nodes=1)
    notes = {"mooring.dev/gpu-fraction": "1", "mooring.dev/gpu-count": "20"}
    tale.sees(claims("idle", notes | {DEVICES: ",".join(map(str, range(20)))}))
    assert len(tale.stumbles()) == 2, "of the workload, and of its pod by itself"
    ((name, _),) = tale.world.take_news()
    assert name == "lab/pod/idle"
    tale.sees(pod("b", gpus=8))
    assert tale.decides() == {"b": "node-0"}


def test_devices_that_are_given_to_another_are_not_taken_from_it() -> None:
    tale = Tale(nodes=1)
    tale.sees(pod("a", gpus=8))
    tale.decides()
    tale.sees(claims("idle", CLAIM | {DEVICES: "0,1,2,3,4,5,6,7"}))
    assert tale.stumbles()
    tale.loses(tale.pods["a"])
    tale.sees(pod("b", gpus=8))
    assert tale.decides() == {"b": "node-0"}


def test_a_pod_that_waited_for_a_part_and_is_put_somewhere_by_hand_has_none() -> None:
    tale = Tale(nodes=1)
    waits = claims("idle", CLAIM | {"mooring.dev/queue": "default"}, phase="Pending")
    del waits["spec"]["nodeName"]
    tale.sees(waits)
    tale.tells()
    tale.turns("idle", "Running", node="node-0")
    tale.sees(pod("b", gpus=8))
    assert tale.decides() == {"b": "node-0"}


def test_parts_that_we_gave_are_known_to_the_next_life() -> None:
    """Also of a pod whose owner is gone, and of one that is told by itself."""
    tale = Tale(nodes=1, gpus=2)
    half = {"mooring.dev/gpu-fraction": "0.5", DEVICES: "0"}
    tale.sees(claims("a", half), claims("b", half, owner=job("gone")))
    tale.sees(pod("c", gpus=2))
    assert not tale.decides()
    tale.loses(tale.pods["a"])
    assert not tale.decides()
    tale.loses(tale.pods["b"])
    assert tale.decides() == {"c": "node-0"}


def test_work_that_was_not_taken_is_tried_again() -> None:
    """Until then its pods take their room one by one; then it is charged as before."""
    tale = Tale(nodes=1, gpus=2)
    for name in ("a", "b", "c"):
        tale.sees(pod(name, gpus=1, node="node-0", phase="Running"))
    tale.stumbles()
    tale.loses(tale.pods["a"])
    tale.tells()
    assert "lab/foreign/c" in tale.engine.entries()
    tale.now += 31
    assert tale.tells() == ["Ended", "Adopted"]
    assert tale.states("lab/pod/c") == "R"
    assert "lab/foreign/c" not in tale.engine.entries()


def elsewhere(given: Json) -> Json:
    """Return an object of another namespace, which says otherwise the same."""
    meta = given["metadata"]
    return {**given, "metadata": {**meta, "namespace": "else", "uid": f"{meta['uid']}-else"}}


def test_nobody_joins_the_work_of_another_namespace_by_naming_its_owner() -> None:
    """Anybody may write any uid on his pods, and would be part of a gang that is not his."""
    tale = Tale(nodes=2)
    owner, (first, second) = gang(2)
    tale.sees(owner, first, elsewhere(second))
    assert not tale.decides()
    assert list(tale.world.crews) == ["lab/job/train"]
    assert len(tale.world.crews["lab/job/train"].pods) == 1
    tale.sees(owner, second)
    assert sorted(tale.decides()) == ["train-0-x", "train-1-x"]


def test_who_names_an_owner_that_another_namespace_had_is_by_himself() -> None:
    tale = Tale(nodes=2)
    owner, (first, second) = gang(2, gpus=1)
    tale.sees(owner, first)
    tale.tells()
    tale.loses(owner)
    tale.sees(elsewhere(second))
    tale.tells()
    assert {name: len(crew.pods) for name, crew in tale.world.crews.items()} == {"lab/job/train": 1}


def test_who_asks_in_vain_for_an_owner_of_another_namespace_asks_for_himself_alone() -> None:
    """Else those who really belong to it would not be told what stands on it."""
    owners = Owners(asks=True)
    world = World(Topology(), owners)
    flow = some("example.com/v1", "Workflow", "flow")
    world.put_pod(as_pod(elsewhere(pod("a", flow))))
    (key,) = world.unasked
    world.give_up(key)
    assert "else/workflow.example.com/flow" in world.crews
    world.put_pod(as_pod(pod("b", flow)))
    assert "lab/workflow.example.com/flow" not in world.crews, "it is still asked for"
    world.put_owner(owner_of(flow))
    assert "lab/workflow.example.com/flow" in world.crews


def test_owners_that_are_in_no_namespace_have_workloads_in_each() -> None:
    """Of a kind that nobody watches, and above it another: both are the cluster's."""
    top = some("example.com/v1", "Fleet", "top")
    ship = some("example.com/v1", "Ship", "ship", owner=top)
    for each in (top, ship):
        del each["metadata"]["namespace"]
    world = World(Topology(), Owners(asks=True))
    world.put_pod(as_pod(pod("a", ship)))
    world.put_pod(as_pod(elsewhere(pod("a", ship))))
    assert not world.crews
    world.put_owner(owner_of(ship))
    world.put_owner(owner_of(top))
    assert sorted(world.crews) == ["else/fleet.example.com/top", "lab/fleet.example.com/top"]
    world.drop_owner(owner_of(top))
    assert not len(world._orphans)


def in_group(name: str, group: str) -> Json:
    return pod(name, spec={"schedulingGroup": {"podGroupName": group}})


def test_who_names_an_owner_that_is_not_there_is_told_so_after_a_while() -> None:
    """A name with a slip in it: nothing would ever happen."""
    tale = Tale(nodes=1)
    tale.sees(in_group("a", "tyop"), gang(1)[1][0])
    assert not tale.world.take_orphans(tale.now)
    assert not tale.world.take_orphans(tale.now + 4)
    told = dict(tale.world.take_orphans(tale.now + 5))
    assert sorted(told.values()) == [
        "It names Job train, which is not there.",
        "It names PodGroup tyop, which is not there.",
    ]
    assert not tale.world.take_orphans(tale.now + 6), "once"
    (name,) = [name for name in told if "podgroup" in name]
    audience = Audience(tale.world)
    assert audience.waiting(name) == ["uid-a"]
    found, subject = audience.pod(name, "uid-a"), audience.subject(name)
    assert found is not None
    assert subject is not None
    assert (found.name, subject.kind, subject.name, subject.api_version) == ("a", "Pod", "a", "v1")


def test_what_is_new_about_a_pod_that_waits_for_its_owner_does_not_begin_it_anew() -> None:
    """That it was told is new about it, too."""
    tale = Tale(nodes=1)
    tale.sees(in_group("a", "tyop"))
    tale.world.take_orphans(tale.now)
    tale.turns("a")
    assert len(tale.world.take_orphans(tale.now + 5)) == 1
    tale.turns("a")
    assert not tale.world.take_orphans(tale.now + 50)
    tale.sees(in_group("b", "tyop"))
    assert len(tale.world.take_joined()) == 1, "it is told what the other was told"


def test_who_has_found_his_owner_is_not_told_any_more() -> None:
    tale = Tale(nodes=1)
    owner, (member,) = gang(1)
    tale.sees(member)
    tale.world.take_orphans(tale.now)
    ((name, _),) = tale.world.take_orphans(tale.now + 5)
    tale.sees(owner)
    assert tale.world.take_orphans(tale.now + 6) == [(name, "")]
    assert tale.world.crew_of(name) is None
    assert tale.decides() == {"train-0-x": "node-0"}
    tale.take_over()
    assert not tale.world.take_orphans(tale.now + 60)


def test_the_next_life_tells_it_again() -> None:
    tale = Tale(nodes=1)
    tale.sees(in_group("a", "tyop"))
    tale.world.take_orphans(tale.now)
    assert tale.world.take_orphans(tale.now + 5)
    tale.take_over()
    tale.world.take_orphans(tale.now + 10)
    assert tale.world.take_orphans(tale.now + 15)


def test_who_wants_no_node_is_not_told_that_its_owner_is_not_there() -> None:
    """It runs, or has ended, and was left behind; one that comes later is told."""
    tale = Tale(nodes=1)
    owner, (member,) = gang(1)
    tale.sees(member)
    tale.turns("train-0-x", "Succeeded", node="node-0")
    for seconds in (0, 5, 10):
        assert not tale.world.take_orphans(tale.now + seconds)
    tale.sees(job_pod(owner, 0, "y"))
    tale.world.take_orphans(tale.now + 15)
    assert len(tale.world.take_orphans(tale.now + 20)) == 1


def test_a_pod_that_is_given_another_owner_waits_for_the_first_no_more() -> None:
    tale = Tale(nodes=1)
    _, (member,) = gang(1)
    tale.sees(member)
    del member["metadata"]["ownerReferences"]
    tale.sees(member)
    assert not len(tale.world._orphans)
    assert tale.decides() == {"train-0-x": "node-0"}


def test_the_word_for_an_owner_that_is_not_there_goes_when_it_comes() -> None:
    tale = Tale(nodes=1)
    owner, (member,) = gang(1)
    tale.sees(member)
    tell = Tell(cast("Any", None), Audience(tale.world))
    driver = Driver(tale.world, Inbox(), cast("Any", None))
    for seconds in (0, 5):
        driver.at = tale.now + seconds
        driver._tell_people(tell, Plan())
    ((text, _),) = tell._told.values()
    assert text.word == "WaitsForOwner"
    assert [event.subject.name for event in tell._events.values()] == ["train-0-x"]
    tale.sees(owner)
    driver._tell_people(tell, Plan())
    assert not tell._told


def shaped(number: int, **more: Any) -> Json:
    """Return a pod of one owner that asks for something that no other asks for."""
    found = pod(f"w-{number}", some("example.com/v1", "Workflow", "w"), **more)
    found["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{number + 1}m"}}
    return found


def test_a_workload_has_so_many_groups_and_no_more() -> None:
    """Each costs something whenever the workload is looked at: who makes thousands is told."""
    tale = Tale(nodes=1)
    tale.sees(*(shaped(number) for number in range(LEAVES_MOST + 3)))
    assert sorted(tale.decides()) == sorted(f"w-{number}" for number in range(LEAVES_MOST))
    ((name, (line,)),) = tale.world.take_news()
    assert name == "lab/workflow.example.com/w~?"
    assert line.startswith(f"Workflow w: let its pods ask for at most {LEAVES_MOST} different")
    again = shaped(3)
    again["metadata"] |= {"name": "w-again", "uid": "uid-again"}
    tale.sees(again)
    assert list(tale.decides()) == ["w-again"], "it asks for what another asks for"


def test_who_was_one_too_many_starts_when_there_is_room() -> None:
    tale = Tale(nodes=0)
    tale.sees(*(shaped(number) for number in range(LEAVES_MOST + 1)))
    tale.decides()
    tale.loses(tale.pods["w-0"])
    tale.decides()
    assert "w-0" not in tale.pods
    tale.sees_node("node-0")
    tale.now += 61
    assert f"w-{LEAVES_MOST}" in tale.decides()
    assert not tale.world.grouping.outgrown


def test_who_is_one_too_many_and_goes_leaves_nothing_behind() -> None:
    tale = Tale(nodes=1)
    tale.sees(*(shaped(number) for number in range(LEAVES_MOST + 1)))
    tale.loses(tale.pods[f"w-{LEAVES_MOST}"])
    assert not tale.world.grouping.outgrown


def test_whatever_runs_is_taken_over_however_many_groups_it_has() -> None:
    tale = Tale(nodes=1)
    for number in range(LEAVES_MOST + 5):
        tale.sees(shaped(number, node="node-0", phase="Running"))
    assert "Adopted" in tale.tells()
    entry = tale.engine.entries()["lab/workflow.example.com/w"]
    assert len(entry.members) == LEAVES_MOST + 5
    assert not tale.world.take_news()


@given(st.lists(st.tuples(st.sampled_from(["a", "a~2", "b"]), st.integers(0, 5), st.booleans())))
def test_no_two_groups_have_one_name(steps: list[tuple[str, int, bool]]) -> None:
    """Whatever comes and goes; and who has a name keeps it."""
    sibling = Sibling("w")
    for wanted, gpus, prunes in steps:
        before = dict(sibling.leaves)
        name = sibling.leaf(wanted, Shape(gpus=gpus))
        assert name == before.get((wanted, Shape(gpus=gpus)), name)
        assert len(set(sibling.leaves.values())) == len(sibling.leaves)
        assert before.items() <= sibling.leaves.items()
        if prunes:
            sibling.prune()


def tasks_of(tale: Tale) -> int:
    """Return how many tasks the engine keeps."""
    entries = tale.engine.entries().values()
    return sum(len(each.states) for entry in entries for each in entry.members.values())


def test_pods_that_are_only_asked_for_take_no_room() -> None:
    """A number costs nothing to write; its owner is told all the same what is missing."""
    tale = Tale(nodes=1)
    owner = job("huge", 1_000_000)
    tale.sees(pod("a", annotations={"mooring.dev/min": "100000"}), owner, job_pod(owner, 0))
    assert "Submitted" not in tale.tells()
    assert not tale.engine.entries()
    told = dict(tale.world.take_short(tale.now + 5))
    assert told["lab/pod/a"] == "1 of 100000 pods of main are there"
    assert told["lab/job/huge"] == "1 of 1000000 pods of main are there"


@pytest.mark.parametrize("partial", [{}, {"mooring.dev/partial-min": "1"}])
@pytest.mark.parametrize("placed", [{}, {"node": "node-0", "phase": "Running"}])
def test_work_that_the_engine_knows_grows_only_with_its_pods(placed: Json, partial: Json) -> None:
    tale = Tale(nodes=1)
    huge = {"mooring.dev/min": "100000", **partial}
    tale.sees(pod("a", annotations=huge, **placed), pod("b", **placed))
    tale.tells()
    tale.turns("b")["metadata"]["annotations"] = huge
    tale.sees(tale.pods["b"])
    tale.tells()
    assert tasks_of(tale) <= 2 * (1 + BEYOND)
    assert all(crew.workload for crew in tale.world.crews.values())


@pytest.mark.parametrize("done", [0, 3 * BEYOND])
def test_a_large_gang_of_which_pods_are_gone_is_still_incomplete(done: int) -> None:
    """What has finished counts as there: of the rest the engine must not think it is all."""
    tale = Tale(nodes=1)
    size = 5 * BEYOND
    owner = job("train", size, completions=size, status={"succeeded": done})
    tale.sees(owner)
    tale.sees(*(job_pod(owner, n, gpus=0, node="node-0", phase="Running") for n in range(5)))
    tale.tells()
    entry = tale.engine.entries()["lab/job/train"]
    assert entry.is_incomplete
    assert tasks_of(tale) <= 5 + done + BEYOND


def test_slices_stay_whole_where_a_minimum_is_cut() -> None:
    tale = Tale(nodes=1)
    notes = {"mooring.dev/min": "99996", "mooring.dev/partial-min": "1"}
    tale.sees(pod("a", annotations=notes | {"mooring.dev/topology-slice": "node:6"}))
    tale.tells()
    (leaf,) = tale.engine.entries()["lab/pod/a"].workload.groups
    assert leaf.min % 6 == 0
    assert 0 < leaf.min <= BEYOND + 1


def test_who_was_short_of_pods_has_the_place_in_line_of_its_owner() -> None:
    tale = Tale(nodes=0)
    late, (other,) = gang(1, name="late")
    early = job("early", 2, creationTimestamp="2026-05-01T11:00:00Z")
    tale.sees(early, job_pod(early, 0, gpus=4), late, other)
    tale.decides()
    tale.sees(job_pod(early, 1, gpus=4))
    tale.decides()
    tale.sees_node("node-0")
    assert sorted(tale.decides()) == ["early-0-x", "early-1-x"]


def test_who_lost_pods_before_it_began_waits_as_it_was() -> None:
    tale = Tale(nodes=0)
    owner, pods = gang(2)
    tale.sees(owner, *pods)
    tale.tells()
    tale.loses(pods[1])
    assert tale.tells() == ["WorkloadChanged"]
    assert not tale.engine.entries()["lab/job/train"].workload.active
    tale.sees({**owner, "spec": {**owner["spec"], "parallelism": 100_000, "completions": 100_000}})
    assert tale.tells() == []
    assert tasks_of(tale) == 2
    assert tale.world.take_short(tale.now + 60) == [
        ("lab/job/train", "1 of 100000 pods of main are there")
    ]
    tale.sees(owner, pods[1])
    assert tale.tells() == ["WorkloadChanged"]
    tale.sees_node("node-0")
    tale.sees_node("node-1")
    assert len(tale.decides()) == 2


def test_who_is_short_of_pods_and_goes_leaves_nothing_behind() -> None:
    tale = Tale(nodes=1)
    owner, pods = gang(2)
    tale.sees(owner, pods[0])
    tale.tells()
    tale.loses(pods[0])
    tale.tells()
    assert not tale.world.crews
    assert not tale.world._short
