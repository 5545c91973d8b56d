"""The model that a command line names, or what there is in its place. Needs the extra `cli`."""

from __future__ import annotations

from inferwire.errors import ModelNotFound, ModelNotReady
from inferwire.transport.operator_calls import ModelDetails, OperatorCalls
from inferwire.transport.served_models import what_there_is
from inferwire_cli.terminal import CommandError


def named_model(calls: OperatorCalls, name: str, version: str) -> ModelDetails:
    """Describe a model that takes jobs.

    Raises:
        CommandError: If there is none, with what there is.
        InferwireError: For what else the server or the network says.
    """
    try:
        return calls.model(name, version)
    except (ModelNotFound, ModelNotReady) as error:
        raise CommandError(f"{error}; {what_there_is(calls.models(), name)}") from error
