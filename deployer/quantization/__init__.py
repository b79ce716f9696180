"""From a float model to one of 8 bits: what is frozen, ranges of its values, the written graph, and the loss of accuracy."""
