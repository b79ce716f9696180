"""Samples from tables of text, and the record of the columns or arrays read from a source of samples."""
