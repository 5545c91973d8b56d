"""How what a person gives becomes the array that an input takes, and outputs become words."""

from __future__ import annotations

import json
import os
import struct
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from PIL import Image

import inferwire as ov
from inferwire.graph.described import PortDescription
from inferwire_cli.bench.ways import wire_bytes
from inferwire_cli.infer.answers import Answer, as_document, guesses, numbers_of, probabilities, summary
from inferwire_cli.infer.elements import as_input
from inferwire_cli.infer.pictures import PixelOptions, form_of
from inferwire_cli.infer.show import read_labels, save
from inferwire_cli.infer.values import assign, notes, pixel_notes, read_value
from inferwire_cli.terminal import CommandError, MisuseError
from inferwire_proto import strings

PLAIN = PixelOptions()


def port(name: str, element_type: ov.Type, shape: Any) -> PortDescription:
    return PortDescription(frozenset({name}), element_type, ov.PartialShape(shape), name, "Parameter", name)


@pytest.fixture
def red(tmp_path: Path) -> Path:
    """A red picture, twice as wide as high."""
    path = tmp_path / "red.png"
    Image.new("RGB", (8, 4), (200, 100, 50)).save(path)
    return path


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ([1, 3, 6, 5], (1, 3, 6, 5)),
        ([-1, 6, 5, 3], (1, 6, 5, 3)),
        ([3, 6, 5], (3, 6, 5)),
        ([6, 5, 1], (6, 5, 1)),
        ([-1, 3, -1, -1], (1, 3, 4, 8)),
        ([1, -1, -1, 3], (1, 4, 8, 3)),
    ],
)
def test_a_picture_takes_the_inputs_size_and_order(red: Path, shape: list[int], expected: tuple[int, ...]) -> None:
    pixels = read_value(str(red), port("x", ov.Type.u8, shape), PLAIN)
    assert (pixels.shape, pixels.dtype) == (expected, np.uint8)


def test_pixels_are_shifted_and_scaled_and_may_come_blue_first(red: Path) -> None:
    takes = port("x", ov.Type.f32, [1, 3, 2, 2])
    np.testing.assert_array_equal(read_value(str(red), takes, PLAIN)[0, :, 0, 0], [200, 100, 50])
    options = PixelOptions("100,50,0", "10", is_bgr=True)
    np.testing.assert_allclose(read_value(str(red), takes, options)[0, :, 0, 0], [5, 5, 10])


def test_whole_numbers_have_no_mean(red: Path) -> None:
    with pytest.raises(MisuseError, match="takes u8, expected a type of floating-point numbers"):
        read_value(str(red), port("x", ov.Type.u8, [1, 3, 2, 2]), PixelOptions(mean="1"))


def test_one_channel_has_one_mean(red: Path) -> None:
    takes = port("x", ov.Type.f32, [1, 1, 2, 2])
    assert read_value(str(red), takes, PixelOptions(mean="1", scale="2")).shape == (1, 1, 2, 2)
    with pytest.raises(MisuseError, match="--mean is '1,2,3', expected a number for the one channel"):
        read_value(str(red), takes, PixelOptions(mean="1,2,3"))


def encoded(picture: Image.Image, form: str) -> bytes:
    file = BytesIO()
    picture.save(file, form)
    return file.getvalue()


def broken_amid_its_pixels() -> bytes:
    """A PNG whose second part of pixels has a name that is none."""
    png = encoded(Image.frombytes("RGB", (32, 32), bytes(range(256)) * 12), "PNG")
    begin = png.index(b"IDAT") + 4
    first = png[begin - 4 : begin + 50]
    checksum = struct.pack(">I", crc32(first))
    return png[: begin - 8] + struct.pack(">I", 50) + first + checksum + b"\0\0\0\0\xffDAT\0\0\0\0"


def with_more_pixels_than_can_be_meant() -> bytes:
    bmp = encoded(Image.new("RGB", (4, 4)), "BMP")
    return bmp[:18] + struct.pack("<ii", 50000, 50000) + bmp[26:]


@pytest.mark.parametrize("content", [broken_amid_its_pixels(), with_more_pixels_than_can_be_meant(), b""])
def test_a_picture_that_is_broken_in_any_way_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(CommandError, match=f"^picture {tmp_path / 'a.png'} cannot be read: "):
        read_value(str(tmp_path / "a.png"), port("x", ov.Type.u8, [1, 3, 2, 2]), PLAIN)


@pytest.mark.parametrize("shape", [[1, 2, 3, 4], [1, 64], "[...]", [-1, -1, -1, -1]])
def test_an_input_that_takes_no_pictures_says_so(shape: Any) -> None:
    with pytest.raises(CommandError, match=r"expected \[N,C,H,W\] or \[N,H,W,C\]"):
        form_of(port("x", ov.Type.f32, shape))


def test_text_is_text_and_a_file_its_bytes(tmp_path: Path) -> None:
    takes = port("x", ov.Type.string, [-1])
    (tmp_path / "note.txt").write_bytes(b"a note")
    assert read_value("hello there", takes, PLAIN).tolist() == ["hello there"]
    assert read_value('["a", "b"]', takes, PLAIN).tolist() == ["a", "b"]
    assert read_value(str(tmp_path / "note.txt"), takes, PLAIN).tolist() == [b"a note"]


@pytest.mark.parametrize("text", ["42", "true", "null", '{"a": 1}', "[1] says", "- a point"])
def test_a_text_may_look_like_a_number_or_an_object(text: str) -> None:
    assert read_value(text, port("x", ov.Type.string, [-1]), PLAIN).tolist() == [text]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 2]", "input 'x' has 1 at position 0, expected a text"),
        ('[["a"], [null]]', "input 'x' has None at position 1, expected a text"),
    ],
)
def test_among_texts_there_is_nothing_else(text: str, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        read_value(text, port("x", ov.Type.string, "[...]"), PLAIN)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(("path", "what"), [("/", "a folder"), ("/dev/zero", "a pipe or a device")])
def test_a_folder_or_a_device_is_no_input(path: str, what: str) -> None:
    with pytest.raises(CommandError, match=f"is {path}, {what}, expected a file or JSON"):
        read_value(path, port("x", ov.Type.f32, [1]), PLAIN)


def test_packed_elements_are_left_to_programs() -> None:
    with pytest.raises(CommandError, match="input 'x' takes u4, elements that share bytes: only programs"):
        read_value("[1, 2]", port("x", ov.Type.u4, [2]), PLAIN)


@pytest.mark.parametrize("text", ["word " * 60 + "and/or more", "a" * 5000, "/".join(["part"] * 2000)])
def test_a_text_may_be_too_long_for_a_path(text: str) -> None:
    assert read_value(text, port("x", ov.Type.string, []), PLAIN).tolist() == text
    with pytest.raises(CommandError, match="expected a file that exists, or JSON"):
        read_value(text, port("x", ov.Type.f32, [1]), PLAIN)
    with pytest.raises(MisuseError, match="names no input"):
        assign([f"other={text}"], [port("x", ov.Type.f32, [1])])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json_files_may_come_from_windows(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "row.json").write_text("[1, 2]", encoding)
    assert read_value(str(tmp_path / "row.json"), port("x", ov.Type.f32, [2]), PLAIN).tolist() == [1.0, 2.0]


SAVED = BytesIO()
np.save(SAVED, np.zeros(4))
ARCHIVED = BytesIO()
np.savez(ARCHIVED, np.zeros(4))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("row.npy", b"", "cannot be read as an array: EOF: reading magic string, expected 8 bytes got 0; expected one"),
        ("row.npy", SAVED.getvalue()[:40], "cannot be read as an array: EOF: reading array header"),
        ("row.npy", SAVED.getvalue()[:-8], "cannot be read as an array: "),
        ("row.npy", ARCHIVED.getvalue(), "cannot be read as an array: the magic string is not correct"),
        ("row.npy", ARCHIVED.getvalue()[:40], "cannot be read as an array: the magic string is not correct"),
        ("row.json", b"", "cannot be read as JSON: Expecting value: line 1 column 1 (char 0); expected values"),
        ("row.json", b"[1, 2,", "cannot be read as JSON: Expecting value: line 1 column 7 (char 6); expected values"),
        ("row.json", b"[1, \xff]", "cannot be read as JSON: 'utf-8' codec can't decode byte 0xff in position 4"),
    ],
)
def test_a_file_that_does_not_hold_what_it_should_is_named(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CommandError) as refused:
        read_value(str(tmp_path / name), port("x", ov.Type.f32, [4]), PLAIN)
    assert str(refused.value).startswith(f"{tmp_path / name} {said}")


@pytest.mark.parametrize(
    ("name", "element_type", "said"),
    [
        ("row.npy", ov.Type.f32, "cannot be read as an array: Input/output error; expected one as numpy.save"),
        ("row.json", ov.Type.f32, "cannot be read as JSON: Input/output error; expected values or lists"),
        ("sound.wav", ov.Type.string, "cannot be read: Input/output error"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, element_type: ov.Type, said: str) -> None:
    # The memory at 0 is nobody's: whoever runs this, that file cannot be read.
    (tmp_path / name).symlink_to("/proc/self/mem")
    with pytest.raises(CommandError) as refused:
        read_value(str(tmp_path / name), port("x", element_type, [1]), PLAIN)
    assert str(refused.value).startswith(f"{tmp_path / name} {said}")


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ((1, 600_000_000), "has 2,288 MiB as f32, expected at most 2,047, the most that any server takes"),
        ((0, 2**70), "MiB as f32, expected at most 2,047, the most that any server takes"),
        ((2, 3, 4), r"input 'x' has shape \[2,3,4\], expected \[\?,\?\]"),
    ],
)
def test_an_array_that_the_input_does_not_take_is_refused_by_its_header(
    tmp_path: Path, lengths: tuple[int, ...], said: str
) -> None:
    with (tmp_path / "array.npy").open("wb") as file:
        np.lib.format.write_array_header_2_0(file, {"descr": "<f8", "fortran_order": False, "shape": lengths})
    with pytest.raises(CommandError, match=said):
        read_value(str(tmp_path / "array.npy"), port("x", ov.Type.f32, [-1, -1]), PLAIN)


@pytest.mark.parametrize(
    ("name", "element_type", "said"),
    [
        ("row.json", ov.Type.f32, "cannot be read as JSON: it has 10,240 MiB, expected at most 256; expected values"),
        ("sound.wav", ov.Type.string, "cannot be read: it has 10,240 MiB, expected at most 2,047"),
    ],
)
@pytest.mark.usefixtures("little_memory")
def test_a_file_that_no_server_would_take_is_not_read(
    tmp_path: Path, name: str, element_type: ov.Type, said: str
) -> None:
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, 10 << 30)
    with pytest.raises(CommandError) as refused:
        read_value(str(tmp_path / name), port("x", element_type, [1]), PLAIN)
    assert str(refused.value).startswith(f"{tmp_path / name} {said}")


@pytest.mark.parametrize(("shape", "expected"), [([], ()), ([-1], (1,))])
def test_zeros_at_the_end_of_a_file_are_sent(tmp_path: Path, shape: list[int], expected: tuple[int, ...]) -> None:
    content = b"RIFF\x01\0\0"
    (tmp_path / "sound.wav").write_bytes(content)
    array = read_value(str(tmp_path / "sound.wav"), port("x", ov.Type.string, shape), PLAIN)
    given = as_input(array)
    assert isinstance(given, ov.Tensor)
    assert (tuple(given.shape), bytes(given.memory.wire_data())) == (expected, strings.pack([content]))
    assert wire_bytes(array) == strings.pack([content])


def test_numbers_take_the_inputs_type_unless_they_would_lose_something() -> None:
    assert read_value("[1, 2]", port("x", ov.Type.f16, [2]), PLAIN).dtype == np.float16
    assert read_value("7", port("x", ov.Type.i64, []), PLAIN).shape == ()
    with pytest.raises(CommandError, match="input 'x' is of float64, expected i32"):
        read_value("[1.5]", port("x", ov.Type.i32, [1]), PLAIN)


@pytest.mark.parametrize(
    ("text", "element_type", "expected"),
    [
        ("[1, 255]", ov.Type.u8, [1, 255]),
        ("[-128, 127]", ov.Type.i8, [-128, 127]),
        ("[18446744073709551615]", ov.Type.u64, [2**64 - 1]),
        ("[1, 18446744073709551615]", ov.Type.u64, [1, 2**64 - 1]),
        ("[1180591620717411303424, 1]", ov.Type.f32, [2.0**70, 1]),
        ("[Infinity, 65504]", ov.Type.f16, [np.inf, 65504]),
        ("[true]", ov.Type.boolean, [True]),
    ],
)
def test_what_fits_is_taken(text: str, element_type: ov.Type, expected: list[float]) -> None:
    array = read_value(text, port("x", element_type, [-1]), PLAIN)
    assert (array.tolist(), array.dtype) == (expected, element_type.to_dtype())


@pytest.mark.parametrize(
    ("text", "element_type", "said"),
    [
        ("[1, 4294967297]", "i32", "has 4294967297 at position 1, expected an integer from -2147483648 to 2147483647"),
        ("[[-200]]", "i8", "has -200 at position 0, expected an integer from -128 to 127"),
        ("[-1]", "u8", "has -1 at position 0, expected an integer from 0 to 255"),
        ("[[1, 9223372036854775808]]", "i64", "has 9223372036854775808 at position 1, expected an integer from -"),
        ("[1180591620717411303424]", "u64", "has 1180591620717411303424 at position 0, expected an integer from 0 to"),
        ("[70000]", "f16", "has 70000 at position 0, expected a number that fits"),
        ("[1e39]", "f32", "has 1e+39 at position 0, expected a number that fits"),
        ("[1e39]", "bf16", "has 1e+39 at position 0, expected a number that fits"),
        ("[1e39]", "i8", "is of float64, expected i8"),
        (str(10**400), "f32", "at position 0, expected a number that fits f32"),
        ("[null]", "f32", "is of object, expected f32"),
        ('[["x", 2]]', "i64", "has a string at position 0, expected a number"),
        ('[1, "2"]', "f32", "has a string at position 1, expected a number"),
        ('["a", 2]', "string", "has 2 at position 1, expected a text"),
        ("[2]", "boolean", "is of int64, expected boolean"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, element_type: str, said: str) -> None:
    with pytest.raises(CommandError) as refused:
        read_value(text, port("x", getattr(ov.Type, element_type), [-1]), PLAIN)
    assert str(refused.value).startswith("input 'x' ")
    assert said in str(refused.value)


def test_pixels_that_do_not_fit_are_refused(red: Path) -> None:
    with pytest.raises(CommandError, match="input 'x' has 200 at position 0, expected an integer from -128 to 127"):
        read_value(str(red), port("x", ov.Type.i8, [1, 3, 2, 2]), PLAIN)


def test_bf16_travels_as_its_bits() -> None:
    numbers = [1.0, -2.5, 0.15625, 3.0e38]
    bits = read_value(json.dumps(numbers), port("x", ov.Type.bf16, [4]), PLAIN)
    assert (bits.dtype, bits.view(np.uint16)[0]) == (np.float16, 0x3F80)
    np.testing.assert_allclose(numbers_of(bits, ov.Type.bf16), numbers, rtol=2**-8)
    single = read_value("-2.5", port("x", ov.Type.bf16, []), PLAIN)
    assert (single.shape, single.dtype) == ((), np.float16)
    assert numbers_of(single, ov.Type.bf16).tolist() == -2.5


def test_bf16_is_rounded_as_openvino_does() -> None:
    bits = read_value("[1.00390625, 1.01171875, NaN, -Infinity]", port("x", ov.Type.bf16, [4]), PLAIN)
    np.testing.assert_array_equal(numbers_of(bits, ov.Type.bf16), [1.0, 1.015625, np.nan, -np.inf])


def test_json_tells_apart_what_it_has_no_number_for() -> None:
    output = port("y", ov.Type.f32, [3])
    document = as_document(Answer(output, np.array([np.inf, np.nan, -np.inf], np.float32)), (), 1)
    assert document == {"name": "y", "type": "f32", "shape": [3], "data": ["Infinity", "NaN", "-Infinity"]}
    document = as_document(Answer(output, np.array([1.0, np.inf, -np.inf], np.float32)), ("a", "b", "c"), 1)
    assert document["classes"] == [[{"label": "a", "index": 0, "probability": "NaN"}]]


def test_labels_may_come_from_windows(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_bytes("grün\r\nrot\r\n".encode("utf-8-sig"))
    assert read_labels(tmp_path / "labels.txt") == ("grün", "rot")


@pytest.mark.parametrize("name", ["file", "allow_pickle", "args", "kwds", "arr_0", "head/boxes:0", "/a.npy", "größe"])
def test_outputs_are_saved_whatever_they_are_called(tmp_path: Path, name: str) -> None:
    arrays = {name: np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::2], "other": np.array(7)}
    save(tmp_path / "out.npz", [Answer(port(each, ov.Type.f32, []), array) for each, array in arrays.items()])
    with np.load(tmp_path / "out.npz", allow_pickle=False) as saved:
        assert set(saved.files) == {name, "other"}
        for each, array in arrays.items():
            np.testing.assert_array_equal(saved[each], array)
            assert saved[each].dtype == array.dtype


def test_inputs_are_told_apart_by_name_and_one_needs_none() -> None:
    two = [port("a", ov.Type.f32, [1]), port("b", ov.Type.f32, [1])]
    assert assign(["b=2", "a=1"], two) == {1: "2", 0: "1"}
    assert assign(["c=1"], [port("a", ov.Type.string, [1])]) == {0: "c=1"}
    with pytest.raises(MisuseError, match=r"-i c=1 names no input, expected NAME=\.\.\. with one of 'a' f32\[1\]"):
        assign(["c=1"], two[:1])
    with pytest.raises(MisuseError, match=r"-i 1 names no input, expected NAME=\.\.\. with one of 'a' f32\[1\], 'b'"):
        assign(["1"], two)


def test_a_text_that_begins_as_if_an_input_were_named_is_noted(tmp_path: Path) -> None:
    note = "note: 'c=1' is sent as a text for input 'a'; there is no input 'c'"
    takes_text = [port("a", ov.Type.string, [1])]
    assert notes(["c=1"], takes_text) == [note]
    (tmp_path / "c=1").write_text("of a file")
    assert notes(["a=1", "a=c=1", "1", "c = 1", str(tmp_path / "c=1")], takes_text) == []
    assert notes(["c=1"], [port("a", ov.Type.f32, [1])]) == []
    assert notes(["c=1"], [*takes_text, port("b", ov.Type.string, [1])]) == []


@pytest.mark.parametrize("name", ["lost.png", "photos of 2026/lost.JPG", "lost.npy", "lost.json"])
def test_a_text_that_ends_as_files_do_is_noted_where_there_is_no_such_file(tmp_path: Path, name: str) -> None:
    takes_text = [port("a", ov.Type.string, [1])]
    note = f"note: '{name}' is sent as a text for input 'a'; there is no such file"
    assert notes([name], takes_text) == [note]
    assert notes([f"a={name}"], takes_text) == [note]
    (tmp_path / "lost.png").write_bytes(b"found")
    assert notes([str(tmp_path / "lost.png"), "a text.", "1.5", '["lost.png"]'], takes_text) == []
    assert notes([name], [port("a", ov.Type.f32, [1])]) == []


def test_what_is_probabilities_stays_and_the_rest_is_softmaxed() -> None:
    np.testing.assert_array_equal(probabilities(np.array([0.25, 0.75])), [0.25, 0.75])
    np.testing.assert_allclose(probabilities(np.array([1000.0, 1000.0])), [0.5, 0.5])


def test_the_best_come_first_and_only_of_what_counts_the_classes() -> None:
    output = port("y", ov.Type.f32, [1, 3])
    ((first, second),) = guesses(Answer(output, np.array([[0.1, 0.6, 0.3]])), ["a", "b", "c"], 2)
    assert (first.label, first.index, second.label) == ("b", 1, "c")
    assert guesses(Answer(output, np.zeros((1, 4))), ["a", "b", "c"], 2) == []
    assert guesses(Answer(output, np.array(["x", "y", "z"])), ["a", "b", "c"], 2) == []


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((0, 3)), ["no elements"]),
        (np.array([1.5, 2.0], np.float32), ["1.5 2"]),
        (np.array(["a", "b"]), ["'a' 'b'"]),
        (np.arange(9), ["min 0   max 8   mean 4", "0 1 2 3 4 5 6 7 ..."]),
        (np.array([np.inf, -np.inf] * 5), ["min -inf   max inf   mean nan", "inf -inf inf -inf inf -inf inf -inf ..."]),
        (np.array([True]), ["True"]),
    ],
)
def test_an_array_is_summed_up(array: Any, said: list[str]) -> None:
    assert list(summary(array)) == said


def test_what_would_be_done_to_pixels_is_noted_where_none_are_sent(red: Path, tmp_path: Path) -> None:
    takes, takes_files = port("a", ov.Type.f32, [1, 3, 2, 2]), port("b", ov.Type.string, [1])
    options = PixelOptions(mean="1", is_bgr=True)
    note = "note: without effect: --mean, --bgr; no input is a picture that is sent as pixels"
    assert pixel_notes([str(red)], [takes_files], options) == [note]
    assert pixel_notes([str(tmp_path / "a.npy")], [takes], options) == [note]
    assert pixel_notes([str(tmp_path / "lost.png")], [takes], options) == [note]
    assert pixel_notes([], [takes], PixelOptions(scale="2")) == [note.replace("--mean, --bgr", "--scale")]
    assert pixel_notes([f"b={red}", f"a={red}"], [takes, takes_files], options) == []
    assert pixel_notes([str(red)], [takes_files], PLAIN) == []
