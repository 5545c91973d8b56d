"""Measures the ways to run one model, in one run on one machine. `make bench` runs it; no test does."""
