"""The command line: what it takes, prints, writes and how it ends."""
