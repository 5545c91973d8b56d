"""What both interfaces of the Open Inference Protocol share.

- Inferences: `inference` and its answer, `parameters`, `datatypes`, and tensors in `shared_memory`.
- Models: `metadata`, `config`, `statistics`, and the `repository`, whose loads may `override` settings.
- `logs` and `tracing` are its extensions for operators.
"""
