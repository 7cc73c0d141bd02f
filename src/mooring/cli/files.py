"""Files that a command writes at its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mooring.sim.errors import StudyError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Place(NamedTuple):
    """A file that is to be written."""

    option: str
    path: str
    ends: tuple[str, ...] = ()


def need_folder(option: str, path: str, *ends: str) -> None:
    """See, before anything is run, that a file can be there; without a path nothing is asked.

    Its name has one of the ends, so that no file of another kind is replaced.
    """
    if not path:
        return
    file = Path(path)
    if file.is_dir():
        raise StudyError(f"{option} {path}: this is a folder; give a file")
    if ends and file.suffix not in ends:
        raise StudyError(f"{option} {path}: give a name that ends in {' or '.join(ends)}")
    if not file.parent.is_dir():
        raise StudyError(f"{option} {path}: there is no folder {file.parent}")


def need_different_files(places: Iterable[Place]) -> None:
    """See that no two of them are one file."""
    seen: dict[Path, str] = {}
    for place in places:
        if not place.path:
            continue
        file = Path(place.path).resolve()
        if file in seen:
            told = f"{seen[file]} is to be written there too"
            raise StudyError(f"{place.option} {place.path}: {told}; give another name")
        seen[file] = place.option


def write_text(path: str | Path, text: str) -> None:
    """Write a file."""
    try:
        Path(path).write_text(text, "utf-8")
    except OSError as error:
        raise StudyError(f"{path}: this cannot be written: {error.strerror}") from error
