"""Pages that describe runs: curves, confusion matrices, charts, names as text."""
