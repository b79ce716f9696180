"""The `package` action of `deployer lm`: a model in its folder as a library of C."""

import argparse

from deployer.commands.package import tell_library
from deployer.core.errors import OptionProblem
from deployer.firmware.library import Material
from deployer.firmware.model_library import ModelMaterial
from deployer.fitting.runs.run_files import is_run, read_run
from deployer.lm import folder
from deployer.lm.library import Example, language_material, trainer_material
from deployer.lm.training import RUN, read_start
from deployer.running.terminal import Terminal
from deployer.sizing.boards import core_of
from deployer.sizing.library_folder import write_library


def package(a: argparse.Namespace, console: Terminal) -> int:
    """Write the library that the command line asks for."""
    core = core_of(a.core) if a.core else None
    model = folder.read_model(a.folder, a.adapter)
    example = Example(a.prompt, a.tokens)
    shape = (a.name, a.sequences, a.chunk, model.tokenizer, example)
    with console.status("plan") as status:
        if a.train:
            if a.adapter:
                hint = "leave one out: --train goes on with the adapters of the last run, if it had some"
                raise OptionProblem("--adapter has no effect with --train", hint=hint)
            run = model.folder / RUN
            if not is_run(run):
                hint = f"`deployer lm train {a.folder}` first, or leave --train out"
                raise OptionProblem(f"{run} is not the folder of a run", hint=hint)
            case = read_run(run, optimizer_state=not a.reset_optimizer)
            made: Material | ModelMaterial = trainer_material(
                model.architecture, read_start(run), case, *shape, progress=status.update
            )
        else:
            made = language_material(
                model.architecture, model.weights, *shape, progress=status.update, adapters=model.adapters
            )
    library = write_library(made, a.output, core, a.compile, a.force, console.status)
    tell_library(library, a.output, console)
    return 0
