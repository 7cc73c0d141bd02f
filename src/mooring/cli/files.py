"""Files that a command writes at its end."""

from __future__ import annotations

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


def need_places(*places: Place) -> None:
    """See, before anything is run, that these files can be there; mistakes are told together."""
    asked = [place for place in places if place.path]
    each_of([*(partial(_need_folder, place) for place in asked), partial(_need_apart, asked)])


def _need_folder(place: Place) -> None:
    option, path, ends = place
    file = Path(path)
    if file.is_dir():
        raise StudyError(f"{option} {path}: this is a folder; give a file")
    if ends and file.suffix not in ends:
        raise StudyError(f"{option} {path}: give a name that ends in {' or '.join(ends)}")
    if not file.parent.is_dir():
        raise StudyError(f"{option} {path}: there is no folder {file.parent}")


def _need_apart(places: Iterable[Place]) -> None:
    """See that no two of them are one file."""
    seen: dict[Path, str] = {}
    for option, path, _ in places:
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
