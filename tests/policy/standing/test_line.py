"""The line of all who run: rule by rule, and the fast one against the plain one."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.queues import Queue, Quota
from mooring.policy.queues.share import BEYOND, COVERED, IN_SHARE, LAST, Yardstick
from mooring.policy.queues.tree import NO_BOUND, QueueTree
from mooring.policy.standing import chains
from mooring.policy.standing.item import Measure
from mooring.policy.standing.line import Item, Line, psi, rank_of, size_of, word
from mooring.policy.standing.sums import Sums
from tests.plain_standing import PAIRS, World, at_least_below, draw_size, draw_world, plain_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.policy.standing.chains import Chain

BEYOND_BY_NOTHING = (BEYOND, 0.0)


class Small:
    """Queues by name with (quota, share, weight) of one pair, a capacity of 10, and who runs."""

    def __init__(self, parents: dict[str, str] | None = None, **queues: tuple[int, int, float]):
        parents = parents or {}
        made = [
            Queue(name, parents.get(name, ""), (Quota("card", quota=quota, weight=weight),))
            for name, (quota, _share, weight) in queues.items()
        ]
        self.tree = QueueTree(list(queues), made, [("", "card")])
        shares = [[share] for _quota, share, _weight in queues.values()]
        self.world = World(self.tree, at_least_below(self.tree, shares), [10.0])
        self.started = 0

    def item(self, name: str, size: int, priority: int = 0, **more: object) -> Item:
        """Return an item; its queue is the name without its number, units are `a1+1`."""
        workload, _, unit = name.partition("+")
        of, queue = (workload, int(unit or 0)), self.tree.index_of[workload.rstrip("0123456789")]
        submitted = float(workload.lstrip("abcdefghijklmnopqrstuvwxyz"))
        stays = more.get("preemptible", True)
        rank = rank_of(of, submitted, priority, is_preemptible=bool(stays))
        return Item(*of, queue, size_of({0: size}), rank, priority, **more)  # type: ignore[arg-type]

    def run(self, *items: Item) -> Line:
        """Return the line of items that started in this order."""
        return self.world.line([replace(item, started=float(n)) for n, item in enumerate(items)])


def told(line: Line) -> list[str]:
    """Return who stands where, as `name:class` of the last queue."""
    words = {0: "covered", 1: "in share", 2: "beyond", 3: "last"}
    return [
        f"{item.workload}{f'+{item.unit}' if item.unit else ''}:{words[key[1][-1][0]]}"
        for item, key in line.order()
    ]


# -- rule by rule ---------------------------------------------------------------------------------


def test_covered_stand_before_in_share_before_beyond() -> None:
    small = Small(a=(2, 4, 1.0), b=(1, 1, 1.0))
    line = small.run(*(small.item(f"a{n}", 2) for n in (1, 2, 3)), small.item("b4", 1))
    assert told(line) == ["a1:covered", "b4:covered", "a2:in share", "a3:beyond"]


def test_the_level_is_what_was_used_before_by_weight() -> None:
    small = Small(a=(0, 0, 1.0), b=(0, 0, 2.0))
    line = small.run(*(small.item(name, 2) for name in ("a1", "a2", "b3", "b4")))
    levels = {item.workload: key[1][-1] for item, key in line.order()}
    expected = {"a1": 0.0, "a2": 0.2, "b3": 0.0, "b4": 0.1}
    assert levels == {name: (BEYOND, level) for name, level in expected.items()}
    assert [item.workload for item, _ in line.order()] == ["a1", "b3", "b4", "a2"]


def test_without_weight_a_queue_is_behind_all_that_are_beyond() -> None:
    small = Small(a=(0, 0, 0.0), b=(0, 0, 1.0))
    line = small.run(small.item("a1", 1), *(small.item(f"b{n}", 4) for n in (2, 3)))
    assert told(line) == ["b2:beyond", "b3:beyond", "a1:last"]


def test_guests_stand_behind_everybody() -> None:
    small = Small(a=(4, 4, 1.0), b=(0, 0, 1.0))
    line = small.run(small.item("a1", 1, overtaker=True), small.item("b2", 9), small.item("a3", 1))
    assert told(line) == ["a3:covered", "b2:beyond", "a1:covered"]


def test_non_preemptible_first_then_priority_then_minima_then_age() -> None:
    small = Small(a=(9, 9, 1.0))
    line = small.run(
        small.item("a1", 1), small.item("a1+1", 1), small.item("a2", 1),
        small.item("a3", 1, 1), small.item("a4", 1, preemptible=False),
    )  # fmt: skip
    assert [name.split(":")[0] for name in told(line)] == ["a4", "a3", "a1", "a2", "a1+1"]


def test_a_unit_comes_after_its_minimum_even_if_it_is_covered() -> None:
    """The minimum is beyond in cards; its unit needs only memory, of which there is enough."""
    queue = Queue("q", quotas=(Quota("card", quota=2), Quota("memory", quota=9)))
    tree = QueueTree(["q"], [queue], [("", "card"), ("", "memory")])
    sizes = {("w1", 0): {0: 3}, ("w1", 1): {1: 1}, ("w2", 0): {0: 3}}
    items = [Item(*of, 0, size_of(size), rank_of(of, 0.0)) for of, size in sizes.items()]
    line = Line(tree, tree.quota, tree.quota, [8.0, 8.0], items)
    assert told(line) == ["w1:beyond", "w1+1:covered", "w2:beyond"]


def test_a_start_is_harmless_to_running_seniors() -> None:
    """A small late junior slips in under quota; the senior that was beyond stays as it was."""
    small = Small(a=(2, 2, 1.0))
    alone = small.run(small.item("a1", 3))
    both = small.run(small.item("a1", 3), small.item("a2", 1))
    assert told(alone) == ["a1:beyond"]
    assert alone.key(("a1", 0)) == both.key(("a1", 0))
    assert told(both) == ["a1:beyond", "a2:beyond"], "the senior's three count for the junior"


def test_a_junior_that_was_there_first_counts() -> None:
    """It had the room when the senior came; whoever came later is behind."""
    small = Small(a=(2, 2, 1.0))
    line = small.run(small.item("a2", 1), small.item("a1", 3))
    assert told(line) == ["a2:covered", "a1:beyond"]
    assert line.key(("a1", 0))[1] == (BEYOND_BY_NOTHING,), "1 is used, quota is 2"


def test_classes_are_compared_from_the_top_down() -> None:
    """Department d is within its quota, e is not: what d's queue borrows inside d stands before."""
    small = Small(
        {"a": "d", "b": "d", "c": "e"},
        d=(4, 4, 1.0), e=(0, 9, 1.0), a=(0, 0, 1.0), b=(4, 4, 1.0), c=(0, 9, 1.0),
    )  # fmt: skip
    line = small.run(small.item("c1", 1), small.item("a2", 3))
    assert [item.workload for item, _ in line.order()] == ["a2", "c1"]
    assert line.key(("a2", 0))[1] == (COVERED, BEYOND_BY_NOTHING)
    assert line.key(("c1", 0))[1] == (IN_SHARE, IN_SHARE)


def test_borrowed_a10s_do_not_uncover_h100s() -> None:
    queue = Queue("q", quotas=(Quota("card", "h100", quota=4), Quota("card", "a10", quota=0)))
    tree = QueueTree(["q"], [queue], [("h100", "card"), ("a10", "card")])
    line = Line(tree, tree.quota, tree.quota, [8.0, 8.0])
    for number, size in enumerate(({1: 6}, {0: 4}, {1: 2}, {0: 1, 1: 1})):
        rank = rank_of((f"w{number}", 0), float(number))
        line.add(Item(f"w{number}", 0, 0, size_of(size), rank, started=float(number)))
    risks = {f"w{number}": line.risk((f"w{number}", 0)) for number in range(4)}
    assert risks == {"w0": "beyond", "w1": "covered", "w2": "beyond", "w3": "beyond"}
    assert line.key(("w2", 0))[1] == ((BEYOND, 0.75),), "six A10s before it, no H100s"


def test_nothing_reaches_a_quota_without_bound() -> None:
    small = Small(a=(0, 0, 1.0))
    line = Line(small.tree, [[NO_BOUND]], [[NO_BOUND]], [10.0], [small.item("a1", 10**9)])
    assert told(line) == ["a1:covered"]


def test_what_a_running_item_has_to_fear() -> None:
    small = Small({"a": "d"}, d=(0, 6, 1.0), a=(2, 9, 1.0))
    small.world.share[0][0] = 6
    names = [f"a{n}" for n in range(1, 6)]
    line = small.world.line(
        [replace(small.item(name, 2), started=float(n)) for n, name in enumerate(names)]
    )
    assert line.measure.share == [[9], [9]], "a share is at least what those below have"
    risks = [line.risk((name, 0)) for name in names]
    assert risks == ["covered", "in share", "in share", "in share", "beyond"]


# -- words ----------------------------------------------------------------------------------------


def test_a_longer_word_is_better_and_a_smaller_key_is_better_still() -> None:
    small = Small(a=(2, 2, 1.0))
    short, covered = small.item("a1", 3), small.item("a2", 1)
    one, two = small.run(short), small.run(short, small.item("a3", 3))
    assert word(two) < word(one)
    assert word(small.run(covered)) < word(two)
    assert psi(one, 0) < psi(two, 1), "a budget that was spent is worth more than any word"
    assert psi(one, 0, 0.5) < psi(one, 0, 0.6)


# -- where a newcomer would stand -----------------------------------------------------------------


def test_a_newcomer_is_placed_as_if_it_started_last() -> None:
    small = Small(a=(2, 2, 1.0), b=(2, 2, 1.0))
    line = small.run(*(small.item(f"a{n}", 1) for n in (1, 2, 3)))
    place = line.place(small.item("b9", 1))
    assert place.key[1] == (COVERED,)
    before = [name for name in ("a1", "a2", "a3") if line.stands_before(place, (name, 0))]
    assert before == ["a3"], "two are covered and older"
    assert [item.workload for item, _ in line.behind(place)] == ["a3"]
    assert not line.before_all(small.item("b9", 1), [line["a2", 0], line["a3", 0]])


def test_a_unit_stands_behind_its_minimum() -> None:
    small = Small(a=(1, 1, 1.0), b=(0, 0, 1.0))
    line = small.run(small.item("b1", 1), small.item("a2", 3))
    place = line.place(small.item("a2+1", 1))
    assert not line.stands_before(place, ("a2", 0))
    assert not line.stands_before(place, ("b1", 0)), "older, and as far beyond as its minimum"


# -- the fast one is the plain one ----------------------------------------------------------------


class History:
    """A line that is asked and changed at random, beside a plain list of who runs."""

    def __init__(self, random: Random, most: int):
        self.random = random
        self.world, self.waiting = draw_world(random, most)
        self.running = list(self.world.running)
        self.line = self.world.line()
        self.clock = 100.0

    def play(self, steps: int) -> None:
        """Take some steps, and compare at the end."""
        acts = (self.ask, self.start, self.start, self.end, self.end, self.mark, self.retable)
        for _ in range(steps):
            self.random.choice(acts)()
        self.compare()

    def compare(self) -> None:
        assert self.line.order() == plain_line(self.world, self.running)
        assert self.line.usage == self.world.line(self.running).usage

    def ready(self) -> list[Item]:
        begun = {item.workload for item in self.running if item.unit == 0}
        return [item for item in self.waiting if item.unit == 0 or item.workload in begun]

    def ask(self) -> None:
        """Ask where somebody would stand, and where somebody stands."""
        ready, line = self.ready(), self.line
        keys = {item.name: key for item, key in plain_line(self.world, self.running)}
        if ready:
            self._ask_for(self.random.choice(ready))
        if keys:
            name = self.random.choice(sorted(keys))
            floor = line.floor(name)
            assert floor[0] == keys[name][0]
            assert all(a <= b for a, b in zip(floor[1], keys[name][1], strict=True))
            assert line.key(name) == keys[name]

    def _ask_for(self, newcomer: Item) -> None:
        line = self.line
        whole = plain_line(self.world, [*self.running, replace(newcomer, started=1e9)])
        names = [item.name for item, _ in whole]
        at = names.index(newcomer.name)
        place = line.place(newcomer)
        assert place.key == whole[at][1]
        assert [line.stands_before(place, name) for name in names[:at]] == [False] * at
        assert all(line.stands_before(place, name) for name in names[at + 1 :])
        rivals = [item.name for item, _ in line.rivals(place, newcomer.queue)]
        assert set(rivals) <= set(names[at + 1 :])
        assert all(line.risk(n) == "covered" for n in names[at + 1 :] if n not in rivals)
        assert len(set(rivals)) == len(rivals)
        behind = [item.name for item, _ in line.behind(place)]
        assert sorted(behind) == sorted(names[at + 1 :])

    def start(self) -> None:
        """Let somebody start; sometimes it turns out to have started long ago."""
        ready = self.ready()
        if not ready:
            return
        self.clock += self.random.choice((0.0, 1.0))
        started = self.clock if self.random.random() < 0.8 else self.random.randrange(100) + 0.5
        item = replace(self.random.choice(ready), started=started)
        self.line.add(item)
        self.running.append(item)
        self.waiting = [other for other in self.waiting if other.name != item.name]

    def end(self) -> None:
        """Let somebody leave, with its units."""
        if not self.running:
            return
        first = self.random.choice(self.running)
        gone = [i for i in self.running if i.workload == first.workload and not first.unit]
        for item in sorted(gone or [first], key=lambda each: -each.unit):
            assert self.line.remove(item.name) == item
            self.running.remove(item)
            self.waiting.append(item)

    def mark(self) -> None:
        """Give or take a mark, or note since when somebody runs."""
        if not self.running:
            return
        at = self.random.randrange(len(self.running))
        item = self.running[at]
        changed = replace(item, since=1.0)
        if self.random.random() < 0.5 and item.preemptible:
            changed = replace(item, overtaker=not item.overtaker)
        self.line.put(changed)
        self.running[at] = changed
        assert self.line[item.name] == changed

    def retable(self) -> None:
        """Change shares a little, and sometimes quotas."""
        random, world = self.random, self.world
        rows = [[max(0, n + random.choice((-1, 0, 0, 1))) for n in row] for row in world.share]
        if random.random() < 0.2:
            rows = [[random.randrange(6) for _ in row] for row in rows]
        world.share = at_least_below(world.tree, rows)
        self.line.retable(world.quota, world.share, world.norm)


@given(st.integers(0, 2**32), st.sampled_from((4, 8, 16)))
def test_the_fast_line_is_the_plain_line(seed: int, most: int) -> None:
    history = History(Random(seed), most)
    history.compare()
    history.play(12)


@pytest.mark.parametrize("block", range(4))
def test_the_fast_line_is_the_plain_line_on_many_seeds(block: int) -> None:
    for seed in range(block * 500, block * 500 + 500):
        random = Random(seed)
        History(random, random.choice((4, 7, 12))).play(random.choice((0, 3, 8)))


def test_adding_up_for_all_is_the_same_as_asking_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MANY_CHAINS", 2)
    for seed in range(300):
        History(Random(seed), 10).play(8)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(40))
def test_the_fast_line_is_the_plain_line_for_a_night(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chains, "MANY_CHAINS", 2 if block % 2 else 12)
    for seed in range(10_000 + block * 500, 10_000 + block * 500 + 500):
        random = Random(seed)
        History(random, random.choice((4, 12, 24, 40))).play(random.choice((4, 12, 24)))


@given(st.integers(0, 2**32))
def test_classes_are_those_of_the_yardstick(seed: int) -> None:
    random = Random(seed)
    world, _ = draw_world(random)
    yardstick = Yardstick(world.tree, world.share, world.norm)
    measure = Measure(world.tree, world.quota, world.share, world.norm)
    for _ in range(20):
        queue, size = random.randrange(world.tree.count), draw_size(random)
        used = [random.randrange(8) for _ in PAIRS]
        own = [used[pair] for pair, _ in size]
        assert measure.class_of(queue, size, own) == yardstick.standing(queue, used, size)
        level = yardstick.level(queue, used, [pair for pair, _ in size])
        assert measure.level(queue, size, own) == level
        assert level[0] in (BEYOND, LAST)


def test_many_items_of_many_queues_agree_after_many_exchanges() -> None:
    """Larger worlds, in which chains are long, queues are tied and the log is cut often."""
    for seed in range(3):
        random = Random(seed)
        history = History(random, 90)
        for _ in range(4):
            history.play(15)


@pytest.mark.parametrize("seed", range(4))
def test_starts_in_any_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains are many where starts have nothing to do with rank; then they are added up."""
    made = []

    def noted(some: Sequence[Chain]) -> Sums:
        made.append(Sums(some))
        return made[-1]

    monkeypatch.setattr(chains, "Sums", noted)
    monkeypatch.setattr(chains, "MANY_CHAINS", 6)
    random = Random(seed)
    small = Small(
        {"a": "d", "b": "d"}, d=(60, 90, 1.0), a=(20, 60, 1.0), b=(30, 40, 1.0), c=(40, 60, 2.0)
    )
    items = [
        small.item(f"{random.choice('abc')}{n}", random.choice((1, 2, 3)), random.choice((0, 0, 1)))
        for n in range(90)
    ]
    items = [
        replace(item, started=random.random(), overtaker=random.random() < 0.1) for item in items
    ]
    line = small.world.line(items)
    assert line.order() == plain_line(small.world, items)
    for number, gone in enumerate(random.sample(items, 3)):
        line.remove(gone.name)
        items.remove(gone)
        items.append(replace(gone, started=2.0 + number))
        line.add(items[-1])
        assert line.order() == plain_line(small.world, items)
    assert made


def test_odd_things_are_refused_or_harmless() -> None:
    small = Small(a=(2, 2, 1.0))
    line = small.run(small.item("a1", 1))
    with pytest.raises(ValueError, match="already"):
        line.add(small.item("a1", 1))
    unit = replace(small.item("a2+1", 1), started=5.0)
    line.add(unit)
    line.add(replace(small.item("a2", 2), started=6.0))
    assert told(line) == ["a1:covered", "a2:beyond", "a2+1:beyond"]
    line.remove(("a2", 0))
    assert told(line) == ["a1:covered", "a2+1:covered"], "without a minimum it is on its own"
    assert len(line) == 2
    assert ("a2", 1) in line


def test_work_in_a_queue_that_has_queues_below() -> None:
    small = Small({"a": "d"}, d=(4, 4, 1.0), a=(4, 4, 1.0))
    items = [small.item("d1", 2), small.item("a2", 3), small.item("d3", 1)]
    items = [replace(item, started=float(n)) for n, item in enumerate(items)]
    line = small.world.line(items[:2])
    line.add(items[2])
    assert line.order() == plain_line(small.world, items)


def test_who_is_covered_is_not_taken_for_in_share_where_work_stands_above_other_queues() -> None:
    """Of `a` one uses what is covered and one does not; `b` has a queue below it, and work."""
    quotas = (Quota("cpu", quota=1), Quota("gpu", quota=0))
    queues = [Queue("a", quotas=quotas), Queue("b", quotas=quotas), Queue("c", "b")]
    tree = QueueTree(["a", "b", "c"], queues, [("", "cpu"), ("", "gpu")])
    world = World(tree, [[2, 2], [2, 2], [0, 0]], [4.0, 4.0])
    sizes = [(0, ((0, 1),)), (0, ((1, 1),)), (1, ((1, 1),))]
    items = [
        Item(f"w{n}", 0, queue, size, rank_of((f"w{n}", 0), float(n)), started=float(n))
        for n, (queue, size) in enumerate(sizes)
    ]

    assert world.line(items).order() == plain_line(world, items)
