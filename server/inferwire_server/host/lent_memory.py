"""Memory that a client on this host lends: checks that the file it names is what it says, and maps it.

A process's number and its file descriptor's may mean something else here than to the client, for example in another PID
namespace, or name a file that is none of the client's. So nothing is opened before it is known to be a file for this
purpose, and nothing but a nonce is read of it until that proves it to be the client's.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from hmac import compare_digest
from mmap import PAGESIZE
from pathlib import Path

from inferwire_proto.errors import Code
from inferwire_proto.lent_memory import NAME, NONCE_BYTES, SEALS, Bytes, Mapping
from inferwire_server.core.loans import Loan
from inferwire_server.errors import ServingError, invalid_input

_SHOWN_AS = f"/memfd:{NAME} (deleted)"


def open_loan(loan: Loan, user: int | None = None) -> Bytes:
    """Map what is lent, without the nonce. It stays mapped as long as a view of it is held.

    The file has to belong to `user`, by default this process's own: memory that changes while it is read can do harm.

    Raises:
        ServingError: PERMISSION_DENIED for a file that cannot be opened from here, or is another user's; INVALID_INPUT
            for one that is no lent memory, can be cut, has another size or not the nonce; TOO_LARGE if there is no
            room for it.
    """
    if len(loan.nonce) != NONCE_BYTES or loan.byte_size <= NONCE_BYTES:
        raise invalid_input(
            f"the lent memory has {loan.byte_size} bytes and a nonce of {len(loan.nonce)}, "
            f"expected a nonce of {NONCE_BYTES} and more bytes than that"
        )
    with _opened(loan) as descriptor:
        _check(descriptor, loan, os.geteuid() if user is None else user)
        content = _mapped(descriptor, loan)
    if content is None:
        raise invalid_input(
            f"{loan} does not end with the nonce, expected the file of the client that lends it: "
            "processes are numbered otherwise where it runs"
        )
    return content


@contextmanager
def _opened(loan: Loan) -> Generator[int]:
    """Have the file open."""
    try:
        descriptor = _open(loan)
    except OSError as error:
        raise ServingError(
            Code.PERMISSION_DENIED,
            f"{loan} cannot be opened here: {error.strerror}, expected a client of this host, in the same PID "
            "namespace and of the server's user",
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open(loan: Loan) -> int:
    """Open the file, once it is known that opening it has no effect."""
    found = os.open(f"/proc/{loan.pid}/fd/{loan.descriptor}", os.O_PATH | os.O_CLOEXEC)
    try:
        itself = Path(f"/proc/self/fd/{found}")
        if str(itself.readlink()) != _SHOWN_AS:
            raise invalid_input(f"{loan} is something else, expected a memfd named '{NAME}'")
        return os.open(itself, os.O_RDWR | os.O_CLOEXEC)
    finally:
        os.close(found)


def _check(descriptor: int, loan: Loan, user: int) -> None:
    seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    if seals & SEALS != SEALS:
        raise invalid_input(f"{loan} has the seals {seals:#x}, expected {SEALS:#x}: it must keep its size")
    status = os.fstat(descriptor)
    if status.st_uid != user:
        raise ServingError(
            Code.PERMISSION_DENIED, f"{loan} belongs to user {status.st_uid}, expected the server's own, {user}"
        )
    if status.st_size != loan.byte_size:
        raise invalid_input(f"{loan} has {status.st_size} bytes, expected the {loan.byte_size} that the call says")
    if os.fstatvfs(descriptor).f_bsize != PAGESIZE:
        # If a huge page was given back, there may be none left to replace it: reading there would end this process.
        raise invalid_input(f"{loan} is made of huge pages, expected ordinary ones")


def _mapped(descriptor: int, loan: Loan) -> Bytes | None:
    """Map the file; None if it does not end with the nonce."""
    try:
        content = Mapping(descriptor, loan.byte_size).bytes
    except OSError as error:
        raise ServingError(
            Code.TOO_LARGE, f"there is no room for the {loan.byte_size} bytes of {loan}: {error.strerror}"
        ) from error
    # The server writes nothing there. That an inference cannot either is up to the mapping.
    content.flags.writeable = False
    is_the_clients = compare_digest(content[-NONCE_BYTES:].tobytes(), loan.nonce)
    return content[:-NONCE_BYTES] if is_the_clients else None
