"""`mooring policy`: the tree as it is drawn; a right file is one line, a mistake is one too."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from mooring.cli import main
from mooring.cli.policy import Standing, show_policy
from mooring.config import load_scenario, read_scenario
from mooring.model.codec import decode
from mooring.model.queues import Queue
from mooring.model.settings import Policy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = """
queues:
  - {name: org, quotas: [{resource: gpu, flavor: H100, quota: unlimited, limit: 64}]}
  - name: a
    parent: org
    weight: 2.5
    quotas:
      - {resource: gpu, flavor: H100, quota: 0.5, weight: 3, borrowing_limit: 8, lending_limit: 0}
      - {resource: memory, quota: 64Gi}
    eviction: {reclaim: any, within_queue: never}
  - {name: a1, parent: a, local: true, users: []}
  - {name: b, parent: org, stop: drain, groups: [{resources: [gpu, cpu], flavors: [H100, A100]}]}
  - {name: other, quotas: [{resource: cpu, quota: 1500m}]}
policy: {profile: kai, flavors: [H100, {name: A100, price: 2}], mix_learns: false}
"""


DRAWN = """\
            H100
             gpu                                      memory     cpu
queue      quota   limit   weight   borrows   lends    quota   quota   weight   stop
─────────────────────────────────────────────────────────────────────────────────────
org            ∞      64
├─ a         0.5                3         8       0     64Gi              2.5
│  └─ a1
└─ b                                                                            drain
other                                                          1500m

queue   rules
─────────────────────────────────────────────────
a       eviction: within_queue never, reclaim any
a1      users: nobody
        local
b       gpu, cpu: H100, then A100

policy
──────────────────────────
mix_learns   false
profile      kai
flavors      H100
             A100: price 2

5 queues in 3 levels, 3 at the bottom; quota for 3 pairs of flavor and resource; profile kai."""


@pytest.fixture
def shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., str]:
    """Return a function that shows a file, without the spaces at the ends of lines."""

    def show(text: str, width: int = 100) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        path = tmp_path / "policy.yaml"
        path.write_text(text, "utf-8")
        assert main(["policy", "show", str(path)]) == 0
        return "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())

    return show


def test_queues_are_drawn_as_a_tree(shown: Callable[..., str]) -> None:
    assert shown(TEXT) == DRAWN


def test_columns_that_do_not_fit_come_below(shown: Callable[..., str]) -> None:
    """The columns of a pair stay together, and no table is wider than the terminal."""
    text = shown(TEXT, 60)
    assert max(map(len, text.splitlines())) <= 60
    heads = [" ".join(line.split()) for line in text.splitlines() if line.startswith("queue")]
    assert heads == [
        "queue quota limit weight borrows lends quota",
        "queue quota weight stop",
        "queue rules",
    ]
    assert text.count("└─ a1") == 2


def test_long_names_are_folded(shown: Callable[..., str]) -> None:
    name = "a-name-that-no-table-of-forty-columns-can-hold"
    text = shown(f"queues: [{{name: {name}, quotas: [{{resource: gpu, quota: 8}}]}}]", 40)
    assert max(map(len, text.splitlines())) <= 40
    assert name in "".join(line.split(" ")[0] for line in text.splitlines())


@pytest.mark.parametrize(
    ("profile", "drawn"),
    [("kai", ["lost", "└─ x", "root"]), ("kueue", ["left", "└─ y", "right", "root"])],
)
def test_queues_that_hang_on_nothing_are_drawn(
    shown: Callable[..., str], profile: str, drawn: list[str]
) -> None:
    names = {"lost": "nobody", "x": "lost"} if profile == "kai" else {}
    names = names or {"left": "right", "y": "left", "right": "left"}
    queues = [f"{{name: {name}, parent: {parent}}}" for name, parent in names.items()]
    text = f"queues: [{', '.join(queues)}, root]\npolicy: {{profile: {profile}}}"
    assert [line.rstrip() for line in shown(text).splitlines()[2 : 2 + len(drawn)]] == drawn


LONG = """
nodes: [{count: 2, gpus: 8, gpu_model: NVIDIA-H100-80GB-HBM3}]
queues:
  - {name: company, quotas: [{resource: gpu, flavor: NVIDIA-H100-80GB-HBM3, limit: 16}]}
  - name: team-with-a-long-name-0
    parent: company
    quotas:
      - {resource: gpu, flavor: NVIDIA-H100-80GB-HBM3, quota: 8, limit: 16, borrowing_limit: 4,
         lending_limit: 8}
"""


def test_a_long_flavor_leaves_room_for_the_tree(shown: Callable[..., str]) -> None:
    assert shown(LONG, 80).splitlines()[:8] == [
        "                               NVIDIA-",
        "                                 H100-",
        "                             80GB-HBM3",
        "                                   gpu",
        "queue                            quota   limit   borrows   lends   used   share",
        "─" * 79,
        "company                              0      16                        0       8",
        "└─ team-with-a-long-name-0           8      16         4       8      0       8",
    ]


def test_the_columns_of_a_pair_are_parted_where_they_must_be(shown: Callable[..., str]) -> None:
    """The tree is drawn again with the rest of them, under the same flavor."""
    lines = shown(LONG, 60).splitlines()
    assert max(map(len, lines)) <= 60
    assert [line.split() for line in lines if line.startswith("└")] == [
        ["└─", "team-with-a-long-name-0", "8", "16", "4"],
        ["└─", "team-with-a-long-name-0", "8", "0", "8"],
    ]
    assert sum("80GB-HBM3" in line for line in lines) == 2


def test_use_and_share_are_shown_without_any_quota(shown: Callable[..., str]) -> None:
    text = """
    nodes: [{count: 2, gpus: 8, gpu_model: H100}]
    queues: [{name: a, weight: 3}, b]
    workloads:
      - {name: x, queue: a, tasks: 9, gpus: 1, running: true}
      - {name: y, queue: b, min: 1, max: 16, gpus: 1}
    """
    rows = [line.split() for line in shown(text).splitlines()[:7]]
    assert rows[:3] == [["H100"], ["gpu"], ["queue", "used", "share", "weight"]]
    assert rows[4][:3] == ["a", "9", "over"]


def test_a_queue_that_uses_what_those_below_it_have_is_not_over(shown: Callable[..., str]) -> None:
    text = """
    nodes: [{count: 2, gpus: 8, gpu_model: H100}]
    queues:
      - lab
      - {name: a, parent: lab, quotas: [{resource: gpu, flavor: H100, quota: 8}]}
      - {name: b, parent: lab, quotas: [{resource: gpu, flavor: H100, quota: 8}]}
    workloads: [{name: x, queue: a, tasks: 2, gpus: 8, running: true}]
    """
    rows = [" ".join(line.split()) for line in shown(text).splitlines()]
    assert "lab 16 16" in rows
    assert "├─ a 8 16 over 16" in rows


def test_a_plain_file_is_only_a_tree(shown: Callable[..., str]) -> None:
    assert shown("queues: [a, {name: b, parent: a}, {name: c, parent: b}]").splitlines() == [
        "queue",
        "───────",
        "a",
        "└─ b",
        "   └─ c",
        "",
        "3 queues in 3 levels, 1 at the bottom; quota for 0 pairs of flavor and resource; "
        "profile default.",
    ]


def test_use_and_share_are_shown_where_they_are_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    scenario = read_scenario(TEXT)
    standings = {
        ("org", "H100", "gpu"): Standing(12_500, 64_000),
        ("a", "H100", "gpu"): Standing(12_500, 8000),
        ("b", "H100", "gpu"): Standing(500),
        ("a", "", "memory"): Standing(1024),
    }
    show_policy(scenario, standings, as_json=False)
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "queue quota limit weight borrows lends used share quota used quota" in rows
    assert "org ∞ 64 12.5 64" in rows
    assert "├─ a 0.5 3 8 0 12.5 over 8 64Gi 1Gi" in rows
    assert "└─ b 0.5 over" in rows


def test_json_has_everything(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(TEXT, "utf-8")
    assert main(["policy", "show", "-o", "json", str(path)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"topology", "queues", "policy", "standings", "promises"}
    scenario = load_scenario(path)
    assert decode(tuple[Queue, ...], data["queues"]) == scenario.queues
    assert decode(Policy, data["policy"]) == scenario.policy
    assert data["queues"][0]["weight"] == 1.0
    assert data["standings"] == []
    show_policy(scenario, {("a", "", "memory"): Standing(1024, 5)}, as_json=True)
    assert json.loads(capsys.readouterr().out)["standings"] == [
        {"queue": "a", "flavor": "", "resource": "memory", "used": 1024, "share": 5}
    ]


PROMISE = """
nodes: [{name: n, gpus: 8, gpu_model: H100}]
queues: [serving, batch]
policy: {headroom: [{queue: serving, gpus: GPUS, within: 1m}]}
workloads:
  - name: w
    queue: batch
    gpus: 2
    running: true
    placements: [{group: main, nodes: [n], devices: [[0, 1]]}]
"""


def test_promises_are_shown_as_they_stand(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(PROMISE.replace("GPUS", "7"), "utf-8")

    assert main(["policy", "show", str(path)]) == 0

    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "promised to flavor within GPUs used idle on loan missing" in rows
    assert "serving any 1m 7 0 6 0 1" in rows


@pytest.mark.parametrize("command", [["decide"], ["policy", "check"], ["policy", "show"]])
def test_a_promise_that_cannot_be_kept_is_bad_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(PROMISE.replace("GPUS", "9"), "utf-8")

    assert main([*command, str(path)]) == 2

    told = f"{path}: policy.headroom[0].gpus: 9: give at most 8: there are 8 GPUs\n"
    assert capsys.readouterr().err == told


def test_standard_input_has_one_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (["decide"], ["defragment"], ["policy", "check"], ["policy", "show"]):
        text = PROMISE.replace("GPUS", "9").encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert main([*command, "-"]) == 2
        assert capsys.readouterr().err.startswith("standard input: policy.headroom[0].gpus: 9")


def test_a_right_file_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("queues: [a, b]", "utf-8")
    assert main(["policy", "check", str(path)]) == 0
    told = "2 queues in 1 level, 2 at the bottom; quota for 0 pairs of flavor and resource"
    assert capsys.readouterr().out == f"{path}: {told}; profile default.\n"


def test_a_file_without_queues_is_right_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("queues: []", "utf-8")
    for action in ("check", "show"):
        assert main(["policy", action, str(path)]) == 0
        assert "0 queues in 0 levels" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["check", "show"])
def test_a_wrong_file_is_a_line_for_each_mistake(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, action: str
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "queues: [{name: a, quotas: [{resource: gpus}]}, {name: b, parent: aa, order: fifo}]",
        "utf-8",
    )
    assert main(["policy", action, str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        f"{path}: queues[0].quotas[0].resource: 'gpus': give a resource by its name here; "
        "did you mean 'gpu'?",
        f"{path}: queues[1].order: 'fifo': give one of 'strict', 'best-effort', 'backfill', "
        "'easy', 'conservative'",
        f"{path}: queues[1].parent: 'aa': give the name of a queue as parent; did you mean 'a'?",
    ]


def test_a_scenario_will_do_and_standard_input_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"nodes: [{name: a, gpus: 8}]\nworkloads: [{name: w, gpus: 1}]"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["policy", "check", "-"]) == 0
    assert capsys.readouterr().out.startswith("standard input: 1 queue in 1 level, 1 at")
