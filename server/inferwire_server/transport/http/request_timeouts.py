"""How long a peer is waited for at the HTTP port."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestTimeouts:
    """How long a peer is waited for, in seconds.

    Attributes:
        head_s: For all of a head, or of what says that it is a session's connection.
        body_s: For any more of a body.
        end_s: For any more of a request, while the server ends.
        answer_s: For it to take any more of an answer.
        look_s: How often these times are checked.
    """

    head_s: float = 30.0
    body_s: float = 60.0
    end_s: float = 1.0
    answer_s: float = 60.0
    look_s: float = 1.0
