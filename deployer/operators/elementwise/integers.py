"""Arithmetic and comparison of integers."""

from collections.abc import Sequence
from typing import ClassVar

from deployer.core.access import Access
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Kernel
from deployer.core.operator import Array, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.numerics import Numerics
from deployer.expressions.formula import Attr, Input
from deployer.expressions.tree import call
from deployer.operators.base.elementwise import Flat
from deployer.operators.base.elementwise_dsl import INTEGERS, BroadcastElementwise, elementwise
from deployer.operators.base.operands import arrays, operands


@elementwise
class IntegerAdd(BroadcastElementwise):
    """The sum. Elementwise, over integers of 32 bits."""

    name = "IntegerAdd"
    operands = INTEGERS
    formula = call("add", *INTEGERS)
    no_gradient = "integers have none"


@elementwise
class IntegerDiv(BroadcastElementwise):
    """The quotient, towards zero. Elementwise, over integers of 32 bits."""

    name = "IntegerDiv"
    operands = INTEGERS
    formula = call("div", *INTEGERS)
    no_gradient = "integers have none"


@elementwise
class IntegerEqual(BroadcastElementwise):
    """Whether two are the same. Elementwise, over integers of 32 bits."""

    name = "IntegerEqual"
    operands = INTEGERS
    formula = call("equal", *INTEGERS)
    no_gradient = "integers have none"


@elementwise
class IntegerGreater(BroadcastElementwise):
    """Whether A is above B. Elementwise, over integers of 32 bits."""

    name = "IntegerGreater"
    operands = INTEGERS
    formula = call("less", *reversed(INTEGERS))
    no_gradient = "integers have none"


@elementwise
class IntegerGreaterOrEqual(BroadcastElementwise):
    """Whether A is not below B. Elementwise, over integers of 32 bits."""

    name = "IntegerGreaterOrEqual"
    operands = INTEGERS
    formula = call("less_equal", *reversed(INTEGERS))
    no_gradient = "integers have none"


@elementwise
class IntegerLess(BroadcastElementwise):
    """Whether A is below B. Elementwise, over integers of 32 bits."""

    name = "IntegerLess"
    operands = INTEGERS
    formula = call("less", *INTEGERS)
    no_gradient = "integers have none"


@elementwise
class IntegerLessOrEqual(BroadcastElementwise):
    """Whether A is not above B. Elementwise, over integers of 32 bits."""

    name = "IntegerLessOrEqual"
    operands = INTEGERS
    formula = call("less_equal", *INTEGERS)
    no_gradient = "integers have none"


@elementwise
class IntegerMax(BroadcastElementwise):
    """The larger of two. Elementwise, over integers of 32 bits."""

    name = "IntegerMax"
    operands = INTEGERS
    formula = call("max", *INTEGERS)
    no_gradient = "integers have none"


@elementwise
class IntegerMin(BroadcastElementwise):
    """The smaller of two. Elementwise, over integers of 32 bits."""

    name = "IntegerMin"
    operands = INTEGERS
    formula = call("min", *INTEGERS)
    no_gradient = "integers have none"


@elementwise
class IntegerMod(BroadcastElementwise):
    """The remainder of A by B, with the sign of A where `fmod` is 1, else with that of B.

    Elementwise, over integers of 32 bits; 0 where B is.
    """

    name = "IntegerMod"
    operands = INTEGERS
    formula = call("choose", Attr("fmod") > 0.0, call("rem", *INTEGERS), call("mod", *INTEGERS))
    defaults: ClassVar = {"fmod": 0.0}
    trials = ({"fmod": 1},)
    no_gradient = "integers have none"


@elementwise
class IntegerMul(BroadcastElementwise):
    """The product. Elementwise, over integers of 32 bits."""

    name = "IntegerMul"
    operands = INTEGERS
    formula = call("mul", *INTEGERS)
    no_gradient = "integers have none"


@elementwise
class IntegerPow(BroadcastElementwise):
    """Powers by integers; those by negative ones are towards zero, as quotients are.

    Elementwise, over integers of 32 bits; 0 by a negative one is 0.
    """

    name = "IntegerPow"
    operands = INTEGERS
    formula = call("pow", *INTEGERS)
    no_gradient = "integers have none"


@elementwise
class IntegerSub(BroadcastElementwise):
    """The difference. Elementwise, over integers of 32 bits."""

    name = "IntegerSub"
    operands = INTEGERS
    formula = call("sub", *INTEGERS)
    no_gradient = "integers have none"


CONDITION = Input("condition", "int32")


@elementwise
class IntegerWhere(BroadcastElementwise):
    """A where a condition is true, else B. Elementwise, over integers of 32 bits."""

    name = "IntegerWhere"
    operands = (CONDITION, *INTEGERS)
    formula = call("choose", CONDITION, *INTEGERS)
    no_gradient = "integers have none"


SIZES = (8, 16)


@register
class IntegerWrap(Flat):
    """Integers as those of fewer bits have them: what overflows the type wraps.

    Of `bits` bits, from 0 on unless `signed` is 1.
    """

    name = "IntegerWrap"
    file = FileSpec(custom=Signature((1, 1), (1, 1), {"bits": "INT", "signed": "INT"}), flags=("signed",))
    numerics = Numerics(wraps=True)
    kernel = Kernel(
        "integer_wrap_i32",
        pointers=(("x", "int32", False), ("y", "int32", True)),
        scalars=(("n", "u32"), ("bits", "u32"), ("is_signed", "u32")),
    )
    no_gradient = "integers have none"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = operands(node, inputs, 1)[0]
        if x.dtype != "int32" or node.attr_int("bits", 0) not in SIZES:
            raise unsupported(node, f"{x} has {node.attr_int('bits', 0)} bits", "integers of 8 or 16 bits")
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's astype."""
        x = arrays(inputs, 1)[0]
        kind = f"{'' if node.attr_int('signed', 0) else 'u'}int{node.attr_int('bits', 0)}"
        return (x.astype(kind).astype(x.dtype),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, the bits, the sign."""
        own = {"bits": Const(node.attr_int("bits", 0)), "is_signed": Const(node.attr_int("signed", 0))}
        return super().args(node, access) | own
