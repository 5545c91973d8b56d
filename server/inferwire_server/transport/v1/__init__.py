"""What the session and the calls of `inferwire.v1` share."""
