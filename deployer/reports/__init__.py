"""Reports: the page of a run, the memory map, and the facts that report.json shares with them."""
