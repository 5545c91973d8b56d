"""The model that a command line names, or what there is in its place. Needs the extra `cli`."""

from __future__ import annotations

from collections.abc import Sequence

from inferwire.errors import ModelNotFound, ModelNotReady
from inferwire.transport.operator_calls import ModelDetails, ModelStatus, OperatorCalls
from inferwire_cli.terminal import CommandError

MANY = 20
"""So many names are listed at most."""


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


def what_there_is(models: Sequence[ModelStatus], name: str) -> str:
    """Say what a caller may do who has asked for a model, or a version of one, that takes no jobs."""
    versions = [model for model in models if model.name == name]
    if versions:
        states = ", ".join(f"version {model.version} ({model.state})" for model in versions)
        is_gone = all(model.state == "unloaded" for model in versions)
        return f"it has {states}" + (f": `inferwire load {name}` brings it back" if is_gone else "")
    names = sorted({f"'{model.name}'" for model in models})
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return f"there are {', '.join(names[:MANY])}{more}" if names else "the server has no models"
