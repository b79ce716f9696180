"""The command for images of states: its options and its implementation."""
