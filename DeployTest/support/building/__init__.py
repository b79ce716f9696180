"""How cases are compiled and run: from Python, by the command line, on the tests' own targets, with edited files."""
