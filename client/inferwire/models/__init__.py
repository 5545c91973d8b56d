"""Models as programs hold them: files that were read, models compiled from them, graphs that a device runs."""
