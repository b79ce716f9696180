"""Options of `deployer package`; nothing heavy is loaded for them."""

import argparse

from deployer.commands.values import budget, path, positive
from deployer.core.level import ALIASES


def add_package_options(p: argparse.ArgumentParser) -> None:
    """The case, the library's name, what it predicts, and the machine."""
    p.add_argument("case", type=path, metavar="CASE", help="folder of a training case")
    p.add_argument("--name", required=True, help="what the library is called, and what its symbols begin with")
    text = "value of the training graph that is predicted (default: what the loss compares with its target)"
    p.add_argument("--predict", default="", metavar="VALUE", help=text)
    p.add_argument("--n-steps", type=positive, metavar="N", help="passes of the example (default: as recorded)")
    p.add_argument("--n-accum", type=positive, metavar="N", help="passes per update (default: as recorded)")
    p.add_argument(
        "-p", "--platform", default="", metavar="TARGET", help="a target with one memory (default: any such)"
    )
    text = "limit of its memory, in which the struct has to fit"
    p.add_argument("--budget", type=budget, action="append", default=[], metavar="LEVEL=BYTES", help=text)
    text = "a core, for which it is compiled: manifest and README.md then have code by function and the stack's bound"
    p.add_argument("--core", default="", metavar="NAME", help=text)
    text = "write the library without compiling it by this machine's compiler, CC or gcc, first"
    p.add_argument("--no-compile", dest="compile", action="store_false", help=text)
    p.set_defaults(**dict.fromkeys(ALIASES))
