"""Sends executions on a link: on its stream or, if they are large, as calls of their own.

Owns encoded headers: each is made once, and again if the model has another name on the link.
"""

from __future__ import annotations

import sys
import weakref
from dataclasses import replace

from inferwire.errors import TooLarge
from inferwire.process import FINALIZING
from inferwire.transport import codec
from inferwire.transport.compiled_models import CompiledModels
from inferwire.transport.executions import ExecutionHeader
from inferwire.transport.large_execution import LargeExecution
from inferwire.transport.lending import LEAST_BYTES, Lending
from inferwire.transport.link import Link
from inferwire.transport.session.stream_execution import EncodedHeader
from inferwire.transport.submission import Submission

_MOST_NAMING = 256
"""How many headers that name lent memory are kept."""


class WireSender:
    """Sends executions to one server: the `Sender` of `Submission`s."""

    def __init__(self, address: str, compiled: CompiledModels, lending: Lending) -> None:
        self._address = address
        self._compiled = compiled
        self._lending = lending
        self._headers: weakref.WeakKeyDictionary[ExecutionHeader, tuple[str, EncodedHeader]] = (
            weakref.WeakKeyDictionary()
        )
        self._latest: tuple[Link | None, ExecutionHeader | None, EncodedHeader] = (None, None, EncodedHeader(b""))
        self._lent: dict[tuple[EncodedHeader, tuple[int, ...]], EncodedHeader] = {}

    def __repr__(self) -> str:
        return f"<WireSender to {self._address}: {len(self._headers)} headers>"

    def send(self, link: Link, submission: Submission) -> None:
        """Send an execution on a link."""
        header, inputs, stream = submission.header, submission.inputs, link.stream
        latest_link, latest_header, encoded = self._latest
        if latest_header is not header or latest_link is not link:
            encoded = self._encoded(link, header)
            self._latest = (link, header, encoded)
        byte_size = len(inputs[0]) if len(inputs) == 1 else sum(map(len, inputs))
        if byte_size >= LEAST_BYTES:
            if sys.is_finalizing():
                # Lending memory and making a call of its own both start threads.
                raise RuntimeError(FINALIZING)
            if (names := self._lending.names_or_ask(link, inputs)) is not None:
                encoded = self._naming(link, header, encoded, names)
                byte_size = sum(map(len, encoded.sent_of(inputs)))
        if byte_size < stream.large_bytes:
            stream.submit(submission, encoded, byte_size)
        elif byte_size > stream.most_bytes:
            raise too_large(byte_size, stream.most_bytes, self._address)
        else:
            submission.large = large = LargeExecution(link.channel, self._address, link.metadata, submission.take)
            large.start(encoded.data, encoded.sent_of(inputs))

    def is_ready(self, link: Link, header: ExecutionHeader) -> bool:
        """Whether the link's session has the model of an execution, so that none is compiled before it is sent."""
        return header.target.is_served or self._compiled.is_on(header.target.name, link)

    def _encoded(self, link: Link, header: ExecutionHeader) -> EncodedHeader:
        target = self._compiled.target_on(link, header.target, header.sequence)
        known = self._headers.get(header)
        if known is None or known[0] != target.name:
            known = target.name, EncodedHeader(codec.encode_header(replace(header, target=target)), header.most_stacked)
            self._headers[header] = known
        return known[1]

    def _naming(
        self, link: Link, header: ExecutionHeader, sending: EncodedHeader, names: tuple[int, ...]
    ) -> EncodedHeader:
        """Encode the header with names[i] as the id of lent memory for the i-th input whose bytes would be sent.

        An id of 0 means that its bytes are sent all the same.
        """
        encoded = self._lent.get((sending, names))
        if encoded is None:
            if len(self._lent) >= _MOST_NAMING:
                self._lent.clear()
            lent = iter(names)
            inputs = tuple([each if each.stored else replace(each, lent=next(lent)) for each in header.inputs])
            target = self._compiled.target_on(link, header.target, header.sequence)
            sends = tuple([at for at, name in enumerate(names) if not name])
            encoded = EncodedHeader(codec.encode_header(replace(header, target=target, inputs=inputs)), 1, sends)
            self._lent[sending, names] = encoded
        return encoded


def too_large(byte_size: int, limit: int, address: str) -> TooLarge:
    """Make the error for inputs that are larger than the server takes."""
    return TooLarge(
        f"the inputs have {byte_size} bytes, at most {limit} fit in a message to the server at {address}; "
        "start it with a larger --max-grpc-message-mb"
    )
