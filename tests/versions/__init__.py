"""The packages that inferwire stands on, as old and as new as they may be: `make versions` runs the tests with them."""
