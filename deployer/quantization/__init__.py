"""From a float model to one of 8 bits: what is frozen, ranges of values, the written graph, and what it loses."""
