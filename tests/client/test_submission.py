"""One execution over several sendings: given up at any moment, it is never heard of again."""

from __future__ import annotations

from typing import Any

import pytest

from inferwire.errors import InferenceFailed, ServerUnavailable
from inferwire.transport.executions import ExecutionHeader, Outcome, Target
from inferwire.transport.submission import Retries, Submission

HEADER = ExecutionHeader(Target("double", is_served=True), ())
LINK: Any = object()
LOST = Outcome(error=ServerUnavailable("gone"))


class Client:
    """Submits one execution to connections that do what the test says."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.sent: list[Submission] = []
        self.taken_back: list[object] = []
        self.retries = Retries(self.send, lambda lost: lost)
        self.submission = Submission(HEADER, (), self.outcomes.append, self.retries)

    def send(self, link: Any, submission: Submission) -> Any:
        del link
        self.sent.append(submission)
        return self.taken_back.append


@pytest.fixture
def client() -> Client:
    return Client()


def test_one_that_is_given_up_while_it_is_sent_is_taken_back(client: Client) -> None:
    def send(link: Any, submission: Submission) -> Any:
        submission.cancel()
        return client.send(link, submission)

    client.submission.send(send, LINK)
    assert client.taken_back == [client.submission]


def test_one_that_was_given_up_is_not_sent(client: Client) -> None:
    client.submission.cancel()
    client.submission.send(client.send, LINK)
    assert (client.sent, client.taken_back) == ([], [])


@pytest.mark.parametrize("outcome", [LOST, Outcome(error=InferenceFailed("no"))])
def test_what_comes_of_one_that_was_given_up_is_told_to_nobody(client: Client, outcome: Outcome) -> None:
    client.submission.send(client.send, LINK)
    client.submission.cancel()
    client.submission.take(outcome)
    assert client.outcomes == []
