"""The host simulator: what it runs, what it notices, and how it computes."""
