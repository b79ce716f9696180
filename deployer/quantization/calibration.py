"""Runs of a model over samples, batch by batch: what its values are, in floats and in 8 bits."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto

from deployer.core.errors import InternalError
from deployer.core.ir import Node, Program
from deployer.core.operator import Array
from deployer.frontend import check, parse
from deployer.frontend.prepare import Axes
from deployer.quantization.options import METHODS, Quantization
from deployer.quantization.ranges import HistogramObserver, MinMaxObserver, Observer, Scaling, check_values, scaling_of
from deployer.training.order import Samples
from deployer.verify.reference import Memory, run_graph

See = Callable[[str, Array], None]
"""Observer of values: called with a name and its floats."""


def program_of(path: Path, model: ModelProto, axes: Axes) -> Program:
    """The program of a model that was made of a file's, which has been warned of before."""

    def put(read: ModelProto) -> None:
        read.CopyFrom(model)
        axes.fix(read)

    source = parse.read_graphs(path, None, axes, put)
    return check.check_program(source, warn=lambda warning: None)


def run_batch(program: Program, inputs: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """The named values of one batch, by the operators' references in float32."""
    memory = Memory(program, np.float32)
    memory.update({name: inputs[name] for name in program.data})
    memory.update({name: np.zeros(program.tensors[name].type.shape) for name in program.weights})
    wanted = set(names)
    found = {name: np.array(memory[name]) for name in program.data if name in wanted}

    def trace(node: Node, results: Sequence[Array]) -> None:
        for name, value in zip(node.outputs, results, strict=False):
            if name in wanted:
                found[name] = np.array(value, np.float32)

    with np.errstate(all="ignore"):
        run_graph(program.graphs[0], memory, trace)
    for name in wanted - found.keys():
        if name not in program.tensors:
            raise InternalError(f"value {name!r} is not computed", hint="a report of this model")
        found[name] = np.array(memory[name])
    return found


def batches(samples: Samples) -> Iterator[tuple[dict[str, Array], int]]:
    """Arrays by name for each batch, and how many samples of it count: the last one is filled up."""
    for index, arrays in enumerate(samples.in_order()):
        left = samples.count - index * samples.batch
        yield dict(zip(samples.types, arrays, strict=True)), min(left, samples.batch)


def calibrate(program: Program, samples: Samples, names: Sequence[str], how: Quantization) -> dict[str, Scaling]:
    """Scale and zero of each value over all samples; DatasetMismatch where it has no range."""
    made: Callable[[], Observer] = (
        MinMaxObserver if how.method == METHODS[0] else lambda: HistogramObserver(how.percentile)
    )
    observers = {name: made() for name in names}
    for inputs, _ in batches(samples):
        for name, values in run_batch(program, inputs, names).items():
            check_values(name, values)
            observers[name].see(values)
    return {name: scaling_of(name, observer.bounds()) for name, observer in observers.items()}
