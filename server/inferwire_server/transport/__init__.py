"""Sockets: every call is decoded, handed to one method of a service, and its answer encoded."""
