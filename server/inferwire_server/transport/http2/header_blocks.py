"""Headers as HTTP/2 packs them (HPACK, RFC 7541).

The `hpack` library unpacks them. What is here saves it work: callers send the same headers again and again, and a block
that does not change the connection's table of headers means the same whenever it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeAlias, TypeVar

from hpack import Decoder, HPACKError, OversizedHeaderListError
from hpack.hpack import encode_integer
from hpack.table import HeaderTable

from inferwire_server.transport.http2.frames import ConnectionFailed, ErrorCode

Field: TypeAlias = tuple[bytes, bytes]
"""The name of a header, in lower case, and its value."""

MOST_HEADER_BYTES = 64 * 1024
"""How many bytes all headers of a call may have together, as RFC 9113 counts them, unless their connection has more."""

UNPACKED_TIMES = 4
"""How many times as long they may be before their connection ends. Up to that they are unpacked, which keeps the
connection's table of headers right, so that their call alone can be refused."""

_BESIDE_FIELD_BYTES = 32
"""What a header counts for besides its name and its value (RFC 9113, 6.5.2)."""

_MOST_KEPT = 64
_LONGEST_KEPT = 4096
"""How many bytes the headers of a kept block may have, once unpacked: a byte of a block may stand for thousands."""

_SIZE_UPDATE, _SIZE_UPDATE_MASK = 0x20, 0xE0
"""How a block begins that changes the size of its connection's table of headers."""

REMEMBERED_BYTES = 4096
"""How many bytes a connection may remember of the headers that go out, unless its peer wants less."""

NOTHING_REMEMBERED = bytes((_SIZE_UPDATE,))
"""What the next headers begin with after a peer has said that it wants less: nothing is remembered."""

H = TypeVar("H")


class HeaderBlocks(Generic[H]):
    """Reads one connection's blocks, each into what its headers say."""

    def __init__(self, read: Callable[[Sequence[Field]], H], most_bytes: int) -> None:
        self._read = read
        self._most_bytes = most_bytes
        self._table = _CountingTable()
        self._decoder = Decoder(max_header_list_size=most_bytes)
        self._decoder.header_table = self._table
        self._kept: dict[bytes, H] = {}

    def read(self, block: bytes) -> H:
        """Give what a block's headers say.

        Raises:
            ConnectionFailed: The block cannot be unpacked, and so no later one either.
        """
        found = self._kept.get(block)
        return self._unpack(block) if found is None else found

    def _unpack(self, block: bytes) -> H:
        before = self._table.changes
        try:
            fields = self._decoder.decode(block, raw=True)
        except OversizedHeaderListError as error:
            sentence = f"the headers are longer than {self._most_bytes} bytes"
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, sentence) from error
        except HPACKError as error:
            raise ConnectionFailed(ErrorCode.COMPRESSION_ERROR, "the headers cannot be unpacked") from error
        listed = [(bytes(name), bytes(value)) for name, value in fields]
        said = self._read(listed)
        if self._table.changes != before or (block and block[0] & _SIZE_UPDATE_MASK == _SIZE_UPDATE):
            self._kept.clear()
        elif list_size(listed) <= _LONGEST_KEPT:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[block] = said
        return said


class _CountingTable(HeaderTable):
    """A connection's table of headers, which counts how often it has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0

    def add(self, name: bytes, value: bytes) -> None:
        """Remember a header."""
        self.changes += 1
        super().add(name, value)


def list_size(fields: Iterable[Field]) -> int:
    """Count how many bytes headers have together, as RFC 9113's limits do."""
    return sum([len(name) + len(value) + _BESIDE_FIELD_BYTES for name, value in fields])


def write_block(fields: Iterable[Field]) -> bytes:
    """Write headers so that neither side has to remember any: equal headers are equal bytes on every connection."""
    return b"".join([b"\0" + _string(name) + _string(value) for name, value in fields])


def _string(text: bytes) -> bytes:
    return bytes(encode_integer(len(text), 7)) + text
