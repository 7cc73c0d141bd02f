"""Types of the columns: numpy arrays of fixed width, and views of single values in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable

INT = np.int64
Ints = NDArray[np.int64]
Counts = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def view(column: NDArray[Any]) -> memoryview[int]:
    """Return the same memory as plain Python integers: far faster for one value at a time."""
    return memoryview(column)  # type: ignore[arg-type]


def views(columns: Iterable[NDArray[Any]]) -> list[memoryview[int]]:
    """Return a view of each column."""
    return [view(column) for column in columns]
