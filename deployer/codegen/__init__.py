"""A plan to C: the render model, which templates print."""
