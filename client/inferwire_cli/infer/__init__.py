"""`inferwire infer`: one inference from a terminal. Importing it needs only cyclopts; `show` does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter, validators

from inferwire_cli.extras import needs_extra
from inferwire_cli.options import AddressOption, RootCertificatesOption, VersionOption
from inferwire_proto.host.flags import PATH, WHOLE

PICTURES = Group("Pictures", sort_key=1)

InputOption = Annotated[
    tuple[str, ...],
    Parameter(
        name=["--input", "-i"],
        negative=(),
        show_default=False,
        allow_leading_hyphen=True,
        json_list=False,  # a list in JSON is one input: cyclopts 4.10 would take it for several
        help="Input: a picture, a .npy or .json file, JSON, or a text if the model takes texts. NAME=... says which "
        "input, as it has to where the model has several. May be repeated.",
    ),
]
MeanOption = Annotated[
    str,
    Parameter(
        group=PICTURES,
        show_default=False,
        allow_leading_hyphen=True,
        help="Subtract this from the pixels, which are 0 to 255: a number, or R,G,B.",
    ),
]
ScaleOption = Annotated[
    str,
    Parameter(group=PICTURES, show_default=False, help="Divide the pixels by this, after --mean: a number, or R,G,B."),
]
AnswerJsonOption = Annotated[
    bool,
    Parameter(
        name="--json",
        show_default=False,
        help='Print JSON for programs. Numbers that JSON lacks are the strings "NaN", "Infinity" and "-Infinity".',
    ),
]
BgrOption = Annotated[
    bool, Parameter(group=PICTURES, show_default=False, help="Send the channels in the order blue, green, red.")
]


def infer(
    name: str,
    /,
    *,
    input: InputOption = (),  # noqa: A002 - it is the flag's name
    top: Annotated[int, WHOLE, Parameter(validator=validators.Number(gt=0), help="How many classes to print.")] = 5,
    labels: Annotated[
        Path | None,
        PATH,
        Parameter(help="File with the classes' names, one per line; by default the server's labels."),
    ] = None,
    save: Annotated[Path | None, PATH, Parameter(help="Also write the outputs to this .npz file.")] = None,
    json: AnswerJsonOption = False,
    mean: MeanOption = "",
    scale: ScaleOption = "",
    bgr: BgrOption = False,
    model_version: VersionOption = "",
    address: AddressOption = None,
    root_certificates: RootCertificatesOption = None,
) -> int:
    """Run one inference and print its outputs, as named classes if the model has labels.

    A picture is cropped around its middle to the proportions of the model's input, resized, and sent as pixels in the
    model's layout and type. A model that takes encoded pictures is sent the file itself. `inferwire models` shows the
    names, types and shapes of a model's inputs.

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
