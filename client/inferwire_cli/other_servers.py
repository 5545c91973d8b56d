"""What stands here for the flags of OpenVINO Model Server and Triton: those who come from there type them.

The pages docs/from-openvino-model-server.md and docs/from-triton.md say more of each.
"""

from __future__ import annotations

FLAGS = {
    "--allowed-origins": "--allow-origin",
    "--backend-config": "--property NAME=VALUE",
    "--batch-size": "batch in the model's inferwire.toml",
    "--config-path": "--config FILE",
    "--cpu-extension": "--extension FILE",
    "--exit-timeout-secs": "--grace-s",
    "--file-system-poll-wait-seconds": "--watch",
    "--grpc-address": "--host",
    "--grpc-bind-address": "--host",
    "--grpc-restricted-protocol": "--api-key-file",
    "--grpc-server-cert": "--tls-certificate",
    "--grpc-server-key": "--tls-key",
    "--grpc-use-ssl": "--tls-certificate and --tls-key",
    "--http-address": "--host",
    "--http-max-input-size": "--max-http-body-mb",
    "--http-restricted-api": "--api-key-file",
    "--id": "--server-name",
    "--layout": "[preprocessing] in the model's inferwire.toml",
    "--log-verbose": "--log-level debug",
    "--max-sequence-number": "--max-sequences",
    "--metrics-port": "--http-port, where /metrics is too",
    "--model-control-mode": "--allow-model-control or --watch",
    "--model-name": "--model NAME=FOLDER",
    "--model-path": "--model NAME=FOLDER",
    "--model-version-policy": "--version-policy",
    "--nireq": "--slots",
    "--plugin-config": "--property NAME=VALUE",
    "--port": "--grpc-port or --http-port",
    "--repository-poll-secs": "--watch",
    "--rest-bind-address": "--host",
    "--rest-port": "--http-port",
    "--sequence-cleaner-poll-wait-minutes": "--sequence-idle-s",
    "--shape": "[shapes] in the model's inferwire.toml",
    "--target-device": "--device",
    "--trace-config": "--traces",
}
"""Where theirs have underscores, these have hyphens."""
