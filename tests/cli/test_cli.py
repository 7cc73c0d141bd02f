"""Every command: what it prints, its exit code, and that no mistake ends in a traceback."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import mooring
from mooring.cli import main
from mooring.cli.main import parser
from mooring.config import dump_scenario, policy_schema, scenario_schema
from mooring.engine import Engine
from mooring.journal import Journal, Recorder
from mooring.model.scenario import Scenario
from mooring.model.settings import Policy
from mooring.sim.openb import POLICIES
from mooring.sim.replay import begin
from tests.build import gang, group, node, picture, task, workload
from tests.sim.test_openb import write_study
from tests.sim.test_settle import Restless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mooring.model.workload import Workload

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.yaml"))
PAGE = (ROOT / "docs" / "cli.md").read_text("utf-8")
PAGES = PAGE + (ROOT / "docs" / "policy.md").read_text("utf-8")
SHOWN = re.findall(r"^\$ mooring (.*)\n((?:(?!```|\$ ).*\n)+)", PAGES, re.MULTILINE)
"""Commands of the manual, and what they print there."""


@dataclass
class Result:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Return what it printed as JSON."""
        return json.loads(self.out)

    @property
    def words(self) -> str:
        """Return what it printed, without the lines' ends."""
        return " ".join(self.out.split())


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Return a function that runs a command, with bytes on standard input."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*argv: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(argument) for argument in argv])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a scenario to a file."""

    def write(text: str, *waiting: Workload, policy: Policy = Policy()) -> Path:
        topology, nodes = picture(text)
        path = tmp_path / "scenario.yaml"
        scenario = Scenario(7.0, topology, tuple(nodes), policy=policy, waiting=waiting)
        path.write_text(dump_scenario(scenario), "utf-8")
        return path

    return write


# -- decide: tables -------------------------------------------------------------------------


def test_decide_prints_who_goes_where(
    run: Callable[..., Result], write: Callable[..., Path]
) -> None:
    racks = "r1: n-08=8 n-09=8 n-10=8 n-11=8 | r2: other=8"
    result = run("decide", write(racks, gang("g", tasks=8, gpus=4, level="rack"), task("t", 2)))

    assert result.code == 0
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert "bind g main 0-7 n-[08-11] 0-7 (4 each)" in lines
    assert "bind t main 0 other 0-1" in lines
    assert lines[-1] == "9 tasks bound, 0 workloads waiting, 5 nodes."


def test_decide_shows_nodes_with_other_devices_apart(
    run: Callable[..., Result], write: Callable[..., Path]
) -> None:
    result = run("decide", write("a=8 b=4", gang("g", tasks=3, gpus=4)))

    assert "bind g main 0-1 a 0-7 (4 each) 2 b 0-3" in result.words


def test_decide_shows_growth_as_one_start(
    run: Callable[..., Result], write: Callable[..., Path]
) -> None:
    result = run("decide", write("a=8 b=8", gang("e", tasks=1, gpus=8, most=20)))

    assert "bind e main 0-1 a,b 0-7" in result.words
    assert "It runs, and waits to grow." in result.words


def test_decide_says_why_the_rest_waits(
    run: Callable[..., Result], write: Callable[..., Path]
) -> None:
    first = gang("first", tasks=2, gpus=8)
    others = [gang(f"next-{i}", tasks=2, gpus=8) for i in range(12)]
    big = workload("big", group("x", tasks=2, gpus=8), group("y", gpus=9))
    result = run("decide", write("a=8 b=8 c=8", first, *others, big))

    assert "next-0 It needs room for 2 tasks at once; the cluster takes 1 now." in result.words
    assert (
        "next-[1-11] They ask for the same as next-0, which is before them in line." in result.words
    )
    assert (
        "Group y can never start here: no node takes even one task, however empty." in result.words
    )
    assert "For y, 3 nodes have too few free GPUs." in result.words
    assert result.out.rstrip().endswith("2 tasks bound, 13 workloads waiting, 3 nodes.")


def test_a_single_follower_is_told_by_name(
    run: Callable[..., Result], write: Callable[..., Path]
) -> None:
    result = run("decide", write("a=8", *(task(name, 8) for name in "abc")))

    assert "c It asks for the same as b, which is before it in line." in result.words


def test_nothing_to_decide_is_said(run: Callable[..., Result], write: Callable[..., Path]) -> None:
    assert run("decide", write("a=8")).out == "0 tasks bound, 0 workloads waiting, 1 node.\n"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_tables_fit_the_terminal_and_lose_nothing(
    run: Callable[..., Result],
    write: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    long = "a-very-long-name-of-a-workload-that-no-column-of-a-table-can-hold"
    result = run("decide", write("a=8", task("t"), task(long, 9)))

    assert max(map(len, result.out.splitlines())) <= width
    first = "".join(line.split(" ")[0] for line in result.out.splitlines())
    assert long in first
    assert "…" not in result.out
    assert "\x1b" not in result.out


def test_colours_only_where_they_are_wanted(
    run: Callable[..., Result], write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("a=8", task("t"))
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run("decide", path).out

    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in run("decide", path).out


# -- decide: JSON and settling --------------------------------------------------------------


def test_decide_gives_json(run: Callable[..., Result], write: Callable[..., Path]) -> None:
    result = run("decide", "-o", "json", write("a=8", task("t", 8), task("u", 8)))

    assert result.data == {
        "now": 7.0,
        "decisions": [
            {
                "kind": "bind",
                "workload": "t",
                "placement": {"group": "main", "tasks": [0], "nodes": ["a"], "devices": [255]},
            }
        ],
        "waiting": [
            {
                "workload": "u",
                "reasons": [
                    {
                        "kind": "no-room",
                        "group": "main",
                        "level": "cluster",
                        "wanted": 1,
                        "best": 0,
                    },
                    {"kind": "excluded", "group": "main", "by": "gpu", "nodes": 1},
                ],
            }
        ],
        "running": [
            {
                "workload": "t",
                "queue": "default",
                "standing": "in share",
                "surplus": {},
                "groups": [
                    {
                        "group": "main",
                        "tasks": 1,
                        "nodes": ["a"],
                        "flavors": ["H100"],
                        "domains": {},
                    }
                ],
            }
        ],
        "settled": False,
        "cycles": 1,
    }


def test_json_holds_all_reasons_and_not_only_changes(
    run: Callable[..., Result], write: Callable[..., Path]
) -> None:
    result = run("decide", "--settle", "-o", "json", write("a=8", *(task(n, 8) for n in "abcd")))

    assert [each["workload"] for each in result.data["waiting"]] == ["b", "c", "d"]
    assert all(each["reasons"] for each in result.data["waiting"])
    assert (result.data["settled"], result.data["cycles"]) == (True, 2)


def test_settling_is_said(run: Callable[..., Result], write: Callable[..., Path]) -> None:
    result = run("decide", "--settle", write("a=8", task("t")))

    assert result.code == 0
    last = "1 task bound, 0 workloads waiting, 1 node. Settled after 2 cycles.\n"
    assert result.out.endswith(last)


@pytest.mark.parametrize(
    ("remembers", "words"),
    [
        (True, "It does not settle: after 3 cycles all is as it was 2 cycles before."),
        (False, "It did not settle within 100 cycles."),
    ],
)
def test_what_does_not_settle_is_a_negative_outcome(
    run: Callable[..., Result],
    write: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    remembers: bool,
    words: str,
) -> None:
    settle = import_module("mooring.sim.settle")
    monkeypatch.setattr(settle, "Engine", Restless)
    if not remembers:
        monkeypatch.setattr(settle, "_state", lambda engine: object())
    result = run("decide", "--settle", write("a=8", task("t")))

    assert result.code == 1
    assert words in result.words
    assert "evict t main 0 whim me" in result.words


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_decided_and_settles(run: Callable[..., Result], path: Path) -> None:
    assert run("decide", path).code == 0
    result = run("decide", "--settle", "-o", "json", path)

    assert result.code == 0
    assert result.data["settled"]


def test_a_scenario_comes_from_standard_input(
    run: Callable[..., Result], write: Callable[..., Path]
) -> None:
    result = run("decide", "-", stdin=write("a=8", task("t")).read_bytes())

    assert result.code == 0
    assert "bind t main 0 a 0" in result.words


def test_standard_input_is_not_read_for_ever(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.config.files.FILE_MOST", 1 << 20)
    result = run("decide", "-", stdin=b"y\n" * (1 << 20))

    assert (result.code, result.out) == (2, "")
    assert result.err == "standard input: this is larger than 1 MiB; give less\n"


def test_shares_are_shown_with_their_size(run: Callable[..., Result]) -> None:
    result = run("decide", ROOT / "docs" / "examples" / "shares.yaml", "--settle")
    assert "serve main 0 shared 0 (25 %) 1-3 shared 1 (25 %)" in result.words
    assert "5 tasks bound" in result.words

    text = b"""
        nodes: [{name: a, gpus: 1, gpu_memory: 40Gi}]
        workloads: [{name: w, gpu_memory: 10Gi}]
    """
    assert "bind w main 0 a 0 (10Gi)" in run("decide", "-", stdin=text).words


def test_mig_devices_are_shown_with_their_slices(run: Callable[..., Result]) -> None:
    result = run("decide", ROOT / "docs" / "examples" / "shares.yaml")

    assert re.search(r"waits-for-a-slice main 0 cut [01]:[0-7]-[0-7]", result.words)


# -- bad input ------------------------------------------------------------------------------


def test_every_mistake_is_a_line(run: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("nodes: 3\npolicy: {small: nonsense}\nfoo: 1\n")
    result = run("decide", path)

    assert (result.code, result.out) == (2, "")
    lines = result.err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"{path}: ") for line in lines)
    assert [line for line in lines if "nodes: 3: give a list" in line]


@pytest.mark.parametrize("command", ["decide", "policy check", "policy show", "replay", "measure"])
@pytest.mark.parametrize("name", ["none.yaml", "", "zero\0byte", "x" * 5000])
def test_what_cannot_be_read_is_one_line(
    run: Callable[..., Result], tmp_path: Path, command: str, name: str
) -> None:
    result = run(*command.split(), f"{tmp_path}/{name}")

    assert (result.code, result.out) == (2, "")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("command", ["decide", "replay", "measure"])
def test_every_command_says_alike_what_is_no_file(
    run: Callable[..., Result], tmp_path: Path, command: str
) -> None:
    missing = tmp_path / "none"
    assert run(command, missing).err == f"{missing}: there is no such file\n"
    assert run(command, tmp_path).err == f"{tmp_path}: this is a folder; give a file\n"
    demo = run("demo", "--report", tmp_path)
    assert (demo.code, demo.err) == (2, f"--report {tmp_path}: this is a folder; give a file\n")
    page = missing / "a.html"
    demo = run("demo", "--report", page)
    assert (demo.code, demo.err) == (2, f"--report {page}: there is no folder {missing}\n")


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b"{", b"a: [", b"- " * 4000, b"\x00"])
def test_what_is_no_scenario_is_one_line(
    run: Callable[..., Result], tmp_path: Path, text: bytes
) -> None:
    path = tmp_path / "text"
    path.write_bytes(text)
    for result in (run("decide", path), run("decide", "-", stdin=text)):
        assert (result.code, result.out) == (2, "")
        assert result.err.count("\n") == 1


def test_a_file_without_permission_is_one_line(run: Callable[..., Result]) -> None:
    result = run("decide", "/proc/1/mem")
    assert (result.code, result.err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "words",
    [
        ["simulate", "--trace", "locked/x.csv"],
        ["simulate", "--trace", "philly-jobs", "--traces", "locked"],
        ["compare", "--policy", "locked/x.yaml"],
        ["simulate", "--policy", "order=locked/x.py:f"],
        ["traces", "list", "--traces", "locked"],
    ],
)
def test_a_folder_that_may_not_be_searched_is_one_line(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    stat = os.stat

    def refuse(path: object, *given: object, **more: object) -> object:
        if str(path).startswith("locked/"):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", refuse)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "locked").mkdir()
    result = run(*words)
    assert (result.code, result.out) == (2, "")
    assert re.fullmatch(r"locked/\S+: you have no right to this: .*\n", result.err)


def test_a_scenario_that_contradicts_itself_is_one_line(
    run: Callable[..., Result], write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the reader lets through and the engine does not take is bad input too."""
    scenario = Scenario(waiting=(task("t"), task("t")))
    monkeypatch.setattr(import_module("mooring.cli.main"), "load_scenario", lambda path: scenario)
    result = run("decide", "file")

    assert (result.code, result.err) == (2, "file: workload t is there already\n")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nonsense"],
        ["decide"],
        ["decide", "a", "b"],
        ["decide", "-o", "xml", "a"],
        ["decide", "--sett", "a"],
        ["policy"],
        ["policy", "check"],
        ["policy", "show", "-o", "xml", "a"],
        ["policy", "draw", "a"],
        ["experiment"],
        ["experiment", "openb", "--traces", ".", "--policy", "nonsense"],
        ["experiment", "openb", "--traces", ".", "--jobs", "0"],
        ["demo", "--cluster", "0"],
        ["demo", "--hours", "many"],
    ],
)
def test_wrong_arguments_are_bad_input(run: Callable[..., Result], argv: list[str]) -> None:
    result = run(*argv)

    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("mooring")
    assert result.err.endswith(" --help\n")
    assert len(result.err.splitlines()) == 1


def test_an_unknown_option_is_told_with_the_nearest(run: Callable[..., Result]) -> None:
    assert run("simulate", "--polcy", "fifo").err == (
        "mooring simulate: --polcy fifo: this means nothing here; did you mean '--policy'? "
        "All options: mooring simulate --help\n"
    )


# -- replay ---------------------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Return the journal of a short life."""
    path = tmp_path / "journal"
    start = Scenario(nodes=(node("a"), node("b")), waiting=(task("t", 8),))
    with Journal.create(path, start) as journal:
        engine = Recorder(begin(start, Engine), journal)
        engine.decide(0.0)
        engine.decide(1.0)
    return path


def test_a_journal_replays(run: Callable[..., Result], journal: Path) -> None:
    result = run("replay", journal)
    assert (result.code, result.err) == (0, "")
    assert result.words == f"{journal}: 1 record, 1 decision, every plan as it was."

    data = run("replay", "-o", "json", journal).data
    assert data == {"same": True, "records": 1, "decisions": 1, "differences": []}


def test_a_journal_comes_from_standard_input(run: Callable[..., Result], journal: Path) -> None:
    result = run("replay", "-", stdin=journal.read_bytes())

    assert result.code == 0
    assert result.words.startswith("standard input: 1 record")


def test_another_plan_is_a_negative_outcome(
    run: Callable[..., Result], journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Spreading(Engine):
        """The same engine with another policy."""

        def __init__(self, *args: Any) -> None:
            super().__init__(args[0], Policy(small="spread", gang="spread"), *args[2:])

        def decide(self, now: float) -> Any:
            self.observe(import_module("mooring.model.events").NodeLeft("a"))
            return super().decide(now)

    monkeypatch.setattr(import_module("mooring.cli.replay"), "Engine", Spreading)
    result = run("replay", journal)

    assert result.code == 1
    assert "record 0, at 0:" in result.out
    assert re.search(r"- bind t/main task 0 on a", result.out)
    assert re.search(r"\+ bind t/main task 0 on b", result.out)
    assert "1 plan came out otherwise." in result.words
    data = run("replay", "-o", "json", journal).data
    assert (data["same"], data["differences"][0]["record"]) == (False, 0)


def test_an_engine_that_fails_is_told(
    run: Callable[..., Result], journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Engine):
        """An engine that cannot decide."""

        def decide(self, now: float) -> Any:
            raise RuntimeError("no")

    monkeypatch.setattr(import_module("mooring.cli.replay"), "Engine", Failing)
    result = run("replay", journal)

    assert result.code == 2
    assert "the engine failed in record 0" in result.err
    assert result.err.count("\n") == 1


def test_what_is_no_journal_is_one_line(run: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("no journal")
    assert run("replay", path).err == f"{path}: this is not a journal: file is not a database\n"
    result = run("replay", "-", stdin=b"no journal")
    assert result.err == "standard input: this is not a journal: file is not a database\n"


# -- experiment -----------------------------------------------------------------------------


def test_the_study_gives_a_table(run: Callable[..., Result], tmp_path: Path) -> None:
    study = "experiment", "openb", "--traces", write_study(tmp_path), "--jobs", 1
    result = run(*study, "--policy", "first-fit", "fgd")

    assert (result.code, result.err) == (0, "")
    assert "default first-fit 2 50.00 ± 0.00 50.00 ± 0.00 fgd 2" in result.words
    assert re.search(r"4 runs in [\d.]+ s, [\d,]+ arrivals/s\.", result.words)


def test_the_study_gives_json(run: Callable[..., Result], tmp_path: Path) -> None:
    study = "experiment", "openb", "--traces", write_study(tmp_path), "-o", "json"
    result = run(
        *study, "--policy", "potential", "first-fit", "--seed", 2, 1, 2, "--file", "default"
    )

    runs = [(each["policy"], each["seed"]) for each in result.data]
    assert runs == [(p, s) for s in (2, 1) for p in ("potential", "first-fit")]
    assert all(set(each) == {"file", "policy", "seed", "gar"} for each in result.data)
    assert all(len(each["gar"]) == 131 for each in result.data)
    assert run(*study, "--seed", 1).data[0]["policy"] == "fgd"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--file", "none", "nope"],
            "no pod file none and nope with an order of arrival; there are default",
        ),
        (["--seed", "9"], "there is no order of default for seed 9"),
    ],
    ids=["file", "seed"],
)
def test_what_the_study_has_not_is_one_line(
    run: Callable[..., Result], tmp_path: Path, arguments: list[str], words: str
) -> None:
    result = run("experiment", "openb", "--traces", write_study(tmp_path), *arguments)

    assert (result.code, result.out, result.err) == (2, "", f"{tmp_path}: {words}\n")


@pytest.mark.parametrize("name", ["", "none"])
def test_a_folder_without_a_study_is_one_line(
    run: Callable[..., Result], tmp_path: Path, name: str
) -> None:
    result = run("experiment", "openb", "--traces", tmp_path / name)

    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)


def test_ctrl_c_leaves_what_is_done(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("mooring.cli.experiment")
    run_all = module.run_all

    def interrupted(*arguments: Any) -> Iterator[Any]:
        yield next(run_all(*arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_all", interrupted)
    study = "experiment", "openb", "--traces", write_study(tmp_path), "--jobs", 1
    result = run(*study, "-o", "json")

    assert (result.code, len(result.data)) == (130, 1)
    words = run(*study).words
    assert "1 run in" in words
    assert words.endswith(f" Broken off: 1 of {2 * len(POLICIES)} runs are done.")


# -- schema, version, help ------------------------------------------------------------------


def test_schema_prints_the_schema(run: Callable[..., Result]) -> None:
    assert run("schema").data == scenario_schema()
    assert run("schema", "--policy").data == policy_schema()


def test_version(run: Callable[..., Result]) -> None:
    result = run("--version")
    assert (result.code, result.out) == (0, f"mooring {mooring.__version__}\n")


def commands() -> list[tuple[str, ...]]:
    """Return every command."""
    return [
        (),
        ("decide",),
        ("defragment",),
        ("policy",),
        ("policy", "check"),
        ("policy", "show"),
        ("replay",),
        ("measure",),
        ("experiment",),
        ("experiment", "openb"),
        ("experiment", "philly"),
        ("experiment", "kant"),
        ("simulate",),
        ("compare",),
        ("sweep",),
        ("traces",),
        ("traces", "list"),
        ("traces", "convert"),
        ("demo",),
        ("run",),
        ("snapshot",),
        ("schema",),
    ]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_the_manual_has_the_help_of_every_command(
    run: Callable[..., Result], command: tuple[str, ...]
) -> None:
    result = run(*command, "--help")

    assert result.code == 0
    assert result.words in " ".join(PAGE.split())


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
def test_examples_of_the_manual_print_what_it_shows(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, command: str, output: str
) -> None:
    monkeypatch.chdir(ROOT)
    result = run(*command.split())

    assert [line.rstrip() for line in result.out.splitlines()] == output.splitlines()


def test_the_manual_shows_some_examples() -> None:
    assert len(SHOWN) >= 3


def test_no_command_is_missing_here() -> None:
    top = parser()
    (names,) = [action.choices for action in top._actions if isinstance(action.choices, dict)]
    assert {command[0] for command in commands() if command} == set(names)


# -- the end of everything ------------------------------------------------------------------


def test_ctrl_c_ends_quietly(
    run: Callable[..., Result], write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("mooring.cli.main"), "decide", interrupt)
    result = run("decide", write("a=8"))

    assert (result.code, result.err) == (130, "")


def test_ctrl_c_ends_quietly_also_while_all_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "mooring.cli", Slow())
    assert import_module("mooring.__main__").main() == 130


def test_all_mistakes_in_options_are_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--cluster", "-8", "--load", "x", "--mix", "labb", "--polciy", "fifo"]
    assert main(["simulate", *wrong]) == 2
    told = capsys.readouterr().err.splitlines()
    starts = [line.removeprefix("mooring simulate: ") for line in told]
    assert starts[0] == "argument --cluster: '-8' is no whole number from 8 to 1000000."
    assert starts[1] == "argument --load: 'x' is no number from 0."
    assert starts[2].startswith("argument --mix: invalid choice: 'labb'")
    assert starts[2].endswith("; did you mean 'lab'?")
    assert starts[3].startswith("--polciy fifo: this means nothing here; did you mean '--policy'?")
    assert starts[3].endswith("All options: mooring simulate --help")


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the real program, with an interpreter of its own."""
    line = command.replace("mooring", f"{sys.executable} -m mooring")
    env = {**os.environ, "COLUMNS": "80", **environment}
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=env, check=False
    )


def test_the_program_runs(write: Callable[..., Path]) -> None:
    path = write("a=8", task("t"))
    good = shell(f"mooring decide {path}")
    assert (good.returncode, good.stderr) == (0, "")
    assert "bind   t" in good.stdout

    bad = shell(f"mooring decide {path}.not")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "Traceback" not in bad.stderr


def test_a_reader_that_goes_away_is_no_disaster(write: Callable[..., Path]) -> None:
    for arguments in ("schema", f"decide {write('a=8', task('t'))}"):
        ended = shell(f"mooring {arguments} | true; exit ${{PIPESTATUS[0]}}")
        assert ended.returncode in (0, 141)
        assert ended.stderr == ""


def test_an_ascii_terminal_is_no_disaster(write: Callable[..., Path]) -> None:
    ended = shell(f"mooring decide {write('a=8', task('t'))}", PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_work_that_runs_without_room_is_shown_to_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two run on the devices of one: where the second is nobody knows, but it is charged."""
    path = tmp_path / "scenario.yaml"
    path.write_text(
        """
        nodes: [{name: y, gpus: 8}]
        workloads: [{name: v, gpus: 8, running: true}, {name: w, gpus: 8, running: true}]
        """,
        "utf-8",
    )
    assert main(["decide", str(path)]) == 0
    assert "w runs, but no node has room for it" in capsys.readouterr().out

    assert main(["decide", "-o", "json", str(path)]) == 0
    running = json.loads(capsys.readouterr().out)["running"]
    assert [(each["workload"], each["groups"][0]["nodes"]) for each in running] == [
        ("v", ["y"]),
        ("w", []),
    ]
