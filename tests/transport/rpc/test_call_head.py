"""What is read of a call's headers, and which are no call's."""

from __future__ import annotations

from typing import Any

import pytest

from inferwire_server.transport.http2.connection import Refused, Trailers
from inferwire_server.transport.rpc.call_head import CallHead, read_head

REQUEST = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/tests.Calls/Call"), (b":authority", b"here")]
GRPC = [(b"content-type", b"application/grpc"), (b"te", b"trailers")]
FIELDS = [*REQUEST, *GRPC]


def head(*further: tuple[bytes, bytes]) -> CallHead:
    """Read the headers of a call that says this besides."""
    read = read_head([*FIELDS, *further])
    assert isinstance(read, CallHead)
    return read


def test_a_call_is_its_path_and_says_nothing_else() -> None:
    size = sum(len(name) + len(value) + 32 for name, value in FIELDS)
    assert head() == CallHead("/tests.Calls/Call", (), None, "identity", is_grpc=True, byte_size=size)


def test_metadata_is_what_is_not_of_grpc_in_the_order_in_which_it_was_said() -> None:
    found = head(
        (b"grpc-timeout", b"1S"),
        (b"b", b"1"),
        (b"grpc-encoding", b"gzip"),
        (b"a", b"\xe9 2"),
        (b"grpc-accept-encoding", b"gzip"),
        (b"b", b"3"),
        (b"user-agent", b"tests"),
    )
    assert found.metadata == (("b", "1"), ("a", "\xe9 2"), ("b", "3"), ("user-agent", "tests"))
    assert found.encoding == "gzip"


def test_what_headers_say_many_times_is_there_once() -> None:
    found = head(*[(b"a", b"long" * 100)] * 16, (b"a", b"short"))
    assert found.metadata == (("a", "long" * 100),) * 16 + (("a", "short"),)
    assert len(set(map(id, found.metadata))) == 2


@pytest.mark.parametrize("times", [1, 16])
def test_what_headers_say_many_times_is_looked_at_once(times: int) -> None:
    looks = 0

    class Name(bytes):
        def endswith(self, *args: Any) -> bool:
            nonlocal looks
            looks += 1
            return super().endswith(*args)

    head(*[(Name(b"a"), b"long" * 1000)] * times)
    assert looks == 1


@pytest.mark.parametrize("said", [b"AAH/", b"AA,AAE=,,AAH/", b"," * 60_000, b"AA*=", b"A\xff=="])
def test_bytes_are_no_metadata_and_may_be_anything_that_a_header_is(said: bytes) -> None:
    assert head((b"a", b"1"), (b"x-bin", said), (b"b", b"2")).metadata == (("a", "1"), ("b", "2"))


def test_metadata_is_whatever_one_line_of_text_can_say_under_a_name() -> None:
    said = [(b"a1!#$%&'*+-.^_`|~", b"1"), (b"b", b" \x01\t\x7f "), (b"c", "é".encode())]
    assert head(*said).metadata == tuple((name.decode(), value.decode("latin-1")) for name, value in said)


@pytest.mark.parametrize(
    ("said", "timeout_s"),
    [
        (b"2H", 7200),
        (b"2M", 120),
        (b"2S", 2),
        (b"2m", 2e-3),
        (b"2u", 2e-6),
        (b"2n", 2e-9),
        (b"0S", 0),
        (b"99999999H", 99999999 * 3600),
        (b"00000001S", 1),
    ],
)
def test_a_timeout_has_a_unit(said: bytes, timeout_s: float) -> None:
    assert head((b"grpc-timeout", said)).timeout_s == pytest.approx(timeout_s)


@pytest.mark.parametrize(
    "said",
    [b"", b"S", b"1", b"1s", b"1h", b"-1S", b"+1S", b"1.5S", b"1e3S", b"123456789S", b"1 S", b" 1S", b"1SS"],
)
def test_a_timeout_that_is_none_is_kept_as_it_was_said(said: bytes) -> None:
    found = head((b"grpc-timeout", said))
    assert (found.timeout_s, found.unknown_timeout) == (None, said)


@pytest.mark.parametrize("said", [b"0", b"5", b"0005"])
def test_who_says_how_much_comes_may_say_it_twice(said: bytes) -> None:
    for times in (1, 2):
        found = head(*[(b"content-length", said)] * times)
        assert (found.content_length, found.metadata) == (int(said), ())


@pytest.mark.parametrize(
    "said", [[b""], [b"-1"], [b"+1"], [b"1.0"], [b"1,1"], [b" 1"], [b"9" * 5000], [b"1", b"2"], [b"1", b"x"]]
)
def test_a_length_that_is_none_is_refused(said: list[bytes]) -> None:
    refused = read_head([*FIELDS, *[(b"content-length", value) for value in said]])
    assert isinstance(refused, Refused)
    assert not isinstance(refused, Trailers)


@pytest.mark.parametrize(
    ("kind", "is_grpc"),
    [
        (b"application/grpc", True),
        (b"application/grpc+proto", True),
        (b"application/grpc+json", True),
        (b"application/grpc;charset=utf-8", True),
        (b"application/grpc-web", False),
        (b"application/grpcs", False),
        (b"application/json", False),
        (b"text/application/grpc", False),
        (b"", False),
    ],
)
def test_a_call_is_known_by_its_content(kind: bytes, *, is_grpc: bool) -> None:
    read = read_head([*REQUEST, (b"content-type", kind)])
    assert isinstance(read, CallHead)
    assert read.is_grpc is is_grpc


def test_what_has_no_content_type_is_no_call() -> None:
    read = read_head(REQUEST)
    assert isinstance(read, CallHead)
    assert not read.is_grpc


@pytest.mark.parametrize("method", [b"GET", b"PUT", b"OPTIONS", b"post"])
def test_what_is_not_posted_is_no_call(method: bytes) -> None:
    read = read_head([(b":method", method), *FIELDS[1:]])
    assert isinstance(read, CallHead)
    assert not read.is_grpc


@pytest.mark.parametrize("name", [b":method", b":scheme", b":path"])
def test_what_a_request_has_to_say_is_missed(name: bytes) -> None:
    left = [field for field in FIELDS if field[0] != name]
    assert isinstance(read_head(left), Refused)
    assert isinstance(read_head([(name, b""), *left]), Refused)


def test_who_is_asked_need_not_be_said() -> None:
    left = [field for field in FIELDS if field[0] != b":authority"]
    assert isinstance(read_head(left), CallHead)


@pytest.mark.parametrize("name", [b":method", b":scheme", b":path", b":authority"])
def test_what_may_be_said_once_is_not_said_twice(name: bytes) -> None:
    assert isinstance(read_head([(name, b"/x"), *FIELDS]), Refused)


@pytest.mark.parametrize("before", [(b"x", b"1"), (b"content-type", b"application/grpc")], ids=["metadata", "of grpc"])
def test_what_makes_a_request_comes_before_all_else(before: tuple[bytes, bytes]) -> None:
    assert isinstance(read_head([*REQUEST[1:], before, REQUEST[0], *GRPC]), Refused)


@pytest.mark.parametrize(
    "field",
    [
        (b":status", b"200"),
        (b":protocol", b"websocket"),
        (b"X-Upper", b"1"),
        (b"connection", b"close"),
        (b"keep-alive", b"1"),
        (b"proxy-connection", b"close"),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"h2c"),
        (b"x-\xff", b"1"),
        (b"grpc-encoding", b"\xff"),
        (b"", b"1"),
        (b"a b", b"1"),
        (b"a:b", b"1"),
        (b"a\0", b"1"),
        (b"a\n", b"1"),
        (b"a(b)", b"1"),
        (b"x", b"a\0"),
        (b"x", b"a\rb"),
        (b"x", b"\nb"),
        (b"x-bin", b"AA\n"),
        (b"grpc-timeout", b"1S\n"),
        (b"user-agent", b"\0"),
        (b":authority", b"here\r\nx: 1"),
    ],
)
def test_what_no_request_says_is_refused(field: tuple[bytes, bytes]) -> None:
    place = 3 if field[0].startswith(b":") else len(FIELDS)
    others = [each for each in FIELDS if each[0] != field[0]]
    assert isinstance(read_head([*others[:place], field, *others[place:]]), Refused)


@pytest.mark.parametrize("fields", [[], [(b"x", b"1"), (b"grpc-status", b"0")], GRPC])
def test_headers_without_any_that_make_a_request_may_end_one(fields: list[tuple[bytes, bytes]]) -> None:
    assert isinstance(read_head(fields), Trailers)


@pytest.mark.parametrize(
    "fields",
    [
        [(b":path", b"/a")],
        [(b":status", b"200")],
        [(b"x", b"1"), (b":path", b"/a")],
        [(b"X-Upper", b"1")],
        [(b"x", b"a\0")],
        [(b"connection", b"close")],
        FIELDS,
    ],
)
def test_others_end_none(fields: list[tuple[bytes, bytes]]) -> None:
    assert not isinstance(read_head(fields), Trailers)


def test_a_path_that_is_no_text_is_refused() -> None:
    assert isinstance(read_head([*REQUEST[:2], (b":path", b"/\xff"), *GRPC]), Refused)
