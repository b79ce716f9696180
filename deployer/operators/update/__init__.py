"""What changes state: accumulators and weights."""
