"""Samples out of tables of text, and the record of what is taken from a source of samples."""
