"""What the API server says, and the facts for the engine that follow from it.

Objects come in as they are seen. `settle` compares what they say with what the engine believes and
tells it the difference: so nothing depends on having seen every step. It knows no server; whatever
brings objects will do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from mooring.engine.check import EventError
from mooring.kube.adopt import OTHERS, Foreigners, adopted, disproof
from mooring.kube.convert import Around, budget_matches, seen_keys
from mooring.kube.convert import shape as shape_of
from mooring.kube.crew import BEYOND, Crew, Seat, has_left, is_over, state_of, waits
from mooring.kube.estate import Estate, comes_with_node
from mooring.kube.family import is_live
from mooring.kube.groups import Grouping
from mooring.kube.kin import Missing
from mooring.kube.names import PREFIX, SCHEDULER
from mooring.kube.orphans import Orphans
from mooring.kube.problems import Problem, Problems
from mooring.model.events import Adopted, Ended, Event, Submitted, TasksChanged, WorkloadChanged
from mooring.model.workload import TaskState

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from mooring.kube.kin import Owners
    from mooring.kube.objects import Namespace, ObjectMeta, Pod, PodDisruptionBudget
    from mooring.kube.owners import Owner, Ref
    from mooring.model.entry import Entry
    from mooring.model.topology import Topology
    from mooring.model.workload import Shape, Workload

SHORT_S = 5.0
"""So long nothing is said of a workload whose pods are still being made."""
AGAIN_S = 30.0
"""So often it is tried again to tell the engine of work that it did not take."""
AT_ONCE = 200
"""So many facts are told without a pause."""
LINGER_S = 60.0
"""So long a workload without pods is remembered whose owner nobody watches."""
_ORDER = (
    *(TaskState.RELEASING, TaskState.FAILED, TaskState.PENDING),
    *(TaskState.FINISHED, TaskState.BOUND, TaskState.RUNNING),
)
"""Who leaves is told before who comes."""
_PLACED = (TaskState.ASSUMED, TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING)
_DAEMON = "leave it out: pods that come with every node are placed by the default scheduler"
_TERMS = ("queue", "user", "preemptible", "semi_preemptible")
"""What a workload may not change while it has a place."""

Observe = Callable[[Event], None]


class World:
    """Nodes, pods and their owners, and what the engine has been told of them."""

    def __init__(self, topology: Topology, owners: Owners, scheduler: str = SCHEDULER) -> None:
        self.scheduler = scheduler
        """Pods with this scheduler name are ours."""
        self.estate = Estate(topology)
        labels = {label: level for level, label in self.estate.levels}
        self.grouping = Grouping(self._shape, owners, labels)
        self.crews: dict[str, Crew] = {}
        self.errors: list[str] = []
        """Facts that the engine did not take, since somebody last looked."""
        self.namespaces: dict[str, Mapping[str, str]] = {}
        """Labels of namespaces."""
        self.refusal: Callable[[Workload], str] = lambda workload: ""
        """Says why a workload may not use its queue; empty: it may."""
        self._keys_of: dict[str, frozenset[str]] = {}
        """Labels that terms of pods name, by uid."""
        self._strange: dict[str, None] = {}
        """Uids of pods whose terms name labels that shapes do not have yet."""
        self._foreigners = Foreigners(scheduler)
        self._crew_of: dict[str, str] = {}
        """Name of the crew of a pod, by uid."""
        self.unasked: dict[str, Ref] = {}
        """Owners of kinds that nobody watches: somebody has to ask for them."""
        self._orphans = Orphans()
        self._unreadable: dict[str, tuple[Problem, ...]] = {}
        """What could not be read of pods, by uid."""
        self._on: dict[str, dict[str, str]] = {}
        """Names of the crews of pods on a node, by uid."""
        self._budgets: dict[str, dict[str, PodDisruptionBudget]] = {}
        """By namespace and uid."""
        self._empty: dict[str, float] = {}
        """Since when crews have no pods of which nobody says whether more will come."""
        self._refused: dict[str, float] = {}
        """Crews that a budget did not let go, and until when that is believed."""
        self._short: dict[str, float] = {}
        """Since when workloads wait for their own pods, or are switched off by their owner."""
        self._unplaced: dict[str, float] = {}
        """Crews on nodes that the engine did not take, and when to try again.

        Until then each of their pods is told by itself, as those of others are.
        """
        self._held: dict[str, None] = {}
        """Crews that were not told to the engine because their terms cannot be judged yet."""
        self._joined: dict[str, None] = {}
        """Crews with pods that were not there before."""
        self._forgotten: dict[str, None] = {}
        """Crews that ended, known to the engine or not."""
        self._news: dict[str, None] = {}
        """Crews with other problems than before."""
        self._around = Around(self.namespaces, frozenset())
        """Shapes have the labels that were named when the engine began, and no others."""
        self._is_regrouped = True
        self._again: dict[str, None] = {}
        """Uids of pods that are to be looked at again."""
        self._again_at = 0.0
        self._dirty: dict[str, None] = {}
        self._now = 0.0

    # -- objects ----------------------------------------------------------------------------

    def put_pod(self, pod: Pod, problems: tuple[Problem, ...] = ()) -> None:
        """Take in a pod, or what is new about it; `problems` are of values that were left out."""
        meta, spec = pod.metadata, pod.spec
        if self._is_old(pod):
            return
        if problems or meta.uid in self._unreadable:
            self._unreadable[meta.uid] = problems
        is_ours = spec.scheduler_name == self.scheduler
        if comes_with_node(pod) and (spec.node_name or not is_ours):
            self._resign(meta.uid)
            if spec.node_name and not is_over(pod):
                self.estate.settle_in(pod)
            else:
                self.estate.move_out(meta.uid, spec.node_name)
            return
        self._note_keys(pod)
        if not is_ours:
            self._foreigners.put(pod)
            return
        member = self.grouping.member(pod)
        if isinstance(member, Missing):
            self._wait_for(member, pod)
            return
        if self._orphans.drop(meta.uid):
            self._foreigners.drop(meta.uid)
        if spec.node_name and (member.problems or member.workload in self._unplaced):
            self._foreigners.put(pod)  # it is there, understood or not
        name = self._crew_of.get(meta.uid, "")
        if name != member.workload:
            if name:
                self._leave(meta.uid, name)
            name = self._crew_of[meta.uid] = member.workload
        crew = self.crews.get(name)
        if crew is None:
            crew = self.crews[name] = Crew(name)
        if meta.uid not in crew.pods:
            self._joined[name] = None
        crew.put(pod, member)
        if spec.node_name:
            self._on.setdefault(spec.node_name, {})[meta.uid] = name
        self._dirty[name] = None

    def _note_keys(self, pod: Pod) -> None:
        """Note which labels the terms of a pod name; once it has its place they do not change."""
        uid = pod.metadata.uid
        if is_over(pod):
            self._forget_keys(uid)
            return
        if pod.spec.node_name and uid in self._keys_of:
            return
        self._forget_keys(uid)
        keys = seen_keys(pod)
        if keys:
            self._keys_of[uid] = keys
            if self._around.keys is not None and not keys <= self._around.keys:
                self._strange[uid] = None

    def _forget_keys(self, uid: str) -> None:
        self._keys_of.pop(uid, None)
        self._strange.pop(uid, None)

    @property
    def wants_anew(self) -> bool:
        """Return whether terms name labels that shapes do not have: a new engine would see them."""
        return bool(self._strange)

    def _is_strange(self, crew: Crew) -> bool:
        return bool(self._strange) and any(uid in self._strange for uid in crew.pods)

    def _wait_for(self, owner: Missing, pod: Pod) -> None:
        """Let a pod wait for its owner; one that is on a node takes its room all the same."""
        if name := self._orphans.put(owner, pod):
            self._joined[name] = None
        if not owner.is_watched:
            self.unasked.setdefault(owner.key, owner.ref)
        if pod.spec.node_name:
            self._foreigners.put(pod)

    def _is_old(self, pod: Pod) -> bool:
        """Return whether more is known of a pod: who asks knows it before the watch does."""
        meta = pod.metadata
        crew = self.crews.get(self._crew_of.get(meta.uid, ""))
        known = crew.pods.get(meta.uid) if crew else None
        return known is not None and _number(meta) < _number(known.metadata)

    def drop_pod(self, pod: Pod) -> None:
        """Take in that a pod is gone."""
        uid = pod.metadata.uid
        self._forget_keys(uid)
        self._foreigners.drop(uid)
        self.estate.move_out(uid, pod.spec.node_name)
        self._unreadable.pop(uid, None)
        self._orphans.drop(uid)
        self._resign(uid)

    def _resign(self, uid: str) -> None:
        """Let a pod be in no workload."""
        self.grouping.leave(uid)
        self.grouping.outgrown.pop(uid, None)
        if (name := self._crew_of.pop(uid, "")) in self.crews:
            self._leave(uid, name)

    def _leave(self, uid: str, name: str) -> None:
        known = self.crews[name].pods.get(uid)
        node = known.spec.node_name if known else ""
        self._on.get(node, {}).pop(uid, None)
        if not self._on.get(node):
            self._on.pop(node, None)
        self.crews[name].drop(uid)
        self._dirty[name] = None

    def _shape(self, pod: Pod) -> Shape | Problems:
        if comes_with_node(pod):
            return Problems((Problem("spec.schedulerName", self.scheduler, _DAEMON),))
        unreadable = self._unreadable.get(pod.metadata.uid)
        found = Problems(unreadable) if unreadable else shape_of(pod, self._around)
        why = None if isinstance(found, Problems) else disproof(pod, found)
        return Problems((why,)) if why else found

    def put_owner(self, owner: Owner) -> None:
        """Take in something that pods may belong to, or what is new about it."""
        self.grouping.put(owner)
        self._found(self._orphans.keys_for(owner))
        self._touch(self.grouping.workloads_of(owner))

    def drop_owner(self, owner: Owner) -> None:
        """Take in that something is gone that pods may belong to."""
        self.grouping.drop(owner)
        self._found(self._orphans.keys_for(owner))
        self._touch(self.grouping.workloads_of(owner))

    def give_up(self, key: str) -> None:
        """Wait for an owner no longer: it is not there, or may not be read."""
        self.grouping.owners.give_up(key)
        self._found((key,))

    def _found(self, keys: Iterable[str]) -> None:
        """Look again at pods that waited for an owner."""
        for pod in [pod for key in keys for pod in self._orphans.found(key)]:
            self._foreigners.drop(pod.metadata.uid)
            self.put_pod(pod, self._unreadable.get(pod.metadata.uid, ()))

    def _touch(self, names: Iterable[str]) -> None:
        self._dirty |= {name: None for name in names if name in self.crews}

    def put_namespace(self, namespace: Namespace) -> None:
        """Take in a namespace: terms see its labels, and a queue may stand on it."""
        meta = namespace.metadata
        texts = {**meta.labels, **meta.annotations}
        if self.namespaces.get(meta.name) != meta.labels:
            self.namespaces[meta.name] = meta.labels
        if self.grouping.namespaces.get(meta.name) != texts:
            self.grouping.namespaces[meta.name] = texts
            self._touch_namespace(meta.name)

    def drop_namespace(self, namespace: Namespace) -> None:
        """Take in that a namespace is gone; its pods went before it."""
        self.namespaces.pop(namespace.metadata.name, None)
        self.grouping.namespaces.pop(namespace.metadata.name, None)

    def put_budget(self, budget: PodDisruptionBudget) -> None:
        """Take in a disruption budget, or what is new about it."""
        meta = budget.metadata
        known = self._budgets.setdefault(meta.namespace, {})
        before, known[meta.uid] = known.get(meta.uid), budget
        if before is None or _says(before) != _says(budget):
            self._touch_namespace(meta.namespace)

    def drop_budget(self, budget: PodDisruptionBudget) -> None:
        """Take in that a disruption budget is gone."""
        meta = budget.metadata
        if self._budgets.get(meta.namespace, {}).pop(meta.uid, None) is not None:
            self._touch_namespace(meta.namespace)

    def _touch_namespace(self, namespace: str) -> None:
        for name in self.crews:
            if name.startswith(f"{namespace}/"):
                self._dirty[name] = None

    # -- what is carried out ----------------------------------------------------------------

    def seat(
        self, workload: str, group: str, nodes: Mapping[int, str], without: Container[str] = ()
    ) -> dict[int, Pod]:
        """Give tasks that are bound to nodes their pods; those that have none yet are left out.

        Pods `without` get none, by their uid.
        """
        crew = self.crews.get(workload)
        if crew is None:
            return {}
        found = crew.pick(group, nodes, without)
        for task, uid in found.items():
            crew.seat(uid, Seat(group, task, nodes[task]))
        return {task: crew.pods[uid] for task, uid in found.items()}

    def unseat(self, workload: str, group: str, tasks: Iterable[int]) -> None:
        """Let the pods of tasks that were not taken wait again."""
        crew = self.crews.get(workload)
        if crew is not None:
            for task in tasks:
                crew.unseat(crew.taken.get((group, task), ""))

    def meant_for(self, workload: str, group: str, tasks: Iterable[int]) -> dict[int, Pod]:
        """Return the pods that would get these tasks."""
        crew = self.crews.get(workload)
        found = crew.pick(group, tasks) if crew else {}
        return {task: crew.pods[uid] for task, uid in found.items()} if crew else {}

    def waiting(self, workload: str) -> list[Pod]:
        """Return the pods of a workload that wait and have no task."""
        crew = self.crews.get(workload)
        pods = crew.pods.items() if crew else ()
        return [pod for uid, pod in pods if crew and uid not in crew.seats and waits(pod)]

    def uses_mig(self, workload: str, group: str) -> bool:
        """Return whether the tasks of a group have slices of devices."""
        crew = self.crews.get(workload)
        known = crew.workload if crew else None
        return known is not None and any(
            leaf.name == group and bool(leaf.shape.mig) for leaf in known.leaves()
        )

    def pod_at(self, workload: str, group: str, task: int) -> Pod | None:
        """Return the pod that has a task."""
        crew = self.crews.get(workload)
        uid = crew.taken.get((group, task)) if crew else None
        return crew.pods.get(uid) if crew and uid else None

    def knows(self, uid: str) -> bool:
        """Return whether a pod of ours is there."""
        return uid in self._crew_of

    def refuse(self, workload: str, until: float) -> None:
        """Note that a budget did not let a workload go."""
        self._refused[workload] = until
        self._dirty[workload] = None

    def take_news(self) -> list[tuple[str, list[str]]]:
        """Return what cannot be understood of workloads, once, in words."""
        news, self._news = self._news, {}
        return [
            (name, [str(each) for each in self.crews[name].problems])
            for name in news
            if name in self.crews
        ]

    def take_joined(self) -> list[str]:
        """Return the workloads that have new pods, once."""
        joined, self._joined = self._joined, {}
        return list(joined)

    def take_forgotten(self) -> list[str]:
        """Return the workloads that have ended, once, also of those that were never understood."""
        forgotten, self._forgotten = self._forgotten, {}
        return list(forgotten)

    def take_held(self) -> list[str]:
        """Return the workloads that wait for an engine that can judge their terms, once each."""
        held, self._held = self._held, {}
        return [name for name in held if name in self.crews and self._is_strange(self.crews[name])]

    def is_short(self, workload: str) -> bool:
        """Return whether a workload waits for nothing but its own pods, or its owner."""
        return workload in self._short

    def crew_of(self, name: str) -> Crew | None:
        """Return the pods of a workload, or those that wait for an owner by what they are told."""
        return self.crews.get(name) or self._orphans.crews.get(name)

    def take_orphans(self, now: float) -> list[tuple[str, str]]:
        """Return who waits long for an owner, and what to say, once each; empty: not any more."""
        return self._orphans.take_told(now, SHORT_S)

    def take_short(self, now: float) -> list[tuple[str, str]]:
        """Return which workloads wait long for their own pods, and what misses, once each."""
        late = [name for name, since in self._short.items() if since + SHORT_S <= now]
        found = []
        for name in late:
            self._short[name] = inf
            crew = self.crews.get(name)
            if crew is not None:
                found.append((name, crew.missing()))
        return found

    # -- facts for the engine ---------------------------------------------------------------

    def begin(self) -> None:
        """Let everything be told again, to an engine that knows nothing yet.

        From now on shapes have the labels that are named now.
        """
        keys = frozenset[str]().union(*self._keys_of.values())
        if keys != self._around.keys:
            self._around = Around(self.namespaces, keys)
            self._is_regrouped = False
        self._strange.clear()
        self._orphans.tell_again()
        for name in list(self._unplaced):
            self._claim_back(name)
        self.estate.forget_told()
        self._foreigners.forget_told()
        for crew in self.crews.values():
            crew.workload, crew.problems = None, ()
            crew.seats.clear()
            crew.taken.clear()
        self._dirty = dict.fromkeys(self.crews)

    def stand_by(self) -> None:
        """Forget workloads whose pods are gone, while there is no engine to be told so."""
        dirty, self._dirty = self._dirty, {}  # one that begins is told all
        self.grouping.take_touched()
        for name in dirty:
            crew = self.crews.get(name)
            if crew is not None and not crew.pods:
                self._forget(crew)
        self._forgotten.clear()

    def settle(self, now: float, entries: Mapping[str, Entry], observe: Observe) -> None:
        """Tell the engine all that is new: nodes, then who ends or runs, then who comes."""
        for _ in self.settle_slowly(now, entries, observe):
            pass

    def settle_slowly(
        self, now: float, entries: Mapping[str, Entry], observe: Observe
    ) -> Iterator[None]:
        """Do the same with pauses in between: a whole cluster takes seconds.

        Nothing new may be taken in before the end.
        """
        self._now = now
        yield from self._regroup()
        self.grouping.has_begun = lambda name: name in entries and entries[name].has_begun
        self._look_again()
        for count, (node, event) in enumerate(self.estate.events(), 1):
            if count % AT_ONCE == 0:
                yield
            self._tell(observe, event)
            self._touch(self._on.get(node, {}).values())
            self._foreigners.look_at(node)
        others: list[tuple[str, Adopted]] = []
        for count, (uid, event) in enumerate(self._foreigners.events(self.estate, self._around), 1):
            if count % AT_ONCE == 0:
                yield
            if isinstance(event, Adopted):
                others.append((uid, event))  # after ours, who say which devices they have
            else:
                self._tell(observe, event)
        for name, until in list(self._refused.items()):
            if until <= now:
                del self._refused[name]
                self._dirty[name] = None
        late = [name for name, since in self._empty.items() if since + LINGER_S <= now]
        again = [name for name, at in self._unplaced.items() if at <= now]
        self._touch((*late, *again, *self.grouping.take_touched()))
        dirty, self._dirty = self._dirty, {}
        crews = [self.crews[name] for name in dirty if name in self.crews]
        crews.sort(key=lambda crew: (crew.workload is None, not _is_placed(crew)))
        fresh = [crew for crew in crews if not self._update(crew, entries.get(crew.name), observe)]
        fresh.sort(key=self._arrival)
        for count, crew in enumerate(fresh, 1):
            if count % AT_ONCE == 0:
                yield
            self._introduce(crew, observe)
        yield from self._tell_others(others, observe)
        for _, event in self.estate.events():
            self._tell(observe, event)

    def _tell_others(self, others: list[tuple[str, Adopted]], observe: Observe) -> Iterator[None]:
        """Tell of pods that are told by themselves, and close nodes that they overfill.

        For what only stands on a pod no node is closed: that is left out where it cannot be true.
        """
        for uid, event in self._foreigners.events(self.estate, self._around):
            if isinstance(event, Adopted):
                others.append((uid, event))  # of a workload that was not taken just now
            else:
                self._tell(observe, event)
        for count, (uid, found) in enumerate(others, 1):
            if count % AT_ONCE == 0:
                yield
            why = self._adopt(observe, found)
            bare = self._foreigners.without_claim(uid, self._around) if why else None
            if bare is not None:
                self.errors.append(why)
                why = self._adopt(observe, bare)
            if why:
                self._foreigners.refuse(uid)
        self.estate.set_overfull(self._foreigners.unplaced.values())

    def _look_again(self) -> None:
        """Look again now and then at pods whose workload had too many groups, some at a time."""
        if self._now >= self._again_at:
            self._again_at = self._now + LINGER_S
            self._again |= self.grouping.outgrown
        for uid in list(islice(self._again, AT_ONCE)):
            del self._again[uid]
            crew = self.crews.get(self._crew_of.get(uid, ""))
            pod = crew.pods.get(uid) if crew else None
            if pod is not None and not pod.spec.node_name:
                self._resign(uid)
                self.put_pod(pod)

    def _regroup(self) -> Iterator[None]:
        """Let shapes have the labels that matter to the engine that has just begun."""
        if self._is_regrouped:
            return
        for count, (uid, member) in enumerate(self.grouping.regroup(), 1):
            if count % AT_ONCE == 0:
                yield
            self.crews[member.workload].members[uid] = member
        self._is_regrouped = True

    def _tell(self, observe: Observe, event: Event) -> bool:
        """Tell the engine a fact; return whether it was taken."""
        try:
            observe(event)
        except EventError as error:
            self.errors.append(str(error))
            return False
        return True

    def _update(self, crew: Crew, entry: Entry | None, observe: Observe) -> bool:
        """Tell what is new of a workload that the engine knows; return whether it still does."""
        if entry is None:
            return False
        self._tell_tasks(crew, entry, observe)
        if self._is_over(crew):
            failed = self.grouping.has_failed(crew.name) or _has_failed(crew)
            self._tell(observe, Ended(crew.name, failed=failed))
            self._forget(crew)
            return True
        if self._is_elsewhere(crew, entry):
            self._tell(observe, Ended(crew.name))
            crew.workload = None
            return False
        workload = self._describe(crew)
        if self._is_strange(crew):
            return True  # as it was, until its terms can be judged
        if workload is not None:
            crew.workload = workload
            if workload.active or entry.has_begun:
                told = self._sized(crew, workload)
            else:
                told = replace(entry.workload, active=False)  # until its pods are there again
            if told != entry.workload and not self._tell(observe, WorkloadChanged(told)):
                crew.problems = (Problem("", "", self.errors[-1]),)
        return True

    def _tell_tasks(self, crew: Crew, entry: Entry, observe: Observe) -> None:
        """Tell what became of the tasks that pods have."""
        changes: dict[tuple[TaskState, str], list[int]] = {}
        for uid, seat in list(crew.seats.items()):
            pod = crew.pods.get(uid)
            known = TaskState(entry.members[seat.group].states[seat.task])
            if pod is None or has_left(pod) or self._is_lost(pod, seat):
                steps, stays = _steps_of_gone(known), False
            else:
                steps, stays = _steps(known, state_of(pod))
            for step in steps:
                changes.setdefault((step, seat.group), []).append(seat.task)
            if not stays:
                crew.unseat(uid)
        for state in _ORDER:
            for (step, group), tasks in changes.items():
                if step == state:
                    self._tell(
                        observe, TasksChanged(crew.name, group, tuple(tasks), state, self._now)
                    )

    def _is_lost(self, pod: Pod, seat: Seat) -> bool:
        """Return whether nobody will say of a pod that it has left: its node is gone or silent."""
        node = pod.spec.node_name or seat.node
        if node not in self.estate:
            return True
        return bool(pod.metadata.deletion_timestamp) and not self.estate.is_alive(node)

    def _is_elsewhere(self, crew: Crew, entry: Entry) -> bool:
        """Return whether pods are where the engine did not put them; ghosts are only noted."""
        for uid, pod in crew.pods.items():
            node = pod.spec.node_name
            if not node or is_over(pod) or node not in self.estate:
                continue
            seat = crew.seats.get(uid)
            if seat is not None and seat.node == node:
                continue
            if pod.metadata.deletion_timestamp and seat is None:
                self._foreigners.put(pod)  # it was given up with its node, which is back
                continue
            return True
        return False

    def _is_over(self, crew: Crew) -> bool:
        """Return whether a workload has ended, or is so long without pods that nobody waits."""
        if any(not is_over(pod) for pod in crew.pods.values()) or crew.seats:
            self._empty.pop(crew.name, None)
            return False
        over = self.grouping.is_over(crew.name)
        if over is None:
            over = self._now >= self._empty.setdefault(crew.name, self._now) + LINGER_S
        return over

    def _forget(self, crew: Crew) -> None:
        """Forget what was told of a workload; the record goes with its last pod."""
        crew.workload, crew.terms = None, {}
        self._refused.pop(crew.name, None)
        self._empty.pop(crew.name, None)
        self._short.pop(crew.name, None)
        self._held.pop(crew.name, None)
        self._joined.pop(crew.name, None)
        self._forgotten[crew.name] = None
        if not crew.pods:
            self._news.pop(crew.name, None)
            del self.crews[crew.name]
            self.grouping.forget(crew.name)

    def _adopt(self, observe: Observe, event: Adopted) -> str:
        """Tell the engine of work that was found; return why it did not take it, else nothing.

        Devices that cannot be true are left out. What does not fit at all is there all the same:
        its nodes get nothing new until it does.
        """
        bare = [replace(each, devices=(0,) * len(each.tasks)) for each in event.placements]
        why = ""
        for each in (event, replace(event, placements=tuple(bare))):
            try:
                observe(each)
            except EventError as error:
                why = str(error)
            else:
                return ""
        return why

    def _introduce(self, crew: Crew, observe: Observe) -> None:
        """Tell the engine of a workload that it does not know: it comes, or was found running."""
        is_live = any(not is_over(pod) for pod in crew.pods.values())
        if is_live and self._unplaced.get(crew.name, 0.0) > self._now:
            return
        is_news = crew.name not in self._unplaced
        for ended in self._claim_back(crew.name):
            self._tell(observe, ended)
        if not is_live:
            self._forget(crew)
            return
        workload = self._describe(crew)
        if workload is None:
            return
        if self._is_strange(crew) and not _is_placed(crew):
            self._held[crew.name] = None
            return
        crew.workload = workload
        if not (workload.active or _is_placed(crew)):
            return  # any number of pods can be asked for: it comes when they are there
        workload = self._sized(crew, workload)
        for uid in [uid for uid in crew.seats if uid not in crew.pods]:
            crew.unseat(uid)
        event: Adopted | None = None
        if _is_placed(crew):
            event = adopted(crew, workload, self.estate, self.grouping.finished(crew.name))
        if event is None or not (event.placements or event.finished):  # its nodes may be gone
            if not self._tell(observe, Submitted(workload)):
                crew.problems = (Problem("", "", self.errors[-1]),)
                self._news[crew.name] = None
            return
        why = self._adopt(observe, self._as_entitled(crew, event))
        if not why:
            return
        self._tell_apart(crew)
        crew.problems = (Problem("", "", why),)
        if is_news:
            self._news[crew.name] = None
            self.errors.append(why)

    def _tell_apart(self, crew: Crew) -> None:
        """Let each pod of a workload that the engine did not take be told by itself.

        So what they take counts, whatever was wrong with the workload.
        """
        self._unplaced[crew.name] = self._now + AGAIN_S
        crew.workload = None
        crew.seats.clear()
        crew.taken.clear()
        for pod in crew.pods.values():
            if pod.spec.node_name:
                self._foreigners.put(pod)

    def _claim_back(self, name: str) -> list[Ended]:
        """Let a workload be tried again whose pods were told by themselves; return who ends."""
        if self._unplaced.pop(name, None) is None or name not in self.crews:
            return []
        found = [self._foreigners.take_back(uid) for uid in self.crews[name].pods]
        return [each for each in found if each is not None]

    def _as_entitled(self, crew: Crew, event: Adopted) -> Adopted:
        """Return work that was found, in the queue of nobody if it may not use its own."""
        workload = event.workload
        why = self.refusal(workload)
        if not why:
            return event
        crew.terms["queue"] = OTHERS
        crew.problems = (*crew.problems, Problem(f"{PREFIX}queue", workload.queue, why))
        self._news[crew.name] = None
        crew.workload = replace(workload, queue=OTHERS)
        return replace(event, workload=crew.workload)

    def _arrival(self, crew: Crew) -> tuple[bool, str, str]:
        """Return who is told first: who runs, then who came first."""
        first = min((pod.metadata.creation_timestamp for pod in crew.pods.values()), default="")
        return not _is_placed(crew), first, crew.name

    def _describe(self, crew: Crew) -> Workload | None:
        """Return a workload as its pods and their owners say; None: that is not understood."""
        workload = self.grouping.describe(crew.name)
        if isinstance(workload, Problems):
            if crew.problems != workload.problems:
                crew.problems = workload.problems
                self._news[crew.name] = None
            return None
        crew.problems = self.grouping.problems.get(crew.name, ())
        workload = _hold_to_terms(crew, workload)
        self._note_short(crew, workload)
        return replace(workload, preemptible=False) if self._is_protected(crew) else workload

    def _sized(self, crew: Crew, workload: Workload) -> Workload:
        """Return a workload as the engine is told: not with any number of tasks without pods.

        It must know that pods are missing of one that runs, or will do with fewer. But a number
        costs nothing to write, and each task takes room.
        """
        if all(leaf.min <= BEYOND for leaf in workload.leaves()):
            return workload
        return crew.sized(workload, self.grouping.finished(crew.name).count)

    def _note_short(self, crew: Crew, workload: Workload) -> None:
        """Note since when pods of a workload are missing without which it does not start."""
        if workload.active:
            self._short.pop(crew.name, None)
        elif crew.name not in self._short:
            self._short[crew.name] = self._now

    def _is_protected(self, crew: Crew) -> bool:
        """Return whether a disruption budget keeps a workload from leaving."""
        if crew.name in self._refused:
            return True
        placed = [pod for pod in crew.pods.values() if pod.spec.node_name and is_live(pod)]
        namespace = crew.name.partition("/")[0]
        for budget in self._budgets.get(namespace, {}).values():
            count = sum(budget_matches(budget, pod) for pod in placed)
            if count and budget.status.disruptions_allowed < min(count, self._least(crew)):
                return True
        return False

    def _least(self, crew: Crew) -> int:
        """Return how many pods have to leave at once if one does: all of a gang."""
        workload = crew.workload
        if workload is None or workload.service:
            return 1
        return max(1, sum(leaf.min for leaf in workload.leaves()))


def _steps(known: TaskState, seen: TaskState) -> tuple[tuple[TaskState, ...], bool]:
    """Return what to tell of a task whose pod is seen in a state, and whether it keeps it."""
    match seen:
        case TaskState.FINISHED | TaskState.FAILED:
            return ((seen,) if known in _PLACED else ()), False
        case TaskState.PENDING:
            return (), known == TaskState.ASSUMED
        case TaskState.RELEASING:
            return ((seen,) if known in _PLACED[:3] else ()), known in _PLACED
        case _:
            is_new = known == TaskState.ASSUMED or (known, seen) == (
                TaskState.BOUND,
                TaskState.RUNNING,
            )
            return ((seen,) if is_new else ()), known in _PLACED


def _steps_of_gone(known: TaskState) -> tuple[TaskState, ...]:
    """Return what to tell of a task whose pod is gone: it has left, and waits again."""
    if known in (TaskState.BOUND, TaskState.RUNNING):
        return TaskState.RELEASING, TaskState.PENDING
    return (TaskState.PENDING,) if known in (TaskState.ASSUMED, TaskState.RELEASING) else ()


def _is_placed(crew: Crew) -> bool:
    """Return whether pods have a node, or are about to get it."""
    return bool(crew.seats) or any(
        pod.spec.node_name and not is_over(pod) for pod in crew.pods.values()
    )


def _number(meta: ObjectMeta) -> int:
    """Return the version of an object; versions of one kind only grow."""
    version = meta.resource_version
    return int(version) if version.isdecimal() else 0


def _has_failed(crew: Crew) -> bool:
    """Return whether a pod failed, and none made up for it."""
    phases = {pod.status.phase for pod in crew.pods.values()}
    return "Failed" in phases and "Succeeded" not in phases


def _hold_to_terms(crew: Crew, workload: Workload) -> Workload:
    """Return a workload as it was let in: who has a place may not take it to another queue.

    Else quota could be had by asking in one queue and then moving what runs to another's.
    """
    if not _is_placed(crew) or not crew.terms:
        crew.terms = {name: getattr(workload, name) for name in _TERMS}
        return workload
    return replace(workload, **crew.terms)


def _says(budget: PodDisruptionBudget) -> tuple[object, int]:
    """Return what is asked of a budget."""
    return budget.spec, budget.status.disruptions_allowed
