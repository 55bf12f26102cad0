"""The command line; every command is one library call."""
