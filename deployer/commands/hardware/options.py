"""Options of commands about machines; nothing heavy is loaded for them."""

import argparse

from deployer.commands.values import path, positive


def add_fits_options(p: argparse.ArgumentParser) -> None:
    """The model or the case, passes per update, and the boards."""
    text = "a forward model, or the folder of a training case"
    p.add_argument("model", type=path, metavar="model.onnx", help=text)
    p.add_argument("--n-accum", type=positive, metavar="N", help="passes per update (default 1, or as recorded)")
    board = "a board's name, or a file NAME.toml of your own; may be repeated (default: all)"
    p.add_argument("--board", action="append", default=[], metavar="NAME", help=board)


def add_hal_test_options(p: argparse.ArgumentParser) -> None:
    """The target."""
    p.add_argument("target", metavar="TARGET", help="a target whose HAL runs here, or on an emulator")
