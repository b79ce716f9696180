"""ScatterND: X with parts of U at places along its first axes."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.lookup.elements import REDUCTIONS, put
from deployer.operators.lookup.scatter_elements import check_reduction
from deployer.operators.lookup.table import check_ids


@register
class ScatterND(Operator):
    """Made of RowNumbers and ScatterRows over X as rows."""

    name = "ScatterND"
    versions = (11, 13, 16, 18)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x, ids, updates = operands(node, inputs, 3)
        check_ids(node, ids, inputs)
        check_reduction(node)
        count = ids.shape[-1] if ids.shape else 0
        if not 1 <= count <= len(x.shape) or updates != TensorType(x.dtype, (*ids.shape[:-1], *x.shape[count:])):
            raise mismatch(node, "places do not lie within X, or the updates are not parts of it", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Parts put in one by one."""
        x, ids, updates = arrays(inputs, 3)
        y, count = x.copy(), ids.shape[-1]
        sizes = np.array(x.shape[:count])
        places = ids.reshape(-1, count) + sizes * (ids.reshape(-1, count) < 0)
        put(y, tuple(places.T), updates.reshape(-1, *x.shape[count:]), node.attr_str("reduction", "none"))
        return (y,)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Numbers of rows, and rows put there."""
        x, ids, _ = operands(node, inputs, 3)
        count = ids.shape[-1]
        table = (math.prod(x.shape[:count]), math.prod(x.shape[count:]))
        lines = math.prod(ids.shape[:-1])
        numbers, flat, rows, new, put_in = (f"{node.name}/{x}" for x in ("numbers", "flat", "rows", "new", "put"))
        attrs: dict[str, AttrValue] = {"reduction": node.attr_str("reduction", "none")}
        return [
            Node(numbers, "RowNumbers", node.inputs[1:2], (numbers,), {"sizes": x.shape[:count], "each": lines}),
            Node(flat, "Reshape", (numbers,), (flat,), {"shape": (lines,)}),
            Node(rows, "Reshape", node.inputs[:1], (rows,), {"shape": table}),
            Node(new, "Reshape", node.inputs[2:], (new,), {"shape": (lines, table[1])}),
            Node(put_in, "ScatterRows", (rows, flat, new), (put_in,), attrs),
            Node(node.name, "Reshape", (put_in,), node.outputs, {"shape": x.shape}),
        ]

    def samples(self) -> Iterator[Sample]:
        """Elements and parts; each reduction with places that repeat."""
        r = rng(168)
        corner = np.array([[0, 1], [-1, 3], [2, -5]], np.int32)
        yield Sample("elements", (normal(r, 4, 5), corner, normal(r, 3)), onnx=False)
        yield Sample("parts", (normal(r, 4, 5), np.array([[3], [-3]], np.int32), normal(r, 2, 5)), onnx=False)
        for reduction in REDUCTIONS[1:]:
            ids = np.asarray(r.integers(-4, 4, (3, 2, 1)), np.int32)
            yield Sample(reduction, (normal(r, 4, 3), ids, normal(r, 3, 2, 3)), {"reduction": reduction}, onnx=False)
