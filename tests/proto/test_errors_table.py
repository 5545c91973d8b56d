"""The table of error codes: complete, unambiguous, and the contract's own."""

from __future__ import annotations

from http import HTTPStatus

import grpc
import pytest

from inferwire_proto.errors import BY_WIRE, Code
from inferwire_proto.inferwire.v1 import types_pb2


@pytest.mark.parametrize("code", Code, ids=lambda code: code.name)
def test_a_code_has_a_number_of_the_contract_and_a_status_on_either_wire(code: Code) -> None:
    assert types_pb2.ErrorCode.Name(types_pb2.ErrorCode.ValueType(code.wire)) == f"ERROR_CODE_{code.name}"
    assert BY_WIRE[code.wire] is code
    assert grpc.StatusCode[code.grpc] is not grpc.StatusCode.OK
    assert code.http == 499 or HTTPStatus(code.http).value >= 400


def test_every_number_of_the_contract_is_in_the_table() -> None:
    assert set(types_pb2.ErrorCode.values()) == {0, *BY_WIRE}


def test_what_may_be_retried_is_said_by_a_status_that_clients_retry() -> None:
    retried = {Code.MODEL_NOT_READY, Code.SHUTTING_DOWN}
    assert {code for code in Code if code.grpc == "UNAVAILABLE"} == retried
    assert {code for code in Code if code.http == 503} == retried
