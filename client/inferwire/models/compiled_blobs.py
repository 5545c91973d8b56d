"""Compiled models as bytes: what `export_model` writes to and `import_model` reads from.

Owns openvino's rules and texts for the streams. Knows no server.
"""

from __future__ import annotations

import io

from inferwire.tensors.tensor import as_tensor
from inferwire.transport.executions import WireBytes


def check_stream(model_stream: object) -> io.BytesIO:
    """Give a stream that a model can be exported to.

    Raises:
        TypeError: For anything but a BytesIO.
    """
    if not isinstance(model_stream, io.BytesIO):
        raise TypeError(
            "CompiledModel.export_model(model_stream) incompatible function argument: "
            f"`model_stream` must be an io.BytesIO object but {model_stream!r}` provided"
        )
    return model_stream


def read_blob(model_stream: object) -> WireBytes:
    """Read the whole of a blob, whatever the position of its stream.

    Raises:
        TypeError: For anything but bytes, a BytesIO or a tensor.
    """
    tensor = as_tensor(model_stream)
    if tensor is not None:
        return bytes(tensor.memory.wire_data())
    match model_stream:
        case bytes():
            return model_stream
        case io.BytesIO():
            return model_stream.getvalue()
        case _:
            raise TypeError(
                "CompiledModel.import_model(model_stream) incompatible function argument: "
                f"`model_stream` must be an io.BytesIO object or bytes but {model_stream!r}` provided"
            )
