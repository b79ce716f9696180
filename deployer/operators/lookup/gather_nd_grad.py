"""GatherNDGrad: dX of a GatherND, the sums of dY over the places of each part."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, registry, rng, unsupported
from deployer.operators.inputs import normal

INPUTS = 3


@register
class GatherNDGrad(Operator):
    """ONNX Runtime's, of X's shape, the places and dY; made of RowNumbers, and GatherGrad of X as rows."""

    name = "GatherNDGrad"
    custom = Form((INPUTS, INPUTS), (1, 1), {"batch_dims": "INT"})
    static_inputs: ClassVar[dict[int, str]] = {0: "shape"}
    composite = True
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        if "shape" not in node.attrs:
            raise unsupported(node, "the shape is not constant", "a constant shape input")
        _, ids, dy = (*inputs, *[None] * INPUTS)[:INPUTS]
        if ids is None or dy is None:
            raise mismatch(node, "places or dY are absent", inputs)
        x = TensorType(dy.dtype, node.attr_ints("shape", ()))
        if registry()["GatherND"].infer(node, (x, ids)) != (dy,):
            raise mismatch(node, f"dY is not what the places take from X of shape {x.shape}", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Zeros, to which dY is added part by part."""
        ids, dy = (x for x in inputs if x is not None)
        shape, batch, count = node.attr_ints("shape", ()), node.attr_int("batch_dims", 0), ids.shape[-1]
        dx = np.zeros(shape, dy.dtype)
        tables = dx.reshape(-1, *shape[batch:])
        places, parts = ids.reshape(len(tables), -1, count), dy.reshape(len(tables), -1, *shape[batch + count :])
        for table, at, part in zip(tables, places, parts, strict=True):
            np.add.at(table, tuple(at.T), part)
        return (dx,)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Numbers of rows, and the sums of what lies at each."""
        _, ids, _ = (*inputs, *[None] * INPUTS)[:INPUTS]
        assert ids is not None
        shape, batch, count = node.attr_ints("shape", ()), node.attr_int("batch_dims", 0), ids.shape[-1]
        table = (math.prod(shape[: batch + count]), math.prod(shape[batch + count :]))
        numbers, rows, total = (f"{node.name}/{label}" for label in ("numbers", "rows", "total"))
        attrs: dict[str, AttrValue] = {"sizes": shape[batch : batch + count], "each": math.prod(ids.shape[batch:-1])}
        wide = (*ids.shape[:-1], table[1])
        return [
            Node(numbers, "RowNumbers", node.inputs[1:2], (numbers,), attrs),
            Node(rows, "Reshape", node.inputs[2:], (rows,), {"shape": wide}),
            Node(total, "GatherGrad", ("", numbers, rows), (total,), {"axis": 0, "shape": table}),
            Node(node.name, "Reshape", (total,), node.outputs, {"shape": shape}),
        ]

    def samples(self) -> Iterator[Sample]:
        """Elements, parts and batches, with places that repeat."""
        r = rng(143)
        forms: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, int]] = {
            "elements": ((4, 5), (40,), 2, 0),
            "parts": ((4, 5, 3), (2, 3), 1, 0),
            "batch": ((2, 5, 3), (2, 4), 1, 1),
        }
        for label, (shape, places, count, batch) in forms.items():
            ids = np.stack([r.integers(-n, n, places) for n in shape[batch : batch + count]], -1).astype(np.int32)
            dy = normal(r, *places, *shape[batch + count :])
            attrs: dict[str, AttrValue] = {"shape": shape, "batch_dims": batch}
            yield Sample(label, (None, ids, dy), attrs, onnx=False)
