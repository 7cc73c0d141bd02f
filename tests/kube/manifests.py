"""Objects as users and controllers write them, in short; and a small cluster of them."""

from __future__ import annotations

from typing import Any

from mooring.kube.groups import Grouping, Membership
from mooring.kube.kin import Missing, Owners
from mooring.kube.kinds import BY_KEY
from mooring.kube.objects import Pod, Unreadable, read_pod
from mooring.kube.owners import Kind, Owner, read_owner
from mooring.kube.problems import Problem, Problems
from mooring.kube.resources import Resource
from mooring.model.workload import Shape, Workload

CREATED = "2026-05-01T12:00:00Z"
CREATED_S = 1777636800.0
Json = dict[str, Any]


def meta(name: str, owner: Json | None = None, **more: Any) -> Json:
    """Return metadata; the uid is made of the name, so that stories can be followed."""
    found: Json = {"name": name, "namespace": "lab", "uid": f"uid-{name}"}
    found |= {"creationTimestamp": CREATED, **more}
    if owner is not None:
        found["ownerReferences"] = [refer(owner)]
    return found


def refer(owner: Json) -> Json:
    """Return a reference of the controller kind to an object."""
    said = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": said["name"],
        "uid": said["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def thing(api: str, kind: str, name: str, spec: Json | None = None, **more: Any) -> Json:
    """Return an object of any kind; `more` is metadata, and `status` and `owner`."""
    status, owner = more.pop("status", {}), more.pop("owner", None)
    said = meta(name, owner, **more)
    return {"apiVersion": api, "kind": kind, "metadata": said, "spec": spec or {}, "status": status}


def pod(name: str, owner: Json | None = None, **more: Any) -> Json:
    """Return a pod that asks for a GPU; `more` is metadata, `spec`, `phase`, `gpus`, `node`."""
    gpus, phase, spec = more.pop("gpus", 1), more.pop("phase", "Pending"), more.pop("spec", {})
    node = {"nodeName": more.pop("node")} if "node" in more else {}
    resources = {"limits": {"nvidia.com/gpu": gpus}}
    containers = [{"name": "main", "image": "train", "resources": resources}]
    whole = {"schedulerName": "mooring", "containers": containers, **node, **spec}
    status = {"phase": phase}
    return thing("v1", "Pod", name, whole, owner=owner, status=status, **more)


def job(name: str, parallelism: int = 1, **more: Any) -> Json:
    """Return a Job; `completions`, `indexed`, `suspend` are of its spec, the rest metadata."""
    spec: Json = {"parallelism": parallelism}
    for key in ("completions", "suspend", "activeDeadlineSeconds"):
        if key in more:
            spec[key] = more.pop(key)
    if more.pop("indexed", False):
        spec["completionMode"] = "Indexed"
        spec.setdefault("completions", parallelism)
    return thing("batch/v1", "Job", name, spec, **more)


INDEX = "batch.kubernetes.io/job-completion-index"


def job_pod(owner: Json, index: int, suffix: str = "x", **more: Any) -> Json:
    """Return a pod as the Job controller makes it: indexed ones say their index twice."""
    name = owner["metadata"]["name"]
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name, **more.pop("labels", {})}
    notes = more.pop("annotations", {})
    if owner["spec"].get("completionMode") == "Indexed":
        labels[INDEX] = notes[INDEX] = str(index)
    return pod(f"{name}-{index}-{suffix}", owner, labels=labels, annotations=notes, **more)


KUBEFLOW = "training.kubeflow.org/"


def training(kind: str, roles: dict[str, int], **spec: Any) -> Json:
    """Return a job of the training operator with so many replicas of each type."""
    field = {"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs"}[kind]
    whole = {field: {role: {"replicas": count} for role, count in roles.items()}, **spec}
    return thing("kubeflow.org/v1", kind, "net", whole)


def training_pods(owner: Json, roles: dict[str, int]) -> list[Json]:
    """Return its pods as the operator makes them."""
    return [
        pod(
            f"net-{role.lower()}-{i}",
            owner,
            labels={
                f"{KUBEFLOW}job-name": "net",
                f"{KUBEFLOW}replica-type": role.lower(),
                f"{KUBEFLOW}replica-index": str(i),
            },
        )
        for role, count in roles.items()
        for i in range(count)
    ]


def shape_of(found: Pod) -> Shape | Problems:
    """Return a shape of the GPUs alone, as far as they can be read."""
    gpus = found.spec.containers[0].resources.limits["nvidia.com/gpu"]
    if not isinstance(gpus, int):
        field = "spec.containers[0].resources.limits[nvidia.com/gpu]"
        return Problems((Problem(field, str(gpus), "give whole devices"),))
    return Shape(gpus=gpus)


class Cluster:
    """Owners and pods, as watches bring them."""

    def __init__(self, owners: Owners | None = None, **more: Any) -> None:
        self.grouping = Grouping(shape_of, owners, **more)
        self.begun: set[str] = set()
        self.grouping.has_begun = self.begun.__contains__

    def owns(self, *things: Json) -> None:
        """Bring owners, or what is new about them."""
        for each in things:
            self.grouping.put(owner_of(each))

    def disowns(self, thing: Json) -> None:
        """Bring that an owner is gone."""
        self.grouping.drop(owner_of(thing))

    def sees(self, *pods: Json) -> list[Membership]:
        """Bring pods whose owners are known."""
        found = [self.looks_at(each) for each in pods]
        assert not [each for each in found if isinstance(each, Missing)], found
        return [each for each in found if isinstance(each, Membership)]

    def looks_at(self, given: Json) -> Membership | Missing:
        """Bring one pod."""
        return self.grouping.member(as_pod(given))

    def loses(self, *pods: Json) -> None:
        """Bring that pods are gone."""
        for each in pods:
            self.grouping.leave(each["metadata"]["uid"])

    def asks(self, name: str) -> Workload:
        """Return what a workload asks for."""
        found = self.grouping.describe(name)
        assert isinstance(found, Workload), found
        return found

    def sizes(self, name: str) -> dict[str, tuple[int, int]]:
        """Return minimum and most of each group of a workload."""
        return {leaf.name: (leaf.min, leaf.most) for leaf in self.asks(name).leaves()}

    def complaints(self, name: str) -> list[str]:
        """Return what is wrong with a workload."""
        found = self.grouping.describe(name)
        assert isinstance(found, Problems), found
        return [str(each) for each in found.problems]


def as_pod(given: Json) -> Pod:
    """Return a pod as it is read."""
    found = read_pod(given)
    assert not isinstance(found, Unreadable), found.problem
    return found


def owner_of(given: Json) -> Owner:
    """Return an owner as it is read."""
    group, _, version = given["apiVersion"].rpartition("/")
    kind: Kind | None = BY_KEY.get((group, given["kind"]))
    resource = kind.resource if kind else Resource(group, version, "", kind=given["kind"])
    found = read_owner(given, resource)
    assert not isinstance(found, Unreadable), found.problem
    return found
