"""The house rules can fail: each is fed something that breaks it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mooring
from tools.limits import CORE, main, violations

ROOT = Path(__file__).parents[1]
CODE = Path("src/mooring/sim/code.py")


def nest(*openings: str, innermost: str = "pass") -> str:
    """Return a function whose blocks lie one in the other."""
    lines = ["def f(x):", *openings, innermost]
    return "\n".join("    " * depth + line for depth, line in enumerate(lines))


def body(lines: int, before: str = "") -> str:
    """Return a function of so many lines."""
    return before + "def f():\n" + "    pass\n" * (lines - 1)


CONFORMING = {
    "60 lines": body(60),
    "five parameters": "def f(a, /, b, *, c, d, e): pass",
    "self is not counted": "class C:\n    def f(self, a, b, c, d, e): pass",
    "cls is not counted": "class C:\n    @classmethod\n    def f(cls, a, b, c, d, e): pass",
    "args and kwargs are not counted": "def f(a, b, c, d, e, *args, **kwargs): pass",
    "three levels": nest("for y in x:", "if y:", "with y:"),
    "elif counts once": nest("for y in x:", "while y:")
    + "\n            if y: pass\n            elif x: pass\n            elif 1: pass",
    "a function inside counts apart": nest("if x:", "if x:", "if x:", "def g():", "if x:", "if x:"),
    "long, with its reason": body(61, "# long: a table\n"),
    "wide, on the def line": "def f(a, b, c, d, e, g):  # wide: a constructor\n    pass",
    "deep, above a decorator": "# deep: why not\n@cache\n" + nest(*["if x:"] * 4),
    "two reasons": "# long: a table\n# wide: its columns\n"
    + body(61).replace("f()", "f(a, b, c, d, e, g)"),
    "open outside the core": "open('x')",
}

VIOLATING = {
    "61 lines": (body(61), "61 lines"),
    "a reason without words": (body(61, "# long:\n"), "61 lines"),
    "a reason for something else": (body(61, "# wide: why\n"), "61 lines"),
    "a reason further away": (body(61, "# long: a table\n\n"), "61 lines"),
    "six parameters": ("def f(a, /, b, c, *, d, e, g): pass", "6 parameters"),
    "six beside self": (
        "class C:\n    async def f(self, a, b, c, d, e, g): pass",
        "6 parameters",
    ),
    "four levels": (nest("for y in x:", "while y:", "with y:", "if y:"), "4 levels"),
    "match is one level": (nest("if x:", "match x:", "case 1:", "if x:", "if x:"), "4 levels"),
    "if inside else is a level": (
        nest("for y in x:", "for z in y:") + "\n            if z: pass\n            else:"
        "\n                if y: pass\n                if x: pass",
        "4 levels",
    ),
    "four levels in an except": (
        "def f(x):\n    try: pass\n    except E:\n        for y in x:\n            for z in y:\n"
        "                if z: pass",
        "4 levels",
    ),
    "half-written": ("def f(:", "does not parse"),
}


@pytest.mark.parametrize("source", CONFORMING.values(), ids=CONFORMING)
def test_limits_pass(source: str) -> None:
    assert violations(source, CODE) == []


@pytest.mark.parametrize(("source", "said"), VIOLATING.values(), ids=VIOLATING)
def test_limits_fail(source: str, said: str) -> None:
    (line,) = violations(source, CODE)
    assert line.startswith(f"{CODE}:")
    assert said in line


@pytest.mark.parametrize("call", ["open", "input", "eval", "exec", "print", "__import__"])
@pytest.mark.parametrize("part", CORE)
def test_core_may_not_call(part: str, call: str) -> None:
    for file in (f"src/mooring/{part}.py", f"src/mooring/{part}/deep/code.py"):
        assert violations(f"x = 1\n{call}('x')", Path(file)) == [f"{file}:2: {call}() in the core"]


def test_limits_say_where_and_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("x = 1\n" + body(61))
    assert main([str(tmp_path)]) == 1
    assert f"{bad}:2: f: 61 lines" in capsys.readouterr().out
    bad.write_text(body(60))
    assert main([str(tmp_path)]) == 0


@pytest.fixture(scope="module")
def broken_contract(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what the import contract says of a copy of the code with forbidden imports in it."""
    src = tmp_path_factory.mktemp("src")
    package = src / "mooring"
    shutil.copytree(ROOT / "src/mooring", package, ignore=shutil.ignore_patterns("__pycache__"))
    for part in CORE:
        add_import(package, part, "import time")
    add_import(package, "policy", "import mooring.engine")
    add_import(package, "engine", "import mooring.metrics")
    add_import(package, "sim", "import mooring.model")
    add_import(package, "kube", "import mooring.sim")
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"),
            *("--config", str(ROOT / "pyproject.toml"), "--no-cache"),
        ],
        cwd=src,
        env=os.environ | {"COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def add_import(package: Path, part: str, line: str) -> None:
    """Add an import to a part of the package, whether it is a folder, a file or not there yet."""
    folder = package / part
    file = folder / "__init__.py" if folder.is_dir() else package / f"{part}.py"
    with file.open("a") as out:
        out.write(f"\n{line}\n")


@pytest.mark.parametrize("part", CORE)
def test_contract_keeps_the_clock_out_of(part: str, broken_contract: str) -> None:
    assert f"mooring.{part} is not allowed to import time" in broken_contract


@pytest.mark.parametrize(
    ("part", "other"), [("policy", "engine"), ("engine", "metrics"), ("kube", "sim")]
)
def test_contract_keeps_the_layers(part: str, other: str, broken_contract: str) -> None:
    assert f"mooring.{part} is not allowed to import mooring.{other}" in broken_contract


def test_version_is_said_once_in_two_places() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == (
        mooring.__version__
    )
