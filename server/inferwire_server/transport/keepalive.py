"""Keepalive of a connection: when to ping its peer, and when to give it up. Time is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


@dataclass(frozen=True, slots=True)
class PeerTimeouts:
    """How long a peer is waited for, in seconds.

    Attributes:
        hello_s: For its hello.
        silence_s: For anything, before it is asked whether it is there.
        answer_s: For anything after that, and for it to take what it is still sent at the end.
        linger_s: For it to close its side once all is sent.
    """

    hello_s: float = 10.0
    silence_s: float = 30.0
    answer_s: float = 10.0
    linger_s: float = 2.0


class Verdict(Enum):
    """What is to be done about a peer."""

    WAIT = auto()
    """Nothing."""
    ASK = auto()
    """It has said nothing for long: ask whether it is there."""
    REFUSE = auto()
    """It has not said hello."""
    CUT_OFF = auto()
    """It is gone."""


class _Phase(Enum):
    HELLO = auto()
    TALK = auto()
    END = auto()


class Keepalive:
    """What is known of one peer. Taking what could not be sent at once is a sign of life, too."""

    __slots__ = ("_asked", "_heard_at", "_phase", "_since", "_timeouts", "_unsent")

    def __init__(self, timeouts: PeerTimeouts, now: float) -> None:
        self._timeouts = timeouts
        self._phase = _Phase.HELLO
        self._since = now
        self._heard_at: float | None = None
        self._asked = False
        self._unsent = 0

    def __repr__(self) -> str:
        return f"<Keepalive: {self._phase.name}{', asked' if self._asked else ''}>"

    def greeted(self, now: float) -> None:
        """Record the peer's hello, unless the connection is ending already."""
        if self._phase is _Phase.HELLO:
            self._phase = _Phase.TALK
            self._since, self._heard_at = now, None

    def heard(self, now: float) -> None:
        """Record that something was received. Before the hello, that is no reason to wait longer."""
        self._heard_at = now

    def ending(self, now: float) -> None:
        """Record that the connection is ending: nothing more is said, and what comes is ignored."""
        self._phase = _Phase.END
        self._since = now

    def wait_anew(self, now: float) -> None:
        """Record that the peer is waited for from now on, for its hello too."""
        self._since = now

    def judge(self, now: float, unsent: int) -> Verdict:
        """Say what is to be done about the peer; `unsent` is how many bytes wait to be sent to it."""
        heard_at, self._heard_at = self._heard_at, None
        if self._phase is _Phase.TALK and heard_at is not None:
            self._since, self._asked = heard_at, False
        if self._phase is not _Phase.HELLO and unsent < self._unsent:
            self._since, self._asked = now, False
        self._unsent = unsent
        waited_s = now - self._since
        match self._phase:
            case _Phase.HELLO:
                return Verdict.REFUSE if waited_s >= self._timeouts.hello_s else Verdict.WAIT
            case _Phase.TALK:
                return self._judge_silence(now, waited_s)
            case _Phase.END:
                most_s = self._timeouts.answer_s if unsent else self._timeouts.linger_s
                return Verdict.CUT_OFF if waited_s >= most_s else Verdict.WAIT

    def _judge_silence(self, now: float, waited_s: float) -> Verdict:
        if self._asked:
            return Verdict.CUT_OFF if waited_s >= self._timeouts.answer_s else Verdict.WAIT
        if waited_s < self._timeouts.silence_s:
            return Verdict.WAIT
        self._asked, self._since = True, now
        return Verdict.ASK
