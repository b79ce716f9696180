"""Checks of a node's inputs and attributes that all operators and kernels rely on."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from onnx import TensorProto

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, Kernel
from deployer.core.limits import check_type
from deployer.core.operator import (
    Array,
    Operator,
    execution_of,
    file_of,
    numerics_of,
    operator_of,
    registry,
    training_of,
    unsupported,
)
from deployer.core.signatures import family, type_names
from deployer.core.traits.training import NO_TRAINING
from deployer.frontend.raw_graph import DeclaredTypes

ARGUMENTS = {"u32": (0, (1 << 32) - 1), "i32": (-(1 << 31), (1 << 31) - 1)}
"""Smallest and largest value of the integer types that kernels take."""
MISFITS = (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""The exceptions of an operator whose node has a wrong number or type of inputs or attributes."""
BITS: dict[int, tuple[int, int]] = {
    **{TensorProto.INT8: (8, 1), TensorProto.UINT8: (8, 0)},
    **{TensorProto.INT16: (16, 1), TensorProto.UINT16: (16, 0)},
}
"""Bits of integers that a target holds in more of them, and whether they have a sign."""
WIDE: dict[int, str] = {TensorProto.INT64: "int64", TensorProto.UINT32: "uint32", TensorProto.UINT64: "uint64"}
"""Integers of which a target holds those that fit int32."""
BITS_32: dict[int, type[np.generic]] = {TensorProto.INT32: np.int32, TensorProto.UINT32: np.uint32}
"""Integers of 32 bits, which are folded in 64."""
UNSIGNED = (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)


@contextmanager
def refusing_malformed(node: Node) -> Iterator[None]:
    """Turn an operator's exception over malformed inputs or attributes into UnsupportedOperator."""
    try:
        yield
    except MISFITS as error:
        why = f"its inputs or attributes do not have the operator's form ({error})"
        raise unsupported(node, why, "the form that the ONNX operator list gives") from error


def inferred(operator: Operator, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
    """The types of the node's outputs; raises UnsupportedOperator for an attribute that the operator rejects."""
    _check_flags(node, operator)
    _check_finite(node, operator)
    with refusing_malformed(node):
        types = operator.infer(node, inputs)
    for name, kind in zip(node.outputs, types, strict=False):
        check_type(f"{name!r} of node {node.name!r} ({node.op})", kind)
    return types


def _check_flags(node: Node, operator: Operator) -> None:
    """Raise UnsupportedOperator for a flag other than 0 or 1, because implementations disagree on its meaning."""
    for name in file_of(operator).flags:
        value = node.attrs.get(name, 0)
        if not isinstance(value, int) or value not in (0, 1):
            raise unsupported(node, f"{name} is {value!r}", f"{name} 0 or 1")


def _check_finite(node: Node, operator: Operator) -> None:
    for name, value in node.attrs.items():
        if name not in file_of(operator).unbounded and not _finite(value):
            raise unsupported(node, f"{name} is {value!r}", f"a finite {name}")


def _finite(value: AttrValue) -> bool:
    numbers = value if isinstance(value, tuple) else (value,)
    return all(math.isfinite(n) for n in numbers if isinstance(n, float))


def check_kernel(node: Node, types: Mapping[str, TensorType]) -> None:
    """Raise UnsupportedOperator for an operand's dtype or an argument's value that the kernel cannot take."""
    operator = operator_of(node)
    if operator.kernel is None:
        return
    with refusing_malformed(node):
        access = operator.access(node, types)
        args = operator.args(node, access)
    dtypes = {name: dtype for name, dtype, _ in operator.kernel.pointers}
    for operand in access.operands:
        kind = types[operand.tensor]
        if not execution_of(operator).takes(operand.arg, dtypes[operand.arg], kind.dtype):
            why = f"its operand {operand.tensor!r} is {kind}"
            raise unsupported(node, why, f"{dtypes[operand.arg]}, or constants, which are folded")
    _check_arguments(node, operator.kernel, args)


def _check_arguments(node: Node, kernel: Kernel, args: Mapping[str, ArgValue]) -> None:
    for name, kind in kernel.scalars:
        value = args.get(name)
        if isinstance(value, Const) and kind in ARGUMENTS:
            least, most = ARGUMENTS[kind]
            if not least <= value.value <= most:
                raise unsupported(node, f"kernel argument {name} would be {value.value}", f"{least} to {most}")


def element_types(node: Node, versions: Sequence[int], known: Mapping[str, int]) -> dict[str, int]:
    """ONNX's element types of a node's outputs by name, as far as they follow from those `known` of its inputs."""
    named = [type_names(node.op, version) for version in versions if version]
    return named[-1].elements(node, known) if named else {}


def check_elements(node: Node, versions: Sequence[int], known: Mapping[str, int]) -> None:
    """UnsupportedOperator for a type of an input that the schema of none of the versions allows; `known` has floats."""
    faults = [type_names(node.op, version).fault(node, known) if version else None for version in versions]
    found = [fault for fault in faults if fault is not None]
    if found and len(found) == len(faults):
        raise unsupported(node, *found[-1])


def check_counted(node: Node, constants: Mapping[str, Array]) -> None:
    """UnsupportedOperator for a node inside of another one that draws random numbers: nothing counts its passes."""
    training = training_of(node) if node.op in registry() else NO_TRAINING
    if training.passes is not None and training.draws(node, constants):
        why = "it drops elements at random inside of another node, where nothing counts passes"
        raise unsupported(node, why, "training_mode false, or the node outside of it")


def within_types(node: Node, elements: Mapping[str, int]) -> tuple[Node, list[Node]]:
    """The node, and the nodes by which integers of its results that overflow their types wrap, as ONNX Runtime's do."""
    kinds = {name: BITS[kind] for name, kind in elements.items() if kind in BITS and _may_overflow(node, kind)}
    if not kinds:
        return node, []
    wrap = next(name for name, operator in registry().items() if operator.numerics and operator.numerics.wraps)
    wraps = [
        Node(f"{node.name}/{name}", wrap, (f"{name}/wide",), (name,), {"bits": bits, "signed": signed})
        for name, (bits, signed) in kinds.items()
    ]
    return replace(node, outputs=tuple(f"{name}/wide" if name in kinds else name for name in node.outputs)), wraps


def check_wide(node: Node, elements: Mapping[str, int], constants: Collection[str]) -> None:
    """UnsupportedOperator where integers that may be beyond int32 are computed at run time."""
    for name, kind in elements.items():
        if kind in WIDE and name not in constants and _may_overflow(node, kind):
            text = f"its integers are {WIDE[kind]}, and may be beyond int32, which is what targets compute"
            raise unsupported(node, text, "int32 operands, or constants")


def wrapped(node: Node, elements: Mapping[str, int], constants: Mapping[str, Array]) -> dict[str, Array]:
    """Those of a node's results that are constants of 32 bits, as these bits; they were computed in 64.

    UnsupportedOperator for one below zero that is of uint64.
    """
    found = {}
    for name, kind in elements.items():
        array = constants.get(name)
        if kind in BITS_32 and array is not None and array.dtype.kind == "i":
            found[name] = array.astype(BITS_32[kind]).astype(array.dtype)
        if kind == TensorProto.UINT64 and array is not None and (array < 0).any():
            text = f"it computes {array[array < 0].reshape(-1)[0]} for {name!r}, which is of uint64"
            raise unsupported(node, text, "smaller constants")
    return found


def _may_overflow(node: Node, kind: int) -> bool:
    """Whether results of the node may be no integers of ONNX's type."""
    with refusing_malformed(node):
        overflow = numerics_of(node).overflow_of(node) if node.op in registry() else "none"
    return overflow == "any" or (overflow == "unsigned" and kind in UNSIGNED)


def two_elements(element: int, declared: DeclaredTypes) -> list[tuple[str, str]]:
    """The two element types where a declaration has another one of integers; int32, int64 and bool are as one."""
    both = (declared.element, element)
    kinds = {TensorProto.INT64 if kind == TensorProto.BOOL else family(kind) for kind in both}
    if not all(both) or len(kinds) == 1:
        return []
    return [("element types", " and ".join(map(TensorProto.DataType.Name, both)))]


def agrees(kind: TensorType, declared: DeclaredTypes) -> bool:
    """Whether a declaration permits a type; a tensor of one element may have any rank."""
    if declared.dtype not in ("", kind.dtype) or declared.shape is None:
        return declared.dtype in ("", kind.dtype)
    same_rank = len(declared.shape) == len(kind.shape)
    exact = same_rank and all(a in (-1, b) for a, b in zip(declared.shape, kind.shape, strict=False))
    return exact or (kind.size == 1 and all(a in (-1, 1) for a in declared.shape))
