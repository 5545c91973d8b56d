"""Options that several commands take, each declared once. Importing it needs cyclopts alone."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Group, Parameter

SERVER = Group("Server", sort_key=9)

AddressOption = Annotated[
    str | None,
    Parameter(
        name="--address",
        group=SERVER,
        help="The server's gRPC: host:port, grpcs://host:port for TLS, grpc://host:port for gRPC alone, or unix:path. "
        "Else INFERWIRE_ADDRESS, else localhost:8001.",
    ),
]

HttpAddressOption = Annotated[
    str | None,
    Parameter(
        name="--http-address",
        group=SERVER,
        help="The server's HTTP, as host:port. Else INFERWIRE_HTTP_ADDRESS, else port 8000 of --address's host, whose "
        "port has to be 8001 then.",
    ),
]

VersionOption = Annotated[
    str,
    Parameter(name="--model-version", show_default=False, help="The model's version; the current one unless given."),
]

JsonOption = Annotated[bool, Parameter(name="--json", show_default=False, help="Print JSON, for programs.")]
