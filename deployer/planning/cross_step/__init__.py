"""Cross-step transfers begin in one step and end in another; fused launches share a start. Their choice."""
