"""ScatterRows: a table with rows of U in place of those that numbers name: a step of ScatterND."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access
from deployer.core.declarations import Indices
from deployer.core.errors import NotDifferentiable
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Sample, mismatch, register, rng
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.lookup.elements import REDUCTIONS, Scattering, check_floats, put
from deployer.operators.lookup.scatter_elements import check_reduction
from deployer.operators.lookup.table import check_ids, from_the_front, row_indices
from deployer.operators.reduction.reduction import expand_to


@register
class ScatterRows(Scattering):
    """X[R, n], numbers[k], U[k, n]; several rows that go to one do so in the numbers' order."""

    name = "ScatterRows"
    custom = Form((3, 3), (1, 1), {"reduction": "STRING"})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x, ids, updates = operands(node, inputs, 3)
        check_ids(node, ids, inputs)
        check_reduction(node)
        if len(x.shape) != 2 or updates != TensorType(x.dtype, (*ids.shape, x.shape[1])) or len(ids.shape) != 1:
            raise mismatch(node, "the updates are not rows of X, one for each number", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Rows put in one by one; a number that is no row changes nothing."""
        x, ids, updates = arrays(inputs, 3)
        rows, y = from_the_front(ids, x.shape[0]), x.copy()
        put(y, (rows[rows >= 0],), updates[rows >= 0], node.attr_str("reduction", "none"))
        return (y,)

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices:
        """The numbers, of rows of X."""
        return row_indices(node.inputs[1], types[node.inputs[0]].shape[0])

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dU is dY at those rows; dX is dY, without those rows where they are replaced."""
        reduction = node.attr_str("reduction", "none")
        if reduction not in ("none", "add"):
            raise NotDifferentiable(f"node {node.name!r} ({self.name}) has no gradient: its reduction is {reduction!r}")
        ids = node.inputs[1]
        if b.needs_grad(2):
            b.emit("Gather", (douts[0], ids), (b.grad(2),), axis=0)
        if b.needs_grad(0) and reduction == "add":
            b.emit("Identity", douts[:1], (b.grad(0),))
        elif b.needs_grad(0):
            zeros = b.temp("zeros")
            expand_to(b, b.constant("zero", np.array(0, np.float32)), b.type(node.inputs[2]).shape, zeros)
            b.emit("ScatterRows", (douts[0], ids, zeros), (b.grad(0),))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Each tile of numbers changes rows of its tile of Y."""
        x, ids, updates = node.inputs
        check_floats(node, types[x])
        rows, columns = types[x].shape
        tensors = {"x": x, "ids": ids, "u": updates, "y": node.outputs[0]}
        return self.scatter(tensors, (1, rows, columns, types[ids].size), spread=True)

    def samples(self) -> Iterator[Sample]:
        """Rows replaced, and each reduction with rows that repeat."""
        r = rng(166)
        numbers = np.array([5, -6, 2, -1], np.int32)
        yield Sample("rows", (normal(r, 7, 5), numbers, normal(r, 4, 5)), onnx=False)
        for reduction in REDUCTIONS[1:]:
            repeated = np.asarray(r.integers(-6, 6, 9), np.int32)
            attrs: dict[str, AttrValue] = {"reduction": reduction}
            yield Sample(reduction, (normal(r, 6, 3), repeated, normal(r, 9, 3)), attrs, onnx=False)
