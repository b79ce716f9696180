"""A float model to one of 8 bits: selection, folding, calibration, writing, and a comparison of both."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper

from deployer.core.errors import GraphProblem, OptionProblem
from deployer.core.ir import Program, TensorType
from deployer.core.operator import Array
from deployer.frontend.model_file import load_model
from deployer.frontend.prepare import NO_AXES, Axes
from deployer.frontend.quantized.model import is_quantized
from deployer.quantization.calibration import batches, calibrate, program_of, run_batch
from deployer.quantization.choice import Choice, chosen, layers
from deployer.quantization.folding import fold, without_negative_axis
from deployer.quantization.forms import weight_axis
from deployer.quantization.graph import FloatGraph, label
from deployer.quantization.ranges import METHODS, Scaling
from deployer.quantization.report import LayerRow, Noise, QuantizedModel
from deployer.quantization.selection import frozen_part
from deployer.quantization.writing import check_versions, weight_scales, write
from deployer.training.order import Samples

Measure = Callable[[Array, Mapping[str, Array]], Mapping[str, float]]
"""Metrics of the first output for all samples, beside the samples' arrays."""


@dataclass(frozen=True)
class Quantization:
    """How a model is quantised: the frozen part by an expression, the method of ranges, and the scales of weights."""

    freeze: str | None = None
    method: str = METHODS[0]
    percentile: float = 99.99
    per_channel: bool = True

    def __post_init__(self) -> None:
        """Raise OptionProblem for an unknown method, and a percentile that leaves nothing."""
        if self.method not in METHODS:
            raise OptionProblem(f"there is no method {self.method!r}", hint=f"one of {', '.join(METHODS)}")
        if not 0 < self.percentile <= 100:
            cause = f"percentile {self.percentile:g} is no share of the values"
            raise OptionProblem(cause, hint="above 0, at most 100, such as 99.99")


class ModelToQuantize:
    """A float model with the part of it that is to be quantised; its data inputs are known before its samples."""

    def __init__(self, path: Path, how: Quantization, axes: Axes = NO_AXES) -> None:
        """Read it; raises what reading raises, and errors of the options that do not fit it."""
        self.path, self.how, self.axes = path, how, axes
        model = load_model(path)
        found = next((node for node in model.graph.node if is_quantized(node)), None)
        if found is not None:
            cause = f"{path} is quantised already: node {label(found)!r} ({found.op_type})"
            raise GraphProblem(cause, hint="the float model that it was made of")
        self.graph = FloatGraph(model)
        check_versions(self.graph, how.per_channel)
        part = frozen_part(self.graph, how.freeze)
        self.graph.types = _types(program_of(path, self.graph.proto(), axes))
        self.folded = fold(self.graph, {id(node) for node in part})
        self.part = [node for node in self.graph.nodes if id(node) in {id(each) for each in part}]
        for node in self.part:
            without_negative_axis(node, len(self.graph.types[node.output[0]].shape) if node.op_type == "Concat" else 0)
        self.choice = chosen(self.graph, self.part)
        if not layers(self.graph, self.choice):
            facts = [(name, reason) for name, reason in self.choice.kept.items()]
            raise GraphProblem(f"no layer of {path} can be quantised", facts, "Conv, Gemm or MatMul with constant weights")
        self.program = program_of(path, self.graph.proto(), axes)

    @property
    def inputs(self) -> dict[str, TensorType]:
        """The types of the data inputs."""
        return {name: self.program.tensors[name].type for name in self.program.data}

    @property
    def output(self) -> TensorType:
        """The type of the first output."""
        return self.program.tensors[self.program.outputs[0]].type

    def quantized(self, samples: Samples, measure: Measure | None = None) -> tuple[ModelProto, QuantizedModel]:
        """The quantised model, and how far it is from the float one over the samples, which calibrate it first."""
        roots = list(dict.fromkeys(self.choice.quantized.values()))
        scalings = calibrate(self.program, samples, roots, self.how.method, self.how.percentile)
        rows = [(node, self.choice.integers[id(node)]) for node in self.graph.nodes if id(node) in self.choice.integers]
        weights = {id(node): self._weight_scales(scalings, id(node)) for node, _ in rows}
        model, sizes, stand_ins = write(self.graph, self.choice, scalings, self.how.per_channel)
        values = [value for _, value in rows]
        noises, found = self._compared(model, samples, values, stand_ins, measure)
        table = tuple(
            LayerRow(
                label(node),
                node.op_type,
                value,
                float(scalings[self.choice.quantized[value]].scale),
                scalings[self.choice.quantized[value]].zero,
                noises[value].decibels,
                noises[value].relative,
                weights[id(node)],
            )
            for node, value in rows
        )
        outputs = {name: noises[name].decibels for name in self.program.outputs}
        sums = (sizes.before, sizes.after)
        kept, folded = self.choice.kept, self.folded
        return model, QuantizedModel(self.path, samples.count, table, kept, folded, *sums, outputs, *found)

    def _weight_scales(self, scalings: Mapping[str, Scaling], node: int) -> tuple[float, float] | None:
        """The smallest and the largest scale of a layer's weights."""
        layer = next((each for each in layers(self.graph, self.choice) if id(each) == node), None)
        if layer is None:
            return None
        step = float(scalings[self.choice.quantized[layer.input[0]]].scale)
        bias = self.graph.array(layer.input[2]) if len(layer.input) > 2 and layer.input[2] else None
        array = self.graph.array(layer.input[1])
        scales = weight_scales(array, weight_axis(layer), self.how.per_channel, bias, step)
        return float(scales.min()), float(scales.max())

    def _compared(
        self,
        model: ModelProto,
        samples: Samples,
        values: Sequence[str],
        stand_ins: Mapping[str, str],
        measure: Measure | None,
    ) -> tuple[dict[str, Noise], tuple[Mapping[str, float], Mapping[str, float]]]:
        """The noise of values and of outputs, and what is measured of the float outputs and of the others."""
        outputs = list(self.program.outputs)
        names = list(dict.fromkeys([*values, *outputs]))
        there = {name: stand_ins.get(name, name) for name in names}
        program = program_of(self.path, _with_outputs(model, [there[name] for name in values]), self.axes)
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
