"""What a peer's bytes say as requests, told as httptools tells it, under rules that httptools leaves to its user.

A head, and what stands between parts of a body, has a bound. Fields behind a body are no headers. An offer to speak
another protocol is ignored, as RFC 9110 has whoever does not take it up: httptools would end the request at its head.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

LONGEST_HEAD = 64 * 1024
"""The most bytes of a request line and headers, or between parts of a body; httptools would keep any number."""

_AROUND_FIELD = len(b": \r\n")

Fields: TypeAlias = list[tuple[bytes, bytes]]
"""Headers as they came, their names in small letters."""


class TooLong(Exception):
    """More has come of a head, or between parts of a body, than is taken."""


class UnknownCoding(Exception):
    """A body comes encoded for the transfer otherwise than in chunks alone: nobody here could decode it."""


class NoSingleHost(Exception):
    """A head does not name the host that is asked, or more than one."""


class Told(Protocol):
    """Whoever is told of requests. It keeps the request line and the headers of the one that comes.

    Attributes:
        parser: What it may ask about that one.
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
        is_in_head: Whether what comes next is of a head.
        parts: How many parts of bodies have come.
        on_message_begin: Called by httptools, as all that begins with `on_` is.
    """

    __slots__ = (
        "_offer",
        "_parser",
        "_received",
        "_told",
        "_unframed",
        "is_in_head",
        "on_header",
        "on_message_begin",
        "on_url",
        "parts",
    )

    def __init__(self, told: Told) -> None:
        self._told = told
        self.on_message_begin, self.on_url, self.on_header = told.on_message_begin, told.on_url, told.on_header
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
        return self._parser is not None and not self.is_in_head

    def feed(self, data: bytes | memoryview) -> None:
        """Take in bytes.

        Raises:
            TooLong: They are too many for what they are of. Nothing is to be fed behind them.
            UnknownCoding: The body behind them is encoded. Likewise.
            NoSingleHost: Likewise.
            HttpParserError: They are no HTTP/1.1. Likewise.
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
            if isinstance(error.__context__, TooLong | UnknownCoding | NoSingleHost):
                raise error.__context__ from None
            raise
        self._unframed += self._received
        if self._unframed > LONGEST_HEAD:
            raise TooLong

    def pass_body(self) -> None:
        """Go on behind a body of which the rest was received past this; behind a connection's last, take no notice."""
        if self._parser is None:
            return
        is_last = not self._parser.should_keep_alive()
        self._parser = self._begin()
        self._received = 0
        self.on_message_complete()
        if is_last:
            self.close()

    def close(self) -> None:
        """Take no notice of what comes."""
        if self._parser is not None:
            self._parser = None
            # They would keep one another until garbage is looked for.
            del self._told, self.on_message_begin, self.on_url, self.on_header

    def on_headers_complete(self) -> None:
        """Begin a request, unless its peer offers another protocol: it is read again, then."""
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
        """End a request; the bytes that did are not counted as the next one's head."""
        if self.is_in_head:
            return
        self.is_in_head = True
        self._unframed = -self._received
        self._told.on_message_complete()

    def _begin(self) -> HttpRequestParser:
        parser = self._told.parser = HttpRequestParser(self)
        # What a peer sends behind its last request is its own affair.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser


class _Unkept(Fields):
    """Headers that are forgotten at once."""

    def append(self, _field: tuple[bytes, bytes], /) -> None:
        """Forget one."""


_UNKEPT = _Unkept()
"""Where fields go that stand behind a body."""


def _rest(parser: HttpRequestParser, data: memoryview) -> memoryview | None:
    """Feed a parser, and give what stands behind an offer at which it has stopped, if it has."""
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
    """Refuse what is to be decoded before it is a body, and what is asked of no host, or of several.

    That chunks are around all else the parser sees to. HTTP/1.0 knows no hosts.

    Raises:
        UnknownCoding: It is to be decoded.
        NoSingleHost: It is asked so.
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
