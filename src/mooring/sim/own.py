"""Own functions of a policy, by import path: `FILE.py:FUNCTION` or `MODULE:FUNCTION`.

A path stays text until a run begins, so that it can go to other processes. What is found there is
wrapped: whatever it does wrong is told with the option, its value and what to do instead. What it
prints goes to standard error: the results are on standard output.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import import_module, invalidate_caches
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from inspect import signature
from math import isnan, nan
from numbers import Real
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

import numpy as np

from mooring.policy.own import Own
from mooring.sim.errors import StudyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from mooring.model.columns import Bools, Floats
    from mooring.model.workload import Workload
    from mooring.policy.own import NodeFacts, NodeStates, Task

ORDER, SCORE, FILTER = "order", "score", "filter"
KINDS = {ORDER: ("workload",), SCORE: ("nodes", "task"), FILTER: ("nodes", "task")}
"""What there is, and what each is called with."""
Paths = tuple[tuple[str, str], ...]
"""(kind, import path) pairs."""


@dataclass(frozen=True, slots=True)
class Said:
    """A policy as text: `[NAME=][POLICY][,order=PATH][,score=PATH][,filter=PATH]`."""

    name: str
    """Empty: none is given."""
    policy: str
    own: Paths = ()

    @classmethod
    def of(cls, text: str) -> Said:
        """Read one; which policies there are is not looked at."""
        name, sign, rest = text.partition("=")
        if not sign or "," in name or name in KINDS:
            name, rest = "", text
        own, others = dict[str, str](), list[str]()
        for piece in rest.split(","):
            kind, _, path = piece.partition("=")
            if kind not in KINDS:
                others.append(piece)
            elif kind in own:
                raise StudyError(f"--policy {text}: {kind} is given twice; leave one out")
            else:
                own[kind] = path
        if len(others) > 1 and not Path(rest).is_file():
            known = ", ".join(f"{kind}=" for kind in KINDS)
            raise StudyError(f"--policy {text}: {others[1]!r} is none of {known} with a path")
        return cls(name, ",".join(others), tuple(own.items()))

    @property
    def functions(self) -> list[str]:
        """Return the names of the functions."""
        return [path.rpartition(":")[2] for _, path in self.own]


def own_of(paths: Paths) -> Own:
    """Return the functions at these paths, ready to be handed to an engine."""
    given = dict(paths)
    return Own(
        _Order(given[ORDER]) if ORDER in given else None,
        _Score(given[SCORE]) if SCORE in given else None,
        _Filter(given[FILTER]) if FILTER in given else None,
    )


def files_of(paths: Paths) -> list[Path]:
    """Return the files that the functions at these paths are in."""
    return [_file_of(path.rpartition(":")[0]) for _, path in paths]


def _file_of(place: str) -> Path:
    if Path(place).is_file():
        return Path(place)
    with _first(Path.cwd()):
        spec = find_spec(place)
    return Path(spec.origin or "") if spec else Path(place)


class _Given:
    """A function of a user; where an engine is saved or sent away, only its path goes along."""

    kind = ""

    def __init__(self, path: str) -> None:
        self._path = path
        self._function = self._find()

    def __reduce__(self) -> tuple[type[_Given], tuple[str]]:
        return type(self), (self._path,)

    def wrong(self, what: str) -> StudyError:
        """Return a mistake of the user."""
        return StudyError(f"--policy {self.kind}={self._path}: {what}")

    def call(self, *given: object) -> Any:
        """Call the function; what it raises is told with file and line."""
        out, sys.stdout = sys.stdout, sys.stderr
        try:
            return self._function(*given)
        except Exception as error:
            at = extract_tb(error.__traceback__)[-1]
            where = f"{Path(at.filename).name}, line {at.lineno}"
            raise self.wrong(f"it raises {_told(error)} ({where})") from error
        finally:
            sys.stdout = out

    def _find(self) -> Callable[..., Any]:
        place, _, name = self._path.rpartition(":")
        if not place or not name.isidentifier():
            raise self.wrong(f"write {self.kind}=FILE.py:FUNCTION or {self.kind}=MODULE:FUNCTION")
        found: Callable[..., Any] | None = getattr(self._module(place), name, None)
        if not callable(found):
            raise self.wrong(f"there is no function {name} in {place}")
        wanted = KINDS[self.kind]
        try:
            signature(found).bind(*wanted)
        except TypeError:
            text = f"{name}{signature(found)}; write def {name}({', '.join(wanted)})"
            raise self.wrong(f"it cannot be called with {' and '.join(wanted)}: {text}") from None
        except ValueError:
            pass  # it does not say what it takes
        return found

    def _module(self, place: str) -> ModuleType:
        path = Path(place)
        is_file = place.endswith(".py") or path.is_file()
        if is_file and not path.is_file():
            raise self.wrong(f"there is no file {place}")
        try:
            return _from_file(path) if is_file else _from_name(place)
        except ModuleNotFoundError as error:
            if not is_file and error.name and f"{place}.".startswith(f"{error.name}."):
                what = f"there is no module {error.name} here, nor one that is installed"
                raise self.wrong(what) from None
            raise self.wrong(f"{place} cannot be imported: {_told(error)}") from error
        except Exception as error:
            raise self.wrong(f"{place} cannot be imported: {_told(error)}") from error


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _from_name(name: str) -> ModuleType:
    with _first(Path.cwd()):
        invalidate_caches()
        return import_module(name)


def _from_file(path: Path) -> ModuleType:
    """Run a file as a module of its own, whatever is called the same; it finds its neighbours."""
    spec = spec_from_file_location(f"own policy {path}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses in it look there
    with _first(path.parent.resolve()):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _first(folder: Path) -> Iterator[None]:
    """Let modules be imported from a folder: first for now, and from then on last."""
    sys.path.insert(0, str(folder))
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.path.remove(str(folder))
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


class _Order(_Given):
    kind = ORDER

    def __call__(self, workload: Workload) -> float:
        key = self.call(workload)
        try:
            found = float(key) if isinstance(key, Real) else nan
        except OverflowError:
            what = f"it returns a number for {workload.name} that is too large; return a float"
            raise self.wrong(f"{what}, the smallest is first") from None
        if isnan(found):
            what = f"it returns {key!r} for {workload.name}; return a number, the smallest is first"
            raise self.wrong(what)
        return found


class _Score(_Given):
    kind = SCORE

    def __call__(self, nodes: NodeStates, task: Task) -> Floats:
        found = self.call(nodes, task)
        try:
            values: Floats = np.asarray(found, np.float64)
        except (TypeError, ValueError):
            raise self.wrong("it returns no numbers; return an array, one number a node") from None
        except OverflowError:
            what = "it returns a number that is too large; return floats, one a node"
            raise self.wrong(what) from None
        if values.shape != (len(nodes),):
            raise self.wrong(_shape(values, nodes, "number"))
        if np.isnan(values).any():
            name = nodes.names[int(np.isnan(values).argmax())]
            raise self.wrong(f"it returns no number (NaN) for {name}; return one for every node")
        return values


class _Filter(_Given):
    kind = FILTER

    def __call__(self, nodes: NodeFacts, task: Task) -> Bools:
        given = self.call(nodes, task)
        try:
            found = np.asarray(given)
        except ValueError:
            what = "it returns no truth values; return an array, one truth value a node"
            raise self.wrong(what) from None
        if found.shape != (len(nodes),):
            raise self.wrong(_shape(found, nodes, "truth value"))
        if found.dtype != np.bool_:
            what = f"it returns {found.dtype}; return booleans, True where a task may go"
            raise self.wrong(what)
        return found


def _shape(found: np.ndarray[Any, Any], nodes: NodeFacts, of: str) -> str:
    got = " × ".join(map(str, found.shape)) or "a single value"
    return f"it returns {got} for {len(nodes)} nodes; return an array, one {of} a node"
