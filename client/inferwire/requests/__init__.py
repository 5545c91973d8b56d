"""The inferences of one request: what it takes along, its way to the server and back, and what it gives."""
