"""Errors as gRPC says them: a status, a sentence, and the code in the trailing metadata."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import quote

import grpc

from inferwire_proto.errors import CODE_METADATA, RETRY_AFTER_METADATA, Code
from inferwire_server.errors import ServingError
from inferwire_server.transport.http2.header_blocks import write_block

Trailers: TypeAlias = tuple[tuple[str, str], ...]
"""What a call's answer says after its messages, besides its status."""

_MOST_DETAILS_BYTES = 6000
"""How many bytes a sentence may take in a header, where each byte beyond ASCII takes three. Peers begin to refuse
headers of more than 8 KiB in all."""

_MOST_BYTES_PER_CHARACTER = 12

_PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
"""The characters that stand for themselves in a status's sentence."""

_OUTER_SPACE = re.compile(r"^ | $")

_STATUS_200 = b"\x88"
"""`:status: 200`, as HPACK's static table has it."""

ENCODINGS = ("identity", "gzip", "deflate")
"""How messages may be compressed."""

ANSWER_HEADERS = _STATUS_200 + write_block(
    [(b"content-type", b"application/grpc"), (b"grpc-accept-encoding", ",".join(ENCODINGS).encode())]
)
"""What every answer begins with."""

OK = write_block([(b"grpc-status", b"0")])
"""What an answer ends with."""


def clipped(message: str) -> str:
    """Keep the beginning of a sentence that is too long for a header."""
    room = _MOST_DETAILS_BYTES
    if len(message) * _MOST_BYTES_PER_CHARACTER <= room:
        return message
    for index, character in enumerate(message):
        is_plain = " " <= character <= "~" and character != "%"
        room -= 1 if is_plain else 3 * len(character.encode("utf-8", "surrogatepass"))
        if room < 0:
            return message[:index] + "..."
    return message


class RpcStatus(Exception):
    """How a call without an answer ends."""

    def __init__(self, code: grpc.StatusCode, details: str, trailers: Trailers = ()) -> None:
        self.code = code
        self.details = clipped(details)
        super().__init__(f"{code.name}: {self.details}")
        self.trailers = trailers

    @classmethod
    def of(cls, error: ServingError) -> RpcStatus:
        """Say an error as gRPC says it."""
        return cls(status_of(error.status), error.message, _trailers_of(error))

    def block(self) -> bytes:
        """Write it as the headers that an answer ends with."""
        return _block(self.code, self.details, self.trailers)


NO_METHOD = RpcStatus(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
"""What gRPC's own servers say of calls that they do not offer: clients know this sentence."""

NO_TENSORFLOW_SERVING = RpcStatus(
    grpc.StatusCode.UNIMPLEMENTED,
    "TensorFlow Serving's API is not offered here: the Open Inference Protocol is, as inference.GRPCInferenceService",
)
"""What clients of TensorFlow Serving's API, such as `ovmsclient`, are told, whatever they call."""

TENSORFLOW_SERVING = "/tensorflow.serving."
"""What the paths of its calls begin with."""


def status_of(code: Code) -> grpc.StatusCode:
    """Look up the status of a code."""
    return grpc.StatusCode[code.grpc]


def _trailers_of(error: ServingError) -> Trailers:
    """Say what the status alone does not."""
    trailers = ((CODE_METADATA, error.code.name),)
    if error.retry_after_s is None:
        return trailers
    return (*trailers, (RETRY_AFTER_METADATA, f"{error.retry_after_s:g}"))


@lru_cache
def _block(code: grpc.StatusCode, details: str, trailers: Trailers) -> bytes:
    number: int = code.value[0]
    message = [("grpc-message", _written(details))] if details else []
    fields = [("grpc-status", str(number)), *message, *trailers]
    return write_block([(name.encode(), value.encode()) for name, value in fields])


def _written(details: str) -> str:
    """Write a sentence as a header's value, which may not begin or end with a space (RFC 9113, 8.2.1)."""
    return _OUTER_SPACE.sub("%20", quote(details, safe=_PLAIN, errors="replace"))
