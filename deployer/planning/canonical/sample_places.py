"""Places of the samples of a batch in the tensors of a training graph, derived from the accesses of its operators.

The first axis of the data inputs has the samples. A node that reads tensors with samples along one of its dims writes
them along that dim; where the dim is a reduction, the result is a sum over the samples.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deployer.core.access import Access, At, Dim, Mirror, Operand, Window, Windowed
from deployer.core.errors import OptionProblem
from deployer.core.ir import Node, Program, TensorType
from deployer.core.operator import accumulator_of, numerics_of, operator_of, training_of
from deployer.operators.base.one_sample import SampleAxis


@dataclass(frozen=True)
class Summed:
    """The state of a tensor that is a sum over all samples, or computed from such sums."""


Place = SampleAxis | Summed


@dataclass
class SamplePlaces:
    """The samples' places by tensor, of those that depend on samples; `makers` are the nodes by output.

    `rows` are the elements in front of the samples in a tensor that depends on none, by the name of a node that reads
    one row for each sample.
    """

    program: Program
    count: int
    found: dict[str, Place] = field(default_factory=dict)
    makers: dict[str, Node] = field(default_factory=dict)
    rows: dict[tuple[str, str], int] = field(default_factory=dict)

    def of(self, name: str) -> Place | None:
        """The place in a tensor, seen through views; None where it depends on no sample."""
        while name not in self.found and name not in self.makers and self.program.tensors[name].storage != name:
            name = self.program.tensors[name].storage
        return self.found.get(name)

    def begin(self, inputs: Collection[str]) -> None:
        """Note the samples along the first axis of data inputs."""
        for name in inputs:
            kind = self.program.tensors[name].type
            if kind.shape and kind.shape[0] % self.count == 0:
                self.found[name] = SampleAxis(1, self.count, kind.size // self.count)

    def outer(self, name: str, reader: Node | None = None) -> int:
        """Elements in front of the samples in a tensor; 0 where it has none, nor rows for them that the node reads."""
        place = self.of(name) if name else None
        if isinstance(place, SampleAxis):
            return place.outer
        return self.rows.get((reader.name, name), 0) if reader else 0


def batch_of(program: Program) -> int:
    """Number of samples of a pass: the length of the first data input's first axis."""
    shape = program.tensors[program.data[0]].type.shape if program.data else ()
    return shape[0] if shape else 1


def sample_places(program: Program, inputs: Collection[str] | None = None) -> SamplePlaces:
    """The places in the tensors of the first graph; OptionProblem for a node that mixes samples.

    The `inputs` with samples are by default all data inputs.
    """
    places = SamplePlaces(program, batch_of(program))
    places.begin(program.data if inputs is None else inputs)
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    for node in program.graphs[0].nodes:
        if accumulator_of(node) is None:
            for name, place in results_of(places, node, types):
                places.found[name] = place
        places.makers.update((name, node) for name in node.outputs if name)
    return places


def results_of(places: SamplePlaces, node: Node, types: Mapping[str, TensorType]) -> Iterator[tuple[str, Place]]:
    """The outputs of a node that depend on samples; OptionProblem for a node that mixes samples."""
    if training_of(node).passes is not None:
        raise refused(node, "its random numbers depend on the place of a sample in its pass", "leave the layer out")
    known = {name: place for name in node.inputs if name and (place := places.of(name)) is not None}
    if not known:
        return
    sampled = {name: place for name, place in known.items() if isinstance(place, SampleAxis)}
    if not sampled:
        yield from ((name, Summed()) for name in node.outputs if name)
        return
    summed = sorted(known.keys() - sampled.keys())
    if summed:
        raise refused(node, f"it combines {summed[0]!r}, a sum over the samples, with single samples", MIXING)
    access = operator_of(node).access(node, types)
    dim, within = _dim_of(places, node, access, sampled)
    for operand in access.operands:
        if operand.writes:
            yield operand.tensor, _written(node, operand, dim, within)


MIXING = "a layer that looks at one sample at a time, such as LayerNorm or GroupNorm in place of BatchNorm"


def refused(node: Node, why: str, hint: str, single: bool = True) -> OptionProblem:
    """The error for a node whose result cannot be split by samples; `single` ones in a pass may be a way out."""
    cause = f"--canonical-batch: node {node.name!r} ({node.op}) does not treat samples one by one"
    return OptionProblem(cause, [("reason", why)], f"{hint}, or batches of one sample" if single else hint)


def _dim_of(
    places: SamplePlaces, node: Node, access: Access, sampled: Mapping[str, SampleAxis]
) -> tuple[Dim, SampleAxis]:
    """The dim along which the operands have the samples, and their place within it."""
    found: tuple[str, SampleAxis] | None = None
    divisors = numerics_of(node).divisors
    for operand in access.operands:
        if operand.tensor not in sampled or not operand.reads or operand.arg in divisors:
            continue
        own = _located(node, operand, sampled[operand.tensor])
        if found is not None and own != found:
            raise refused(node, "its operands have the samples along different dims", MIXING)
        found = own
    if found is None:
        raise refused(node, "no operand has the samples along a dim", MIXING)
    name, within = found
    dim = access.dim(name)
    for operand in access.operands:
        if operand.mode == "in" and name in operand.dims and operand.tensor not in sampled:
            place = _written(node, operand, dim, within)
            places.rows[node.name, operand.tensor] = place.outer if isinstance(place, SampleAxis) else 0
    return dim, within


def _located(node: Node, operand: Operand, samples: SampleAxis) -> tuple[str, SampleAxis]:
    """The dim of an operand that has the samples, and their place within it."""
    at = samples.axis(operand.view)
    if at is None:
        raise refused(node, f"{operand.tensor!r} is seen as {list(operand.view)}, without an axis of samples", MIXING)
    index, front, within = at
    axis = operand.axes[index]
    simple = isinstance(axis, Window) and (axis.kernel, axis.stride, axis.pad) == (1, 1, 0)
    if isinstance(axis, Mirror) or not isinstance(axis, At | Windowed) or (isinstance(axis, Windowed) and not simple):
        raise refused(node, f"it reads {operand.tensor!r} across samples", MIXING)
    return axis.dim, SampleAxis(front, samples.count, within)


def _written(node: Node, operand: Operand, dim: Dim, within: SampleAxis) -> Place:
    """The place in a result."""
    index = next((i for i, axis in enumerate(operand.axes) if getattr(axis, "dim", None) == dim.name), None)
    if index is None:
        if dim.kind != "reduction":
            raise refused(node, f"{operand.tensor!r} does not depend on the dim of the samples", MIXING)
        return Summed()
    if type(operand.axes[index]) is not At or operand.view[index] != dim.size:
        raise refused(node, f"it writes {operand.tensor!r} across samples", MIXING)
    if operand.writes and dim.kind == "reduction":
        raise refused(node, f"it computes {operand.tensor!r} from one sample to the next", MIXING)
    before, behind = _products(operand.view, index)
    return SampleAxis(before * within.outer, within.count, within.inner * behind)


def _products(view: Sequence[int], index: int) -> tuple[int, int]:
    return math.prod(view[:index]), math.prod(view[index + 1 :])
