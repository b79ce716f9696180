"""The typed graph: tensors, nodes, and the program that joins the training and the optimizer graph."""

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from deployer.core.artefact import IF_ANY

AttrValue = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
DTYPES: dict[str, int] = {"float32": 4, "int32": 4, "int8": 1, "uint8": 1}
"""Element types of a target, with their bytes. ONNX's float64 becomes float32, its bool and integers int32; quantized
models are computed with int8, and may take inputs of int8 or uint8.
"""

Role = Literal["data", "weight", "accumulator", "flag", "constant", "value"]


@dataclass(frozen=True)
class TensorType:
    """dtype and shape of a value."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the packed row-major array."""
        return self.size * DTYPES[self.dtype]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Tensor:
    """A named value.

    `storage` names the tensor whose memory this one uses: itself, the source of a view, or the operand an in-place
    operator overwrites. `data` is the packed little-endian content of a constant, or the initial content of an
    optimizer's state, which is a weight that no sample file holds.
    """

    name: str
    type: TensorType
    role: Role
    storage: str
    data: bytes | None = None

    @property
    def array(self) -> npt.NDArray[np.generic]:
        """The content as a read-only array."""
        if self.data is None:
            raise ValueError(f"{self.name} has no content")
        return np.frombuffer(self.data, dtype=self.type.dtype).reshape(self.type.shape)


@dataclass(frozen=True)
class Node:
    """One operator application; an absent optional input or output is the empty name."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, AttrValue] = field(default_factory=dict)

    def attr_int(self, name: str, default: int) -> int:
        """Integer attribute or its default; TypeError where it is something else."""
        value = self.attrs.get(name, default)
        if not isinstance(value, int):
            raise TypeError(f"{name} is {value!r}, not an integer")
        return value

    def attr_float(self, name: str, default: float) -> float:
        """Float attribute or its default; TypeError where it is no number."""
        value = self.attrs.get(name, default)
        if not isinstance(value, (int, float)):
            raise TypeError(f"{name} is {value!r}, not a number")
        return float(value)

    def attr_str(self, name: str, default: str) -> str:
        """String attribute or its default; TypeError where it is something else."""
        value = self.attrs.get(name, default)
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}, not a string")
        return value

    def attr_ints(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """List-of-integers attribute or its default; a single integer is a list of one, TypeError for the rest."""
        value = self.attrs.get(name, default)
        listed = value if isinstance(value, tuple) else (value,)
        numbers = tuple(n for n in listed if isinstance(n, int))
        if len(numbers) < len(listed):
            raise TypeError(f"{name} is {value!r}, not a list of integers")
        return numbers

    def attr_floats(self, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """List-of-numbers attribute or its default; a single number is a list of one, TypeError for the rest."""
        value = self.attrs.get(name, default)
        listed = value if isinstance(value, tuple) else (value,)
        numbers = tuple(float(n) for n in listed if isinstance(n, int | float))
        if len(numbers) < len(listed):
            raise TypeError(f"{name} is {value!r}, not a list of numbers")
        return numbers

    def attr_texts(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """List-of-strings attribute or its default; TypeError where it is something else."""
        value = self.attrs.get(name, default)
        listed = value if isinstance(value, tuple) else (value,)
        texts = tuple(text for text in listed if isinstance(text, str))
        if len(texts) < len(listed):
            raise TypeError(f"{name} is {value!r}, not a list of strings")
        return texts


@dataclass(frozen=True)
class Graph:
    """Nodes in execution order, with the graph's own name: `train`, `optimizer` or `infer`."""

    name: str
    nodes: tuple[Node, ...]


Layout = tuple[str, tuple[int, ...], str]
"""Storage, shape and dtype of a tensor."""
Accesses = tuple[tuple[Node, tuple[Layout | None, ...], tuple[Layout | None, ...]], ...]
"""Nodes with the layouts of their inputs and outputs, None for one that is left out."""


@dataclass(frozen=True)
class Program:
    """Everything that shares memory: one table of tensors and the graphs over it, in the order the harness runs them.

    `data` are the per-sample inputs, `weights` the parameters that come with the test case, `accumulators` the gradient
    buffers, `flag` the lazy-reset input (empty without one), `outputs` what the harness reads: the loss first, or the
    results of an inference graph. `updated` maps each output of the optimizer graph to the weight it overwrites. `held`
    are data inputs that nothing may overwrite: they are filled at any time, by who calls the graphs in any order.
    `rewrites` names the fusions that made it what it is.
    """

    tensors: dict[str, Tensor]
    graphs: tuple[Graph, ...]
    data: tuple[str, ...]
    weights: tuple[str, ...]
    accumulators: tuple[str, ...]
    flag: str
    outputs: tuple[str, ...]
    updated: dict[str, str]
    held: tuple[str, ...] = field(default=(), metadata={IF_ANY: True})
    rewrites: tuple[str, ...] = field(default=(), metadata={IF_ANY: True})

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes of all graphs in execution order."""
        return tuple(node for graph in self.graphs for node in graph.nodes)

    def made_in(self, name: str) -> str:
        """The name of the graph that computes a value, or of the first one."""
        makers = (graph.name for graph in self.graphs for node in graph.nodes if name in node.outputs)
        return next(makers, self.graphs[0].name)

    def data_of(self, graph_name: str) -> tuple[str, ...]:
        """The data inputs that the nodes of a graph read, in the program's order."""
        nodes = [node for graph in self.graphs if graph.name == graph_name for node in graph.nodes]
        read = {self.storage(name) for node in nodes for name in node.inputs if name}
        return tuple(name for name in self.data if self.storage(name) in read)

    def storage(self, name: str) -> str:
        """The tensor whose memory `name` uses in the end, following views of views."""
        while self.tensors[name].storage != name:
            name = self.tensors[name].storage
        return name

    @cached_property
    def _layouts(self) -> dict[str, "Layout"]:
        return {}

    def layout(self, name: str) -> "Layout":
        """Storage, shape and dtype of a tensor; kept, since an interpreter asks for them at each access."""
        known = self._layouts.get(name)
        if known is None:
            kind = self.tensors[name].type
            known = self._layouts[name] = self.storage(name), kind.shape, kind.dtype
        return known

    def accesses(self, graph: Graph) -> "Accesses":
        """The nodes of a graph with the layouts of what they read and write; those of the program's own are kept."""
        for place, own in enumerate(self.graphs):
            if own is graph:
                if place not in self._accesses:
                    self._accesses[place] = self._accessed(graph)
                return self._accesses[place]
        return self._accessed(graph)

    @cached_property
    def _accesses(self) -> "dict[int, Accesses]":
        return {}

    def _accessed(self, graph: Graph) -> "Accesses":
        def layouts(names: tuple[str, ...]) -> tuple[Layout | None, ...]:
            return tuple(self.layout(name) if name else None for name in names)

        return tuple((node, layouts(node.inputs), layouts(node.outputs)) for node in graph.nodes)


@dataclass
class GraphNames:
    """Names in use in a graph, of which new ones must differ, and how many numbers each base name has been given."""

    reserved: set[str]
    numbers: Counter[str] = field(default_factory=Counter)

    def fresh(self, base: str) -> str:
        """`base`, or the first of `base_2`, `base_3`, ... if it is reserved; reserves the result."""
        name = base
        while name in self.reserved:
            self.numbers[base] += 1
            name = f"{base}_{self.numbers[base] + 1}"
        self.reserved.add(name)
        return name


LOSS_SHARE = "loss_share"
"""Name of the data input with what the loss of a pass counts, where an update takes the mean over its passes."""
WEIGHT, BIAS, GAIN, SLOPE, TABLE = "weight", "bias", "gain", "slope", "table"
"""Roles of inputs that a layer learns: a gain is the scale of a norm, a table holds a row for each number."""
START, STATISTIC = "initial state", "statistic"
"""Roles of inputs beside these: a state before the first step, and a running statistic."""
TRAINED, FROZEN, CONSTANT, STATE = "trained", "frozen", "constant", "state"
"""Roles in training. A constant belongs to the graph, as a mask or an epsilon do; a frozen tensor is a parameter, or
may be one, that is not trained; a state is renewed without a gradient, or is where a layer begins.
"""


@dataclass(frozen=True)
class TensorRecord:
    """Record of a tensor: name, shape, role, and the reason for the role."""

    name: str
    shape: tuple[int, ...]
    role: str
    why: str


def records_of(program: Program) -> tuple[TensorRecord, ...]:
    """Role of each float tensor of a training program that no step computes, by name."""
    written = {program.storage(name) for node in program.nodes for name in node.outputs if name}
    found = []
    for name, tensor in sorted(program.tensors.items()):
        if tensor.type.dtype != "float32" or tensor.storage != name:
            continue
        if tensor.role == "constant":
            frozen = tensor.type.size > 1
            why = "in the training graph without a gradient" if frozen else "one number"
            found.append(TensorRecord(name, tensor.type.shape, FROZEN if frozen else CONSTANT, why))
        elif tensor.role == "weight":
            role, why = STATE, "state of the optimizer"
            if tensor.data is None and name in program.updated.values():
                role, why = TRAINED, "updated by the optimizer"
            elif tensor.data is None:
                role, why = (STATE, "renewed in each pass") if name in written else (FROZEN, "never written")
            found.append(TensorRecord(name, tensor.type.shape, role, why))
    return tuple(found)
