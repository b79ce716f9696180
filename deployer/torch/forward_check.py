"""The check of a captured forward pass: our own gradients of the file beside PyTorch's of the module, in float64."""

import copy
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn

from deployer.core.errors import CaptureMismatch, NotDifferentiable, OptionProblem, UnsupportedOperator
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.frontend.graph_inputs import BUFFER_SUFFIX
from deployer.torch.eager import eager_step
from deployer.torch.objectives import flattened
from deployer.training.attached_loss import OWN_LOSS
from deployer.training.problem import Problem, pose_problem
from deployer.verify.reference import Memory, run_graph

BOUND, NOISE = 1e-5, 1e-7
"""Largest allowed difference, of a gradient's largest magnitude, and of all: numbers of a file are float32."""
HINT = (
    "deployer.torch.train or capture_step: they take the gradients from PyTorch; a forward pass alone does not say"
    " where the module stops or replaces them"
)


def check_forward(
    model: onnx.ModelProto, trainable: str, module: nn.Module, inputs: Sequence[Tensor], output: int
) -> None:
    """Raise CaptureMismatch where a gradient that training a file of the model takes is not PyTorch's of the module.

    The gradient is that of the sum of the output's elements times numbers that are drawn. What has no gradient here is
    refused when the file is trained.
    """
    shape = [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]
    factors = np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)
    try:
        ours = _gradients(_with_loss(model, factors), trainable, [x.detach().cpu().numpy() for x in inputs])
    except (NotDifferentiable, UnsupportedOperator, OptionProblem):
        return

    def loss(module: nn.Module, *data: Tensor) -> Tensor:
        value = flattened(module(*data))[output]
        return (value * torch.from_numpy(factors).to(value.dtype)).sum()

    data = {str(i): x for i, x in enumerate(inputs)}
    theirs = eager_step(module, loss, data).gradients
    largest = max((float(np.abs(g).max(initial=0)) for g in theirs.values()), default=0.0)
    for name, mine in ours.items():
        right = theirs.get(name, np.zeros(mine.shape)).reshape(mine.shape)
        off = float(np.abs(mine - right).max(initial=0))
        if off > BOUND * float(np.abs(right).max(initial=0)) + NOISE * largest:
            facts = [("off by", f"{off:.3g}"), ("largest", f"{float(np.abs(right).max(initial=0)):.3g} in PyTorch")]
            cause = f"the gradient of {name!r} that follows from the forward pass is not PyTorch's"
            raise CaptureMismatch(cause, facts, HINT)


def _with_loss(model: onnx.ModelProto, factors: Array) -> onnx.ModelProto:
    """The model with the sum of its output times these factors as its output."""
    made = copy.deepcopy(model)
    graph, name = made.graph, made.graph.output[0].name
    graph.initializer.append(numpy_helper.from_array(factors, "check/factors"))
    graph.node.append(helper.make_node("Mul", [name, "check/factors"], ["check/terms"], "check/terms"))
    graph.node.append(helper.make_node("ReduceSum", ["check/terms"], ["check/loss"], "check/loss", keepdims=0))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("check/loss", onnx.TensorProto.FLOAT, []))
    return made


def _gradients(model: onnx.ModelProto, trainable: str, inputs: Sequence[Array]) -> dict[str, Array]:
    """The gradients by the operators' own rules, in float64."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        problem = pose_problem(path, OWN_LOSS, "", 0.01, trainable, warn=lambda warning: None)
        graphs = [Path(folder) / f"{name}.onnx" for name in ("train", "optimizer")]
        problem.write(*graphs)
        program = problem.program(*graphs)
    return _run(problem, program, inputs)


def _run(problem: Problem, program: Program, inputs: Sequence[Array]) -> dict[str, Array]:
    memory = Memory(program, np.float64)
    memory.update(problem.graph.weights)
    memory.update({n: np.zeros(program.tensors[n].type.shape) for n in program.accumulators})
    memory.update(zip(program.data, inputs, strict=True))
    memory[program.flag] = np.ones(program.tensors[program.flag].type.shape)
    for name in program.weights:  # what counts passes begins at none
        if name not in memory and program.tensors[name].data is None:
            memory[name] = np.zeros(program.tensors[name].type.shape)
    run_graph(program.graphs[0], memory)
    return {old: np.asarray(memory[new + BUFFER_SUFFIX]) for new, old in problem.graph.trained.items()}
