"""Code that a Python started by `python -m inferwire` runs before its program, as does each Python that this starts.

Imports the mirror only when the program first imports openvino, and costs nothing before. Also runs the `sitecustomize`
that Python would have run without this one, if there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

TOP_LEVEL_FILE = Path(__file__).parents[1] / "top_level.py"


class LazyMirrorFinder:
    """Finds openvino's names without the mirror, which is imported when a program first imports one of them.

    Imports nothing itself. Python holds a lock of its own while it asks a finder, and a thread that imports what the
    mirror needs, as numpy, would wait for that lock while this one waited for that thread.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find openvino, or a module of it while it is being imported; None for any other."""
        del path, target
        package, _, below = name.partition(".")
        if package != "openvino":
            return None
        if not below:
            return spec_from_file_location(name, TOP_LEVEL_FILE, submodule_search_locations=[])
        openvino = sys.modules.get(package)
        is_being_imported = openvino is not None and getattr(openvino.__spec__, "_initializing", False)
        if not is_being_imported:
            return None
        # It is no `importlib.abc.Loader`: importing that would take longer than all else here.
        return ModuleSpec(name, LoaderAfterOpenvino())  # pyright: ignore[reportArgumentType]


class LoaderAfterOpenvino:
    """Waits for the thread that imports openvino, and then loads a module of it as the finders that are there say."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Wait, look again, and make the module.

        Raises:
            ModuleNotFoundError: There is no such module.
        """
        package = import_module("openvino")
        looked = (finder.find_spec(spec.name, package.__path__) for finder in tuple(sys.meta_path))
        found = next(filter(None, looked), None)
        if found is None or found.loader is None:
            raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name)
        vars(spec).update(vars(found))
        return found.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: Python has the loader that was found fill the module. It asks only those that have this."""


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
