"""The contract: all that client and server share.

- Messages: the stubs in `inferwire`, tensors' bytes beside them (`raw_fields`, `strings`) or in memory that a client
  lends (`lent_memory`), and sessions on plain sockets (`frames`).
- Tables: `element_types` and `errors`, and what each is called elsewhere; `preprocessing`, `properties`.
- Names: of ports (`port_names`), of outputs that are added (`added_outputs`), of models' files (`model_formats`), in
  calls' metadata (`metadata`).
- Values: `bf16`, and what users are shown of OpenVINO's errors (`openvino_errors`).
- What is not of the wire: `host`, how programs of both sides read flags and files, heed signals and set up sockets, and
  what both do with `control_characters` of others before they show them.
"""
