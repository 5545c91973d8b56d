"""What a model takes and gives: every sentence about an input that does not fit."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME, ELEMENT_TYPES, ElementType
from inferwire_proto.errors import Code
from inferwire_server.core.boxes import Box, view
from inferwire_server.core.specs import Dimension, ModelSpec, PortKey, PortSpec, Shape
from inferwire_server.core.tensor_checks import MOST_STRINGS, check_content, is_left_to_slot, strings_of
from inferwire_server.core.tensors import LARGE, Tensor
from inferwire_server.errors import ServingError

ANY = Dimension(0, None)
LONGEST = 2**63 - 1


def port(*names: str, shape: Shape = (ANY,), element_type: str = "u8", oip_name: str | None = None) -> PortSpec:
    return PortSpec(frozenset(names), oip_name or min(names), BY_NAME[element_type], shape, "node", "Parameter")


def a_model(*inputs: PortSpec) -> ModelSpec:
    return ModelSpec("m", inputs or (port("a"), port("b")), (port("y"), port("z")))


def u8(*shape: int) -> Tensor:
    return Tensor(BY_NAME["u8"], shape, bytes(prod(shape)))


def refusal(model: ModelSpec, *given: tuple[PortKey, Tensor]) -> str:
    with pytest.raises(ServingError) as caught:
        model.arrange(given)
    assert caught.value.code is Code.INVALID_INPUT
    return caught.value.message


def test_a_stack_is_bound_by_the_shapes_of_one_of_its_executions() -> None:
    one_row = a_model(port("x", shape=(Dimension(1, 1), Dimension(4, 4))))
    (arranged,) = one_row.arrange([("x", u8(3, 4))], 3)
    assert arranged.shape == (3, 4)
    with pytest.raises(ServingError, match=r"has shape \[2,4\], expected \[1,4\]"):
        one_row.arrange([("x", u8(6, 4))], 3)
    with pytest.raises(ServingError, match="has 11 bytes, expected 12"):
        one_row.arrange([("x", Tensor(BY_NAME["u8"], (3, 4), bytes(11)))], 3)


# --- dimensions and shapes


@pytest.mark.parametrize(
    ("dimension", "text", "admitted", "refused"),
    [
        (Dimension(3, 3), "3", (3,), (2, 4, -1)),
        (Dimension(0, None), "?", (0, 10**9), (-1,)),
        (Dimension(2, None), "2..", (2, 9), (1,)),
        (Dimension(2, 4), "2..4", (2, 4), (1, 5)),
        (Dimension(0, 4), "..4", (0, 4), (5, -1)),
    ],
)
def test_a_dimension_reads_as_openvino_writes_it(
    dimension: Dimension, text: str, admitted: tuple[int, ...], refused: tuple[int, ...]
) -> None:
    assert str(dimension) == text
    assert all(map(dimension.admits, admitted))
    assert not any(map(dimension.admits, refused))
    assert dimension.is_static == (dimension.min == dimension.max)


def test_a_port_of_no_known_rank_admits_every_shape() -> None:
    free = port("x", shape=None)
    assert free.shape_text == "[...]"
    assert free.admits(())
    assert free.admits((1, 2, 3))


def test_a_port_admits_shapes_of_its_rank_alone() -> None:
    two = port("x", shape=(ANY, Dimension(4, 4)))
    assert two.shape_text == "[?,4]"
    assert two.admits((7, 4))
    assert not two.admits((7, 5))
    assert not two.admits((4,))


def test_a_scalar_port_admits_the_empty_shape() -> None:
    scalar = port("x", shape=())
    assert scalar.shape_text == "[]"
    assert scalar.admits(())
    assert not scalar.admits((1,))


# --- inputs


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a"), (0, 1), (1, "a"), ("b", 0)])
def test_inputs_come_in_any_order_by_name_or_number(order: tuple[PortKey, PortKey]) -> None:
    tensors = {"a": u8(1), "b": u8(2), 0: u8(1), 1: u8(2)}
    arranged = a_model().arrange((key, tensors[key]) for key in order)
    assert [tensor.shape for tensor in arranged] == [(1,), (2,)]


def test_an_input_nobody_knows_is_named_with_those_there_are() -> None:
    expected = "input 'c' of model 'm' is not known, expected one of 'a', 'b'"
    assert refusal(a_model(), ("c", u8(1))) == expected


def test_a_number_that_is_no_input_is_named() -> None:
    expected = "input number 2 of model 'm' is not known, expected one of 'a', 'b'"
    assert refusal(a_model(), (2, u8(1))) == expected
    assert refusal(a_model(), (-1, u8(1))) == expected.replace("2", "-1")


def test_a_model_without_inputs_takes_none() -> None:
    model = ModelSpec("m", (), (port("y"),))
    assert model.arrange(()) == ()
    assert refusal(model, ("x", u8(1))) == "input 'x' of model 'm' is not known, expected one of none"


def test_an_input_given_twice_is_named_by_its_protocol_name() -> None:
    assert refusal(a_model(), ("a", u8(1)), (0, u8(1))) == "input 'a' of model 'm' is given twice"


def test_missing_inputs_are_all_named() -> None:
    assert refusal(a_model(), ("a", u8(1))) == "input 'b' of model 'm' is missing"
    assert refusal(a_model()) == "inputs 'a', 'b' of model 'm' are missing"


def test_a_wrong_element_type_is_named_beside_the_right_one() -> None:
    said = refusal(a_model(), ("a", Tensor(BY_NAME["f32"], (1,), bytes(4))))
    assert said == "input 'a' of model 'm' has element type f32 (FP32), expected u8 (UINT8)"


def test_a_type_that_the_protocol_lacks_has_one_name() -> None:
    tensor = Tensor(BY_NAME["u4"], (2,), bytes(1))
    assert refusal(a_model(), ("a", tensor)) == "input 'a' of model 'm' has element type u4, expected u8 (UINT8)"


def test_a_file_in_place_of_pixels_is_told_which_models_take_one() -> None:
    file = Tensor(BY_NAME["string"], (1,), strings.pack([b"a file"]))
    said = refusal(a_model(port("image", shape=(ANY,) * 4)), ("image", file))
    assert said.endswith("expected u8 (UINT8); a JPEG or PNG file is for a model whose settings have encoded = true")
    assert refusal(a_model(port("row", shape=(ANY,) * 2)), ("row", file)).endswith("expected u8 (UINT8)")


@pytest.mark.parametrize(
    ("shape", "written"), [((1, 5), "[1,5]"), ((4,), "[4]"), ((), "[]"), ((-1, 4), "[-1,4]"), ((1, 4, 1), "[1,4,1]")]
)
def test_a_wrong_shape_is_named_beside_the_right_one(shape: tuple[int, ...], written: str) -> None:
    model = a_model(port("x", shape=(ANY, Dimension(4, 4))))
    tensor = Tensor(BY_NAME["u8"], shape, b"")
    assert refusal(model, ("x", tensor)) == f"input 'x' of model 'm' has shape {written}, expected [?,4]"


@pytest.mark.parametrize(("shape", "written"), [((0, -1), "[0,-1]"), ((0, 2**63), f"[0,{2**63}]")])
def test_dimensions_no_runtime_can_say_are_refused(shape: tuple[int, ...], written: str) -> None:
    model = a_model(port("x", shape=None))
    expected = f"input 'x' of model 'm' has shape {written}, expected dimensions from 0 to {LONGEST}"
    assert refusal(model, ("x", Tensor(BY_NAME["u8"], shape, b""))) == expected


def test_shapes_of_very_many_dimensions_are_refused() -> None:
    model = a_model(port("x", shape=None))
    tensor = Tensor(BY_NAME["u8"], (2**63 - 1,) * 300, b"1")
    assert refusal(model, ("x", tensor)) == "input 'x' of model 'm' has 300 dimensions, expected at most 64"
    assert refusal(model, ("x", Tensor(BY_NAME["u8"], (1,) * 65, b"1"))) is not None
    assert model.arrange([("x", Tensor(BY_NAME["u8"], (1,) * 64, b"1"))])


def test_a_shape_of_more_elements_than_fit_anywhere_is_refused_by_its_bytes() -> None:
    model = a_model(port("x", shape=None))
    tensor = Tensor(BY_NAME["u8"], (2**40, 2**40), b"123")
    expected = f"input 'x' of model 'm' has 3 bytes, expected {2**80} for u8[{2**40},{2**40}]"
    assert refusal(model, ("x", tensor)) == expected


def test_an_input_is_checked_to_its_bytes() -> None:
    tensor = Tensor(BY_NAME["u8"], (3,), b"12")
    assert refusal(a_model(), ("a", tensor)) == "input 'a' of model 'm' has 2 bytes, expected 3 for u8[3]"


@pytest.mark.parametrize("begin", [b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n"])
def test_who_sends_a_picture_for_pixels_is_told_what_takes_one(begin: bytes) -> None:
    tensor = Tensor(BY_NAME["u8"], (3,), begin + bytes(10))
    assert refusal(a_model(), ("a", tensor)).endswith(
        "for u8[3]; a JPEG or PNG file is for a model whose settings have encoded = true"
    )


# --- names


def test_an_input_is_checked_to_its_bytes_whenever_it_comes() -> None:
    model = a_model(port("x"))
    good, bad = u8(2), Tensor(BY_NAME["u8"], (2,), bytes(3))
    assert model.arrange([("x", good)]) == model.arrange([("x", good)])
    assert refusal(model, ("x", bad)) == refusal(model, ("x", bad)) == refusal(a_model(port("x")), ("x", bad))


def test_a_boolean_is_checked_to_its_values_whenever_it_comes() -> None:
    model = a_model(port("x", element_type="boolean"))
    boolean = BY_NAME["boolean"]
    model.arrange([("x", Tensor(boolean, (1,), b"\1"))])
    assert "neither 0 nor 1" in refusal(model, ("x", Tensor(boolean, (1,), b"\2")))


@pytest.mark.parametrize("count", [LARGE, LARGE + 2])
def test_booleans_of_a_large_tensor_are_seen_by_the_slot_that_reads_them(count: int) -> None:
    model = a_model(port("x", element_type="boolean"))
    tensor = Tensor(BY_NAME["boolean"], (count,), bytes(count - 1) + b"\2")
    short = tensor._replace(data=tensor.data[1:])
    assert refusal(model, ("x", short)).endswith(f"has {count - 1} bytes, expected {count} for boolean[{count}]")
    if count == LARGE:
        assert not is_left_to_slot(tensor)
        assert refusal(model, ("x", tensor)) == "input 'x' of model 'm' has a boolean that is neither 0 nor 1"
    else:
        assert is_left_to_slot(tensor)
        assert model.arrange([("x", tensor)]) == (tensor,)
        with pytest.raises(ServingError, match="is too large for a stack of 2 executions to be checked at once"):
            model.arrange([("x", tensor)], 2)


def test_booleans_of_a_box_are_checked_where_they_lie() -> None:
    model, grid = a_model(port("x", shape=(ANY, ANY), element_type="boolean")), bytes([0, 1, 2] * 3000)
    whole = Tensor(BY_NAME["boolean"], (3000, 3), grid)
    good, bad = (view(whole, Box((0, begin), (3000, begin + 2))) for begin in (0, 1))
    assert model.arrange([("x", good)]) == (good,)
    assert refusal(model, ("x", bad)) == "input 'x' of model 'm' has a boolean that is neither 0 nor 1"


@pytest.mark.parametrize("count", [MOST_STRINGS, MOST_STRINGS + 1])
def test_strings_that_are_very_many_are_seen_by_the_slot_that_reads_them(count: int) -> None:
    model = a_model(port("x", element_type="string"))
    whole = Tensor(BY_NAME["string"], (count,), bytes(4 * count))
    malformed = whole._replace(data=b"\1" + bytes(4 * count - 1))
    assert model.arrange([("x", whole)]) == (whole,)
    reason = f"input 'x' of model 'm' is no string[{count}]: string {count - 1} of {count} has 3 bytes of its length"
    if is_left_to_slot(malformed):
        assert model.arrange([("x", malformed)]) == (malformed,)
        with pytest.raises(ServingError) as caught:
            list(strings_of(model.prefix_of(0), malformed))
        assert caught.value.message.startswith(reason)
        assert caught.value.code is Code.INVALID_INPUT
    else:
        assert refusal(model, ("x", malformed)).startswith(reason)


def test_very_many_strings_that_cannot_be_in_their_bytes_are_refused_at_once() -> None:
    model = a_model(port("x", element_type="string"))
    count = MOST_STRINGS + 1
    short = Tensor(BY_NAME["string"], (count,), bytes(4 * count - 1))
    assert refusal(model, ("x", short)).startswith(f"input 'x' of model 'm' is no string[{count}]: ")


@pytest.mark.parametrize("count", [MOST_STRINGS, MOST_STRINGS + 2])
def test_strings_of_a_stack_are_looked_at_or_refused(count: int) -> None:
    model = a_model(port("x", element_type="string"))
    stack = ("x", Tensor(BY_NAME["string"], (count,), bytes(4 * count)))
    if count <= MOST_STRINGS:
        assert model.arrange([stack], 2) == (stack[1],)
        return
    with pytest.raises(ServingError) as caught:
        model.arrange([stack], 2)
    assert (
        caught.value.message == "input 'x' of model 'm' is too large for a stack of 2 executions to be checked at once"
    )
    assert caught.value.code is Code.INVALID_INPUT


@pytest.mark.parametrize(
    ("byte_size", "reason"),
    [
        (0, "string 0 of 1099511627776 has 0 bytes of its length, expected 4"),
        (4 * MOST_STRINGS + 4, "32772 bytes are too few for 1099511627776 strings"),
    ],
)
def test_strings_for_which_the_bytes_are_too_few_are_refused_at_once(byte_size: int, reason: str) -> None:
    model = a_model(port("x", element_type="string"))
    tensor = Tensor(BY_NAME["string"], (2**40,), bytes(byte_size))
    assert refusal(model, ("x", tensor)) == f"input 'x' of model 'm' is no string[1099511627776]: {reason}"


def test_a_name_that_two_ports_share_names_neither() -> None:
    one, other = port("a", "shared"), port("b", "shared")
    model = a_model(one, other)
    assert refusal(model, ("shared", u8(1))).startswith("input 'shared' of model 'm' is not known")
    assert len(model.arrange([("a", u8(1)), ("b", u8(1))])) == 2


def test_a_port_answers_to_each_of_its_names_and_to_its_protocol_name() -> None:
    model = a_model(port("long_name", "x", oip_name="input_0"))
    for name in ("long_name", "x", "input_0"):
        assert model.arrange([(name, u8(1))])[0].shape == (1,)


# --- outputs


def test_all_outputs_are_given_where_none_is_named() -> None:
    assert a_model().select(()) == (0, 1)


@pytest.mark.parametrize("wanted", [("z", "y"), (1, 0), ("z", 0)])
def test_outputs_come_in_the_order_they_are_asked_for(wanted: tuple[PortKey, ...]) -> None:
    assert a_model().select(wanted) == (1, 0)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (("x",), "output 'x' of model 'm' is not known, expected one of 'y', 'z'"),
        ((7,), "output number 7 of model 'm' is not known, expected one of 'y', 'z'"),
        (("y", 0), "output 'y' of model 'm' is asked for twice"),
    ],
)
def test_an_output_that_cannot_be_given_is_named(wanted: tuple[PortKey, ...], message: str) -> None:
    with pytest.raises(ServingError) as caught:
        a_model().select(wanted)
    assert (caught.value.code, caught.value.message) == (Code.INVALID_INPUT, message)


# --- signature


def test_equal_ports_have_equal_signatures_whatever_the_model_is_called() -> None:
    assert a_model().signature == replace(a_model(), name="other").signature != 0


@pytest.mark.parametrize(
    "other",
    [
        port("c"),
        port("a", element_type="i8"),
        port("a", shape=(Dimension(1, 1),)),
        port("a", oip_name="input_0"),
    ],
)
def test_a_port_that_differs_in_anything_changes_the_signature(other: PortSpec) -> None:
    assert a_model(port("a")).signature != a_model(other).signature


def test_names_beside_the_protocol_s_do_not_count() -> None:
    assert a_model(port("a")).signature == a_model(port("a", "invented_17")).signature


def test_an_output_is_not_taken_for_an_input() -> None:
    x, y = port("x"), port("y")
    assert ModelSpec("m", (x, y), ()).signature != ModelSpec("m", (x,), (y,)).signature


# --- content

SIZED = [element_type for element_type in ELEMENT_TYPES if not element_type.is_string]
SHAPES = st.lists(st.integers(0, 9), max_size=4).map(tuple)


def content_refusal(tensor: Tensor) -> str | None:
    try:
        check_content("it", tensor)
    except ServingError as error:
        return error.message
    return None


def expected_bytes(element_type: ElementType, shape: tuple[int, ...]) -> int:
    """Count whole storage units: the smallest run of bytes that holds a whole number of elements."""
    unit_bits = {3: 24, 6: 24}.get(element_type.bits, max(element_type.bits, 8))
    return -(-prod(shape) * element_type.bits // unit_bits) * unit_bits // 8


@given(st.sampled_from(SIZED), SHAPES, st.integers(-9, 9))
def test_a_dense_tensor_has_exactly_its_bytes(element_type: ElementType, shape: tuple[int, ...], off: int) -> None:
    expected = expected_bytes(element_type, shape)
    given_bytes = max(0, expected + off)
    message = content_refusal(Tensor(element_type, shape, bytes(given_bytes)))
    if given_bytes == expected:
        assert message is None
    else:
        written = f"{element_type.name}[{','.join(map(str, shape))}]"
        assert message == f"it has {given_bytes} bytes, expected {expected} for {written}"


@given(st.lists(st.binary(max_size=5), max_size=6), st.data())
def test_strings_fill_their_bytes_exactly(values: list[bytes], data: st.DataObject) -> None:
    packed = strings.pack(values)
    assert content_refusal(Tensor(BY_NAME["string"], (len(values),), packed)) is None
    end = data.draw(st.integers(0, len(packed)))
    if end < len(packed):
        cut = content_refusal(Tensor(BY_NAME["string"], (len(values),), memoryview(packed)[:end]))
        assert cut is not None
        assert cut.startswith(f"it is no string[{len(values)}]: string ")


@pytest.mark.parametrize(
    ("shape", "data", "message"),
    [
        ((), b"\1\0\0\0a", None),
        ((0, 5), b"", None),
        ((1,), b"\5\0\0\0ab", "it is no string[1]: string 0 of 1 has 2 bytes, expected 5"),
        ((2,), b"\0\0\0\0\0", "it is no string[2]: string 1 of 2 has 1 bytes of its length, expected 4"),
        ((0,), b"\0\0\0\0", "it is no string[0]: 4 bytes follow the last of 0 strings, expected none"),
        ((9**9, 9), b"", f"it is no string[{9**9},9]: string 0 of {9**10} has 0 bytes of its length, expected 4"),
    ],
)
def test_what_is_wrong_with_strings_is_named(shape: tuple[int, ...], data: bytes, message: str | None) -> None:
    assert content_refusal(Tensor(BY_NAME["string"], shape, data)) == message


@given(st.binary(max_size=12), st.booleans())
def test_a_boolean_is_zero_or_one(data: bytes, is_among_many: bool) -> None:
    data += bytes(10_000 if is_among_many else 0)
    message = content_refusal(Tensor(BY_NAME["boolean"], (len(data),), memoryview(data)))
    assert message == (None if set(data) <= {0, 1} else "it has a boolean that is neither 0 nor 1")


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("h", u8(2), None),
        ("c", Tensor(BY_NAME["string"], (1,), b"\1\0\0\0a"), None),
        ("h", u8(2)._replace(data=b""), "state 'h' of model 'm' has 0 bytes, expected 2 for u8[2]"),
        ("h", Tensor(BY_NAME["u8"], (-2, -1), b"ab"), "state 'h' of model 'm' has shape [-2,-1], expected dimensions"),
        ("h", Tensor(BY_NAME["u8"], (0, LONGEST), b""), "state 'h' of model 'm' has shape [0,"),
    ],
)
def test_states_are_checked_to_their_bytes(name: str, tensor: Tensor, message: str | None) -> None:
    model = replace(a_model(), states=("h", "c"))
    if message is None:
        model.check_states([(name, tensor)])
        return
    with pytest.raises(ServingError) as caught:
        model.check_states([("c", u8(1)), (name, tensor)])
    assert caught.value.code is Code.INVALID_INPUT
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), None),
        (("c", "h"), None),
        (("h", "x"), "model 'm' has no state 'x', expected one of 'h', 'c'"),
        (("h", "c", "h"), "state 'h' of model 'm' is named twice"),
    ],
)
def test_each_state_is_named_once(names: tuple[str, ...], message: str | None) -> None:
    model = replace(a_model(), states=("h", "c"))
    if message is None:
        model.check_state_names(names)
        return
    with pytest.raises(ServingError) as caught:
        model.check_state_names(names)
    assert (caught.value.code, caught.value.message) == (Code.INVALID_INPUT, message)


@given(st.sampled_from(SIZED), SHAPES.filter(lambda shape: 0 in shape))
def test_a_tensor_without_elements_has_no_bytes(element_type: ElementType, shape: tuple[int, ...]) -> None:
    assert content_refusal(Tensor(element_type, shape, b"")) is None
    assert content_refusal(Tensor(element_type, shape, b"\0")) is not None


@given(st.sampled_from(SIZED))
def test_a_scalar_has_one_elements_bytes(element_type: ElementType) -> None:
    assert content_refusal(Tensor(element_type, (), bytes(expected_bytes(element_type, (1,))))) is None
    assert content_refusal(Tensor(element_type, (), b"")) is not None
