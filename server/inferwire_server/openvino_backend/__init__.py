"""OpenVINO as the engine's backend: all of the server that imports openvino."""
