"""The gRPC face: inferwire.v1 and the Open Inference Protocol on one port."""
