"""The server: compiled models, a queue per device, and the sockets in front of them.

- Its layers, each on those before it: `core` (rules without I/O), `engine` (queues, slots, threads), `repository`
  (models on disk), `service` (one method per call), `transport` (sockets), `workers` (processes that share the ports).
- What these stand on: `openvino_backend`, `host` (the machine), `open_inference` (the protocol's messages).
- What puts them together: `process` is one process from start to exit code, `server` what it does in which order,
  `composition` all behind the `sockets`. `settings` are the flags, and `from_settings` what each part is told of them;
  `renewals` are files read again meanwhile, `stop` is how the end is asked for, and `crew` who the workers are.
- What operators see: `metrics`, and `tallies` for them; `traces`; `logs`, with `log_options` and `log_lines`.
- What several of them use: `errors`, `bugs`, `call_threads`, `gil_thread`, `seldom` and `to_the_end`.
"""
