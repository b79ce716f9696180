"""`deployer package`: a training case as a library of C, in a folder."""

import argparse

from deployer import pipeline
from deployer.commands import ending, requests
from deployer.core import target as targets
from deployer.core.errors import DeployerWarning
from deployer.core.plan import Options
from deployer.firmware.bill import check_name
from deployer.firmware.library import library_files
from deployer.firmware.sources import library_rules
from deployer.running import output
from deployer.running.terminal import Terminal
from deployer.sizing.boards import core_of
from deployer.sizing.fits import with_sizes
from deployer.sizing.needs import material
from deployer.sizing.objects import compile_here


def package_case(a: argparse.Namespace, console: Terminal) -> int:
    """Write the library that the command line asks for."""
    name = check_name(a.name)
    core = core_of(a.core) if a.core else None
    target = targets.load(a.platform or library_rules().target)
    options = Options(target=target.name, budgets=requests.budgets_of(a, target) or None)

    def warn(warning: DeployerWarning) -> None:
        ending.tell(str(warning))

    case = pipeline.load_training(a.case, a.n_steps, a.accumulate_grad_batches, warn=warn)
    with console.status("plan") as status:
        made = material(case, name, options, a.predict, warn, status.update)
    files = library_files(made)
    if core:
        files = with_sizes(files, name, core)
    compiled = ""
    if a.compile:
        with console.status("compile"):
            compiled = compile_here(files, name)
    with output.opened(a.output, files, a.force):
        output.write(a.output, files, a.force)
        output.discard(a.output, set(output.listed(a.output)) - files.keys())
    tried = f", compiled with {compiled}" if compiled else ""
    console.lines(f"{a.output}: library {name}, {len(files)} files{tried}; see README.md")
    console.event("end", {"name": name, "files": sorted(files), "output": str(a.output), "compiler": compiled or None})
    return 0
