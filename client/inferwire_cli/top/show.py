"""Looks at a server again and again until its user ends it."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic

from rich.console import Console, RenderableType
from rich.live import Live

from inferwire.errors import InferwireError
from inferwire_cli.named_server import NamedServer, named_server
from inferwire_cli.server_http import ServerHttp
from inferwire_cli.terminal import MisuseError, ending_in_a_code, new_console
from inferwire_cli.top.keys import SUSPENDING, pressed_keys, suspend
from inferwire_cli.top.look import Look, look
from inferwire_cli.top.screen import draw

ENDING = frozenset("qQ")
LEAVING = ENDING | {SUSPENDING}


def show(
    interval_s: float, address: str | None, http: str | None, root_certificates: Path | None, *, once: bool
) -> int:
    """Show what a server is doing; give the exit code."""

    def work() -> None:
        server = _http_of(named_server(address, root_certificates), http)
        first = look(server)
        console = new_console()
        # FORCE_COLOR makes rich take anything for a terminal, and on a dumb one it cannot draw again.
        if once or not (console.is_terminal and sys.stdout.isatty()) or console.is_dumb_terminal:
            console.print(draw(first, None, str(server.address), console.width))
            return
        with suppress(KeyboardInterrupt):  # from the first drawing on, Ctrl-C is a way to end
            last, pressed = _watch(first, server, console, interval_s)
            while ENDING.isdisjoint(pressed):
                suspend()
                last, pressed = _watch(last, server, console, interval_s)

    return ending_in_a_code(work)


def _http_of(server: NamedServer, given: str | None) -> ServerHttp:
    """Find a server's HTTP. If its gRPC address does not tell where that is, say first if the server does not answer.

    Raises:
        MisuseError: The address of its HTTP cannot be told.
        InferwireError: No server answers at its gRPC address either, or it refuses to.
    """
    try:
        return server.http(given)
    except MisuseError:
        if not given:
            with server.calls() as calls:
                calls.models()
        raise


def _watch(first: Look, server: ServerHttp, console: Console, interval_s: float) -> tuple[Look, str]:
    """Show a look, and new ones, until keys end or suspend that; give the last look, and the keys.

    If the server does not answer, go on: it may come back.
    """
    last, name = first, str(server.address)
    before: Look | None = None
    with (
        pressed_keys() as wait,
        Live(_drawn(last, None, name, console), console=console, screen=True, auto_refresh=False) as live,
    ):
        while LEAVING.isdisjoint(pressed := wait(interval_s)):
            try:
                before, last, note = last, look(server), ""
            except InferwireError as error:
                before, note = None, f"{error}; seen last {monotonic() - last.at_s:.0f} s ago"
            live.update(_drawn(last, before, name, console, note), refresh=True)
        return last, pressed


def _drawn(now: Look, before: Look | None, name: str, console: Console, note: str = "") -> RenderableType:
    """Draw a look for the terminal as large as it is now."""
    return draw(now, before, name, console.width, note, console.height)
