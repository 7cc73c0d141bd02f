"""Who must leave without fair sharing: inside a queue, inside a cohort, in trees of cohorts."""

from __future__ import annotations

import pytest

from mooring.model.plan import Leaving
from tests.policy.kueue.cases import Case

LOWER = "a cpu=6 within=lower-priority"
PAIR = """
    co
    a < co cpu=6 reclaim=any within=lower-priority
    b < co cpu=4
"""
THREE = """
    co
    a < co cpu=4 reclaim=any
    b < co cpu=4
    c < co cpu=4
"""

CASES = {
    # name: (queues, running, waiting, evicts at once, runs in the end)
    # -- inside a queue
    "never by default": ("a cpu=2", "r a cpu=2", "w a cpu=2 prio=9", "", "r"),
    "the lowest priority first": (
        LOWER,
        "low a cpu=2 prio=-1\nmid a cpu=2\nhigh a cpu=2 prio=1",
        "w a cpu=1 prio=1",
        "low:preempt",
        "high mid w",
    ),
    "as many as it takes": (
        LOWER,
        "low a cpu=2 prio=-1\nmid a cpu=2\nhigh a cpu=2 prio=1",
        "w a cpu=3 prio=1",
        "low:preempt mid:preempt",
        "high w",
    ),
    "nobody where all would not do": (
        LOWER,
        "low a cpu=2 prio=-1\nhigh a cpu=4 prio=1",
        "w a cpu=3 prio=1",
        "",
        "high low",
    ),
    "equal priority is not lower": (LOWER, "r a cpu=6", "w a cpu=6", "", "r"),
    "of equal priority the newer, where that is allowed": (
        "a cpu=6 within=lower-or-newer",
        "r a cpu=6 at=5",
        "w a cpu=6 at=1",
        "r:preempt",
        "w",
    ),
    "but not the older": (
        "a cpu=6 within=lower-or-newer",
        "r a cpu=6 at=1",
        "w a cpu=6 at=5",
        "",
        "r",
    ),
    "nor one of the same age": (
        "a cpu=6 within=lower-or-newer",
        "r a cpu=6 at=1",
        "w a cpu=6 at=1",
        "",
        "r",
    ),
    "lower priority leaves however old": (
        "a cpu=6 within=lower-or-newer",
        "r a cpu=6 at=1",
        "w a cpu=6 at=5 prio=1",
        "r:preempt",
        "w",
    ),
    "who was let in last leaves first": (
        "a cpu=4 within=lower-priority",
        "r1 a cpu=2 since=1\nr2 a cpu=2 since=2",
        "w a cpu=2 prio=1",
        "r2:preempt",
        "r1 w",
    ),
    "who is not needed after all comes back": (
        "a cpu=4 within=lower-priority",
        "small a cpu=1 since=9\nbig a cpu=3 since=1",
        "w a cpu=3 prio=1",
        "big:preempt",
        "small w",
    ),
    "the last one taken never comes back": (
        "a cpu=4 within=lower-priority",
        "x a cpu=1 since=3\ny a cpu=1 since=2\nz a cpu=2 since=1",
        "w a cpu=2 prio=1",
        "x:preempt y:preempt",
        "w z",
    ),
    "work that may not be asked stays": (
        "a cpu=4 within=lower-priority",
        "r a cpu=4 fixed",
        "w a cpu=4 prio=9",
        "",
        "r",
    ),
    "only those who use what is short": (
        "a cpu=9 gpu=2 within=lower-priority",
        "r1 a cpu=2\nr2 a gpu=2 prio=1",
        "w a gpu=2 prio=2",
        "r2:preempt",
        "r1 w",
    ),
    "those who use any of what is short": (
        "a cpu=4 gpu=2 within=lower-priority",
        "r1 a cpu=4\nr2 a gpu=2",
        "w a cpu=4 gpu=2 prio=1",
        "r1:preempt r2:preempt",
        "w",
    ),
    "work of other local queues of the same queue": (
        "a cpu=4 within=lower-priority\nx << a\ny << a",
        "x0 x cpu=4",
        "y1 y cpu=4 prio=1",
        "x0:preempt",
        "y1",
    ),
    "a queue alone does not reclaim": (
        "a cpu=4 reclaim=any\nb cpu=4",
        "b0 b cpu=4",
        "w a cpu=5 prio=9",
        "",
        "b0",
    ),
    # -- inside a cohort
    "what was lent is taken back": (
        "co\na < co cpu=4 reclaim=any\nb < co cpu=0",
        "b0 b cpu=4 prio=9",
        "w a cpu=2",
        "b0:quota",
        "w",
    ),
    "not without the right to": (
        "co\na < co cpu=4\nb < co cpu=0",
        "b0 b cpu=4",
        "w a cpu=2 prio=9",
        "",
        "b0",
    ),
    "who borrows leaves, the newest first": (
        PAIR,
        "b1 b cpu=4 since=1\nb2 b cpu=4 since=2",
        "w a cpu=4",
        "b2:quota",
        "b1 w",
    ),
    "as long as its queue borrows": (
        PAIR,
        "b1 b cpu=3 since=1\nb2 b cpu=3 since=2\nb3 b cpu=2 since=3",
        "w a cpu=6",
        "b2:quota b3:quota",
        "b1 w",
    ),
    "a queue within its quota is left alone": (
        PAIR,
        "a0 a cpu=6 prio=9\nb0 b cpu=4",
        "w a cpu=2 prio=1",
        "",
        "a0 b0",
    ),
    "only lower priority, where it is said so": (
        "co\na < co cpu=6 reclaim=lower-priority\nb < co cpu=4",
        "b1 b cpu=4 since=1\nb2 b cpu=4 since=2 prio=5",
        "w a cpu=4 prio=1",
        "b1:quota",
        "b2 w",
    ),
    "others before its own": (
        PAIR,
        "a0 a cpu=2 prio=-1\nb0 b cpu=8",
        "w a cpu=4",
        "b0:quota",
        "a0 w",
    ),
    "its own where it would borrow otherwise": (
        PAIR,
        "a0 a cpu=4\nb0 b cpu=6",
        "w a cpu=4 prio=1",
        "a0:preempt",
        "b0 w",
    ),
    "the lowest priority of all others": (
        THREE,
        "b0 b cpu=6 prio=1 since=9\nc0 c cpu=6 since=1",
        "w a cpu=4",
        "c0:quota",
        "b0 w",
    ),
    "from several queues": (
        THREE,
        """
        a0 a cpu=2
        b1 b cpu=4 since=1
        c1 c cpu=4 since=2
        b2 b cpu=1 since=3
        c2 c cpu=1 since=4
        """,
        "w a cpu=2",
        "b2:quota c2:quota",
        "a0 b1 c1 w",
    ),
    "a queue that no longer borrows is passed over": (
        # b2 brings b to its quota; b1 would be newer than c1, but may stay
        THREE,
        "b1 b cpu=4 since=8\nb2 b cpu=1 since=9\nc1 c cpu=7 since=1",
        "w a cpu=4",
        "c1:quota",
        "b1 b2 w",
    ),
    "its own, to borrow then": (
        "co\na < co cpu=4 within=lower-priority\nb < co cpu=4",
        "a0 a cpu=6\nb0 b cpu=2",
        "w a cpu=4 prio=1",
        "a0:preempt",
        "b0 w",
    ),
    "no eviction to borrow more than quota": (
        "co\na < co cpu=4 reclaim=any within=lower-priority\nb < co cpu=4",
        "b0 b cpu=8",
        "w a cpu=6 prio=9",
        "",
        "b0",
    ),
    "work of a queue on hold is left alone": (
        "co\na < co cpu=4 reclaim=any\nb < co cpu=0 stop=hold",
        "b0 b cpu=4",
        "w a cpu=2",
        "",
        "b0",
    ),
    # -- while borrowing
    "eviction while borrowing, where that is allowed": (
        "co\na < co cpu=4 reclaim=lower-priority borrowing=lower-priority\nb < co cpu=4",
        "b0 b cpu=8",
        "w a cpu=6 prio=1",
        "b0:while-borrowing",
        "w",
    ),
    "of lower priority only": (
        "co\na < co cpu=4 reclaim=any borrowing=lower-priority\nb < co cpu=4",
        "b0 b cpu=8 prio=1",
        "w a cpu=6 prio=1",
        "",
        "b0",
    ),
    "up to a threshold": (
        "co\na < co cpu=4 reclaim=any borrowing=lower-priority threshold=1\nb < co cpu=4",
        "b0 b cpu=8 prio=1",
        "w a cpu=6 prio=5",
        "b0:while-borrowing",
        "w",
    ),
    "not above it": (
        "co\na < co cpu=4 reclaim=any borrowing=lower-priority threshold=0\nb < co cpu=4",
        "b0 b cpu=8 prio=1",
        "w a cpu=6 prio=5",
        "",
        "b0",
    ),
    "within quota the threshold does not matter": (
        "co\na < co cpu=4 reclaim=any borrowing=lower-priority threshold=0\nb < co cpu=4",
        "b0 b cpu=8 prio=1",
        "w a cpu=4 prio=5",
        "b0:quota",
        "w",
    ),
    "a queue within its quota is left alone while borrowing too": (
        "co cpu=4\na < co cpu=0 reclaim=any borrowing=lower-priority\nb < co cpu=4",
        "b0 b cpu=4\na0 a cpu=2",
        "w a cpu=4 prio=5",
        "",
        "a0 b0",
    ),
    # -- two at once
    "two share what one victim leaves": (
        "co\na < co cpu=2 reclaim=any\nb < co cpu=2 reclaim=any\nc < co cpu=0",
        "c0 c cpu=4",
        "wa a cpu=2 at=1\nwb b cpu=2 at=2",
        "c0:quota",
        "wa wb",
    ),
    "two do not count on the same victim": (
        "co\na < co cpu=2 reclaim=any\nb < co cpu=2 reclaim=any\nc < co cpu=0",
        "c1 c cpu=2 since=2\nc2 c cpu=2 since=1",
        "wa a cpu=2 at=1\nwb b cpu=2 at=2",
        "c1:quota c2:quota",
        "wa wb",
    ),
    "one who starts first may leave no need to evict": (
        "co\na < co cpu=4 reclaim=any\nb < co cpu=4",
        "b0 b cpu=4",
        "wa a cpu=4\nwb b cpu=2 prio=9",
        "",
        "b0 wa",
    ),
}


@pytest.mark.parametrize(
    ("queues", "running", "waiting", "evicts", "runs"), CASES.values(), ids=CASES
)
def test_case(queues: str, running: str, waiting: str, evicts: str, runs: str) -> None:
    case = Case(queues, running, waiting)
    assert case.decide().evicts == evicts
    assert case.settle().runs == runs


TREES = {
    "quota of its own is taken back from another branch": (
        """
        root
        left < root
        right < root
        a < left cpu=4 reclaim=any
        c < right cpu=0
        """,
        "c0 c cpu=4 prio=9",
        "w a cpu=4",
        "c0:quota",
    ),
    "near and far borrowers alike, the newest first": (
        """
        root
        left < root
        right < root
        a < left cpu=4 reclaim=any
        b < left cpu=0
        c < right cpu=0
        """,
        "b0 b cpu=2 since=1\nc0 c cpu=2 since=2",
        "w a cpu=2",
        "c0:quota",
    ),
    "the lower priority, near or far": (
        """
        root
        left < root
        right < root
        a < left cpu=4 reclaim=any
        b < left cpu=0
        c < right cpu=0
        """,
        "b0 b cpu=2 since=1 prio=-1\nc0 c cpu=2 since=2",
        "w a cpu=2",
        "b0:quota",
    ),
    "a branch within its quota is not entered": (
        """
        root
        left < root cpu=4
        right < root
        b < left cpu=0
        c < right cpu=4 reclaim=any
        d < right cpu=0
        """,
        "b0 b cpu=4 since=9\nd0 d cpu=4 since=1",
        "w c cpu=4",
        "d0:quota",
    ),
    "quota of its cohort is taken back from another branch, whatever the priority": (
        """
        root
        left < root cpu=4
        right < root
        a < left cpu=0 reclaim=any
        c < right cpu=0
        """,
        "c0 c cpu=4 prio=9",
        "w a cpu=4",
        "c0:quota",
    ),
    "but not from its own branch": (
        """
        root
        left < root cpu=4
        right < root
        a < left cpu=0 reclaim=any
        b < left cpu=0
        """,
        "b0 b cpu=4",
        "w a cpu=4 prio=9",
        "",
    ),
    "unless it may while borrowing": (
        """
        root
        left < root cpu=4
        right < root
        a < left cpu=0 reclaim=lower-priority borrowing=lower-priority
        b < left cpu=0
        """,
        "b0 b cpu=4",
        "w a cpu=4 prio=9",
        "b0:while-borrowing",
    ),
    "a branch that no longer borrows is passed over": (
        # right uses 4 of its 2: once d0 has gone it is within its quota
        """
        root
        left < root
        right < root cpu=2
        mid < root
        a < left cpu=6 reclaim=any
        c < right cpu=0
        d < right cpu=0
        m < mid cpu=0
        """,
        "c0 c cpu=2 since=8\nd0 d cpu=2 since=9\nm0 m cpu=4 since=1",
        "w a cpu=6",
        "d0:quota m0:quota",
    ),
    "the lowest of several branches is not enough": (
        """
        root
        left < root
        right < root
        a < left cpu=4 reclaim=lower-priority
        c < right cpu=0
        """,
        "c1 c cpu=2\nc2 c cpu=2 prio=5",
        "w a cpu=4 prio=1",
        "",
    ),
    "what a branch keeps to itself is not taken": (
        """
        root
        left < root cpu=4^0
        a < left cpu=0
        b < root cpu=2 reclaim=any
        """,
        "a0 a cpu=4",
        "w b cpu=3",
        "",
    ),
}


@pytest.mark.parametrize(("queues", "running", "waiting", "evicts"), TREES.values(), ids=TREES)
def test_tree(queues: str, running: str, waiting: str, evicts: str) -> None:
    case = Case(queues, running, waiting)
    end = case.decide()
    assert (end.starts, end.evicts) == ("", evicts)
    assert ("w" in case.settle().runs.split()) == bool(evicts)


def test_who_is_on_the_way_out_need_not_be_asked_again() -> None:
    end = Case(
        "a cpu=4 within=lower-priority",
        "r a cpu=2 leaving\ns a cpu=2",
        "w a cpu=2 prio=1",
    ).decide()
    assert (end.starts, end.evicts) == ("", "")
    assert end.why("w") == (Leaving(("r",)),)


def test_a_victim_takes_its_old_place_in_line() -> None:
    end = Case(
        "a cpu=4 within=lower-priority",
        "r a cpu=4 at=1",
        "w a cpu=2 prio=1\nv a cpu=2 at=2\nu a cpu=2 at=0",
    ).settle()
    assert (end.evicts, end.runs) == ("r:preempt", "u w")
