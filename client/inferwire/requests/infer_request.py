"""Inferences on a remote model, as openvino's users know them: `InferRequest`.

Owns the interface: arguments and what is given back. An execution's way to the server and back is `request_runs`'
business, tensors are `tensor_access`'.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, SupportsIndex

import inferwire  # for hints of what is made above this layer
from inferwire.arguments import as_integer, incompatible
from inferwire.graph.ports import ConstOutput
from inferwire.requests.kept_states import KeptStates
from inferwire.requests.ov_dict import OVDict
from inferwire.requests.profiling import ProfilingInfo
from inferwire.requests.remote_model import RemoteModel
from inferwire.requests.request_results import results_of
from inferwire.requests.request_runs import RequestRuns
from inferwire.requests.request_state import RequestState
from inferwire.requests.request_tensors import RequestTensors
from inferwire.requests.run import Run
from inferwire.requests.tensor_access import TensorAccess
from inferwire.requests.variable_state import VariableState
from inferwire.tab_completion import TabCompleted
from inferwire.transport.executions import Timings
from inferwire.user_warnings import shares_inputs
from inferwire.values.scheduling import Scheduling, as_scheduling

_MISSING: Any = object()

_TIMEOUTS_MS = range(-(2**31), 2**31)
"""What fits openvino's time-outs. Python's own waits take no more than 292 years."""


class InferRequest(TabCompleted, TensorAccess):
    """Runs inferences of one model, one at a time. Mirrors `openvino.InferRequest`.

    Made by `CompiledModel.create_infer_request`, or from another request, as derived classes do; the two then are the
    same request, with the same tensors. It holds a tensor for each input and output; all of it is local, only
    executions travel. A model's states, if it keeps any, are kept by the server for this request alone, from its first
    inference for as long as the request is referenced.

    Differs from OpenVINO:
    - A request can start again straight after `cancel`.
    - `wait` on itself inside its own callback is an error, where openvino never returns.
    - `latency` is the time on the device alone, where openvino's has the wait for a free stream in it; `timings` tells
      that and all else. It keeps its last value while an inference runs.
    - The profile of a cancelled execution is not known.
    - The output of a model that hands its input on is memory of its own, where openvino's is the input's.
    - An array without elements whose shape the input does not take is refused, where openvino takes one of the right
      rank.
    - Inputs without elements are refused where a node of the model would take some, where openvino gives what the
      inference before has left there.
    - An output's tensor that a program has reshaped gets the output's shape again, where openvino infers no more.
    - States that the server has lost, as when it restarted, raise `SessionLost` until `reset_state` begins anew.

    Example:
        >>> request = compiled.create_infer_request()
        >>> request.infer({"data": np.zeros((1, 3), np.float32)})["out"].shape
        (1, 3)
        >>> request.start_async({"data": np.ones((1, 3), np.float32)})
        >>> request.wait()
        >>> request.results["out"]
        array([[1., 1., 1.]], dtype=float32)

    Args:
        other: The request that this one becomes another object of.

    Raises:
        TypeError: For what is no request.
    """

    _own_use = frozenset({"of", "runs"})

    _runs: RequestRuns
    _model: RemoteModel
    _compiled: Callable[[RemoteModel], inferwire.CompiledModel]

    def __init__(self, other: InferRequest) -> None:
        if not isinstance(other, InferRequest):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise incompatible("__init__", "InferRequest(other: InferRequest)", invoked=(other,))
        super().__init__(other._state, other._tensors)
        self._runs = other._runs
        self._model = other._model
        # Not the compiled model itself, which has a request of its own: they would keep each other alive.
        self._compiled = other._compiled

    @classmethod
    def of(
        cls,
        model: RemoteModel,
        compiled: Callable[[RemoteModel], inferwire.CompiledModel],
        *,
        keeps_states: bool = True,
    ) -> InferRequest:
        """Make one for a model on a server; for the SDK's own use, not in openvino."""
        request = object.__new__(cls)
        TensorAccess.__init__(request, RequestState(), RequestTensors(model.ports, model.transport.lend))
        states = KeptStates(model) if keeps_states and model.description.states else None
        request._runs = RequestRuns(model, request._state, request._tensors, states)
        request._model, request._compiled = model, compiled
        return request

    def __repr__(self) -> str:
        return f"<{type(self).__name__}:\n{self._model.ports!r}>"

    @property
    def model_inputs(self) -> list[ConstOutput]:
        """The model's inputs. Mirrors `openvino.InferRequest.model_inputs`."""
        return list(self._model.ports.input_ports)

    @property
    def model_outputs(self) -> list[ConstOutput]:
        """The model's outputs. Mirrors `openvino.InferRequest.model_outputs`."""
        return list(self._model.ports.output_ports)

    @property
    def userdata(self) -> Any:
        """What the callback is given. Mirrors `openvino.InferRequest.userdata`."""
        return self._runs.userdata

    @property
    def latency(self) -> float:
        """How long the last inference took on the server's device, in milliseconds; 0 before the first.

        Mirrors `openvino.InferRequest.latency`.
        """
        return self._runs.timings.inference_ms

    @property
    def timings(self) -> Timings:
        """Where the time of the last execution went; not in openvino."""
        return self._runs.timings.seen_by_client(self._runs.elapsed_s * 1000)

    @property
    def results(self) -> OVDict:
        """Copies of all outputs; strings as 'U'. Mirrors `openvino.InferRequest.results`.

        Raises:
            RuntimeError: While the request is busy.
        """
        with self._state.lock:
            self._state.check_idle()
            return results_of(self._tensors, share=False, decode_strings=True)

    def infer(
        self,
        inputs: Any = None,
        share_inputs: bool = False,
        share_outputs: bool = False,
        *,
        decode_strings: bool = True,
        shared_memory: bool | None = None,
    ) -> OVDict:
        """Run an inference and wait for its results. Mirrors `openvino.InferRequest.infer`.

        Args:
            inputs: Arrays, tensors, lists or scalars: one for a model with one input; else a dict by
                position, name or port, or a list or tuple in the model's order. Inputs that are
                left out keep what they have.
            share_inputs: Read arrays in place, if type and layout allow it, instead of copying
                them into the request's tensors.
            share_outputs: Give views of the output tensors, which the next inference overwrites.
            decode_strings: Give strings as 'U' instead of 'S'.
            shared_memory: What `share_inputs` was until 2023. Deprecated.

        Returns:
            An array for each output, of the shape that this inference gave it and of its element type's dtype, as
            `Tensor.data` shows them.

        Raises:
            TypeError: For inputs of kinds that are not taken.
            RuntimeError: If inputs do not fit, the request is busy or cancelled, or the inference or
                the connection fails; `inferwire.InferwireError` if the server or network says so.
        """
        results = partial(results_of, self._tensors, share=share_outputs, decode_strings=decode_strings)
        return self._runs.infer(Run(is_synchronous=True), inputs, shares_inputs(share_inputs, shared_memory), results)

    async def infer_async(
        self,
        inputs: Any = None,
        share_inputs: bool = False,
        share_outputs: bool = False,
        *,
        decode_strings: bool = True,
    ) -> OVDict:
        """Run an inference and give its results, for programs that use asyncio; not in openvino.

        As `infer`, and no thread waits meanwhile. Cancelling the task cancels the inference.

        Example:
            >>> results = await request.infer_async({"data": np.zeros((1, 3), np.float32)})

        Args:
            inputs: As in `infer`.
            share_inputs: As in `start_async`.
            share_outputs: As in `infer`.
            decode_strings: As in `infer`.

        Raises:
            TypeError: As `infer`.
            RuntimeError: As `infer`.
        """
        results = partial(results_of, self._tensors, share=share_outputs, decode_strings=decode_strings)
        return await self._runs.infer_async(Run(), inputs, share_inputs, results)

    def start_async(
        self,
        inputs: Any = None,
        userdata: Any = None,
        share_inputs: bool = False,
        *,
        shared_memory: bool | None = None,
    ) -> None:
        """Start an inference and return when it is sent. Mirrors `openvino.InferRequest.start_async`.

        That is at once, unless there is no connection yet, or a server that has restarted compiles the model again.

        Args:
            inputs: As in `infer`. Without `share_inputs` arrays may change as soon as this returns.
            userdata: What the callback is given from now on; None keeps what it was given before.
            share_inputs: As in `infer`; the arrays must then not change before the end.
            shared_memory: What `share_inputs` was until 2023. Deprecated.

        Raises:
            TypeError: As `infer`.
            RuntimeError: If inputs do not fit, the request is busy or no server answers.
        """
        self._runs.start(Run(), inputs, shares_inputs(share_inputs, shared_memory), userdata)

    def wait(self) -> None:
        """Wait until the execution that runs has ended and its callback returned.

        Mirrors `openvino.InferRequest.wait`. Returns at once if none was ever started.

        Raises:
            RuntimeError: If it failed, was cancelled, or its callback raised; again at every wait
                until the next start.
        """
        run = self._state.current
        if run is not None:
            self._runs.wait(run, None)
            run.raise_error()

    def wait_for(self, timeout: SupportsIndex) -> bool:
        """Wait as `wait` does, at most `timeout` milliseconds; tell whether it has ended.

        Mirrors `openvino.InferRequest.wait_for`. False if none was ever started.

        Raises:
            TypeError: For a time-out that is no integer of 32 bits.
            RuntimeError: For a negative one, and as `wait`.
        """
        timeout_ms = as_integer(timeout)
        if timeout_ms is None or timeout_ms not in _TIMEOUTS_MS:
            raise incompatible("wait_for", "(self: InferRequest, timeout: int) -> bool", invoked=(self, timeout))
        if timeout_ms < 0:
            raise RuntimeError("Timeout can't be less than 0 for InferRequest::wait().")
        run = self._state.current
        if run is None or not self._runs.wait(run, timeout_ms / 1000):
            return False
        run.raise_error()
        return True

    def cancel(self) -> None:
        """Give up the execution that runs; its waits raise and its callback is not called.

        Mirrors `openvino.InferRequest.cancel`. Nothing happens if none runs.
        """
        self._runs.cancel()

    def set_callback(self, callback: Callable[[Any], object], userdata: Any = _MISSING) -> None:
        """Have `callback(userdata)` called after each inference that `start_async` started and that succeeded.

        Mirrors `openvino.InferRequest.set_callback`. It runs on a thread of the SDK, and may read
        results, start the request again and run others.

        Args:
            callback: Takes one argument.
            userdata: The argument, until `start_async` is given another one.

        Raises:
            TypeError: For what cannot be called, or without `userdata`.
            RuntimeError: While the request is busy.
        """
        if userdata is _MISSING or not callable(callback):
            invoked = (self, callback) if userdata is _MISSING else (self, callback, userdata)
            signature = "(self: InferRequest, callback: Callable, userdata: object) -> None"
            raise incompatible("set_callback", signature, invoked=invoked)
        with self._state.lock:
            self._state.check_idle()
            self._runs.callback = callback
            self._runs.userdata = userdata

    def get_compiled_model(self) -> inferwire.CompiledModel:
        """Give the compiled model that this request is of, as an object of its own, as openvino does.

        Mirrors `openvino.InferRequest.get_compiled_model`.
        """
        return self._compiled(self._model)

    def query_state(self) -> list[VariableState]:
        """Give the states that the model keeps for this request; none for a model without states.

        Mirrors `openvino.InferRequest.query_state`.

        Raises:
            RuntimeError: While the request is busy.
        """
        self._state.check_idle()
        states = self._runs.states
        if states is None:
            return []
        return [VariableState(name, states, self._state) for name in self._model.description.states]

    def reset_state(self) -> None:
        """Make the states what they were before the first inference. Mirrors `openvino.InferRequest.reset_state`.

        The server learns of it with the next inference, or with the next state that is read or written.

        Raises:
            RuntimeError: While the request is busy.
        """
        self._state.check_idle()
        if self._runs.states is not None:
            self._runs.states.reset()

    @property
    def profiling_info(self) -> list[ProfilingInfo]:
        """What each layer took in the last execution. Mirrors `openvino.InferRequest.profiling_info`.

        Only a model that was compiled with `PERF_COUNT` is timed; without, and before the first execution, no
        layer has run. Executions that the server ran as one batch have the times of the batch.

        Raises:
            RuntimeError: While the request is busy, or if no server answers.
        """
        self._state.check_idle()
        return [ProfilingInfo.of(layer) for layer in self._runs.profile or self._model.layers()]

    def get_profiling_info(self) -> list[ProfilingInfo]:
        """Give `profiling_info`.

        Raises:
            RuntimeError: As `profiling_info`.
        """
        return self.profiling_info

    @property
    def postpone_outputs(self) -> bool:
        """Whether outputs stay on the server until the program reads them; not in openvino.

        Set it for models with outputs that are seldom looked at. An output is fetched when it is first read, and sent
        with every answer from then on. Outputs that another request on the same server reads stay there in any case.

        Raises:
            TypeError: On setting what is neither true nor false.
            RuntimeError: On setting it while the request is busy.
        """
        return self._tensors.postpones

    @postpone_outputs.setter
    def postpone_outputs(self, postpone: bool) -> None:
        if not isinstance(postpone, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"postpone_outputs is {postpone!r}, expected True or False")
        with self._state.lock:
            self._state.check_idle()
            self._tensors.postpones = postpone

    @property
    def scheduling(self) -> Scheduling:
        """How urgent the next inferences of this request are, and how long each may take; not in openvino.

        Raises:
            TypeError: On setting what is no `inferwire.Scheduling`.
            RuntimeError: On setting it while the request is busy.
        """
        return self._runs.scheduling

    @scheduling.setter
    def scheduling(self, scheduling: Scheduling) -> None:
        with self._state.lock:
            self._state.check_idle()
            self._runs.schedule(as_scheduling(scheduling))

    @property
    def runs(self) -> RequestRuns:
        """Its executions; for the SDK's own use, not in openvino."""
        return self._runs
