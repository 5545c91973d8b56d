"""What an error looks like to an HTTP client."""

from __future__ import annotations

import json

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.transport.http.responses import error_response


def test_an_error_of_openvinos_is_told_without_where_in_its_source_it_arose() -> None:
    message = (
        "Exception from src/inference/src/cpp/infer_request.cpp:246:\n"
        "Exception from src/plugins/intel_cpu/src/node.cpp:2022:\nshapes [2] and [3] do not fit:\nnode 'sum'"
    )
    body = json.loads(bytes(error_response(ServingError(Code.INFERENCE_FAILED, message)).body))
    assert body == {"error": "shapes [2] and [3] do not fit:\nnode 'sum'", "code": "INFERENCE_FAILED"}
