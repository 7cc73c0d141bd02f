"""Files that a command writes at its end."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mooring.sim.errors import StudyError, each_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class Place(NamedTuple):
    """A file that is to be written, by which option; no path: it is not asked for."""

    option: str
    path: str
    ends: tuple[str, ...] = ()
    """How its name may end, so that no file of another kind is replaced; none: anyhow."""
    with_others: bool = False
    """For a time there are other files beside it."""


def need_places(*places: Place) -> None:
    """See, before anything is run, that these files can be there; mistakes are told together."""
    asked = [place for place in places if place.path]
    each_of([*(partial(_need_folder, place) for place in asked), partial(_need_apart, asked)])


def _need_folder(place: Place) -> None:
    option, path, ends, with_others = place
    file = Path(path)
    if os.path.isdir(file):
        raise StudyError(f"{option} {path}: this is a folder; give a file")
    if ends and file.suffix not in ends:
        raise StudyError(f"{option} {path}: give a name that ends in {' or '.join(ends)}")
    if not os.path.isdir(file.parent):
        raise StudyError(f"{option} {path}: there is no folder {file.parent}")
    is_old = os.path.exists(file) and not with_others
    if not may_write(file if is_old else file.parent):
        what = "this file" if is_old else f"the folder {file.parent}"
        raise StudyError(f"{option} {path}: {what} may not be written; give another name")


def may_write(path: Path) -> bool:
    """Return whether a file, or new ones in a folder, may be written."""
    return os.access(path, os.W_OK | os.X_OK if os.path.isdir(path) else os.W_OK)


def _need_apart(places: Iterable[Place]) -> None:
    """See that no two of them are one file."""
    seen: dict[Path, str] = {}
    for option, path, *_ in places:
        file = Path(path).resolve()
        if file in seen:
            told = f"{seen[file]} is to be written there too"
            raise StudyError(f"{option} {path}: {told}; give another name")
        seen[file] = option


def write_text(path: str | Path, text: str) -> None:
    """Write a file."""
    try:
        Path(path).write_text(text, "utf-8")
    except OSError as error:
        raise StudyError(f"{path}: this cannot be written: {error.strerror}") from error
