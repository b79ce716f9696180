"""Options of commands about machines; nothing heavy is loaded for them."""

import argparse

from deployer.commands.run_options import add_form, add_latent_replay
from deployer.commands.values import path, positive


def add_fits_options(p: argparse.ArgumentParser) -> None:
    """The model or the case, passes per update, and the boards."""
    text = "forward model, or folder of a training case"
    p.add_argument("model", type=path, metavar="model.onnx", help=text)
    p.add_argument(
        "--accumulate-grad-batches",
        type=positive,
        metavar="N",
        help="gradient accumulation: passes per update (default 1, or as recorded)",
    )
    text = "samples for the remedy of 8 bits: its ranges, and its metrics beside those of floats"
    p.add_argument("--data", type=path, metavar="FILE|FOLDER", help=text)
    add_latent_replay(p)
    add_form(p)
    board = "name of a board, or a board description NAME.toml; may be repeated (default: all boards)"
    p.add_argument("--board", action="append", default=[], metavar="NAME", help=board)


def add_hal_test_options(p: argparse.ArgumentParser) -> None:
    """The target."""
    p.add_argument("target", metavar="TARGET", help="target whose HAL runs on this machine or in an emulator")
