"""The same elements in another shape, and values that are known at compile time."""
