"""The version of this package, as users and servers are told it."""

from __future__ import annotations

VERSION = "0.1.0"
"""The package's metadata take it from here. To read it from them would make each import load over thirty modules."""

MIRRORED_VERSION = "2026.4.1"
"""The release of openvino whose API and behaviour are mirrored."""

CLIENT = f"inferwire-python/{VERSION}"


def get_version() -> str:
    """Give the version of this client. Mirrors `openvino.get_version`.

    Differs from OpenVINO: it is the version of inferwire, not of the OpenVINO that the server
    runs; `Core.get_versions` tells that. In programs that `python -m inferwire` runs, the version
    of openvino that is mirrored comes before it.
    """
    return VERSION
