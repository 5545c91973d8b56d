"""The messages of inferwire.v1."""
