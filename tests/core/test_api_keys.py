"""Files of API keys, and what is one of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_proto.errors import Code
from inferwire_server.core.api_keys import SHORTEST_KEY, ApiKeys, digest_of
from inferwire_server.errors import ServingError

FIRST, SECOND = "first-key-of-sixteen", "second-key-of-sixteen"

KEYS = st.text(st.characters(min_codepoint=ord("!"), max_codepoint=ord("~")), min_size=SHORTEST_KEY).filter(
    lambda key: not key.startswith("#")
)


def test_each_line_is_a_key_but_for_comments_and_empty_ones() -> None:
    keys = ApiKeys.parse(f"# of the shop\n{FIRST}\n\n  {SECOND}  \r\n#{FIRST}x\n")
    assert len(keys) == 2
    assert keys.have(digest_of(FIRST))
    assert keys.have(digest_of(SECOND))
    assert not keys.have(digest_of(f"{FIRST}x"))
    assert not keys.have(digest_of("# of the shop"))


@given(st.lists(KEYS, min_size=1), st.text())
def test_what_is_in_the_file_is_a_key_and_nothing_else(keys: list[str], other: str) -> None:
    parsed = ApiKeys.parse("\n".join(keys))
    assert all(parsed.have(digest_of(key)) for key in keys)
    assert parsed.have(digest_of(other)) is (other in keys)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "there is no API key in it, expected one in a line"),
        ("# none\n\n", "there is no API key in it, expected one in a line"),
        (f"{FIRST}\nshort", "the API key in line 2 has 5 characters, expected 16 or more"),
        (f"\nname {FIRST}", "line 2 is no API key: it has blanks, or characters beyond ASCII, in it"),
        ("schlüssel-von-uns-allen", "line 1 is no API key: it has blanks, or characters beyond ASCII, in it"),
    ],
)
def test_what_is_no_file_of_keys_is_refused_without_showing_a_key(text: str, sentence: str) -> None:
    with pytest.raises(ServingError) as caught:
        ApiKeys.parse(text)
    assert (caught.value.code, caught.value.message) == (Code.INVALID_INPUT, sentence)


def test_the_same_keys_in_another_order_are_the_same() -> None:
    one, other = ApiKeys.parse(f"{FIRST}\n{SECOND}"), ApiKeys.parse(f"{SECOND}\n{FIRST}\n{FIRST}")
    assert one == other
    assert hash(one) == hash(other)
    assert one != ApiKeys.parse(FIRST)
    assert one != FIRST


def test_no_key_is_shown() -> None:
    assert repr(ApiKeys.parse(FIRST)) == "<ApiKeys: 1>"
