"""What keeps the committed tables of benchmarks right: their commits, the work of planning, one command for all."""
