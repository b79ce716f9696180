"""A library of a model without training: weights as constants, and memory for one prediction."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from deployer.codegen.harness import data_read
from deployer.core.artefact import digest
from deployer.core.errors import OptionProblem
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import target_of
from deployer.core.safe_text import json_text
from deployer.firmware import interface, pages, state
from deployer.firmware.common import CommonView, PlannedModel, described, library_tools, manifest, printed_files
from deployer.firmware.segments import segments
from deployer.firmware.steps import ONCE

WORDS_BESIDE = 2
"""Members of a struct beside its memory, of one word each."""


@dataclass(frozen=True, eq=False)
class ModelMaterial(PlannedModel):
    """Inputs of library generation for a model: its plan, and a sample for the example.

    `weights` are the first contents of weights that a program may replace; all others are constants.
    """

    inputs: Mapping[str, Array]
    weights: Mapping[str, Array] = field(default_factory=dict)


def check_outputs(program: Program) -> None:
    """Raise OptionProblem for an output that is an input or a constant."""
    idle = [name for name in program.outputs if program.tensors[program.storage(name)].role != "value"]
    if idle:
        facts = [("output", ", ".join(idle))]
        raise OptionProblem("the model computes nothing for an output", facts, "a model without that output")


def model_files(made: ModelMaterial) -> dict[str, str | bytes]:
    """The files of the library by their paths in its folder; the same material gives the same bytes."""
    library_tools(target_of(made.plan.options))
    view = _View(made)
    own = {
        f"include/{made.name}.h": "predict_header.h",
        f"src/{made.name}.h": "forward.h",
        f"src/{made.name}.c": "predict_network.c",
        f"src/{made.name}_own.h": "predict_own.h",
        f"src/{made.name}_weights.h": "weights.h",
        f"src/{made.name}_weights.c": "weights.c",
        "examples/main.c": "predict_main.c",
        f"examples/{made.name}_samples.h": "predict_samples.h",
        "README.md": "predict_README.md",
    }
    files = printed_files(view, own, {})
    files["manifest.json"] = json_text(manifest(view, files, _own_facts(view)))
    return dict(sorted(files.items()))


class _View(CommonView):
    """All that the templates of such a library print."""

    def __init__(self, made: ModelMaterial) -> None:
        plan, program = made.plan, made.program
        initial = state.initial_tensors(plan, program, made.weights)
        super().__init__(made, "Prediction", f"{made.name}: predictions of {made.case} as a library", initial)
        self.weight_views = interface.weight_views(plan, program, self.names, made.weights)
        self.weights, self.settable = len(self.weight_views), ONCE if made.weights else ()
        self.replaced = [described(made, name) for name in plan.weights if name in made.weights]
        self.weight_rows = pages.weight_rows(plan, program, made.weights)
        self.ready = int(hashlib.sha256(digest(plan).encode()).hexdigest()[:8], 16) | 1
        self.segments = segments(made.schedule)
        arrays = [np.asarray(made.inputs[n], program.tensors[n].type.dtype) for n in data_read(plan)]
        self.samples = tuple(pages.array_view(v, [x]) for v, x in zip(self.inputs, arrays, strict=True))
        self.struct_bytes = state.WORD * (self.words + WORDS_BESIDE)
        self.size_rows = pages.model_size_rows(
            self.name, self.struct_bytes, self.weight_bytes + self.frozen_words * state.WORD, self.steps.bytes
        )


def _own_facts(view: _View) -> dict[str, object]:
    """Members of the manifest of this kind of library alone: inputs and outputs."""
    made = view.made
    return {
        "inputs": [described(made, name) for name in made.plan.data],
        "output": [described(made, name) for name in made.plan.outputs],
        **({"weights": view.replaced} if view.replaced else {}),
    }
