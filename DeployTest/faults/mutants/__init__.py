"""Mutation of the compiler: small changes of its own source, each of which some test has to notice."""
