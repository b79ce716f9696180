"""Readers of files from outside: whatever is wrong with a file, the command ends with 2 and names it."""
