"""A state of a request, by its name: `VariableState`."""

from __future__ import annotations

from inferwire.arguments import Unpicklable, incompatible
from inferwire.requests.kept_states import KeptStates
from inferwire.requests.request_state import RequestState
from inferwire.tensors.tensor import Tensor, as_tensor


class VariableState(Unpicklable):
    """A state that a model keeps between the inferences of one request. Mirrors openvino's `VariableState`.

    Given by `InferRequest.query_state`. Its value is the server's: reading `state` takes a round trip, or one for all
    the small states that the program reads after each inference.

    Differs from OpenVINO: writing into the tensor that `state` gives changes nothing; assign a tensor to `state`.

    Example:
        >>> (state,) = request.query_state()
        >>> before = state.state
        >>> request.infer([chunk])
        >>> state.state = before
    """

    def __init__(self, name: str, states: KeptStates, request: RequestState) -> None:
        self._name = name
        self._states = states
        self._request = request

    def __repr__(self) -> str:
        return "<VariableState>"

    @property
    def name(self) -> str:
        """Its name in the model. Mirrors `openvino.VariableState.name`."""
        return self._name

    @property
    def state(self) -> Tensor:
        """A copy of it as it is now; set it from a tensor. Mirrors `openvino.VariableState.state`.

        Raises:
            TypeError: On setting what is no tensor.
            RuntimeError: While the request is busy; `inferwire.InferwireError` if the server or network says so.
        """
        self._request.check_idle()
        return self._states.read(self._name)

    @state.setter
    def state(self, tensor: Tensor) -> None:
        self._request.check_idle()
        self._states.write(self._name, self._checked(tensor))

    def _checked(self, given: object) -> Tensor:
        tensor = as_tensor(given)
        if tensor is None:
            raise incompatible("", "(arg0: VariableState, arg1: Tensor) -> None", invoked=(self, given))
        return tensor

    def reset(self) -> None:
        """Make it what it was before the first inference. Mirrors `openvino.VariableState.reset`.

        Raises:
            RuntimeError: While the request is busy; `inferwire.InferwireError` if the server or network says so.
        """
        self._request.check_idle()
        self._states.reset(self._name)
