"""Hold the tail short: limits on functions, and calls that the core may not make.

Not a style check (ruff does that) and not an import check (import-linter does that). A function
over a limit passes if a comment on its def line, or directly above it, says why:
`# long: why`, `# wide: why` or `# deep: why`.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_LINES = 60
MOST_PARAMETERS = 5
MOST_NESTING = 3
CORE = ("model", "policy", "engine", "metrics")
BANNED_CALLS = frozenset({"open", "input", "eval", "exec", "print", "__import__"})

Function = ast.FunctionDef | ast.AsyncFunctionDef
_APART = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_BLOCKS = (
    ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith,
    ast.Try, ast.TryStar, ast.Match,
)  # fmt: skip


def violations(source: str, path: Path) -> list[str]:
    """Return one line for each thing in `source` that breaks a rule."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return [f"{path}:{error.lineno}: does not parse: {error.msg}"]
    lines = source.splitlines()
    found = [*_over_limits(tree, lines)]
    if is_core(path):
        found += _banned_calls(tree)
    return [f"{path}:{line}: {what}" for line, what in sorted(found)]


def is_core(path: Path) -> bool:
    """Tell whether a file belongs to a part of the core: `mooring/engine.py`, `mooring/model/`."""
    below = path.parts[path.parts.index("mooring") + 1 :] if "mooring" in path.parts else ()
    return bool(below) and below[0].removesuffix(".py") in CORE


def _over_limits(tree: ast.Module, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, Function):
            continue
        comments = _comments(node, lines)
        for word, size, most, unit in (
            ("long", _length(node), MOST_LINES, "lines"),
            ("wide", _width(node), MOST_PARAMETERS, "parameters"),
            ("deep", _depth(node), MOST_NESTING, "levels of nesting"),
        ):
            if size > most and not re.search(rf"#\s*{word}:\s*\w", comments):
                what = f"{size} {unit}, at most {most} (or `# {word}: why`)"
                yield node.lineno, f"{node.name}: {what}"


def _banned_calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in BANNED_CALLS:
                yield node.lineno, f"{name}() in the core"


def _comments(node: Function, lines: Sequence[str]) -> str:
    """Return the def line and the comment lines directly above the def and its decorators."""
    found = [lines[node.lineno - 1]]
    for first in {node.lineno, *(decorator.lineno for decorator in node.decorator_list)}:
        above = first - 2
        while above >= 0 and lines[above].lstrip().startswith("#"):
            found.append(lines[above])
            above -= 1
    return "\n".join(found)


def _length(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _width(node: Function) -> int:
    """Count parameters; `self`, `cls`, `*args` and `**kwargs` do not count."""
    positional = [*node.args.posonlyargs, *node.args.args]
    own = bool(positional) and positional[0].arg in {"self", "cls"}
    return len(positional) - own + len(node.args.kwonlyargs)


def _depth(node: ast.AST) -> int:
    """Return the deepest nesting of blocks; functions and classes inside count apart."""
    return max((_depth_from(node, child) for child in ast.iter_child_nodes(node)), default=0)


def _depth_from(parent: ast.AST, node: ast.AST) -> int:
    if isinstance(node, _APART):
        return 0
    counts = isinstance(node, _BLOCKS) and not _is_elif(parent, node)
    return counts + _depth(node)


def _is_elif(parent: ast.AST, node: ast.AST) -> bool:
    """Tell an `elif` from an `if` inside an `else`: it starts in the column of its parent."""
    return (
        isinstance(parent, ast.If)
        and isinstance(node, ast.If)
        and node.col_offset == parent.col_offset
    )


def main(roots: Sequence[str]) -> int:
    """Print every violation below the given folders; return 1 if there is one."""
    files = sorted(file for root in roots or ["src"] for file in Path(root).rglob("*.py"))
    found = [line for file in files for line in violations(file.read_text("utf-8"), file)]
    print("\n".join([*found, f"Limits: {len(files)} files, {len(found)} violations."]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
