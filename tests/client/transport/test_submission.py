"""One execution over several sendings: given up at any moment, it is never heard of again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
from tests.client.transport.endings import Endings
from tests.waiting import LIMIT_S

from inferwire.errors import InferenceFailed, QueueFull, ServerUnavailable, ShuttingDown
from inferwire.latch import Latch
from inferwire.transport.executions import (
    ExecutionHeader,
    Outcome,
    OutputBytes,
    SequenceMark,
    StoredBox,
    Target,
    TensorSpec,
)
from inferwire.transport.fake_transport import FakeExecution
from inferwire.transport.submission import Retries, Submission
from inferwire_proto.element_types import BY_NAME

HEADER = ExecutionHeader(Target("double", is_served=True), ())
LINK: Any = object()
LOST = Outcome(error=ServerUnavailable("gone"))
UNDER_WAY = "the connection was lost while the inference was under way, which may have run: "


class Client:
    """Submits one execution to connections that do what the test says."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.outcome = Endings()
        self.sent: list[Submission] = []
        self.resent: SimpleQueue[Submission] = SimpleQueue()
        self.taken_back: list[object] = []
        self.retries = Retries(self, lambda lost: lost, self.make_room)
        self.submission = Submission(HEADER, (), self.take, self.retries)

    def take(self, outcome: Outcome, data: OutputBytes) -> None:
        self.outcomes.append(outcome)
        self.outcome.take(outcome, data)

    def send(self, link: Any, submission: Submission) -> None:
        del link
        if submission in self.sent:
            self.resent.put(submission)
        self.sent.append(submission)

    @property
    def link(self) -> Any:
        """A connection whose stream notes what is taken back."""
        return SimpleNamespace(stream=SimpleNamespace(cancel=self.taken_back.append))

    def is_ready(self, link: Any, header: ExecutionHeader) -> bool:
        del link
        return header.target.is_served

    def make_room(self) -> bool:
        raise MemoryError("no room")

    def error(self) -> str:
        """Wait for the one outcome, and give its text."""
        return str(self.outcome.get(timeout=LIMIT_S).error)


class Doing:
    """Sends as a client does, once something else has happened."""

    def __init__(self, first: Callable[[], object], client: Client) -> None:
        self.first = first
        self.client = client

    def send(self, link: Any, submission: Submission) -> None:
        self.first()
        self.client.send(link, submission)

    def is_ready(self, link: Any, header: ExecutionHeader) -> bool:
        return self.client.is_ready(link, header)


@pytest.fixture
def client() -> Client:
    return Client()


def test_one_that_is_given_up_while_it_is_sent_is_taken_back(client: Client) -> None:
    client.submission.send(Doing(client.submission.cancel, client), client.link)
    assert client.sent == [client.submission]
    # Once before it was sent, and once after that.
    assert client.taken_back == [client.submission] * 2


def test_one_that_was_given_up_is_not_sent(client: Client) -> None:
    client.submission.cancel()
    client.submission.send(client, LINK)
    assert (client.sent, client.taken_back) == ([], [])


def test_one_that_was_a_call_of_its_own_is_taken_back_from_the_stream_that_it_was_sent_on_again(client: Client) -> None:
    call = FakeExecution(HEADER, (), client.take)
    client.submission.send(Doing(lambda: setattr(client.submission, "large", call), client), client.link)
    client.submission.send(client, client.link)
    client.submission.cancel()
    assert (call.is_cancelled, client.taken_back) == (False, [client.submission])


def test_one_that_is_given_up_while_it_is_sent_again_takes_back_nothing_of_anothers(client: Client) -> None:
    taken_back: list[int] = []

    def take_back(given: Submission) -> None:
        taken_back.append(given.id)

    link: Any = SimpleNamespace(stream=SimpleNamespace(cancel=take_back))
    client.submission.send(Doing(lambda: setattr(client.submission, "id", 7), client), link)
    client.submission.send(Doing(client.submission.cancel, client), link)
    assert taken_back == [0, 0], "7 was its id on the stream before"


def test_who_waits_for_what_was_sent_on_a_stream_attends_that_for_as_long(client: Client) -> None:
    attended: list[tuple[Latch, float, float | None]] = []

    def attend(answered: Latch, began: float, timeout_s: float | None) -> bool:
        attended.append((answered, began, timeout_s))
        return answered.is_set()

    link: Any = SimpleNamespace(stream=SimpleNamespace(attend=attend))
    client.submission.send(client, link)
    latch = Latch()
    for timeout_s in (0.5, None):
        assert not client.submission.await_answer(latch, 100.0, timeout_s)
    assert attended == [(latch, 100.0, 0.5), (latch, 100.0, None)]


def test_who_waits_for_what_was_sent_as_a_call_of_its_own_attends_no_stream(client: Client) -> None:
    call = FakeExecution(HEADER, (), client.take)
    client.submission.send(Doing(lambda: setattr(client.submission, "large", call), client), client.link)
    latch = Latch()
    assert not client.submission.await_answer(latch, 100.0, 0)
    latch.set()
    assert client.submission.await_answer(latch, 100.0)


def test_who_comes_while_a_server_is_looked_for_in_vain_is_told_what_came_of_that(client: Client) -> None:
    """Looking for it takes as long as connecting may take."""
    lookups: list[Any] = []

    def find_none(lost: Any) -> Any:
        lookups.append(lost)
        if len(lookups) == 1:
            second.fail(LOST)
        raise ServerUnavailable("nobody is there")

    retries = Retries(client, find_none, client.make_room)
    first, second = (Submission(HEADER, (), client.take, retries) for _ in range(2))
    first.send(client, LINK)
    second.send(client, LINK)
    first.fail(LOST)
    for _ in range(2):
        assert client.error() == f"{UNDER_WAY}nobody is there"
    assert lookups == [LINK]


def test_what_needs_no_model_to_be_compiled_again_is_sent_again_first(client: Client) -> None:
    are_lost = threading.Event()

    def replaced(lost: Any) -> Any:
        assert are_lost.wait(LIMIT_S)
        return lost

    retries = Retries(client, replaced, client.make_room)
    compiled = replace(HEADER, target=Target("compiled", is_served=False))
    first, second, third, fourth = (
        Submission(header, (), client.take, retries) for header in (HEADER, compiled, HEADER, compiled)
    )
    for submission in (first, second, third, fourth):
        submission.send(client, LINK)
    # While a connection is looked for, for the first, the others are lost as well.
    for submission in (first, second, third, fourth):
        submission.take(LOST, ())
    are_lost.set()
    resent = [client.resent.get(timeout=LIMIT_S) for _ in range(4)]
    assert resent == [first, third, second, fourth]


@pytest.mark.parametrize("outcome", [LOST, Outcome(error=InferenceFailed("no"))])
def test_what_comes_of_one_that_was_given_up_is_told_to_nobody(client: Client, outcome: Outcome) -> None:
    client.submission.send(client, client.link)
    client.submission.cancel()
    client.submission.take(outcome, ())
    assert client.outcomes == []


def nobody_there(client: Client) -> None:
    """Let no server be found where one is looked for again."""

    def search(lost: object) -> Any:
        raise ServerUnavailable("nobody answers")

    client.submission = Submission(HEADER, (), client.take, Retries(client, search, client.make_room))


def test_one_that_was_lost_under_way_says_that_it_may_have_run(client: Client) -> None:
    nobody_there(client)
    client.submission.send(client, LINK)
    client.submission.take(LOST, ())
    assert client.error() == UNDER_WAY + "nobody answers"


def test_one_that_may_be_sent_once_says_so_as_well(client: Client) -> None:
    header = replace(HEADER, sequence=SequenceMark(1, is_start=False))
    assert not header.is_retryable
    client.submission = Submission(header, (), client.take, client.retries)
    client.submission.send(client, LINK)
    client.submission.fail(LOST)
    assert client.error() == UNDER_WAY + "gone"


def test_one_that_changes_what_it_reads_may_be_sent_once() -> None:
    def leaving(output_in: int) -> ExecutionHeader:
        given = TensorSpec(0, BY_NAME["f32"], (1,), stored=StoredBox(5))
        return replace(HEADER, inputs=(given,), keeps=((0, output_in),))

    assert leaving(6).is_retryable
    assert not leaving(5).is_retryable


def test_one_that_was_never_sent_does_not(client: Client) -> None:
    nobody_there(client)

    # As where its stream has ended meanwhile.
    client.submission.send(Doing(lambda: client.submission.fail(LOST), client), LINK)
    assert client.error() == "nobody answers"


def test_one_that_was_refused_does_not(client: Client) -> None:
    nobody_there(client)
    client.submission.send(client, LINK)
    client.submission.fail(Outcome(error=ShuttingDown("draining")))
    assert client.error() == "nobody answers"


def test_whatever_keeps_a_new_connection_from_being_opened_ends_it(client: Client) -> None:
    def search(lost: object) -> Any:
        raise RuntimeError("can't start new thread")

    client.submission = Submission(HEADER, (), client.take, Retries(client, search, client.make_room))
    client.submission.send(client, LINK)
    client.submission.fail(LOST)
    assert client.error() == 'the execution could not be sent again: RuntimeError("can\'t start new thread")'


def test_whatever_keeps_room_from_being_made_ends_it(client: Client) -> None:
    header = replace(HEADER, sequence=SequenceMark(1, is_start=True))
    client.submission = Submission(header, (), client.take, client.retries)
    client.submission.send(client, LINK)
    client.submission.fail(Outcome(error=QueueFull("as many sequences as may be")))
    assert client.error() == "the execution could not be sent again: MemoryError('no room')"


def test_where_no_thread_can_be_had_to_send_it_again_it_ends(client: Client) -> None:
    client.submission.send(client, LINK)
    usual = threading.stack_size(1 << 46)
    try:
        client.submission.fail(LOST)
    finally:
        threading.stack_size(usual)
    (outcome,) = client.outcomes
    assert str(outcome.error) == UNDER_WAY + "gone (and it was not sent again: can't start new thread)"
    # The next one finds the shortage over.
    client.submission = Submission(HEADER, (), client.take, client.retries)
    client.submission.send(client, LINK)
    client.submission.fail(LOST)
    assert client.resent.get(timeout=LIMIT_S) is client.submission


def test_one_that_does_not_take_its_error_keeps_no_other_from_being_sent_again(client: Client) -> None:
    def deliver(outcome: Outcome, data: OutputBytes) -> None:
        raise MemoryError("no room")

    lost_for_good: Any = object()

    def search(lost: object) -> Any:
        if lost is lost_for_good:
            raise ServerUnavailable("nobody answers")
        return lost

    retries = Retries(client, search, client.make_room)
    first, second = Submission(HEADER, (), deliver, retries), Submission(HEADER, (), client.take, retries)
    first.send(client, lost_for_good)
    second.send(client, LINK)
    for each in (first, second):
        each.fail(LOST)
    assert client.resent.get(timeout=LIMIT_S) is second
