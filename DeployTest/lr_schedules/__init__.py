"""Learning rates and their schedules, and the windows of passes that an update takes."""
