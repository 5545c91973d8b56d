"""What the OpenAPI document says of the endpoints, beyond their docstrings: schemas and examples.

Words only. Nothing is validated with it; a test holds it against the routes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from inferwire_proto.errors import Code
from inferwire_server.core.version_states import VersionState
from inferwire_server.service.jobs import LONGEST_WAIT_S

Fragment: TypeAlias = dict[str, Any]

TITLE = "inferwire"

DESCRIPTION = """\
OpenVINO inference over HTTP: the Open Inference Protocol (KServe v2) with its binary tensor extension,
and asynchronous jobs, which are started, waited for, collected and cancelled by id.

Every error is `{"error": "a sentence", "code": "NAME"}`. Programs branch on the code; people read the sentence.
The answer to each HTTP request has the header `x-request-id`: the caller's own, if that is printable ASCII of up to 128
characters, or a new one.
"""

STYLE = """\
<style>
@media (max-width: 640px) {
  .swagger-ui .opblock-tag { flex-wrap: wrap; }
  .swagger-ui .opblock-tag a { flex: 1; }
  .swagger-ui .opblock-tag small { flex: 1 0 100%; order: 1; padding: 0; }
}
</style>
"""
"""What the page needs on a phone, where its own style leaves a tag's description the width of a letter."""

KEY_SCHEMES: Fragment = {
    "key": {"type": "http", "scheme": "bearer", "description": "One of the API keys in the operator's --api-key-file."}
}
KEY_NEEDED: list[Fragment] = [{"key": []}]
"""Where the server asks for keys: what they are, and that each call needs one unless it says otherwise."""

TAGS: list[Fragment] = [
    {"name": "Open Inference Protocol", "description": "Calls of Triton, KServe and OpenVINO Model Server clients."},
    {"name": "Asynchronous jobs", "description": "Inferences that are started now and collected later."},
    {"name": "OpenVINO Model Server", "description": "The configuration endpoints that its operators' scripts call."},
    {"name": "Server", "description": "Devices, models and metrics."},
]


def _string(description: str, **more: object) -> Fragment:
    return {"type": "string", "description": description, **more}


def _object(required: list[str], **properties: Fragment) -> Fragment:
    return {"type": "object", "required": required, "properties": properties}


def _array(items: Fragment, description: str = "") -> Fragment:
    return {"type": "array", "items": items} | ({"description": description} if description else {})


def _ref(name: str) -> Fragment:
    return {"$ref": f"#/components/schemas/{name}"}


_SHAPE = _array({"type": "integer"}, "Lengths of the dimensions, the batch included.")
_PARAMETERS: Fragment = {"type": "object", "additionalProperties": {"type": ["boolean", "number", "string"]}}
_STATE = _string("The job's state.", enum=["queued", "running", "finished", "failed", "cancelled", "expired"])

SCHEMAS: Fragment = {
    "Error": _object(
        ["error", "code"],
        error=_string("What is wrong: what it is about, what it was, and what was expected."),
        code=_string("The code for programs to branch on.", enum=[code.name for code in Code]),
    ),
    "Tensor": _object(
        ["name", "datatype", "shape"],
        name=_string("The input's or output's name."),
        datatype=_string("BOOL, INT8 to INT64, UINT8 to UINT64, FP16, BF16, FP32, FP64 or BYTES."),
        shape=_SHAPE,
        data=_array({}, "Elements in row-major order, nested or flat; absent if the tensor is binary."),
        parameters=_PARAMETERS,
    ),
    "WantedOutput": _object(["name"], name=_string("The output's name."), parameters=_PARAMETERS),
    "InferenceRequest": _object(
        ["inputs"],
        id=_string("Any text; the answer repeats it."),
        parameters=_PARAMETERS,
        inputs=_array(_ref("Tensor")),
        outputs=_array(_ref("WantedOutput"), "The outputs to return; all of them if none is named."),
    ),
    "InferenceAnswer": _object(
        ["model_name", "outputs"],
        model_name=_string("The model."),
        model_version=_string("The version that answered."),
        id=_string("The request's id, if it gave one."),
        outputs=_array(_ref("Tensor")),
    ),
    "Job": _object(
        ["id", "state", "model_name"],
        id=_string("The job's id, for the paths of the other calls."),
        state=_STATE,
        model_name=_string("The model."),
        model_version=_string("The version it runs on."),
        error=_string("Why the job has no outputs."),
        code=_string("The error's code."),
        timings=_object(
            [],
            queue_us={"type": "integer"},
            inference_us={"type": "integer"},
            total_us={"type": "integer"},
        ),
        profile=_array({"type": "object"}, "What each layer took, of a job that was started with profile=true."),
    ),
    "ModelMetadata": _object(
        ["name", "inputs", "outputs"],
        name=_string("The model."),
        versions=_array({"type": "string"}, "The versions that are ready."),
        platform=_string("openvino"),
        inputs=_array(_ref("Tensor")),
        outputs=_array(_ref("Tensor")),
        rt_info={"type": "object", "description": "Metadata in the model's file, by name: texts or objects."},
    ),
}

PATH_PARAMETERS: dict[str, Fragment] = {
    name: {"name": name, "in": "path", "required": True, "schema": _string(description)}
    for name, description in {
        "model": "The model's name.",
        "version": "The model's version, a number.",
        "job": "The job's id.",
        "region": "The name of a region of shared memory.",
    }.items()
}


def _error(sentence: str, code: Code) -> Fragment:
    return {"application/json": {"schema": _ref("Error"), "example": {"error": sentence, "code": code.name}}}


ERRORS: Fragment = {
    "4XX": {
        "description": "The call is at fault, or comes too early: with QUEUE_FULL (429), the header Retry-After says "
        "for how many seconds to wait.",
        "content": _error("input 'x' of model 'echo' has shape [1,3], expected [?,4]", Code.INVALID_INPUT),
    },
    "5XX": {
        "description": "The server could not do it, or the inference failed: with INFERENCE_FAILED, OpenVINO refused "
        "to run these inputs, and would again.",
        "content": _error("the server is shutting down", Code.SHUTTING_DOWN),
    },
}


def _responds(description: str, schema: Fragment, example: object = None, status: int = 200) -> Fragment:
    media: Fragment = {"schema": schema} if example is None else {"schema": schema, "example": example}
    return {"responses": {str(status): {"description": description, "content": {"application/json": media}}}}


def _query(name: str, schema: Fragment, description: str) -> Fragment:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


_EXAMPLE_REQUEST: Fragment = {
    "id": "42",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [[0.1, 0.2, 0.3, 0.4]]}],
    "outputs": [{"name": "y"}],
}
_EXAMPLE_ANSWER: Fragment = {
    "model_name": "echo",
    "model_version": "1",
    "id": "42",
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 4], "data": [0.1, 0.2, 0.3, 0.4]}],
}
_EXAMPLE_JOB: Fragment = {"id": "5f3a8e0c1b2d4e6f", "state": "queued", "model_name": "echo", "model_version": "1"}
_ENDED_JOB = {
    **_EXAMPLE_JOB,
    "state": "finished",
    "timings": {"queue_us": 120, "inference_us": 850, "total_us": 970},
}

_BODY: Fragment = {
    "parameters": [
        {
            "name": "Inference-Header-Content-Length",
            "in": "header",
            "required": False,
            "schema": {"type": "integer"},
            "description": "The length of the JSON document if binary tensors follow it; 0 for one raw tensor.",
        }
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _ref("InferenceRequest"), "example": _EXAMPLE_REQUEST},
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    },
}


def _answers(description: str) -> Fragment:
    content: Fragment = {
        "application/json": {"schema": _ref("InferenceAnswer"), "example": _EXAMPLE_ANSWER},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    }
    headers = {
        name: {"schema": {"type": "integer"}, "description": text}
        for name, text in {
            "Inference-Header-Content-Length": "The length of the JSON document if binary tensors follow it.",
            "inferwire-queue-us": "Microseconds that the job waited in the queue.",
            "inferwire-inference-us": "Microseconds that it ran on the device.",
            "inferwire-total-us": "Microseconds from its admission to its end.",
        }.items()
    }
    return {"responses": {"200": {"description": description, "content": content, "headers": headers}}}


INFER: Fragment = _BODY | _answers("The outputs.")
START: Fragment = {
    **_BODY,
    "parameters": [
        *_BODY["parameters"],
        _query("profile", {"type": "boolean", "default": False}, "Time each layer, for the job's state."),
    ],
    **_responds("The job is queued; the header Location has its path.", _ref("Job"), _EXAMPLE_JOB, 202),
}
CANCEL: Fragment = _responds("The job's state now.", _ref("Job"), {**_EXAMPLE_JOB, "state": "cancelled"})
WAIT: Fragment = {
    "parameters": [
        _query(
            "wait_s",
            {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT_S, "default": 0},
            "How many seconds to wait for the job's end.",
        )
    ],
    **_responds("The job's state now.", _ref("Job"), _ENDED_JOB),
}
RESULT: Fragment = {
    "parameters": [
        _query("release", {"type": "boolean", "default": False}, "Delete the job and its result after this answer.")
    ],
    **_answers("The outputs, in the form the job's request asked for."),
}

_BOOLEAN: Fragment = {"type": "boolean"}
_MODEL_READY = _object(["name", "ready"], name=_string("The model."), ready=_BOOLEAN)
_EXAMPLE_METADATA: Fragment = {
    "name": "echo",
    "versions": ["1"],
    "platform": "openvino",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
}
_EXAMPLE_SERVER = {"name": "inferwire", "version": "0.1.0", "extensions": ["binary_tensor_data"]}

LIVE: Fragment = _responds("The server is alive.", _object(["live"], live=_BOOLEAN), {"live": True})
READY: Fragment = _responds("The server is ready.", _object(["ready"], ready=_BOOLEAN), {"ready": True})
MODEL_READY: Fragment = _responds("The model is ready.", _MODEL_READY, {"name": "echo", "ready": True})
MODEL_METADATA: Fragment = _responds("The model's inputs and outputs.", _ref("ModelMetadata"), _EXAMPLE_METADATA)
MODEL_CONFIG: Fragment = _responds("The model's configuration.", {"type": "object"})
_DURATION = _object(["count", "ns"], count={"type": "integer"}, ns={"type": "integer"})
_PHASES = {f"compute_{phase}": _DURATION for phase in ("input", "infer", "output")}
_STATISTICS = _object(
    ["name", "version", "inference_count", "execution_count", "inference_stats", "batch_stats"],
    name=_string("The model."),
    version=_string("Its version."),
    last_inference={
        "type": "integer",
        "description": "When the last one ended, in milliseconds since 1970; 0 if never.",
    },
    inference_count={"type": "integer", "description": "Rows inferred."},
    execution_count={"type": "integer", "description": "Inferences run, each for one or more requests."},
    inference_stats=_object(
        [],
        **dict.fromkeys(("success", "fail", "queue", "cache_hit", "cache_miss"), _DURATION),
        **_PHASES,
    ),
    batch_stats=_array(_object(["batch_size"], batch_size={"type": "integer"}, **_PHASES)),
)
STATISTICS: Fragment = _responds("Counts and times.", _object(["model_stats"], model_stats=_array(_STATISTICS)))
_IDENTITY: Fragment = {"name": _string("The server's name."), "version": _string("Its version.")}
_SERVER_METADATA = _object(
    ["name", "version", "extensions"],
    **_IDENTITY,
    extensions=_array({"type": "string"}, "What it has beyond the protocol."),
)
_LINKS = _object(
    [], **{name: {"type": "string"} for name in ("docs", "openapi", "ready", "models", "devices", "metrics")}
)
_DEVICE = _object(
    ["name", "full_name", "running", "slots", "queued", "queue_capacity"],
    name=_string("The device, as CPU."),
    full_name=_string("What it is called by its maker."),
    running={"type": "integer", "description": "Inferences that run."},
    slots={"type": "integer", "description": "How many may run at once."},
    queued={"type": "integer", "description": "Jobs that wait."},
    queue_capacity={"type": "integer", "description": "How many may wait."},
)
_VERSION = _object(
    ["name", "version", "state"],
    name=_string("The model."),
    version=_string("Its version."),
    state=_string("What the version is doing.", enum=[state.value for state in VersionState]),
    reason=_string("Why the version is not ready, or why its last reload failed; absent if there is none."),
)
SERVER_METADATA: Fragment = _responds("Name, version, extensions.", _SERVER_METADATA, _EXAMPLE_SERVER)
LANDING: Fragment = _responds("Name, version, links.", _object(["name", "version", "links"], **_IDENTITY, links=_LINKS))
DEVICES: Fragment = _responds("The devices and their load.", _object(["devices"], devices=_array(_DEVICE)))
NAMES: Fragment = _responds("The names.", _object(["models"], models=_array(_string("A model."))))
MODELS: Fragment = _responds("The models and their states.", _object(["models"], models=_array(_VERSION)))
_INDEX_ENTRY = _object(
    ["name", "version", "state", "reason"],
    name=_string("The model."),
    version=_string("Its version."),
    state=_string("The version's state.", enum=["READY", "LOADING", "UNLOADING", "UNAVAILABLE"]),
    reason=_string("Why the version is not ready, or why its last reload failed."),
)
_EXAMPLE_INDEX = [{"name": "echo", "version": "1", "state": "READY", "reason": ""}]


def _optional_body(**properties: Fragment) -> Fragment:
    return {"requestBody": {"required": False, "content": {"application/json": {"schema": _object([], **properties)}}}}


def _optional_settings(**properties: Fragment) -> Fragment:
    schema = {**_object([], **properties), "additionalProperties": False}
    return {"requestBody": {"required": False, "content": {"application/json": {"schema": schema}}}}


def _done(description: str) -> Fragment:
    return {"responses": {"200": {"description": description}}}


INDEX: Fragment = {
    **_optional_body(ready={"type": "boolean", "default": False, "description": "List ready models only."}),
    **_responds("The versions of the models.", _array(_INDEX_ENTRY), _EXAMPLE_INDEX),
}
_LOAD_PARAMETERS: Fragment = {
    "type": "object",
    "properties": {"config": _string("A model configuration, as JSON text.")},
    "additionalProperties": False,
}
LOAD: Fragment = _optional_body(parameters=_LOAD_PARAMETERS) | _done("The model is ready.")
_LOG_SETTINGS: Fragment = {
    "log_file": {"type": "string", "const": ""},
    "log_info": {"type": "boolean"},
    "log_warning": {"type": "boolean"},
    "log_error": {"type": "boolean"},
    "log_verbose_level": {"type": "integer", "minimum": 0, "description": "Above 0, debug events are logged too."},
    "log_format": {"type": "string", "const": "ISO8601"},
}
_EXAMPLE_LOG_SETTINGS: Fragment = {
    "log_file": "",
    "log_format": "ISO8601",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
}
LOG_SETTINGS: Fragment = _responds("The log settings in force.", _object([], **_LOG_SETTINGS), _EXAMPLE_LOG_SETTINGS)
SET_LOG_SETTINGS: Fragment = _optional_settings(**_LOG_SETTINGS) | LOG_SETTINGS
TRACE_SETTINGS: Fragment = _responds("The trace settings.", {"type": "object"}, {"trace_level": ["OFF"]})
_TRACE_VALUES = _array({"type": "string"})
SET_TRACE_SETTINGS: Fragment = TRACE_SETTINGS | _optional_settings(
    trace_level=_array({"type": "string", "enum": ["OFF", "TIMESTAMPS"]}),
    trace_rate=_TRACE_VALUES,
    trace_count=_TRACE_VALUES,
    log_frequency=_TRACE_VALUES,
    trace_file=_TRACE_VALUES,
    trace_mode=_TRACE_VALUES,
)
UNLOAD: Fragment = _optional_body(parameters={"type": "object"}) | _done("The model is unloaded.")
_REGION = _object(
    ["name", "key", "offset", "byte_size"],
    name=_string("The name by which tensors refer to the region."),
    key=_string("The name of the shared memory itself."),
    offset={"type": "integer", "description": "Where the region begins in the shared memory, in bytes."},
    byte_size={"type": "integer", "description": "The region's length, in bytes."},
)
_EXAMPLE_REGIONS = [{"name": "pictures", "key": "/camera_0", "offset": 0, "byte_size": 602112}]
_NEW_REGION = _object(
    ["key", "byte_size"], **{part: _REGION["properties"][part] for part in ("key", "offset", "byte_size")}
)

REGISTER_REGION: Fragment = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": _NEW_REGION}}},
    **_done("The region is registered."),
}
REGIONS: Fragment = _responds("The regions.", _array(_REGION), _EXAMPLE_REGIONS)
UNREGISTER_REGIONS: Fragment = _done("No such region is registered any more.")
REGISTER_CUDA: Fragment = {"responses": {}}
CUDA_REGIONS: Fragment = _responds("An empty list.", _array({}), [])
METRICS: Fragment = {
    "responses": {"200": {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}}
}
_EXAMPLE_CONFIG = {
    "echo": {
        "model_version_status": [
            {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": "OK"}}
        ]
    }
}
CONFIG: Fragment = _responds("The states of the models.", {"type": "object"}, _EXAMPLE_CONFIG)
RELOAD: Fragment = {
    "responses": {
        **_responds("Nothing had changed.", {"type": "object"}, _EXAMPLE_CONFIG)["responses"],
        **_responds("The changes are loaded.", {"type": "object"}, _EXAMPLE_CONFIG, 201)["responses"],
    }
}
