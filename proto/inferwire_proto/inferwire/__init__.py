"""Generated stubs, by the names of their protobuf packages."""
