"""Elements that move: joined, cut, padded, repeated, permuted."""
