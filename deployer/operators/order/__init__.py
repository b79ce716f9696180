"""The order of elements along an axis: where the extremum is, and which are the largest."""
