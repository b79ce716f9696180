"""Gradient accumulation, clipping, and the count of updates."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Broadcast, Dim, Operand, Whole, Window
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, First, Flag, Kernel, Last, Length, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, execution_of, mismatch, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.execution import GROUPED, Execution, Sums
from deployer.core.traits.file import FileSpec, Limiter
from deployer.core.traits.training import Accumulator, Counter, State
from deployer.operators.base.elementwise import Flat
from deployer.operators.base.operands import arrays, floats, operands
from deployer.operators.base.sums import CARRY, CARRY_SCALARS, carry_args, carry_operands
from deployer.operators.elementwise.activation import Clip
from deployer.operators.elementwise.arithmetic import Mul

CONTINUES = "continues"
"""The attribute of an accumulation that never begins a sum; no file has it."""


@register
class InPlaceAccumulatorV2(Flat):
    """buffer = flag ? grad : buffer + grad; the flag is the pass's lazy-reset input.

    The output overwrites the buffer; exporters declare it as a bool flag, which is not believed. A node that CONTINUES
    an update, with the next sample of a pass, adds in any pass.
    """

    name = "InPlaceAccumulatorV2"
    file = FileSpec(custom=Signature((3, 3), (0, 1)))
    training = Accumulator(usual=True, continues=CONTINUES)
    kernel = Kernel(
        "accumulate_f32",
        pointers=(("buffer", "float32", True), ("grad", "float32", False)),
        scalars=(("n", "u32"), ("fresh", "u32")),
    )
    inplace: ClassVar[dict[int, int]] = {0: 0}
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The buffer's type; the gradient has as many elements, the flag one."""
        buffer, grad, flag = operands(node, inputs, 3)
        if grad.dtype != buffer.dtype or grad.size != buffer.size:
            raise mismatch(node, "buffer and gradient differ in type", inputs)
        if flag.size != 1:
            raise mismatch(node, "the reset flag has more than one element", inputs)
        return (buffer,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """flag ? grad : buffer + grad."""
        buffer, grad, flag = arrays(inputs, 3)
        grad = grad.reshape(buffer.shape)
        fresh = np.any(flag) and not node.attr_int(CONTINUES, 0)
        return (grad.copy() if fresh else np.asarray(buffer + grad),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim; the buffer's old content is not read in a pass with the flag set."""
        flat = super().access(node, types)
        buffer, *rest = flat.operands
        begins = not node.attr_int(CONTINUES, 0)
        return replace(flat, operands=(replace(buffer, overwrite_on_first_pass=begins), *rest))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length and the flag of the running pass."""
        return {"n": Extent("n"), "fresh": Const(0) if node.attr_int(CONTINUES, 0) else Flag()}


MARGIN = 1e-6
"""PyTorch's clip_grad_norm_ and ONNX Runtime's InplaceClipGradNorm add it to the norm, so that none of zero divides."""


@register
class NormScale(Flat):
    """The factor that clips gradients of squared norm x to a norm of at most `limit`.

    min(1, limit / (sqrt(x) + MARGIN)); attribute `limit`.
    """

    name = "NormScale"
    kernel = Kernel(
        "norm_scale_f32",
        pointers=(("x", "float32", False), ("y", "float32", True)),
        scalars=(("n", "u32"), ("limit", "f32"), ("margin", "f32")),
    )
    file = FileSpec(
        custom=Signature((1, 1), (1, 1), {"limit": "FLOAT"}, frozenset({"limit"})),
        limiter=Limiter("InplaceClipGradNorm", Signature((1, 1), (1, 1), {"max_norm": "FLOAT"}), "max_norm", 1.0),
    )
    no_gradient = "it belongs to an update"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X; the limit is positive."""
        if not _limit(node) > 0:
            raise unsupported(node, f"limit is {_limit(node):g}", "a limit above 0")
        return (floats(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """limit / (sqrt(x) + MARGIN), at most 1."""
        x = arrays(inputs, 1)[0]
        limit, margin = (x.dtype.type(number) for number in (_limit(node), np.float32(MARGIN)))
        return (np.asarray(np.minimum(limit / (np.sqrt(x) + margin), x.dtype.type(1))),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, the limit and the margin."""
        return {"n": Extent("n"), "limit": Const(_limit(node)), "margin": Const(MARGIN)}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """A root and a quotient per element."""
        return Work(macs=0, elements=2 * tile["n"], parallel=tile["n"])


def _limit(node: Node) -> float:
    return float(np.float32(node.attr_float("limit", 0.0)))


class ChainedSum(Operator):
    """y = before + the sum of the `terms` of x; inputs are x and, behind the first of a chain, the sum before."""

    no_gradient = "it belongs to an update"

    @abstractmethod
    def terms(self, x: Array) -> Array:
        """The terms of the sum."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar, as what comes before."""
        if floats(node, inputs, len(inputs))[-1].size != 1 and len(inputs) > 1:
            raise mismatch(node, "the sum before has more than one element", inputs)
        return (TensorType("float32", ()),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """before + sum(terms)."""
        x, *before = (a for a in inputs if a is not None)
        total = self.terms(x).sum(dtype=x.dtype)
        return (np.asarray(before[0].reshape(()) + total if before else total, dtype=x.dtype),)


@register
class SquareSum(ChainedSum):
    """y = before + sum(x^2); over all gradients, one after the other, it is their squared norm.

    Inputs are x and, behind the first of a chain, the sum before.
    """

    name = "SquareSum"
    file = FileSpec(custom=Signature((1, 2), (1, 1)))
    kernel = Kernel(
        "square_sum_f32",
        pointers=(("x", "float32", False), ("before", "float32", False), ("y", "float32", True), CARRY),
        scalars=(("n", "u32"), ("first", "u32"), ("last", "u32"), *CARRY_SCALARS),
    )
    execution = Execution(sums=Sums(("n",)))

    def terms(self, x: Array) -> Array:
        """Squares."""
        return np.square(x)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Of many elements the sums of groups, which all cores share, and their total."""
        if floats(node, inputs, 1)[0].size < SHARED:
            return None
        x, *before = node.inputs
        groups = f"{node.name}/groups"
        return [
            Node(groups, SquareGroups.name, (x,), (groups,)),
            Node(node.name, GroupTotal.name, (groups, *before), node.outputs),
        ]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat reduction dim."""
        size = types[node.inputs[0]].size
        y = Operand("y", node.outputs[0], "out", (1,), (Broadcast(),))
        listed = [Operand("x", node.inputs[0], "in", (size,), (At("n"),))]
        listed += [Operand("before", name, "in", (1,), (Broadcast(),)) for name in node.inputs[1:]]
        return Access(
            (Dim("n", size, "reduction"),), (*listed, y, *carry_operands(node, self.kernel, execution_of(self).sums, y))
        )

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, and whether it is first or last in the sum."""
        return {"n": Extent("n"), "first": First(), "last": Last(), **carry_args(execution_of(self).sums, access)}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """A multiply-accumulate per element, all on one core."""
        return Work(macs=tile["n"], elements=0, parallel=1)


SHARED = 4 * GROUPED
"""From so many elements on cores share a sum of squares: a step more costs less than what half of the cores wait."""


@register
class SquareGroups(Operator):
    """The sums of the squares of each group of a long sum over X, in the order of SquareSum.

    X to a number for each group; the last one may be shorter.
    """

    name = "SquareGroups"
    kernel = Kernel(
        "square_groups_f32",
        pointers=(("x", "float32", False), ("y", "float32", True)),
        scalars=(("groups", "u32"), ("n", "u32")),
    )
    no_gradient = "it belongs to an update"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A number for each group."""
        return (TensorType("float32", (-(-floats(node, inputs, 1)[0].size // GROUPED),)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The sum of the squares of each group."""
        squares = np.square(arrays(inputs, 1)[0].reshape(-1))
        return (np.add.reduceat(squares, np.arange(0, squares.size, GROUPED)),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dim g over groups, which are windows of X."""
        size, count = types[node.inputs[0]].size, types[node.outputs[0]].size
        x = Operand("x", node.inputs[0], "in", (size,), (Window("g", GROUPED, GROUPED),))
        return Access((Dim("g", count),), (x, Operand("y", node.outputs[0], "out", (count,), (At("g"),))))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's groups and elements."""
        return {"groups": Extent("g"), "n": Length("x", 0)}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """A multiply-accumulate per element; a group is one core's."""
        return Work(macs=tile["g"] * GROUPED, elements=0, parallel=tile["g"])


@register
class GroupTotal(ChainedSum):
    """y = before + the total of groups of a long sum, which loses nothing until the end.

    The sums of groups and, behind the first of a chain, the sum before.
    """

    name = "GroupTotal"
    kernel = Kernel(
        "group_total_f32",
        pointers=(("x", "float32", False), ("before", "float32", False), ("y", "float32", True)),
        scalars=(("n", "u32"),),
    )

    def terms(self, x: Array) -> Array:
        """The sums of groups."""
        return x

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """No dim is cut: there are few groups."""
        x, *before = node.inputs
        size = types[x].size
        listed = [Operand("x", x, "in", (size,), (Whole(),))]
        listed += [Operand("before", name, "in", (1,), (Broadcast(),)) for name in before]
        return Access((Dim("one", 1),), (*listed, Operand("y", node.outputs[0], "out", (1,), (At("one"),))))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The number of groups."""
        return {"n": Const(access.operand("x").view[0])}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """An operation per group, all on one core."""
        return Work(macs=0, elements=access.operand("x").view[0], parallel=1)


# Nodes of an update that clip gradients: by value and by norm.


def by_value(
    gradients: Mapping[str, str], limit: float, fresh: Callable[[str], str]
) -> tuple[list[Node], dict[str, str]]:
    """Nodes that keep each element between -limit and limit, and the new gradient of each weight."""
    clipped = {weight: fresh(f"{weight}_grad_clipped") for weight in gradients}
    bounds = {"min": -limit, "max": limit}
    nodes = [Node(f"clip_{w}", Clip.name, (g,), (clipped[w],), dict(bounds)) for w, g in gradients.items()]
    return nodes, clipped


def by_norm(
    gradients: Mapping[str, str], limit: float, fresh: Callable[[str], str]
) -> tuple[list[Node], dict[str, str]]:
    """Nodes that scale all gradients by one number, so that their norm is at most `limit`, and the new gradients.

    The squares are summed weight by weight, in the order of `gradients`.
    """
    nodes, total = list[Node](), tuple[str, ...]()
    for weight, gradient in gradients.items():
        result = fresh(f"{weight}_grad_squares")
        nodes.append(Node(f"squares_{weight}", SquareSum.name, (gradient, *total), (result,)))
        total = (result,)
    scale = fresh("gradient_scale")
    nodes.append(Node("gradient_scale", NormScale.name, total, (scale,), {"limit": limit}))
    scaled = {weight: fresh(f"{weight}_grad_scaled") for weight in gradients}
    nodes += [Node(f"scale_{w}", Mul.name, (g, scale), (scaled[w],)) for w, g in gradients.items()]
    return nodes, scaled


@register
class UpdateCount(Operator):
    """N' = n + 1, in place: the number of the update that runs, which optimizers with corrections read.

    The front end puts it before the optimizers; a file has none.
    """

    name = "UpdateCount"
    training = Counter(State("step"))
    kernel = Kernel("update_count_i32", pointers=(("count", "int32", True),), scalars=(("n", "u32"),))
    inplace: ClassVar[dict[int, int]] = {0: 0}
    no_gradient = "it is a part of an optimizer"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of the count, which is of integers."""
        (count,) = operands(node, inputs, 1)
        if count.dtype != "int32":
            raise unsupported(node, f"the count is {count}", "an integer")
        return (count,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """One more."""
        (count,) = arrays(inputs, 1)
        return (np.asarray(count + count.dtype.type(1)),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim."""
        size = types[node.inputs[0]].size
        return Access((Dim("n", size),), (Operand("count", node.inputs[0], "inout", (size,), (At("n"),)),))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length."""
        return {"n": Extent("n")}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One operation per element."""
        return Work(macs=0, elements=tile["n"], parallel=tile["n"])
