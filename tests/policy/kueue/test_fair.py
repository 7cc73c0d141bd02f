"""Fair sharing: who goes first, and who must leave, by dominant shares.

In `NINE` every queue has 3 of 9: each core above that is a ninth, 111 thousandths.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.policy.kueue.cases import Case

BOTH = "final-share+initial-share"
FINAL = "final-share"
INITIAL = "initial-share"


def nine(**weights: float) -> str:
    rows = [
        f"{q} < co cpu=3 reclaim=any within=lower-priority weight={weights.get(q, 1)}"
        for q in "abc"
    ]
    return "\n".join(["co", *rows])


def some(queue: str, count: int, cpu: int = 1, since: int = 0) -> str:
    """Return running workloads of a queue: `b1`, `b2` …, each let in after the one before."""
    return "\n".join(f"{queue}{i} {queue} cpu={cpu} since={since + i}" for i in range(1, count + 1))


def rows(*parts: str) -> str:
    return "\n".join(parts)


CASES = {
    # name: (queues, running, waiting, strategies, evicts)
    "quota is taken back from the largest share": (
        nine(),
        rows(some("a", 3), some("b", 5), some("c", 1)),
        "w c cpu=1",
        BOTH,
        "b5:quota",
    ),
    "even if it would not be so by shares": (
        # c takes its last core of quota; b would be at its quota then
        nine(),
        rows(some("a", 3), some("b", 4), some("c", 2)),
        "w c cpu=1",
        BOTH,
        "b4:quota",
    ),
    "a queue within its quota is left alone": (
        nine(),
        rows(some("a", 3), some("b", 3), some("c", 3)),
        "w c cpu=1 prio=9",
        BOTH,
        "c3:preempt",
    ),
    "above quota: the share after must not be smaller": (
        # c would have 1/9, b keeps 2/9
        nine(),
        rows(some("b", 6), some("c", 3)),
        "w c cpu=1",
        FINAL,
        "b6:fair-share",
    ),
    "equal will do": (
        # c would have 1/9, b keeps 1/9
        nine(),
        rows(some("a", 1), some("b", 5), some("c", 3)),
        "w c cpu=1",
        FINAL,
        "b5:fair-share",
    ),
    "smaller will not": (
        # c would have 1/9, b would have nothing above its quota
        nine(),
        rows(some("a", 2), some("b", 4), some("c", 3)),
        "w c cpu=1",
        BOTH,
        "",
    ),
    "a large victim is too much for the first strategy": (
        # b has 3/9 and would have none
        nine(),
        rows(some("b", 1, cpu=6), some("c", 3)),
        "w c cpu=1",
        FINAL,
        "",
    ),
    "the second looks at the share before": (
        nine(),
        rows(some("b", 1, cpu=6), some("c", 3)),
        "w c cpu=1",
        BOTH,
        "b1:fair-share",
    ),
    "the second alone": (
        nine(),
        rows(some("b", 1, cpu=6), some("c", 3)),
        "w c cpu=1",
        INITIAL,
        "b1:fair-share",
    ),
    "the second needs a smaller share than before": (
        # both 3/9
        nine(),
        rows(some("b", 1, cpu=6), some("c", 3)),
        "w c cpu=3",
        BOTH,
        "",
    ),
    "a heavier queue may have more": (
        # b: 3/9 / 4, c with w: 1/9
        nine(b=4),
        rows(some("b", 6), some("c", 3)),
        "w c cpu=1",
        BOTH,
        "",
    ),
    "up to its weight": (
        # b keeps 2/9 / 2 = 1/9, c with w: 1/9
        nine(b=2),
        rows(some("b", 6), some("c", 3)),
        "w c cpu=1",
        FINAL,
        "b6:fair-share",
    ),
    "a heavier queue may take more": (
        # c with w: 1/9 / 4; b would have none left, but has 3/9
        nine(c=4),
        rows(some("b", 2, cpu=3), some("c", 3)),
        "w c cpu=1",
        BOTH,
        "b2:fair-share",
    ),
    "without weight a queue takes nothing above its quota": (
        nine(c=0),
        rows(some("b", 6), some("c", 3)),
        "w c cpu=1",
        BOTH,
        "",
    ),
    "but what is its own": (
        nine(c=0),
        rows(some("b", 7), some("c", 2)),
        "w c cpu=1",
        BOTH,
        "b7:quota",
    ),
    "without weight a queue loses all above its quota": (
        nine(b=0),
        rows(some("a", 5), some("b", 4)),
        "w c cpu=1",
        BOTH,
        "b4:quota",
    ),
    "two without weight are compared by what they borrow": (
        nine(b=0, c=0),
        rows(some("b", 6), some("c", 3)),
        "w c cpu=1",
        FINAL,
        "b6:fair-share",
    ),
    "always the queue that is ahead": (
        # b 2/9, a 1/9; then both 1/9: the newest first (a4); then b again
        nine(),
        rows(some("a", 4, since=50), some("b", 5)),
        "w c cpu=3",
        BOTH,
        "a4:quota b4:quota b5:quota",
    ),
    "the lowest priority inside the queue that is ahead": (
        nine(),
        "b1 b cpu=3 prio=1\nb2 b cpu=1\nb3 b cpu=5 prio=2",
        "w c cpu=1",
        BOTH,
        "b2:quota",
    ),
    "lower priority of its own, if its share is the largest": (
        # c with w: 5 - 3 = 2/9; b: 1/9
        nine(),
        rows(some("b", 4), "c1 c cpu=4 prio=-1", "a1 a cpu=1"),
        "w c cpu=1",
        BOTH,
        "c1:preempt",
    ),
    "nobody is asked without the right to": (
        nine().replace("reclaim=any", "reclaim=never"),
        rows(some("b", 6), some("c", 3)),
        "w c cpu=1",
        BOTH,
        "",
    ),
    "only lower priority where that is the right": (
        nine().replace("reclaim=any", "reclaim=lower-priority"),
        "b1 b cpu=3 prio=5\nb2 b cpu=3 since=9\nb3 b cpu=3 prio=5 since=99",
        "w c cpu=1 prio=1",
        BOTH,
        "b2:quota",
    ),
    "who is not needed comes back": (
        # entitled: b4 (1), then b3 (3) will do for 3: b4 comes back
        "co\nb < co cpu=0 reclaim=any\nc < co cpu=4 reclaim=any",
        "b3 b cpu=3 since=1\nb4 b cpu=1 since=2",
        "w c cpu=3",
        BOTH,
        "b3:quota",
    ),
    # -- trees
    "branches are compared where they part": (
        # right with w: 3/6; left 4/6, without one of a 3/6
        """
        root cpu=6
        left < root
        right < root
        a < left cpu=0 reclaim=any
        c < right cpu=0 reclaim=any
        """,
        rows(some("a", 4), some("c", 2)),
        "w c cpu=1",
        FINAL,
        "a4:fair-share",
    ),
    "and not the queues themselves": (
        # a 2/6 and b 2/6 make left 4/6; right with w 3/6
        """
        root cpu=6
        left < root
        right < root
        a < left cpu=0 reclaim=any
        b < left cpu=0 reclaim=any
        c < right cpu=0 reclaim=any
        """,
        rows(some("a", 2, since=10), some("b", 2), some("c", 2)),
        "w c cpu=1",
        FINAL,
        "a2:fair-share",
    ),
    "inside a branch its queues are compared": (
        # with w: left 5/6, in it a 4/6 and b 1/6
        """
        root cpu=6
        left < root
        right < root
        a < left cpu=0 reclaim=any
        b < left cpu=0 reclaim=any
        c < right cpu=0 reclaim=any
        """,
        rows(some("a", 4), some("c", 2, since=20)),
        "w b cpu=1",
        FINAL,
        "a4:fair-share",
    ),
    "the weight of a branch counts": (
        # left 4/6 / 2 = 2/6, right with w 3/6
        """
        root cpu=6
        left < root weight=2
        right < root
        a < left cpu=0 reclaim=any
        c < right cpu=0 reclaim=any
        """,
        rows(some("a", 4), some("c", 2)),
        "w c cpu=1",
        BOTH,
        "",
    ),
}


@pytest.mark.parametrize(
    ("queues", "running", "waiting", "fair", "evicts"), CASES.values(), ids=CASES
)
def test_who_leaves(queues: str, running: str, waiting: str, fair: str, evicts: str) -> None:
    case = Case(queues, running, waiting, fair=fair)
    end = case.decide()
    assert (end.starts, end.evicts) == ("", evicts)
    assert ("w" in case.settle().runs.split()) == bool(evicts)


FIRST = {
    # name: (queues, running, waiting, starts)
    "the smaller share goes first, whatever the priority": (
        "co cpu=6\na < co cpu=0\nb < co cpu=0",
        "a0 a cpu=3",
        "a1 a cpu=3 prio=9\nb1 b cpu=3",
        "b1",
    ),
    "of equal shares the higher priority": (
        "co cpu=6\na < co cpu=0\nb < co cpu=0",
        "",
        "a1 a cpu=6 at=1\nb1 b cpu=6 at=2 prio=1",
        "b1",
    ),
    "of equal priority the older": (
        "co cpu=6\na < co cpu=0\nb < co cpu=0",
        "",
        "a1 a cpu=6 at=2\nb1 b cpu=6 at=1",
        "b1",
    ),
    "the smaller request makes the smaller share": (
        "co cpu=6\na < co cpu=0\nb < co cpu=0",
        "",
        "a1 a cpu=6 at=1\nb1 b cpu=4 at=2",
        "b1",
    ),
    "weights count": (
        # a: 6/6 / 3, b: 4/6
        "co cpu=6\na < co cpu=0 weight=3\nb < co cpu=0",
        "",
        "a1 a cpu=6 at=2\nb1 b cpu=4 at=1",
        "a1",
    ),
    "without weight last": (
        "co cpu=6\na < co cpu=0 weight=0\nb < co cpu=0",
        "b0 b cpu=3",
        "a1 a cpu=3 at=1 prio=9\nb1 b cpu=3 at=2",
        "b1",
    ),
    "after every start shares are compared anew": (
        # one cycle starts a1 and b1; then b2 (3/6) would go before a2 (4/6)
        "co cpu=6\na < co cpu=0\nb < co cpu=0",
        "",
        "a1 a cpu=2 at=1\na2 a cpu=3 at=2\nb1 b cpu=1 at=3\nb2 b cpu=3 at=4",
        "a1 b1 b2",
    ),
    "who does not borrow what it asks for goes first, whatever its share": (
        # b has borrowed 9 of x; its y is its own
        "co x/cpu=10 y/cpu=0\na < co y/cpu=0\nb < co x/cpu=0 y/cpu=3",
        "b0 b cpu=9 on=x",
        "a1 a cpu=3 at=1\nb1 b cpu=3 at=2",
        "b1@y",
    ),
    "branches compete as wholes": (
        # right has used nothing: c1 goes before b1 although b has used nothing either
        """
        root cpu=6
        left < root
        right < root
        a < left cpu=0
        b < left cpu=0
        c < right cpu=0
        """,
        "a0 a cpu=3",
        "b1 b cpu=3 at=1 prio=9\nc1 c cpu=3 at=2",
        "c1",
    ),
    "inside a branch the smaller share": (
        """
        root cpu=6
        left < root
        right < root
        a < left cpu=0
        b < left cpu=0
        """,
        "a0 a cpu=3",
        "a1 a cpu=3 at=1 prio=9\nb1 b cpu=3 at=2",
        "b1",
    ),
    "trees of their own do not mind each other": (
        "co cpu=3\nother cpu=3\na < co cpu=0\nb < other cpu=0",
        "",
        "a1 a cpu=3\nb1 b cpu=3",
        "a1 b1",
    ),
    "a queue alone": ("a cpu=3", "", "a1 a cpu=2", "a1"),
}


@pytest.mark.parametrize(("queues", "running", "waiting", "starts"), FIRST.values(), ids=FIRST)
def test_who_goes_first(queues: str, running: str, waiting: str, starts: str) -> None:
    case = Case(queues, running, waiting, fair=BOTH)
    assert case.decide().starts == starts
    assert case.settle().evicts == ""


def test_flavors_of_a_resource_are_added_together() -> None:
    """Borrowed A10s make a share as large as borrowed H100s do."""
    case = Case(
        "co x/gpu=4 y/gpu=4\na < co x/gpu=0 y/gpu=0\nb < co x/gpu=0 y/gpu=0",
        "a0 a gpu=4 on=x",
        "a1 a gpu=4 at=1 prio=9\nb1 b gpu=4 at=2",
        fair=BOTH,
    )
    assert case.decide().starts == "b1@y"


def test_without_strategies_shares_do_not_count() -> None:
    case = Case(*FIRST["the smaller share goes first, whatever the priority"][:3], fair=BOTH)
    assert case.decide().starts == "b1"
    assert replace(case, fair="").decide().starts == "a1"


def test_victims_count_in_the_order_until_they_are_gone() -> None:
    # m1 takes its quota back from x0. Until x0 is gone l is far above its quota, and k1 is next
    # although it finds nobody: what is kept for it is not there for l1, which asks one of its own.
    queues = """
        root cpu=3
        left < root cpu=0+5 weight=2
        l < left cpu=6^0 weight=2 within=lower-or-newer
        k < left cpu=0 reclaim=lower-priority
        right < root weight=0
        m < right cpu=8 reclaim=lower-priority
    """
    running = """
        m0 m cpu=6 at=0 prio=1
        l0 l cpu=1 at=1 prio=1
        l2 l cpu=5 at=2 prio=1
        x0 l cpu=5 at=3 prio=-1
    """
    waiting = "l1 l cpu=4 at=5 prio=2\nk1 k cpu=4 at=22 prio=2\nm1 m cpu=1 at=20 prio=1"
    end = Case(queues, running, waiting, fair="initial-share").decide()
    assert end.evicts == "l2:preempt x0:quota"
