"""Runs in files, to be continued: a line about the file, then where the run stands.

What follows the line is the state of the engine itself, as it is in memory, so that a run that was
saved and continued does exactly what an unbroken one does. So only the very code that wrote a file
can read it; and, as with everything that is pickled, one must trust whoever wrote it.
"""

from __future__ import annotations

import io
import json
import marshal
import os
import pickle
import platform
import zlib
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mooring.model.columns import view
from mooring.sim.live import Live, State
from mooring.sim.own import files_of
from mooring.sim.release import digest_of, release
from mooring.sim.study import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import DTypeLike, NDArray

FORMAT = 1
_KIND = "mooring run"
_LONGEST_LINE = 1 << 16


class SavedError(Exception):
    """A saved run cannot be written, read or continued."""


class Saved(NamedTuple):
    """A run that was saved."""

    trial: Trial
    state: State
    files: Mapping[str, str]
    """Those that its work was read from, each with a digest."""


def save(live: Live, path: str | Path) -> None:
    """Write where a run stands; what was in the file is replaced whole, or not at all."""
    path, body = Path(path), io.BytesIO()
    try:
        _Pickler(body, pickle.HIGHEST_PROTOCOL).dump((live.trial, live.state()))
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
        raise SavedError(f"{path}: this run cannot be saved: {error}") from error
    packed = zlib.compress(body.getbuffer(), 1)
    line = {
        "kind": _KIND,
        "format": FORMAT,
        "code": _code(),
        "own": digest_of(files_of(live.trial.rules.own)),
        "files": dict(live.remarks.files),
        "now": max(live.run.loop.now, 0.0),
        "sha256": sha256(packed).hexdigest(),
    }
    new = path.with_name(path.name + ".new")
    try:
        new.write_bytes(json.dumps(line).encode() + b"\n" + packed)
        os.replace(new, path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise SavedError(f"{path}: this cannot be written: {error.strerror}") from error


def check_place(path: str | Path) -> None:
    """Raise an error if there is a file that is no saved run, which must not be replaced."""
    try:
        with Path(path).open("rb") as file:
            _line(path, file.readline(_LONGEST_LINE))
    except FileNotFoundError:
        return
    except OSError as error:
        raise SavedError(f"{path}: this cannot be read: {error.strerror}") from error
    except SavedError as error:
        raise SavedError(f"{error}; give the name of one, or a new name") from None


def load(path: str | Path) -> Saved:
    """Read a run that was saved; all that it goes on with must be as it was."""
    try:
        with Path(path).open("rb") as file:
            line, packed = _line(path, file.readline(_LONGEST_LINE)), file.read()
    except OSError as error:
        raise SavedError(f"{path}: this cannot be read: {error.strerror}") from error
    if line.get("format") != FORMAT:
        raise SavedError(
            f"{path}: its format is {line.get('format')}, and this release knows format {FORMAT}"
        )
    if line.get("code") != _code():
        raise SavedError(
            f"{path}: it was saved by {line.get('code')}, this is {_code()}: only the same code "
            "goes on as an unbroken run would"
        )
    if line.get("sha256") != sha256(packed).hexdigest():
        raise SavedError(f"{path}: the file is not complete, or was changed")
    trial, state = pickle.loads(zlib.decompress(packed))
    assert isinstance(trial, Trial)
    assert isinstance(state, State)
    if line.get("own") != digest_of(files_of(trial.rules.own)):
        what = "its own functions have changed since: put back what they were, or begin anew"
        raise SavedError(f"{path}: {what}")
    files = line.get("files", {})
    assert isinstance(files, dict)
    _check_files(path, files, trial.journal)
    return Saved(trial, state, files)


def _check_files(path: str | Path, files: Mapping[str, str], journal: str) -> None:
    """Raise an error if the files of a run are not here, or its work is not what it was."""
    needed = {journal: "it writes its journal to"} if journal else {}
    for file, what in (dict.fromkeys(files, "its work was read from") | needed).items():
        if not Path(file).is_file():
            fix = "go on in the folder where it was begun, or put the file there"
            raise SavedError(f"{path}: {what} {file}, and there is no such file: {fix}")
    for file, digest in files.items():
        if digest_of([Path(file)]) != digest:
            what = "has changed since it was saved: put back what it was, or begin anew"
            raise SavedError(f"{path}: {file} {what}")


def resume(saved: Saved, tick: Callable[[int], None]) -> Live:
    """Return the run where it stood; its trial may have another end or output."""
    try:
        live = Live(saved.trial, tick, saved.state)
    except ValueError as error:
        raise SavedError(f"the run cannot be continued: {error}") from error
    for file in dict(live.remarks.files):
        if file not in saved.files:
            what = "which was not there when it was saved: take it away, or begin anew"
            raise SavedError(f"its work would be read from {file} too, {what}")
    return live


def _line(path: str | Path, text: bytes) -> dict[str, object]:
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    if not isinstance(line, dict) or line.get("kind") != _KIND:
        raise SavedError(f"{path}: this is not a saved run")
    return line


def _code() -> str:
    """Return what the outcome of a run depends on: our code to the letter, Python and numpy."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"{release()}, Python {python}, numpy {np.__version__}"


class _Pickler(pickle.Pickler):
    """Keeps what columns, parts of them and views of them have in common: their memory.

    Functions that were made inside of others are written with their code and what they enclose:
    whoever reads them has the same code.
    """

    def reducer_override(self, value: Any) -> Any:
        """Return how a value is made again; most are made as usual."""
        if type(value) is memoryview:
            return view, (value.obj,)
        if type(value) is np.ndarray and isinstance(value.base, np.ndarray):
            base = value.base
            offset = _address(value) - _address(base)
            return _part, (base, offset, value.shape, value.strides, value.dtype)
        if type(value) is FunctionType and "<" in value.__qualname__:
            code, cells = marshal.dumps(value.__code__), value.__closure__ or ()
            return _function, (code, value.__module__, value.__defaults__, cells)
        if type(value) is CellType:
            return _cell, (), value.cell_contents, None, None, _fill
        return NotImplemented


def _function(
    code: bytes, module: str, defaults: tuple[Any, ...] | None, cells: tuple[CellType, ...]
) -> FunctionType:
    """Return a function that was made inside of another."""
    names = import_module(module).__dict__
    return FunctionType(marshal.loads(code), names, None, defaults, cells)


def _cell() -> CellType:
    return CellType()


def _fill(cell: CellType, contents: object) -> None:
    cell.cell_contents = contents


def _address(column: NDArray[Any]) -> int:
    address: int = column.__array_interface__["data"][0]
    return address


def _part(
    base: NDArray[Any],
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    kind: DTypeLike,
) -> NDArray[Any]:
    """Return a part of a column, in the same memory."""
    flat = base if base.flags.c_contiguous else base.T
    return np.ndarray(shape, kind, flat, offset, strides)
