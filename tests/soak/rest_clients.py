"""Clients over HTTP: JSON, bytes, jobs, bad inputs, and an operator who loads models anew."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from random import Random
from typing import Any

import numpy as np
from tests.soak.sample import Sample
from tests.soak.tally import OK, Tally

LIMIT_S = 60.0


def infer(address: str, sample: Sample, tally: Tally, random: Random) -> None:
    """Infer in JSON and in bytes, with a bad input now and then."""
    http = HTTPConnection(address, timeout=LIMIT_S)
    while not tally.stop.is_set():
        index, name = random.randrange(len(sample)), random.choice(sample.names)
        match random.randrange(8):
            case 0:
                code, _ = _post(http, f"/v2/models/{name}/infer", b'{"inputs": [{"name": "pixels"}]}')
                tally.add("REST bad input", code, ("INVALID_INPUT",))
            case 1 | 2 | 3:
                code, body = _post(http, f"/v2/models/{name}/infer", _document(sample, index))
                answer: Any = json.loads(body)["outputs"][0]["data"] if code == OK else None
                tally.add("REST JSON", sample.check(index, answer) if code == OK else code)
            case _:
                code, body = _post(http, f"/v2/models/{name}/infer", *_binary(sample, index))
                tally.add("REST bytes", sample.check(index, np.frombuffer(body[-40:], "<f4")) if code == OK else code)
    http.close()


def jobs(address: str, sample: Sample, tally: Tally, random: Random) -> None:
    """Start jobs, and collect, cancel or forget them."""
    http = HTTPConnection(address, timeout=LIMIT_S)
    while not tally.stop.wait(0.005):
        index, name = random.randrange(len(sample)), random.choice(sample.names)
        code, body = _post(http, f"/inferwire/v1/models/{name}/jobs", _document(sample, index))
        if code != OK:
            tally.add("REST job", code)
            continue
        path = f"/inferwire/v1/jobs/{json.loads(body)['id']}"
        match random.randrange(4):
            case 0:
                tally.add("REST job cancelled", _call(http, "DELETE", path)[0])
            case 1:
                tally.add("REST job forgotten", OK)
            case _:
                _call(http, "GET", f"{path}?wait_s=30")
                code, body = _call(http, "GET", f"{path}/result?release=true")
                answer: Any = json.loads(body)["outputs"][0]["data"] if code == OK else None
                tally.add("REST job", sample.check(index, answer) if code == OK else code)
    http.close()


def reload(address: str, sample: Sample, tally: Tally, random: Random) -> None:
    """Reload models while they are used: no caller may notice."""
    http = HTTPConnection(address, timeout=LIMIT_S)
    while not tally.stop.wait(1.0):
        code, _ = _post(http, f"/v2/repository/models/{random.choice(sample.names)}/load", b"")
        tally.add("reload", code)
    http.close()


def _document(sample: Sample, index: int) -> bytes:
    row = sample.rows[index]
    tensor = {"name": "pixels", "datatype": "FP32", "shape": row.shape, "data": row.ravel().tolist()}
    return json.dumps({"inputs": [tensor]}).encode()


def _binary(sample: Sample, index: int) -> tuple[bytes, dict[str, str]]:
    row = sample.rows[index]
    parameters = {"binary_data_size": row.nbytes}
    tensor = {"name": "pixels", "datatype": "FP32", "shape": row.shape, "parameters": parameters}
    document = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return document + row.tobytes(), {"Inference-Header-Content-Length": str(len(document))}


def _post(http: HTTPConnection, path: str, body: bytes, headers: dict[str, str] | None = None) -> tuple[str, bytes]:
    return _call(http, "POST", path, body, headers)


def _call(
    http: HTTPConnection, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[str, bytes]:
    """Call and give OK, or the name of the error's code, and the body."""
    http.request(method, path, body, headers or {})
    answer = http.getresponse()
    content = answer.read()
    return (OK if answer.status < 300 else str(json.loads(content)["code"])), content
