"""What is done for every gRPC call, whatever its method."""

from __future__ import annotations

from dataclasses import dataclass

from inferwire_server.service import AccessService
from inferwire_server.service.refusals import Interface, Refusals
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.error_translation import as_serving_error
from inferwire_server.transport.peers import address_of
from inferwire_server.transport.rpc.call_head import CallHead, Metadata
from inferwire_server.transport.rpc.caller import shown_key
from inferwire_server.transport.rpc.status import RpcStatus


@dataclass(frozen=True, slots=True)
class Guard:
    """What is done around every call: its key is checked, and it is counted as it runs and if it is refused."""

    drain: Drain
    refusals: Refusals
    access: AccessService

    def check_key(self, metadata: Metadata) -> None:
        """Refuse a caller that shows no valid key, if one is needed.

        Raises:
            ServingError: UNAUTHENTICATED.
        """
        if self.access.needs_key:
            self.access.check(shown_key(metadata))

    def refuse(self, error: Exception, head: CallHead, peer: str) -> RpcStatus:
        """Turn what a call has raised into the status that its caller gets; count it, unless it is one already."""
        if isinstance(error, RpcStatus):
            return error
        where = head.where
        refusal = as_serving_error(error, **where)
        self.refusals.count(Interface.GRPC, refusal, where, peer=address_of(peer))
        return RpcStatus.of(refusal)
