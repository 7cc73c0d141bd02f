"""Small worlds in the real engine: it is asked what one gang does, or is let run by itself.

ask(judge, scene, gang)     the search of the product, to be compared with the exhaustive one
Life(judge, scene).run()    all gangs of a scene in one engine, cycle by cycle, until it rests
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.engine import Engine
from mooring.model.events import Adopted, NodeJoined, Submitted, TasksChanged
from mooring.model.memory import Memory, Past
from mooring.model.plan import Bind, Evict, Reserve
from mooring.model.queues import Queue, Quota
from mooring.model.settings import Eviction, Policy
from mooring.model.topology import Topology
from mooring.model.workload import Placement, PodGroup, TaskState, Workload
from tests.build import node, shape
from tests.smallworld import CARDS, Exchange, Judge, Scene, Tally, exhaustive, with_place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.model.plan import Decision, Plan
    from tests.smallworld import Nodes, Order, World

NOW = 100.0
MOST_CYCLES = 60
"""More than any world needs to come to rest."""
PROMPT = Policy(
    gang="e-binpack",
    small="e-binpack",
    eviction=Eviction(minimum_run_s=(), consolidates=False),
)
"""Nobody is protected by having run a short time only, as in the rules; and nobody is moved."""


def name_of(gang: int) -> str:
    """Return the name that a gang has in the engine."""
    return f"g{gang}"


def gang_of(name: str) -> int:
    """Return the gang with a name."""
    return int(name[1:])


def engine_of(world: World, scene: Scene, policy: Policy = PROMPT) -> Engine:
    """Return an engine in which those who run do so; nobody waits yet."""
    queues = [
        Queue(f"q{number}", quotas=(Quota("gpu", quota=1000 * queue.quota),), weight=queue.weight)
        for number, queue in enumerate(world.queues)
    ]
    spent = [number for number in range(len(world.gangs)) if number not in scene.bold]
    memory = Memory(
        pasts=tuple((name_of(number), Past(is_bold=True)) for number in spent),
        overtakers=tuple(name_of(n) for n in scene.order if world.gangs[n].early),
    )
    engine = Engine(Topology(()), policy, memory, queues)
    for number in range(world.nodes):
        engine.observe(NodeJoined(node(f"n{number}", CARDS)))
    free = [(1 << CARDS) - 1] * world.nodes
    for at, number in enumerate(scene.order):
        gang, devices = world.gangs[number], []
        for row in scene.places[number]:
            taken = [card for card in range(CARDS) if free[row] >> card & 1][: gang.cards]
            devices.append(sum(1 << card for card in taken))
            free[row] -= devices[-1]
        names = tuple(f"n{row}" for row in scene.places[number])
        placement = Placement("main", tuple(range(gang.tasks)), names, tuple(devices))
        engine.observe(Adopted(workload_of(world, number), (placement,), float(at)))
    return engine


def workload_of(world: World, number: int, *, active: bool = True) -> Workload:
    """Return a gang as a workload; all it has done is saved, so that only its size has a price."""
    gang = world.gangs[number]
    return Workload(
        name_of(number),
        (PodGroup("main", shape(gpus=gang.cards), gang.tasks),),
        f"q{gang.queue}",
        gang.priority,
        float(number),
        preemptible=not gang.fixed,
        checkpoint_at=NOW,
        active=active,
    )


def places_of(bound: Iterable[Bind | Reserve]) -> Nodes:
    """Return the nodes of a gang."""
    placements = [
        placement
        for each in bound
        for placement in ((each.placement,) if isinstance(each, Bind) else each.placements)
    ]
    return tuple(sorted(int(name[1:]) for placement in placements for name in placement.nodes))


# -- one gang -------------------------------------------------------------------------------------


def ask(judge: Judge, scene: Scene, gang: int) -> Exchange | None:
    """Return what the product does for a gang that waits. The others only want something."""
    world = judge.world
    engine = engine_of(world, scene)
    for number, nodes in enumerate(scene.places):
        if not nodes:
            engine.observe(Submitted(workload_of(world, number, active=number == gang)))
    if not world.gangs[gang].early:
        engine.desk.due[name_of(gang)] = None
    return exchange_in(engine.decide(NOW).decisions, scene, gang, engine)


def exchange_in(
    decisions: Iterable[Decision], scene: Scene, gang: int, engine: Engine
) -> Exchange | None:
    """Return what was decided; everything must be for this gang."""
    bound, evicted = [], []
    for each in decisions:
        if isinstance(each, Evict):
            assert each.beneficiary == name_of(gang)
            evicted.append(gang_of(each.workload))
            assert len(each.tasks) == len(scene.places[evicted[-1]]), "it leaves whole"
        elif isinstance(each, Bind | Reserve):
            assert each.workload == name_of(gang)
            bound.append(each)
    if not bound:
        assert not evicted, "nobody leaves for nothing"
        return None
    assert bool(evicted) == isinstance(bound[0], Reserve)
    victims = tuple(number for number in scene.order if number in evicted)
    places = tuple(() if number in evicted else nodes for number, nodes in enumerate(scene.places))
    is_bold = gang in scene.bold and engine.entries()[name_of(gang)].past.is_bold
    return Exchange(victims, with_place(places, gang, places_of(bound)), is_bold)


# -- a whole world --------------------------------------------------------------------------------


class Life:
    """An engine that is let run from a scene on. Evicted gangs leave and wait again."""

    def __init__(self, judge: Judge, scene: Scene, policy: Policy = PROMPT, *, slow: bool = False):
        self.judge = judge
        self.world = judge.world
        self.begin = scene
        self.now = NOW
        self.slow = slow
        """Evicted gangs take a cycle longer to leave."""
        self.engine = engine_of(self.world, scene, policy)
        for number, nodes in enumerate(scene.places):
            if not nodes:
                self.engine.observe(Submitted(workload_of(self.world, number)))
        self._leaving: list[Evict] = []
        self._promised: dict[str, None] = {}
        """Those for whom others were asked to leave, and who have not started yet."""
        self.evictions = 0

    def run(self, tally: Tally) -> None:
        """Let it run until nothing happens any more, and note what is wrong."""
        tally.scenes += 1
        before = self.begin
        for _ in range(MOST_CYCLES):
            plan = self.engine.decide(self.now)
            self._note(plan, tally)
            after = self.scene()
            is_new = after.order != before.order and after.bold == before.bold
            if is_new and not self.judge.word(after.order) < self.judge.word(before.order):
                tally.fail("word", self.world, self.begin)
            before = after
            if not plan.decisions and not self._leaving and not self.engine.desk.holds:
                break
            self._come_true(plan)
            self.now += 1.0
        else:
            tally.fail("loop", self.world, self.begin)
            return
        tally.exchanges += self.evictions
        if self._promised:
            tally.fail("vain", self.world, self.begin)
        at_rest = self.scene()
        for number, nodes in enumerate(at_rest.places):
            if not nodes and exhaustive(self.judge, at_rest, number) is not None:
                tally.fail("starved", self.world, self.begin)

    def scene(self) -> Scene:
        """Return who runs, or is to run on room that is kept for it, where and since when."""
        entries, holds, order = self.engine.entries(), self.engine.desk.holds, []
        places: list[Nodes] = []
        for number in range(len(self.world.gangs)):
            entry = entries[name_of(number)]
            members, hold = entry.members["main"], holds.get(name_of(number))
            rows = [members.rows[task] for task in members.staying()]
            if hold is not None:
                rows = hold.rows()
            if rows:
                order.append((entry.start_number, number))
            places.append(tuple(sorted(rows)))
        bold = frozenset(n for n in range(len(places)) if not entries[name_of(n)].past.is_bold)
        started = tuple(number for _, number in sorted(order))
        return Scene(tuple(places), started, bold, self.begin.quanta)

    def _note(self, plan: Plan, tally: Tally) -> None:
        """Note who is promised a start, and who makes it."""
        for each in plan.decisions:
            if isinstance(each, Evict):
                self.evictions += 1
                self._promised[each.beneficiary] = None
                if each.workload in self._promised:
                    tally.fail("vain", self.world, self.begin)
            elif isinstance(each, Bind):
                self._promised.pop(each.workload, None)
        for name in self._promised:
            if name not in self.engine.desk.holds:
                tally.fail("vain", self.world, self.begin)

    def _come_true(self, plan: Plan) -> None:
        """Let everybody start who was told to, and those leave who were asked to."""
        for each in plan.decisions:
            if isinstance(each, Bind):
                place = each.placement
                self._tell(each.workload, place.tasks, TaskState.RUNNING)
        asked = [each for each in plan.decisions if isinstance(each, Evict)]
        for each in self._leaving if self.slow else asked:
            self._tell(each.workload, each.tasks, TaskState.PENDING)
        self._leaving = asked if self.slow else []

    def _tell(self, name: str, tasks: Order, state: TaskState) -> None:
        self.engine.observe(TasksChanged(name, "main", tasks, state))


def let_live(
    some: Iterable[tuple[World, Scene]], policy: Policy = PROMPT, *, slow: bool = False
) -> Tally:
    """Let worlds run by themselves from scenes on and return what was seen."""
    tally, judge = Tally(), None
    for world, scene in some:
        if judge is None or judge.world is not world:
            judge = Judge(world, moves=False)
            tally.worlds += 1
        Life(judge, scene, policy, slow=slow).run(tally)
    return tally
