"""The rules: jobs, queues, sessions, specs. Time is an argument; sockets and threads are elsewhere."""
