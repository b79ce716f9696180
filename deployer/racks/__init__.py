"""Racks: many simulated devices on one machine, each training by the code of a packaged library."""
