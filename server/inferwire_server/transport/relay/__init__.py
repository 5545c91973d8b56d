"""What the workers of one server ask of each other: calls that are not the business of the one they arrive at alone."""
