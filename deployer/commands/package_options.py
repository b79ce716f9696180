"""Options of `deployer package`; nothing heavy is loaded for them."""

import argparse

from deployer.commands.run_options import add_axes, add_canonical_batch, add_form, add_latent_replay
from deployer.commands.values import budget, path, positive
from deployer.core.level import ALIASES


def add_package_options(p: argparse.ArgumentParser) -> None:
    """The case, the library's name, what it predicts, and the machine."""
    text = (
        "folder of a training case, or of a run that `deployer fit` or deployer.torch.train wrote; or a model's file,"
        " which gives a library that only predicts"
    )
    p.add_argument("case", type=path, metavar="CASE", help=text)
    p.add_argument(
        "--name", required=True, help="name of the library and prefix of its symbols: a-z, 0-9, single underscores"
    )
    text = "value of the training graph that predict returns (default: the loss's prediction operand)"
    p.add_argument("--predict", default="", metavar="VALUE", help=text)
    text = "of a run: begin with the weights of the best epoch or of the last pass (default: best with validation)"
    p.add_argument("--weights", choices=("best", "last"), default="", help=text)
    text = "of a run: begin with an empty state of the optimizer, which needs less flash (default: that of the run)"
    p.add_argument("--reset-optimizer", action="store_true", help=text)
    text = "of a run of a PyTorch module: samples of a prediction, 1 or the batch of the run (default: 1)"
    p.add_argument("--predict-batch", type=positive, metavar="N", help=text)
    add_latent_replay(p)
    p.add_argument(
        "--n-steps", type=positive, metavar="N", help="passes of the generated example (default: as recorded)"
    )
    p.add_argument(
        "--accumulate-grad-batches",
        "--n-accum",
        type=positive,
        metavar="N",
        help="gradient accumulation: passes per update (default: as recorded)",
    )
    p.add_argument(
        "-p",
        "--platform",
        default="",
        metavar="TARGET",
        help="target with one memory level (default: the first that `deployer targets` lists)",
    )
    text = "memory budget of the level for the library's struct, in bytes (default: the target's)"
    p.add_argument("--budget", type=budget, action="append", default=[], metavar="LEVEL=BYTES", help=text)
    add_form(p)
    add_canonical_batch(p)
    text = (
        "also compile for this core of cores.toml, such as cortex-m4; the manifest and README.md then have code sizes"
        " and a stack bound"
    )
    p.add_argument("--core", default="", metavar="NAME", help=text)
    text = (
        "also write a module NAME.py of Python: a class over the shared library that `make shared` builds, with the"
        " bits of the library on a board"
    )
    p.add_argument("--python", action="store_true", help=text)
    add_axes(p.add_argument_group("of a model's file"))
    text = "do not test-compile the library with the host compiler (CC or gcc)"
    p.add_argument("--no-compile", dest="compile", action="store_false", help=text)
    p.set_defaults(**dict.fromkeys(ALIASES))
