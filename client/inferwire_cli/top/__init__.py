"""`inferwire top`: what a server is doing. Importing it needs only cyclopts; `show` does the work."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter, validators

from inferwire_cli.extras import needs_extra
from inferwire_cli.options import AddressOption, HttpAddressOption, RootCertificatesOption
from inferwire_proto.host.flags import SECONDS


def top(
    *,
    interval: Annotated[
        float,
        SECONDS,
        Parameter(validator=validators.Number(gte=0.1, lte=3600), help="Seconds between updates."),
    ] = 1.0,
    once: Annotated[bool, Parameter(show_default=False, help="Print the current state, and end.")] = False,
    address: AddressOption = None,
    http_address: HttpAddressOption = None,
    root_certificates: RootCertificatesOption = None,
) -> int:
    """Show a server's devices, queues and models live; q or Ctrl-C ends it.

    Rates and times cover the time since the last update; with --once, or without a terminal, since the server began.
    If the window has no room for all models, those that have failed or have jobs that wait come first.

    - busy: slots that run an inference, out of all.
    - queue ms, device ms: mean times in the queue and on the device.
    - p50 ms, p99 ms: percentiles of a job's whole time on the server.
    - troubles: jobs that failed, expired, or were invalid, refused or cancelled.

    For example:

    ```
    inferwire top
    inferwire top --address gpu-box:8001 --interval 5
    inferwire top --address gpu-box:9001 --http-address gpu-box:9000 --once
    ```
    """
    with needs_extra("cli", "inferwire top"):
        from inferwire_cli.top.show import show
    return show(interval, address, http_address, root_certificates, once=once)
