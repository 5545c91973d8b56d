"""Options that several commands take, each declared once. Importing it needs only cyclopts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter, Token

SERVER = Group(
    "Server",
    help="The API key, if the server needs one, comes from INFERWIRE_API_KEY. There is no flag for it: other users of "
    "this machine can read command lines.",
    sort_key=9,
)

AddressOption = Annotated[
    str | None,
    Parameter(
        name="--address",
        group=SERVER,
        help="The server's gRPC address: host:port, grpcs://host:port for TLS, grpc://host:port for gRPC alone, or "
        "unix:path. Default: INFERWIRE_ADDRESS, else localhost:8001.",
    ),
]


def _of_flag_alone(_: Any, tokens: Sequence[Token]) -> Path | None:
    """Read a file that the flag names. The client reads the environment's itself, and knows when that counts."""
    (token,) = tokens
    return Path(token.value) if token.source == "cli" else None


RootCertificatesOption = Annotated[
    Path | None,
    Parameter(
        name="--root-certificates",
        group=SERVER,
        converter=_of_flag_alone,
        help="PEM file of the certificates to trust a TLS server by: a private authority's, or the server's own if it "
        "is self-signed. Default: INFERWIRE_ROOT_CERTIFICATES, else those that this machine trusts.",
    ),
]

HttpAddressOption = Annotated[
    str | None,
    Parameter(
        name="--http-address",
        group=SERVER,
        help="The server's HTTP address: host:port, or https://host:port for TLS, which grpcs:// in --address implies. "
        "Default: INFERWIRE_HTTP_ADDRESS, else port 8000 of the host in --address, if its port is 8001.",
    ),
]

VersionOption = Annotated[
    str,
    Parameter(
        name="--model-version", show_default=False, help="The model's version; by default the highest that is served."
    ),
]

JsonOption = Annotated[bool, Parameter(name="--json", show_default=False, help="Print JSON for programs.")]
