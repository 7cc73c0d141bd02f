"""Who may evict whom: the table row by row, loops of naive rules, and the theorem."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.queues import Queue, Quota
from mooring.policy.queues.share import default_shares, effective_quota
from mooring.policy.queues.tree import QueueTree
from mooring.policy.standing.case import Case, Terms, legal
from mooring.policy.standing.line import Item, Line, psi, rank_of, size_of, word
from tests.plain_standing import draw_world

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.plain_standing import World

CARDS = 8


def tree_of(**queues: tuple[str, int, float]) -> QueueTree:
    """Return queues by name: (parent, quota, weight)."""
    made = [
        Queue(name, parent, (Quota("card", quota=quota, weight=weight),))
        for name, (parent, quota, weight) in queues.items()
    ]
    return QueueTree(list(queues), made, [("", "card")])


def item(tree: QueueTree, name: str, size: int, priority: int = 0, **more: object) -> Item:
    """Return an item; its queue is the name without its number, units are `a1+1`."""
    workload, _, unit = name.partition("+")
    of, queue = (workload, int(unit or 0)), tree.index_of[workload.rstrip("0123456789")]
    submitted = float(workload.lstrip("abcdefghijklmnopqrstuvwxyz"))
    rank = rank_of(of, submitted, priority, is_preemptible=bool(more.get("preemptible", True)))
    return Item(*of, queue, size_of({0: size}), rank, priority, **more)  # type: ignore[arg-type]


def line_of(tree: QueueTree, running: Sequence[Item], demand: Sequence[Item] = ()) -> Line:
    """Return the line of items that started in this order, with shares by what all demand."""
    own = [[0] for _ in tree.names]
    for each in (*running, *demand):
        for queue in tree.path[each.queue]:
            own[queue][0] += sum(amount for _, amount in each.size)
    share = default_shares(tree, [CARDS], own)
    begun = [replace(each, started=float(n)) for n, each in enumerate(running)]
    return Line(tree, effective_quota(tree), share, [float(CARDS)], begun)


def cause_of(line: Line, newcomer: Item, terms: Terms | None = None) -> str | None:
    """Return the cause against the one victim that the test is about: the last that started."""
    victim = max(line.items(), key=lambda each: each.started)
    verdict = legal(line, newcomer, [victim], terms)
    return None if verdict is None else verdict.causes[0]


FLAT = tree_of(a=("", 4, 1.0), b=("", 2, 1.0), c=("", 0, 1.0), z=("", 0, 0.0))


def flat(name: str, size: int, priority: int = 0, **more: object) -> Item:
    return item(FLAT, name, size, priority, **more)


# -- the table, row by row ------------------------------------------------------------------------

TABLE: dict[str, tuple[list[Item], Item, Terms, str | None]] = {
    "an overtaker makes way for one whose turn has come": (
        [flat("a1", 8, overtaker=True)], flat("b2", 8), Terms(is_due=True), "overtaker"
    ),
    "but not for one whose turn has not come": (
        [flat("c1", 2, overtaker=True)], flat("b2", 8), Terms(), None
    ),
    "lent room is asked back by its queue": (
        [flat("c1", 2, lender=0)], flat("a2", 8), Terms(), "headroom"
    ),
    "and by nobody else": ([flat("b1", 2, lender=0)], flat("c2", 8), Terms(), None),
    "lower priority in the same queue": ([flat("a1", 2)], flat("a2", 2, 1), Terms(), "preempt"),
    "not equal priority": ([flat("a1", 2)], flat("a2", 2), Terms(), None),
    "not lower priority in another queue": ([flat("a1", 2)], flat("b2", 2, 9), Terms(), None),
    "a unit for a minimum of equal priority": (
        [flat("a1", 2), flat("a1+1", 2)], flat("a2", 2), Terms(), "preempt"
    ),
    "not a unit for a unit": (
        [flat("a1", 1), flat("a2", 1), flat("a2+1", 1)], flat("a1+1", 1), Terms(), None
    ),
    "not a unit of higher priority for a minimum": (
        [flat("a1", 2, 1), flat("a1+1", 2, 1)], flat("a2", 2), Terms(), None
    ),
    "quota is taken back": (
        [flat("c1", 4), flat("c2", 4)], flat("a3", 4), Terms(), "quota"
    ),
    "but not for more than quota": (
        [flat("a1", 4), flat("b2", 2), flat("b3", 2)], flat("a4", 4), Terms(), None
    ),
    "nor from what is covered": ([flat("b1", 2)], flat("a2", 4), Terms(), None),
    "nor from what would not leave": (
        [flat("c1", 8, preemptible=False)], flat("a2", 4), Terms(), None
    ),
    "share is taken back from one beyond it": (
        [flat("b1", 2), flat("b2", 3), flat("b3", 3)], flat("c4", 1), Terms(), "fair-share"
    ),
    "but not from one in share": (
        [flat("b1", 2), flat("b2", 1)], flat("c4", 1), Terms(), None
    ),
    "who is less beyond, before, comes before": (
        [flat("b1", 2), flat("b2", 3), flat("b3", 3)], flat("c4", 6), Terms(), "leximin"
    ),
    "but not who is as far": ([flat("z1", 1), flat("b2", 8)], flat("c4", 8), Terms(), None),
    "who has no weight makes way": ([flat("z1", 8)], flat("c2", 8), Terms(), "leximin"),
    "a quantum needs no place in the line": (
        [flat("a1", 4)], flat("b2", 8), Terms(quantum=frozenset({"a1"})), "quantum"
    ),
    "and is not spent if there is another cause": (
        [flat("c1", 8)], flat("a2", 4), Terms(quantum=frozenset({"c1"})), "quota"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("running", "newcomer", "terms", "cause"), TABLE.values(), ids=TABLE)
def test_table(running: list[Item], newcomer: Item, terms: Terms, cause: str | None) -> None:
    demand = [newcomer, flat("a98", 4), flat("b99", 8)]
    assert cause_of(line_of(FLAT, running, demand), newcomer, terms) == cause


def test_what_is_covered_inside_its_department_is_nobodys_victim() -> None:
    """Department d is far beyond its quota, but the work of x is within the quota of x."""
    tree = tree_of(
        d=("", 2, 1.0), e=("", 6, 1.0), x=("d", 2, 1.0), y=("d", 0, 1.0), w=("e", 6, 1.0)
    )
    running = [item(tree, "y1", 4), item(tree, "y2", 2), item(tree, "x3", 2)]
    newcomer = item(tree, "w4", 6)
    line = line_of(tree, running, [newcomer])
    case = Case(line, newcomer)
    causes = {v.workload: case.cause(v, case.after()) for v in line.items()}
    assert causes == {"y1": "quota", "y2": "quota", "x3": None}
    assert line.risk(("x3", 0)) == "covered"


def test_inside_a_department_the_queues_of_the_department_are_compared() -> None:
    tree = tree_of(
        d=("", 2, 1.0), e=("", 6, 1.0), x=("d", 2, 1.0), y=("d", 0, 1.0), w=("e", 6, 1.0)
    )
    running = [item(tree, "y1", 2)]
    newcomer = item(tree, "x2", 2)
    line = line_of(tree, running, [newcomer])
    assert cause_of(line, newcomer) == "quota"
    outsider = item(tree, "w3", 7)
    assert cause_of(line_of(tree, running, [outsider]), outsider) is None, "d is within its quota"


# -- how long it has run --------------------------------------------------------------------------

MINIMA = {"fair-share": 900.0, "leximin": 1800.0, "quantum": 3600.0, "move": 1800.0}


@pytest.mark.parametrize(
    ("ran", "size", "cause"),
    [
        (899.0, 1, None),
        (900.0, 1, "fair-share"),
        (1799.0, 6, None),
        (1800.0, 6, "leximin"),
        (None, 1, None),
    ],
)
def test_a_victim_has_run_as_long_as_its_cause_asks(
    ran: float | None, size: int, cause: str | None
) -> None:
    since = None if ran is None else 5000.0 - ran
    running = [flat("b1", 2), flat("b2", 3), flat("b3", 3, since=since)]
    newcomer = flat("c4", size)
    line = line_of(FLAT, running, [newcomer, flat("b99", 8)])
    assert cause_of(line, newcomer, Terms(5000.0, MINIMA)) == cause


def test_without_a_minimum_just_begun_work_may_be_asked() -> None:
    line = line_of(FLAT, [flat("c1", 8)], [flat("a2", 4)])
    assert cause_of(line, flat("a2", 4), Terms(5000.0, MINIMA)) == "quota"


# -- whole exchanges ------------------------------------------------------------------------------


def test_a_minimum_leaves_with_its_units_and_for_its_cause() -> None:
    running = [flat("c1", 4), flat("c1+1", 2), flat("c1+2", 2, preemptible=True)]
    newcomer = flat("a2", 4)
    line = line_of(FLAT, running, [newcomer])
    minimum, unit, other = (line["c1", n] for n in range(3))
    case = Case(line, newcomer)
    assert case.legal([minimum]) is None, "half a gang"
    assert case.legal([minimum, unit]) is None
    found = case.legal([unit, minimum, other])
    assert found is not None
    assert found.causes == ("quota",) * 3
    found = case.legal([other, unit])
    assert found is not None, "surplus alone may go"


def test_own_victims_make_room_for_a_claim_on_others() -> None:
    """c2 would be beyond quota with a1 in its queue; with a1 gone the quota is free for it."""
    running = [flat("a1", 4), flat("c2", 4)]
    newcomer = flat("a3", 4, 1)
    line = line_of(FLAT, running, [newcomer])
    own, other = line["a1", 0], line["c2", 0]
    case = Case(line, newcomer)
    assert case.cause(other, case.after()) is None
    assert case.cause(other, case.after([own])) == "quota"
    verdict = case.legal([other, own])
    assert verdict is not None
    assert verdict.causes == ("quota", "preempt")


def test_legal_victims_are_those_that_legal_accepts() -> None:
    running = [flat("b1", 2), flat("b2", 2), flat("c3", 2), flat("z4", 2, preemptible=False)]
    newcomer = flat("a5", 4)
    line = line_of(FLAT, running, [newcomer])
    case = Case(line, newcomer)
    assert {(v.workload, why) for v, why in case.victims()} == {("b2", "quota"), ("c3", "quota")}


def test_a_bold_start_is_own_business_within_share_and_once() -> None:
    """An important newcomer is too big for the quota that a small junior fits."""
    tree = tree_of(a=("", 2, 1.0), b=("", 0, 1.0))
    running = [item(tree, "a1", 2)]
    newcomer = item(tree, "a2", 4, 1)
    line = line_of(tree, running, [newcomer])
    assert not line.before_all(newcomer, list(line.items())), "a1 is covered, a2 is not"
    assert cause_of(line, newcomer) is None
    verdict = legal(line, newcomer, list(line.items()), Terms(is_bold=True))
    assert verdict is not None
    assert verdict.is_bold
    crowded = line_of(tree, running, [newcomer, item(tree, "b9", 8)])
    big = replace(newcomer, size=size_of({0: 7}))
    assert cause_of(crowded, big, Terms(is_bold=True)) is None, "its queue would exceed its share"


# -- loops of naive rules -------------------------------------------------------------------------


def test_two_gangs_larger_than_their_shares_do_not_displace_each_other() -> None:
    tree = tree_of(a=("", 0, 1.0), b=("", 0, 1.0))
    one, other = item(tree, "a1", 8), item(tree, "b2", 8)
    assert cause_of(line_of(tree, [one], [other]), other) is None
    assert cause_of(line_of(tree, [other], [one]), one) is None


def test_the_loop_of_three_is_broken() -> None:
    """A's a1 (priority 1) and a2, C's c1 and waiting b1 on 4 cards: c1, a2, a1, c1, ..."""
    tree = tree_of(a=("", 0, 2.0), b=("", 0, 1.0), c=("", 1, 2.0))
    a1, a2 = item(tree, "a1", 4, 1), item(tree, "a2", 2)
    c1, b1 = item(tree, "c3", 4), item(tree, "b4", 2)
    own = [[6], [2], [4]]
    share = default_shares(tree, [4], own)
    legal_ones = []
    for newcomer, victim in ((c1, a1), (a2, c1), (a1, a2)):
        line = Line(tree, tree.quota, share, [4.0], [replace(victim, started=1.0)])
        if legal(line, newcomer, [line[victim.name]], Terms(is_bold=True)) is not None:
            legal_ones.append(newcomer.workload)
    assert legal_ones == ["a1"]
    assert b1.queue == 1


# -- the theorem ----------------------------------------------------------------------------------


def closed(line: Line, victims: Sequence[Item]) -> list[Item]:
    """Return victims with the units of the minima among them."""
    found = {victim.name: victim for victim in victims}
    for victim in victims:
        if not victim.unit:
            found.update((unit.name, unit) for unit in line.units(victim.workload))
    return list(found.values())


def draw_terms(random: Random, world: World) -> Terms:
    names = sorted({each.workload for each in world.running})
    return Terms(
        now=0.0,
        is_due=random.random() < 0.3,
        is_bold=random.random() < 0.5,
        quantum=frozenset(name for name in names if random.random() < 0.1),
    )


def check_exchanges(random: Random) -> int:
    """Try some exchanges in a world; return how many were legal."""
    world, waiting = draw_world(random, random.choice((6, 12)))
    line, count = world.line(), 0
    begun = {each.workload for each in world.running if not each.unit}
    ready = [each for each in waiting if not each.unit or each.workload in begun]
    for newcomer in ready[:4]:
        terms = draw_terms(random, world)
        case = Case(line, newcomer, terms)
        easy = [victim for victim, _ in case.victims()]
        for _ in range(3):
            pool = easy if random.random() < 0.7 else list(line.items())
            some = random.sample(pool, min(len(pool), random.choice((1, 1, 2, 3))))
            victims = [v for v in closed(line, some) if v.workload != newcomer.workload]
            count += check_exchange(world, case, victims)
    return count


def check_exchange(world: World, case: Case, victims: Sequence[Item]) -> bool:
    """Compare the words before and after; return whether the exchange was legal."""
    gone = {victim.name for victim in victims}
    begun = replace(case.item, started=1e6)
    after = world.line([*(i for i in world.running if i.name not in gone), begun])
    before, verdict = world.line(), case.legal(victims)
    if case.line.before_all(case.item, victims):
        assert word(after) < word(before), "who stands before all makes the word better"
    if verdict is None:
        return False
    spent = verdict.is_bold + verdict.causes.count("quantum")
    assert psi(after, -spent) < psi(before, 0)
    if not spent:
        assert case.line.before_all(case.item, victims)
    return True


@given(st.integers(0, 2**32))
def test_every_legal_exchange_makes_psi_smaller(seed: int) -> None:
    check_exchanges(Random(seed))


def test_every_legal_exchange_makes_psi_smaller_on_many_seeds() -> None:
    legal_ones = sum(check_exchanges(Random(seed)) for seed in range(400))
    assert legal_ones > 400, "the check must see something"


@pytest.mark.soak
@pytest.mark.parametrize("block", range(40))
def test_every_legal_exchange_makes_psi_smaller_for_a_night(block: int) -> None:
    for seed in range(block * 1000, block * 1000 + 1000):
        check_exchanges(Random(seed))


@given(st.integers(0, 2**32))
def test_nothing_covered_is_reclaimed_and_nobody_outranks_who_preempts(seed: int) -> None:
    random = Random(seed)
    world, waiting = draw_world(random)
    line = world.line()
    begun = {each.workload for each in world.running if not each.unit}
    for newcomer in [each for each in waiting if not each.unit or each.workload in begun]:
        case = Case(line, newcomer, draw_terms(random, world))
        found = list(case.victims())
        one_by_one = Case(world.line(), newcomer, case.terms)
        expected = []
        for victim in world.running:
            why = one_by_one.cause(victim, one_by_one.after())
            if why is not None and not one_by_one.before(victim):
                why = "quantum" if victim.workload in case.terms.quantum else None
            expected += [] if why is None else [(victim.name, why)]
        assert sorted((victim.name, cause) for victim, cause in found) == sorted(expected)
        for victim, cause in found:
            assert victim.preemptible
            if cause in ("quota", "fair-share", "leximin"):
                assert line.risk(victim.name) != "covered"
                assert victim.queue != newcomer.queue
            elif cause == "preempt":
                assert victim.priority <= newcomer.priority
                assert victim.queue == newcomer.queue


@given(st.integers(0, 2**32))
def test_more_victims_never_make_a_cause_go_away(seed: int) -> None:
    """Legality is monotone: what may be asked stays so when others leave as well."""
    random = Random(seed)
    world, waiting = draw_world(random)
    line = world.line()
    for newcomer in [each for each in waiting if not each.unit][:3]:
        case = Case(line, newcomer)
        pool = [victim for victim, _ in case.victims()]
        more = random.sample(pool, len(pool) // 2)
        assert {v.name for v in pool} <= {v.name for v, _ in case.victims(more)}
