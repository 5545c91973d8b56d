"""Fuzzing: `make fuzz` does some minutes of it, `targets` has the functions that get the bytes."""
