"""Tests of a library's module of Python."""
