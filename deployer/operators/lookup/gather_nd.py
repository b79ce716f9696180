"""GatherND: parts of X by places along its first axes."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.ir import TABLE, AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.lookup.table import check_ids


@register
class GatherND(Operator):
    """Made of RowNumbers, and Gather from X as rows; a place that is outside gives NaN."""

    name = "GatherND"
    learned: ClassVar[dict[int, str]] = {0: TABLE}
    versions = (11, 12, 13)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The indices' shape without the last axis, and what is left of X's."""
        x, ids = operands(node, inputs, 2)
        check_ids(node, ids, inputs)
        batch = node.attr_int("batch_dims", 0)
        count = ids.shape[-1] if ids.shape else 0
        if (
            not 0 <= batch < len(ids.shape)
            or not 1 <= count <= len(x.shape) - batch
            or x.shape[:batch] != ids.shape[:batch]
        ):
            raise mismatch(node, f"places do not lie within X with {batch} batch dims", inputs)
        return (TensorType(x.dtype, (*ids.shape[:-1], *x.shape[batch + count :])),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's choice by several arrays, batch by batch."""
        x, ids = arrays(inputs, 2)
        batch = node.attr_int("batch_dims", 0)
        tables, places = x.reshape(-1, *x.shape[batch:]), ids.reshape(-1, *ids.shape[batch:])
        y = np.stack([t[tuple(np.moveaxis(p, -1, 0))] for t, p in zip(tables, places, strict=True)])
        return (y.reshape(*ids.shape[:-1], *x.shape[batch + ids.shape[-1] :]),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Numbers of rows, and a Gather of these."""
        x, ids = operands(node, inputs, 2)
        batch, count = node.attr_int("batch_dims", 0), ids.shape[-1]
        table = (math.prod(x.shape[: batch + count]), math.prod(x.shape[batch + count :]))
        numbers, rows, taken = (f"{node.name}/{label}" for label in ("numbers", "rows", "taken"))
        attrs: dict[str, AttrValue] = {
            "sizes": x.shape[batch : batch + count],
            "each": math.prod(ids.shape[batch:-1]),
        }
        shape = self.infer(node, inputs)[0].shape
        return [
            Node(numbers, "RowNumbers", node.inputs[1:], (numbers,), attrs),
            Node(rows, "Reshape", node.inputs[:1], (rows,), {"shape": table}),
            Node(taken, "Gather", (rows, numbers), (taken,), {"axis": 0}),
            Node(node.name, "Reshape", (taken,), node.outputs, {"shape": shape}),
        ]

    def samples(self) -> Iterator[Sample]:
        """Elements and parts, one axis and several, with and without batch dims."""
        r = rng(167)
        forms: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, int]] = {
            "elements": ((4, 5), (7,), 2, 0),
            "parts": ((4, 5, 3), (2, 3), 1, 0),
            "batch": ((2, 5, 3), (2, 4), 1, 1),
        }
        for label, (shape, places, count, batch) in forms.items():
            axes = shape[batch : batch + count]
            ids = np.stack([r.integers(-n, n, places) for n in axes], -1).astype(np.int64)
            yield Sample(
                label, (normal(r, *shape), ids.astype(np.int32)), {"batch_dims": batch} if batch else {}, onnx=False
            )
