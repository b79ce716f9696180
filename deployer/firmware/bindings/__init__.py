"""A library in other languages: the Python module that loads it as a shared library."""
