"""`inferwire infer`: one inference from a terminal. Importing it needs cyclopts alone; `show` does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter, validators

from inferwire_cli.extras import needs_extra
from inferwire_cli.options import AddressOption, RootCertificatesOption, VersionOption
from inferwire_server.flags import WHOLE

PICTURES = Group("Pictures", sort_key=1)

InputOption = Annotated[
    tuple[str, ...],
    Parameter(
        name=["--input", "-i"],
        negative=(),
        show_default=False,
        allow_leading_hyphen=True,
        help="What goes in: a picture, a .npy or .json file, JSON, or a text where the model takes texts; NAME=... "
        "where it has several inputs. May be repeated.",
    ),
]
MeanOption = Annotated[
    str,
    Parameter(
        group=PICTURES,
        show_default=False,
        allow_leading_hyphen=True,
        help="Subtracted from pixels, which are 0 to 255: a number, or R,G,B.",
    ),
]
ScaleOption = Annotated[
    str, Parameter(group=PICTURES, show_default=False, help="Divides what is left of them: a number, or R,G,B.")
]
AnswerJsonOption = Annotated[
    bool,
    Parameter(
        name="--json",
        show_default=False,
        help='Print JSON, for programs. What JSON has no number for is the text "NaN", "Infinity" or "-Infinity".',
    ),
]
BgrOption = Annotated[bool, Parameter(group=PICTURES, show_default=False, help="Send channels as blue, green, red.")]


def infer(
    name: str,
    /,
    *,
    input: InputOption = (),  # noqa: A002 - it is the flag's name
    top: Annotated[int, WHOLE, Parameter(validator=validators.Number(gt=0), help="How many classes to print.")] = 5,
    labels: Annotated[
        Path | None,
        Parameter(help="A file with the classes' names, one a line; else those the server has."),
    ] = None,
    save: Annotated[Path | None, Parameter(help="Write the outputs to this .npz file too.")] = None,
    json: AnswerJsonOption = False,
    mean: MeanOption = "",
    scale: ScaleOption = "",
    bgr: BgrOption = False,
    model_version: VersionOption = "",
    address: AddressOption = None,
    root_certificates: RootCertificatesOption = None,
) -> int:
    """Run one inference and print what came out, the classes by name where there are labels.

    Of a picture, the largest part of the middle that has the proportions of the model's input is resized and sent as
    the model takes it: as pixels of its layout and type, or as the file itself where it takes encoded pictures.
    `inferwire models` says what a model's inputs are called and what they take.

    For example:

    ```
    inferwire infer efficientnet_lite0 -i photo.jpg --mean 127 --scale 128
    inferwire infer digits_mlp -i pixels=digit.npy --top 1
    inferwire infer adder -i a='[[1, 2]]' -i b='[[3, 4]]' --json
    ```

    Parameters
    ----------
    name
        The model, as inferwire models lists it.
    """
    with needs_extra("cli", "inferwire infer"):
        from inferwire_cli.infer.pictures import PixelOptions
        from inferwire_cli.infer.show import Wanted, show
    wanted = Wanted(name, model_version, input, PixelOptions(mean, scale, is_bgr=bgr), top, labels, save, as_json=json)
    return show(wanted, address, root_certificates)
