"""Which code this is, to the letter: what comes of it must not be mixed with that of other code."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import mooring

if TYPE_CHECKING:
    from collections.abc import Iterable


def digest_of(files: Iterable[Path]) -> str:
    """Return a digest of what files hold, whatever they are called."""
    every = sha256()
    for file in files:
        every.update(sha256(file.read_bytes()).digest())
    return every.hexdigest()[:12]


@cache
def release() -> str:
    """Return the version, and a digest of all modules."""
    root, every = Path(mooring.__file__).parent, sha256()
    for file in sorted(root.rglob("*.py")):
        every.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return f"mooring {mooring.__version__} ({every.hexdigest()[:12]})"
