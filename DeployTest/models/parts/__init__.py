"""Building blocks of the models: layers, dense chains, and the command line that all generators share."""
