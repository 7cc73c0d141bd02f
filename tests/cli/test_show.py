"""Tables: what is too wide goes on in the next line, and no name is cut where it has no joint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mooring.cli.show import Terminal, pieces, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@pytest.fixture
def printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """Return a function that prints rows on a terminal of some width."""

    def show(width: int, head: Sequence[str], *rows: Sequence[str]) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        Terminal().print(table(head, rows))
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return show


ROW = ("bind", "experiment-llm-pretraining-run-0", "gpu-a100-eu-west-1.example.com", "0-7 (2 each)")


def test_names_break_at_their_joints_and_short_columns_stay_whole(
    printed: Callable[..., list[str]],
) -> None:
    assert printed(70, ("do", "workload", "nodes", "devices"), ROW)[2:] == [
        "bind   experiment-llm-     gpu-a100-eu-west-1.   0-7 (2 each)",
        "       pretraining-run-0   example.com",
    ]


def test_where_there_is_room_nothing_is_broken(printed: Callable[..., list[str]]) -> None:
    assert printed(100, ("do", "workload", "nodes", "devices"), ROW)[2:] == ["   ".join(ROW)]


def test_sentences_break_between_words_first(printed: Callable[..., list[str]]) -> None:
    row = ("train-2", "It needs room for 6 tasks in one rack; the best rack takes 0 now.")
    assert printed(40, ("waits", "why"), row)[2:] == [
        "train-2   It needs room for 6 tasks in",
        "          one rack; the best rack takes",
        "          0 now.",
    ]


def test_what_has_no_joints_is_folded(printed: Callable[..., list[str]]) -> None:
    lines = printed(20, ("waits", "why"), ("x" * 30, "y"))
    assert max(map(len, lines)) <= 20
    assert "".join(lines[2:]).count("x") == 30


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("node-[008-009]", ["node-", "[008-009]"]),
        ("a.b/c_d", ["a.", "b/", "c_", "d"]),
        ("-", ["-"]),
        ("a[b", ["a", "[", "b"]),
        ("", []),
    ],
)
def test_pieces_are_the_whole_name(name: str, parts: list[str]) -> None:
    assert pieces(name) == parts
    assert "".join(parts) == name
