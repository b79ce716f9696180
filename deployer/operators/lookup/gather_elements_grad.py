"""GatherElementsGrad: dX of a GatherElements, zeros to which dY is added at the elements that were taken."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.declarations import Indices
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Sample, mismatch, register, rng, unsupported
from deployer.operators.inputs import normal
from deployer.operators.lines import axis_of, lines
from deployer.operators.lookup.elements import Scattering, check_elements_ids, grid, put
from deployer.operators.lookup.table import row_indices


@register
class GatherElementsGrad(Scattering):
    """dY, X's shape and indices, as ONNX Runtime has them. What adds to one element does so in the indices' order."""

    name = "GatherElementsGrad"
    custom = Form((3, 3), (1, 1), {"axis": "INT"})
    static_inputs: ClassVar[dict[int, str]] = {1: "shape"}
    usual = "add"
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        if "shape" not in node.attrs:
            raise unsupported(node, "the shape is not constant", "a constant shape input")
        dy, _, ids = (*inputs, None, None, None)[:3]
        if ids is None or dy is None:
            raise mismatch(node, "dY or indices are absent", inputs)
        x = TensorType(dy.dtype, node.attr_ints("shape", ()))
        axis = axis_of(node, x.shape, 0, inputs)
        check_elements_ids(node, x, ids, axis, inputs)
        others = all(a == b for at, (a, b) in enumerate(zip(x.shape, ids.shape, strict=True)) if at != axis)
        if dy.shape != ids.shape or not others:
            raise mismatch(node, f"dY and indices are not of X's shape, {x.shape}, besides axis {axis}", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Zeros, to which dY is added number by number; one that is no row adds to none."""
        dy, ids = (v for v in inputs if v is not None)
        dx = np.zeros(node.attr_ints("shape", ()), dy.dtype)
        axis = axis_of(node, dx.shape, 0)
        where, present = grid(ids, dx.shape[axis], axis)
        put(dx, tuple(place[present] for place in where), dy[present], "add")
        return (dx,)

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices:
        """The third input, of rows of X."""
        shape = node.attr_ints("shape", ())
        return row_indices(node.inputs[2], shape[axis_of(node, shape, 0)])

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Each tile of indices adds to the rows of its tile of X."""
        dy, _, ids = node.inputs
        shape = node.attr_ints("shape", ())
        axis = axis_of(node, shape, 0)
        sizes = (*lines(shape, axis), types[ids].shape[axis])
        return self.scatter({"ids": ids, "u": dy, "y": node.outputs[0]}, sizes)

    def samples(self) -> Iterator[Sample]:
        """Numbers that repeat, and rows that none names, on each axis."""
        r = rng(152)
        forms: dict[str, tuple[tuple[int, ...], int, int]] = {
            "rows": ((6, 5), 0, 4),
            "columns": ((4, 3), 1, 19),
            "middle": ((3, 5, 4), 1, 6),
            "last": ((2, 3, 7), -1, 5),
        }
        for label, (shape, axis, count) in forms.items():
            yield _sample(r, label, shape, axis, count)

    def sweep(self) -> Iterator[Sample]:
        """Tables of several sizes."""
        r = rng(153)
        for rows, columns, count in ((16, 16, 8), (64, 32, 16), (128, 16, 64), (32, 128, 4)):
            yield _sample(r, f"{rows}x{columns} {count}", (rows, columns), 0, count)


def _sample(r: np.random.Generator, label: str, shape: tuple[int, ...], axis: int, count: int) -> Sample:
    at = axis % len(shape)
    size = (*shape[:at], count, *shape[at + 1 :])
    numbers = np.asarray(r.integers(-shape[at], shape[at], size), np.int32)
    return Sample(label, (normal(r, *size), None, numbers), {"axis": axis, "shape": shape}, onnx=False)
