"""What a client knows of the graph of a model: its inputs and outputs, and the nodes behind them."""
