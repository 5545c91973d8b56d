"""Memory that sessions lend: theirs alone, so much and no more, and given back with them."""

from __future__ import annotations

import numpy as np
import pytest

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_proto.lent_memory import Bytes
from inferwire_server.core.loans import Loan
from inferwire_server.core.sessions import Session
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.service.lent_memory import LentMemory
from inferwire_server.service.tensors import TensorLimits, TensorService
from inferwire_server.service.values import LentTensor, StoredTensor

F32 = BY_NAME["f32"]
MEMORY = np.arange(32, dtype=np.uint8)
LOAN = Loan(1, 2, 48, bytes(16))


@pytest.fixture
def session() -> Session:
    return Session("s", "test")


@pytest.fixture
def lent() -> LentMemory:
    """Memory of two pieces at the most, which all have the same content."""

    def open_loan(loan: Loan) -> Bytes:
        assert loan is LOAN
        return MEMORY

    return LentMemory(2, open_loan)


def refusal(lent: LentMemory, tensor: LentTensor) -> tuple[Code, str]:
    with pytest.raises(ServingError) as caught:
        lent.tensor(tensor)
    return caught.value.code, caught.value.message


def test_a_tensor_lies_at_the_beginning(lent: LentMemory, session: Session) -> None:
    lent.lend(session, 7, LOAN)
    assert lent.tensor(LentTensor(session, 7, F32, (2, 3))) == Tensor(F32, (2, 3), MEMORY[:24].data)
    assert lent.tensor(LentTensor(session, 7, F32, (2, 4))).byte_size == 32
    assert lent.tensor(LentTensor(session, 7, F32, (0, 4))).byte_size == 0


@pytest.mark.parametrize(
    ("element_type", "shape", "sentence"),
    [
        ("f32", (3, 3), r"f32[3,3] has 36 bytes, but the lent memory 7 has 32"),
        ("f32", (-1, 4), f"what lies in lent memory 7 has shape [-1,4], expected dimensions from 0 to {2**63 - 1}"),
        ("f32", (2**63 - 1,) * 300, "what lies in lent memory 7 has 300 dimensions, expected at most 64"),
        ("string", (1,), r"string[1] cannot lie in lent memory, expected a type of whole bytes and fixed size"),
        ("u4", (2,), r"u4[2] cannot lie in lent memory, expected a type of whole bytes and fixed size"),
    ],
)
def test_what_cannot_lie_there_is_refused(
    lent: LentMemory, session: Session, element_type: str, shape: tuple[int, ...], sentence: str
) -> None:
    lent.lend(session, 7, LOAN)
    refused = refusal(lent, LentTensor(session, 7, BY_NAME[element_type], shape))
    assert refused == (Code.INVALID_INPUT, sentence)


def test_it_is_its_sessions_alone_until_it_is_given_back(lent: LentMemory, session: Session) -> None:
    lent.lend(session, 1, LOAN)
    tensor = LentTensor(session, 1, F32, (1,))
    code, sentence = refusal(lent, LentTensor(Session("other", "test"), 1, F32, (1,)))
    assert (code, sentence) == (
        Code.TENSOR_NOT_FOUND,
        "memory 1 is not lent in this session: it never was, or is no more",
    )
    lent.release(session, [5, 1])
    assert refusal(lent, tensor)[0] is Code.TENSOR_NOT_FOUND


def test_a_session_lends_so_much_and_no_more(lent: LentMemory, session: Session) -> None:
    lent.lend(session, 1, LOAN)
    lent.lend(session, 2, LOAN)
    lent.lend(Session("other", "test"), 1, LOAN)
    with pytest.raises(ServingError, match="has lent 2 pieces of memory, which is the most it may") as caught:
        lent.lend(session, 3, LOAN)
    assert caught.value.code is Code.TOO_LARGE
    lent.lend(session, 2, LOAN)
    lent.release(session, [1])
    lent.lend(session, 3, LOAN)
    assert repr(lent) == "<LentMemory: 3 of 2 sessions>"


def test_it_ends_with_the_session(lent: LentMemory, session: Session) -> None:
    tensors = TensorService(TensorLimits(10_000, 10_000), lent)
    lent.lend(session, 1, LOAN)
    tensors.end(session)
    assert repr(lent) == "<LentMemory: 0 of 0 sessions>"
    session.has_ended = True
    with pytest.raises(ServingError) as caught:
        lent.lend(session, 1, LOAN)
    assert caught.value.code is Code.SESSION_EXPIRED


def test_kept_and_lent_tensors_are_found_where_they_are(lent: LentMemory, session: Session) -> None:
    tensors = TensorService(TensorLimits(10_000, 10_000), lent)
    lent.lend(session, 1, LOAN)
    tensors.create(StoredTensor(session, 1), F32, (2,))
    assert tensors.tensor(StoredTensor(session, 1)) == Tensor(F32, (2,), bytes(8))
    assert tensors.tensor(LentTensor(session, 1, F32, (1,))) == Tensor(F32, (1,), MEMORY[:4].data)
