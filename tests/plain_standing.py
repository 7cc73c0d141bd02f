"""The line as it is written down, item by item, and random worlds to compare it on.

Slow and obvious: nothing here knows chains, parts or logs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mooring.model.queues import Queue, Quota
from mooring.policy.queues.share import (
    Yardstick,
    add_up,
    default_shares,
    effective_quota,
)
from mooring.policy.queues.tree import NOBODY, QueueTree
from mooring.policy.standing.line import Item, Line, rank_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from mooring.policy.standing.line import Key

PAIRS = (("h100", "card"), ("a10", "card"), ("", "cpu"))


@dataclass
class World:
    """A tree of queues with its tables, and what runs."""

    tree: QueueTree
    share: list[list[int]]
    norm: list[float]
    running: list[Item] = field(default_factory=list)
    quota: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.quota = effective_quota(self.tree)

    def line(self, running: Iterable[Item] | None = None) -> Line:
        """Return the line of the product."""
        items = self.running if running is None else running
        return Line(self.tree, self.quota, self.share, self.norm, items)

    def leaves(self) -> list[int]:
        return [queue for queue in range(self.tree.count) if self.tree.is_leaf(queue)]


def at_least_below(tree: QueueTree, rows: list[list[int]]) -> list[list[int]]:
    """Return amounts that are nowhere less than those of the queues below together."""
    found = [list(row) for row in rows]
    for queue in tree.above():
        for pair, amount in enumerate(found[queue]):
            found[queue][pair] = max(amount, sum(found[q][pair] for q in tree.children[queue]))
    return found


def start_of(item: Item) -> tuple[float, object]:
    return item.started, item.rank


def plain_line(world: World, running: Sequence[Item]) -> list[tuple[Item, Key]]:
    """Serve everybody again, one by one."""
    yardstick = Yardstick(world.tree, world.share, world.norm)
    used = [[0] * len(world.tree.pairs) for _ in world.tree.names]
    picked: list[tuple[Item, Key]] = []
    left = list(running)
    minima = {item.workload for item in running if item.unit == 0}
    while left:
        done = {item.workload for item, _ in picked if item.unit == 0}
        ready = [i for i in left if i.unit == 0 or i.workload in done or i.workload not in minima]
        keyed = [(plain_key(world, yardstick, used, item, left, picked), item) for item in ready]
        key, item = min(keyed, key=lambda each: each[0])
        picked.append((item, key))
        left.remove(item)
        for queue in world.tree.path[item.queue]:
            for pair, amount in item.size:
                used[queue][pair] += amount
    return picked


def plain_key(  # wide: all of the state is handed in
    world: World,
    yardstick: Yardstick,
    used: list[list[int]],
    item: Item,
    left: Sequence[Item],
    picked: Sequence[tuple[Item, Key]],
) -> Key:
    extra = [0] * len(world.tree.pairs)
    for other in left:
        if (
            other.queue == item.queue
            and other.rank < item.rank
            and start_of(other) < start_of(item)
        ):
            for pair, amount in other.size:
                extra[pair] += amount
    for other, _ in picked:
        if (
            other.queue == item.queue
            and other.rank > item.rank
            and start_of(other) > start_of(item)
        ):
            for pair, amount in other.size:
                extra[pair] -= amount
    classes = []
    for queue in reversed(world.tree.path[item.queue]):
        there = [a + b for a, b in zip(used[queue], extra, strict=True)]
        classes.append(yardstick.standing(queue, there, item.size))
    return int(item.is_guest), tuple(classes), item.rank


# -- random worlds --------------------------------------------------------------------------------


def draw_tree(random: Random, depth: int = 3) -> QueueTree:
    """Return up to some eight queues."""
    queues: list[Queue] = []

    def grow(parent: str, level: int) -> None:
        for _ in range(random.choice((1, 1, 2, 2, 3)) if parent else random.choice((1, 2, 3))):
            quotas = tuple(
                Quota(
                    resource, flavor, quota=random.choice((0, 0, 1, 2, 4, None, 3)), weight=weight
                )
                for flavor, resource in PAIRS
                if random.random() < 0.6
                for weight in [random.choice((None, None, 1.0, 2.0, 0.0, 0.5))]
            )
            name = f"q{len(queues)}"
            queues.append(Queue(name, parent, quotas, weight=random.choice((1.0, 1.0, 2.0, 0.0))))
            if level < depth and random.random() < 0.5 and len(queues) < 8:
                grow(name, level + 1)

    grow("", 1)
    return QueueTree([queue.name for queue in queues], queues, PAIRS)


def draw_size(random: Random) -> tuple[tuple[int, int], ...]:
    pairs = random.choice(((0,), (0,), (1,), (0, 2), (0, 1, 2), (2,), ()))
    return tuple((pair, random.choice((1, 1, 2, 3))) for pair in pairs)


def draw_items(random: Random, tree: QueueTree, most: int) -> list[Item]:
    """Return workloads with units above their minima; none has started."""
    leaves = [queue for queue in range(tree.count) if tree.is_leaf(queue)]
    items: list[Item] = []
    number = 0
    sizes = [draw_size(random) for _ in range(random.choice((1, 2, 4)))]
    while len(items) < most:
        number += 1
        name, queue, size = f"w{number:02}", random.choice(leaves), random.choice(sizes)
        priority, stays = random.choice((0, 0, 0, 1, 2)), random.random() < 0.1
        guest = random.random() < 0.15 and not stays
        lender = random.choice(leaves) if guest and random.random() < 0.5 else NOBODY
        units = random.choice((0, 0, 0, 0, 1, 2, 3))
        submitted = float(random.choice((number, number, random.randrange(20))))
        unit_size = random.choice((size, draw_size(random)))
        for unit in range(units + 1):
            rank = rank_of((name, unit), submitted, priority, is_preemptible=not stays)
            items.append(
                Item(
                    name, unit, queue, unit_size if unit else size, rank, priority, not stays,
                    overtaker=guest and lender == NOBODY, lender=lender,
                )
            )  # fmt: skip
    return items


def draw_world(random: Random, most: int = 12) -> tuple[World, list[Item]]:
    """Return a world, and items of it that wait."""
    tree = draw_tree(random)
    items = draw_items(random, tree, most)
    capacity = [random.choice((2, 4, 8, 12)) for _ in PAIRS]
    own = [[0] * len(PAIRS) for _ in tree.names]
    for item in items:
        for pair, amount in item.size:
            own[item.queue][pair] += amount
    if random.random() < 0.8:
        share = default_shares(tree, capacity, add_up(tree, own))
    else:
        share = at_least_below(tree, [[random.randrange(6) for _ in PAIRS] for _ in tree.names])
    world = World(tree, share, [float(amount) for amount in capacity])
    started = start_some(random, items)
    world.running = started
    names = {item.name for item in started}
    return world, [item for item in items if item.name not in names]


def start_some(random: Random, items: Sequence[Item]) -> list[Item]:
    """Return items that have started: a minimum before its units."""
    order = list(items)
    if random.random() < 0.7:
        random.shuffle(order)
    share, running = random.choice((0.5, 0.8, 1.0)), []
    begun: set[str] = set()
    for number, item in enumerate(order):
        if random.random() > share:
            continue
        if item.unit == 0 or item.workload in begun:
            begun.add(item.workload)
            coarse = number if random.random() < 0.8 else number // 2
            running.append(replace(item, started=float(coarse)))
    return running
