"""The REST interface: the Open Inference Protocol, asynchronous jobs, health, metrics and the docs, over HTTP.

- The `app` has all `routes`; it finds the quick ones before the framework looks. `documentation` is what the OpenAPI
  document says of them. Before the app come `key_check` and `cross_origin`.
- Endpoints, by what they are about: `oip_routes`, `job_routes`, `repository_routes`, `log_routes`,
  `shared_memory_routes`, `model_server_routes` (OpenVINO Model Server's own) and `server_routes`.
- An inference goes from its body to its answer's in `inference_answers`. `oip_request` and `oip_answer` are the JSON
  documents, `json_elements` the tensors in them, and `binary_extension` those behind them.
"""
