"""The one table of error codes: what each means on gRPC and on HTTP.

A code is what programs branch on; the sentence beside it is for people. Transports look a code
up here; nothing else knows a status number. Each gRPC status is named, not imported, so that the
table needs no gRPC.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one code is on the wires."""

    wire: int
    grpc: str
    http: int


class Code(Enum):
    """What went wrong, as a program sees it. The value holds the wire's numbers and statuses."""

    INVALID_INPUT = Meaning(1, "INVALID_ARGUMENT", 400)
    MODEL_NOT_FOUND = Meaning(2, "NOT_FOUND", 404)
    JOB_NOT_FOUND = Meaning(3, "NOT_FOUND", 404)
    MODEL_NOT_READY = Meaning(4, "UNAVAILABLE", 503)
    MODEL_FAILED = Meaning(5, "FAILED_PRECONDITION", 409)
    TOO_LARGE = Meaning(6, "RESOURCE_EXHAUSTED", 413)
    UNIMPLEMENTED = Meaning(7, "UNIMPLEMENTED", 501)
    UNSUPPORTED_ENCODING = Meaning(8, "INVALID_ARGUMENT", 415)
    SESSION_EXPIRED = Meaning(9, "FAILED_PRECONDITION", 410)
    QUEUE_FULL = Meaning(10, "RESOURCE_EXHAUSTED", 429)
    DEADLINE_EXCEEDED = Meaning(11, "DEADLINE_EXCEEDED", 504)
    CANCELLED = Meaning(12, "CANCELLED", 499)
    UNAUTHENTICATED = Meaning(13, "UNAUTHENTICATED", 401)
    PERMISSION_DENIED = Meaning(14, "PERMISSION_DENIED", 403)
    INFERENCE_FAILED = Meaning(15, "INTERNAL", 500)
    SHUTTING_DOWN = Meaning(16, "UNAVAILABLE", 503)
    INTERNAL = Meaning(17, "INTERNAL", 500)
    SEQUENCE_NOT_FOUND = Meaning(18, "INVALID_ARGUMENT", 400)
    TENSOR_NOT_FOUND = Meaning(19, "NOT_FOUND", 404)
    UNSUPPORTED_TYPE = Meaning(20, "UNIMPLEMENTED", 501)

    @property
    def wire(self) -> int:
        """The code's number in `inferwire.v1.ErrorCode`."""
        return self.value.wire

    @property
    def http(self) -> int:
        """The code's HTTP status."""
        return self.value.http

    @property
    def grpc(self) -> str:
        """The name of the code's gRPC status."""
        return self.value.grpc


BY_WIRE: dict[int, Code] = {code.wire: code for code in Code}

CODE_METADATA = "inferwire-code"
"""The trailing metadata entry that carries a code's name, since one gRPC status serves several codes."""

RETRY_AFTER_METADATA = "retry-after"
"""The trailing metadata entry that says when a retry makes sense, in seconds, if that is known."""
