"""Generated C to a verdict: built, run, reported."""
