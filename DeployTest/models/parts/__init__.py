"""What the models are made of: layers, dense chains, and the command line that all generators share."""
