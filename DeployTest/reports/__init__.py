"""Pages that describe runs: curves, confusion matrices, names as text."""
