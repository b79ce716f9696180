"""Defaults of the options of `deployer lm`; nothing is loaded for them."""

PRESET = "llama"
LOSS, OPTIMIZER = "cross_entropy", "adamw"
RATE = 1e-3
"""AdamW's usual learning rate."""
BATCH = 16
"""Sequences of a pass."""
STORIES = 2000
"""Stories of a text: about 750 kB."""
GENERATED = 100
"""Tokens that are generated."""
EXAMPLE = 20
"""Tokens of a library's example."""
RANK = 8
"""Rank of adapters."""
