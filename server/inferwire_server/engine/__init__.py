"""The effects: compiled models, slots, threads and the folder they come from."""
