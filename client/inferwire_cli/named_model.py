"""The model that a command line names, or an error that lists the models there are. Needs the extra `cli`."""

from __future__ import annotations

from inferwire.errors import ModelNotFound, ModelNotReady
from inferwire.transport.operator_calls import ModelDetails, OperatorCalls
from inferwire.transport.served_models import what_there_is
from inferwire_cli.terminal import CommandError


def named_model(calls: OperatorCalls, name: str, version: str) -> ModelDetails:
    """Describe a model that takes jobs.

    Raises:
        CommandError: If there is no such model, with the models there are.
        InferwireError: For any other error of the server or the network.
    """
    try:
        return calls.model(name, version)
    except (ModelNotFound, ModelNotReady) as error:
        raise CommandError(f"{error}; {what_there_is(calls.models(), name)}") from error
