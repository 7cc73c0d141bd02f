"""What stands on pods: an autoscaler is called only where a node would help."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.verdict import (
    EXCLUDED,
    MOST_CHARACTERS,
    ROWS,
    UNSCHEDULABLE,
    Node,
    clock_time,
    mistakes,
    row_of,
    verdict,
)
from mooring.model.plan import (
    Behind,
    Blocked,
    CutShort,
    Delays,
    Excluded,
    Exhausted,
    Impossible,
    Leaving,
    Moving,
    NoRoom,
    NotAllowed,
    NotTogether,
    OverQuota,
    Promised,
    Protected,
    Reason,
    Reserved,
    Stopped,
    Unknown,
)
from mooring.words import _EXCLUDED as EXCLUDED_WORDS

PAGE = (Path(__file__).parents[2] / "docs/conditions.md").read_text("utf-8")
TABLE = {
    name: (word, node)
    for name, word, node in re.findall(r"^\| ([A-Z][^|]*) \| `(\w+)` \| ([a-z ]+) \|$", PAGE, re.M)
}

ONE_OF_EACH: list[Reason] = [
    NoRoom("main", "cluster", 8, 5),
    Impossible("main", "rack", 8, 4),
    *(Excluded("main", by, 3) for by in [*EXCLUDED_WORDS, "cpu", "memory", "port/80"]),
    NotTogether(("a", "b")),
    CutShort(2000),
    Behind("lab/job/first"),
    Unknown("main", "level", "rock"),
    OverQuota("lab", "", "gpu", 8000, 4000),
    Stopped("lab"),
    NotAllowed("lab", "namespace", "guests"),
    Blocked("lab/job/first"),
    Delays("lab/job/first"),
    Reserved(1_700_000_000.0, 2),
    Leaving(("lab/job/old",)),
    Moving(),
    Protected(1_700_000_000.0),
    Promised("urgent", 16),
    Exhausted(3),
]
TURN_OR_QUOTA = (OverQuota, Behind, Blocked, Delays, Stopped, NotAllowed, Leaving, Moving, Promised)


def name_in_page(reason: Reason) -> str:
    if not isinstance(reason, Excluded):
        return type(reason).__name__
    return f"Excluded by {reason.by if reason.by in EXCLUDED else 'a resource'}"


def test_every_reason_has_a_row() -> None:
    assert {*ROWS, Excluded} == set(get_args(Reason))
    assert {type(reason) for reason in ONE_OF_EACH} == set(get_args(Reason))


@pytest.mark.parametrize("reason", ONE_OF_EACH, ids=name_in_page)
def test_the_manual_says_what_becomes_of_it(reason: Reason) -> None:
    told = verdict([reason])
    assert told is not None
    says = {Node.HELPS: "helps", Node.NO_HELP: "no", Node.SILENT: "depends on the rest"}
    assert TABLE[name_in_page(reason)] == (told.reason, says[row_of(reason).node])


def test_the_manual_has_no_row_too_many_and_the_same_order() -> None:
    assert list(TABLE) == [
        *(kind.__name__ for kind in ROWS),
        *(f"Excluded by {by}" for by in EXCLUDED),
        "Excluded by a resource",
    ]


@given(st.lists(st.sampled_from(ONE_OF_EACH), max_size=5), st.sampled_from(ONE_OF_EACH))
def test_who_waits_for_quota_or_turn_buys_no_node(rest: list[Reason], one: Reason) -> None:
    told = verdict([*rest, one])
    assert told is not None
    waits = any(
        isinstance(each, TURN_OR_QUOTA) or (isinstance(each, Excluded) and each.by == "quota")
        for each in (*rest, one)
    )
    if waits:
        assert told.reason != UNSCHEDULABLE
    assert verdict([one, *rest]).reason == told.reason  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("reasons", "word"),
    [
        ([NoRoom("main", "cluster", 8, 5), Excluded("main", "gpu", 9)], UNSCHEDULABLE),
        ([NoRoom("main", "cluster", 8, 5), Excluded("main", "taint", 9)], UNSCHEDULABLE),
        ([NoRoom("main", "cluster", 8, 5), Reserved(9.0, 2)], UNSCHEDULABLE),
        ([NoRoom("main", "cluster", 8, 5), Protected(9.0)], UNSCHEDULABLE),
        ([NoRoom("main", "cluster", 8, 5), Excluded("main", "quota", 1)], "WaitsForQuota"),
        ([NoRoom("main", "cluster", 8, 5), Leaving(("a",))], "WaitsForRoom"),
        ([Excluded("main", "gpu-model", 9)], "NoNodeFits"),
        ([Reserved(9.0, 2), Delays("a")], "WaitsForTurn"),
        ([Blocked("a"), OverQuota("lab", "", "gpu", 2, 1)], "WaitsForQuota"),
    ],
)
def test_several_reasons_give_one_word(reasons: list[Reason], word: str) -> None:
    told = verdict(reasons)
    assert told is not None
    assert told.reason == word


def test_who_has_all_is_told_nothing() -> None:
    assert verdict([]) is None


def test_messages_are_sentences_and_short() -> None:
    told = verdict([NoRoom("main", "rack", 8, 5), Excluded("main", "gpu", 9)])
    assert told is not None
    assert told.message == (
        "It needs room for 8 tasks in one rack; the best rack takes 5 now. "
        "9 nodes have too few free GPUs."
    )
    many = verdict([Leaving(tuple(f"lab/job/{i}" for i in range(1000)))])
    assert many is not None
    assert len(many.message) == MOST_CHARACTERS
    assert many.message.endswith("…")
    more = verdict([Excluded("main", by, 1) for by in EXCLUDED])
    assert more is not None
    assert more.message.endswith(f"And {len(EXCLUDED) - 4} more.")


def test_times_are_those_of_a_clock_and_not_too_early() -> None:
    assert clock_time(1_700_000_000.0) == "2023-11-14 22:14 UTC"
    assert clock_time(1_699_999_980.0) == "2023-11-14 22:13 UTC"
    assert clock_time(float("inf")) == "some day"


def test_all_mistakes_are_listed() -> None:
    told = mistakes(["spec.a: x: give y", "spec.b: give z"])
    assert told.reason == "NotUnderstood"
    assert told.message == "It cannot be understood: (1) spec.a: x: give y (2) spec.b: give z"
    assert mistakes(["a: give b"]).message == "It cannot be understood: a: give b"
