"""Which work goes together, and that rows put together come apart as they were."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME, ElementType
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.batching import Batching, join, split
from inferwire_server.core.scheduling.job import Work
from inferwire_server.core.tensor_checks import MOST_STRINGS
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError

U8 = BY_NAME["u8"]
U4 = BY_NAME["u4"]


def u8(*shape: int, fill: int = 0) -> Tensor:
    return Tensor(U8, shape, bytes([fill]) * U8.byte_size(shape))


def work(*shapes: tuple[int, ...], outputs: tuple[int, ...] = (0,)) -> Work:
    return Work(tuple(u8(*shape) for shape in shapes), outputs)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((0,), "the largest batch is 0 rows, expected 1 or more"),
        ((4, -0.5), "the longest delay of a batch is -0.5 seconds, expected 0 or more"),
        ((4, float("nan")), "the longest delay of a batch is nan seconds, expected 0 or more"),
        ((4, float("inf")), "the longest delay of a batch is inf seconds, expected 0 or more"),
        ((4, 0.0, (2, 5)), "a preferred batch is 5 rows, expected 1 to 4"),
        ((4, 0.0, (0,)), "a preferred batch is 0 rows, expected 1 to 4"),
    ],
)
def test_sizes_and_delays_that_are_none_are_refused(options: tuple[int, float, tuple[int, ...]], sentence: str) -> None:
    with pytest.raises(ServingError) as caught:
        Batching(*options)
    assert (caught.value.code, caught.value.message) == (Code.INVALID_INPUT, sentence)


def test_work_goes_together_that_differs_in_its_rows_alone() -> None:
    group = Batching(8).group
    assert group(work((1, 4), (1, 2))) == group(work((3, 4), (3, 2)))
    assert group(work((1, 4))) != group(work((1, 5)))
    assert group(work((1, 4))) != group(work((1, 4, 1)))
    assert group(work((1, 4))) != group(work((1, 4), outputs=(1,)))
    assert group(work((1, 4), outputs=(0, 1))) != group(work((1, 4), outputs=(1, 0)))


@pytest.mark.parametrize(
    "alone", [work(), work(()), work((0, 4)), work((9, 4)), work((1, 4), (2, 4)), work((1, 4), ())]
)
def test_work_without_rows_of_its_own_runs_alone(alone: Work) -> None:
    assert Batching(8).group(alone) is None


@pytest.mark.parametrize(("count", "is_alone"), [(MOST_STRINGS, False), (MOST_STRINGS + 1, True)])
def test_strings_that_nobody_has_looked_at_run_alone(count: int, is_alone: bool) -> None:
    many = Work((Tensor(BY_NAME["string"], (1, count), bytes(4 * count)),), (0,))
    assert (Batching(8).group(many) is None) == is_alone


def test_a_run_takes_the_largest_preferred_size_that_is_filled() -> None:
    batching = Batching(16, preferred=(4, 8))
    assert [batching.rows_to_take(waiting) for waiting in (1, 3, 4, 7, 8, 100)] == [16, 16, 4, 4, 8, 8]
    assert Batching(16).rows_to_take(100) == 16


def test_rows_wait_until_the_least_preferred_size_is_filled_or_else_the_largest() -> None:
    assert [Batching(16, preferred=(8, 4)).is_worth_a_run(rows) for rows in (3, 4)] == [False, True]
    assert [Batching(16).is_worth_a_run(rows) for rows in (15, 16)] == [False, True]


def contents_of(element_type: ElementType, shape: tuple[int, ...]) -> st.SearchStrategy[bytes]:
    """Draw a tensor's bytes."""
    if element_type.is_string:
        count = prod(shape)
        return st.lists(st.binary(max_size=5), min_size=count, max_size=count).map(strings.pack)
    size = element_type.byte_size(shape)
    return st.binary(min_size=size, max_size=size)


@st.composite
def works_of_one_group(draw: st.DrawFn) -> list[Work]:
    """Draw works whose inputs are alike but for the rows."""
    kinds = [U8, U4, BY_NAME["f32"], BY_NAME["i64"], BY_NAME["string"]]
    types = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    tails = [draw(st.lists(st.integers(0, 3), max_size=2).map(tuple)) for _ in types]
    # What is packed has rows of whole bytes.
    tails = [(*tail, element_type.unit_elements) for tail, element_type in zip(tails, types, strict=True)]
    works: list[Work] = []
    for rows in draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)):
        shapes = [(rows, *tail) for tail in tails]
        contents = [draw(contents_of(element_type, shape)) for element_type, shape in zip(types, shapes, strict=True)]
        inputs = [Tensor(*parts) for parts in zip(types, shapes, map(memoryview, contents), strict=True)]
        works.append(Work(tuple(inputs), (0,)))
    return works


@pytest.mark.parametrize(("shape", "is_alone"), [((2, 2), False), ((2, 3), True), ((2, 3, 2), False), ((2,), True)])
def test_work_whose_rows_share_a_byte_runs_alone(shape: tuple[int, ...], is_alone: bool) -> None:
    packed = Work((Tensor(U4, shape, bytes(U4.byte_size(shape))),), (0,))
    assert (Batching(8).group(packed) is None) == is_alone


def test_what_ran_alone_has_its_outputs_as_they_are() -> None:
    tensor = Tensor(U8, (3, 4), bytes(12))
    ((output,),) = split([tensor], [3])
    assert output is tensor


def test_an_output_whose_rows_share_a_byte_is_not_split() -> None:
    with pytest.raises(ServingError, match=r"a run gave u4\[2,3\], expected rows of whole bytes"):
        split([Tensor(U4, (2, 3), bytes(3))], [1, 1])


@given(works_of_one_group())
def test_what_is_put_together_comes_apart_as_it_was(works: list[Work]) -> None:
    joined = join(works)
    rows = [work.inputs[0].shape[0] for work in works]
    assert joined.outputs == (0,)
    assert [tensor.shape[0] for tensor in joined.inputs] == [sum(rows)] * len(joined.inputs)
    assert split(joined.inputs, rows) == [work.inputs for work in works]


def test_outputs_are_split_without_a_copy() -> None:
    content = bytes(range(12))
    first, second = split([Tensor(U8, (3, 4), content)], [1, 2])
    for (part,), expected in ((first, content[:4]), (second, content[4:])):
        assert isinstance(part.data, memoryview)
        assert part.data.obj is content
        assert part.data == expected
    assert second[0].shape == (2, 4)


@pytest.mark.parametrize("output", [u8(2, 4), u8(4, 4), u8()])
def test_an_output_without_a_row_for_each_row_is_not_split(output: Tensor) -> None:
    with pytest.raises(ServingError, match=r"a run of 3 rows gave an output of shape .*, expected 3 rows") as caught:
        split([output], [1, 2])
    assert caught.value.code is Code.INFERENCE_FAILED
