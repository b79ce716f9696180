"""Loop programs: steps and graphs as loops over tiles with transfers, which are printed as C and run on a clock."""
