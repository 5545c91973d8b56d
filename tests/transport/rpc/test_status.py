"""How a call's end is written in headers."""

from __future__ import annotations

from urllib.parse import unquote

import grpc
import pytest
from hpack import Decoder

from inferwire_proto.errors import CODE_METADATA, Code
from inferwire_server.errors import ServingError
from inferwire_server.transport.rpc.status import RpcStatus, Trailers, clipped, status_of


def said(details: str, trailers: Trailers = ()) -> dict[bytes, bytes]:
    """Read a status as its peer does."""
    block = RpcStatus(grpc.StatusCode.ABORTED, details, trailers).block()
    return {bytes(name): bytes(value) for name, value in Decoder().decode(block, raw=True)}


def test_a_status_is_a_number_and_a_sentence() -> None:
    assert said("why, and what was expected") == {
        b"grpc-status": b"10",
        b"grpc-message": b"why, and what was expected",
    }


def test_a_status_without_a_sentence_is_a_number() -> None:
    assert said("") == {b"grpc-status": b"10"}


def test_what_goes_with_it_comes_behind_it() -> None:
    found = said("", (("x", "1"), ("y", "é")))
    assert found == {b"grpc-status": b"10", b"x": b"1", b"y": "é".encode()}


@pytest.mark.parametrize("details", ["größer", "50 %", "%41", "one\ntwo", "\0\x7f", "😀", " a blank ", "  ", " "])
def test_a_sentence_is_plain_and_means_the_same(details: str) -> None:
    message = said(details)[b"grpc-message"]
    assert all(0x20 <= byte < 0x7F for byte in message)
    assert message == message.strip()
    assert unquote(message.decode()) == details


def test_characters_that_cannot_be_written_are_replaced() -> None:
    assert said("a\ud800b")[b"grpc-message"] == b"a?b"


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("short", "short"),
        ("x" * 6000, "x" * 6000),
        ("x" * 6001, "x" * 6000 + "..."),
        ("ö" * 1000, "ö" * 1000),
        ("ö" * 1001, "ö" * 1000 + "..."),
        ("%" * 2001, "%" * 2000 + "..."),
    ],
)
def test_a_sentence_is_as_long_as_a_header_may_be(message: str, kept: str) -> None:
    assert clipped(message) == kept


def test_no_status_has_a_sentence_that_is_longer() -> None:
    assert said("x" * 6001)[b"grpc-message"] == b"x" * 6000 + b"..."


def test_an_error_has_its_code_behind_it() -> None:
    status = RpcStatus.of(ServingError(Code.QUEUE_FULL, "full", retry_after_s=2))
    assert (status.code, status.details) == (status_of(Code.QUEUE_FULL), "full")
    assert status.trailers[0] == (CODE_METADATA, "QUEUE_FULL")
    assert status.trailers[1][1] == "2"
    assert str(status) == f"{status.code.name}: full"
