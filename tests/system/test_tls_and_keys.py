"""Servers that speak TLS and ask for keys, as processes, met by the clients that people have."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tests.certificates import Authority, Issued
from tests.system.servers import PATIENT, log_line, started, wait_for_line

import inferwire as ov
from inferwire_cli.server_process import ServerProcess, has_ended_within, tail

DIGITS = Path(__file__).resolve().parents[2] / "deploy/models/digits_mlp"
KEY, NEXT_KEY = "the-key-of-the-tests", "the-key-that-follows"
PAGE = "https://app.example"
BINARY = {"binary_data_output": True}
# Triton's client adds to the dictionary that it is given.
SHOWN = {"authorization": f"Bearer {KEY}"}
ROW = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 64)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue()


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "api-keys"
    file.write_text(f"{KEY}\n")
    return file


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def workers(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(scope="module")
def server(issued: Issued, key_file: Path, workers: int) -> Iterator[ServerProcess]:
    tls = ("--tls-certificate", str(issued.certificate), "--tls-key", str(issued.key))
    keys = ("--api-key-file", str(key_file), "--workers", str(workers), "--allow-model-control")
    keys += ("--allow-origin", PAGE)
    with started("--model-repository", str(DIGITS), *tls, *keys) as (running, log):
        wait_for_line(running, log, '"ready"')
        yield running
        running.process.terminate()
        assert has_ended_within(running, 30)
        assert running.process.returncode == 0, tail(log)


def https(server: ServerProcess, authority: Authority, key: str = KEY) -> httpx.Client:
    return httpx.Client(
        base_url=f"https://localhost:{server.http_port}",
        verify=authority.trusting,
        headers={"authorization": f"Bearer {key}"},
        timeout=30,
    )


def test_tritons_client_over_grpc(server: ServerProcess, authority: Authority) -> None:
    address = f"localhost:{server.grpc_port}"
    client: Any = tritonclient.grpc.InferenceServerClient(address, ssl=True, root_certificates=str(authority.root))
    assert client.is_server_ready()
    given = tritonclient.grpc.InferInput("pixels", [1, 64], "FP32")
    given.set_data_from_numpy(ROW)
    found = client.infer("digits_mlp", [given], headers=dict(SHOWN)).as_numpy("probabilities")
    assert found.shape == (1, 10)
    with pytest.raises(tritonclient.grpc.InferenceServerException, match=r"UNAUTHENTICATED.*no API key was given"):
        client.infer("digits_mlp", [given])
    client.close()


def test_tritons_client_over_http(server: ServerProcess, authority: Authority) -> None:
    client: Any = tritonclient.http.InferenceServerClient(
        f"localhost:{server.http_port}", ssl=True, ssl_options={"ca_certs": str(authority.root)}
    )
    given = tritonclient.http.InferInput("pixels", [1, 64], "FP32")
    given.set_data_from_numpy(ROW)
    found = client.infer("digits_mlp", [given], headers=dict(SHOWN)).as_numpy("probabilities")
    assert found.shape == (1, 10)
    with pytest.raises(tritonclient.http.InferenceServerException, match="no API key was given"):
        client.infer("digits_mlp", [given])
    client.close()


def test_calls_that_concern_every_worker_take_the_key_along(server: ServerProcess, authority: Authority) -> None:
    with https(server, authority) as client:
        assert client.post("/v2/repository/models/digits_mlp/load").status_code == 200
        assert "inferwire_jobs_total" in client.get("/metrics").text
        job = client.post(
            "/inferwire/v1/models/digits_mlp/jobs",
            json={"inputs": [{"name": "pixels", "datatype": "FP32", "shape": [1, 64], "data": ROW.tolist()}]},
        ).json()["id"]
    # Each a connection of its own, which may be another worker's.
    for _ in range(8):
        with https(server, authority) as client:
            assert client.get(f"/inferwire/v1/jobs/{job}").status_code == 200
            assert client.get(f"/inferwire/v1/jobs/{job}", headers={"authorization": ""}).status_code == 401
    channel = grpc.secure_channel(
        f"localhost:{server.grpc_port}", grpc.ssl_channel_credentials(authority.root.read_bytes())
    )
    call: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelStatistics")
    assert call(b"", metadata=tuple(SHOWN.items()), timeout=30)
    channel.close()


def test_a_page_of_an_origin_that_may_call(server: ServerProcess, authority: Authority) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    shown = {"authorization": f"Bearer {KEY}", "content-type": "application/octet-stream"}
    path = "/v2/models/digits_mlp/infer"
    head = json.dumps({"inputs": [{"name": "pixels", "datatype": "FP32", "shape": [1, 64]}], "parameters": BINARY})
    body, sizes = head.encode() + ROW.tobytes(), {"inference-header-content-length": str(len(head))}
    address = f"https://localhost:{server.http_port}"
    with httpx.Client(base_url=address, verify=authority.trusting, timeout=30) as browser:
        may = browser.options(path, headers=asked | {"origin": PAGE})
        answer = browser.post(path, content=body, headers=shown | sizes | {"origin": PAGE})
        refused = browser.post(path, content=body, headers=sizes | {"origin": PAGE})
        for other in (
            browser.options(path, headers=asked | {"origin": "https://other.example"}),
            browser.post(path, content=body, headers=shown | sizes | {"origin": "https://other.example"}),
        ):
            assert "access-control-allow-origin" not in other.headers
    assert may.status_code == 200
    assert may.headers["access-control-allow-headers"] == asked["Access-Control-Request-Headers"]
    assert "DELETE" in may.headers["access-control-allow-methods"]
    assert (answer.status_code, refused.status_code) == (200, 401)
    for each in (may, answer, refused):
        assert each.headers["access-control-allow-origin"] == PAGE
    assert "inference-header-content-length" in answer.headers["access-control-expose-headers"].lower()
    assert "inference-header-content-length" in answer.headers


def test_the_sdk(server: ServerProcess, authority: Authority, workers: int) -> None:
    address = f"grpcs://localhost:{server.grpc_port}"
    core = ov.Core(address, api_key=KEY, root_certificates=authority.root, timeouts=PATIENT)
    before = set(threading.enumerate())
    queue = ov.AsyncInferQueue(core.served_model("digits_mlp"), 4)
    seen: list[tuple[int, ...]] = []
    queue.set_callback(lambda request, _: seen.append(request.results[0].shape))
    for _ in range(20):
        queue.start_async(ROW)
    queue.wait_all()
    assert seen == [(1, 10)] * 20
    writes_itself = "inferwire-writer" in [thread.name for thread in set(threading.enumerate()) - before]
    assert writes_itself is (workers == 1)
    shape = (5000, 64)
    large = np.linspace(0, 1, 5000 * 64, dtype=np.float32).reshape(shape)
    assert core.served_model("digits_mlp")(large)[0].shape == (5000, 10)
    with pytest.raises(ov.Unauthenticated, match=r"no API key was given.*INFERWIRE_API_KEY"):
        ov.Core(address, root_certificates=authority.root).served_model("digits_mlp")
    with pytest.raises(ov.Unauthenticated, match="the API key is not one of this server's"):
        ov.Core(address, api_key=NEXT_KEY, root_certificates=authority.root).served_model("digits_mlp")
    with pytest.raises(ov.ServerUnavailable, match="is not trusted"):
        ov.Core(address, api_key=KEY).served_model("digits_mlp")
    with pytest.raises(ov.ServerUnavailable, match=f"its address is grpcs://localhost:{server.grpc_port}"):
        ov.Core(f"localhost:{server.grpc_port}", api_key=KEY).served_model("digits_mlp")


def test_the_command(server: ServerProcess, authority: Authority) -> None:
    address = ("--address", f"grpcs://localhost:{server.grpc_port}", "--root-certificates", str(authority.root))
    with_key = os.environ | {"INFERWIRE_API_KEY": KEY}
    command = (sys.executable, "-m", "inferwire_cli", "models", "--json", *address)
    assert "digits_mlp" in subprocess.run(command, env=with_key, capture_output=True, text=True, check=True).stdout
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "INFERWIRE_API_KEY" in refused.stderr
    own = os.environ | {"INFERWIRE_HTTP_PORT": str(server.http_port), "INFERWIRE_TLS_CERTIFICATE": "server.pem"}
    assert subprocess.run((sys.executable, "-m", "inferwire_cli.health"), env=own, check=False).returncode == 0


def test_with_keys_alone_a_session_goes_on_beside_grpc(key_file: Path) -> None:
    with started("--model-repository", str(DIGITS), "--api-key-file", str(key_file)) as (server, log):
        wait_for_line(server, log, '"ready"')
        before = set(threading.enumerate())
        core = ov.Core(server.grpc_address, api_key=KEY, timeouts=PATIENT)
        request = core.served_model("digits_mlp").create_infer_request()
        assert request.infer(ROW)[0].shape == (1, 10)
        # What writes to a socket beside gRPC.
        assert "inferwire-writer" in [thread.name for thread in set(threading.enumerate()) - before]
        with httpx.Client(base_url=f"http://{server.http_address}", headers=SHOWN) as client:
            assert 'interface="session"' not in client.get("/metrics").text


def test_at_each_of_a_hosts_addresses_its_certificate_is_for_the_hosts_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the name is that of replicas: the session's server is looked for at one address after the other."""
    authority = Authority(tmp_path)
    issued, resolve = authority.issue("localhost"), socket.getaddrinfo

    def resolve_two(host: Any, *args: Any, **kwargs: Any) -> Any:
        hosts = ("127.0.0.2", "127.0.0.1") if host == "localhost" else (host,)
        return [found for each in hosts for found in resolve(each, *args, **kwargs)]

    tls = ("--tls-certificate", str(issued.certificate), "--tls-key", str(issued.key))
    with started("--model-repository", str(DIGITS), *tls) as (server, log):
        wait_for_line(server, log, '"ready"')
        # gRPC has a resolver of its own.
        monkeypatch.setattr(socket, "getaddrinfo", resolve_two)
        before = set(threading.enumerate())
        address = f"grpcs://localhost:{server.grpc_port}"
        core = ov.Core(address, root_certificates=authority.root, timeouts=PATIENT)
        assert core.served_model("digits_mlp")(ROW)[0].shape == (1, 10)
        assert "inferwire-writer" in [thread.name for thread in set(threading.enumerate()) - before]


def test_what_is_renewed_on_disk_counts_from_then_on(tmp_path: Path) -> None:
    first, second = Authority(tmp_path / "first"), Authority(tmp_path / "second")
    issued = first.issue()
    keys = tmp_path / "keys" / "api-keys"
    keys.parent.mkdir()
    keys.write_text(KEY)
    tls = ("--tls-certificate", str(issued.certificate), "--tls-key", str(issued.key))
    with started("--model-repository", str(DIGITS), *tls, "--api-key-file", str(keys)) as (server, log):
        wait_for_line(server, log, '"ready"')
        core = ov.Core(f"grpcs://localhost:{server.grpc_port}", api_key=KEY, root_certificates=first.root)
        request = core.served_model("digits_mlp").create_infer_request()
        assert request.infer(ROW)[0].shape == (1, 10)
        with https(server, first) as before:
            assert before.get("/metrics").status_code == 200
            keys.write_text("short")
            wait_for_line(server, log, "the API keys stay as they were")
            assert before.get("/metrics").status_code == 200
            assert 'inferwire_renewal_refused{file="api_keys"} 1.0' in before.get("/metrics").text
            replacing = keys.with_name("next")
            replacing.write_text(f"{NEXT_KEY}\n")
            replacing.replace(keys)
            wait_for_line(server, log, "API keys renewed")
            assert before.get("/metrics").status_code == 401
            # So does a session, which shows its key as it begins.
            assert request.infer(ROW)[0].shape == (1, 10)
            with pytest.raises(ov.Unauthenticated):
                core.served_model("digits_mlp")
            second.issue(into=issued)
            wait_for_line(server, log, "certificate renewed")
            # The connection is open still.
            assert before.get("/metrics", headers={"authorization": f"Bearer {NEXT_KEY}"}).status_code == 200
        with https(server, second, NEXT_KEY) as after:
            assert after.get("/metrics").status_code == 200
        with https(server, first, NEXT_KEY) as distrusting, pytest.raises(httpx.ConnectError, match="verify failed"):
            distrusting.get("/metrics")
        assert log_line(log, "listening")["docs"].startswith("https://")
        assert KEY not in tail(log)
        assert NEXT_KEY not in tail(log)


def test_an_idle_connection_does_not_hold_up_the_end(authority: Authority, issued: Issued) -> None:
    tls = ("--tls-certificate", str(issued.certificate), "--tls-key", str(issued.key))
    with started("--model-repository", str(DIGITS), *tls, "--grace-s", "120") as (server, log):
        wait_for_line(server, log, '"ready"')
        with https(server, authority) as idle:
            assert idle.get("/v2").status_code == 200
            server.process.terminate()
            assert has_ended_within(server, 20), tail(log)
        assert server.process.returncode == 0
        assert "timeout graceful shutdown exceeded" not in tail(log)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--tls-key", "server.key"), "--tls-certificate is not given, but the other is"),
        (
            ("--tls-key", "none.key", "--tls-certificate", "none.pem"),
            "--tls-certificate is 'none.pem', which cannot be read",
        ),
        (("--api-key-file", "none"), "--api-key-file is 'none', which cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_used_ends_the_server_at_its_start(tmp_path: Path, flags: tuple[str, ...], reason: str) -> None:
    with started("--allow-uploads", *flags, folder=tmp_path) as (server, log):
        assert has_ended_within(server, 60)
        assert server.process.returncode == 1
        assert reason in log_line(log, "cannot serve")["reason"]
