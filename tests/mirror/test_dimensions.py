"""Dimensions, partial shapes and layouts, against openvino's own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "?"),
        ((3,), "3"),
        ((3, 4), "3..4"),
        ((-1,), "?"),
        ((3, -1), "3.."),
        ((0, 4), "..4"),
        ((4, 3), "?"),
        ((-2,), "0"),
        ((-3, 5), "..5"),
        ((5, 5), "5"),
        ((-1, -1), "?"),
        ((0, -1), "?"),
        (("3",), "3"),
        (("?",), "?"),
        (("-1",), "?"),
        (("1..3",), "1..3"),
        (("..3",), "..3"),
        (("3..",), "3.."),
        (("..",), "?"),
        (("3..1",), "?"),
        (("",), "0"),
        (("-2",), "0"),
        (("-10",), "0"),
        (("-0",), "0"),
        (("-1..3",), "..3"),
        (("-1..",), "?"),
        (("1..-1",), "?"),
        (("..-2",), "?"),
        ((True,), "1"),
        ((2**40,), "1099511627776"),
        (("9223372036854775806",), "9223372036854775806"),
        (("1..9223372036854775807",), "1.."),
        (("007",), "7"),
    ],
    ids=repr,
)
def test_dimension_text(ov: Any, arguments: tuple[Any, ...], text: str) -> None:
    dimension = ov.Dimension(*arguments)
    assert str(dimension) == dimension.to_string() == text
    assert repr(dimension) == f"<Dimension: {text}>"


def test_zeros_before_a_number_are_none_of_it(ov: Any) -> None:
    zeros = "0" * 5000
    assert ov.Dimension(f"{zeros}3") == ov.Dimension(3)
    assert ov.Shape(f"{zeros}3,{zeros}") == [3, 0]


def test_dimension_keywords(ov: Any) -> None:
    assert str(ov.Dimension(dimension=3)) == "3"
    assert str(ov.Dimension(min_dimension=1, max_dimension=2)) == "1..2"
    assert str(ov.Dimension(1, max_dimension=2)) == "1..2"
    assert str(ov.Dimension(str="1..2")) == "1..2"


@pytest.mark.parametrize(
    "keywords",
    [{"dimension": "1"}, {"str": 5}, {"min_dimension": 1}, {"max_dimension": 2}, {"dimension": 1, "max_dimension": 2}],
    ids=repr,
)
def test_dimension_refuses_keywords(ov: Any, keywords: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        ov.Dimension(**keywords)


@pytest.mark.parametrize("arguments", [(1.5,), (2**63,), (1, "a"), (1, 2, 3), ([],), (None,)], ids=repr)
def test_dimension_refuses(ov: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        ov.Dimension(*arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", 'Cannot parse dimension: "a"'),
        ("a..1", 'Cannot parse min bound: "a"'),
        ("1..a", 'Cannot parse max bound: "a"'),
        ("?..3", 'Cannot parse min bound: "\\?"'),
        ("-a", 'Cannot parse dimension: "-a"'),
    ],
)
def test_dimension_refuses_text(ov: Any, text: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        ov.Dimension(text)


def test_dimension_bounds(ov: Any) -> None:
    one_to_three, any_length = ov.Dimension(1, 3), ov.Dimension()
    assert (one_to_three.min_length, one_to_three.get_min_length()) == (1, 1)
    assert (one_to_three.max_length, one_to_three.get_max_length()) == (3, 3)
    assert (any_length.min_length, any_length.max_length) == (0, -1)
    assert (ov.Dimension(3).get_length(), len(ov.Dimension(3))) == (3, 3)
    assert ov.Dimension(3).is_static
    assert not ov.Dimension(3).is_dynamic
    assert ov.Dimension.dynamic().is_dynamic
    for dynamic in (one_to_three, any_length):
        with pytest.raises(RuntimeError, match="Cannot get length of dynamic dimension"):
            dynamic.get_length()
        with pytest.raises(RuntimeError, match="Cannot get length of dynamic dimension"):
            len(dynamic)


def test_dimension_relations(ov: Any) -> None:
    dimension = ov.Dimension
    assert dimension(3) == 3 == dimension(3)
    assert dimension() == -1
    assert dimension(3) != 4
    assert dimension(3) != "3"
    for large in (2**63, -(2**63), 2**64, np.uint64(2**63)):
        assert dimension() != large
        assert large not in [dimension(3), dimension()]
    assert dimension(1, 3) == dimension(1, 3)
    assert dimension(3).compatible(dimension())
    assert not dimension(1, 3).compatible(dimension(4))
    assert dimension(1, 3).refines(dimension())
    assert not dimension().refines(dimension(1, 3))
    assert not dimension(0, 3).refines(dimension(1, 3))
    assert not dimension(1, 4).refines(dimension(1, 3))
    assert dimension(1, 3).relaxes(dimension(2))
    assert not dimension(2).relaxes(dimension(1, 3))
    assert not dimension(2, 3).relaxes(dimension(1, 3))
    assert not dimension(1, 2).relaxes(dimension(1, 3))
    assert dimension(1, 3).same_scheme(dimension(1, 4))
    assert dimension(3).same_scheme(dimension(3))
    assert not dimension(3).same_scheme(dimension())
    with pytest.raises(TypeError, match="unhashable"):
        hash(dimension(3))
    with pytest.raises(TypeError, match=r"compatible\(\): incompatible function arguments"):
        dimension(1).compatible(2)


def test_symbol(ov: Any) -> None:
    dimension, symbol = ov.Dimension(3), ov.Symbol()
    assert (dimension.has_symbol(), dimension.get_symbol()) == (False, None)
    dimension.set_symbol(symbol)
    assert dimension.has_symbol()
    assert dimension.get_symbol() == symbol != ov.Symbol()
    assert dimension == ov.Dimension(3)
    assert ov.Symbol()
    with pytest.raises(TypeError, match=r"set_symbol\(\): incompatible function arguments"):
        dimension.set_symbol("N")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "[]"),
        ([1, -1], "[1,?]"),
        ((1, -1), "[1,?]"),
        ([(1, 3), [1, -1], "2..4", "?"], "[1..3,1..,2..4,?]"),
        ("1,2", "[1,2]"),
        ("[ 1 , 3 ]", "[1,3]"),
        ("1,2..3", "[1,2..3]"),
        ("...", "[...]"),
        ("[...]", "[...]"),
        ("", "[]"),
        ([True, -5], "[1,0]"),
    ],
    ids=repr,
)
def test_partial_shape_text(ov: Any, given: Any, text: str) -> None:
    shape = ov.PartialShape(given)
    assert str(shape) == shape.to_string() == text
    assert repr(shape) == f"<PartialShape: {text}>"
    assert [str(each) for each in (ov.PartialShape(shape), copy.copy(shape), copy.deepcopy(shape))] == [text] * 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([(1, 3, 4)], r"Two elements are expected in tuple\(lower, upper\) .* but 3 elements were given"),
        ([("a", "b")], "Incorrect pair of types .* for dynamic dimension, ints are expected"),
        ([1.5], "Incorrect type <class 'float'> for dimension. Expected types are: int, str,"),
        ([np.int64(3)], "Incorrect type <class 'numpy.int64'> for dimension"),
        (3, "incompatible constructor arguments"),
        (None, "incompatible constructor arguments"),
        (np.array([1]), "incompatible constructor arguments"),
    ],
    ids=repr,
)
def test_partial_shape_refuses(ov: Any, given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ov.PartialShape(given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,a", 'Cannot parse dimension: "a"'),
        ("[1,2", 'Cannot parse dimension: "\\[1"'),
        ("1,,2", 'Cannot get vector of dimensions! "1,,2" is incorrect'),
        ("1,...", 'Cannot parse max bound: "."'),
    ],
)
def test_partial_shape_refuses_text(ov: Any, text: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        ov.PartialShape(text)


def test_partial_shape_of_a_rank(ov: Any) -> None:
    dynamic = ov.PartialShape.dynamic
    texts = [str(dynamic(*rank)) for rank in ((), (3,), (ov.Dimension(2),), (ov.Dimension(),), (-1,))]
    assert texts == ["[...]", "[?,?,?]", "[?,?]", "[...]", "[...]"]
    assert str(dynamic(rank=ov.Dimension(1))) == "[?]"
    with pytest.raises(TypeError, match=r"dynamic\(\): incompatible function arguments"):
        dynamic("a")


def test_partial_shape_is_a_sequence(ov: Any) -> None:
    shape = ov.PartialShape([1, 2, 3])
    assert (len(shape), shape[0], shape[-1], shape.get_dimension(1)) == (3, 1, 3, 2)
    assert (str(shape[0:2]), str(shape[::2])) == ("[1,2]", "[1,3]")
    assert [str(each) for each in shape] == ["1", "2", "3"]
    shape[0], shape[1] = -1, ov.Dimension(1, 3)
    assert str(shape) == "[?,1..3,3]"
    for index in (3, 7):
        with pytest.raises(RuntimeError, match="Accessing out-of-range dimension"):
            shape[index]
    with pytest.raises(TypeError, match=r"get_dimension\(\): incompatible function arguments"):
        shape.get_dimension(-1)
    with pytest.raises(TypeError, match=r"__getitem__\(\): incompatible function arguments"):
        shape["a"]
    with pytest.raises(TypeError, match=r"__setitem__\(\): incompatible function arguments"):
        shape[-1] = 1
    with pytest.raises(TypeError, match=r"__setitem__\(\): incompatible function arguments"):
        shape[0] = "a"


def test_partial_shape_of_no_rank(ov: Any) -> None:
    shape = ov.PartialShape.dynamic()
    assert (shape.rank.is_dynamic, shape.is_dynamic, shape.all_non_negative) == (True, True, True)
    assert shape.get_max_shape() == shape.get_min_shape() == []
    for use in (len, list):
        with pytest.raises(RuntimeError, match=r"rank\(\).is_static\(\)"):
            use(shape)
    with pytest.raises(RuntimeError, match="Accessing out-of-range dimension"):
        shape[0]
    with pytest.raises(RuntimeError, match="Accessing out-of-range dimension"):
        shape[0] = 1
    with pytest.raises(TypeError, match=r"__setitem__\(\): incompatible function arguments"):
        shape["a"] = 1


def test_partial_shape_equality(ov: Any) -> None:
    shape = ov.PartialShape([1, 2])
    assert shape == [1, 2]
    assert shape == (1, 2)
    assert shape == ov.Shape([1, 2])
    assert shape == ov.PartialShape("1,2")
    assert shape != [1, -2]
    assert shape != "1,2"
    assert shape != ov.PartialShape([1, -1])
    assert ov.PartialShape([1, -1]) != ov.Shape([1, 2])
    assert ov.PartialShape([1, -1]) == ov.PartialShape([1, -1])
    assert ov.PartialShape.dynamic() == ov.PartialShape.dynamic() != ov.PartialShape([-1])
    with pytest.raises(TypeError, match="Cannot compare dynamic shape with <class 'list'>"):
        assert ov.PartialShape([1, -1]) == [1, -1]
    with pytest.raises(TypeError, match="unhashable"):
        hash(shape)


def test_a_shape_without_a_rank_has_no_dimensions_to_go_over(ov: Any) -> None:
    shape = ov.PartialShape.dynamic()
    assert [each for each in shape] == []  # noqa: C416 - a list asks for the length as well
    assert ov.Dimension(3) not in shape
    with pytest.raises(RuntimeError, match=r"rank\(\).is_static\(\)"):
        list(shape)


def test_partial_shape_as_shape(ov: Any) -> None:
    shape = ov.PartialShape([1, (1, 3)])
    assert (shape.get_min_shape(), shape.get_max_shape(), shape.rank) == ([1, 1], [1, 3], 2)
    assert ov.PartialShape([-1]).get_max_shape() == [2**63 - 1]
    assert (shape.is_static, shape.is_dynamic) == (False, True)
    static = ov.PartialShape([1, 2])
    assert (static.is_static, static.to_shape(), static.get_shape()) == (True, [1, 2], [1, 2])
    for dynamic in (shape, ov.PartialShape.dynamic()):
        with pytest.raises(RuntimeError, match=r"to_shape was called on a dynamic shape."):
            dynamic.to_shape()
        with pytest.raises(RuntimeError, match=r"get_shape\(\) must be called on a static shape"):
            dynamic.get_shape()


def test_partial_shape_relations(ov: Any) -> None:
    shape, dynamic = ov.PartialShape, ov.PartialShape.dynamic()
    assert shape([1, -1]).compatible(shape([1, 3]))
    assert not shape([1, -1]).compatible(shape([2, 3]))
    assert not shape([1]).compatible(shape([1, 3]))
    assert shape([1, -1]).compatible(dynamic)
    assert shape([1, (1, 3)]).refines(shape([1, -1]))
    assert shape([1, -1]).refines(dynamic)
    assert not dynamic.refines(shape([1]))
    assert dynamic.refines(dynamic)
    assert dynamic.relaxes(shape([1, 2]))
    assert not shape([1]).relaxes(shape([1, 2]))
    assert shape([1, -1]).same_scheme(shape([1, -1]))
    assert not shape([1, -1]).same_scheme(shape([1, 3]))
    assert dynamic.same_scheme(dynamic)
    assert not dynamic.same_scheme(shape([1]))
    with pytest.raises(TypeError, match=r"compatible\(\): incompatible function arguments"):
        shape([1]).compatible([1])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("NCHW", "[N,C,H,W]"),
        ("nchw", "[N,C,H,W]"),
        ("N...C", "[N,...,C]"),
        ("[n,channels,H]", "[N,C,H]"),
        ("[height,width,depth,batch]", "[H,W,D,N]"),
        ("BCHW", "[N,C,H,W]"),
        ("[...,b]", "[...,N]"),
        ("N?C...", "[N,?,C,...]"),
        ("[N,?,C]", "[N,?,C]"),
        ("", "[...]"),
        ("...", "[...]"),
        ("[N,]", "[N]"),
        ("[batch_1,c]", "[BATCH_1,C]"),
        ("[ N , C ]", "[N,C]"),
        (" NC ", "[N,C]"),
        ("**SCALAR**", "**SCALAR**"),
        ("??", "[?,?]"),
    ],
)
def test_layout_text(ov: Any, given: str, text: str) -> None:
    layout = ov.Layout(given)
    assert str(layout) == layout.to_string() == text
    assert repr(layout) == f"<Layout: {text}>"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("NN", r"Dimension \(N\) is defined multiple times in layout"),
        ("NB", r"Dimension \(N\) is defined multiple times in layout"),
        ("[batch,n]", r"Dimension \(N\) is defined multiple times in layout"),
        ("N...C...", "Multiple ... are not allowed"),
        ("[]", "Cannot parse ov::Layout from an empty string"),
        ("N,C", r"Layout name is invalid \(,\). Only english letters, digits and _ is allowed"),
        ("N..C", "Undefined number of dimensions shall have ..."),
        ("[N,,C]", "Layout dimension name can't be empty"),
        ("[...,N,...]", r"Layout name is invalid \(...\)"),
        ("N_", r"Layout name is invalid \(_\). Name shall have alphanumeric characters"),
    ],
)
def test_layout_refuses(ov: Any, given: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        ov.Layout(given)


def test_layout(ov: Any) -> None:
    layout = ov.Layout("NCHW")
    assert layout == "NCHW"
    assert layout == "[N,C,H,W]"
    assert layout == ov.Layout("nchw")
    assert layout != "NHWC"
    assert layout != 3
    assert (ov.Layout() == ov.Layout("..."), ov.Layout().empty, layout.empty) == (True, True, False)
    assert (str(ov.Layout.scalar()), ov.Layout.scalar().empty) == ("**SCALAR**", False)
    assert (layout.has_name("c"), layout.has_name("height"), layout.has_name("X")) == (True, True, False)
    assert [layout.get_index_by_name(name) for name in ("N", "c", "width")] == [0, 1, 3]
    assert [layout.get_index_by_name(name) for name in ("B", "batch")] == [0, 0]
    assert [ov.Layout("...NC").get_index_by_name(name) for name in "NC"] == [-2, -1]
    assert [ov.Layout("N...C").get_index_by_name(name) for name in "NC"] == [0, -1]
    with pytest.raises(RuntimeError, match="X dimension index is not defined"):
        layout.get_index_by_name("X")
    with pytest.raises(RuntimeError, match="batch dimension index is not defined"):
        ov.Layout("CHW").get_index_by_name("batch")
    with pytest.raises(TypeError, match="incompatible"):
        layout.get_index_by_name(3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(layout)
    for given in (3, None):
        with pytest.raises(TypeError, match=r"__init__\(\): incompatible constructor arguments"):
            ov.Layout(given)
