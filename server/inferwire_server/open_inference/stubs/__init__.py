"""The Open Inference Protocol's messages, generated from proto/open_inference."""
