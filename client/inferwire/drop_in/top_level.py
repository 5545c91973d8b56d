"""What `import openvino` gives a program that `python -m inferwire` runs: the mirror, with openvino's version.

The finder runs this file as the module `openvino`.
"""

from __future__ import annotations

import sys
from types import ModuleType

import inferwire
from inferwire import *  # noqa: F403 - a program finds in openvino whatever the mirror has
from inferwire import __all__ as __all__
from inferwire.drop_in.finder import MirrorFinder, NotOfferedFinder, missing_from
from inferwire.version import MIRRORED_VERSION

__version__ = f"{MIRRORED_VERSION}-0-inferwire-{inferwire.__version__}"


def get_version() -> str:
    """Give the version of openvino that is mirrored, and that of inferwire."""
    return __version__


def __dir__() -> list[str]:
    """List the public names, as `from openvino import *` gives them, without those that only this file uses."""
    return __all__


def __getattr__(name: str) -> ModuleType:
    """Give the names that programs of 2023 look for; raise the error for those that inferwire does not offer."""
    return missing_from(__name__, name)


sys.meta_path.insert(0, MirrorFinder(__name__))
sys.meta_path.append(NotOfferedFinder(__name__))
