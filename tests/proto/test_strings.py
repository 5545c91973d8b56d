"""How string tensors travel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_proto import strings


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_unpack_undoes_pack(items: list[bytes]) -> None:
    packed = strings.pack(items)
    assert strings.unpack(packed, len(items)) == items
    assert strings.unpack(memoryview(packed), len(items)) == items
    strings.check(packed, len(items))


def test_packed_form() -> None:
    assert strings.pack([b"a", b"", b"bc"]) == b"\x01\0\0\0a" + b"\0\0\0\0" + b"\x02\0\0\0bc"
    assert strings.pack([]) == b""


@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        (b"", 1, "string 0 of 1 has 0 bytes of its length, expected 4"),
        (b"\x01\0\0", 1, "string 0 of 1 has 3 bytes of its length, expected 4"),
        (b"\x02\0\0\0a", 1, "string 0 of 1 has 1 bytes, expected 2"),
        (b"\xff\xff\xff\xffa", 1, "string 0 of 1 has 1 bytes, expected 4294967295"),
        (b"\x01\0\0\0a", 2, "string 1 of 2 has 0 bytes of its length, expected 4"),
        (b"\x01\0\0\0ab", 1, "1 bytes follow the last of 1 strings, expected none"),
        (b"a", 0, "1 bytes follow the last of 0 strings, expected none"),
    ],
)
def test_malformed_data_is_refused(data: bytes, count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        strings.unpack(data, count)
    with pytest.raises(ValueError, match=message):
        strings.check(memoryview(data), count)


def test_strings_before_what_is_malformed_are_given_one_at_a_time() -> None:
    one_by_one = strings.each(strings.pack([b"a", b"bc"]) + b"\x09", 3)
    assert [next(one_by_one), next(one_by_one)] == [b"a", b"bc"]
    with pytest.raises(ValueError, match="string 2 of 3 has 1 bytes of its length, expected 4"):
        next(one_by_one)


class HugeString(bytes):
    """Says that it is longer than the wire can carry, without the memory."""

    def __len__(self) -> int:
        return 2**32


def test_longest_string_is_limited() -> None:
    with pytest.raises(ValueError, match="string 1 has 4294967296 bytes, expected at most 4294967295"):
        strings.pack([b"", HugeString()])


@given(st.integers(0, 3), st.lists(st.binary(max_size=5), min_size=12, max_size=12), st.integers(1, 4))
def test_a_stack_is_cut_into_its_tensors(length: int, items: list[bytes], count: int) -> None:
    tensors = [items[at * length : (at + 1) * length] for at in range(count)]
    stack = memoryview(b"".join(map(strings.pack, tensors)))
    assert [strings.unpack(part, length) for part in strings.cut(stack, length, count)] == tensors


def test_a_malformed_stack_is_cut_all_the_same() -> None:
    parts = strings.cut(memoryview(b"\x09\0\0\0a"), 1, 2)
    assert b"".join(parts) == b"\x09\0\0\0a"
