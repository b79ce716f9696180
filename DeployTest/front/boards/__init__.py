"""Libraries of modules and of runs, and the page from PyTorch to a board."""
