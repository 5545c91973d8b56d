"""The model repository: which models there are on disk, what their settings say, and which of them are served."""
