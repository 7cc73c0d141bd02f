"""Fair shares: divided by hand, by a textbook in fractions, and by what must always hold."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import floor, inf
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mooring.model.queues import Queue, Quota
from mooring.policy.queues.share import (
    BEYOND,
    COVERED,
    IN_SHARE,
    LAST,
    Claim,
    DominantShare,
    Yardstick,
    add_up,
    allocatable_share,
    apportion,
    default_shares,
    divide,
    dominant_share,
    effective_quota,
    norms,
    shares,
    unit_of,
)
from mooring.policy.queues.tree import NO_BOUND, QueueTree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GPUS = ("", "gpu")
H100, A10, CPU = ("h100", "gpu"), ("a10", "gpu"), ("", "cpu")
ALL = 1000
"""More than anybody has."""
DIVISIONS = [divide, apportion]


def claim(name: str, quota: int = 0, weight: float = 1.0, **more: float) -> Claim:
    """Return the claim of a queue that wants everything, unless it is said otherwise."""
    return replace(Claim(name, quota, weight=weight, request=ALL), **more)  # type: ignore[arg-type]


def tree_of(*queues: Queue, pairs: Sequence[tuple[str, str]] = (CPU,)) -> QueueTree:
    return QueueTree([queue.name for queue in queues], queues, pairs)


def queue(name: str, parent: str = "", quota: int | None = 0, **more: float) -> Queue:
    """Return a queue with a quota of CPU."""
    weight = more.pop("weight", 1.0)
    return Queue(name, parent, (Quota("cpu", quota=quota, **more),), weight=weight)  # type: ignore[arg-type]


# -- by hand --------------------------------------------------------------------------------------

SAME_IN_BOTH: dict[str, tuple[int, list[Claim], list[int]]] = {
    "quota first, then by weight": (10, [claim("a", 2, 1), claim("b", 4, 3)], [3, 7]),
    "nobody gets more than it wants": (
        10, [claim("a", request=1), claim("b"), claim("c")], [1, 5, 4]
    ),
    "nor more than its limit": (10, [claim("a", limit=2), claim("b")], [2, 8]),
    "unused quota is surplus": (10, [claim("a", 8, request=3), claim("b")], [3, 7]),
    "quotas are not scaled down": (8, [claim("a", 6), claim("b", 6), claim("c")], [6, 6, 0]),
    "a quota without bound is all there is": (
        8, [claim("a", NO_BOUND, request=5), claim("b")], [5, 3]
    ),
    "without weight no surplus": (10, [claim("a", 2, 0), claim("b", 2, request=4)], [2, 4]),
    "priority first": (
        10, [claim("a"), claim("b", priority=1, request=7), claim("c", 1)], [1, 7, 2]
    ),
    "the older gets what does not go even": (
        5, [claim("a", created_at=2.0), claim("b", created_at=1.0)], [2, 3]
    ),
    "then the first by name": (5, [claim("b"), claim("a")], [2, 3]),
    "but first who lost most by rounding": (10, [claim("a", 0, 1), claim("b", 0, 2)], [3, 7]),
    "nothing to divide": (0, [claim("a", 2), claim("b")], [2, 0]),
    "a tenth is a tenth": (
        6, [claim("a", 0, 0.1), claim("b", 0, 0.2), claim("c", 0, 0.3)], [1, 2, 3]
    ),
    "even where it decides": (2, [claim("a", 0, 0.3), claim("b", 0, 0.1)], [2, 0]),
    "who is satisfied in a later round is satisfied": (
        3, [claim("a", request=1), claim("b", 0, 0.1, request=1)], [1, 1]
    ),
    "who wants just what it is offered makes no further round": (
        3, [claim("a", 0, 3, request=1), claim("b", 0, 2), claim("c", 0, 4)], [1, 1, 1]
    ),
    "nobody is there": (6, [], []),
}  # fmt: skip


@pytest.mark.parametrize(("total", "claims", "want"), SAME_IN_BOTH.values(), ids=SAME_IN_BOTH)
@pytest.mark.parametrize("division", DIVISIONS)
def test_examples(
    division: Callable[..., list[int]], total: int, claims: list[Claim], want: list[int]
) -> None:
    assert division(total, claims) == want


def test_devices_are_given_whole() -> None:
    """Five devices among two: two and three, not two and a half each."""
    claims = [claim("a", request=9000), claim("b", request=9000)]
    assert divide(5000, claims, unit=1000) == [3000, 2000]
    assert apportion(5000, claims, unit=1000) == [3000, 2000]
    assert (unit_of(H100), unit_of(GPUS), unit_of(CPU)) == (1000, 1000, 1)


def test_what_rounding_leaves_over_goes_past_a_higher_priority_under_kai_only() -> None:
    """Three devices, two queues of high priority, one of low."""
    claims = [claim("a", priority=1), claim("b", priority=1), claim("c")]
    assert divide(3, claims) == [1, 1, 1]
    assert apportion(3, claims) == [2, 1, 0]


def test_a_remainder_may_exceed_the_want_under_kai_only() -> None:
    """Half a device is wanted, and a whole one is given."""
    claims = [claim("a", request=1500), claim("b", request=9000), claim("c", request=9000)]
    assert divide(4000, claims, unit=1000) == [2000, 1000, 1000]
    assert apportion(4000, claims, unit=1000) == [1500, 1500, 1000]


def test_an_old_remainder_outlives_a_round_that_comes_out_even_under_kai_only() -> None:
    """d is rounded from 0.75 to 0, then gets 1 of an even offer, and still counts with 0.75."""
    claims = [claim("a"), claim("b", 0, 4, request=1), claim("c"), claim("d", 0, 2)]
    assert divide(3, claims) == [0, 1, 0, 2]
    assert apportion(3, claims) == [1, 1, 0, 1]


@pytest.mark.parametrize("division", DIVISIONS)
def test_history_moves_surplus_to_who_has_used_less(division: Callable[..., list[int]]) -> None:
    """Half of everything against nothing: with k = 1 portions of 0.5 and 0.5 + 0.5."""
    claims = [claim("a", history=0.5), claim("b")]
    assert division(30, claims) == [15, 15]
    assert division(30, claims, 1.0) == [10, 20]
    assert division(30, claims, -1.0) == [15, 15]


@pytest.mark.parametrize("division", DIVISIONS)
def test_history_touches_neither_quota_nor_priority(division: Callable[..., list[int]]) -> None:
    claims = [claim("a", 10, history=1.0), claim("b", priority=-1)]
    assert division(30, claims, 5.0) == [30, 0]


@pytest.mark.parametrize("division", DIVISIONS)
def test_who_has_used_too_much_waits_for_what_others_leave(
    division: Callable[..., list[int]],
) -> None:
    """Its portion is 0 while the other wants more, and all once it does not."""
    claims = [claim("a", history=1.0), claim("b")]
    assert division(30, claims, 1.0) == [0, 30]
    claims[1] = replace(claims[1], request=12)
    assert division(30, claims, 1.0) == [18, 12]


@pytest.mark.parametrize("division", DIVISIONS)
def test_if_all_have_used_too_much_nobody_gets_surplus(
    division: Callable[..., list[int]],
) -> None:
    claims = [claim("a", 1, history=2.0), claim("b", history=2.0)]
    assert division(30, claims, 1.0) == [1, 0]


@pytest.mark.parametrize(
    ("limit", "quota", "share", "want"),
    [(NO_BOUND, 4, 2, 4), (NO_BOUND, 2, 4, 4), (3, 4, 8, 3), (9, NO_BOUND, 1, 9)],
)
def test_what_reclaim_protects(limit: int, quota: int, share: int, want: int) -> None:
    assert allocatable_share(limit, quota, share) == want


# -- by the textbook ------------------------------------------------------------------------------


def textbook(total: int, claims: Sequence[Claim], k: float, unit: int) -> list[int]:
    """Divide as the text on KAI says, in fractions of a unit."""
    k_ = Fraction(str(max(k, 0)))
    whole = Fraction(total, unit)
    want = {c.name: Fraction(min(c.limit, c.request), unit) for c in claims}
    have = {
        c.name: min(whole if c.quota >= NO_BOUND else Fraction(c.quota, unit), want[c.name])
        for c in claims
    }
    rest = max(Fraction(0), whole - sum(have.values()))
    by_priority = [
        [c for c in claims if c.priority == priority]
        for priority in sorted({c.priority for c in claims}, reverse=True)
    ]
    fractions: dict[str, Fraction] = {}
    for bucket in by_priority:
        goes_on = rest > 0
        while goes_on:
            goes_on = False
            wanting = [c for c in bucket if want[c.name] > have[c.name]]
            weights = {c.name: Fraction(str(c.weight)) for c in wanting}
            if not sum(weights.values()):
                break
            portion = {}
            for c in wanting:
                w = weights[c.name] / sum(weights.values())
                portion[c.name] = max(Fraction(0), w + k_ * (w - Fraction(c.history)))
            if not sum(portion.values()):
                break
            amount = rest
            for c in (c for c in wanting if c.weight > 0):
                offer = amount * portion[c.name] / sum(portion.values())
                missing = want[c.name] - have[c.name]
                grant = missing if missing <= offer else Fraction(floor(offer))
                have[c.name] += grant
                rest -= grant
                goes_on = goes_on or missing < offer
                if missing <= offer:
                    fractions.pop(c.name, None)
                elif offer > grant:
                    fractions[c.name] = offer - grant
            goes_on = goes_on and rest > 0
    for bucket in by_priority:
        line = [c for c in bucket if c.name in fractions]
        for c in sorted(line, key=lambda c: (-fractions[c.name], c.created_at, c.name)):
            grant = min(Fraction(1), rest)
            have[c.name] += grant
            rest -= grant
    return [int(have[c.name] * unit) for c in claims]


def height(vessels: Sequence[tuple[int, Fraction]], amount: int) -> Fraction:
    """Return how high water stands in joined vessels of (volume, width) that can hold it."""
    for rim in sorted(volume / width for volume, width in vessels):
        if sum(min(Fraction(volume), rim * width) for volume, width in vessels) >= amount:
            full = sum(volume for volume, width in vessels if volume < rim * width)
            rest = [width for volume, width in vessels if volume >= rim * width]
            return (amount - full) / sum(rest, Fraction(0))
    raise AssertionError("it runs over")


def water(total: int, claims: Sequence[Claim], unit: int) -> list[int]:
    """Divide without history, for wants in whole units: one water level per priority, rounded."""
    have = covered(total, claims)
    for priority in sorted({c.priority for c in claims}, reverse=True):
        rest = total - sum(have)
        wants = {
            i: (min(c.limit, c.request) - have[i], Fraction(str(c.weight)))
            for i, c in enumerate(claims)
            if c.priority == priority and c.weight > 0
        }
        if rest <= 0:
            break
        if sum(want for want, _ in wants.values()) <= rest:
            have = [have[i] + wants.get(i, (0, 0))[0] for i in range(len(claims))]
            continue
        level = height([(want, weight) for want, weight in wants.values() if want], rest)
        exact = {i: min(Fraction(want), level * weight) for i, (want, weight) in wants.items()}
        whole = {i: floor(amount / unit) * unit for i, amount in exact.items()}
        have = [have[i] + whole.get(i, 0) for i in range(len(claims))]
        line = sorted(
            (i for i in exact if exact[i] > whole[i]),
            key=lambda i: (whole[i] - exact[i], claims[i].created_at, claims[i].name),
        )
        for i in line:
            have[i] += min(unit, total - sum(have))
    return have


def covered(total: int, claims: Sequence[Claim]) -> list[int]:
    """Return what everyone has by quota alone."""
    return [min(total if c.quota >= NO_BOUND else c.quota, c.limit, c.request) for c in claims]


@st.composite
def claim_lists(draw: st.DrawFn, unit: int = 1) -> list[Claim]:
    """Draw siblings; amounts in multiples of `unit`."""
    amount = st.integers(0, 12).map(lambda n: n * unit)
    quota = st.sampled_from([0, 0, 0, unit, 2 * unit, 5 * unit, NO_BOUND])
    limit = st.just(NO_BOUND) | amount
    names = draw(st.lists(st.sampled_from("abcdefg"), unique=True, max_size=6))
    return [
        Claim(
            name,
            draw(quota),
            draw(limit),
            draw(st.sampled_from([0.0, 0.1, 0.3, 1.0, 1.0, 2.0, 2.5, 7.0])),
            draw(st.integers(0, 1)),
            draw(amount),
            draw(st.sampled_from([0.0, 0.0, 0.125, 0.3, 0.9])),
            draw(st.integers(0, 1)),
        )
        for name in names
    ]


totals = st.integers(0, 40)
ks = st.sampled_from([0.0, 0.0, 0.5, 1.0, 3.3])
units = st.sampled_from([1, 4, 10])


@given(totals, claim_lists(), ks, units)
def test_kai_divides_as_the_textbook(total: int, claims: list[Claim], k: float, unit: int) -> None:
    assert divide(total, claims, k, unit) == textbook(total, claims, k, unit)


@given(totals, st.data(), units)
def test_default_divides_as_water_would(total: int, data: st.DataObject, unit: int) -> None:
    claims = data.draw(claim_lists(unit))
    assert apportion(total * unit, claims, 0.0, unit) == water(total * unit, claims, unit)


# -- what must always hold ------------------------------------------------------------------------


@pytest.mark.parametrize("division", DIVISIONS)
@given(total=totals, claims=claim_lists(), k=ks, unit=units)
def test_no_more_is_given_than_there_is(
    division: Callable[..., list[int]], total: int, claims: list[Claim], k: float, unit: int
) -> None:
    """Unless quotas alone exceed it: then quotas, and nothing else."""
    by_quota = covered(total, claims)
    given_ = division(total, claims, k, unit)
    assert sum(given_) <= max(total, sum(by_quota))
    assert all(share >= quota for share, quota in zip(given_, by_quota, strict=True))
    if sum(by_quota) >= total:
        assert given_ == by_quota


@pytest.mark.parametrize("division", DIVISIONS)
@given(total=totals, claims=claim_lists(), k=ks, unit=units)
def test_nobody_gets_more_than_it_can_use(
    division: Callable[..., list[int]], total: int, claims: list[Claim], k: float, unit: int
) -> None:
    """Under `kai` a remainder may go beyond it, by less than a unit."""
    slack = unit - 1 if division is divide else 0
    for share, c in zip(division(total, claims, k, unit), claims, strict=True):
        assert share <= min(c.limit, c.request) + slack


@given(totals, claim_lists(), units)
def test_default_leaves_nothing_over_that_somebody_may_have(
    total: int, claims: list[Claim], unit: int
) -> None:
    given_ = apportion(total, claims, 0.0, unit)
    if sum(given_) < total:
        for share, c in zip(given_, claims, strict=True):
            assert share == min(c.limit, c.request) or (c.weight == 0 and share <= c.quota)


@given(totals, claim_lists(), units)
def test_default_gives_a_lower_priority_what_a_higher_leaves(
    total: int, claims: list[Claim], unit: int
) -> None:
    given_ = apportion(total, claims, 0.0, unit)
    for high, share in zip(claims, given_, strict=True):
        if high.weight > 0 and share < min(high.limit, high.request):
            assert all(
                other == min(low.quota if low.quota < NO_BOUND else total, low.limit, low.request)
                for low, other in zip(claims, given_, strict=True)
                if low.priority < high.priority
            )


@pytest.mark.parametrize("division", DIVISIONS)
@given(total=totals, data=st.data(), k=ks, unit=units)
def test_the_order_of_the_claims_does_not_matter(
    division: Callable[..., list[int]], total: int, data: st.DataObject, k: float, unit: int
) -> None:
    claims = data.draw(claim_lists())
    other = data.draw(st.permutations(claims))
    assert dict(zip(claims, division(total, claims, k, unit), strict=True)) == dict(
        zip(other, division(total, other, k, unit), strict=True)
    )


@given(totals, st.data(), units, st.sampled_from([0.1, 1.0, 2.0, 20.0]))
def test_more_weight_is_never_less_share(
    total: int, data: st.DataObject, unit: int, more: float
) -> None:
    claims = data.draw(claim_lists(unit))
    assume(claims)
    heavier = [replace(claims[0], weight=claims[0].weight + more), *claims[1:]]
    before = apportion(total * unit, claims, 0.0, unit)[0]
    assert apportion(total * unit, heavier, 0.0, unit)[0] >= before


@given(totals, claim_lists(), units)
def test_two_that_could_use_more_differ_by_weight_alone(
    total: int, claims: list[Claim], unit: int
) -> None:
    """Their surplus is in proportion to their weights, up to one unit each."""
    given_ = apportion(total, claims, 0.0, unit)
    rows = zip(claims, given_, covered(total, claims), strict=True)
    hungry = [
        (c.priority, Fraction(str(c.weight)), share - quota)
        for c, share, quota in rows
        if c.weight > 0 and share < min(c.limit, c.request)
    ]
    for priority, weight, surplus in hungry:
        for other, heft, more in hungry:
            if priority == other:
                assert abs(surplus * heft - more * weight) <= unit * (weight + heft)


# -- trees ----------------------------------------------------------------------------------------

COMPANY = tree_of(
    queue("lab", quota=4),
    queue("shop", quota=4, weight=3),
    queue("vision", "lab", quota=1),
    queue("speech", "lab", quota=1),
)


def test_every_level_divides_the_share_of_its_parent() -> None:
    """Surplus of 8: 2 for lab, 6 for shop; then lab's 6, of which 4 are surplus, by two."""
    asked = add_up(COMPANY, [[0], [20], [20], [20]])
    assert asked == [[40], [20], [20], [20]]
    assert shares(COMPANY, [16], asked) == [[6], [10], [3], [3]]
    assert default_shares(COMPANY, [16], asked) == [[6], [10], [3], [3]]


def test_columns_of_the_books_may_be_handed_in() -> None:
    """Products of large amounts do not overflow."""
    own: Any = np.array([[0], [1], [1], [0]]) * 10**12
    has: Any = np.array([10**12])
    rows = shares(COMPANY, has, add_up(COMPANY, own))
    assert rows == [[250_000_000_002], [749_999_999_998], [250_000_000_002], [0]]


def test_history_counts_at_its_own_level() -> None:
    asked = add_up(COMPANY, [[0], [20], [20], [20]])
    history = [[0.5], [0.5], [0.5], [0.0]]
    assert shares(COMPANY, [16], asked, history, 1.0) == [[4], [12], [2], [2]]
    history = [[0.25], [0.75], [0.5], [0.0]]
    assert shares(COMPANY, [16], asked, history, 1.0) == [[6], [10], [2], [4]]


def test_pairs_are_divided_apart() -> None:
    """What one asks of one flavor changes nothing in another."""
    tree = tree_of(Queue("a"), Queue("b"), pairs=[H100, A10, CPU])
    assert shares(tree, [5000, 8000, 5], [[9000, 9000, 9], [9000, 0, 9]]) == [
        [3000, 8000, 3],
        [2000, 0, 2],
    ]


def test_a_queue_that_is_no_more_has_no_claim_on_surplus() -> None:
    tree = QueueTree(["gone", "here"], [queue("here")], [CPU])
    assert shares(tree, [8], [[8], [8]]) == [[0], [8]]
    assert default_shares(tree, [8], [[8], [8]]) == [[0], [8]]
    stick = Yardstick(tree, [[0], [8]], [8.0])
    assert stick.standing(0, [2, 0], [(0, 1)]) == (LAST, 0.25)


def test_effective_quota_is_the_larger_of_its_own_and_of_those_below() -> None:
    tree = tree_of(
        queue("top", quota=3),
        queue("mid", "top", quota=1),
        queue("x", "mid", quota=2),
        queue("y", "mid", quota=2),
        queue("z", "top", quota=NO_BOUND - 1),
        queue("rich", quota=9),
        queue("poor", "rich", quota=None),
    )
    rows = effective_quota(tree)
    assert [row[0] for row in rows[1:4]] == [4, 2, 2]
    assert (rows[0], rows[5]) == ([NO_BOUND], [NO_BOUND])


def test_effective_share_covers_the_children() -> None:
    """The children's quotas exceed what the parent was given: it counts as having them."""
    tree = tree_of(queue("top"), queue("x", "top", 6), queue("y", "top", 6), queue("other", "", 4))
    asked = add_up(tree, [[0], [6], [6], [4]])
    assert shares(tree, [8], asked) == [[4], [6], [6], [4]]
    assert default_shares(tree, [8], asked) == [[12], [6], [6], [4]]


def test_default_minds_what_may_be_borrowed_and_lent() -> None:
    """a keeps 4 of its 6 idle for itself; b takes at most 1 more than its own."""
    tree = tree_of(queue("a", quota=8, lending_limit=2), queue("b", quota=1, borrowing_limit=1))
    assert default_shares(tree, [10], [[2], [9]]) == [[2], [2]]
    tree = tree_of(queue("a", quota=8, lending_limit=2), queue("b", quota=1))
    assert default_shares(tree, [10], [[2], [9]]) == [[2], [4]]
    tree = tree_of(queue("a", quota=8), queue("b", quota=1))
    assert default_shares(tree, [10], [[2], [9]]) == [[2], [8]]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[QueueTree, list[int], list[list[int]], list[list[float]]]:
    """Draw a tree, what there is, what is asked, and what was used."""
    count = draw(st.integers(1, 7))
    amount = st.integers(0, 8)
    queues = [
        Queue(
            f"q{i}",
            f"q{draw(st.integers(0, i - 1))}" if i and draw(st.booleans()) else "",
            tuple(
                Quota(
                    resource,
                    flavor,
                    draw(amount | st.none()),
                    draw(amount | st.none()),
                    draw(st.sampled_from([None, 0.0, 1.0, 2.0, 0.3])),
                )
                for flavor, resource in (CPU, H100)
            ),
            priority=draw(st.integers(0, 1)),
            created_at=draw(st.integers(0, 1)),
        )
        for i in draw(st.permutations(range(count)))
    ]
    tree = tree_of(*queues, pairs=[CPU, H100])
    own = [[draw(amount), 500 * draw(amount)] for _ in range(count)]
    used = [[draw(st.sampled_from([0.0, 0.25, 0.7])) for _ in range(2)] for _ in range(count)]
    return tree, [draw(totals), 500 * draw(totals)], add_up(tree, own), used


@given(worlds(), ks)
def test_kai_divides_a_tree_as_the_textbook(
    world: tuple[QueueTree, list[int], list[list[int]], list[list[float]]], k: float
) -> None:
    tree, capacity, asked, history = world
    rows = shares(tree, capacity, asked, history, k)

    def check(siblings: list[Queue], total: int, pair: int) -> None:
        claims = []
        for each in siblings:
            i, said = tree.names.index(each.name), each.quotas[pair]
            claims.append(
                Claim(
                    each.name,
                    NO_BOUND if said.quota is None else said.quota,
                    NO_BOUND if said.limit is None else said.limit,
                    each.weight if said.weight is None else said.weight,
                    each.priority,
                    asked[i][pair],
                    history[i][pair],
                    each.created_at,
                )
            )
        wanted = textbook(total, claims, k, [1, 1000][pair])
        for each, share in zip(siblings, wanted, strict=True):
            assert rows[tree.names.index(each.name)][pair] == share
            check([q for q in tree.queues if q.parent == each.name], share, pair)

    for pair, total in enumerate(capacity):
        check([q for q in tree.queues if not q.parent], total, pair)


@given(worlds(), ks)
def test_default_shares_of_a_tree(
    world: tuple[QueueTree, list[int], list[list[int]], list[list[float]]], k: float
) -> None:
    """Parents have at least what their children have; covered demand is always in share."""
    tree, capacity, asked, history = world
    rows = default_shares(tree, capacity, asked, history, k)
    quota = effective_quota(tree)
    for i, children in enumerate(tree.children):
        for pair in range(2):
            assert rows[i][pair] >= sum(rows[child][pair] for child in children)
            if not children and tree.limit[i][pair] == NO_BOUND and quota[i][pair] < NO_BOUND:
                assert rows[i][pair] >= min(quota[i][pair], asked[i][pair])
            if not children:
                assert rows[i][pair] <= min(tree.limit[i][pair], asked[i][pair])


# -- how far beyond -------------------------------------------------------------------------------

FLEET = tree_of(
    Queue("team", quotas=(Quota("gpu", "h100", 8000), Quota("gpu", "a10", 0))),
    Queue("other", quotas=(Quota("gpu", "h100", 0), Quota("gpu", "a10", 16000)), weight=2.0),
    Queue("guest", quotas=(Quota("gpu", "h100", 0, weight=0.0), Quota("gpu", "a10", 0))),
    pairs=[H100, A10],
)
FLEET_HAS = [8000, 40000]


def fleet(*asked: list[int]) -> Yardstick:
    """Return the yardstick for what the three ask of (H100, A10)."""
    return Yardstick(FLEET, default_shares(FLEET, FLEET_HAS, asked), norms(FLEET, FLEET_HAS))


def test_borrowed_a10s_do_not_cost_a_team_its_h100s() -> None:
    """Covered stays covered whatever else is borrowed; adding flavors up, as Kueue does, not."""
    stick = fleet([8000, 24000], [8000, 16000], [0, 0])
    item = [(0, 8000)]
    assert stick.standing(0, [0, 0], item) == COVERED
    assert stick.standing(0, [0, 24000], item) == COVERED
    assert stick.standing(0, [0, 20000], [(1, 1000)]) == IN_SHARE
    assert stick.standing(0, [0, 24000], [(1, 1000)]) == (BEYOND, 0.6)
    assert stick.standing(1, [0, 16000], item) == (BEYOND, 0.0)
    busy = dominant_share(FLEET.pairs, [-8000, 24000], FLEET_HAS, 1.0)
    idle = dominant_share(FLEET.pairs, [8000, -24000], FLEET_HAS, 1.0)
    assert busy == DominantShare(False, 500.0)
    assert busy > idle


def test_a_gang_of_several_pairs_is_what_its_worst_pair_is() -> None:
    stick = fleet([8000, 24000], [0, 16000], [0, 0])
    assert stick.standing(0, [0, 0], [(0, 1000), (1, 1000)]) == IN_SHARE
    assert stick.standing(0, [8000, 0], [(0, 1000), (1, 1000)]) == (BEYOND, 0.0)


def test_the_level_is_measured_before_the_item_by_weight_and_capacity() -> None:
    stick = fleet([0, 0], [8000, 40000], [0, 0])
    assert stick.standing(1, [8000, 40000], [(0, 1000)]) == (BEYOND, 0.5)
    assert stick.level(1, [8000, 0]) == (BEYOND, 0.5)
    assert stick.level(1, [4000, 40000]) == (BEYOND, 0.3)
    assert stick.level(1, [4000, 40000], [0]) == (BEYOND, 0.25)
    assert stick.level(1, [0, 16000]) == (BEYOND, 0.0)


def test_without_weight_it_stands_behind_everyone() -> None:
    stick = fleet([8000, 0], [8000, 0], [8000, 0])
    assert stick.standing(2, [0, 0], [(0, 1000)]) == (LAST, 0.0)
    assert stick.standing(2, [2000, 0], [(0, 1000)]) == (LAST, 0.25)
    assert stick.standing(2, [4000, 0], [(1, 1000)]) == (BEYOND, 0.0)
    assert stick.standing(1, [8000, 0], [(0, 1000)]) < stick.standing(2, [0, 0], [(0, 1000)])


def test_quota_counts_as_share_even_if_nobody_asked_when_shares_were_counted() -> None:
    stick = fleet([0, 0], [0, 0], [0, 0])
    assert stick.standing(0, [8000, 0], [(0, 1000)]) == (BEYOND, 0.0)
    assert stick.standing(0, [7000, 0], [(0, 1000)]) == COVERED
    stick = fleet([0, 24000], [0, 0], [0, 0])
    assert stick.standing(0, [7000, 0], [(0, 1000), (1, 1000)]) == IN_SHARE


def test_where_there_is_no_capacity_any_excess_is_endless() -> None:
    stick = Yardstick(FLEET, [[0, 0]] * 3, norms(FLEET, [0, 0]))
    assert stick.level(1, [1000, 0]) == (BEYOND, inf)


def test_prices_make_flavors_comparable() -> None:
    """8 H100 of 10 and 40 A10 of 1 are worth 120: an H100 is a twelfth, an A10 a 120th.

    Only devices have a price.
    """
    tree = tree_of(Queue("a"), pairs=[H100, A10, GPUS, CPU, ("h100", "cpu"), ("a10", "cpu")])
    have = [8000, 40000, 48000, 640, 320, 80]
    assert norms(tree, have, {"h100": 10.0}) == [12000.0, 120_000.0, 48000.0, 640.0, 400.0, 400.0]
    assert norms(tree, have) == have


# -- the dominant share ---------------------------------------------------------------------------

TRIO = [H100, A10, CPU]


@pytest.mark.parametrize(
    ("over", "lendable", "weight", "want"),
    [
        ([0, -5, 0], [10, 10, 10], 1.0, DominantShare()),
        ([5, 0, 0], None, 1.0, DominantShare()),
        ([4, 4, 1], [10, 30, 10], 1.0, DominantShare(False, 200.0, "gpu", (0, 1, 2))),
        ([4, 4, 1], [10, 30, 10], 0.5, DominantShare(False, 400.0, "gpu", (0, 1, 2))),
        ([4, -4, 3], [10, 30, 10], 1.0, DominantShare(False, 300.0, "cpu", (0, 2))),
        ([4, 0, 2], [10, 10, 10], 1.0, DominantShare(False, 200.0, "cpu", (0, 2))),
        ([4, 4, 0], [10, 30, 10], 0.0, DominantShare(True, 200.0, "gpu", (0, 1))),
        ([0, 0, 2], [10, 10, 0], 1.0, DominantShare(False, 0.0, "", (2,))),
        ([0, 0, 2], [10, 10, 0], 0.0, DominantShare(True, 0.0, "", (2,))),
        ([-1, 0, 0], [10, 10, 10], 0.0, DominantShare()),
    ],
    ids=[
        "not borrowing",
        "no parent",
        "flavors of a resource are added",
        "by weight",
        "the worst resource decides",
        "equal: the first by name",
        "no weight",
        "nothing can be lent: 0, but it borrows",
        "the same without weight",
        "no weight, not borrowing",
    ],
)
def test_dominant_share(
    over: list[int], lendable: list[int] | None, weight: float, want: DominantShare
) -> None:
    share = dominant_share(TRIO, over, lendable, weight)
    assert share == want
    assert (share.resource, share.borrows) == (want.resource, want.borrows)


def test_who_borrows_without_weight_is_behind_all_and_among_themselves_by_ratio() -> None:
    have = [10, 10, 10]
    greedy = dominant_share(TRIO, [20, 0, 0], have, 1e-6)
    barred = dominant_share(TRIO, [1, 0, 0], have, 0.0)
    worse = dominant_share(TRIO, [2, 0, 0], have, 0.0)
    assert DominantShare() < greedy < barred < worse


def test_equal_shares_are_equal_whatever_the_resource() -> None:
    assert dominant_share(TRIO, [0, 0, 2], [9, 9, 4], 1.0) == dominant_share(
        TRIO, [9, 0, 0], [9, 9, 4], 1.0
    )
