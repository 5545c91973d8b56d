"""The rules: jobs, queues, sessions, specs, API keys; and the values of them that every layer knows.

Time is an argument; sockets and threads are elsewhere.
"""
