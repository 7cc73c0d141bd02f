"""The table of owner kinds: one row each. To add a kind is to add a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.kube.owners import (
    MAIN,
    MOST_PODS,
    Done,
    Kind,
    Wanted,
    as_index,
    at,
    count_at,
    index_of,
    list_at,
    said,
)
from mooring.kube.resources import JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mooring.kube.objects import Pod
    from mooring.kube.owners import Owner


def _always(owner: Owner) -> bool:
    return True


def _has_no_replicas(owner: Owner, unit: str) -> bool:
    return count_at(owner.spec, "replicas", default=1) == 0


# -- Job --------------------------------------------------------------------------------------

INDEX = "batch.kubernetes.io/job-completion-index"


def _job_wants(owner: Owner, unit: str) -> tuple[Wanted, ...]:
    count = _side_by_side(owner.spec)
    return (Wanted(MAIN, count, count),)


def _side_by_side(spec: object) -> int:
    """Return how many pods of a Job run at a time."""
    parallel = count_at(spec, "parallelism", default=1)
    return min(parallel, count_at(spec, "completions", default=parallel))


def _is_indexed(owner: Owner) -> bool:
    return bool(at(owner.spec, "completionMode") == "Indexed")


def _job_rank(owner: Owner, pod: Pod) -> int | None:
    return index_of(pod, INDEX) if _is_indexed(owner) else None


def _job_done(owner: Owner) -> Done:
    if not _is_indexed(owner):
        return Done(count=count_at(owner.status, "succeeded"))
    indexes = frozenset(_ranges(at(owner.status, "completedIndexes")))
    return Done(indexes, len(indexes))


def _ranges(words: object) -> list[int]:
    """Return the numbers of a text like `0,3-5`; what cannot be read is left out."""
    found: list[int] = []
    for part in words.split(",") if isinstance(words, str) else ():
        first, _, last = part.strip().partition("-")
        begin, end = as_index(first), as_index(last or first)
        if begin is not None and end is not None:
            found += range(begin, end + 1)
    return found


# -- StatefulSet ------------------------------------------------------------------------------

ORDINAL = "apps.kubernetes.io/pod-index"


def _ordinal(owner: Owner, pod: Pod) -> int | None:
    """Return a pod's number; before that was a label, only its name told it."""
    number, start = index_of(pod, ORDINAL), count_at(owner.spec, "ordinals", "start")
    tail = pod.metadata.name.rpartition("-")[2]
    if number is None:
        number = as_index(tail)
    return None if number is None or number < start else number - start


def _makes_one_by_one(owner: Owner) -> str:
    policy = at(owner.spec, "podManagementPolicy") or "OrderedReady"
    return "" if policy == "Parallel" else f"spec.podManagementPolicy {policy}"


# -- JobSet -----------------------------------------------------------------------------------

_JOBSET = "jobset.sigs.k8s.io/"
REPLICATED_JOB, JOB_INDEX = f"{_JOBSET}replicatedjob-name", f"{_JOBSET}job-index"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
BY_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"


def _is_exclusive(pod: Pod) -> bool:
    """Return whether its job gets a domain of its own: others come once the first has a node."""
    return bool(said(pod, EXCLUSIVE)) and BY_SELECTOR not in pod.metadata.annotations


def _is_ordered(owner: Owner) -> bool:
    """Return whether some of its jobs are made only once others run or are done."""
    if at(owner.spec, "startupPolicy", "startupPolicyOrder") == "InOrder":
        return True
    return any(each.get("dependsOn") for each in list_at(owner.spec, "replicatedJobs"))


def _jobset_unit(owner: Owner, pod: Pod) -> str:
    name = said(pod, REPLICATED_JOB)
    if _is_exclusive(pod):
        return f"{name}-{said(pod, JOB_INDEX)}/{_jobset_group(owner, pod)}"
    return name if _is_ordered(owner) else ""


def _jobset_group(owner: Owner, pod: Pod) -> str:
    if _is_exclusive(pod):
        return "followers" if index_of(pod, INDEX) else "leader"
    return said(pod, REPLICATED_JOB) or MAIN


def _jobset_wants(owner: Owner, unit: str) -> tuple[Wanted, ...]:
    wanted = []
    stage, _, role = unit.partition("/")
    for each in list_at(owner.spec, "replicatedJobs"):
        name, parallel = str(each.get("name")), _side_by_side(at(each, "template", "spec"))
        count = parallel * count_at(each, "replicas", default=1)
        if role and stage.rpartition("-")[0] == name:
            count = 1 if role == "leader" else parallel - 1
            wanted.append(Wanted(role, count, count))
        elif stage in ("", name) and count:
            wanted.append(Wanted(name, count, count))
    return tuple(wanted)


def _jobset_rank(owner: Owner, pod: Pod) -> int | None:
    """Return a pod's number among all of its replicated job: job after job."""
    index, number = index_of(pod, INDEX), index_of(pod, JOB_INDEX)
    if index is None or number is None:
        return None
    if _is_exclusive(pod):
        return max(0, index - 1)
    for each in list_at(owner.spec, "replicatedJobs"):
        if each.get("name") == said(pod, REPLICATED_JOB):
            template = at(each, "template", "spec")
            parallel = _side_by_side(template)
            size = max(parallel, count_at(template, "completions", default=parallel))
            return min(number * size + index, MOST_PODS - 1)
    return None


# -- LeaderWorkerSet --------------------------------------------------------------------------

_LWS = "leaderworkerset.sigs.k8s.io/"
GROUP_INDEX, WORKER_INDEX = f"{_LWS}group-index", f"{_LWS}worker-index"


def _is_staged(owner: Owner) -> bool:
    """Return whether workers come only once their leader is ready, or has a node."""
    is_late = at(owner.spec, "startupPolicy") == "LeaderReady"
    return is_late or f"{_LWS}exclusive-topology" in owner.metadata.annotations


def _lws_unit(owner: Owner, pod: Pod) -> str:
    unit = said(pod, GROUP_INDEX)
    return f"{unit}/{_lws_group(owner, pod)}" if _is_staged(owner) else unit


def _lws_group(owner: Owner, pod: Pod) -> str:
    return "workers" if index_of(pod, WORKER_INDEX) else "leader"


def _lws_wants(owner: Owner, unit: str) -> tuple[Wanted, ...]:
    size = max(1, count_at(owner.spec, "leaderWorkerTemplate", "size", default=1))
    both = Wanted("leader", 1, 1), Wanted("workers", size - 1, size - 1)
    role = unit.partition("/")[2]
    return tuple(each for each in both if each.count and role in ("", each.name))


def _lws_rank(owner: Owner, pod: Pod) -> int | None:
    index = index_of(pod, WORKER_INDEX)
    return None if index is None else max(0, index - 1)


def _lws_is_dropped(owner: Owner, unit: str) -> bool:
    number = as_index(unit.partition("/")[0])
    return number is not None and number >= count_at(owner.spec, "replicas", default=1)


# -- Kubeflow's training operator -------------------------------------------------------------

_KUBEFLOW = "training.kubeflow.org/"
REPLICA_TYPE, REPLICA_INDEX = f"{_KUBEFLOW}replica-type", f"{_KUBEFLOW}replica-index"
_LEADING = ("launcher", "chief", "master", "ps", "scheduler", "server", "worker")
"""Types of replicas, those without which the others can do nothing first."""


def _replicas(specs: str) -> Callable[[Owner, str], tuple[Wanted, ...]]:
    """Make a reader of the groups of a training job, whose replicas stand at `specs`."""

    def wants(owner: Owner, unit: str) -> tuple[Wanted, ...]:
        found = at(owner.spec, specs)
        counts = {
            str(role).lower(): count_at(each, "replicas", default=1)
            for role, each in (found.items() if isinstance(found, dict) else ())
        }
        order = [*(role for role in _LEADING if role in counts), *sorted(counts)]
        counts = {role: counts[role] for role in order if counts[role]}
        elastic = at(owner.spec, "elasticPolicy", "minReplicas")
        policy = at(owner.spec, "runPolicy", "schedulingPolicy", "minAvailable")
        least = dict(counts)
        if isinstance(policy, int):
            left = policy
            for role, count in counts.items():
                least[role] = min(count, left)
                left -= least[role]
        elif isinstance(elastic, int) and "worker" in counts:
            least["worker"] = min(counts["worker"], max(0, elastic))
        return tuple(Wanted(role, max(0, least[role]), count) for role, count in counts.items())

    return wants


def _replica_type(owner: Owner, pod: Pod) -> str:
    return said(pod, REPLICA_TYPE).lower() or MAIN


def _replica_index(owner: Owner, pod: Pod) -> int | None:
    return index_of(pod, REPLICA_INDEX)


def _training(kind: str, plural: str, specs: str) -> Kind:
    """Return the row of a kind of the training operator."""
    return Kind(
        Resource("kubeflow.org", "v1", plural, kind=kind),
        f"the {kind}",
        "`runPolicy.schedulingPolicy.minAvailable`, leading replicas first; with `elasticPolicy` "
        "its `minReplicas` of the workers; else all replicas",
        wants=_replicas(specs),
        group=_replica_type,
        rank=_replica_index,
        ranks=(REPLICA_INDEX,),
        suspend=("runPolicy", "suspend"),
        limit=("runPolicy", "activeDeadlineSeconds"),
    )


# -- Ray --------------------------------------------------------------------------------------

RAY_GROUP, RAY_TYPE = "ray.io/group", "ray.io/node-type"
HEAD = "headgroup"


def _ray_wants(owner: Owner, unit: str) -> tuple[Wanted, ...]:
    """Return the head and the worker groups; with the autoscaler on, a group may have nobody."""
    wanted = [Wanted(HEAD, 1, 1)]
    scales = at(owner.spec, "enableInTreeAutoscaling") is True
    for each in list_at(owner.spec, "workerGroupSpecs"):
        hosts = max(1, count_at(each, "numOfHosts", default=1))
        least = count_at(each, "minReplicas", default=-1)
        replicas = count_at(each, "replicas", default=max(0, least))
        if least < 0 or (least == 0 and not scales):
            least = replicas
        if each.get("suspend") is not True:
            least, replicas = min(least, MOST_PODS // hosts), max(least, replicas)
            wanted.append(Wanted(str(each.get("groupName")), least * hosts, replicas * hosts))
    return tuple(wanted)


def _ray_group(owner: Owner, pod: Pod) -> str:
    return HEAD if said(pod, RAY_TYPE) == "head" else said(pod, RAY_GROUP) or MAIN


def _serves(owner: Owner) -> bool:
    return any(each.kind == "RayService" for each in owner.metadata.owner_references)


# -- PodGroup of the scheduling API -----------------------------------------------------------


def _gang_wants(owner: Owner, unit: str) -> tuple[Wanted, ...]:
    least = count_at(owner.spec, "schedulingPolicy", "gang", "minCount", default=1)
    return (Wanted(MAIN, least, least),)


def _gang_domain(owner: Owner) -> str:
    for each in list_at(owner.spec, "schedulingConstraints", "topology"):
        if isinstance(each.get("key"), str):
            return str(each["key"])
    return ""


POD_GROUP = Kind(
    Resource("scheduling.k8s.io", "v1beta1", "podgroups", kind="PodGroup"),
    "all pods that name it in `schedulingGroup.podGroupName`, whoever made them",
    "`schedulingPolicy.gang.minCount`; 1 with `basic`",
    wants=_gang_wants,
    domain=_gang_domain,
    suspend=(),
    limit=(),
)


# -- the table --------------------------------------------------------------------------------

KINDS: tuple[Kind, ...] = (
    Kind(PODS, "the pod", "1", suspend=(), limit=()),
    Kind(
        JOBS,
        "the Job",
        "`parallelism`, or `completions` if that is less",
        wants=_job_wants,
        rank=_job_rank,
        ranks=(INDEX,),
        done=_job_done,
    ),
    Kind(
        REPLICA_SETS,
        "the ReplicaSet: each template of a Deployment is a workload of its own",
        "1",
        service=_always,
        is_dropped=_has_no_replicas,
        complete=(),
        failed=(),
    ),
    Kind(
        STATEFUL_SETS,
        "the StatefulSet",
        "1; more by annotation, with `podManagementPolicy: Parallel`",
        rank=_ordinal,
        ranks=(ORDINAL,),
        service=_always,
        one_by_one=_makes_one_by_one,
        is_dropped=_has_no_replicas,
        complete=(),
        failed=(),
    ),
    Kind(
        Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", kind="JobSet"),
        "the JobSet, one group for each replicated job; with an order of start each replicated "
        "job by itself; with `exclusive-topology` each job, its first pod before the others",
        "all: `parallelism` × `replicas`",
        parts=("Job",),
        wants=_jobset_wants,
        unit=_jobset_unit,
        group=_jobset_group,
        rank=_jobset_rank,
        ranks=(JOB_INDEX, INDEX),
        differ=("job-name", "batch.kubernetes.io/job-name", f"{_JOBSET}job-restart-attempt"),
    ),
    Kind(
        Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", kind="LeaderWorkerSet"),
        "each replica: a leader and its workers; with `startupPolicy: LeaderReady` or "
        "`exclusive-topology` the leader before its workers",
        "all: `leaderWorkerTemplate.size`",
        parts=("StatefulSet",),
        named_by=f"{_LWS}name",
        wants=_lws_wants,
        unit=_lws_unit,
        group=_lws_group,
        rank=_lws_rank,
        ranks=(WORKER_INDEX,),
        service=_always,
        is_dropped=_lws_is_dropped,
        complete=(),
        failed=(),
        suspend=(),
    ),
    _training("PyTorchJob", "pytorchjobs", "pytorchReplicaSpecs"),
    _training("TFJob", "tfjobs", "tfReplicaSpecs"),
    Kind(
        Resource("ray.io", "v1", "rayclusters", kind="RayCluster"),
        "the RayCluster, also of a RayJob or RayService: the head and each worker group",
        "the head and `minReplicas` × `numOfHosts` of each worker group, all where that is 0 and "
        "nothing scales it",
        wants=_ray_wants,
        group=_ray_group,
        service=_serves,
        complete=(),
        failed=(),
    ),
    POD_GROUP,
)
UNKNOWN = Kind(Resource("", "", ""), "the topmost owner", "1", suspend=(), limit=())
BY_KEY: Mapping[tuple[str, str], Kind] = {kind.key: kind for kind in KINDS}
