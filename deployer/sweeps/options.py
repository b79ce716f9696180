"""Names of samplers and goals; nothing heavy is loaded for them."""

SAMPLERS = ("grid", "random", "optuna")
GOALS = ("minimize", "maximize")
