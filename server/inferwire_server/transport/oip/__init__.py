"""What both faces of the Open Inference Protocol share. The stubs are used by gRPC, and by the overrides of a load."""
