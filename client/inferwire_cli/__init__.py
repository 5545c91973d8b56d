"""The `inferwire` command: the one package that may reach both the server and the client.

It imports either side only once a command is called that needs it, so that a missing extra is named in a sentence.
"""
