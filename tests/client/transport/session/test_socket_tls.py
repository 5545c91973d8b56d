"""TLS on a socket of its own: who is trusted, and what is said to whom."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

import pytest
from tests.client.transport.session.peer import Place, Tls, swallowed
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport.session.socket_carrier import SocketCarrier
from inferwire.transport.timeouts import Timeouts
from inferwire_proto import frames
from inferwire_proto.frames import Kind

# TLS alone.


def test_a_server_that_is_not_trusted_gets_nothing(tls: Tls) -> None:
    place = Place(socket.create_server(("127.0.0.1", 0)), Tls(tls.server, ssl.create_default_context()))
    with place.listener, DaemonThreads() as beside:
        accepted = beside.submit(place.accept)
        with pytest.raises(ssl.SSLCertVerificationError):
            place.connect()
        # It is told why.
        assert "UNKNOWN_CA" in str(accepted.exception(LIMIT_S))


def test_a_certificate_for_another_host_is_not_taken(tls: Tls) -> None:
    with socket.create_server(("127.0.0.2", 0)) as listener, DaemonThreads() as beside:
        place = Place(listener, tls)
        accepted = beside.submit(place.accept)
        with pytest.raises(ssl.SSLCertVerificationError, match=r"127\.0\.0\.2"):
            place.connect()
        assert accepted.exception(LIMIT_S)


@pytest.mark.parametrize(
    ("answer", "error"), [(b"HTTP/1.1 400 Bad Request\r\n\r\n", ssl.SSLError), (b"", OSError)], ids=["HTTP", "nothing"]
)
def test_what_speaks_no_tls_is_not_spoken_to(tls: Tls, answer: bytes, error: type[OSError]) -> None:
    place = Place(socket.create_server(("127.0.0.1", 0)), tls)

    def serve() -> bytes:
        with place.listener.accept()[0] as peer:
            hello = peer.recv(1 << 16)
            peer.sendall(answer)
            return hello

    with place.listener, DaemonThreads() as beside:
        said = beside.submit(serve)
        with pytest.raises(error):
            place.connect()
        assert frames.PREFACE not in said.result(LIMIT_S)


def test_bytes_that_the_peer_has_not_sent_end_it(tls: Tls) -> None:
    carrier, peer = Place(socket.create_server(("127.0.0.1", 0)), tls).connected()
    carrier.start(iter(()), lambda: None)
    with socket.socket(fileno=peer.detach()) as forging:
        forging.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        said_by_openssl = "DECRYPTION_FAILED|BAD_RECORD_MAC|RECORD_LAYER_FAILURE"
        with pytest.raises(ov.ServerUnavailable, match=f"was lost: .*({said_by_openssl})"):
            list(carrier.receive())


def test_of_records_that_come_together_each_has_come_until_it_is_read(tls: Tls) -> None:
    carrier, peer = Place(socket.create_server(("127.0.0.1", 0)), tls).connected()
    carrier.start(iter(()), lambda: None)
    large = bytes(40_000)
    with peer:
        received = carrier.receive()
        came: list[bytes] = []
        for messages in ([b"one", b"two"], [large], [b"the last"]):
            for each in messages:
                peer.sendall(frames.frame(Kind.MESSAGE, each))
            # As a waiting thread does, which sleeps in no other way.
            while len(came) < len(messages):
                if carrier.has_come() and (message := next(received)) is not None:
                    came.append(bytes(message))
            assert came == messages
            came.clear()
        received.close()


def test_a_part_of_a_record_holds_up_nobody(tls: Tls) -> None:
    carrier, peer = Place(socket.create_server(("127.0.0.1", 0)), tls).connected()
    carrier.start(iter(()), lambda: None)
    received = carrier.receive()
    with socket.socket(fileno=peer.detach()) as stalling:
        stalling.sendall(b"\x17\x03\x03\x40\x00" + bytes(32))
        # The first looks for what came with the handshake.
        for _ in range(2):
            assert next(received) is None
        while carrier.has_come():
            assert next(received) is None
    received.close()


def test_nothing_that_is_said_can_be_read_on_the_way(tls: Tls) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, DaemonThreads() as beside:
        came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = tls.server.wrap_bio(came, goes, server_side=True)
        seen = bytearray()

        def serve() -> bytes:
            peer, _ = listener.accept()
            said = b""
            with peer:
                while b"a secret" not in said:
                    data = peer.recv(1 << 16)
                    assert data
                    seen.extend(data)
                    came.write(data)
                    with suppress(ssl.SSLWantReadError):
                        while True:
                            said += server.read(1 << 16)
                    if goes.pending:
                        peer.sendall(goes.read())
            return said

        said = beside.submit(serve)
        carrier = SocketCarrier(listener.getsockname(), Timeouts(socket_s=LIMIT_S), tls.client)
        carrier.start(iter([(b"a secret",)]), lambda: None)
        assert said.result(LIMIT_S).startswith(frames.PREFACE)
        assert frames.PREFACE not in seen
        assert b"a secret" not in seen
        list(swallowed(carrier.receive()))
