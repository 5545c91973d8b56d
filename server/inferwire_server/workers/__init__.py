"""The processes of a server that has more than one: their cores, their start, their end."""
