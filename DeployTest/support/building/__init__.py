"""Compile and run cases: from Python, by the command line, on the tests' own targets, with edited files."""
