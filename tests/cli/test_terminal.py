"""What commands print with: a terminal takes orders from nobody else."""

from __future__ import annotations

import pytest
from rich.table import Table
from rich.text import Text

from inferwire.errors import InferwireError
from inferwire_cli.terminal import ending_in_a_code, new_console

TITLE = "\x1b]0;title\x07"
WRITTEN_OUT = r"\x1b]0;title\x07"


@pytest.mark.parametrize("given", [TITLE, Text(TITLE, "bold"), Text.assemble(("a", "red"), TITLE)])
def test_names_with_orders_for_a_terminal_are_written_out(
    capsys: pytest.CaptureFixture[str], given: str | Text
) -> None:
    new_console().print(given)
    assert WRITTEN_OUT[:-4] in (printed := capsys.readouterr().out)
    assert "\x1b]" not in printed


def test_so_are_those_in_tables(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(box=None)
    table.add_column("model")
    table.add_row("resnet\x1b[2J\x9b2J\r")
    new_console().print(table)
    printed = capsys.readouterr().out
    assert r"resnet\x1b[" in printed
    assert not {"\x1b", "\x9b", "\r"} & set(printed)


def test_so_are_those_in_what_a_server_says_of_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise InferwireError(f"model {TITLE} is\r\nnot here")

    assert ending_in_a_code(fail) == 1
    assert capsys.readouterr().err == f"inferwire: model {WRITTEN_OUT} is not here\n"


def test_want_of_memory_is_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> int:
        raise MemoryError("Unable to allocate 466. TiB")

    assert ending_in_a_code(fail) == 1
    assert capsys.readouterr().err == "inferwire: this takes more memory than there is: Unable to allocate 466. TiB\n"


def test_what_styles_a_text_stays(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    new_console().print(Text("a\tb\x1b[1m", "red"))
    assert capsys.readouterr().out.startswith("\x1b[31ma")
