"""`inferwire models`, `load` and `unload`: what a server serves, and changing that while it runs.

Importing it needs only cyclopts; `table` and `control` do the work.
"""

from __future__ import annotations

from inferwire_cli.extras import needs_extra
from inferwire_cli.options import AddressOption, JsonOption, RootCertificatesOption


def models(
    *, json: JsonOption = False, address: AddressOption = None, root_certificates: RootCertificatesOption = None
) -> int:
    """List what a server serves: each model version with its state, device, slots, inputs and outputs.

    Slots is the number of inferences that run at once, in each process of a server that has several.

    For example:

    ```
    inferwire models
    inferwire models --address gpu-box:8001 --json
    inferwire models --address grpcs://gpu-box:8001 --root-certificates ca.pem
    ```
    """
    with needs_extra("cli", "inferwire models"):
        from inferwire_cli.models.table import show
    return show(address, root_certificates, as_json=json)


def load(name: str, /, *, address: AddressOption = None, root_certificates: RootCertificatesOption = None) -> int:
    """Load or reload a model of the server's repository, and wait until it is ready.

    During a reload the old model goes on serving, and no request is lost. If the new one fails to load, the old one
    stays. The server has to be started with --allow-model-control.

    For example:

    ```
    inferwire load resnet50
    ```

    Parameters
    ----------
    name
        The model: its folder in the repository.
    """
    with needs_extra("cli", "inferwire load"):
        from inferwire_cli.models.control import load_model
    return load_model(name, address, root_certificates)


def unload(name: str, /, *, address: AddressOption = None, root_certificates: RootCertificatesOption = None) -> int:
    """Unload a model: take no more inferences for it, and wait until those it has are done.

    The server has to be started with --allow-model-control.

    For example:

    ```
    inferwire unload resnet50
    ```

    Parameters
    ----------
    name
        The model, as inferwire models lists it.
    """
    with needs_extra("cli", "inferwire unload"):
        from inferwire_cli.models.control import unload_model
    return unload_model(name, address, root_certificates)
