"""Command line: options, the implementation of each command over the library, and exit codes."""
