"""Looks at a server again and again until somebody has seen enough."""

from __future__ import annotations

from time import monotonic

from rich.live import Live

from inferwire.errors import InferwireError
from inferwire_cli.http_address import http_address
from inferwire_cli.terminal import ending_in_a_code, new_console, server_address
from inferwire_cli.top.keys import Wait, pressed_keys
from inferwire_cli.top.look import Look, look
from inferwire_cli.top.screen import draw

ENDING = frozenset("qQ")


def show(interval_s: float, address: str | None, http: str | None, *, once: bool) -> int:
    """Show what a server is doing; give the exit code."""

    def work() -> None:
        where = http_address(http, server_address(address))
        first = look(*where)
        console = new_console()
        name = f"{where[0]}:{where[1]}"
        if once or not console.is_terminal:
            console.print(draw(first, None, name, console.width))
            return
        with (
            pressed_keys() as wait,
            Live(draw(first, None, name, console.width), console=console, screen=True, auto_refresh=False) as live,
        ):
            _watch(live, first, where, wait, interval_s)

    return ending_in_a_code(work)


def _watch(live: Live, first: Look, where: tuple[str, int], wait: Wait, interval_s: float) -> None:
    """Look until a key or Ctrl-C ends it. A server that has gone may come back."""
    last, name = first, f"{where[0]}:{where[1]}"
    before: Look | None = None
    try:
        while ENDING.isdisjoint(wait(interval_s)):
            try:
                before, last, note = last, look(*where), ""
            except InferwireError as error:
                before, note = None, f"{error}; seen last {monotonic() - last.at_s:.0f} s ago"
            live.update(draw(last, before, name, live.console.width, note), refresh=True)
    except KeyboardInterrupt:
        return
