"""Programs from PyPI that were written for openvino, run with openvino and with a server. See `make programs`."""
