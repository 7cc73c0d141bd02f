"""The page on traces: its examples are read, and it names everything."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from subprocess import run

import pytest
from jsonschema import Draft202012Validator

from mooring.cli.main import main
from mooring.sim.traces import FAMILIES, read_trace, trace_schema
from mooring.sim.traces.columns import NODES, QUEUES, WORKLOADS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "traces.md").read_text("utf-8")
TABLES = {"workloads": WORKLOADS, "nodes": NODES, "queues": QUEUES}


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_examples_make_a_trace(tmp_path: Path) -> None:
    workloads, nodes, queues = blocks("csv")
    for name, text in (("week", workloads), ("week.nodes", nodes), ("week.queues", queues)):
        (tmp_path / f"{name}.csv").write_text(text)
    load = read_trace(str(tmp_path / "week.csv"), "").load

    assert [a.workload.name for a in load.arrivals] == ["train", "notebook", "batch"]
    assert [node.path for node in load.nodes] == [("b0", "l0"), ("b0", "l1")]
    assert [queue.name for queue in load.queues] == ["org", "research", "default"]
    assert workloads == (ROOT / "docs" / "examples" / "week.csv").read_text("utf-8")


def test_the_lines_of_json_make_a_trace(tmp_path: Path) -> None:
    (text,) = blocks("jsonl")
    (tmp_path / "a.jsonl").write_text(text)
    load = read_trace(str(tmp_path / "a.jsonl"), "").load

    assert [(a.workload.name, len(a.workload.groups)) for a in load.arrivals] == [
        ("train", 1),
        ("serve", 1),
        ("llm", 2),
    ]
    for line in text.splitlines():
        Draft202012Validator(trace_schema()).validate(json.loads(line))


def test_the_program_runs() -> None:
    (text,) = blocks("python")
    done = run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "week 4 nodes, 0 broken rows",
        "0.0 train 86400.0",
        "60.5 notebook 7200.0",
        "120.0 batch 600.0",
    ]


def test_the_broken_rows_are_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("jobs.csv").write_text("name,at,run_s\na,0,1\nb,0,soon\nc,0,1\na,0,1\n")
    assert main(["traces", "convert", "jobs.csv", "out.csv"]) == 2
    assert capsys.readouterr().err in PAGE


@pytest.mark.parametrize("table", TABLES)
def test_the_page_names_every_column(table: str) -> None:
    made = TABLES[table]
    rows = [(f"`{key}`", words) for key, (_, words) in made.columns.items()]
    rows += [(f"`{key}…`", words) for key, (_, words) in made.prefixes.items()]
    for key, words in rows:
        said = words.replace("|", "\\|")
        assert re.search(rf"^\| {re.escape(key)}.*\| {re.escape(said)} \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_page_names_every_trace(family: object) -> None:
    for word in ("name", "folder", "stem", "repository", "path"):
        assert getattr(family, word) in PAGE


def test_the_published_schema_is_this_one() -> None:
    """If not: make docs"""
    published = (ROOT / "docs" / "trace.schema.json").read_text("utf-8")
    assert json.loads(published) == trace_schema()
