"""One file per operator; found by package scan, so that adding one is adding its file."""
