"""A float model to one of 8 bits: selection, folding, calibration, writing, and a comparison of both."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper

from deployer.core.errors import GraphProblem
from deployer.core.ir import Program, TensorType
from deployer.core.operator import Array
from deployer.frontend.model_file import load_model
from deployer.frontend.prepare import NO_AXES, Axes
from deployer.frontend.quantized.model import is_quantized
from deployer.quantization.calibration import batches, calibrate, program_of, run_batch
from deployer.quantization.choice import chosen, layers
from deployer.quantization.folding import fold, without_negative_axis
from deployer.quantization.graph import FloatGraph, label
from deployer.quantization.options import Quantization
from deployer.quantization.report import LayerRow, Noise, QuantizedModel
from deployer.quantization.selection import frozen_part
from deployer.quantization.writing import Written, check_versions, write
from deployer.running.output import replace_file
from deployer.training.order import Samples

Measure = Callable[[Array, Mapping[str, Array]], Mapping[str, float]]
"""Metrics of the first output for all samples, beside the samples' arrays."""


class ModelToQuantize:
    """A float model with the part of it that is to be quantized; its data inputs are known before its samples."""

    def __init__(self, path: Path, how: Quantization, axes: Axes = NO_AXES) -> None:
        """Read it; raises what reading raises, and errors of the options that do not fit it."""
        self.path, self.how, self.axes = path, how, axes
        model = load_model(path)
        found = next((node for node in model.graph.node if is_quantized(node)), None)
        if found is not None:
            cause = f"{path} is quantized already: node {label(found)!r} ({found.op_type})"
            raise GraphProblem(cause, hint="the float model that it was made of")
        self.graph = FloatGraph(model)
        check_versions(self.graph, how.per_channel)
        part = frozen_part(self.graph, how.freeze)
        self.graph.types = _types(program_of(path, self.graph.proto(), axes))
        inner = {id(node) for node in part}
        self.folded = fold(self.graph, inner)
        self.part = [node for node in self.graph.nodes if id(node) in inner]
        for node in self.part:
            without_negative_axis(node, len(self.graph.types[node.output[0]].shape) if node.op_type == "Concat" else 0)
        self.choice = chosen(self.graph, self.part)
        if not layers(self.graph, self.choice):
            facts = [(name, reason) for name, reason in self.choice.float_nodes.items()]
            raise GraphProblem(
                f"no layer of {path} can be quantized", facts, "Conv, Gemm or MatMul with constant weights"
            )
        self.program = program_of(path, self.graph.proto(), axes)

    @property
    def inputs(self) -> dict[str, TensorType]:
        """The types of the data inputs."""
        return {name: self.program.tensors[name].type for name in self.program.data}

    @property
    def output(self) -> TensorType:
        """The type of the first output."""
        return self.program.tensors[self.program.outputs[0]].type

    def write(self, samples: Samples, out: Path, measure: Measure | None = None) -> QuantizedModel:
        """Write the quantized model; returns how far it is from the float one over the samples that calibrate it."""
        roots = list(dict.fromkeys(self.choice.quantized.values()))
        scalings = calibrate(self.program, samples, roots, self.how)
        nodes = [node for node in self.graph.nodes if id(node) in self.choice.integers]
        written = write(self.graph, self.choice, scalings, self.how.per_channel)
        noises, found = self._compared(written, samples, measure)
        rows = []
        for node in nodes:
            value = self.choice.integers[id(node)]
            scaling, noise = scalings[self.choice.quantized[value]], noises[value]
            frame = value, float(scaling.scale), scaling.zero, noise.decibels, noise.relative
            rows.append(LayerRow(label(node), node.op_type, *frame, written.weight_scales.get(id(node))))
        replace_file(out, written.model.SerializeToString(deterministic=True))
        outputs = {name: noises[name].decibels for name in self.program.outputs}
        told = self.choice.float_nodes, self.folded, written.before, written.after
        return QuantizedModel(out, samples.count, tuple(rows), *told, outputs, *found)

    def _compared(
        self, written: Written, samples: Samples, measure: Measure | None
    ) -> tuple[dict[str, Noise], tuple[Mapping[str, float], Mapping[str, float]]]:
        """The noise of values and of outputs, and what is measured of the float outputs and of the others."""
        outputs = list(self.program.outputs)
        names = list(dict.fromkeys([*self.choice.integers.values(), *outputs]))
        there = {name: written.dequantized.get(name, name) for name in names}
        program = program_of(self.path, _with_outputs(written.model, list(there.values())), self.axes)
        noises, results = {name: Noise() for name in names}, (list[Array](), list[Array]())
        for inputs, count in batches(samples):
            floats = run_batch(self.program, inputs, names)
            others = run_batch(program, inputs, list(there.values()))
            for name in names:
                noises[name].add(floats[name], others[there[name]])
            for rows, found in zip(results, (floats[outputs[0]], others[there[outputs[0]]]), strict=True):
                rows.append(found[: len(found) * count // samples.batch] if found.ndim else found)
        if measure is None:
            return noises, ({}, {})
        before, after = (measure(np.concatenate(rows), samples.arrays) for rows in results)
        return noises, (before, after)


def _types(program: Program) -> dict[str, TensorType]:
    return {name: tensor.type for name, tensor in program.tensors.items()}


def _with_outputs(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """The model with more outputs."""
    made = ModelProto()
    made.CopyFrom(model)
    there = {value.name for value in made.graph.output}
    for name in dict.fromkeys(names):
        if name not in there:
            made.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    return made
