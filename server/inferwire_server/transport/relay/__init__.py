"""What the workers of one server ask of each other: calls that are not the business of the one they arrive at alone.

A *crew* is the workers of a server; the *lead* is the one that was started, the others are its *followers*. To one of
them the others are its *colleagues*. Workers are counted from 0 here, and from 1 where people read.
"""
