"""The report of a run over epochs as a page: curves, what checks found, the timeline of a pass, memory and steps."""
