"""How large an answer may be, and what is said of a larger one."""

from __future__ import annotations

import numpy as np
import pytest

from inferwire_proto import raw_fields
from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.transport.message_limits import checked, joined


def test_an_answer_may_have_as_many_bytes_as_fit() -> None:
    assert checked(b"1234", 4) == b"1234"
    with pytest.raises(ServingError, match="the answer has 4 bytes, at most 3 fit in a message") as caught:
        checked(b"1234", 3)
    assert caught.value.code is Code.TOO_LARGE


def test_an_answer_that_does_not_fit_is_not_joined() -> None:
    tensor = np.ones(3, np.float32).data
    whole = raw_fields.join(b"head", (tensor, (b"a", b"bc")))
    assert joined(b"head", (tensor, (b"a", b"bc")), len(whole)) == whole
    endless = np.broadcast_to(np.uint8(0), (1 << 50,)).data
    with pytest.raises(ServingError, match=r"the answer has \d{16} bytes, at most 9 fit"):
        joined(b"head", (endless,), 9)
