"""Which streams are ended because the peer does not go on with them, and which wait for something else."""

from __future__ import annotations

from collections.abc import Sequence

from tests.transport.http2.wire import Heard, Wire, data, ended, headers

from inferwire_server.transport.http2.frames import END_STREAM, window_update
from inferwire_server.transport.http2.stalls import Stalls

LIMIT_S = 60.0
LOTS = 1 << 20


class Looks:
    """A connection that is looked at now and again, of which so many bytes are still on their way to the peer."""

    def __init__(self, **settings: int) -> None:
        self.wire = Wire().greet(**settings)
        self.unread = 0
        self.now = 100.0

    def begin(self, number: int = 1) -> Heard:
        """Begin a stream on which the peer goes on."""
        return self.wire.begin(number)

    def answer(self, number: int, size: int) -> Heard:
        """Answer a stream with so many bytes."""
        heard = self.wire.begin(number, END_STREAM)
        heard.answer(bytes(size))
        self.wire.told()
        return heard

    def after(self, waited_s: float) -> None:
        """Look so much later."""
        self.now += waited_s
        self.wire.connection.look(self.now, self.unread, LIMIT_S)


def stalls(*heard: Heard) -> Sequence[int]:
    return [each.stalls for each in heard]


def test_a_peer_that_takes_nothing_of_an_answer_is_waited_for_until_the_limit() -> None:
    looks = Looks(initial_window_size=4)
    heard = looks.answer(1, 6)
    looks.after(0)
    looks.after(59)
    assert heard.stalls == 0
    looks.after(1)
    assert heard.stalls == 1
    assert looks.wire.told() == [ended(1)]
    looks.after(60)
    assert heard.stalls == 1


def test_a_peer_that_takes_something_now_and_again_is_waited_for_as_long_as_it_likes() -> None:
    looks = Looks(initial_window_size=0)
    heard = looks.answer(1, 10)
    for _ in range(9):
        looks.after(50)
        looks.wire.say(window_update(1, 1))
    assert heard.stalls == 0
    looks.after(0)
    looks.after(60)
    assert heard.stalls == 1


def test_a_peer_that_takes_nothing_on_one_stream_is_waited_for_on_others() -> None:
    looks = Looks(initial_window_size=0)
    first, second, quiet = looks.answer(1, 6), looks.answer(3, 6), looks.begin(5)
    looks.after(0)
    looks.wire.say(window_update(3, 1))
    looks.after(60)
    assert stalls(first, second, quiet) == [1, 0, 0]


def test_who_is_to_say_more_and_says_nothing_is_waited_for_until_the_limit() -> None:
    looks = Looks()
    heard = looks.begin()
    heard.awaits_data = True
    for _ in range(3):
        looks.after(59)
        looks.wire.say(data(1, b"a"))
    looks.after(0)
    looks.after(59)
    assert heard.stalls == 0
    looks.after(1)
    assert heard.stalls == 1


def test_room_to_say_more_is_not_taken_for_something_that_has_come() -> None:
    looks = Looks()
    heard = looks.begin()
    heard.awaits_data = True
    looks.after(0)
    heard.stream.expect(2 * LOTS)
    looks.after(60)
    assert heard.stalls == 1


def test_who_has_nothing_to_say_for_a_while_is_waited_for_only_from_then() -> None:
    looks = Looks()
    heard = looks.begin()
    for awaits_data in (True, False, True):
        heard.awaits_data = awaits_data
        looks.after(59)
    looks.after(59)
    assert heard.stalls == 0


def test_a_stream_that_waits_for_its_turn_is_not_stalled_while_the_peer_takes_from_others() -> None:
    looks = Looks(initial_window_size=LOTS)
    heard = [looks.answer(number, LOTS) for number in (1, 3, 5, 7)]
    looks.after(0)
    for _ in range(4):
        looks.wire.say(window_update(0, 1))
        looks.after(30)
    assert stalls(*heard) == [0] * 4
    # Where it takes nothing at all, room on their own helps none.
    looks.wire.say(window_update(1, 1))
    looks.after(60)
    assert stalls(*heard) == [1] * 4


def test_what_is_on_its_way_is_not_taken_for_something_that_the_peer_leaves() -> None:
    looks = Looks(initial_window_size=1000)
    heard = looks.answer(1, 2000)
    for unread in (900, 600, 300):
        looks.unread = unread
        looks.after(50)
    assert heard.stalls == 0
    looks.after(60)
    assert heard.stalls == 1


def test_what_goes_out_on_other_streams_does_not_help_one_whose_data_has_arrived() -> None:
    looks = Looks(initial_window_size=1000)
    heard = looks.answer(1, 2000)
    looks.after(0)
    for number in (3, 5, 7):
        looks.unread = 10 * number
        looks.answer(number, 900)
        looks.after(20)
    assert heard.stalls == 1


def test_a_stream_that_has_ended_is_forgotten() -> None:
    looks = Looks(initial_window_size=0)
    stalls = Stalls()
    streams = looks.wire.connection.streams.open
    looks.answer(1, 6)
    assert stalls.found(streams.values(), 0, 0, LIMIT_S) == []
    assert repr(stalls) == "<Stalls: 1 streams wait for their peer>"
    looks.wire.say(window_update(1, 6))
    assert stalls.found(streams.values(), 0, 60, LIMIT_S) == []
    assert repr(stalls) == "<Stalls: 0 streams wait for their peer>"


def test_streams_that_have_all_they_need_are_not_noted() -> None:
    looks = Looks()
    looks.begin(1)
    looks.wire.say(headers(3, flags=END_STREAM))
    found = Stalls()
    assert found.found(looks.wire.connection.streams.open.values(), 0, 0, LIMIT_S) == []
    assert repr(found) == "<Stalls: 0 streams wait for their peer>"
