"""The execution: compiled models, their slots, and a queue for each device; what runs them is behind `backend`."""
