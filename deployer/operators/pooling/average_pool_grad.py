"""AveragePoolGrad: dY over the count of its window, to each element of the window."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel_facts import measured
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Kernel,
    Sample,
    Start,
    Work,
    mismatch,
    register,
    rng,
    unsupported,
)
from deployer.operators.finishing import (
    GATE,
    GATE_POINTER,
    check_gate,
    finished,
    gate_args,
    gate_array,
    gate_operands,
    gated_form,
)
from deployer.operators.inputs import arrays, normal
from deployer.operators.pooling.volume import mean_gradient
from deployer.operators.pooling.windows import (
    BACKWARD,
    FORMS,
    POOL_ATTRS,
    SPATIAL,
    PoolGrad,
    divisors,
    inner,
    pool_kernel,
    sides,
    taps,
    windows,
)

COUNTED = ("row", "column", "height", "width", "include_pad")
_UNGATED = pool_kernel("avg_pool_grad_f32", ("dy",), "dx", *BACKWARD, *COUNTED, "gate_c", "gate_r")


@register
class AveragePoolGrad(PoolGrad):
    """`input_shape` is X's; without it X is the smallest that has these windows.

    Fusion sets a second input where the gradient of a Relu follows: its Y.
    """

    name = "AveragePoolGrad"
    custom = Form((1, 1), (1, 1), {**POOL_ATTRS, "count_include_pad": "INT", "input_shape": "INTS"})
    domain = ""
    flags = ("ceil_mode", "count_include_pad")
    open_shape = "input_shape"
    kernel = Kernel(_UNGATED.symbol, (_UNGATED.pointers[0], GATE_POINTER, *_UNGATED.pointers[1:]), _UNGATED.scalars)
    pointed: ClassVar[dict[str, int]] = {GATE: 1}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        (x,) = super().infer(node, inputs)
        check_gate(node, inputs, self.pointed[GATE], x)
        return (x,)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """That of PoolGrad; a gate, where there is one, is read at the elements that dX is written at."""
        ungated = super().access(node, types)
        *inputs, dx = ungated.operands
        return replace(ungated, operands=(*inputs, *gate_operands(node, self.pointed[GATE], dx), dx))

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """That of PoolGrad, of a form of its own where there is a gate."""
        plain = super().work(node, access, tile)
        return replace(plain, form="_".join(filter(None, (plain.form, gated_form(access)))))

    def shape(self, node: Node, dy: TensorType, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
        """`input_shape`, or without it the smallest shape of X with these windows."""
        if node.attr_int("ceil_mode", 0) and node.attr_int("count_include_pad", 0):
            raise unsupported(node, "ceil_mode together with count_include_pad", "either of them")
        if "input_shape" in node.attrs:
            return node.attr_ints("input_shape", ())
        rank = len(dy.shape) - 2
        kernel, pads = node.attr_ints("kernel_shape", ()), node.attr_ints("pads", (0,) * 2 * rank)
        steps, gaps = (node.attr_ints(name, (1,) * rank) for name in ("strides", "dilations"))
        if [len(kernel), len(steps), len(gaps), len(pads)] != [rank, rank, rank, 2 * rank]:
            raise mismatch(node, f"kernel_shape, strides, dilations or pads do not have {rank} axes", inputs)
        spans = ((n - 1) * steps[i] + (kernel[i] - 1) * gaps[i] + 1 for i, n in enumerate(dy.shape[2:]))
        return dy.shape[:2] + tuple(span - pads[i] - pads[rank + i] for i, span in enumerate(spans))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY divided by the count of its window, added to each element of the window."""
        dy = arrays(inputs, 1)[0]
        shape = self.infer(node, (TensorType("float32", dy.shape),))[0].shape
        axes = sides(node, shape)
        part = dy.reshape(-1, *(a.count for a in axes)) / divisors(node, axes).astype(dy.dtype)
        dx = np.zeros((part.shape[0], *(max(a.span, a.size + a.pad) for a in axes)), dy.dtype)
        for tap in taps(axes):
            dx[tap] += part
        dx = np.asarray(dx[inner(axes)].reshape(shape))
        return (finished(node, dx, gate_array(inputs, self.pointed[GATE])),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A volume by its depth and its planes."""
        shape = self.infer(node, inputs)[0].shape
        axes = windows(node, shape)
        return mean_gradient(node, shape, axes) if len(axes) == SPATIAL else None

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The arguments of PoolGrad, those that say which padding counts, and the tile's place in X."""
        _, height, width = access.operand("dx").view
        counted: dict[str, ArgValue] = {"row": Start("h"), "column": Start("w")}
        counted |= {"height": Const(height), "width": Const(width)}
        counted |= gate_args(access, {"c": 0, "r": 1})
        return super().args(node, access) | counted | {"include_pad": Const(node.attr_int("count_include_pad", 0))}

    def samples(self) -> Iterator[Sample]:
        """All forms, padding that counts, and X's shape not given; with a gate."""
        r = rng(85)
        forms = dict(FORMS)
        forms["include_pad"] = (FORMS["overlap"][0], {**FORMS["overlap"][1], "count_include_pad": 1})
        for label, (shape, attrs) in forms.items():
            node = Node(label, self.name, (), (), attrs)
            dy_shape = shape[:2] + tuple(a.count for a in windows(node, shape))
            dy = normal(r, *dy_shape)
            yield Sample(label, (dy,), {**attrs, "input_shape": shape}, onnx=False)
            if not label.startswith("volume"):
                yield Sample(f"gated_{label}", (dy, normal(r, *shape)), {**attrs, "input_shape": shape}, onnx=False)
        yield Sample("smallest", (normal(r, 1, 2, 3, 4),), FORMS["plain"][1], onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """Windows on small images, with and without padding."""
        r = rng(88)
        for channels, side, kernel, pad in measured("pool_grads"):
            shape = (1, channels, side, side)
            attrs: dict[str, AttrValue] = {"kernel_shape": (kernel, kernel), "strides": (2, 2), "pads": (pad,) * 4}
            attrs["input_shape"] = shape
            dy_shape = shape[:2] + tuple(a.count for a in windows(Node("", self.name, (), (), attrs), shape))
            label, dy = f"{channels}x{side}x{side} {kernel}" + " padded" * pad, normal(r, *dy_shape)
            yield Sample(label, (dy,), attrs, onnx=False)
            yield Sample(f"{label} gated", (dy, normal(r, *shape)), attrs, onnx=False)
