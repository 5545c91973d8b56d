"""An execution as a call of its own, for tensors so large that small ones should not wait behind them."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from inferwire.errors import InferwireError, error_of
from inferwire.transport import codec, rpc
from inferwire.transport.executions import Deliver, Outcome, OutputBytes, WireBytes
from inferwire.transport.session.stream_execution import not_taken
from inferwire_proto import raw_fields
from inferwire_proto.errors import Code
from inferwire_proto.inferwire.v1.inference_pb2 import Execution, InferRequest, InferResponse


class LargeExecution:
    """A unary Infer on its way."""

    def __init__(self, channel: grpc.Channel, address: str, metadata: rpc.Metadata, deliver: Deliver) -> None:
        self._channel = channel
        self._address = address
        self._metadata = metadata
        self._deliver: Deliver | None = deliver
        self._call: rpc.UnaryFuture | None = None

    def __repr__(self) -> str:
        return f"<LargeExecution {self._address}: {'in flight' if self._deliver else 'ended'}>"

    def start(self, header: bytes, inputs: Sequence[WireBytes]) -> None:
        """Send it."""
        request = InferRequest(execution=Execution.FromString(header)).SerializeToString()
        message = raw_fields.join(request, inputs)
        with rpc.as_own_errors(self._address):
            self._call = rpc.start_unary(self._channel, "InferenceService.Infer", message, self._metadata, self._end)

    def cancel(self) -> None:
        """Drop the outcome and tell the server."""
        self._deliver = None
        if self._call is not None:
            rpc.cancel(self._call)

    def _end(self, call: rpc.UnaryFuture) -> None:
        deliver, self._deliver = self._deliver, None
        if deliver is not None:
            deliver(*self._outcome(call))

    def _outcome(self, call: rpc.UnaryFuture) -> tuple[Outcome, OutputBytes]:
        try:
            response, raw = raw_fields.split(InferResponse, call.result())
            outcome, (data,) = codec.decode_result(response.result, raw)
        except grpc.FutureCancelledError:
            # We cancelled it after it had failed, and gRPC does not tell that failure any more.
            return Outcome(error=error_of(Code.CANCELLED, "the inference was cancelled here")), ()
        except grpc.RpcError as error:
            return Outcome(error=rpc.error_from(error, self._address)), ()
        except (ValueError, KeyError) as error:
            return Outcome(error=InferwireError(f"the answer of {self._address} cannot be read: {error}")), ()
        except MemoryError as error:
            return not_taken(error), ()
        return outcome, data
