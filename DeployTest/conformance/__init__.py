"""The HAL that docs/porting.md shows, and faults in it."""
