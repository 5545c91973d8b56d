"""What both faces of the Open Inference Protocol share."""
