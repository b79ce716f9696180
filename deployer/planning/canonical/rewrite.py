"""Gradients in canonical order: one complete sample after another is added, in the order of the samples.

Nodes that sum over the samples on the way to an accumulator run once for each sample, on its part of their operands,
and give the gradient of a batch of one. What follows them has to be linear, so that it may run on each gradient alone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from deployer.core.ir import Graph, GraphNames, Node, Program, Tensor
from deployer.core.operator import Array, accumulator_of, execution_of, operator_of, training_of
from deployer.core.traits.execution import CARRIED, with_carry
from deployer.core.traits.training import Accumulator
from deployer.operators.base.one_sample import one_sample_node
from deployer.planning.canonical.own_means import with_own_means
from deployer.planning.canonical.sample_places import MIXING, SamplePlaces, Summed, batch_of, refused, sample_places


def canonical_batch(program: Program) -> Program:
    """The program whose accumulators get one complete sample after another; the same where a pass has one sample."""
    trains = any(accumulator_of(node) for node in program.graphs[0].nodes)
    if not trains:
        return program
    for node in program.graphs[0].nodes:
        if training_of(node).passes is not None:
            raise refused(node, "its random numbers depend on the place of a sample in its update", DRAWS, single=False)
    if batch_of(program) == 1:
        return with_own_means(program, SamplePlaces(program, 1))
    places = sample_places(program)
    return _Rewrite(with_own_means(program, places), places).done()


DRAWS = "--dropout off when the training graph is made, or dropout='off'"


@dataclass
class _Rewrite:
    """A program on its way: `tensors` and `nodes` so far, and the copies for samples by tensor and sample."""

    program: Program
    places: SamplePlaces
    tensors: dict[str, Tensor] = field(init=False)
    names: GraphNames = field(init=False)
    copies: dict[tuple[str, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with the program's tensors."""
        self.tensors = dict(self.program.tensors)
        self.names = GraphNames(set(self.tensors) | {node.name for node in self.program.nodes})

    def done(self) -> Program:
        """The rewritten program."""
        train, *others = self.program.graphs
        order = {name: index for index, node in enumerate(train.nodes) for name in node.outputs if name}
        behind: dict[int, list[Node]] = {}
        gone = set[str]()
        for node in train.nodes:
            accumulator = accumulator_of(node)
            gradient = node.inputs[accumulator.gradient] if accumulator else ""
            if accumulator is None or not isinstance(self.places.of(gradient), Summed):
                continue
            made = order[self._maker_output(gradient)]
            behind.setdefault(made, []).extend(self._by_sample(node, accumulator))
            gone.add(node.name)
        nodes = [
            n
            for index, node in enumerate(train.nodes)
            for n in (*([] if node.name in gone else [node]), *behind.get(index, []))
        ]
        graphs = (Graph(train.name, tuple(self._needed(nodes))), *others)
        used = {name for graph in graphs for node in graph.nodes for name in (*node.inputs, *node.outputs) if name}
        used |= {*self.program.outputs, *self.program.updated}
        used |= {link for name in used for link in self._chain(name)}
        tensors = {n: t for n, t in self.tensors.items() if t.role != "value" or n in used}
        return replace(self.program, tensors=tensors, graphs=graphs)

    def _chain(self, name: str) -> Iterator[str]:
        while self.tensors[name].storage != name:
            name = self.tensors[name].storage
            yield name

    def _maker_output(self, name: str) -> str:
        """The output that a gradient is, seen through views."""
        while name not in self.places.makers:
            name = self.program.tensors[name].storage
        return name

    def _needed(self, nodes: list[Node]) -> Iterable[Node]:
        """The nodes that an output, a weight or an accumulator depends on."""
        live = {link for name in (*self.program.outputs, *self.program.updated) for link in (name, *self._chain(name))}
        kept = []
        for node in reversed(nodes):
            outputs = [name for name in node.outputs if name]
            roots = {(name, *self._chain(name))[-1] for name in outputs}
            lasting = any(self.tensors[root].role in ("weight", "accumulator") for root in roots)
            if lasting or not live.isdisjoint(outputs):
                kept.append(node)
                live |= {link for name in node.inputs if name for link in (name, *self._chain(name))}
        return reversed(kept)

    def _by_sample(self, node: Node, accumulator: Accumulator) -> Iterator[Node]:
        """The nodes that add the gradient of each sample to the accumulator in place, the first by the flag."""
        if not accumulator.continues:
            raise refused(node, f"{node.op} does not add several gradients in a pass", "another exporter")
        (output,) = node.outputs
        buffer, last = node.inputs[accumulator.buffer], self.places.count - 1
        for sample in range(self.places.count):
            made = list[Node]()
            own, outer = self._gradient(node.inputs[accumulator.gradient], sample, made)
            yield from made
            result = output if sample == last else self._fresh(f"{output}/sample_{sample}")
            self.tensors[result] = replace(self.program.tensors[output], name=result, storage=buffer)
            inputs = list(node.inputs)
            inputs[accumulator.buffer], inputs[accumulator.gradient] = buffer, own
            attrs = {**node.attrs, **({accumulator.continues: 1} if sample else {})}
            name = node.name if sample == last else self._fresh(f"{node.name}/sample_{sample}")
            adding = Node(name, node.op, tuple(inputs), (result,), attrs)
            if outer:
                places = [outer if place == accumulator.gradient else 0 for place in range(len(inputs))]
                adding = one_sample_node(adding, name, sample, self.places.count, places)
            yield adding
            buffer = result

    def _gradient(self, name: str, sample: int, made: list[Node]) -> tuple[str, int]:
        """The gradient of a sample: a tensor, or its part of one with so many elements in front of the samples.

        A sum over samples of one element each has the sample's element, also where that is -0.
        """
        maker = self.places.makers[self._maker_output(name)]
        source = self._copied(maker)
        return (source, self.places.outer(source)) if source else (self._copy(name, sample, made), 0)

    def _copied(self, node: Node) -> str:
        """The input whose part the node's result is for each sample; empty where it computes anything."""
        names = [name for name in node.inputs if name]
        outer = self.places.outer(names[0]) if len(names) == 1 else 0
        if not outer:
            return ""
        own = one_sample_node(node, node.name, 0, self.places.count, [outer])
        kind = self.program.tensors[names[0]].type
        probe = np.random.default_rng(0).standard_normal(kind.shape)
        result = operator_of(own).reference(own, [probe])[0]
        part = probe.reshape(outer, self.places.count, -1)[:, 0].ravel()
        return names[0] if np.array_equal(result.ravel(), part) else ""

    def _copy(self, name: str, sample: int, made: list[Node]) -> str:
        """The tensor as it is for one sample; nodes that compute it are appended."""
        if not isinstance(self.places.of(name), Summed):
            return name
        if (name, sample) not in self.copies:
            maker = self.places.makers.get(name)
            if maker is None:
                source = self._copy(self.program.tensors[name].storage, sample, made)
                self._tensor(name, sample, storage=source)
            else:
                self._copy_node(maker, sample, made)
        return self.copies[name, sample]

    def _tensor(self, name: str, sample: int, storage: str = "") -> str:
        """The name of a new tensor of the same type, for a sample."""
        own = self.copies[name, sample] = self._fresh(f"{name}/sample_{sample}")
        self.tensors[own] = replace(self.program.tensors[name], name=own, storage=storage or own)
        return own

    def _copy_node(self, node: Node, sample: int, made: list[Node]) -> None:
        """Append the node for a sample: on its part of what has samples, or on what was computed for it."""
        operator = operator_of(node)
        if operator.inplace:
            raise refused(node, "it computes a sum over the samples in place", MIXING)
        own = replace(
            node,
            name=self._fresh(f"{node.name}/sample_{sample}"),
            inputs=tuple(self._copy(name, sample, made) if name else "" for name in node.inputs),
            outputs=tuple(self._result(node, i, sample) for i in range(_results(node))),
        )
        outer = [self.places.outer(name, node) for name in node.inputs]
        if any(outer):
            if not sample and not _adds_up(self.program, node, outer, self.places.count):
                raise refused(node, "its result is no sum of what it is for each sample", MIXING)
            own = one_sample_node(own, own.name, sample, self.places.count, outer)
        elif not _is_linear(self.program, self.places, node):
            raise refused(node, "it is not linear, so that it cannot be applied to each sample's gradient", LINEAR)
        types = {name: tensor.type for name, tensor in self.tensors.items()}
        inferred = operator_of(own).infer(own, [types[n] if n else None for n in own.inputs])
        for name, kind in zip(own.outputs, inferred, strict=False):
            if name:
                self.tensors[name] = replace(self.tensors[name], type=kind)
                types[name] = kind
        running, carried = with_carry(execution_of(operator).sums, own, lambda: operator_of(own).access(own, types))
        for name, kind in carried.items():
            self.tensors[name] = Tensor(name, kind, "value", name)
        made.append(running)

    def _result(self, node: Node, place: int, sample: int) -> str:
        name = node.outputs[place]
        return self._tensor(name, sample) if name else ""

    def _fresh(self, base: str) -> str:
        return self.names.fresh(base)


LINEAR = "the same by an option of the optimizer, such as --weight-decay or --max-grad-norm"


def _results(node: Node) -> int:
    """Number of outputs without carried partial sums."""
    kernel = operator_of(node).kernel
    assert kernel is not None, f"{node.op} was not lowered"
    return min(len(node.outputs), sum(writes for name, _, writes in kernel.pointers if name != CARRIED))


def _drawn(program: Program, name: str, draw: np.random.Generator) -> Array:
    """Numbers for an operand: its content if it is constant, else normal numbers, or zeros and ones for integers."""
    tensor = program.tensors[name]
    if tensor.data is not None:
        return np.asarray(tensor.array).astype(np.float64 if tensor.type.dtype == "float32" else np.int32)
    shape = tensor.type.shape
    return draw.standard_normal(shape) if tensor.type.dtype == "float32" else draw.integers(0, 2, shape, np.int32)


def _adds_up(program: Program, node: Node, outer: list[int], count: int) -> bool:
    """Whether a node's results are the sums of those on single samples: by its reference on drawn numbers."""
    draw = np.random.default_rng(0)
    operands = [_drawn(program, name, draw) if name else None for name in node.inputs]
    parts = [one_sample_node(node, node.name, sample, count, outer) for sample in range(count)]
    found = [operator_of(part).reference(part, operands) for part in parts]
    whole = operator_of(node).reference(node, operands)
    sums = [np.sum(results, axis=0) for results in zip(*found, strict=True)]
    return all(
        a.size == b.size and np.allclose(a.ravel(), b.ravel(), 1e-9, 1e-9) for a, b in zip(whole, sums, strict=True)
    )


def _is_linear(program: Program, places: SamplePlaces, node: Node) -> bool:
    """Whether a node is linear in its operands that are sums over the samples: by its reference on drawn numbers."""
    draw = np.random.default_rng(0)
    summed = [bool(name) and isinstance(places.of(name), Summed) for name in node.inputs]
    first = [_drawn(program, name, draw) if name else None for name in node.inputs]
    pairs = zip(node.inputs, summed, first, strict=True)
    second = [_drawn(program, name, draw) if moves else x for name, moves, x in pairs]
    triples = zip(summed, first, second, strict=True)
    joined = [a + 3 * b if moves and a is not None and b is not None else a for moves, a, b in triples]
    reference = operator_of(node).reference
    parts = (reference(node, operands) for operands in (first, second, joined))
    return all(np.allclose(a + 3 * b, c, rtol=1e-9, atol=1e-9) for a, b, c in zip(*parts, strict=True))
