"""What describes tensors and inferences, and is no more than a value: types, shapes, layouts, scheduling."""
