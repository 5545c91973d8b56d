"""The server: compiled models, a queue per device, and the sockets in front of them."""
