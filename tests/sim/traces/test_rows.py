"""Rows of files: every broken one is told with file, line, column and value."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.config.reader import ReadError
from mooring.sim.traces import TraceError, parquet
from mooring.sim.traces.rows import (
    LISTED_MOST,
    Cells,
    Faults,
    Form,
    Names,
    columns_of,
    flag,
    kind_of,
    moment,
    name,
    names,
    number,
    read_rows,
    text,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FORM = Form(("name", "size"))
SIZE = whole(1, 8)


def pair(cells: Cells) -> tuple[str, int]:
    return cells.need("name", name), cells.need("size", SIZE)


def read(path: Path, form: Form = FORM, *, skip: bool = False) -> tuple[list[Any], Faults]:
    """Return the rows of a file, and what is wrong with it."""
    faults = Faults(skip=skip)
    return list(read_rows(path, pair, form, faults)), faults


def mistakes(path: Path, form: Form = FORM) -> list[str]:
    with pytest.raises(TraceError) as error:
        read(path, form)
    assert error.value.source == str(path)
    return [str(mistake) for mistake in error.value.mistakes]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a file."""

    def write(data: str | bytes, file: str = "jobs.csv") -> Path:
        path = tmp_path / file
        raw = data if isinstance(data, bytes) else data.encode()
        path.write_bytes(gzip.compress(raw) if file.endswith(".gz") and data == raw else raw)
        if file.endswith(".gz") and isinstance(data, str):
            path.write_bytes(gzip.compress(raw))
        return path

    return write


GOOD = "name,size,other\na,1,x\n\nb,8.0,\n"
GOOD_JSON = '{"name": "a", "size": 1}\n\n{"name": "b", "size": 8.0, "other": null}\n'


@pytest.mark.parametrize(
    ("file", "data", "lines"),
    [
        ("a.csv", GOOD, (2, 4)),
        ("a.csv.gz", GOOD, (2, 4)),
        ("a.csv", "\ufeff" + GOOD.replace("\n", "\r\n"), (2, 4)),
        ("a.jsonl", GOOD_JSON, (1, 3)),
        ("a.jsonl.gz", GOOD_JSON, (1, 3)),
    ],
)
def test_rows_come_with_their_lines(
    write: Callable[..., Path], file: str, data: str, lines: tuple[int, int]
) -> None:
    assert read(write(data, file))[0] == [(lines[0], ("a", 1)), (lines[1], ("b", 8))]


BROKEN = {
    "no number": ("a,many", "line 2, column size: 'many': give a whole number from 1 to 8"),
    "too large": ("a,9", "line 2, column size: '9': give a whole number from 1 to 8"),
    "a part": ("a,1.5", "line 2, column size: '1.5': give a whole number from 1 to 8"),
    "nothing": ("a,", "line 2, column size: nothing: give it: it is needed"),
    "not a number": ("a,nan", "line 2, column size: 'nan': give a whole number from 1 to 8"),
    "too short": ("a", "line 2, column size: nothing: give 2 cells: the row ends before this one"),
    "too long": ("a,1,2", "line 2, column 3: '2': give 2 cells: so many columns there are"),
    "unprintable": (
        "a\x07,1",
        "line 2, column name: 'a\\x07': give at most 1000 printable characters",
    ),
}


@pytest.mark.parametrize(("row", "said"), BROKEN.values(), ids=BROKEN)
def test_a_broken_row_is_told(write: Callable[..., Path], row: str, said: str) -> None:
    assert mistakes(write(f"name,size\n{row}\nb,2\n")) == [said]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"name": "a", "size": true}', "line 1, column size: true: give a whole number"),
        ('{"name": ["a"], "size": 1}', "line 1, column name: ['a']: give a text"),
        ('{"name": "a"', 'line 1: \'{"name": "a"\': give one JSON object on each line'),
        ("[" * 100_000, "line 1: '[[["),
        ("[1]", "line 1: [1]: give an object"),
        ('{"name": "a", "size": null}', "line 1, column size: nothing: give it"),
        ('{"name": "a", "size": 1e999}', "line 1, column size: inf: give a whole number"),
    ],
)
def test_a_broken_line_of_json_is_told(write: Callable[..., Path], line: str, said: str) -> None:
    (told,) = mistakes(write(f"{line}\n", "a.jsonl"))
    assert told.startswith(said)


def test_all_broken_rows_are_told_at_once_but_not_too_many(write: Callable[..., Path]) -> None:
    assert len(mistakes(write("name,size\n" + "a,0\nb,1\n" * 3))) == 3

    many = mistakes(write("name,size\n" + "a,0\n" * 100))
    assert len(many) == LISTED_MOST + 1
    assert many[-1].endswith(f"more than {LISTED_MOST} rows are broken")


def test_broken_rows_are_left_out_and_counted_when_asked_to(write: Callable[..., Path]) -> None:
    rows, faults = read(write("name,size\n" + "a,0\nb,1\n" * 50), skip=True)

    assert len(rows) == faults.count == 50
    assert len(faults.mistakes) == LISTED_MOST


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "the file is empty"),
        ("name,sise\na,1\n", "there is no column 'size'; did you mean 'sise'?"),
        ("name,size,size\na,1,2\n", "column size: give every column once"),
    ],
)
def test_a_wrong_head_is_told_even_if_broken_rows_are_left_out(
    write: Callable[..., Path], data: str, said: str
) -> None:
    with pytest.raises(TraceError) as error:
        read(write(data), skip=True)
    assert said in str(error.value)


UNCLOSED = "a quote is not closed: close it on the same line"
QUOTES = {
    "the first cell": ('"a,1', f"line 3, column name: '\"a,1': {UNCLOSED}"),
    "the last cell": ('a,"1', f"line 3, column size: '\"1': {UNCLOSED}"),
    "a cell too many": ('a,1,"x', f"line 3, column 3: '\"x': {UNCLOSED}"),
    "a second quote": ('"a ""b"",1', f'line 3, column name: \'"a "b",1\': {UNCLOSED}'),
    "even quotes": ('a"b,"1', f"line 3, column size: '\"1': {UNCLOSED}"),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("row", "said"), QUOTES.values(), ids=QUOTES)
def test_a_quote_that_is_not_closed_takes_no_other_row_along(
    write: Callable[..., Path], row: str, said: str, end: str
) -> None:
    file = write(end.join(["name,size", "x,1", row, *(f"{n},2" for n in range(50)), ""]))

    assert mistakes(file) == [said]
    rows, faults = read(file, skip=True)
    assert (len(rows), faults.count) == (51, 1)
    assert [line for line, _ in rows] == [2, *range(4, 54)]


def test_a_quote_at_the_end_of_a_file_or_in_its_head_is_told(write: Callable[..., Path]) -> None:
    assert mistakes(write('name,size\na,1\n"b,1')) == [f"line 3, column name: '\"b,1': {UNCLOSED}"]
    head = write('name,"size\na,1\n')
    assert mistakes(head) == [f"line 1, column 2: '\"size': {UNCLOSED}"]
    with pytest.raises(TraceError, match="a quote is not closed"):
        columns_of(head)


def test_an_empty_line_is_no_row_of_a_single_column(write: Callable[..., Path]) -> None:
    faults = Faults()
    file = write("name\na\n\nb\n\n")
    rows = read_rows(file, lambda cells: cells.need("name", name), Form(("name",)), faults)
    assert list(rows) == [(2, "a"), (4, "b")]


def test_quotes_that_are_closed_are_read(write: Callable[..., Path]) -> None:
    file = write('"name",size\r\n"a, ""b""",1\r\n5" disk,"2"\r\n')
    assert read(file)[0] == [(2, ('a, "b"', 1)), (3, ('5" disk', 2))]


def test_unknown_columns_are_told_where_all_are_known(write: Callable[..., Path]) -> None:
    form = Form(FORM.needs, ("colour",), ("label.",))

    assert read(write("name,size,colour,label.x\na,1,,\n"), form)[0]
    assert mistakes(write("name,size,color\na,1,\n"), form) == [
        "column color: unknown column; did you mean 'colour'?"
    ]
    assert mistakes(write('{"name": "a", "size": 1, "x": 2}\n', "a.jsonl"), form) == [
        "line 1, column x: 'x': unknown column"
    ]


@pytest.mark.parametrize(
    ("file", "data", "said"),
    [
        ("a.csv.gz", b"no gzip", "not compressed by gzip, as its name says"),
        ("cut.csv.gz", gzip.compress(GOOD.encode() * 99)[:-20], "this cannot be read"),
        ("a.csv", b"name,size\n\xff\xfe,1\n", "no text in UTF-8"),
        ("a.csv", b'name,size\n"' + b"a" * 200_000, "this cannot be read"),
    ],
    ids=["no gzip", "cut short", "no text", "an endless cell"],
)
def test_a_file_that_cannot_be_read_is_told(
    tmp_path: Path, file: str, data: bytes, said: str
) -> None:
    (tmp_path / file).write_bytes(data)
    with pytest.raises(TraceError, match=said):
        read(tmp_path / file, skip=True)


def test_a_file_without_the_right_to_read_it_is_told(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *given: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    file = write(GOOD)
    monkeypatch.setattr(type(file), "open", refuse)
    said = "the file: you may not read it: get the right to, or give another file"
    assert mistakes(file) == [said]
    with pytest.raises(TraceError, match="you may not read it"):
        columns_of(file)


def test_a_disk_that_fails_is_told_in_words(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Path, *given: object, **more: object) -> None:
        raise OSError(5, "Input/output error", str(self))

    file = write(GOOD)
    monkeypatch.setattr(type(file), "open", fail)
    assert mistakes(file) == ["the file: this cannot be read: Input/output error"]


def test_no_file_and_a_folder_are_told(tmp_path: Path) -> None:
    assert mistakes(tmp_path / "none.csv") == ["the file: there is no such file"]
    assert mistakes(tmp_path) == ["the file: this is a folder; give a file"]


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(module: str) -> None:
        raise ImportError(module)

    monkeypatch.setattr(parquet, "import_module", missing)
    for use in (read, columns_of):
        with pytest.raises(TraceError, match=r"install mooring\[parquet\], or use .csv or .jsonl"):
            use(tmp_path / "a.parquet")


def test_columns_are_known_without_a_row(write: Callable[..., Path]) -> None:
    assert columns_of(write("name,size\n")) == ("name", "size")
    assert columns_of(write(GOOD_JSON, "a.jsonl")) == ("name", "size")
    assert columns_of(write("", "a.jsonl")) == ()


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("a.csv", "csv"),
        ("a.b.csv.gz", "csv"),
        ("a.jsonl", "jsonl"),
        ("a.parquet", "parquet"),
        ("a.yaml", ""),
        ("a", ""),
        (".gz", ""),
    ],
)
def test_the_end_of_a_name_tells_what_is_in_it(tmp_path: Path, file: str, kind: str) -> None:
    assert kind_of(tmp_path / file) == kind


def test_a_name_comes_once() -> None:
    taken = Names()
    taken.take(Cells({"name": "a"}), "name")
    with pytest.raises(Exception, match="give every name once"):
        taken.take(Cells({"name": "a"}), "name")


@pytest.mark.parametrize(
    ("reader", "value", "read"),
    [
        (text, 5, "5"),
        (text, " a", " a"),
        (name, " a b ", "a b"),
        (names, "A | B", ("A", "B")),
        (whole(), " 12 ", 12),
        (names, "A|B", ("A", "B")),
        (names, ["A"], ("A",)),
        (flag, "True", True),
        (flag, False, False),
        (flag, "0", False),
        (whole(), "12", 12),
        (whole(), 12.0, 12),
        (number(), "1e3", 1000.0),
        (moment, "1970-01-01 00:01:00", 60.0),
        (moment, "1970-01-01T01:00:00+01:00", 0.0),
    ],
)
def test_cells_are_read(reader: Callable[[Any], Any], value: object, read: object) -> None:
    assert reader(value) == read


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        (text, None),
        (text, 1.5),
        (name, " "),
        (names, ["A", 1.5]),
        (flag, "yes"),
        (whole(), "-1"),
        (whole(), "ten"),
        (whole(), "1_0"),
        (whole(), "1_0.0"),
        (number(), "3_600"),
        (number(), "3_600.5"),
        (whole(), 1e400),
        (number(), "inf"),
        (number(), "nan"),
        (number(), True),
        (moment, "yesterday"),
    ],
)
def test_other_values_are_mistakes(reader: Callable[[Any], Any], value: object) -> None:
    with pytest.raises(ReadError, match="give"):
        reader(value)


@given(st.binary(max_size=200))
def test_no_file_however_odd_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("odd")
    for file in ("a.csv", "a.jsonl", "a.csv.gz"):
        path = folder / file
        path.write_bytes(b"name,size\n" + data if file == "a.csv" else data)
        try:
            rows, _ = read(path, skip=True)
        except TraceError:
            continue
        assert all(1 <= size <= 8 for _, (_, size) in rows)
