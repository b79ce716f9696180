"""Report of a run over epochs as a page: curves, results of checks, the timeline of a pass, memory and steps."""
