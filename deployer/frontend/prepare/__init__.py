"""What is done to raw graphs before they are checked: rewrites that need no types."""
