"""Where the files of a trace are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mooring.sim.traces.rows import TraceError

ENDS = (".csv", ".csv.gz")


@dataclass(frozen=True, slots=True)
class Files:
    """The file that a trace is named by, and those that belong to it."""

    main: Path

    def find(self, stem: str) -> Path | None:
        """Return the file of that name in the same folder or the one above; None: there is none."""
        folders = (self.main.parent, self.main.parent.parent)
        found = (folder / f"{stem}{end}" for folder in folders for end in ENDS)
        return next((path for path in found if path.is_file()), None)

    def beside(self, stem: str) -> Path:
        """Return the file of that name; none is a mistake."""
        path = self.find(stem)
        if path is None:
            problem = f"there is no file {stem}.csv or {stem}.csv.gz"
            raise TraceError.about(self.main.parent, problem)
        return path


def stem_of(path: Path) -> str:
    """Return the name of a file without its ends."""
    for end in (".gz", ".csv", ".jsonl", ".parquet"):
        path = path.with_suffix("") if path.suffix == end else path
    return path.name
