"""SliceGrad: dX of a Slice with steps, zero but for the elements that the Slice took."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, Reach
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Sample, mismatch, register, rng
from deployer.operators.copies.selection import Pick, Picking, dims_of, per_loop, pick_kernel
from deployer.operators.inputs import arrays, normal, operands


@register
class SliceGrad(Picking):
    """dY to dX of `input_shape`: along each axis, dY's element i is dX's element `starts + i * steps`."""

    name = "SliceGrad"
    custom = Form((1, 1), (1, 1), {"input_shape": "INTS", "starts": "INTS", "steps": "INTS"})
    kernel = pick_kernel(
        "slice_grad_f32", "dy", "dx", *per_loop("at", "i32"), *per_loop("len", "u32"), *per_loop("step", "u32")
    )
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X, inside of which all of dY must lie."""
        dy = operands(node, inputs, 1)[0]
        for p in _picks(node, dy):
            if p.first < 0 or p.step < 1 or p.first + (p.count - 1) * p.step >= p.size:
                raise mismatch(node, f"dY does not lie inside of X, {node.attr_ints('input_shape', ())}", inputs)
        return (TensorType(dy.dtype, node.attr_ints("input_shape", ())),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Zeros, with dY at the elements that the Slice took."""
        dy = arrays(inputs, 1)[0]
        dx = np.zeros(node.attr_ints("input_shape", ()), dy.dtype)
        picks = _picks(node, TensorType("float32", dy.shape))
        dx[tuple(slice(p.first, p.first + p.count * p.step, p.step) for p in picks)] = dy
        return (dx,)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Up to four parallel dims over dX, merged from its axes; a tile between two steps has no dY."""
        picks = self.loops(node, _picks(node, types[node.inputs[0]]))
        maps = [Reach(d, 1, p.step, pad=-p.first) for d, p in zip(dims_of(len(picks)), picks, strict=True)]
        return self.picked(node, types, ([p.count for p in picks], [p.size for p in picks]), maps)

    def samples(self) -> Iterator[Sample]:
        """A vector, both axes of a matrix, an image, four axes, and a single element."""
        r = rng(94)
        forms: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
            "vector": ((4,), (13,), (2,), (3,)),
            "matrix": ((3, 5), (9, 11), (1, 0), (3, 2)),
            "image": ((2, 2, 3, 3), (2, 2, 7, 8), (0, 0, 1, 1), (1, 1, 2, 3)),
            "four_axes": ((1, 2, 2, 3), (4, 4, 5, 6), (3, 1, 0, 1), (2, 2, 3, 2)),
            "single": ((4, 1), (4, 6), (0, 2), (1, 5)),
        }
        for label, (part, shape, starts, steps) in forms.items():
            attrs: dict[str, AttrValue] = {"input_shape": shape, "starts": starts, "steps": steps}
            yield Sample(label, (normal(r, *part),), attrs, onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """The samples."""
        yield from self.samples()


def _picks(node: Node, dy: TensorType) -> tuple[Pick, ...]:
    """For each axis of dX the elements at which dY lies."""
    shape, starts, steps = (node.attr_ints(name, ()) for name in ("input_shape", "starts", "steps"))
    if not len(shape) == len(starts) == len(steps) == len(dy.shape):
        raise mismatch(node, f"input_shape {shape}, starts {starts} and steps {steps} are not of dY's rank", (dy,))
    return tuple(map(Pick, shape, starts, steps, dy.shape))
