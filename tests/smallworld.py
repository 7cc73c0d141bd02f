"""All small worlds: a model checker for who may evict whom.

A world is up to three queues, four gangs and three nodes of two cards. It is looked at from every
placement and every order of past starts. A *search* is asked what a waiting gang does:

    search(judge, scene, gang) -> Exchange | None

Here it is the exhaustive one; any other can be handed in and is compared with it. From every scene
the world is let settle: again and again the first of the waiting who can start does. Then nobody
may have gone round in circles, been evicted in vain, or be left waiting who could start.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, combinations_with_replacement, permutations, product
from math import inf, prod
from typing import TYPE_CHECKING, NamedTuple

from mooring.model.queues import Queue, Quota
from mooring.policy.queues.share import BEYOND, COVERED, default_shares, effective_quota
from mooring.policy.queues.tree import QueueTree
from mooring.policy.standing.case import After, Case, Side, Terms
from mooring.policy.standing.line import Item, Line, rank_of, word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from random import Random

    from mooring.policy.standing.item import Class
    from mooring.policy.standing.line import Key, Word

    Search = Callable[["Judge", "Scene", int], "Exchange | None"]

CARDS = 2
"""On every node."""
MOST_STEPS = 60
"""More than any world needs to settle."""

Nodes = tuple[int, ...]
"""The node of every task of a gang, ascending; none: it waits."""
Order = tuple[int, ...]
"""Who runs, by start."""


class Gang(NamedTuple):
    """So many tasks of so many cards."""

    queue: int
    tasks: int
    cards: int
    priority: int = 0
    fixed: bool = False
    """It cannot be evicted."""
    early: bool = False
    """Its turn has not come: when it runs it is an overtaker."""


class Share(NamedTuple):
    """What a queue has."""

    quota: int
    weight: int = 1


@dataclass(frozen=True)
class World:
    """Nodes, queues, and gangs in the order of their submission."""

    nodes: int
    queues: tuple[Share, ...]
    gangs: tuple[Gang, ...]
    lets_by: frozenset[tuple[int, int]] = frozenset()
    """(victim, newcomer): the first lets the second by, once, by quantum."""

    @cached_property
    def tree(self) -> QueueTree:
        """Return the queues as the product sees them."""
        queues = [
            Queue(f"q{number}", quotas=(Quota("card", quota=queue.quota),), weight=queue.weight)
            for number, queue in enumerate(self.queues)
        ]
        return QueueTree([queue.name for queue in queues], queues, [("", "card")])

    @cached_property
    def shares(self) -> list[list[int]]:
        """Return fair shares by what all gangs want together."""
        demand = [[0] for _ in self.queues]
        for gang in self.gangs:
            demand[gang.queue][0] += gang.tasks * gang.cards
        return default_shares(self.tree, [self.nodes * CARDS], demand)

    def item(self, number: int, started: float = inf) -> Item:
        """Return a gang as an item."""
        gang, name = self.gangs[number], (f"g{number}", 0)
        stays = gang.fixed
        rank = rank_of(name, float(number), gang.priority, is_preemptible=not stays)
        size = ((0, gang.tasks * gang.cards),)
        return Item(
            *name, gang.queue, size, rank, gang.priority, not stays, started, overtaker=gang.early
        )

    def told(self) -> str:
        """Return the world in one line."""
        queues = " ".join(f"{queue.quota}w{queue.weight}" for queue in self.queues)
        gangs = " ".join(f"q{g.queue}:{g.tasks}x{g.cards}p{g.priority}" for g in self.gangs)
        return f"{self.nodes} nodes | {queues} | {gangs}"


class Scene(NamedTuple):
    """Who runs where, since when, and what is left of budgets."""

    places: tuple[Nodes, ...]
    order: Order
    bold: frozenset[int]
    """Who has not made its bold start yet."""
    quanta: frozenset[int]
    """Who may still be asked to let others by."""


class Exchange(NamedTuple):
    """Who leaves for a newcomer, and where everybody is afterwards."""

    victims: Order
    places: tuple[Nodes, ...]
    bold: bool = False
    quanta: Order = ()


# -- mistakes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mistakes:
    """Rules that are known to be wrong: the check must find them."""

    shares_before: bool = False
    """Shares are compared before the exchange, and the line is not asked."""
    ties: bool = False
    """Who is as far beyond may be evicted, and the line is not asked."""
    no_hold: bool = False
    """What is freed for a newcomer is anybody's."""


RIGHT = Mistakes()


class _BeforeExchange(After):
    """Usage as it is before anybody starts or leaves."""

    def _side(self, queue: int) -> Side:
        used, measure = self._line.usage[queue], self._line.measure
        now = [used[pair] for pair, _ in self._item.size]
        is_below = [
            u < measure.share[queue][pair]
            for (pair, _), u in zip(self._item.size, now, strict=True)
        ]
        within = measure.is_within(measure.quota[queue], self._item.size, now)
        return Side(within and now[0] < measure.quota[queue][0], all(is_below), (BEYOND, inf))


class _Unasked(Case):
    """Does not ask where the newcomer stands."""

    def before(self, victim: Item) -> bool:
        return True


class _SharesBefore(_Unasked):
    def after(self, leaving: Iterable[Item] = ()) -> After:
        return _BeforeExchange(self.line, self.item, leaving)


RIGHTFUL = Case.claims
"""Whatever a test makes of it later."""


class Ties(_Unasked):
    """Lets those be evicted who are only as far beyond."""

    @staticmethod
    def claims(side: Side, classes: Sequence[Class]) -> Iterator[str]:
        yield from RIGHTFUL(side, classes)
        if min(classes) > COVERED and classes[0] >= (BEYOND, 0.0) and side.level <= classes[0]:
            yield "leximin"


# -- what is legal --------------------------------------------------------------------------------


class Judge:
    """What the rules say in one world. It depends on who runs since when, not where."""

    def __init__(self, world: World, mistakes: Mistakes = RIGHT, *, moves: bool = True):
        self.world = world
        self.mistakes = mistakes
        self.moves = moves
        """Whether those who stay may be moved to make room."""
        self._lines: dict[Order, Line] = {}
        self._words: dict[Order, Word] = {}
        self._keys: dict[tuple[Order, int], Key] = {}
        self._cases: dict[tuple[object, ...], Case] = {}
        self._fits: dict[tuple[object, ...], tuple[tuple[Nodes, ...] | None, bool]] = {}
        self._verdicts: dict[tuple[object, ...], tuple[bool, Order] | None] = {}

    def line(self, order: Order) -> Line:
        """Return the line of those who started in this order."""
        if order not in self._lines:
            items = [self.world.item(number, float(at)) for at, number in enumerate(order)]
            tree = self.world.tree
            norm = [float(self.world.nodes * CARDS)]
            line = Line(tree, effective_quota(tree), self.world.shares, norm, items)
            self._lines[order] = line
        return self._lines[order]

    def word(self, order: Order) -> Word:
        """Return the word of the line."""
        if order not in self._words:
            self._words[order] = word(self.line(order))
        return self._words[order]

    def key(self, order: Order, gang: int) -> Key:
        """Return where a gang that waits would stand."""
        if (order, gang) not in self._keys:
            self._keys[order, gang] = self.line(order).place(self.world.item(gang)).key
        return self._keys[order, gang]

    def verdict(self, scene: Scene, gang: int, victims: Order) -> tuple[bool, Order] | None:
        """Return whether an exchange needs boldness, and whose quanta; None: it is not legal."""
        bold = gang in scene.bold
        lets = tuple(v for v in victims if v in scene.quanta and (v, gang) in self.world.lets_by)
        asked = (scene.order, gang, victims, bold, lets)
        if asked not in self._verdicts:
            self._verdicts[asked] = self._judge(scene.order, gang, victims, bold, lets)
        return self._verdicts[asked]

    def _judge(  # wide: all that the verdict depends on
        self, order: Order, gang: int, victims: Order, bold: bool, lets: Order
    ) -> tuple[bool, Order] | None:
        line = self.line(order)
        found = self._case(order, gang, bold, lets).legal([line[f"g{v}", 0] for v in victims])
        if found is None:
            return None
        pairs = zip(victims, found.causes, strict=True)
        return found.is_bold, tuple(v for v, cause in pairs if cause == "quantum")

    def _case(self, order: Order, gang: int, bold: bool, lets: Order) -> Case:
        """Return the case of a gang; it is the same whoever may leave."""
        asked = (order, gang, bold, lets)
        if asked not in self._cases:
            case_of = Case
            if self.mistakes.shares_before:
                case_of = _SharesBefore
            elif self.mistakes.ties:
                case_of = Ties
            due = not self.world.gangs[gang].early
            terms = Terms(is_due=due, is_bold=bold, quantum=frozenset(f"g{v}" for v in lets))
            self._cases[asked] = case_of(self.line(order), self.world.item(gang), terms)
        return self._cases[asked]

    def room(self, places: tuple[Nodes, ...], gang: int) -> tuple[tuple[Nodes, ...] | None, bool]:
        """Return all places with a gang, if there are any, and whether others had to move."""
        if (places, gang) not in self._fits:
            where, moved = fit(self.world, places, gang), False
            if where is None and self.moves:
                where, moved = fit_by_moving(self.world, places, gang), True
            self._fits[places, gang] = where, moved
        return self._fits[places, gang]


# -- where things fit -----------------------------------------------------------------------------


def free_of(world: World, places: Sequence[Nodes]) -> list[int]:
    """Return the free cards of every node."""
    free = [CARDS] * world.nodes
    for gang, nodes in zip(world.gangs, places, strict=True):
        for node in nodes:
            free[node] -= gang.cards
    return free


def fit(world: World, places: Sequence[Nodes], gang: int) -> tuple[Nodes, ...] | None:
    """Return all places with a gang on the fullest nodes that hold it; None: it does not fit."""
    free, wanted = free_of(world, places), world.gangs[gang]
    nodes: list[int] = []
    for _ in range(wanted.tasks):
        fitting = [node for node in range(world.nodes) if free[node] >= wanted.cards]
        if not fitting:
            return None
        node = min(fitting, key=lambda each: (free[each], each))
        free[node] -= wanted.cards
        nodes.append(node)
    return with_place(places, gang, tuple(sorted(nodes)))


def fit_by_moving(world: World, places: Sequence[Nodes], gang: int) -> tuple[Nodes, ...] | None:
    """Return places for a gang and everybody who runs, the large tasks first; some may move."""
    running = [number for number, nodes in enumerate(places) if nodes]
    movers = [number for number in running if not world.gangs[number].fixed]
    found = tuple(() if number in movers else nodes for number, nodes in enumerate(places))
    for number in sorted([*movers, gang], key=lambda each: -world.gangs[each].cards):
        placed = fit(world, found, number)
        if placed is None:
            return None
        found = placed
    return found


def with_place(places: Sequence[Nodes], gang: int, nodes: Nodes) -> tuple[Nodes, ...]:
    """Return places with those of one gang changed."""
    return (*places[:gang], nodes, *places[gang + 1 :])


def exhaustive(judge: Judge, scene: Scene, gang: int) -> Exchange | None:
    """Return the cheapest exchange there is: fewest cards, then fewest gangs, then the youngest.

    Moving is tried after leaving where it is, a bold start last.
    """
    world, best = judge.world, None
    for count in range(len(scene.order) + 1):
        for victims in combinations(scene.order, count):
            places = tuple(() if n in victims else p for n, p in enumerate(scene.places))
            where, moved = judge.room(places, gang)
            verdict = None if where is None else judge.verdict(scene, gang, victims)
            if where is None or verdict is None:
                continue
            bold, quanta = verdict
            cards = sum(world.gangs[v].tasks * world.gangs[v].cards for v in victims)
            youngest = tuple(-scene.order.index(v) for v in reversed(victims))
            price = (bold, cards, count, moved, youngest)
            if best is None or price < best[0]:
                best = (price, Exchange(victims, where, bold, quanta))
    return None if best is None else best[1]


# -- settling -------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What was seen."""

    worlds: int = 0
    scenes: int = 0
    exchanges: int = 0
    """That were made."""
    legal: int = 0
    """That could have been."""
    counts: Counter[str] = field(default_factory=Counter)
    """Failures by kind.

    `loop`, `vain`: as it says; `starved`: at rest, but could start; `unmet`: the same, within its
    quota; `word`: an exchange that does not make the word better. Of a search that is compared:
    `missed` and `illegal`; `dear`: more than twice as many cards as need be leave, or one that
    need not; `bold`: a bold start is made without need, or is not counted as one.
    """
    examples: dict[str, str] = field(default_factory=dict)

    def fail(self, kind: str, world: World, scene: Scene) -> None:
        """Note a failure."""
        self.counts[kind] += 1
        self.examples.setdefault(kind, f"{world.told()} from {scene.places} {scene.order}")

    def told(self) -> str:
        """Return all numbers in one line."""
        failures = ", ".join(f"{kind} {count}" for kind, count in sorted(self.counts.items()))
        return (
            f"{self.worlds:,} worlds, {self.scenes:,} scenes, {self.legal:,} legal exchanges, "
            f"{self.exchanges:,} made: {failures or 'no failure'}"
        )


class Checker:
    """Looks at one world from everywhere."""

    def __init__(  # wide: what is checked, by whom, and where it is noted
        self,
        world: World,
        tally: Tally,
        mistakes: Mistakes = RIGHT,
        search: Search | None = None,
        *,
        moves: bool = True,
    ):
        self.world = world
        self.tally = tally
        self.mistakes = mistakes
        self.judge = Judge(world, mistakes, moves=moves)
        self._search = search
        self._found: dict[tuple[Scene, int], Exchange | None] = {}
        self._settled: set[Scene] = set()
        self._waiting: dict[Order, list[int]] = {}

    def check(self) -> None:
        """Let the world settle from every scene, and look at every legal exchange."""
        self.tally.worlds += 1
        orders: dict[Order, Scene] = {}
        for scene in scenes(self.world):
            self.tally.scenes += 1
            self.settle(scene)
            orders.setdefault(scene.order, scene)
        for scene in orders.values():
            for gang in self.waiting(scene):
                self._check_words(scene._replace(bold=frozenset()), gang)

    def _check_words(self, scene: Scene, gang: int) -> None:
        """Check that whoever may leave for a gang, the word of the line gets better."""
        before = self.judge.word(scene.order)
        for count in range(1, len(scene.order) + 1):
            for victims in combinations(scene.order, count):
                verdict = self.judge.verdict(scene, gang, victims)
                if verdict is None or verdict[1]:
                    continue
                self.tally.legal += 1
                after = (*(n for n in scene.order if n not in victims), gang)
                if not self.judge.word(after) < before:
                    self.tally.fail("word", self.world, scene)

    def search(self, scene: Scene, gang: int) -> Exchange | None:
        """Return what is found for a gang, once it is known to be right."""
        if (scene, gang) not in self._found:
            found = plain = exhaustive(self.judge, scene, gang)
            if self._search is not None:
                found = self._search(self.judge, scene, gang)
                self._compare(scene, gang, found, plain)
            self._found[scene, gang] = found
        return self._found[scene, gang]

    def _compare(
        self, scene: Scene, gang: int, found: Exchange | None, plain: Exchange | None
    ) -> None:
        if (found is None) != (plain is None):
            self.tally.fail("missed" if found is None else "illegal", self.world, scene)
        elif found is not None and plain is not None:
            verdict = self.judge.verdict(scene, gang, found.victims)
            if verdict is None or min(free_of(self.world, found.places)) < 0:
                self.tally.fail("illegal", self.world, scene)
            elif (verdict[0], found.bold) != (plain.bold, plain.bold):
                self.tally.fail("bold", self.world, scene)
            elif self._is_dear(scene, gang, found, plain):
                self.tally.fail("dear", self.world, scene)

    def _is_dear(self, scene: Scene, gang: int, found: Exchange, plain: Exchange) -> bool:
        sizes = [each.tasks * each.cards for each in self.world.gangs]
        if sum(sizes[v] for v in found.victims) > 2 * sum(sizes[v] for v in plain.victims):
            return True
        for victim in found.victims:
            rest = tuple(v for v in found.victims if v != victim)
            places = tuple(() if n in rest else nodes for n, nodes in enumerate(scene.places))
            if fit(self.world, places, gang) and self.judge.verdict(scene, gang, rest):
                return True
        return False

    def settle(self, scene: Scene) -> None:
        """Let one after the other start until nobody can."""
        seen: dict[Scene, None] = {}
        promised: int | None = None
        passed: frozenset[int] = frozenset()
        while scene not in self._settled or promised is not None:
            if (scene in seen and promised is None) or len(seen) > MOST_STEPS:
                self.tally.fail("loop", self.world, scene)
                break
            seen[scene] = None
            step = self.step(scene, passed)
            if step is None:
                self._is_at_rest(scene)
                break
            after, gang, passed, evicted = step
            if promised is not None and gang != promised:
                self.tally.fail("vain", self.world, scene)
            promised = gang if evicted and self.mistakes.no_hold else None
            scene = after
        self._settled.update(seen)

    def waiting(self, scene: Scene) -> list[int]:
        """Return who waits: by rank in a queue, by standing between queues."""
        if scene.order not in self._waiting:
            self._waiting[scene.order] = self._line_up(scene.order)
        return self._waiting[scene.order]

    def _line_up(self, order: Order) -> list[int]:
        lines: list[list[int]] = [[] for _ in self.world.queues]
        for number, gang in enumerate(self.world.gangs):
            if number not in order:
                lines[gang.queue].append(number)
        for line in lines:
            line.sort(key=lambda number: self.world.item(number).rank)
        found = []
        while any(lines):
            heads = [line for line in lines if line]
            first = min(heads, key=lambda line: self.judge.key(order, line[0]))
            found.append(first.pop(0))
        return found

    def step(
        self, scene: Scene, passed: frozenset[int]
    ) -> tuple[Scene, int, frozenset[int], bool] | None:
        """Return what the first who can do something does."""
        waiting = self.waiting(scene)
        later = []
        for gang in waiting:
            exchange = self.search(scene, gang)
            if exchange is None:
                continue
            if gang not in passed and self._is_passed_over(scene, gang, exchange, waiting):
                passed |= {gang}
                later.append((gang, exchange))
                continue
            return self._apply(scene, gang, exchange), gang, passed, bool(exchange.victims)
        for gang, exchange in later:
            return self._apply(scene, gang, exchange), gang, passed, bool(exchange.victims)
        return None

    def _is_passed_over(
        self, scene: Scene, gang: int, exchange: Exchange, waiting: Sequence[int]
    ) -> bool:
        """Return whether one beyond share would be evicted as soon as it started."""
        if exchange.victims or self.judge.key(scene.order, gang)[1][0] < (BEYOND, 0.0):
            return False
        after = self._after(scene, gang, exchange)
        for other in waiting:
            found = None if other == gang else self.search(after, other)
            if found is not None and gang in found.victims:
                return True
        return False

    def _after(self, scene: Scene, gang: int, exchange: Exchange) -> Scene:
        order = (*(n for n in scene.order if n not in exchange.victims), gang)
        bold = scene.bold - {gang} if exchange.bold else scene.bold
        return Scene(exchange.places, order, bold, scene.quanta - set(exchange.quanta))

    def _apply(self, scene: Scene, gang: int, exchange: Exchange) -> Scene:
        after = self._after(scene, gang, exchange)
        if not exchange.victims:
            return after
        self.tally.exchanges += 1
        spent = exchange.bold + len(exchange.quanta)
        if not spent and not self.judge.word(after.order) < self.judge.word(scene.order):
            self.tally.fail("word", self.world, scene)
        if self.mistakes.no_hold:
            places = with_place(after.places, gang, ())
            return after._replace(places=places, order=after.order[:-1])
        return after

    def _is_at_rest(self, scene: Scene) -> None:
        """Check that nobody waits who could start, and that quotas are met."""
        used = [0] * len(self.world.queues)
        for number in scene.order:
            gang = self.world.gangs[number]
            used[gang.queue] += gang.tasks * gang.cards
        for number in self.waiting(scene):
            if exhaustive(self.judge, scene, number) is not None:
                self.tally.fail("starved", self.world, scene)
            elif self.judge.moves and self._has_quota(number, used):  # else gaps may be in the way
                self.tally.fail("unmet", self.world, scene)

    def _has_quota(self, number: int, used: Sequence[int]) -> bool:
        """Return whether quota that can be had would hold a gang that waits."""
        world, gang = self.world, self.world.gangs[number]
        if sum(queue.quota for queue in world.queues) > world.nodes * CARDS:
            return False
        if any(other.fixed for other in world.gangs) or gang.early:
            return False
        wanted = used[gang.queue] + gang.tasks * gang.cards
        is_possible = fit(world, ((),) * len(world.gangs), number) is not None
        return is_possible and wanted <= world.queues[gang.queue].quota


def look_at(
    some: Iterable[World],
    mistakes: Mistakes = RIGHT,
    search: Search | None = None,
    *,
    moves: bool = True,
) -> Tally:
    """Check worlds and return what was seen."""
    tally = Tally()
    for world in some:
        Checker(world, tally, mistakes, search, moves=moves).check()
    return tally


# -- all worlds -----------------------------------------------------------------------------------

SIZES = tuple(product((1, 2), (1, 2)))
_Kind = tuple[Share, tuple[tuple[int, int, int], ...]]
"""A queue and its gangs by rank: tasks, cards, priority."""


def lines(count: int) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """Yield all gangs that a queue may have.

    Priorities only matter inside a queue, so all 1 is the same as all 0.
    """
    for sizes in product(SIZES, repeat=count):
        for important in range(count):
            yield tuple((*size, int(at < important)) for at, size in enumerate(sizes))


def kinds_of(count: int) -> list[_Kind]:
    """Return all queues with so many gangs."""
    shares = [Share(quota, weight) for quota, weight in product((0, 1, 2), (1, 2))]
    return [(share, line) for share in shares for line in lines(count)]


def worlds(nodes: Iterable[int] = (1, 2, 3), most_gangs: int = 4) -> Iterator[World]:
    """Yield all worlds up to symmetry: the order of queues and a factor of all weights."""
    kinds = {count: kinds_of(count) for count in range(1, most_gangs + 1)}
    for counts in _counts(most_gangs):
        for chosen in _choices([kinds[count] for count in counts]):
            if min(share.weight for share, _ in chosen) == 1:
                for number in nodes:
                    yield _world(number, chosen)


def _counts(most: int) -> Iterator[tuple[int, ...]]:
    """Yield how many gangs up to three queues have."""
    for queues in (1, 2, 3):
        for counts in combinations_with_replacement(range(1, most + 1), queues):
            if sum(counts) <= most:
                yield counts


def _choices(kinds: Sequence[list[_Kind]]) -> Iterator[tuple[_Kind, ...]]:
    """Yield one kind for each queue; queues of as many gangs are alike."""
    if not kinds:
        yield ()
        return
    same = sum(1 for each in kinds if each is kinds[0])
    for first in combinations_with_replacement(kinds[0], same):
        for rest in _choices(kinds[same:]):
            yield (*first, *rest)


def _world(nodes: int, chosen: Sequence[_Kind]) -> World:
    """Return a world; gangs of different queues were submitted in turns."""
    gangs = [
        (at, queue, Gang(queue, *gang))
        for queue, (_share, line) in enumerate(chosen)
        for at, gang in enumerate(line)
    ]
    return World(
        nodes, tuple(share for share, _ in chosen), tuple(gang for *_, gang in sorted(gangs))
    )


def scenes(world: World) -> Iterator[Scene]:
    """Yield every placement of every set of gangs (nodes are alike), in every order of starts."""
    everybody = frozenset(range(len(world.gangs)))
    seen: set[tuple[Nodes, ...]] = set()
    for places in _placements(world, ((),) * len(world.gangs), 0):
        alike = _canonical(world, places)
        if alike in seen:
            continue
        seen.add(alike)
        running = [number for number, nodes in enumerate(places) if nodes]
        for order in permutations(running):
            yield Scene(places, order, everybody, everybody)


def _placements(world: World, places: tuple[Nodes, ...], gang: int) -> Iterator[tuple[Nodes, ...]]:
    """Yield all placements of some of the gangs from one on."""
    if gang == len(world.gangs):
        yield places
        return
    yield from _placements(world, places, gang + 1)
    free, wanted = free_of(world, places), world.gangs[gang]
    for nodes in combinations_with_replacement(range(world.nodes), wanted.tasks):
        if all(nodes.count(node) * wanted.cards <= free[node] for node in nodes):
            yield from _placements(world, with_place(places, gang, nodes), gang + 1)


def _canonical(world: World, places: Sequence[Nodes]) -> tuple[Nodes, ...]:
    """Return the same placement with nodes renamed, the same for all that are alike."""
    return min(
        tuple(tuple(sorted(names[node] for node in nodes)) for nodes in places)
        for names in permutations(range(world.nodes))
    )


def sample(random: Random, count: int) -> list[World]:
    """Return some worlds, drawn about as evenly as they are."""
    kinds = {gangs: kinds_of(gangs) for gangs in (1, 2, 3, 4)}
    counts = list(_counts(4))
    weights = [prod(len(kinds[gangs]) for gangs in each) for each in counts]
    found = []
    for chosen in random.choices(counts, weights, k=count):
        some = [random.choice(kinds[gangs]) for gangs in chosen]
        found.append(_world(random.choice((1, 2, 3)), some))
    return found


def with_marks(random: Random, world: World) -> World:
    """Return a world in which some cannot be evicted, some are early, and some let others by."""
    gangs = []
    for gang in world.gangs:
        fate = random.random()
        gangs.append(gang._replace(fixed=fate < 0.2, early=fate > 0.5))
    pairs = [
        (victim, newcomer)
        for victim, newcomer in permutations(range(len(gangs)), 2)
        if gangs[victim].early and random.random() < 0.3
    ]
    return replace(world, gangs=tuple(gangs), lets_by=frozenset(pairs))
