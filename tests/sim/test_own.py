"""Own functions by import path: how they are found, and what is said of their mistakes."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from mooring.engine import Engine
from mooring.model.events import NodeJoined, Submitted
from mooring.model.plan import Bind
from mooring.model.workload import Workload
from mooring.sim.errors import StudyError
from mooring.sim.own import Said, own_of
from tests.build import picture, task

if TYPE_CHECKING:
    from pathlib import Path

    from mooring.policy.own import Own

GOOD = """
import neighbour

def order(workload): return neighbour.LENGTH * len(workload.name)
def score(nodes, task): return nodes.index
def filter(nodes, task): return nodes.gpus == 2
def any_way(*what): return 0.0
class Later:
    def __call__(self, workload): return 7
later = Later()
LENGTH = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder; what is put into the search path is taken out again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "neighbour.py").write_text("LENGTH = 2\n")
    return tmp_path


def bound(own: Own) -> list[str]:
    """Return where a task goes in a small cluster."""
    topology, nodes = picture("a=1 b=4 c=2")
    engine = Engine(topology, own=own)
    for each in nodes:
        engine.observe(NodeJoined(each))
    engine.observe(Submitted(task("t", 1)))
    return [
        name
        for decision in engine.decide(0.0).decisions
        if isinstance(decision, Bind)
        for name in decision.placement.nodes
    ]


@pytest.mark.parametrize("place", ["good_policy", "good_policy.py", "./good_policy.py"])
def test_a_module_of_this_folder_or_a_file(folder: Path, place: str) -> None:
    (folder / "good_policy.py").write_text(GOOD)
    own = own_of((("order", f"{place}:order"), ("score", f"{place}:score")))
    assert own.order is not None
    assert own.order(Workload("abc", ())) == 6.0
    assert own.filter is None
    assert bound(own) == ["c"]
    assert bound(own_of((("filter", f"{place}:filter"),))) == ["c"]
    assert own_of((("order", f"{place}:later"),)).order is not None
    assert bound(own_of((("order", f"{place}:any_way"),)))


def test_what_is_sent_away_or_saved_is_the_path(folder: Path) -> None:
    (folder / "sent.py").write_text("def score(nodes, task): return nodes.index\n")
    own = own_of((("score", "sent.py:score"),))
    assert bound(pickle.loads(pickle.dumps(own))) == bound(own) == ["c"]


HERE = "--policy order=bad.py:"
WRONG = {
    "nowhere.py:f": "--policy order=nowhere.py:f: there is no file nowhere.py",
    "no_such_module:f": "there is no module no_such_module here, nor one that is installed",
    "bad.py": "--policy order=bad.py: write order=FILE.py:FUNCTION or order=MODULE:FUNCTION",
    "bad.py:": f"{HERE}: write order=FILE.py:FUNCTION or order=MODULE:FUNCTION",
    "bad.py:g": f"{HERE}g: there is no function g in bad.py",
    "bad.py:NUMBER": f"{HERE}NUMBER: there is no function NUMBER in bad.py",
    "bad.py:two": (
        f"{HERE}two: it cannot be called with workload: two(a, b); write def two(workload)"
    ),
    "broken.py:f": (
        "broken.py cannot be imported: SyntaxError: '(' was never closed (broken.py, line 1)"
    ),
    "falls.py:f": "falls.py cannot be imported: ZeroDivisionError: division by zero",
    "needs.py:f": "needs.py cannot be imported: ModuleNotFoundError: No module named 'nobody_has'",
    "needs:f": "needs cannot be imported: ModuleNotFoundError: No module named 'nobody_has'",
}


@pytest.mark.parametrize("path", WRONG)
def test_mistakes_before_a_run(folder: Path, path: str) -> None:
    (folder / "bad.py").write_text("NUMBER = 1\ndef two(a, b): return 1\n")
    (folder / "broken.py").write_text("f = (\n")
    (folder / "falls.py").write_text("f = 1 / 0\n")
    (folder / "needs.py").write_text("import nobody_has\n")
    with pytest.raises(StudyError) as told:
        own_of((("order", path),))
    assert WRONG[path] in str(told.value)
    assert str(told.value).startswith(f"--policy order={path}: ")


RESULTS = [
    ("order", "1 / 0", "it raises ZeroDivisionError: division by zero (wrong.py, line 2)"),
    ("order", "'x'", "it returns 'x' for t; return a number, the smallest is first"),
    ("order", "float('nan')", "it returns nan for t; return a number, the smallest is first"),
    ("order", "10 ** 400", "it returns a number for t that is too large; return a float"),
    ("order", "10 ** 5000", "it returns a number for t that is too large; return a float"),
    ("score", "1.0", "it returns a single value for 3 nodes; return an array, one number a node"),
    ("score", "nodes.gpus[:2]", "it returns 2 for 3 nodes; return an array, one number a node"),
    ("score", "['x'] * 3", "it returns no numbers; return an array, one number a node"),
    ("score", "[0, float('nan'), 1]", "it returns no number (NaN) for b; return one for every"),
    ("score", "[0, 10 ** 400, 1]", "it returns a number that is too large; return floats, one a"),
    ("score", "nodes.domain('row')", "it raises ValueError: there is no level 'row'"),
    ("filter", "True", "it returns a single value for 3 nodes; return an array, one truth value"),
    ("filter", "[[1], [1, 0], 1]", "it returns no truth values; return an array, one truth value"),
    ("filter", "[1, 0, 1]", "it returns int64; return booleans, True where a task may go"),
    ("filter", "nodes.free_gpus > 1", "it raises AttributeError: 'NodeFacts' object has no"),
]


@pytest.mark.parametrize(("kind", "result", "expected"), RESULTS)
def test_mistakes_of_what_is_returned(folder: Path, kind: str, result: str, expected: str) -> None:
    takes = "workload" if kind == "order" else "nodes, task"
    (folder / "wrong.py").write_text(f"def f({takes}):\n    return {result}\n")
    with pytest.raises(StudyError) as told:
        bound(own_of(((kind, "wrong.py:f"),)))
    assert str(told.value).startswith(f"--policy {kind}=wrong.py:f: {expected}")


def test_infinite_scores_are_numbers(folder: Path) -> None:
    (folder / "far.py").write_text("def f(nodes, task): return [float('-inf'), 0, float('inf')]\n")
    assert bound(own_of((("score", "far.py:f"),))) == ["c"]


SAID = [
    ("default", Said("", "default")),
    ("mine=fifo", Said("mine", "fifo")),
    ("order=a.py:f", Said("", "", (("order", "a.py:f"),))),
    ("mine=order=a.py:f", Said("mine", "", (("order", "a.py:f"),))),
    ("fifo,score=a:f", Said("", "fifo", (("score", "a:f"),))),
    (
        "x=p.yaml,filter=./b.py:g,order=a:f",
        Said("x", "p.yaml", (("filter", "./b.py:g"), ("order", "a:f"))),
    ),
]


@pytest.mark.parametrize(("text", "expected"), SAID)
def test_a_policy_with_functions_is_read(text: str, expected: Said) -> None:
    assert Said.of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("default,order=a:f,order=b:f", "order is given twice; leave one out"),
        ("default,sort=a:f", "'sort=a:f' is none of order=, score=, filter= with a path"),
    ],
)
def test_a_policy_that_cannot_be_read(text: str, expected: str) -> None:
    with pytest.raises(StudyError) as told:
        Said.of(text)
    assert str(told.value) == f"--policy {text}: {expected}"
