"""Many inferences at once, on a pool of requests."""
