"""The command line: its options, what each command does with the library, and how a command ends."""
