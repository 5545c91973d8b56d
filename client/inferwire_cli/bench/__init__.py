"""`inferwire bench`: how fast a server answers. Importing it needs only cyclopts; `show` does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators

from inferwire_cli.extras import needs_extra
from inferwire_cli.infer import BgrOption, InputOption, MeanOption, ScaleOption
from inferwire_cli.options import AddressOption, HttpAddressOption, JsonOption, RootCertificatesOption, VersionOption
from inferwire_proto.host.flags import PATH, SECONDS, WHOLE

_POSITIVE = validators.Number(gt=0)
_CONCURRENCY = validators.Number(gt=0, lte=16384)
"""Twice as many as a server's queue has room for. Each may take a connection, and a thread."""


def bench(
    name: str,
    /,
    *,
    seconds: Annotated[float, SECONDS, Parameter(validator=_POSITIVE, help="How many seconds to run.")] = 10.0,
    number: Annotated[
        int | None, WHOLE, Parameter(validator=_POSITIVE, help="How many inferences to run, however long that takes.")
    ] = None,
    concurrency: Annotated[
        int | None,
        WHOLE,
        Parameter(
            validator=_CONCURRENCY,
            help="Inferences in flight, at most 16384; by default twice the model's slots, and at least 8.",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        WHOLE,
        Parameter(validator=_POSITIVE, help="Rows of each inference; by default 1, or as many as the model requires."),
    ] = None,
    path: Annotated[
        Literal["sdk", "grpc", "rest"],
        Parameter(
            help="How to call the server: the SDK's AsyncInferQueue, single gRPC calls, or the Open Inference Protocol "
            "over REST with binary tensors."
        ),
    ] = "sdk",
    input: InputOption = (),  # noqa: A002 - it is the flag's name
    shape: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            show_default=False,
            help="Shape of an input whose lengths are open, such as 1,3,300,300; NAME=... if the model has several "
            "inputs. May be repeated.",
        ),
    ] = (),
    plot: Annotated[
        Path | None, PATH, Parameter(help="Draw the latencies into this .png, .svg or .pdf file; needs matplotlib.")
    ] = None,
    json: JsonOption = False,
    mean: MeanOption = "",
    scale: ScaleOption = "",
    bgr: BgrOption = False,
    model_version: VersionOption = "",
    address: AddressOption = None,
    http_address: HttpAddressOption = None,
    root_certificates: RootCertificatesOption = None,
) -> int:
    """Keep a server busy with one model; report how fast it answers and where the time goes.

    Inputs are random unless given, in the forms of `inferwire infer`. Whenever an inference has been answered, the next
    one starts. Ctrl-C ends the run early and prints what was measured.

    For example:

    ```
    inferwire bench efficientnet_lite0
    inferwire bench digits_mlp --seconds 30 --concurrency 64 --plot digits.png
    inferwire bench efficientnet_lite0 -i photo.jpg --path rest --number 500
    ```

    Parameters
    ----------
    name
        The model, as inferwire models lists it.
    """
    with needs_extra("cli", "inferwire bench"):
        from inferwire_cli.bench.show import Plan, show
        from inferwire_cli.infer.pictures import PixelOptions
    plan = Plan(
        name=name,
        version=model_version,
        path=path,
        seconds=seconds,
        number=number,
        concurrency=concurrency,
        batch=batch,
        inputs=input,
        shapes=shape,
        pixels=PixelOptions(mean, scale, is_bgr=bgr),
        plot=plot,
        as_json=json,
    )
    return show(plan, address, http_address, root_certificates)
