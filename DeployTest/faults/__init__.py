<<<<<<< HEAD
"""Faults planted on purpose: malformed inputs, broken C, a broken compiler, and who notices."""
=======
"""Faults made on purpose, by the thousand: in inputs, in generated programs, and in the compiler itself."""
>>>>>>> 510a0c5 (Mutation of the compiler: sites in Python and C, tests by coverage, copies of the checkout)
