"""HTTP: the Open Inference Protocol over REST, asynchronous jobs, health, metrics and the docs."""
