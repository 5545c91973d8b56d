"""Encoded pictures: what is decoded to which pixels, and what is refused before it costs memory or time."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.engine.conftest import run_to_end

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import Pictures
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.core.states import ReadStates
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, count_of
from inferwire_server.engine.picture_models import READ_TOGETHER, PictureModel, PictureSlot
from inferwire_server.engine.slot_runs import SlotRun
from inferwire_server.errors import ServingError

ANY = Dimension(0, None)
RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def fixed(length: int) -> Dimension:
    return Dimension(length, length)


def model(height: int | None, width: int | None, pictures: Pictures, channels: int = 3) -> PictureModel:
    """A model that answers with the pixels it gets."""
    dimensions = [ANY if length is None else fixed(length) for length in (height, width)]
    shape = (ANY, *dimensions, fixed(channels))
    ports = [PortSpec(frozenset({name}), name, BY_NAME["u8"], shape, name, "") for name in ("x", "y")]
    return PictureModel(FakeModel(ModelSpec("m", (ports[0],), (ports[1],), ("count",))), {"x": pictures})


def pixels_of(slot: PictureSlot, *files: bytes) -> np.ndarray[Any, Any]:
    (answer,) = slot.run([batch(*files)], [0])
    return np.frombuffer(answer.data, np.uint8).reshape(answer.shape)


def batch(*files: bytes) -> Tensor:
    return Tensor(BY_NAME["string"], (len(files),), strings.pack(files))


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def picture(size: tuple[int, int] = (4, 2), mode: str = "RGB", color: Any = RED) -> Image.Image:
    return Image.new(mode, size, color)


def refusal(slot: PictureSlot, *files: bytes) -> ServingError:
    with pytest.raises(ServingError) as refused:
        slot.run([batch(*files)], [0])
    return refused.value


@pytest.fixture
def slot() -> PictureSlot:
    """Takes pictures of any size and gives their pixels back."""
    return model(None, None, Pictures()).create_slot()


# --- what a picture becomes


def test_the_input_is_one_of_strings_and_all_else_is_the_models() -> None:
    pictures = model(2, 4, Pictures("nearest"))
    (port,) = pictures.spec.inputs
    assert (port.oip_name, port.element_type.name, port.shape) == ("x", "string", (ANY,))
    assert pictures.spec.outputs[0].element_type.name == "u8"
    assert (pictures.devices, pictures.optimal_slots, pictures.properties) == (("CPU",), 2, {})


def test_the_only_input_needs_no_name() -> None:
    shape = (ANY, fixed(2), fixed(4), fixed(3))
    x, y, z = (PortSpec(frozenset({name}), name, BY_NAME["u8"], shape, name, "") for name in ("x", "y", "z"))
    pictures = PictureModel(FakeModel(ModelSpec("m", (x,), (z,))), {"": Pictures()})
    assert pixels_of(pictures.create_slot(), encoded(picture())).shape == (1, 2, 4, 3)
    with pytest.raises(ServingError, match="for the only input of a model, expected one of 'x', 'y' to be named"):
        PictureModel(FakeModel(ModelSpec("m", (x, y), (z,))), {"": Pictures()})


def test_png_pixels_come_as_they_are(slot: PictureSlot) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (3, 5, 3), np.uint8)
    np.testing.assert_array_equal(pixels_of(slot, encoded(Image.fromarray(pixels))), pixels[None])


def test_jpeg_pixels_are_those_of_the_decoder(slot: PictureSlot) -> None:
    file = encoded(picture((16, 8), color=BLUE), "JPEG")
    np.testing.assert_array_equal(pixels_of(slot, file)[0], np.asarray(Image.open(BytesIO(file))))


def test_no_picture_is_a_batch_of_none(slot: PictureSlot) -> None:
    assert pixels_of(model(2, 4, Pictures()).create_slot()).shape == (0, 2, 4, 3)
    assert pixels_of(slot).shape == (0, 0, 0, 3)


def turned() -> bytes:
    """A red and a blue half, beside each other once the camera's orientation is heeded."""
    image = picture((2, 4), color=RED)
    ImageDraw.Draw(image).rectangle((0, 2, 1, 3), fill=BLUE)
    exif = Image.Exif()
    exif[0x0112] = 8  # to be turned by 90 degrees, counterclockwise
    return encoded(image, exif=exif.tobytes())


def palette_with_transparency() -> bytes:
    image = picture(mode="P", color=1)
    image.putpalette([*BLUE, *RED])
    return encoded(image, transparency=bytes([0, 128]))


def sixteen_bits() -> bytes:
    return encoded(Image.fromarray(np.full((2, 4), 0x8123, np.uint16)))


FILES: Mapping[str, tuple[bytes, Sequence[int]]] = {
    "alpha is left out": (encoded(picture(mode="RGBA", color=(*RED, 7))), RED),
    "a palette is looked up": (palette_with_transparency(), RED),
    "grey is spread": (encoded(picture(mode="L", color=77)), (77, 77, 77)),
    "grey and alpha": (encoded(picture(mode="LA", color=(77, 0))), (77, 77, 77)),
    "one bit": (encoded(picture(mode="1", color=1)), (255, 255, 255)),
    "16 bits keep the upper 8": (sixteen_bits(), (0x81, 0x81, 0x81)),
}


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_png_becomes_rgb(slot: PictureSlot, name: str) -> None:
    file, color = FILES[name]
    assert (pixels_of(slot, file) == np.array(color, np.uint8)).all()
    assert pixels_of(slot, file).shape == (1, 2, 4, 3)


@pytest.mark.parametrize(("mode", "color"), [("CMYK", (0, 255, 255, 0)), ("L", 77), ("YCbCr", (76, 85, 255))])
def test_every_kind_of_jpeg_becomes_rgb(slot: PictureSlot, mode: str, color: Any) -> None:
    expected = (77, 77, 77) if mode == "L" else RED
    got = pixels_of(slot, encoded(picture(mode=mode, color=color), "JPEG", quality=100)).astype(int)
    np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape), atol=4)


def test_a_picture_is_turned_as_its_camera_was(slot: PictureSlot) -> None:
    pixels = pixels_of(slot, turned())[0]
    assert pixels.shape == (2, 4, 3)
    assert (pixels[:, :2] == RED).all()
    assert (pixels[:, 2:] == BLUE).all()


@pytest.mark.parametrize(
    ("name", "resampling"),
    [
        ("nearest", Image.Resampling.NEAREST),
        ("bilinear_pillow", Image.Resampling.BILINEAR),
        ("bicubic_pillow", Image.Resampling.BICUBIC),
    ],
)
def test_pictures_of_any_sizes_are_resized_into_one_batch(name: str, resampling: Image.Resampling) -> None:
    images = [
        Image.fromarray(np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)) for size in ((5, 7), (2, 1))
    ]
    got = pixels_of(model(4, 3, Pictures(name)).create_slot(), *map(encoded, images))
    for pixels, image in zip(got, images, strict=True):
        np.testing.assert_array_equal(pixels, np.asarray(image.resize((3, 4), resampling)))


# --- what is refused


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (b"", "is no JPEG or PNG file"),
        (b"not a picture", "is no JPEG or PNG file"),
        (encoded(picture(), "GIF"), "is no JPEG or PNG file"),
        (encoded(picture(), "BMP"), "is no JPEG or PNG file"),
        (encoded(picture((64, 64)))[:60], "cannot be decoded: "),
        (encoded(picture((64, 64)), "JPEG")[:-200], "cannot be decoded: "),
        (encoded(picture()).replace(b"IDAT", b"IDOT"), "is no JPEG or PNG file"),
    ],
    ids=["empty", "text", "gif", "bmp", "cut off PNG", "cut off JPEG", "PNG without data"],
)
def test_what_is_no_whole_picture_is_the_callers_mistake(slot: PictureSlot, file: bytes, reason: str) -> None:
    error = refusal(slot, encoded(picture()), file)
    assert error.code is Code.INVALID_INPUT
    assert error.message.startswith(f"picture 1 of input 'x' of model 'm' {reason}")


def test_strings_that_are_none_are_the_callers_mistake(slot: PictureSlot) -> None:
    with pytest.raises(
        ServingError, match=r"input 'x' of model 'm' is no string\[2\]: string 1 of 2 has 0 bytes"
    ) as caught:
        slot.run([batch(encoded(picture()))._replace(shape=(2,))], [0])
    assert caught.value.code is Code.INVALID_INPUT


def test_what_comes_behind_a_broken_picture_is_not_looked_at(slot: PictureSlot) -> None:
    with pytest.raises(ServingError, match="picture 0 of"):
        slot.run([batch(b"broken")._replace(shape=(2**40,))], [0])


def bomb(width: int, height: int) -> bytes:
    """A PNG that says it is huge, with no pixels in it: decoding it would fail otherwise."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return len(content).to_bytes(4) + kind + content + zlib.crc32(kind + content).to_bytes(4)

    header = width.to_bytes(4) + height.to_bytes(4) + bytes([8, 2, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [10_000, 50_000])
def test_a_bomb_is_refused_by_what_it_says_before_it_is_decoded(slot: PictureSlot, side: int) -> None:
    error = refusal(slot, bomb(side, side))
    assert error.code is Code.TOO_LARGE
    assert error.message == (
        f"picture 0 of input 'x' of model 'm' has {side} x {side} pixels, expected at most 50000000"
    )


SCAN = b"\xff\xda"
"""How a part of a JPEG file begins that the decoder goes through all pixels for."""


def with_scans(scans: int, comment: bytes = b"") -> bytes:
    """A JPEG that has its last scan again and again, until it has so many."""
    file = encoded(picture((64, 64)), "JPEG", progressive=True, comment=comment)
    last, end = file[file.rindex(SCAN) : -2], file[-2:]
    return file[:-2] + last * (scans - file.replace(comment, b"").count(SCAN)) + end


def test_a_jpeg_has_only_so_many_scans(slot: PictureSlot) -> None:
    assert pixels_of(slot, with_scans(50)).shape == (1, 64, 64, 3)
    error = refusal(slot, with_scans(51))
    assert error.code is Code.INVALID_INPUT
    assert error.message == "picture 0 of input 'x' of model 'm' has 51 scans, expected at most 50"


@pytest.mark.parametrize(
    "file",
    [
        with_scans(50, comment=SCAN * 100),
        with_scans(50) + SCAN * 100,
        encoded(Image.frombytes("RGB", (100, 2), SCAN * 300), compress_level=0),
    ],
    ids=["in a comment", "behind the picture", "in the pixels of a PNG"],
)
def test_what_only_looks_like_a_scan_is_none(slot: PictureSlot, file: bytes) -> None:
    assert file.count(SCAN) > 50
    assert len(pixels_of(slot, file)) == 1


def test_scans_do_not_hide_behind_what_has_no_length(slot: PictureSlot) -> None:
    file = with_scans(51)
    last = file.rindex(SCAN)
    hidden = file[:last] + b"\xff\xd0\xff\x01\xff" + file[last:]
    assert "has 51 scans" in refusal(slot, hidden).message


def test_a_picture_may_have_as_many_pixels_as_the_setting_says() -> None:
    slot = model(None, None, Pictures(max_pixels=8)).create_slot()
    assert pixels_of(slot, encoded(picture((4, 2)))).shape == (1, 2, 4, 3)
    assert refusal(slot, encoded(picture((3, 3)))).code is Code.TOO_LARGE


def test_the_pixels_that_many_small_files_become_are_limited_too() -> None:
    slot = model(4, 4, Pictures("nearest", max_pixels=32)).create_slot()
    dot = encoded(picture((1, 1)))
    assert len(pixels_of(slot, dot, dot)) == 2
    error = refusal(slot, dot, dot, dot)
    assert error.code is Code.TOO_LARGE
    assert error.message == (
        "the first 3 pictures of input 'x' of model 'm' have 48 pixels together as the model takes them, "
        "expected at most 32; send fewer in one call, or set a larger max_pixels in its inferwire.toml"
    )


def test_the_pixels_of_many_large_files_are_limited_too() -> None:
    slot = model(1, 1, Pictures("nearest", max_pixels=100)).create_slot()
    large = encoded(picture((10, 10)))
    assert len(pixels_of(slot, *[large] * READ_TOGETHER)) == READ_TOGETHER
    error = refusal(slot, *[large] * (READ_TOGETHER + 1))
    assert error.code is Code.TOO_LARGE
    assert "the first 65 pictures of input 'x' of model 'm' have 6500 pixels together in their files, " in error.message
    assert "expected at most 6400; " in error.message


def test_one_picture_always_fits_where_it_is_made_larger_than_its_file_may_be() -> None:
    assert pixels_of(model(4, 4, Pictures("nearest", max_pixels=1)).create_slot(), encoded(picture((1, 1)))).any()


def test_a_size_that_the_model_does_not_take_is_refused() -> None:
    error = refusal(model(2, 5, Pictures()).create_slot(), encoded(picture((4, 2))))
    assert error.code is Code.INVALID_INPUT
    assert error.message == "picture 0 of input 'x' of model 'm' has 4 x 2 pixels, expected 5 x 2"


def test_pictures_that_nobody_resizes_are_of_one_size(slot: PictureSlot) -> None:
    error = refusal(slot, encoded(picture((4, 2))), encoded(picture((4, 3))))
    assert error.message == "picture 1 of input 'x' of model 'm' has 4 x 3 pixels, expected 4 x 2 as the one before"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: model(None, 4, Pictures("nearest")), "it takes shapes [?,?,4,3], expected one height and width to"),
        (lambda: model(4, 4, Pictures(), channels=1), "it takes shapes [?,4,4,1], expected batch, height, width and 3"),
    ],
)
def test_an_input_that_cannot_take_pictures_fails_the_model(make: Any, reason: str) -> None:
    with pytest.raises(ServingError) as refused:
        make()
    assert refused.value.code is Code.MODEL_FAILED
    assert refused.value.message.startswith(
        f"preprocessing: input 'x' of model 'm' cannot take encoded pictures: {reason}"
    )


# --- beside other jobs


def job(*files: bytes) -> Job:
    return Job("m", Work((batch(*files),), (0,)), 0.0)


def test_pictures_of_several_callers_run_together_and_a_broken_one_fails_alone() -> None:
    slot = model(2, 4, Pictures("nearest")).create_slot()
    red, broken, green = job(encoded(picture())), job(b"nothing"), job(encoded(picture(color=GREEN)))
    assert len({Batching(4).group(each.work) for each in (red, broken, green)}) == 1
    first, second, third = run_to_end(SlotRun(slot, (red, broken, green)))
    assert isinstance(second, ServingError)
    assert second.code is Code.INVALID_INPUT
    assert isinstance(first, tuple)
    assert isinstance(third, tuple)
    assert bytes(first[0].data) == bytes(RED) * 8
    assert bytes(third[0].data) == bytes(GREEN) * 8


def test_a_cancelled_job_decodes_no_further_picture() -> None:
    pictures = model(2, 4, Pictures("nearest"))
    decoded: list[None] = []
    slot = pictures.create_slot()

    def check() -> None:
        decoded.append(None)
        if len(decoded) == 2:
            slot.cancel()
            slot.check_is_wanted()

    with pytest.raises(ServingError) as ended:
        pictures.decoders[0].decode(batch(encoded(picture()), b"is not looked at"), check)
    assert ended.value.code is Code.CANCELLED


def test_a_caller_with_states_has_a_slot_that_decodes_too() -> None:
    pictures = model(2, 4, Pictures())
    slots = pictures.over([])
    bound = slots[0]
    (answer,) = bound.run([batch(encoded(picture()))], [0])
    assert bytes(answer.data) == bytes(RED) * 8
    (count,) = bound.access(ReadStates())
    assert count_of(count) == 1


def test_a_cancel_of_an_earlier_job_is_forgotten(slot: PictureSlot) -> None:
    slot.cancel()
    assert pixels_of(slot, encoded(picture())).any()
