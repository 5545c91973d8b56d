"""Shared memory over REST, as the Open Inference Protocol has it: regions are registered, listed and taken away."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NoReturn

from starlette.requests import Request
from starlette.responses import Response

from inferwire_server.errors import invalid_input
from inferwire_server.service import Services
from inferwire_server.service.values import Region
from inferwire_server.transport.http.bodies import read_object
from inferwire_server.transport.http.responses import json_response
from inferwire_server.transport.oip.shared_memory import check_cuda_status, no_cuda
from inferwire_server.transport.rest import documentation as doc
from inferwire_server.transport.rest.json_elements import json_kind
from inferwire_server.transport.rest.oip_routes import TAG
from inferwire_server.transport.rest.routes import Route

_SYSTEM = "/v2/systemsharedmemory"
_CUDA = "/v2/cudasharedmemory"


class SharedMemoryRoutes:
    """Endpoints of regions of shared memory. Of CUDA's there are none."""

    def __init__(self, services: Services, max_body_bytes: int) -> None:
        self._services = services
        self._max_body_bytes = max_body_bytes

    def routes(self) -> list[Route]:
        """List the endpoints."""
        status, unregister = _paths(_SYSTEM, "status"), _paths(_SYSTEM, "unregister")
        cuda_status, cuda_unregister = _paths(_CUDA, "status"), _paths(_CUDA, "unregister")
        register, cuda_register = _paths(_SYSTEM, "register")[1:], _paths(_CUDA, "register")[1:]
        gone = doc.UNREGISTER_REGIONS
        return [
            Route("POST", register, self.register, TAG, "Register shared memory", openapi=doc.REGISTER_REGION),
            Route("GET", status, self.status, TAG, "List shared memory", openapi=doc.REGIONS),
            Route("POST", unregister, self.unregister, TAG, "Unregister shared memory", openapi=gone),
            Route("POST", cuda_register, self.register_cuda, TAG, "Register CUDA memory", openapi=doc.REGISTER_CUDA),
            Route("GET", cuda_status, self.status_cuda, TAG, "List CUDA memory", openapi=doc.CUDA_REGIONS),
            Route("POST", cuda_unregister, self.unregister_cuda, TAG, "Unregister CUDA memory", openapi=gone),
        ]

    async def register(self, request: Request) -> Response:
        """Register a region of shared memory on the server's machine under a name, to hold tensors.

        Needs `--shared-memory`. Inputs and outputs then refer to the region in their parameters:
        `shared_memory_region`, `shared_memory_offset` and `shared_memory_byte_size`.
        """
        body = await read_object(request, self._max_body_bytes, self._services.gil_thread)
        name = _region(request)
        key: object = body.get("key")
        if not isinstance(key, str):
            raise invalid_input(f"the 'key' of shared memory region '{name}' is {json_kind(key)}, expected a string")
        region = Region(name, key, _bytes(body, "offset", name), _bytes(body, "byte_size", name))
        await self._services.shared_memory.register(region)
        return Response()

    async def status(self, request: Request) -> Response:
        """List all regions, or the one that the path names."""
        regions = self._services.shared_memory.regions(_region(request))
        return json_response([asdict(region) for region in regions])

    async def unregister(self, request: Request) -> Response:
        """Unregister all regions, or the one that the path names, if it exists. Inferences that use it still finish."""
        self._services.shared_memory.unregister(_region(request))
        return Response()

    async def register_cuda(self, request: Request) -> NoReturn:
        """Refuse: GPU memory is not supported."""
        raise no_cuda(_region(request))

    async def status_cuda(self, request: Request) -> Response:
        """Give an empty list, and no region that the path names: GPU memory is not supported."""
        check_cuda_status(_region(request))
        return json_response([])

    async def unregister_cuda(self, _request: Request) -> Response:
        """Do nothing: no GPU memory is ever registered."""
        return Response()


def _paths(kind: str, last: str) -> tuple[str, str]:
    # A name may have slashes in it: Triton's client leaves them as they are, and encoded ones look alike here.
    return f"{kind}/{last}", f"{kind}/region/{{region:path}}/{last}"


def _region(request: Request) -> str:
    """Give the name that a path has; an empty one means all regions, and so only where the path has no place for it."""
    region = request.path_params.get("region")
    if region == "":
        raise invalid_input(f"{request.url.path} names no region of shared memory, expected a name after region/")
    return region or ""


def _bytes(body: dict[str, Any], name: str, region: str) -> int:
    value: object = body.get(name, 0)
    if type(value) is not int:
        shown = value if isinstance(value, float) else json_kind(value)
        raise invalid_input(f"the '{name}' of shared memory region '{region}' is {shown}, expected a number of bytes")
    return value
