"""What clients say of memory that they lend."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loan:
    """What a client says of memory it lends.

    Attributes:
        pid: The client's process.
        descriptor: The number under which that process has the file open.
        byte_size: The file's size.
        nonce: The bytes at the file's end, which prove that the file is the client's.
    """

    pid: int
    descriptor: int
    byte_size: int
    nonce: bytes

    def __str__(self) -> str:
        return f"file {self.descriptor} of process {self.pid}"
