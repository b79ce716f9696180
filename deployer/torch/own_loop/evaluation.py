"""Output of a module in evaluation mode, by generated C in this process, for any number of samples."""

import ctypes
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deployer.core.errors import DatasetMismatch, InternalError, OptionProblem
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.core.target import native
from deployer.fitting.engine import evaluated_program
from deployer.fitting.in_process import StepLibrary
from deployer.frontend import parse
from deployer.frontend.data_numbers import check_classes
from deployer.frontend.prepare import NO_AXES
from deployer.torch.capture import CapturedOutputs
from deployer.torch.objective_step import ObjectiveStep
from deployer.torch.objectives import Objective, scores_of
from deployer.torch.samples.conversion import Conversion
from deployer.torch.step import StepWalk
from deployer.torch.tracing.trace import trace_forward
from deployer.training.tensors.edits import NO_EDITS


class ModuleOutputs:
    """The compiled forward pass of a module in evaluation mode, for batches of a size.

    `is_tensor` says whether the module's output is one tensor, and nothing beside it.
    """

    def __init__(
        self,
        module: nn.Module,
        objective: Objective,
        batch: Mapping[str, Tensor],
        varying: Collection[str],
        conversion: Conversion,
        cores: int | None = None,
    ) -> None:
        """Compile it for a batch; the tensors of the names `varying` come with each call, others are constants."""
        self.names, self.conversion, self.is_tensor = objective.inputs, conversion, True
        inputs = {n: batch[n] for n in objective.inputs}

        def scores(module: nn.Module, *tensors: Tensor) -> Tensor:
            output = objective.output(module, *tensors)
            self.is_tensor = isinstance(output, Tensor)
            return scores_of(output)

        walk = StepWalk(trace_forward(module, scores, inputs))
        with tempfile.TemporaryDirectory(prefix="deployer-") as scratch:
            path = CapturedOutputs(walk.outputs()).save(Path(scratch) / "outputs.onnx")
            graph = parse.read_graphs(path, None, NO_AXES, NO_EDITS.apply).main
            known = [n for n in varying if n in graph.constants]
            program = evaluated_program(graph, known)
            self.library = StepLibrary(program, Options(native().name, cores=cores), Path(scratch) / "code")
        self.weights = [n for n in program.weights if n in self.library.tensors]
        [output] = program.outputs
        shape = program.tensors[output].type.shape  # a view of its storage may have another one
        self.output = self.library.tensors[program.storage(output)].reshape(shape)

    def of(self, data: Sequence[Any], named: Mapping[str, Any], weights: Mapping[str, Array]) -> Tensor:
        """The output for inputs in order or by name, with these weights by the module's names."""
        arrays = self._arrays(data, named)
        for name in self.weights:
            self.library.tensors[name][...] = weights[name].reshape(self.library.tensors[name].shape)
        count, size = len(arrays[0]), self.library.inputs[0].shape[0]
        results = [
            self._batch([x.take(range(i, i + size), 0, mode="wrap") for x in arrays]) for i in range(0, count, size)
        ]
        if count == size:
            return torch.from_numpy(results[0])
        if results[0].ndim == 0 or len(results[0]) != size:
            facts = [("output", str(list(results[0].shape))), ("batch", str(size))]
            hint = f"batches of {size}"
            raise DatasetMismatch(f"{count} samples, and the output has no row for each sample", facts, hint)
        return torch.from_numpy(np.concatenate(results)[:count])

    def _arrays(self, data: Sequence[Any], named: Mapping[str, Any]) -> list[Array]:
        given = [named[n] for n in self.names if n in named] if named else list(data)
        if len(given) != len(self.names) or len(named) > len(given):
            facts = [("expected", ", ".join(self.names)), ("found", ", ".join(named) or f"{len(data)} arrays")]
            raise DatasetMismatch("evaluate takes the module's inputs, and no target", facts, "one array for each")
        arrays = [self.conversion.array(x, wanted) for x, wanted in zip(given, self.library.inputs, strict=True)]
        for array, wanted in zip(arrays, self.library.inputs, strict=True):
            if array.shape[1:] != wanted.shape[1:] or not len(array):
                facts = [("compiled for", str(list(wanted.shape))), ("found", str(list(array.shape)))]
                raise DatasetMismatch(f"input {wanted.name!r} has another shape", facts, "samples of this shape")
        if len({len(x) for x in arrays}) > 1:
            raise OptionProblem("the inputs have different numbers of samples", hint="as many of each")
        return arrays

    def _batch(self, arrays: Sequence[Array]) -> Array:
        library = self.library
        pointers = (ctypes.c_void_p * len(arrays))(*(x.ctypes.data for x in arrays))
        if library.run(ctypes.addressof(pointers), 0, 0, ctypes.addressof(library.loss)):
            check_classes(
                library.program, dict(zip((x.name for x in library.inputs), arrays, strict=True)), "the batch:"
            )
            raise InternalError("the library refuses a number that its program takes")
        return self.output.copy()


def outputs_of(captured: ObjectiveStep, conversion: Conversion, cores: int | None = None) -> ModuleOutputs:
    """The outputs of a step's module, for batches as large as those that it trains on, with weights of each call."""
    varying = (*captured.step.gradients, *captured.step.states)
    return ModuleOutputs(captured.module, captured.objective, captured.batch, varying, conversion, cores)
