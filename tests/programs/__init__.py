"""Programs that others wrote for openvino, the protocol or metrics, run with a server. See `make programs`."""
