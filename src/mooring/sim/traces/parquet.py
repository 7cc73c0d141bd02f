"""Parquet files, where pyarrow is installed: it is not needed for anything else."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

BATCH = 10_000
"""Rows that are in memory at once."""


class MissingError(Exception):
    """There is no pyarrow."""


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every row of a file."""
    with _file(path) as file:
        for batch in file.iter_batches(BATCH):
            yield from batch.to_pylist()


def columns(path: Path) -> list[str]:
    """Return the columns of a file, in order."""
    with _file(path) as file:
        return list(file.schema_arrow.names)


def write(path: Path, types: Mapping[str, str], data: Iterable[Mapping[str, Any]]) -> None:
    """Write rows with these columns: `string`, `int64`, `float64`, `bool_` or `strings`."""
    parquet, arrow = _module(), import_module("pyarrow")
    strings = arrow.list_(arrow.string())
    made = [(key, strings if t == "strings" else getattr(arrow, t)()) for key, t in types.items()]
    schema = arrow.schema(made)
    with parquet.ParquetWriter(path, schema) as writer:
        for batch in _batches(data):
            writer.write_table(arrow.Table.from_pylist(batch, schema))


def _batches(data: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    batch: list[Mapping[str, Any]] = []
    for row in data:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


@contextmanager
def _file(path: Path) -> Iterator[Any]:
    """Open a file; what is wrong with it is an `OSError`."""
    module, arrow = _module(), import_module("pyarrow")
    try:
        with module.ParquetFile(path) as file:
            yield file
    except arrow.ArrowException as error:
        raise OSError(str(error)) from error


def _module() -> Any:
    try:
        return import_module("pyarrow.parquet")
    except ImportError:
        raise MissingError(
            "Parquet needs pyarrow, which is not installed: install mooring[parquet], "
            "or use .csv or .jsonl"
        ) from None
