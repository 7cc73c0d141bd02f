"""Random queue trees, policies and workloads, and stories in which all of them change."""

from __future__ import annotations

import sys
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from mooring.engine import EventError
from mooring.model.events import (
    Ended,
    NodeChanged,
    NodeJoined,
    PolicyChanged,
    QueuesChanged,
    Submitted,
    TasksChanged,
    WorkloadChanged,
)
from mooring.model.plan import Behind, Blocked, CutShort, Delays, Evict, Promised
from mooring.model.queues import EvictionRules, Queue, Quota, ResourceGroup
from mooring.model.settings import (
    HOUR,
    Backfill,
    Defragmentation,
    Eviction,
    Failure,
    Fairness,
    Headroom,
    Policy,
)
from mooring.model.workload import PodGroup, TaskState, Workload
from mooring.policy.queues.offers import gate
from tests.build import near_by, node, shape
from tests.rules import Everything, Judge, Moment, Witness, bill, check_usage
from tests.twins import Exhaustive, Room, Seat
from tests.world import (
    COMES_TRUE,
    LEVELS,
    PATHS,
    Rolled,
    Story,
    a_leaf,
    check_all,
    check_nothing_could_start,
    check_rollback,
    placed,
    settle,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.engine import Engine
    from mooring.model.cluster import Node
    from mooring.model.entry import Entry
    from mooring.model.plan import Plan
    from mooring.model.workload import Shape
    from tests.world import Chooser

NAMES = ("a", "b", "c", "d", "e", "f", "g")
FLAVORS = {"default": ("", "", "H100", "A100"), "kai": ("",), "kueue": ("H100", "A100")}
"""What quotas may be of; kai has no flavors, kueue has nothing else."""
ORDERS = (
    *("", "", "", "best-effort", "best-effort", "strict"),
    *("backfill", "backfill", "easy", "conservative"),
)
Kind = tuple[str, bool]
"""Profile, and whether queues have no rules of their own for eviction."""
MOST = 12
"""Workloads at a time."""


# -- drawing things -------------------------------------------------------------------------


def a_quota(by: Chooser, resource: str, flavor: str) -> Quota:
    """Return what a queue has of a pair: often only a quota."""
    unit = 1000 if resource == "gpu" else 500
    return Quota(
        resource,
        flavor,
        quota=by.pick((0, 0, unit, 2 * unit, 2 * unit, 4 * unit, None)),
        limit=by.pick((None,) * 8 + (2 * unit, 4 * unit)),
        weight=by.pick((None, None, None, 0.0, 2.0)),
        borrowing_limit=by.pick((None, None, None, 0, unit)),
        lending_limit=by.pick((None, None, None, 0, unit)),
    )


def some_rules(by: Chooser, profile: str) -> EvictionRules:
    """Return whom a queue may evict; kueue evicts nobody unless it is told to."""
    if profile == "kueue":
        return EvictionRules(
            within_queue=by.pick(("never", "lower-priority", "lower-priority", "lower-or-newer")),
            reclaim=by.pick(("never", "lower-priority", "any", "any")),
            while_borrowing=by.pick(("never", "never", "lower-priority")),
        )
    return EvictionRules(
        within_queue=by.pick(("", "", "never", "lower-or-newer")),
        reclaim=by.pick(("", "", "never", "lower-priority")),
    )


# wide: a queue is drawn with what it has and what it may not have
def a_queue(by: Chooser, name: str, parent: str, kind: Kind, *, local: bool = False) -> Queue:
    """Return a queue with some of everything; a plain one has no rules of its own for eviction."""
    profile, is_plain = kind
    flavors = by.pick((("H100", "A100"), ("A100", "H100"), ("H100",)))
    pairs = [("gpu", by.pick(FLAVORS[profile]))] if by.number(0, 4) else []
    pairs += [("gpu", "H100")] if by.number(0, 4) == 4 and profile == "default" else []
    pairs += [("cpu", "")] if by.number(0, 4) == 4 and profile != "kueue" else []
    groups: tuple[ResourceGroup, ...] = ()
    if profile == "kueue":
        pairs = [("gpu", flavor) for flavor in flavors]
    if profile == "kueue" or (by.number(0, 5) == 5 and profile == "default"):
        groups = (ResourceGroup(("gpu",), flavors),)
    return Queue(
        name,
        parent,
        () if local else tuple(a_quota(by, *pair) for pair in dict.fromkeys(pairs)),
        groups=() if local else groups,
        weight=by.pick((1.0, 1.0, 2.0, 0.0)),
        priority=by.pick((0, 0, 0, 1)),
        order=by.pick(ORDERS if profile == "default" else ORDERS[:6]),
        by_usage=profile == "kueue" and by.number(0, 7) == 7,
        eviction=EvictionRules() if is_plain else some_rules(by, profile),
        preempt_minimum_run_s=by.pick((None, None, None, 50.0)),
        reclaim_minimum_run_s=by.pick((None, None, 0.0, 0.0, 50.0)),
        run_limit_s=by.pick((None,) * 12 + (500.0,)),
        stop=by.pick(("",) * 14 + ("hold", "drain")),
        namespaces=by.pick((None,) * 12 + (("team",),)),
        local=local,
        bypass_limit=by.pick((None,) * 10 + (0, 2)) if profile == "default" else None,
    )


def a_tree(by: Chooser, profile: str = "default") -> tuple[Queue, ...]:
    """Return up to seven queues, at most three deep."""
    kind = (profile, by.number(0, 1) == 1 and profile != "kueue")
    found: list[Queue] = []
    depth: dict[str, int] = {"": 0}
    for name in NAMES[: by.pick((1, 2, 2, 3, 3, 4, 5, 7))]:
        above = ["", *(queue.name for queue in found if depth[queue.name] < 3 and not queue.local)]
        parent = by.pick(above)
        is_local = bool(parent) and by.number(0, 7) == 7
        found.append(a_queue(by, name, parent, kind, local=is_local))
        depth[name] = depth[parent] + 1
    return tuple(found)


def an_edit(by: Chooser, queues: tuple[Queue, ...], profile: str) -> tuple[Queue, ...]:
    """Return a tree of which one queue is another, is gone, or is new; or another tree."""
    kind = by.pick(("change", "change", "change", "stop", "stop", "drop", "tree"))
    if kind == "tree" or not queues:
        return a_tree(by, profile)
    old = by.pick(queues)
    if kind == "drop" and len(queues) > 1:
        return tuple(queue for queue in queues if queue is not old)
    if kind == "stop":
        new = replace(old, stop=by.pick(("", "", "hold", "drain")))
    else:
        is_plain = all(queue.eviction == EvictionRules() for queue in queues)
        is_plain = is_plain and profile != "kueue"
        new = a_queue(by, old.name, old.parent, (profile, is_plain), local=old.local)
    return tuple(new if queue is old else queue for queue in queues)


def some_promises(by: Chooser, profile: str, queues: tuple[Queue, ...]) -> tuple[Headroom, ...]:
    """Return promises of room, mostly none; there may be less than is promised."""
    if profile != "default" or by.number(0, 7) < 7:
        return ()
    flavor = by.pick(("", "", "H100"))
    return (Headroom(by.pick(queues).name, by.number(1, 3), by.pick((0.0, 60.0)), flavor),)


def a_policy(by: Chooser, profile: str, queues: tuple[Queue, ...]) -> Policy:
    """Return a policy; time is short in stories."""
    least = by.pick(((), (), (("fair-share", 90.0), ("leximin", 180.0)), (("quota", 30.0),)))
    fair = Fairness(half_life_s=500.0, window_s=2000.0, history_weight=by.pick((0.5, 2.0)))
    return Policy(
        small=by.pick(("potential", "e-binpack", "binpack")),
        search_steps=500,
        gang_grace_s=by.pick((60.0, 5.0)),
        profile=profile,
        priority_classes=(("high", by.pick((2, 3))), ("low", by.pick((0, -1)))),
        eviction=Eviction(
            minimum_run_s=(*least, ("move", by.pick((0.0, 1800.0)))),
            hold_s=by.pick((120.0, 20.0)),
            notice_s=30.0,
            steps=2000,
        ),
        failure=Failure(restarts=by.pick((None, None, 2)), node_failures=5),
        fairness=by.pick((Fairness(),) * 5 + (fair,)),
        backfill=Backfill(
            by.pick((1, 1, 2)), by.pick((4 * HOUR, 150.0)), quantum_evictions=by.pick((8, 1))
        ),
        defragmentation=Defragmentation(automatic=by.number(0, 7) == 7, ratio=0.1, budget=100.0),
        headroom=some_promises(by, profile, queues),
        undeclared="ignore",
    )


def a_plain_shape(by: Chooser) -> Shape:
    """Return whole devices, mostly."""
    kind = by.pick(("whole", "whole", "whole", "whole", "share", "none"))
    cpu = by.pick((0, 0, 500))
    if kind == "share":
        return shape(gpus=1, milli=by.pick((300, 500)), cpu=cpu)
    if kind == "none":
        return shape(gpus=0, cpu=500)
    models = by.pick(((), (), (), ("H100",), ("A100",)))
    return shape(gpus=by.pick((1, 1, 2, 4)), cpu=cpu, models=models)


def a_part(by: Chooser, name: str) -> PodGroup:
    """Return a group of tasks, rigid, elastic, or content with fewer."""
    least = by.pick((1, 1, 1, 2, 2, 3))
    most = least + by.pick((0, 0, 0, 1, 2))
    partial = by.pick((0,) * 7 + (1,)) if most == least > 1 else 0
    request = near_by(by.pick(("", "", "", "rack")))
    return PodGroup(name, a_plain_shape(by), least, most, request, partial=partial)


def a_workload(by: Chooser, name: str, now: float, queues: tuple[Queue, ...]) -> Workload:
    """Return a workload of some queue; sometimes of one that does not exist."""
    parts = 1 if by.number(0, 4) else 2
    odd = by.number(0, 7) == 7
    groups = tuple(a_leaf(by, n) if odd else a_part(by, n) for n in ("a", "b")[:parts])
    kind = by.pick(("plain",) * 6 + ("fixed", "semi"))
    parents = {queue.parent for queue in queues}
    leaves = [queue.name for queue in queues if queue.name not in parents]
    anywhere = [*(queue.name for queue in queues), "nowhere"]
    return Workload(
        name,
        groups,
        queue=by.pick(leaves if by.number(0, 9) or not leaves else anywhere),
        priority=by.pick((0, 0, 0, 1, 2)),
        submitted_at=now,
        preemptible=kind != "fixed",
        semi_preemptible=kind == "semi",
        service=by.number(0, 11) == 11,
        run_limit_s=by.pick((None,) * 15 + (50.0, 300.0)),
        estimate_s=by.pick((None,) * 5 + (50.0, 500.0)),
        minimum_run_s=by.pick((0.0,) * 6 + (40.0,)),
        checkpoint_at=by.pick((None, None, now)),
        restart_cost_s=by.pick((0.0, 0.0, 300.0)),
        priority_class=by.pick(("",) * 6 + ("high", "low")),
        deadline_at=by.pick((None,) * 9 + (now + 500.0,)),
        preemption_delay_s=by.pick((0.0,) * 7 + (60.0,)),
        grace_s=by.pick((None,) * 9 + (5.0, -1.0)),
        leave_s=by.pick((None, None, 0.0, 1000.0)),
        namespace=by.pick(("team", "team", "")),
    )


def by_device(part: PodGroup) -> PodGroup:
    """Return a group that asks for devices and not for their memory."""
    return replace(part, shape=replace(part.shape, gpu_memory=0))


# -- the world ------------------------------------------------------------------------------


class QueueStory(Story):
    """A world with queues: its plans are judged as they come."""

    def __init__(self, by: Chooser, profile: str = "default") -> None:
        self.profile = profile
        self.queues = a_tree(by, profile)
        policy = a_policy(by, profile, self.queues)
        super().__init__(replace(policy, headroom=()), self.queues)
        self.rests = profile == "default"  # the rules of the others may go round in circles
        if policy.headroom:
            self._rule(policy)
        self.exchanges = 0

    def node_comes(self, by: Chooser) -> None:
        """Let a small node join, or change."""
        name = by.pick(sorted(PATHS)[:4])
        model = by.pick(("H100", "H100", "A100"))
        found = node(name, by.pick((2, 4, 4)), *PATHS[name], model=model, cpu=4000)
        if name in self.nodes:
            self.changed.add(name)
            found = replace(self.nodes[name], ready=True) if by.number(0, 1) else found
        self.nodes[name] = found
        self.see(NodeChanged(found) if by.number(0, 1) else NodeJoined(found))

    def submit(self, by: Chooser) -> None:
        """Ask for something to run."""
        if len(self.engine.entries()) >= MOST:
            idle = [n for n, e in self.engine.entries().items() if not e.is_placed]
            self.see(Ended(by.pick(idle or sorted(self.engine.entries()))))
        self.count += 1
        self.now += 0.001
        wanted = a_workload(by, f"w{self.count:03}", self.now, self.queues)
        if self.profile == "kai":  # it charges memory of a device as a part of it
            wanted = replace(wanted, groups=tuple(by_device(part) for part in wanted.groups))
        self.see(Submitted(wanted))

    def edit(self, by: Chooser) -> None:
        """Change priority, queue, size, limits or whether it may be preempted."""
        names = sorted(self.engine.entries())
        if not names:
            return
        old = self.engine.entries()[by.pick(names)].workload
        other = a_workload(by, old.name, old.submitted_at, self.queues)
        what = by.pick(("priority", "queue", "active", "kind", "limit", "checkpoint", "size"))
        new = {
            "priority": replace(old, priority=other.priority, priority_class=""),
            "queue": replace(old, queue=other.queue),
            "active": replace(old, active=not old.active),
            "kind": replace(
                old, preemptible=other.preemptible, semi_preemptible=other.semi_preemptible
            ),
            "limit": replace(old, run_limit_s=other.run_limit_s),
            "checkpoint": replace(old, checkpoint_at=self.now),
            "size": self._resized(by, old),
        }[what]
        self.see(WorkloadChanged(new))

    def _resized(self, by: Chooser, old: Workload) -> Workload:
        self.edited.add(old.name)
        groups = tuple(
            leaf if leaf.topology.slices else replace(leaf, max=max(leaf.min, by.number(1, 5)))
            for leaf in old.groups
        )
        return replace(old, groups=groups)

    def queue_edit(self, by: Chooser) -> None:
        """Change the queues; a promise that could not be kept then is taken back before."""
        queues = an_edit(by, self.queues, self.profile)
        try:
            self.see(QueuesChanged(queues))
        except EventError:
            self.see(PolicyChanged(replace(self.engine.policy, headroom=())))
            self.see(QueuesChanged(queues))
        self.queues = queues

    def policy(self, by: Chooser) -> None:
        """Let another policy decide."""
        self._rule(a_policy(by, self.profile, self.queues))

    def _rule(self, policy: Policy) -> None:
        """Let a policy decide, with its promises where they could be kept."""
        try:
            self.see(PolicyChanged(policy))
        except EventError:
            self.see(PolicyChanged(replace(policy, headroom=())))

    def end(self, by: Chooser) -> None:
        """Let a workload be over."""
        names = sorted(self.engine.entries())
        if names:
            self.see(Ended(by.pick(names)))

    def obey(self, by: Chooser) -> None:
        """Let the world do as it is told, all at once."""
        self.come_true()

    def refuse(self, by: Chooser) -> None:
        """Let those stay who were to leave."""
        some = [
            (name, group, tuple(t for t, s in enumerate(m.states) if s == TaskState.RELEASING))
            for name, entry in sorted(self.engine.entries().items())
            for group, m in entry.members.items()
            if m.is_releasing
        ]
        if some:
            self.see(TasksChanged(*by.pick(some), TaskState.RUNNING))

    def jump(self, by: Chooser) -> None:
        """Let much time pass."""
        self.now += by.pick((50.0, 200.0, 1000.0))

    def decide(self) -> Plan:
        """Decide; every plan is judged, and every eviction must be worth it."""
        settle(self.engine)
        moment = Moment(self.engine)
        with Witness(self.engine) as witness:
            plan = super().decide()
        judge = Judge(moment, witness)
        judge.judge(plan)
        self.exchanges += judge.exchanges
        if any(isinstance(each, Evict) and each.beneficiary for each in plan.decisions):
            self.check_worth(plan)
        return plan

    def _is_bold(self, name: str) -> bool:
        """Return whether a workload displaced seniors of its queue: others may displace it."""
        return self.engine.entries()[name].past.is_bold

    def check_worth(self, plan: Plan) -> None:
        """Evictions: if all leave who were told to, those for whom they leave start."""
        engine = self.engine.fork()
        for name, entry in sorted(engine.entries().items()):
            for group, members in entry.members.items():
                leaving = tuple(t for t, s in enumerate(members.states) if s == TaskState.RELEASING)
                if leaving:
                    engine.observe(TasksChanged(name, group, leaving, TaskState.PENDING))
        engine.decide(self.now)
        # A queue that may not ask its own work to leave may ask the one that has asked it.
        is_plain = all(queue.eviction == EvictionRules() for queue in self.queues)
        for each in plan.decisions:
            if not isinstance(each, Evict) or not each.beneficiary:
                continue
            name = each.beneficiary
            assert name in self.engine.desk.holds, f"nothing is kept for {name}"
            if is_plain and not self._is_bold(name):
                assert engine.entries()[name].is_placed, f"in vain for {name}"


def check_patience(story: QueueStory, by: Chooser) -> None:
    """Patience: who comes later and does not rank higher moves nobody's start later.

    Two forks go on, one with a newcomer; in both the same work ends at the same times. In the other
    the newcomer is paused: so both look anew now, and what has overrun since is late in both.
    """
    orders = dict(zip(story.engine.desk.tree.names, story.engine.desk.tree.order, strict=True))
    first = [e for e in story.engine.entries().values() if not e.has_begun]
    first = [e for e in first if orders.get(e.workload.queue) in PATIENT]
    if not first:
        return
    entry = by.pick(first)
    queue, priority = entry.workload.queue, story.engine.desk.priority(entry)
    newcomer = a_workload(by, "newcomer", story.now, story.queues)
    newcomer = replace(newcomer, queue=queue, priority=priority - 1, priority_class="")
    newcomer = replace(newcomer, deadline_at=None)
    alone, together = story.engine.fork(), story.engine.fork()
    alone.observe(Submitted(replace(newcomer, active=False)))
    together.observe(Submitted(newcomer))
    now, before = story.now, dict[str, float]()
    if orders[queue] == "backfill":
        before = {name: story.engine.desk.latest.of(name) for name in story.engine.entries()}
    for _ in range(ROUNDS):
        for engine in (alone, together):
            engine.decide(now)
            obey(engine)
        check_no_later(alone, together, (queue, priority), before)
        before = {name: together.desk.latest.of(name) for name in together.entries()}
        now += ROUND_S
        both = sorted(set(steady(alone)) & set(steady(together)))
        for name in both[:1]:
            alone.observe(Ended(name))
            together.observe(Ended(name))


PATIENT = ("backfill", "easy", "conservative")
ROUNDS, ROUND_S = 4, 20.0


def steady(engine: Engine) -> list[str]:
    """Return those who run, with when they started, and have had their turn."""
    overtakers, entries = engine.desk.overtakers, engine.entries()
    return [n for n in engine.running() if n not in overtakers and entries[n].runs]


def check_no_later(
    alone: Engine, together: Engine, first: tuple[str, int], before: dict[str, float]
) -> None:
    """Nobody's turn of the queue, or latest start, comes later in the company of a newcomer.

    Without a shadow a newcomer may take what nobody was promised. Who is promised something only
    afterwards, as others end early, is promised what is left: that must not become later. With a
    newcomer a queue may have a right to more, by which others leave for one: it has room then, and
    whoever left ends later.
    Overtakers take a while to leave: who is promised something only when one before it has started
    after that is promised the later for it. Work of another queue that had its turn and has left by
    the right of this queue ends later, and so do turns come that wait for its end.
    """
    queue, priority = first
    was, now = alone.shadow_starts(), together.shadow_starts()
    has_turns = alone.desk.tree.order[alone.desk.tree.index_of[queue]] == "backfill"
    for name, entry in alone.entries().items() if now and has_turns else ():
        is_first = entry.workload.queue == queue and alone.desk.priority(entry) >= priority
        if is_first and not stands_behind(together, was):
            assert now.get(name, inf) <= was.get(name, inf), f"the turn of {name} comes later"
    for name in alone.desk.latest:
        of = alone.entries().get(name)
        if of is None or of.workload.queue != queue or alone.desk.priority(of) < priority:
            continue
        there = together.entries()[name]
        is_past = name in broken(alone, queue)
        is_past |= has_turns and has_left(together, queue)
        if not there.has_begun and name not in together.desk.holds and not is_past:
            late, told = together.desk.latest.of(name), alone.desk.latest.of(name)
            if not has_turns or starts_later(alone, together):
                told = max(told, before.get(name, told))
            assert late <= told, f"the latest start of {name} moves"


def broken(engine: Engine, queue: str) -> list[str]:
    """Return whose latest starts of a queue the world has broken: work ran longer than was said.

    They are over, or come after one that is.
    """
    told = {name: engine.desk.latest.of(name) for name in engine.desk.latest}
    entries = engine.entries()
    mine = [name for name in told if name in entries and entries[name].workload.queue == queue]
    first = min((told[name] for name in mine), default=inf)
    return mine if first <= engine.desk.now else []


def has_left(engine: Engine, queue: str) -> bool:
    """Return whether work of another queue that had its turn has just left for another's sake."""
    entries, turns = engine.entries(), engine.shadow_starts()
    some = [entries[name] for name in turns if name in entries and not entries[name].has_begun]
    since = engine.desk.now - ROUNDS * ROUND_S
    return any((e.past.evicted_at or 0.0) >= since and e.workload.queue != queue for e in some)


def stands_behind(together: Engine, was: dict[str, float]) -> bool:
    """Return whether another queue goes before that of a newcomer, which has had its turn.

    One who waits for a flavor lets those by who need another. What they use, their queue uses: by
    that it stands behind others, who come before the one that waits.
    """
    now, entries = together.shadow_starts(), together.entries()
    if "newcomer" not in now or not together.desk.tree.pairs:
        return False
    sooner = [entries.get(name) for name, at in now.items() if at < was.get(name, inf)]
    queue = entries["newcomer"].queue
    return any(entry is not None and entry.queue != queue for entry in sooner)


def starts_later(alone: Engine, together: Engine) -> bool:
    """Return whether somebody runs in one engine, and since later or not at all in another."""
    started = {n: e.started_at for n, e in together.entries().items() if e.has_begun}
    for name, entry in alone.entries().items():
        there = started.get(name)
        runs = entry.has_begun and entry.started_at is not None
        if runs and (there is None or there > (entry.started_at or 0.0)):
            return True
    return False


def obey(engine: Engine) -> None:
    """Let all that an engine has decided come true."""
    for name, entry in sorted(engine.entries().items()):
        for group, members in entry.members.items():
            for old, new in COMES_TRUE.items():
                tasks = tuple(t for t, s in enumerate(members.states) if s == old)
                if tasks:
                    engine.observe(TasksChanged(name, group, tasks, new))


def check_everything(story: QueueStory) -> None:
    """Check all that is true after every step."""
    check_all(story)
    check_usage(story.engine)


def check_rest(story: Story) -> None:
    """Rest: nobody who waits could start by its own queue's rules, tried out in all ways."""
    engine = story.engine
    moment = Moment(engine)
    usage, fixed = moment.usage(), moment.fixed()
    for name, entry in engine.entries().items():
        waits = not entry.has_begun and not entry.avoid and not engine.desk.shunned
        reasons = engine.reasons(name)
        if not waits or gate(engine.desk, entry) or any(isinstance(r, SKIPPED) for r in reasons):
            continue
        if len(entry.members) > 1 and any(m.group.shape.is_social for m in entry.members.values()):
            continue  # groups that look at each other's tasks are not tried in all orders
        for kind in sorted({each.gpu_model for each in story.nodes.values()}):
            if may_be_charged(story, entry, kind, (usage, fixed)):
                assert not fits(story, entry, kind), f"{name} could start on {kind}"


SKIPPED = (CutShort, Behind, Blocked, Delays, Promised)
"""Not tried for want of steps, or after another, which is tried itself."""


def may_be_charged(
    story: Story, entry: Entry, kind: str, tables: tuple[list[list[int]], list[list[int]]]
) -> bool:
    """Return whether a queue may be charged for all of a workload on nodes of a kind."""
    desk, flavors = story.engine.desk, Everything(kind)
    groups = desk.groups_of(entry.queue)
    if any(kind not in each.flavors for each in groups):
        return False
    request: dict[int, int] = {}
    for leaf in entry.workload.leaves():
        for pair, amount in bill(desk.tree, leaf.shape, flavors).items():
            request[pair] = request.get(pair, 0) + amount * leaf.min
    if desk.ledger.blocker(entry.queue, request, tables[0]) is not None:
        return False
    is_over = desk.ledger.over_quota_fixed(entry.queue, request, tables[1]) is not None
    return not (entry.is_fixed and is_over)


def fits(story: Story, entry: Entry, kind: str) -> bool:
    """Return whether there is any place for a workload on nodes of a kind that are open to it."""
    closed = story.engine.desk.closed_for(entry.workload.name)
    rooms = {name: Room.of(facts) for name, facts in story.nodes.items()}
    old = []
    for _, members, _, row, mask in placed(story.engine):
        name = story.engine.books.nodes[row].name
        if mask >> len(story.nodes[name].devices) and not members.group.shape.mig:
            return False  # the node has lost devices in use; who knows
        rooms[name].put(members.group.shape, mask)
        old.append(Seat(members.group.shape, rooms[name].node))
    some = [
        room for name, room in rooms.items() if room.node.gpu_model == kind and name not in closed
    ]
    nodes = measured(story, entry, kind)
    return Exhaustive(LEVELS, some, old, nodes).finds(entry.workload)


def measured(story: Story, entry: Entry, kind: str) -> list[Node]:
    """Return the nodes over which the spread of a workload is measured, if its tasks select them.

    Also those that are closed to it, by quota or for another, or not in the domain that holds it.
    Where its queue chooses the flavor, that is selected too.
    """
    named = {r for group in story.engine.desk.groups_of(entry.queue) for r in group.resources}
    shapes = [leaf.shape for leaf in entry.workload.leaves()]
    asked = {name for each in shapes for name, _ in each.amounts}
    asked |= {"gpu"} if any(each.gpus for each in shapes) else set()
    return [n for n in story.nodes.values() if n.gpu_model == kind or not named & asked]


VERBS = (
    *("submit",) * 12,
    *("obey",) * 9,
    *("cycle",) * 14,
    *("end",) * 3,
    *("answer",) * 2,
    *("edit",) * 3,
    *("jump",) * 4,
    *("node_comes", "node_comes", "node_goes", "node_wavers", "refuse", "refuse"),
    *("policy", "queue_edit", "restart"),
)


# -- whole stories --------------------------------------------------------------------------


PROFILES = ("default",) * 6 + ("kai", "kueue")
STEPS = 250
"""Of one story."""


class Told(NamedTuple):
    """What was seen in stories."""

    steps: int = 0
    exchanges: int = 0
    evictions: int = 0
    starts: int = 0

    def __add__(self, other: object) -> Told:
        assert isinstance(other, Told), f"{other!r} was not seen in stories"
        return Told(*map(sum, zip(self, other, strict=True)))


def play(seed: int, steps: int = STEPS, profile: str = "") -> QueueStory:
    """Tell a story of so many steps, and check after each; a failure says how to tell it again."""
    profile = profile or PROFILES[seed % len(PROFILES)]
    by = Rolled(seed)
    story = QueueStory(by, profile)
    try:
        for _ in range(3):
            story.node_comes(by)
        for step in range(steps):
            getattr(story, by.pick(VERBS))(by)
            check_everything(story)
            if step % 25 == 24 and profile == "default":
                check_rollback(story.engine.fork())
                check_patience(story, by)
        story.rest()
        check_everything(story)
        if profile == "default":
            check_rest(story)
            check_nothing_could_start(story)
        story.again()
    except Exception as problem:
        line = f"PYTHONPATH=. .venv/bin/python -m tests.queued {seed} {steps} {profile}"
        raise AssertionError(f"{problem!r}; to see it again: {line}") from problem
    return story


def told_in(story: QueueStory, steps: int = STEPS) -> Told:
    """Return what was seen in a story."""
    decisions = [each for _, _, plan in story.told if plan for each in plan.decisions]
    evicts = [each for each in decisions if isinstance(each, Evict)]
    return Told(steps, story.exchanges, len(evicts), len(decisions) - len(evicts))


def main(words: Sequence[str]) -> None:
    """Tell a story again: seed, steps, profile."""
    stories: list[QueueStory] = []
    begin = QueueStory.__init__

    def noted(self: QueueStory, by: Chooser, profile: str = "default") -> None:
        begin(self, by, profile)
        stories.append(self)

    QueueStory.__init__ = noted  # type: ignore[method-assign]
    try:
        sys.stdout.write(f"{told_in(play(int(words[0]), int(words[1]), words[2]))}\n")
    except AssertionError:
        sys.stdout.write(stories[0].sketch())
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
