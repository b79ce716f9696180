"""Options of commands about machines; nothing heavy is loaded for them."""

import argparse

from deployer.commands.run_options import add_form, add_latent_replay
from deployer.commands.values import numbers, path, positive, seed


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


def add_rack_options(p: argparse.ArgumentParser) -> None:
    """The case, the machine, and what each device has of its own."""
    p.add_argument("case", type=path, metavar="CASE", help="folder of a training case")
    text = "target that is a rack (default: the first one)"
    p.add_argument("-p", "--platform", default="", metavar="TARGET", help=text)
    p.add_argument("--replicas", type=positive, default=1, metavar="N", help="number of devices (default: 1)")
    p.add_argument("--n-steps", type=positive, metavar="N", help="passes of each device (default: as recorded)")
    p.add_argument(
        "--accumulate-grad-batches",
        "--n-accum",
        type=positive,
        metavar="N",
        help="gradient accumulation: passes per update (default: as recorded)",
    )
    text = "learning rates, separated by commas: device i has the i-th, and the first follows the last"
    p.add_argument("--lr", type=numbers, metavar="RATES", help=text)
    text = "device i takes the passes in an order drawn from N and i (default: all take that of the case)"
    p.add_argument("--seed", type=seed, metavar="N", help=text)
    text = "lanes of a group: those that share a device, or devices of a lane each (default: by size)"
    p.add_argument("--lanes", type=positive, metavar="N", help=text)
    text = "emulate the machine by threads of this one, with the same bits"
    p.add_argument("--emulate", action="store_true", help=text)
