"""Inputs of 8 bits in place of floats that a program quantizes before anything else reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deployer.core.errors import OptionProblem
from deployer.core.ir import Node, Program, Tensor, TensorType
from deployer.core.operator import Array
from deployer.frontend.dataset import Dataset
from deployer.operators.quantized.conversion import QuantizeInt8, QuantizeInt8Images, number_operator
from deployer.operators.quantized.requantization import (
    HIGH,
    INT8,
    LEAST,
    LOW,
    MOST,
    SCALE,
    UINT8,
    ZERO,
    clip_of,
    scale_of,
)


@dataclass(frozen=True)
class InputScale:
    """Meaning of a number q of an input of 8 bits: (q - zero) * scale."""

    scale: np.float32
    zero: int
    dtype: str

    @property
    def formula(self) -> str:
        """Meaning of a number n, as text."""
        return f"(n {'-' if self.zero >= 0 else '+'} {abs(self.zero)}) * {self.scale}"

    def numbers(self, floats: Array) -> Array:
        """The numbers that QuantizeLinear makes of floats: quotients rounded half to even, moved and clipped."""
        node = Node("", QuantizeInt8.name, ("x",), ("y",), {SCALE: float(self.scale), ZERO: self.zero + self._moved})
        [signed] = QuantizeInt8().reference(node, [np.asarray(floats, np.float32)])
        return (signed.astype(np.int32) - self._moved).astype(self.dtype)

    @property
    def _moved(self) -> int:
        """Distance from a number of this type to the signed one."""
        return LEAST if self.dtype == UINT8 else 0


def takes_bytes(program: Program) -> bool:
    """Whether an input of floats is quantized before anything else reads it."""
    return any(_scale(program, name, INT8) for name in program.data)


def with_byte_inputs(program: Program, dtype: str) -> tuple[Program, dict[str, InputScale]]:
    """The program with inputs of that type where QuantizeInt8 alone reads floats, and what their numbers stand for.

    OptionProblem where there is no such input.
    """
    known = {name: scale for name in program.data if (scale := _scale(program, name, dtype))}
    if not known:
        readers = [f"{n} by {', '.join({x.op: 0 for x in _readers(program, n)}) or 'nothing'}" for n in program.data]
        hint = "leave it out, or a model whose first layers `deployer quantize --freeze` has quantized"
        raise OptionProblem(f"--inputs {dtype}: no input is quantized at once", [("read", "; ".join(readers))], hint)
    same = dict[str, str]()
    graphs = tuple(replace(g, nodes=tuple(_nodes(g.nodes, known, same))) for g in program.graphs)
    tensors = {name: _tensor(tensor, known, same) for name, tensor in program.tensors.items() if name not in same}
    return replace(program, tensors=tensors, graphs=graphs), known


def with_numbers(dataset: Dataset, data: Sequence[str], scales: Mapping[str, InputScale]) -> Dataset:
    """The dataset with numbers of 8 bits for these inputs."""

    def numbers(name: str, array: Array) -> Array:
        return scales[name].numbers(array) if name in scales else array

    rows = tuple(tuple(map(numbers, data, row)) for row in dataset.samples)
    return replace(dataset, samples=rows)


def _readers(program: Program, name: str) -> list[Node]:
    return [node for node in program.nodes if name in map(program.storage, filter(None, node.inputs))]


def _scale(program: Program, name: str, dtype: str) -> InputScale | None:
    """Meaning of numbers of an input; None where something but one quantization reads it."""
    readers = _readers(program, name)
    read = {(scale_of(n, SCALE), clip_of(n)) for n in readers if n.op in (QuantizeInt8.name, QuantizeInt8Images.name)}
    direct = all(node.op in (QuantizeInt8.name, QuantizeInt8Images.name) and node.inputs == (name,) for node in readers)
    if len(read) != 1 or not direct:
        return None
    [(scale, (zero, low, high))] = read
    moved = LEAST if dtype == UINT8 else 0
    return InputScale(scale, zero - moved, dtype) if (low, high) == (LEAST, MOST) else None


def _nodes(nodes: Sequence[Node], known: Mapping[str, InputScale], same: dict[str, str]) -> list[Node]:
    """The nodes, without those whose results their inputs are already; `same` gets these."""
    kept = []
    for node in nodes:
        inputs = tuple(same.get(name, name) for name in node.inputs)
        if node.inputs[:1] and node.inputs[0] in known:
            op = number_operator(node.op == QuantizeInt8Images.name, known[node.inputs[0]].dtype == UINT8)
            if not op:
                same[node.outputs[0]] = node.inputs[0]
                continue
            attrs = {key: value for key, value in node.attrs.items() if key not in (SCALE, ZERO, LOW, HIGH)}
            node = replace(node, op=op, attrs=attrs)
        kept.append(replace(node, inputs=inputs))
    return kept


def _tensor(tensor: Tensor, known: Mapping[str, InputScale], same: Mapping[str, str]) -> Tensor:
    if tensor.name in known:
        return replace(tensor, type=TensorType(known[tensor.name].dtype, tensor.type.shape))
    return replace(tensor, storage=same.get(tensor.storage, tensor.storage))
