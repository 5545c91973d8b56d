"""Why a server cannot be reached, and what to do about it, judging by gRPC's error messages.

What they leave open the peer is asked: whether it speaks TLS, and whether gRPC or HTTP/1.1.
"""

from __future__ import annotations

import socket
import ssl

from inferwire.transport.address import TLS_SCHEME, parse_address
from inferwire.transport.proxies import proxy_variable
from inferwire.transport.session.tls_layer import TlsLayer

WHERE_ADDRESSES = "in INFERWIRE_ADDRESS or to Core()"
"""Where a program says which server it means."""

WHERE_CERTIFICATES = "in INFERWIRE_ROOT_CERTIFICATES, or to Core() as root_certificates"
"""Where a program says by which certificates it trusts a server."""

_OTHER_PROTOCOL = ("http1.x", "missing selected ALPN property")
"""What gRPC says of a server that speaks HTTP/1.1, without TLS and with it."""

_CLOSED = ("Socket closed", "Connection reset by peer")
"""What gRPC says, beside "failed to connect", of a connection that ended before anything was said on it."""

_OTHER_NAMES = (
    "Hostname Verification Check failed",
    "is not in peer certificate",
    "call host does not match SSL server name",
)
"""What gRPC says of a certificate for other names as it connects; and of one that has only a common name, until 1.76
and since."""

_NO_FILE = "Too many open files"
"""What gRPC says if this process can open no socket, followed by an address's bytes."""

_ANSWER_S = 1.0
"""How long a peer has to answer what it is asked: a TLS handshake takes a server a few round trips."""

_HTTP2, _BEGINNING_OF_HTTP2 = "h2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
"""What TLS calls gRPC's protocol, and its first bytes: the preface and settings that say nothing."""

_OUT_OF_TIME = ("certificate has expired", "certificate is not yet valid")


def is_of_names(address: str, details: str) -> bool:
    """Tell whether gRPC itself has refused a call because of the names in the server's certificate."""
    return address.startswith(TLS_SCHEME) and any(words in details for words in _OTHER_NAMES)


def why_unreachable(address: str, details: str) -> str:
    """Say that no server answers, and how to start one; or what is wrong on the way to it, if gRPC has seen that.

    gRPC's own words are put behind it.
    """
    if "failed to connect" in details and _NO_FILE in details:
        return f"no connection to {address} can be opened: too many files are open here, and a connection is one"
    return f"{_why(address, details)} ({details})"


def _why(address: str, details: str) -> str:
    if any(words in details for words in _OTHER_PROTOCOL):
        return _http_at(address)
    if address.startswith(TLS_SCHEME):
        return _why_no_tls(address, details) or _nobody_at(address)
    is_closed = "failed to connect" in details and any(words in details for words in _CLOSED)
    if is_closed and (tls := _tls_of(address)) is not None:
        if tls.protocol != _HTTP2:
            return _http_at(address)
        return (
            f"what listens at {address} speaks TLS, and closed the connection of a client without; if it is an "
            f"inferwire server, its address is {TLS_SCHEME}{address}"
        )
    return _nobody_at(address)


def _nobody_at(address: str) -> str:
    variable = proxy_variable(parse_address(address))
    proxied = (
        f" through the proxy that {variable} names; name the host in no_proxy to do without it" if variable else ""
    )
    return (
        f"no inferwire server answers at {address}{proxied}; start one with `inferwire serve` "
        f"or give its address {WHERE_ADDRESSES}"
    )


def _http_at(address: str) -> str:
    said = (
        f"what answers at {address} speaks HTTP/1.1 and not gRPC: it may be an inferwire server's HTTP port; "
        "the address is to have the gRPC port, 8001 unless the server was told otherwise"
    )
    lacks_tls = not address.startswith(TLS_SCHEME) and _tls_of(address) is not None
    return f"{said}, and to begin with {TLS_SCHEME}, since the server speaks TLS" if lacks_tls else said


def _tls_of(address: str) -> TlsLayer | None:
    """Shake hands with the peer at "host:port", whatever it is, and send it nothing else; None if it speaks no TLS."""
    if address.startswith("unix:"):
        return None
    host, port = _place(address)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([_HTTP2, "http/1.1"])
    try:
        # Not with a TLS socket of Python's, which is left open if the peer is gone before the handshake.
        with socket.create_connection((host, port), _ANSWER_S) as peer:
            return TlsLayer(context, peer, host)
    except OSError:
        return None


def _answers_in_http1(address: str) -> bool:
    """Greet the peer at "host:port", which speaks no TLS, as gRPC would, and tell whether it answers in HTTP/1.1."""
    try:
        with socket.create_connection(_place(address), _ANSWER_S) as peer:
            peer.sendall(_BEGINNING_OF_HTTP2)
            return peer.recv(16).startswith(b"HTTP/1")
    except OSError:
        return False


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _why_no_tls(address: str, details: str) -> str | None:
    """Say what keeps TLS from being spoken; None if the reason is another one."""
    if any(words in details for words in _OUT_OF_TIME):
        return (
            f"the certificate of the server at {address} is not valid at this time; the server needs a new one, unless "
            "the clock of this machine is wrong"
        )
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return (
            f"the certificate of the server at {address} is not trusted; give {WHERE_CERTIFICATES}, "
            "a file with that of the authority which has signed it, or with the server's own where it has signed that "
            "itself"
        )
    if any(words in details for words in _OTHER_NAMES):
        return (
            f"the certificate of the server at {address} is for other names; connect to a name that it has, or give "
            "the server one that has this name as a subject alternative name"
        )
    if "WRONG_VERSION_NUMBER" in details:
        plain = address.removeprefix(TLS_SCHEME)
        if _answers_in_http1(plain):
            return f"{_http_at(address)}, and no {TLS_SCHEME}, since the server speaks no TLS"
        return f"what answers at {address} speaks no TLS; if it is an inferwire server without, its address is {plain}"
    # Until grpcio 1.80 it is "Socket closed" alone.
    if "Handshake read failed" in details or ("failed to connect" in details and "Socket closed" in details):
        # A server that shares no kind of key with a client closes the connection, and keeps the reason to itself.
        return (
            f"what listens at {address} closed the connection while TLS was agreed on; gRPC takes certificates with "
            "RSA, P-256 or P-384 keys alone: if the server's has another, as Ed25519 or P-521, it needs a new one, and "
            "otherwise its log may say why"
        )
    return None
