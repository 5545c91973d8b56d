"""The contract: all that client and server share.

- Messages: the stubs in `inferwire`, tensors' bytes beside them (`raw_fields`, `strings`), and sessions on plain
  sockets (`frames`).
- Tables: `element_types` and `errors`, and what each is called elsewhere; `preprocessing`, `properties`.
- Names: of ports (`port_names`), of outputs that are added (`added_outputs`), of models' files (`model_formats`).
- Values: `integers`, `bf16`, and what users are shown of OpenVINO's errors (`openvino_errors`).
- The system: `unix_sockets`, `low_water`, `lent_memory`, `ending_signals`, files that users name (`bounded_files`), and
  how programs read `flags`.
"""
