"""A session: what a client and the server say to each other, and the plain sockets that may carry it."""
