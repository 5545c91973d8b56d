"""The REST face: the Open Inference Protocol, asynchronous jobs, health, metrics and the docs, over HTTP."""
