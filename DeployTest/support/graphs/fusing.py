"""Programs after fusion, verified."""

from deployer.core.ir import Program
from deployer.core.plan import Options
from deployer.planning import fuse
from deployer.verify.program import verify_program

EVERY = Options()
"""All rewrites that change no bit."""


def fused(program: Program, options: Options = EVERY) -> Program:
    """The program after fusion, verified."""
    fusion = fuse.fuse_program(program, options)
    verify_program(fusion)
    return fusion
