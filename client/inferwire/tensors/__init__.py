"""Tensors and the memory behind them, here or on the server."""
