"""Reasons read as sentences, and many names as few characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cli.fold import fold_names, fold_numbers
from mooring.model.plan import (
    Behind,
    CutShort,
    Excluded,
    Impossible,
    Leaving,
    Moving,
    NoRoom,
    NotTogether,
    Unknown,
)
from mooring.words import cause_in_words, counted, listed, sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.plan import Reason

SENTENCES: list[tuple[Reason, str]] = [
    (
        NoRoom("g", "cluster", 16, 3),
        "Group g needs room for 16 tasks at once; the cluster takes 3 now.",
    ),
    (NoRoom("g", "cluster", 1, 0), "Group g needs room for 1 task; the cluster takes 0 now."),
    (
        NoRoom("g", "rack", 16, 3),
        "Group g needs room for 16 tasks in one rack; the best rack takes 3 now.",
    ),
    (
        Impossible("g", "rack", 16, 8),
        "Group g can never start here: it needs room for 16 tasks in one rack, and empty, "
        "the best rack takes 8.",
    ),
    (
        Impossible("g", "node", 2, 0),
        "Group g can never start here: no node takes even one task, however empty.",
    ),
    (Excluded("g", "gpu", 1), "For g, 1 node has too few free GPUs."),
    (Excluded("g", "gpu", 1200), "For g, 1,200 nodes have too few free GPUs."),
    (
        Excluded("g", "failing", 2),
        "For g, 2 nodes are avoided because work keeps failing there.",
    ),
    (Moving(), "It is being moved: it starts at its other place once it has left."),
    (Leaving(("v",)), "Its room is found; it starts once v has left."),
    (Leaving(("v", "u")), "Its room is found; it starts once v and u have left."),
    (Leaving(()), "Its room is found; it starts once all have left."),
    (
        Moving(("v", "u")),
        "It is being moved: it starts at its other place once it, v and u have left.",
    ),
    (Excluded("g", "not-ready", 2), "For g, 2 nodes are not ready."),
    (Excluded("g", "taint", 2), "For g, 2 nodes have taints that it does not tolerate."),
    (Excluded("g", "rdma/nic", 1), "For g, 1 node has too little free rdma/nic."),
    (Excluded("g", "port/80", 2), "For g, 2 nodes have port 80 in use."),
    (
        NotTogether(("a", "b", "c")),
        "There is room for each of a, b and c, but not for all together.",
    ),
    (
        CutShort(1000),
        "The search stopped at its bound of 1,000 steps; it goes on when something changes.",
    ),
    (Behind("w"), "It asks for the same as w, which is before it in line."),
    (Unknown("g", "level", "rakc"), "Group g names a level that means nothing here: rakc."),
]


@pytest.mark.parametrize(("reason", "words"), SENTENCES, ids=[words for _, words in SENTENCES])
def test_every_reason_is_a_sentence(reason: Reason, words: str) -> None:
    assert sentence(reason) == words


def test_the_only_group_is_not_named() -> None:
    alone = [sentence(reason, is_alone=True) for reason, _ in SENTENCES]

    assert alone[0] == "It needs room for 16 tasks at once; the cluster takes 3 now."
    assert alone[4] == "It can never start here: no node takes even one task, however empty."
    assert alone[5] == "1 node has too few free GPUs."
    assert alone[-1] == "It names a level that means nothing here: rakc."


def test_causes_are_told_in_words_if_there_are_any() -> None:
    assert cause_in_words("lost-node") == "a node was lost"
    assert cause_in_words("something-new") == "something-new"


def test_small_words() -> None:
    assert [counted(n, "node") for n in (0, 1, 2000)] == ["0 nodes", "1 node", "2,000 nodes"]
    assert [listed(names) for names in ([], ["a"], ["a", "b"])] == ["", "a", "a and b"]


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["a"], "a"),
        (["node-7"], "node-7"),
        ([f"node-{i:03d}" for i in range(16)], "node-[000-015]"),
        (["n9", "n10", "n11", "n2"], "n[2,9-11]"),
        (["n09", "n10", "n011", "n9"], "n9,n[09-10],n011"),
        (["a1.x", "a2.x", "b1.x", "a3.y"], "a[1-2].x,a3.y,b1.x"),
        (["r1-n1", "r1-n2", "r2-n1"], "r1-n[1-2],r2-n1"),
        (["b", "a", "c1", "c2"], "a,b,c[1-2]"),
        (["n1", "n1", "n2"], "n[1-2]"),
    ],
)
def test_names_fold(names: Sequence[str], folded: str) -> None:
    assert fold_names(names) == folded


@given(st.sets(st.from_regex(r"[a-c]{0,2}(0?[0-9]{1,2})?[x-y]?", fullmatch=True).filter(bool)))
def test_folding_loses_no_name(names: set[str]) -> None:
    assert sorted(unfolded(fold_names(names))) == sorted(names)


def unfolded(text: str) -> list[str]:
    """Return the names of a folded text, by the rules that a reader would guess."""
    found, depth, part = [], 0, ""
    for sign in f"{text},":
        depth += (sign == "[") - (sign == "]")
        if sign == "," and not depth:
            found.append(part)
            part = ""
        else:
            part += sign
    names: list[str] = []
    for each in filter(None, found):
        head, bracket, rest = each.partition("[")
        if not bracket:
            names.append(each)
            continue
        ranges, _, tail = rest.partition("]")
        for first, _, last in (item.partition("-") for item in ranges.split(",")):
            numbers = range(int(first), int(last or first) + 1)
            names += [f"{head}{number:0{len(first)}}{tail}" for number in numbers]
    return names


def test_numbers_fold() -> None:
    assert fold_numbers([]) == ""
    assert fold_numbers([3, 1, 2, 7, 9, 8, 8]) == "1-3,7-9"
    assert fold_numbers([0, 2]) == "0,2"


def test_a_number_of_any_length_folds() -> None:
    long = "n" + "1" * 5000
    assert fold_names([long]) == long
