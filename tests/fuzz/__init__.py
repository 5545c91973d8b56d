"""Bytes nobody meant: `make fuzz` for some minutes of them, `targets` for what they are given to."""
