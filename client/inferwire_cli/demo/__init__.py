"""`inferwire demo`: photos classified in four ways on a server that lives as long as the demo.

Reading order: `four_ways` for how inferwire is used, `photos` for what a classifier's client does, `show` for the
demo from start to end. Nothing here needs an extra until the command is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from inferwire_cli.extras import needs_extra
from inferwire_proto.host.flags import PATH


def demo(
    *,
    models: Annotated[Path, PATH, Parameter(help="The model repository with efficientnet_lite0.")] = Path(
        "deploy/models"
    ),
    photos: Annotated[Path, PATH, Parameter(help="The folder of PNG photos to classify.")] = Path("deploy/images"),
) -> int:
    """Start a server, classify photos on it in four ways, and end it.

    Starts a server on free ports, calls it with infer, with start_async and wait, with an AsyncInferQueue and over
    plain REST, prints the classes each way found and where the time went, and ends the server. Run it in inferwire's
    checkout, where the models and the photos are.
    """
    with needs_extra("cli", "inferwire demo"):
        from inferwire_cli.demo.show import show
    return show(models, photos)
