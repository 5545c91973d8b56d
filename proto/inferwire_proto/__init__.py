"""The contract: all that client and server share."""
