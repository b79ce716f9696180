"""Cross-step transfers: begin in one step and end in another; their choice, and the graph's code for them."""
