"""The learning rate of each update: schedules by declaration, and rates that a program reads when it runs."""
