"""Build and check the manual: write what is generated, then look for links that lead nowhere.

`make docs` writes the JSON schemas of the files and the help texts of the command line; with
`--check` nothing is written, and what is out of date is told.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path

from mooring.cli.main import main as mooring
from mooring.config import policy_schema, scenario_schema
from mooring.sim.traces import trace_schema

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HELP = re.compile(r"^```text\nusage: mooring(?P<command>(?: [a-z]+)*).*?^```$", re.M | re.S)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


def generated() -> dict[Path, str]:
    """Return every file of the manual that is generated, wholly or in part, as it should be."""
    page = DOCS / "cli.md"
    return {
        DOCS / "scenario.schema.json": _text(scenario_schema()),
        DOCS / "policy.schema.json": _text(policy_schema()),
        DOCS / "trace.schema.json": _text(trace_schema()),
        page: HELP.sub(lambda found: _help(found["command"].split()), page.read_text("utf-8")),
    }


def _text(schema: object) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _help(command: list[str]) -> str:
    os.environ["COLUMNS"] = "80"
    out = io.StringIO()
    with redirect_stdout(out):
        mooring([*command, "--help"])
    return f"```text\n{out.getvalue().rstrip()}\n```"


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
