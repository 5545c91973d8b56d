"""What Ctrl-C does to a command that is at work."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from threading import Thread

import pytest

from inferwire_cli import interrupts
from inferwire_cli.interrupts import interruptible
from inferwire_cli.terminal import CommandError, ending_in_a_code


class Interrupts:
    """An object whose end is when Ctrl-C comes."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def in_an_object_s_end() -> None:
    Interrupts()
    while True:
        pass


def in_an_import() -> None:
    """Do what Python 3.11 makes of an interrupt in the body of a class."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as interrupt:
        raise RuntimeError("Error calling __set_name__") from interrupt


def in_an_error_s_handling() -> None:
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        raise CommandError("it did not work")


@pytest.mark.parametrize("work", [in_an_object_s_end, in_an_import, in_an_error_s_handling])
def test_it_ends_it_wherever_it_comes(work: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    assert ending_in_a_code(work) == 130
    assert capsys.readouterr().err == ""


class SlowToStart(Thread):
    """A thread that has run as far as it can when its start is over, as on a busy machine."""

    def start(self) -> None:
        super().start()
        self.join(0.1)


def test_it_is_not_lost_if_it_takes_long_to_raise_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_OVER_S", 0)
    monkeypatch.setattr(interrupts, "Thread", SlowToStart)
    assert ending_in_a_code(in_an_object_s_end) == 130


def test_an_error_that_has_come_of_itself_is_none() -> None:
    program = (
        "from inferwire_cli.interrupts import was_interrupted as was\nerror = OSError()\nerror.__cause__ = error\n"
    )
    words = [sys.executable, "-c", f"{program}print(was(error))"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "False\n", done.stderr


@pytest.fixture
def heard() -> Generator[list[int]]:
    """What comes while no command is at work."""
    numbers: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("fails", [False, True])
def test_it_raises_nothing_before_and_after(heard: list[int], fails: bool) -> None:
    def work() -> None:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        if fails:
            raise CommandError("it does not work")

    hook = sys.unraisablehook
    signal.raise_signal(signal.SIGINT)
    assert ending_in_a_code(work) == fails
    signal.raise_signal(signal.SIGINT)
    assert heard == [signal.SIGINT] * 2
    assert sys.unraisablehook is hook


def test_who_ignores_it_goes_on_to() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


class Failing:
    """An object whose end fails."""

    def __del__(self) -> None:
        raise ValueError("a bug")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_other_errors_that_nobody_waits_for_are_told_of_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def tell(lost: sys.UnraisableHookArgs) -> None:
        told.append(str(lost.exc_value))

    monkeypatch.setattr(sys, "unraisablehook", tell)
    with interruptible():
        Failing()
    assert told == ["a bug"]
