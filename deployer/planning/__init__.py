"""The checked program to a plan: order of steps, lifetimes, tiles, addresses, and the timeline they give."""
