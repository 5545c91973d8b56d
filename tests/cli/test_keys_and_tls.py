"""Every command reaches a server with TLS, and shows the key of the environment; what is wrong is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
import pytest
import trustme
from tests.cli.tls_front import TlsFront, tls_front
from tests.client.transport.scripted_server import ScriptedServer
from tests.waiting import LIMIT_S

from inferwire_cli.__main__ import main
from inferwire_cli.server_process import NOT_INHERITED, ServerProcess, free_ports, running_server

Run = Callable[..., Any]
ZEROS = str([0.0] * 64)


@pytest.fixture
def grpc_front(server: ServerProcess, private_ca: trustme.CA) -> Iterator[TlsFront]:
    with tls_front(server.grpc_port, private_ca.issue_cert("127.0.0.1"), "h2") as front:
        yield front


@pytest.fixture
def http_front(server: ServerProcess, private_ca: trustme.CA) -> Iterator[TlsFront]:
    with tls_front(server.http_port, private_ca.issue_cert("127.0.0.1"), "http/1.1") as front:
        yield front


COMMANDS: dict[str, tuple[str, ...]] = {
    "models": ("models",),
    "load": ("load", "digits_mlp"),
    "infer": ("infer", "digits_mlp", "-i", ZEROS),
    "bench over the SDK": ("bench", "digits_mlp", "--number", "2"),
    "bench over gRPC": ("bench", "digits_mlp", "--number", "2", "--path", "grpc"),
    "bench over REST": ("bench", "digits_mlp", "--number", "2", "--path", "rest"),
    "top": ("top", "--once"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("has_flag", [True, False], ids=["flag", "variable"])
def test_every_command_reaches_a_server_with_tls(
    run: Run, grpc_front: TlsFront, http_front: TlsFront, roots: Path, words: tuple[str, ...], has_flag: bool
) -> None:
    places = {
        "INFERWIRE_ADDRESS": f"grpcs://127.0.0.1:{grpc_front.port}",
        # Where gRPC has TLS, HTTP is taken to have it.
        "INFERWIRE_HTTP_ADDRESS": f"127.0.0.1:{http_front.port}",
        "INFERWIRE_API_KEY": "s3cret",
    }
    if has_flag:
        done = run(*words, "--root-certificates", roots, **places)
    else:
        done = run(*words, **places, INFERWIRE_ROOT_CERTIFICATES=str(roots))
    assert done.returncode == 0, done.stderr
    assert "s3cret" not in done.stdout + done.stderr
    asked = http_front.received.count(b"HTTP/1.1\r\n")
    assert http_front.received.count(b"\r\nAuthorization: Bearer s3cret\r\n") == asked
    assert bool(asked) is (words[0] == "top" or "rest" in words)


def test_https_may_be_named_where_grpc_has_no_tls(run: Run, http_front: TlsFront, roots: Path) -> None:
    done = run("top", "--once", "--http-address", f"https://127.0.0.1:{http_front.port}", "--root-certificates", roots)
    assert done.returncode == 0, done.stderr
    assert f" at https://127.0.0.1:{http_front.port}: " in done.stdout


def nothing(data: bytes, context: grpc.ServicerContext) -> bytes:
    return b""


@pytest.mark.parametrize(("method", "words"), [("ListModels", ("models",)), ("LoadModel", ("load", "m"))])
def test_a_command_shows_the_key_over_grpc(run: Run, method: str, words: tuple[str, ...]) -> None:
    with ScriptedServer() as server:
        server.unary = {"ListModels": nothing, "LoadModel": nothing}
        run(*words, INFERWIRE_ADDRESS=f"127.0.0.1:{server.port}", INFERWIRE_API_KEY="s3cret")
        called, metadata = server.calls.get(timeout=LIMIT_S)
        assert (called, metadata["authorization"]) == (method, "Bearer s3cret")


def refuse(data: bytes, context: grpc.ServicerContext) -> bytes:
    context.set_trailing_metadata((("inferwire-code", "UNAUTHENTICATED"),))
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "the API key is not one of this server's")
    return b""


def test_a_key_that_is_refused_is_said_in_a_sentence(run: Run) -> None:
    with ScriptedServer() as server:
        server.unary = {"ListModels": refuse}
        done = run("models", INFERWIRE_ADDRESS=f"127.0.0.1:{server.port}", INFERWIRE_API_KEY="s3cret")
    assert done.returncode == 1
    assert "the API key is not one of this server's; give one of the server's keys" in done.stderr
    assert "s3cret" not in done.stderr


@contextmanager
def refusing_http() -> Generator[int]:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps({"error": "no API key was given", "code": "UNAUTHENTICATED"}).encode()
            self.send_response(401)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("words", [("top", "--once"), COMMANDS["bench over REST"]], ids=["top", "bench"])
def test_a_key_that_http_refuses_is_said_in_a_sentence(run: Run, words: tuple[str, ...]) -> None:
    with refusing_http() as port:
        done = run(*words, "--http-address", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert f"the server at 127.0.0.1:{port} refuses the call: no API key was given; give one" in done.stderr


def why(run: Run, *words: str | Path, code: int = 1, **environment: str) -> str:
    done = run(*words, **environment)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    (said,) = done.stderr.splitlines()
    return said


def test_what_keeps_https_from_being_spoken_is_said(
    run: Run, server: ServerProcess, private_ca: trustme.CA, http_front: TlsFront, roots: Path
) -> None:
    top = ("top", "--once", "--http-address")
    front, plain = f"127.0.0.1:{http_front.port}", server.http_address
    said = why(run, *top, f"https://{front}")
    assert f"certificate of the server at https://{front} is not trusted" in said
    assert "; give --root-certificates a file with" in said
    said = why(run, *top, f"https://{plain}")
    assert f"speaks no TLS; if it is an inferwire server without, give --http-address http://{plain}" in said
    said = why(run, *top, front)
    assert f"give --http-address https://{front}" in said
    with tls_front(server.http_port, private_ca.issue_cert("elsewhere.example"), "http/1.1") as other:
        said = why(run, *top, f"https://127.0.0.1:{other.port}", "--root-certificates", roots)
    assert "certificate is not valid for '127.0.0.1'" in said
    assert "--root-certificates" not in said


@pytest.mark.parametrize("words", [COMMANDS[name] for name in COMMANDS if name != "top"], ids=lambda words: words[0])
def test_a_command_advises_its_flag_where_a_certificate_is_not_trusted(
    run: Run, grpc_front: TlsFront, words: tuple[str, ...], tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    address = f"grpcs://127.0.0.1:{grpc_front.port}"
    for_http = ("--http-address", f"https://127.0.0.1:{grpc_front.port}") if "rest" in words else ()
    said = why(run, *words, "--address", address, *for_http, "--root-certificates", tmp_path / "other.pem")
    assert "is not trusted" in said
    assert "--root-certificates" in said
    assert "Core()" not in said


def test_a_command_advises_its_flag_where_nobody_answers(run: Run) -> None:
    (port,) = free_ports(1)
    said = why(run, "models", "--address", f"127.0.0.1:{port}")
    assert "or give its address as --address or in INFERWIRE_ADDRESS (" in said


def test_certificates_without_tls_are_refused_where_a_flag_names_them(run: Run, roots: Path) -> None:
    said = why(run, "models", "--root-certificates", roots, code=2)
    assert said.startswith("inferwire: --root-certificates is given for the address '127.0.0.1:")
    assert said.endswith("which is connected to without TLS, expected one that begins with grpcs://")
    said = why(run, "top", "--once", "--root-certificates", roots, code=2)
    assert "without TLS; with it, give --http-address https://" in said
    for words in COMMANDS.values():
        assert run(*words, INFERWIRE_ROOT_CERTIFICATES="nowhere.pem").returncode == 0


@pytest.mark.parametrize("words", [COMMANDS["models"], COMMANDS["infer"], COMMANDS["top"]], ids=lambda words: words[0])
def test_a_key_or_file_that_cannot_be_used_is_misuse(run: Run, words: tuple[str, ...], tmp_path: Path) -> None:
    address = ("--address", "grpcs://127.0.0.1:8001")
    said = why(run, *words, *address, "--root-certificates", tmp_path / "none.pem", code=2)
    assert f"--root-certificates is '{tmp_path / 'none.pem'}', which cannot be read: No such file or directory" in said
    said = why(run, *words, code=2, INFERWIRE_API_KEY="s3 cret")
    assert "INFERWIRE_API_KEY has whitespace among its 7 characters" in said
    assert "s3 cret" not in said


def test_help_says_why_there_is_no_flag_for_the_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "INFERWIRE_API_KEY. There is no flag for it: other users of this machine can read command lines" in printed
    assert "--root-certificates" in printed


def test_a_server_of_ones_own_asks_for_no_key_and_has_no_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NOT_INHERITED:
        monkeypatch.setenv(name, "/nowhere")
    with running_server(None) as running:
        assert running.grpc_address == f"127.0.0.1:{running.grpc_port}"
        inherited = Path(f"/proc/{running.process.pid}/environ").read_bytes().decode().split("\0")
    assert {each.partition("=")[0] for each in inherited}.isdisjoint(NOT_INHERITED)
