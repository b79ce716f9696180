"""GatherGrad: dX of a Gather, the sums of dY over the numbers of each row."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.declarations import Indices
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Kernel,
    Operator,
    Sample,
    Work,
    mismatch,
    register,
    rng,
    unsupported,
)
from deployer.operators.inputs import normal
from deployer.operators.lookup.table import (
    TABLE_SCALARS,
    check_ids,
    from_the_front,
    row_indices,
    table_access,
    table_args,
    table_axis,
)


@register
class GatherGrad(Operator):
    """X's shape, indices and dY, as ONNX Runtime has them. A row's terms are added in the order of the indices."""

    name = "GatherGrad"
    custom = Form((3, 3), (1, 1), {"axis": "INT"})
    kernel = Kernel(
        "gather_grad_f32",
        pointers=(("ids", "int32", False), ("dy", "float32", False), ("dx", "float32", True)),
        scalars=(*TABLE_SCALARS, *((name, "u32") for name in ("dy_o", "dy_k", "dx_o", "dx_r", "first"))),
    )
    static_inputs: ClassVar[dict[int, str]] = {0: "shape"}
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        if "shape" not in node.attrs:
            raise unsupported(node, "the shape is not constant", "a constant shape input")
        _, ids, dy = (*inputs, None, None, None)[:3]
        if ids is None or dy is None:
            raise mismatch(node, "indices or dY are absent", inputs)
        check_ids(node, ids, inputs)
        shape = node.attr_ints("shape", ())
        axis = table_axis(node, shape, inputs)
        if dy.shape != (*shape[:axis], *ids.shape, *shape[axis + 1 :]):
            raise mismatch(node, f"dY does not have X's shape, {shape}, with that of the indices at {axis}", inputs)
        return (TensorType(dy.dtype, shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Zeros, to which dY is added number by number; one that is no row adds to none."""
        ids, dy = (v for v in inputs if v is not None)
        shape = node.attr_ints("shape", ())
        axis = node.attr_int("axis", 0) % len(shape)
        dx = np.zeros(shape, dy.dtype)
        rows = from_the_front(ids.reshape(-1), shape[axis])
        lines = dy.reshape(*shape[:axis], rows.size, *shape[axis + 1 :])
        np.add.at(np.moveaxis(dx, axis, 0), rows[rows >= 0], np.moveaxis(lines, axis, 0)[rows >= 0])
        return (dx,)

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices:
        """The second input, of rows of X."""
        return row_indices(node.inputs[1], node.attr_ints("shape", ())[node.attr_int("axis", 0)])

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Each tile of indices adds to the rows of its tile of X."""
        _, ids, dy = node.inputs
        dx = node.outputs[0]
        return table_access(node, (dx, types[dx]), (dy, types[dy]), (ids, types[ids].size), forward=False)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Those of the table."""
        return table_args(access)

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One addition per element of dY, shared out over the tiles of rows, and a zero per element of dX."""
        columns = tile["o"] * tile["i"]
        added = -(-tile["k"] * tile["r"] // access.dim("r").size)
        cleared = -(-tile["r"] * tile["k"] // access.dim("k").size)
        return Work(macs=0, elements=columns * (added + cleared) + tile["k"], parallel=columns)

    def samples(self) -> Iterator[Sample]:
        """Numbers that repeat, and rows that none names, on each axis."""
        r = rng(113)
        forms: dict[str, tuple[tuple[int, ...], int, tuple[int, ...]]] = {
            "rows": ((7, 5), 0, (4,)),
            "repeated": ((3, 5), 0, (40,)),
            "sentence": ((11, 6), 0, (2, 5)),
            "middle": ((2, 5, 3), 1, (2, 2)),
            "last": ((3, 4, 6), -1, (7,)),
            "one": ((6, 4), 0, ()),
        }
        for label, (shape, axis, ids) in forms.items():
            yield _sample(r, label, shape, axis, ids)

    def sweep(self) -> Iterator[Sample]:
        """Tables of several sizes."""
        r = rng(114)
        for rows, columns, count in ((16, 16, 8), (64, 32, 16), (128, 16, 64), (32, 128, 4)):
            yield _sample(r, f"{rows}x{columns} {count}", (rows, columns), 0, (count,))


def _sample(r: np.random.Generator, label: str, shape: tuple[int, ...], axis: int, ids: tuple[int, ...]) -> Sample:
    at = axis % len(shape)
    numbers = np.asarray(r.integers(-shape[axis], shape[axis], ids), np.int32)
    dy = normal(r, *shape[:at], *ids, *shape[at + 1 :])
    return Sample(label, (None, numbers, dy), {"axis": axis, "shape": shape}, onnx=False)
