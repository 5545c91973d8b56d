"""How large an answer may be, and what is said of a larger one."""

from __future__ import annotations

import pytest

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.transport.message_limits import checked


def test_an_answer_may_have_as_many_bytes_as_fit() -> None:
    assert checked(b"1234", 4) == b"1234"
    with pytest.raises(ServingError, match="the answer has 4 bytes, at most 3 fit in a message") as caught:
        checked(b"1234", 3)
    assert caught.value.code is Code.TOO_LARGE
