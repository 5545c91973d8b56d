"""The mirror's modules under openvino's names.

Owns which module stands for which, for programs that import `openvino` and get the mirror, and for those that import
`inferwire` where they imported openvino. A name of openvino that has no mirror is an error that says so; one that
openvino does not have either is left to Python. Modules of operations, and those that change graphs, can be imported,
since programs import them for functions that they rarely call; almost nothing in them can be used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from inferwire.drop_in.stand_ins import IMPORTABLE, STAND_INS, WORKING, stand_ins
from inferwire.not_offered import MODULES, TOP_LEVEL, missing_attribute, refuse_all_of, sentence
from inferwire.user_warnings import warn_of_old_name

OPENVINO = "openvino"
INFERWIRE = "inferwire"

MIRRORED = frozenset({"exceptions", "helpers", "layout_helpers", "preprocess", "properties", "utils"})
"""The submodules of openvino that are looked for in the mirror, with all below them."""

SAME_AS_TOP = frozenset({"runtime", "_pyopenvino", "_ov_api"})
"""Submodules of today's openvino and of older ones, whose names `openvino` itself has as well."""


AS_IT_IS = "tools.benchmark"
"""openvino's benchmark_app: it uses only openvino's Python API, so it runs from the openvino that is installed."""


class MirrorFinder:
    """Finds the mirror's modules for openvino's names in a package. Python asks it before every other finder."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the mirror of a module; None for one that has none, and for the mirror's modules themselves."""
        del path, target
        if name.partition(".")[0] != self._package:
            return None
        own = own_name(name)
        if (self._package, own) == (OPENVINO, AS_IT_IS):
            return installed(name)
        if name in (INFERWIRE, f"{INFERWIRE}.{own}"):
            return None
        mirror = mirror_of(own, self._package)
        return None if mirror is None else ModuleSpec(name, MirrorLoader(mirror))


class NotOfferedFinder:
    """Raises the error for modules and names that openvino has and a package does not offer.

    Python asks it after every other finder.
    """

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module that can be imported but not used; None for a name that openvino does not have.

        Raises:
            ModuleNotFoundError: For any other module or name of openvino.
        """
        del path, target
        if name.partition(".")[0] != self._package:
            return None
        missing = own_name(name)
        if missing in IMPORTABLE:
            return ModuleSpec(name, LoaderOfStandIns(), is_package=True)
        if missing.partition(".")[0] in MODULES | TOP_LEVEL | MIRRORED:
            # The error has no `name`, since with one `from openvino import` replaces the message with its own.
            raise ModuleNotFoundError(sentence(f"{OPENVINO}.{missing}"))
        return None


class MirrorLoader(Loader):
    """Loads a module of the mirror in place of one of openvino's."""

    def __init__(self, mirror: str) -> None:
        self._mirror = mirror
        self.own: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Give the mirror's own module, so that other threads which import it meanwhile are given that."""
        package, _, below = spec.name.partition(".")
        if below == "runtime":
            warn_of_old_name(f"{package}.runtime", package)
        module = import_module(self._mirror)
        own = module.__spec__
        # Another thread may be loading it under another of its names.
        self.own = own.loader.own if own and isinstance(own.loader, MirrorLoader) else own
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own description again, in whose place Python has put that of the other name."""
        module.__spec__ = self.own


class LoaderOfStandIns(Loader):
    """Makes a module that can be imported, but little of which can be used."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module with stand-ins, which refuse to be called, and have it refuse every other name."""
        own = own_name(module.__name__)
        module.__dict__.update(stand_ins(own), **WORKING.get(own, {}))
        refuse_all_of(module, f"{OPENVINO}.{own}")
        for above, _, name in (each.rpartition(".") for each in STAND_INS):
            if above == own:
                import_module(f"{module.__name__}.{name}")  # which openvino imports by itself, too


def missing_from(package: str, name: str) -> ModuleType:
    """Give what programs look for in a package that lacks it: its old name, and modules that can only be imported.

    Raises:
        AttributeError: For anything else.
    """
    if name == "runtime":
        warn_of_old_name(f"{package}.runtime", package)
        return sys.modules[package]
    if name in IMPORTABLE:
        return import_module(f"{package}.{name}")
    raise missing_attribute(package, name)


def mirror_of(own: str, package: str) -> str | None:
    """Name the module that stands for one of openvino's in a package; None if there is none."""
    if not own:
        return package
    if own.partition(".")[0] not in MIRRORED:
        return None
    mirror = f"{INFERWIRE}.{own}"
    try:
        return mirror if find_spec(mirror) is not None else None
    except ModuleNotFoundError:  # the module above it does not exist, or is no package
        return None


def installed(name: str) -> ModuleSpec | None:
    """Find a module in the openvino that is installed; None if there is none, or it lacks the module."""
    openvino = PathFinder.find_spec(OPENVINO)
    folder, *inner = own_name(name).split(".")[:-1]
    found = openvino.submodule_search_locations if openvino else None
    return PathFinder.find_spec(name, [str(Path(each, folder, *inner)) for each in found or ()])


def own_name(name: str) -> str:
    """Cut off the part that means openvino itself: "openvino.runtime.properties" is "properties"."""
    parts = name.split(".")[1:]
    while parts and parts[0] in SAME_AS_TOP:
        del parts[0]
    return ".".join(parts)
