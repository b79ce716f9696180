"""From generated C to a verdict: build, run and report."""
