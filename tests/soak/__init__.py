"""A server under mixed load and faults for some minutes, which must be as it was before: `python -m tests.soak`."""
