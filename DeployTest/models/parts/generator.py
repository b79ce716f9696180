"""Shared code of the generators: the options of a case, the forward model's file, and the command line."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from deployer.commands import ending, values
from deployer.running.output import write
from deployer.training.train_graph import CaseReport, build_train_graph

Array = npt.NDArray[Any]
Value = gs.Variable
Generate = Callable[..., Path]
OPSET = 17


def forward_graph(name: str, **inputs: Sequence[int]) -> gs.Graph:
    """A float32 model with these inputs and no node yet."""
    values = [gs.Variable(label, np.float32, tuple(shape)) for label, shape in inputs.items()]
    return gs.Graph(name=name, inputs=values, opset=OPSET, ir_version=10)


def layer(graph: gs.Graph, op: str, label: str, inputs: Sequence[gs.Tensor], output: str = "", **attrs: Any) -> Value:
    """Append a node named `label`, whose domain is ONNX's unless `domain` says otherwise; its output."""
    made, domain = gs.Variable(output or f"{label}_out"), attrs.pop("domain", None)
    graph.nodes.append(gs.Node(op, label, dict(sorted(attrs.items())), list(inputs), [made], domain))
    return made


def save_forward(path: Path, graph: gs.Graph, output: Value, shape: Sequence[int]) -> Path:
    """Write a model with one output; the same graph gives the same bytes."""
    output.to_variable(np.float32, tuple(shape))
    graph.outputs = [output]
    model = gs.export_onnx(graph)
    write(path.parent, {path.name: model.SerializeToString(deterministic=True)})
    return path


def uniform(generator: np.random.Generator, fan_in: int, *shape: int) -> Array:
    """Weights as PyTorch's layers start: uniform within 1 / sqrt(fan_in)."""
    bound = fan_in**-0.5
    return generator.uniform(-bound, bound, shape).astype(np.float32)


def training_case(model: Path, loss: str, trainable: str = "", **options: Any) -> CaseReport:
    """The training case of a model, beside its file, with SGD unless `optimizer` is given; `options` are those of
    `build_train_graph`.
    """
    rate = options.pop("learning_rate", 0.01)
    return build_train_graph(model, loss, options.pop("optimizer", "sgd"), rate, trainable, model.parent, **options)


def main(
    generate: Generate,
    switches: Sequence[str] = (),
    arguments: Sequence[str] | None = None,
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Write the case that the command line asks for, print its folder, and end as every command of the project does.

    `switches` are on unless turned off, `sizes` are counts with defaults.
    """
    words = sys.argv[1:] if arguments is None else arguments
    code = ending.guarded(words, lambda: _generated(generate, switches, words, sizes))
    if code:
        sys.exit(code)


def _generated(generate: Generate, switches: Sequence[str], words: Sequence[str], sizes: Mapping[str, int]) -> int:
    parser = argparse.ArgumentParser(description=(generate.__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=values.path, help="folder for the model, the *_train and the *_optimizer folder")
    parser.add_argument("--batch-size", dest="batch", type=values.positive, default=1, help="rows per sample")
    parser.add_argument("--samples", type=values.positive, default=4, help="different samples")
    parser.add_argument(
        "--accumulate-grad-batches", dest="n_accum", type=values.positive, default=1, help="forward passes per update"
    )
    parser.add_argument("--n-batches", type=values.positive, help="forward passes in all")
    parser.add_argument("--seed", type=values.seed, default=0, help="of weights and samples")
    for name in switches:
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=True, help="on unless turned off")
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=values.positive, default=size, help=f"(default {size})")
    given = vars(parser.parse_args(words))
    print(generate(given.pop("out"), **given))
    return 0
