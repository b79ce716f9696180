"""Names of samplers and goals; nothing heavy is loaded for them."""

GRID, RANDOM, OPTUNA = SAMPLERS = ("grid", "random", "optuna")
GOALS = ("minimize", "maximize")
