"""An interpreter of programs in numpy: it runs each node by its operator's reference, in any float dtype."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from deployer.core.ir import Graph, Layout, Node, Program
from deployer.core.operator import Array, operator_of
from deployer.frontend.dataset import Dataset
from deployer.lr_schedules.run_time import at_rates

Trace = Callable[[Node, Sequence[Array]], None]
Hook = Callable[[Node, "Memory"], None]
"""What is called before a node runs; it may change the memory."""


@dataclass(frozen=True, eq=False)
class Memory(MutableMapping[str, Array]):
    """Values by tensor name in one array per storage, so views and in-place operands share memory as on a target."""

    program: Program
    dtype: type[np.floating]
    arrays: dict[str, Array] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Array:
        """The value of a tensor in its own shape; tensors with content, such as constants, need no assignment."""
        return self.at(self.program.layout(name))

    def at(self, layout: Layout) -> Array:
        """The value of a layout's storage, in its shape."""
        root, shape, _ = layout
        array = self.arrays.get(root)
        if array is None:
            if self.program.tensors[root].data is not None:
                self[root] = self.program.tensors[root].array
            array = self.arrays[root]
        return array if array.shape == shape else array.reshape(shape)

    def __setitem__(self, name: str, value: Array) -> None:
        """Store a value in the interpreter's dtype; integers are int32."""
        root, _, dtype = self.program.layout(name)
        self.arrays[root] = np.asarray(value).astype(self.dtype if dtype == "float32" else np.int32)

    def operands(self, node: Node) -> list[Array | None]:
        """Return the operands that a node reads; None for an optional input that it leaves out."""
        return [self[name] if name else None for name in node.inputs]

    def __delitem__(self, name: str) -> None:
        """Remove the array of a tensor's storage."""
        del self.arrays[self.program.storage(name)]

    def __iter__(self) -> Iterator[str]:
        """The names of the storages that have an array."""
        return iter(self.arrays)

    def __len__(self) -> int:
        """Number of storages that have an array."""
        return len(self.arrays)


def run_graph(
    graph: Graph,
    memory: Memory,
    trace: Trace | None = None,
    before: Hook | None = None,
    rates: Sequence[float] = (),
) -> None:
    """Execute the nodes in order; `before` is called with each node, `trace` with each node and its results.

    `rates` are those of the groups of nodes whose rate is taken at run time.
    """
    arrays, dtype = memory.arrays, memory.dtype
    for node, reads, writes in memory.program.accesses(graph):
        if before is not None:
            before(node, memory)
        operands = list[Array | None]()
        for layout in reads:
            array = arrays.get(layout[0]) if layout is not None else None
            if layout is not None and (array is None or array.shape != layout[1]):
                array = memory.at(layout)
            operands.append(array)
        results = operator_of(node).reference(at_rates(node, rates), operands)
        for layout, value in zip(writes, results, strict=False):
            if layout is not None:
                arrays[layout[0]] = np.asarray(value).astype(dtype if layout[2] == "float32" else np.int32)
        if trace is not None:
            trace(node, results)


def run_inference(
    program: Program, inputs: Mapping[str, Array], dtype: type[np.floating] = np.float32
) -> dict[str, Array]:
    """The outputs of an inference program by name."""
    memory = Memory(program, dtype)
    memory.update(inputs)
    run_graph(program.graphs[0], memory)
    return {name: memory[name] for name in program.outputs}


def run_training(
    program: Program, dataset: Dataset, dtype: type[np.floating] = np.float32, trace: Trace | None = None
) -> tuple[list[float], dict[str, Array]]:
    """The loss of each forward pass and every weight after the last update."""
    losses, memory = final_memory(program, dataset, dtype, trace)
    return losses, {name: memory[name] for name in program.weights}


def final_memory(
    program: Program,
    dataset: Dataset,
    dtype: type[np.floating] = np.float32,
    trace: Trace | None = None,
    begun: Memory | None = None,
) -> tuple[list[float], Memory]:
    """The loss of each forward pass, and the memory after the last one; `begun` is a memory after the first one.

    The first pass of an update sets the flag; the optimizer runs after each full `n_accum` passes.
    """
    memory = initial_memory(program, dataset, dtype) if begun is None else replace(begun, arrays=dict(begun.arrays))
    made = range(0 if begun is None else 1, dataset.n_batches)
    losses = [run_pass(program, dataset, memory, index, trace) for index in made]
    return losses, memory


def initial_memory(program: Program, dataset: Dataset, dtype: type[np.floating] = np.float64) -> Memory:
    """The memory before the first pass: the case's weights, and accumulators that are zero."""
    memory = Memory(program, dtype)
    memory.update(dataset.weights)
    memory.update({name: np.zeros(program.tensors[name].type.shape) for name in program.accumulators})
    return memory


def begin_pass(program: Program, dataset: Dataset, memory: Memory, index: int) -> None:
    """Store the sample of a pass, and the lazy-reset flag, which the first pass of an update sets."""
    memory.update(zip(program.data, dataset.sample(index), strict=True))
    if program.flag:
        memory[program.flag] = np.full(program.tensors[program.flag].type.shape, index % dataset.n_accum == 0)


def run_pass(
    program: Program,
    dataset: Dataset,
    memory: Memory,
    index: int,
    trace: Trace | None = None,
    before: Hook | None = None,
) -> float:
    """One forward pass of a run, with the update that follows it, if one does; its loss."""
    train, optimizer = program.graphs
    begin_pass(program, dataset, memory, index)
    run_graph(train, memory, trace, before)
    loss = float(memory[program.outputs[0]].reshape(()))
    if dataset.updates_after(index):
        run_graph(optimizer, memory, trace, before, dataset.rates_of(index))
    return loss


def with_oracle(program: Program, dataset: Dataset) -> Dataset:
    """The dataset with expected losses and weights from a float64 run, for runs that outputs.npz does not record."""
    losses, weights = run_training(program, dataset, np.float64)
    narrow = {name: as_float32(value) for name, value in weights.items()}
    return replace(dataset, expected_losses=tuple(losses), expected_weights=narrow, by_reference=True)


def as_float32(array: Array) -> Array:
    """The array in float32, with infinities for what a diverging run has beyond it; integers as they are."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32) if array.dtype.kind == "f" else array


def completed(program: Program, dataset: Dataset) -> Dataset:
    """The dataset with the expected results that it records, and those of a float64 run where it records none."""
    own = with_oracle(program, dataset)
    losses = dataset.expected_losses + own.expected_losses[len(dataset.expected_losses) :]
    return replace(dataset, expected_losses=losses, expected_weights=own.expected_weights | dataset.expected_weights)
