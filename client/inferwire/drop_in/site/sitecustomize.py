"""Code that a Python started by `python -m inferwire` runs before its program, as does each Python that this starts.

Imports the mirror only when the program first imports openvino, and costs nothing before. Also runs the `sitecustomize`
that Python would have run without this one, if there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType


class LazyMirrorFinder:
    """Imports the finder of the mirror's modules when a program first imports one of openvino's, and asks it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of openvino; None for any other."""
        if name.partition(".")[0] != "openvino":
            return None
        from inferwire.drop_in.finder import MirrorFinder

        return MirrorFinder("openvino").find_spec(name, path, target)


def run_the_next() -> None:
    """Run the `sitecustomize` that Python would have found without this one, if there is one."""
    own = sys.modules.pop(__name__)
    here = Path(__file__).parent
    sys.path[:] = [each for each in sys.path if Path(each) != here]
    try:
        __import__(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
        sys.modules[__name__] = own


sys.meta_path.insert(0, LazyMirrorFinder())
run_the_next()
