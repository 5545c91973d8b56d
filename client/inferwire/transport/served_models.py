"""What a server serves, for a caller that has asked for a model that takes no jobs. Owns the words; knows no server."""

from __future__ import annotations

from collections.abc import Sequence

from inferwire.transport.descriptions import ModelStatus

MANY = 20
"""How many names are listed at most."""


def what_there_is(models: Sequence[ModelStatus], name: str) -> str:
    """Tell a caller what to do that has asked for a model, or a version of one, that takes no jobs."""
    versions = [model for model in models if model.name == name]
    if not versions:
        return which_there_are(models)
    states = ", ".join(f"version {model.version} ({model.state})" for model in versions)
    is_gone = all(model.state == "unloaded" for model in versions)
    return f"it has {states}" + (f": `inferwire load {name}` brings it back" if is_gone else "")


def which_there_are(models: Sequence[ModelStatus]) -> str:
    """List the models by name."""
    names = sorted({f"'{model.name}'" for model in models})
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return f"there are {', '.join(names[:MANY])}{more}" if names else "the server has no models"
