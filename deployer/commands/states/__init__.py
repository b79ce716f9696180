"""The command for images of states: what its words are, and what it does."""
