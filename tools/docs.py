"""Build and check the manual: write what is generated, then look for links that lead nowhere.

`make docs` writes the JSON schemas of the files, the help texts of the command line and what the
simulations of the manual print; with `--check` nothing is written, and what is out of date is told.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from mooring.cli.main import main as mooring
from mooring.config import policy_schema, scenario_schema
from mooring.sim.traces import trace_schema

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HELP = re.compile(r"^```text\nusage: mooring(?P<command>(?: [a-z]+)*).*?^```$", re.M | re.S)
RUN = re.compile(r"^```console\n\$ mooring (?P<command>[^\n]*)\n(?P<told>.*?)^```$", re.M | re.S)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
TOOK = re.compile(r"in \d+\.\d s\.$", re.M)
"""The last words of a run, which differ from time to time."""
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


def generated() -> dict[Path, str]:
    """Return every file of the manual that is generated, wholly or in part, as it should be."""
    page, runs = DOCS / "cli.md", [DOCS / "simulate.md", DOCS / "own-policy.md"]
    return {
        DOCS / "scenario.schema.json": _text(scenario_schema()),
        DOCS / "policy.schema.json": _text(policy_schema()),
        DOCS / "trace.schema.json": _text(trace_schema()),
        page: HELP.sub(lambda found: _help(found["command"].split()), page.read_text("utf-8")),
        **{each: _with_runs(each.read_text("utf-8")) for each in runs},
    }


def _with_runs(text: str) -> str:
    """Return a page with what its simulations print, run where its Python is in `mine.py`."""

    def told(found: re.Match[str]) -> str:
        out = _told(found["command"].split())
        is_same = TOOK.sub("", out) == TOOK.sub("", found["told"])
        return found[0] if is_same else f"```console\n$ mooring {found['command']}\n{out}```"

    with TemporaryDirectory() as folder, chdir(folder):
        sys.path.insert(0, folder)
        try:
            Path("mine.py").write_text("".join(PYTHON.findall(text)), "utf-8")
            return RUN.sub(told, text)
        finally:
            sys.path.remove(folder)


def _text(schema: object) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _help(command: list[str]) -> str:
    return f"```text\n{_told([*command, '--help']).rstrip()}\n```"


def _told(words: list[str]) -> str:
    """Return what a command prints on a terminal of 80 columns."""
    os.environ["COLUMNS"] = "80"
    out = io.StringIO()
    with redirect_stdout(out):
        mooring(words)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def broken_links() -> list[str]:
    """Return the links between pages that lead nowhere."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    return [
        f"{page.relative_to(ROOT)}: there is no {link}"
        for page in pages
        for link in LINK.findall(page.read_text("utf-8"))
        if not (page.parent / link).exists()
    ]


def main(arguments: list[str]) -> int:
    """Write or check; return how many things are wrong."""
    wrong = broken_links()
    for path, text in generated().items():
        if path.read_text("utf-8") == text:
            continue
        if "--check" in arguments:
            wrong.append(f"{path.relative_to(ROOT)} is out of date: run `make docs`")
        else:
            path.write_text(text, "utf-8")
            print(f"written: {path.relative_to(ROOT)}")
    print(*wrong or ["The manual is up to date."], sep="\n")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
