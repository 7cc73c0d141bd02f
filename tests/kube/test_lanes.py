"""Answers of HTTP/1, in whatever pieces they come."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.lanes import Answer, parse

PLAIN = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nabcd\n\r\nA;name=x\r\n\r\n0\r\n\r\n123\r\n0\r\n\r\n"
)  # fmt: skip
BUSY = b"HTTP/1.1 429 Busy\r\nRetry-After:  7 \r\nContent-Length: 0\r\nConnection: Close\r\n\r\n"
NOTHING = b"HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n"
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN

WHOLE: dict[str, tuple[bytes, Answer, bool]] = {
    "plain": (PLAIN, Answer(201, None, b"{}"), True),
    "chunked": (CHUNKED, Answer(200, None, b"abcd\n\r\n0\r\n\r\n123"), True),
    "busy": (BUSY, Answer(429, "7", b""), False),
    "nothing": (NOTHING, Answer(204, None, b""), True),
    "go on": (GO_ON, Answer(201, None, b"{}"), True),
    "old": (PLAIN.replace(b"1.1", b"1.0"), Answer(201, None, b"{}"), False),
}


@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_is_read_when_it_is_whole_and_not_before(name: str) -> None:
    whole, answer, reusable = WHOLE[name]
    for end in range(len(whole)):
        assert parse(whole[:end]) is None, whole[:end]
    assert parse(whole) == (answer, reusable)


@given(st.binary(max_size=300), st.lists(st.integers(1, 50), max_size=8))
def test_any_body_survives_being_cut_into_chunks(body: bytes, sizes: list[int]) -> None:
    sent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    rest = body
    for size in [*sizes, len(body)]:
        piece, rest = rest[:size], rest[size:]
        if piece:
            sent += b"%x\r\n%b\r\n" % (len(piece), piece)
    sent += b"0\r\n\r\n"
    for end in range(len(sent)):
        assert parse(sent[:end]) is None
    assert parse(sent) == (Answer(200, None, body), True)


def test_without_a_length_the_end_is_the_end() -> None:
    sent = b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>"
    assert parse(sent) is None
    assert parse(sent, ended=True) == (Answer(502, None, b"<html>"), False)


@pytest.mark.parametrize(
    "odd",
    [
        b"SSH-2.0-x\r\n",
        b"\x15\x03\x01",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n",
        PLAIN + PLAIN,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 17),
    ],
    ids=lambda odd: repr(odd[:60]),
)
def test_what_is_no_answer_is_refused(odd: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(odd)


@given(st.binary(max_size=200))
def test_nothing_else_can_happen(odd: bytes) -> None:
    for sent in (odd, b"HTTP/1.1 200 OK\r\n" + odd, CHUNKED[:60] + odd):
        with suppress(ValueError):
            parse(sent, ended=True)
