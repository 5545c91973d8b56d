"""Lent memory: what a file has to be before it is read, and that a view keeps what is mapped."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from inferwire_proto.errors import Code
from inferwire_proto.lent_memory import NAME, NONCE_BYTES, SEALS
from inferwire_server.core.loans import Loan
from inferwire_server.errors import ServingError
from inferwire_server.host.lent_memory import open_loan

NONCE = bytes(range(NONCE_BYTES))
CONTENT = bytes(range(256)) * 64
BYTE_SIZE = len(CONTENT) + NONCE_BYTES

MakeFile = Callable[..., int]


@pytest.fixture
def make_file() -> Iterator[MakeFile]:
    """Make an open file as a client would, or almost."""
    with ExitStack() as stack:

        def make(name: str = NAME, seals: int = SEALS, content: bytes = CONTENT + NONCE) -> int:
            descriptor = os.memfd_create(name, os.MFD_ALLOW_SEALING)
            stack.callback(os.close, descriptor)
            os.write(descriptor, content)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
            return descriptor

        yield make


def loan_of(descriptor: int) -> Loan:
    return Loan(os.getpid(), descriptor, BYTE_SIZE, NONCE)


def refusal(loan: Loan) -> tuple[Code, str]:
    with pytest.raises(ServingError) as caught:
        open_loan(loan)
    return caught.value.code, caught.value.message


def is_mapped() -> bool:
    return f"/memfd:{NAME}" in Path("/proc/self/maps").read_text()


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_what_the_client_writes_is_seen_where_it_lies(make_file: MakeFile) -> None:
    descriptor = make_file()
    content = open_loan(loan_of(descriptor))
    assert content.tobytes() == CONTENT
    os.pwrite(descriptor, b"new", 0)
    assert content[:3].tobytes() == b"new"
    assert not content.flags.writeable


def test_a_view_keeps_what_is_mapped_and_nothing_stays_open(make_file: MakeFile) -> None:
    descriptor, before = make_file(), open_files()
    view = open_loan(loan_of(descriptor)).data[:10]
    assert (is_mapped(), open_files()) == (True, before)
    assert bytes(view) == CONTENT[:10]
    del view
    assert not is_mapped()


@pytest.mark.parametrize("seals", [0, fcntl.F_SEAL_GROW, fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK])
def test_a_file_that_could_be_cut_is_refused(make_file: MakeFile, seals: int) -> None:
    code, sentence = refusal(loan_of(make_file(seals=seals)))
    assert code is Code.INVALID_INPUT
    assert f"has the seals {seals:#x}, expected 0x7: it must keep its size" in sentence


@pytest.mark.parametrize("content", [CONTENT, CONTENT + NONCE + b"\0"])
def test_a_file_of_another_size_is_refused(make_file: MakeFile, content: bytes) -> None:
    code, sentence = refusal(loan_of(make_file(content=content)))
    assert code is Code.INVALID_INPUT
    assert f"has {len(content)} bytes, expected the {BYTE_SIZE} that the call says" in sentence


def test_another_clients_file_is_refused(make_file: MakeFile) -> None:
    loan = replace(loan_of(make_file()), nonce=bytes(NONCE_BYTES))
    code, sentence = refusal(loan)
    assert code is Code.INVALID_INPUT
    assert f"file {loan.descriptor} of process {loan.pid} does not end with the nonce" in sentence
    assert not is_mapped()


def test_another_users_file_is_refused(make_file: MakeFile) -> None:
    loan, user = loan_of(make_file()), os.geteuid()
    with pytest.raises(ServingError, match=f"belongs to user {user}, expected the server's own, {user + 1}") as caught:
        open_loan(loan, user + 1)
    assert caught.value.code is Code.PERMISSION_DENIED


def test_a_memfd_of_another_name_is_refused(make_file: MakeFile) -> None:
    code, sentence = refusal(loan_of(make_file(name="other")))
    assert code is Code.INVALID_INPUT
    assert "is something else, expected a memfd named 'inferwire'" in sentence


def test_another_kind_of_file_is_refused_and_not_opened(tmp_path: Path) -> None:
    """To open a pipe for reading would wait for somebody who writes."""
    reading, writing = os.pipe()
    ordinary = os.open(tmp_path / NAME, os.O_RDWR | os.O_CREAT)
    for descriptor in (reading, writing, ordinary):
        assert "is something else" in refusal(loan_of(descriptor))[1]
        os.close(descriptor)


@pytest.mark.parametrize(("pid", "descriptor"), [(os.getpid(), 1 << 20), (2**31, 0)], ids=["own", "none"])
def test_what_is_not_there_is_refused(pid: int, descriptor: int) -> None:
    code, sentence = refusal(Loan(pid, descriptor, BYTE_SIZE, NONCE))
    assert code is Code.PERMISSION_DENIED
    assert f"file {descriptor} of process {pid} cannot be opened here: No such file or directory" in sentence


@pytest.mark.parametrize(("byte_size", "nonce"), [(BYTE_SIZE, b""), (BYTE_SIZE, NONCE + b"\0"), (NONCE_BYTES, NONCE)])
def test_what_could_not_prove_anything_is_refused(make_file: MakeFile, byte_size: int, nonce: bytes) -> None:
    code, sentence = refusal(replace(loan_of(make_file()), byte_size=byte_size, nonce=nonce))
    assert code is Code.INVALID_INPUT
    assert "expected a nonce of 16 and more bytes than that" in sentence


def test_what_there_is_no_room_for_is_refused(make_file: MakeFile) -> None:
    descriptor = make_file(seals=0)
    os.ftruncate(descriptor, 1 << 50)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    code, sentence = refusal(replace(loan_of(descriptor), byte_size=1 << 50))
    assert code is Code.TOO_LARGE
    assert f"there is no room for the {1 << 50} bytes" in sentence


def test_huge_pages_are_refused() -> None:
    descriptor = os.memfd_create(NAME, os.MFD_ALLOW_SEALING | os.MFD_HUGETLB)
    byte_size = os.fstatvfs(descriptor).f_bsize
    os.ftruncate(descriptor, byte_size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    code, sentence = refusal(replace(loan_of(descriptor), byte_size=byte_size))
    os.close(descriptor)
    assert code is Code.INVALID_INPUT
    assert "is made of huge pages, expected ordinary ones" in sentence
