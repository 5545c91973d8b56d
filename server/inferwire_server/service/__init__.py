"""What the server does, one method per call, whatever socket the call came through.

There is one class for each thing that a server has: inferences, jobs, models, uploads, sessions, tensors and so on. The
contract's services are how clients see them, and the transports map one to the other. The classes know neither
transports nor OpenVINO.

- Inferences: every one goes through `inference`; `jobs` are those with a name, `sequences` those on models with states.
  `values` is what callers ask for, `output_forms` how they want outputs. `busy_polling` keeps the loop awake for the
  next one.
- What there is to ask about: `models` and clients' own (`uploads`), `devices` (with `forbidden_properties`),
  `statistics`, `logs`, and the server itself (`health`).
- What the server keeps for a caller: `sessions`, and under each its `tensors` and `lent_memory`; regions of
  `shared_memory`; the `names` that callers give these.
- Who may call is in `access`, what was refused in `refusals`.
"""

from __future__ import annotations

from dataclasses import dataclass

from inferwire_server.gil_thread import GilThread
from inferwire_server.service.access import AccessService
from inferwire_server.service.devices import DeviceService
from inferwire_server.service.health import HealthService
from inferwire_server.service.inference import InferenceService
from inferwire_server.service.jobs import JobService
from inferwire_server.service.logs import LogService
from inferwire_server.service.models import ModelService
from inferwire_server.service.refusals import Refusals
from inferwire_server.service.sessions import SessionService
from inferwire_server.service.shared_memory import SharedMemoryService
from inferwire_server.service.statistics import StatisticsService
from inferwire_server.service.tensors import TensorService
from inferwire_server.service.uploads import UploadService


@dataclass(frozen=True, slots=True)
class Services:
    """All that a transport may call.

    Attributes:
        gil_thread: Where work of any of them goes that would hold the event loop.
        is_tracing: Whether traces of inferences are sent anywhere.
    """

    access: AccessService
    health: HealthService
    inference: InferenceService
    jobs: JobService
    models: ModelService
    uploads: UploadService
    sessions: SessionService
    tensors: TensorService
    shared_memory: SharedMemoryService
    devices: DeviceService
    statistics: StatisticsService
    logs: LogService
    refusals: Refusals
    gil_thread: GilThread
    is_tracing: bool
