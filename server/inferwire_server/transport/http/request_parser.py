"""Cuts requests out of a peer's bytes by httptools, under rules that httptools leaves to its user.

A head has a bound, and so has what stands between parts of a body. Fields behind a body are not taken for headers. An
offer to speak another protocol is ignored, as RFC 9110 lets servers do: httptools would end the request at its head.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

LONGEST_HEAD = 64 * 1024
"""The most bytes of a request line and headers, or between parts of a body; httptools would keep any number."""

_AROUND_FIELD = len(b": \r\n")

Fields: TypeAlias = list[tuple[bytes, bytes]]
"""Headers as they came, their names in small letters."""


class Unfit(Exception):
    """What has come is HTTP/1.1, and no request that is taken."""


class TooLong(Unfit):
    """A head, or what stands between parts of a body, is longer than is taken."""


class UnknownCoding(Unfit):
    """A body has another transfer coding than chunked alone, which nothing here could decode."""


class NoSingleHost(Unfit):
    """A head names no host, or more than one."""


class Told(Protocol):
    """What is told of requests. It keeps the request line and the headers of the one that is being received.

    Attributes:
        parser: The parser, which it may ask about that request.
    """

    parser: HttpRequestParser
    url: bytes
    headers: Fields

    def on_message_begin(self) -> None:
        """Begin a head."""

    def on_url(self, url: bytes) -> None:
        """Take more of what is asked for."""

    def on_header(self, name: bytes, value: bytes) -> None:
        """Append a field to the headers."""

    def on_headers_complete(self) -> None:
        """Begin a request."""

    def on_body(self, body: bytes) -> None:
        """Take more of the body."""

    def on_message_complete(self) -> None:
        """End a request."""


class RequestParser:
    """The requests of one connection.

    Attributes:
        has_begun: Whether a request has begun of which more is to come.
        is_in_head: Whether what comes next is of a head.
        parts: How many parts of bodies have come.
        on_url: Called by httptools, as all that begins with `on_` is.
    """

    __slots__ = (
        "_offer",
        "_parser",
        "_received",
        "_told",
        "_unframed",
        "has_begun",
        "is_in_head",
        "on_header",
        "on_url",
        "parts",
    )

    def __init__(self, told: Told) -> None:
        self._told = told
        self.on_url, self.on_header = told.on_url, told.on_header
        self.has_begun = False
        self.is_in_head = True
        self.parts = 0
        self._received = 0
        self._unframed = 0
        self._offer = b""
        self._parser: HttpRequestParser | None = self._begin()

    def __repr__(self) -> str:
        state = "in a body" if self.is_in_body else "closed" if self._parser is None else "in a head"
        return f"<RequestParser: {state}>"

    @property
    def is_in_body(self) -> bool:
        """Whether more is to come of a request that has begun."""
        return self.has_begun and not self.is_in_head

    def feed(self, data: bytes | memoryview) -> None:
        """Take in bytes.

        Raises:
            TooLong: There are too many for a head, or between parts of a body. Nothing may be fed after that.
            UnknownCoding: The body behind them is encoded. Likewise.
            NoSingleHost: The head names no host, or several. Likewise.
            HttpParserError: They are no HTTP/1.1. Likewise.
            MemoryError: There is no room for them. Likewise.
        """
        if self._parser is None:
            return
        self._received = len(data)
        rest: memoryview | None = None
        try:
            try:
                self._parser.feed_data(data)
            except HttpParserUpgrade as offer:
                rest = memoryview(data)[offer.args[0] :]
            while rest is not None:
                # The peer has offered another protocol: its head is read again without that, and then what follows it.
                self._parser = self._begin()
                self._parser.feed_data(self._offer)
                rest = _rest(self._parser, rest)
        except HttpParserCallbackError as error:
            if isinstance(error.__context__, Unfit | MemoryError):
                raise error.__context__ from None
            raise
        self._unframed += self._received
        if self._unframed > LONGEST_HEAD:
            raise TooLong

    def pass_body(self) -> None:
        """Go on behind a body whose rest was received past the parser; ignore what comes behind a last request."""
        if self._parser is None:
            return
        is_last = not self._parser.should_keep_alive()
        self._parser = self._begin()
        self._received = 0
        self.on_message_complete()
        if is_last:
            self.close()

    def close(self) -> None:
        """Ignore what comes."""
        if self._parser is not None:
            self._parser = None
            self.has_begun = False
            # Else each would keep the other until the garbage collector runs.
            del self._told, self.on_url, self.on_header

    def on_message_begin(self) -> None:
        """Begin a head."""
        self.has_begun = True
        self._told.on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin a request. If its peer offers another protocol, its head is read again without the offer instead."""
        told = self._told
        if self._received > LONGEST_HEAD or self._unframed + self._received > LONGEST_HEAD:
            _check_length(told)
        if told.parser.should_upgrade():
            self._offer = _without_offer(told)
            return
        _check_fields(told)
        self.is_in_head = False
        self._unframed = -self._received
        told.on_headers_complete()
        told.headers = _UNKEPT

    def on_body(self, body: bytes) -> None:
        """Go on with a body."""
        self.parts += 1
        self._unframed = -self._received
        self._told.on_body(body)

    def on_message_complete(self) -> None:
        """End a request. The bytes that ended it do not count towards the next one's head."""
        if self.is_in_head:
            return
        self.is_in_head = True
        self.has_begun = False
        self._unframed = -self._received
        self._told.on_message_complete()

    def _begin(self) -> HttpRequestParser:
        parser = self._told.parser = HttpRequestParser(self)
        # What a peer sends behind its last request is no error.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser


class _Unkept(Fields):
    """Headers that are forgotten at once."""

    def append(self, _field: tuple[bytes, bytes], /) -> None:
        """Forget one."""


_UNKEPT = _Unkept()
"""Where fields behind a body go."""


def _rest(parser: HttpRequestParser, data: memoryview) -> memoryview | None:
    """Feed a parser; if it has stopped at an offer of another protocol, give what stands behind that."""
    try:
        parser.feed_data(data)
    except HttpParserUpgrade as offer:
        return data[offer.args[0] :]
    return None


def _check_length(told: Told) -> None:
    """Refuse a head that is too long, though it has come in one piece.

    Raises:
        TooLong: It is.
    """
    if len(told.url) + sum(len(name) + len(value) + _AROUND_FIELD for name, value in told.headers) > LONGEST_HEAD:
        raise TooLong


def _check_fields(told: Told) -> None:
    """Refuse a body with another transfer coding than chunked, and a request that names no host, or several.

    The parser sees to it that chunked is the outermost coding. HTTP/1.0 knows no hosts.

    Raises:
        UnknownCoding: The body has another coding.
        NoSingleHost: The request names no host, or several.
    """
    hosts = 0
    for name, value in told.headers:
        if name == b"host":
            hosts += 1
        elif name == b"transfer-encoding" and value.strip().lower() != b"chunked":
            raise UnknownCoding
    if hosts > 1 or (hosts == 0 and told.parser.get_http_version() != "1.0"):
        raise NoSingleHost


def _without_offer(told: Told) -> bytes:
    """Write a head again, without the offer to speak another protocol.

    Raises:
        HttpParserError: It asks to be put through to another server, which is no offer.
    """
    method = told.parser.get_method()
    if method == b"CONNECT":
        raise HttpParserError(method)
    fields = b"".join(b"%b: %b\r\n" % field for field in told.headers if field[0] != b"upgrade")
    return b"%b %b HTTP/%b\r\n%b\r\n" % (method, told.url, told.parser.get_http_version().encode(), fields)
