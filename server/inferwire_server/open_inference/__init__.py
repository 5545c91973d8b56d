"""The Open Inference Protocol's messages, and its model configuration, which callers and model repositories bring."""
