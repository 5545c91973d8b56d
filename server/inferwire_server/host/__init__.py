"""What a server has of its machine: files and folders, memory that callers share, and what the process may take."""
