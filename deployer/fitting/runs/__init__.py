"""The files of a run, and what else than the run itself reads them."""
