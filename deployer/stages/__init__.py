"""The stages of the compiler, one public `run` each."""
