"""The `inferwire` command: the one package that may reach both the server and the client.

It imports either side only when a command that needs it is called, so that a missing extra is named in a sentence.

- From words to an exit code: `command_line` has the `commands` by name, with their shared `options`; `exit_codes`,
  `extras` and `interrupts` are how they fail, `terminal` and `streams` how they print, `files` how they read and write.
- Commands: `bench`, `demo`, `infer`, `models` and `top` have folders, `serve` a module; `other_servers` has what stands
  here for the flags of others. `health` is no command, but a program of its own, for containers.
- Servers: `named_server` and `named_model` are those that a command line names, `http_address` and `server_http` are
  their HTTP, and a `server_process` is a server that a command itself starts.
"""
