"""Options of `deployer sweep`; nothing heavy is loaded for them."""

import argparse

from deployer.commands.run_options import add_output
from deployer.commands.values import positive, seed
from deployer.sweeps.options import GOALS, SAMPLERS

BATCH = 8
SWEPT = ("fit", "train", "optimizer", "infer")
"""Commands that leave a report in their output folder."""


def add_sweep_options(p: argparse.ArgumentParser) -> None:
    """Varied options, the sampler, the number of runs, and their place."""
    command = f"after --: the command of each run, one of {', '.join(SWEPT)}, without its output"
    text = "{NAME} in a word stands for the value of --vary NAME, which without it becomes the option of that name"
    p.add_argument("words", nargs="+", metavar="-- command", help=f"{command}; {text}")
    space = p.add_argument_group("what is varied")
    text = "an option and its values: NAME=A,B,C, NAME=LOW:HIGH:STEP, or for drawn values NAME=LOW:HIGH or"
    text += " NAME=log:LOW:HIGH; may be repeated"
    space.add_argument("--vary", action="append", required=True, metavar="NAME=VALUES", help=text)
    text = "who chooses values of the runs: all combinations, a random generator, or a study of Optuna (default grid)"
    space.add_argument("--sampler", choices=SAMPLERS, default=SAMPLERS[0], help=text)
    text = "number of runs; of a grid the first ones (default: the whole grid)"
    space.add_argument("--runs", type=positive, metavar="N", help=text)
    text = f"runs that Optuna proposes at once, whatever the number of workers (default {BATCH})"
    space.add_argument("--at-once", type=positive, metavar="N", help=text)
    space.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of random and optuna (default 0)")
    for way in GOALS:
        text = f"{way} a column of the table, such as loss, validation_accuracy, or train_cycles; may be"
        text += " repeated: of several goals the page shows the runs that no other one beats"
        space.add_argument(f"--{way}", action="append", default=[], metavar="COLUMN", help=text)
    machine = p.add_argument_group("where runs go")
    text = "runs at the same time on this machine (default 1)"
    machine.add_argument("--workers", type=positive, metavar="N", help=text)
    text = "run on the workers of a Dask cluster, which have this program and see the same files"
    machine.add_argument("--scheduler", default="", metavar="ADDRESS", help=text)
    add_output(p, "output folder of table.csv, sweep.html and the runs; those that are there are not run again", True)
