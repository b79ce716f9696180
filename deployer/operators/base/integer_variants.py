"""Operators that compute over integers as well as over floats: one class, and a kernel for each element type."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.kernel import Kernel
from deployer.core.operator import Array, Operator, register
from deployer.core.samples import Sample

C = TypeVar("C", bound=type[Operator])
FLOATS, INTEGERS = "_f32", "_i32"
"""How symbols of kernels end."""


def over_integers(cls: C) -> C:
    """Register the operator, and `Integer` and its name, to which it is lowered where its first input is of integers.

    That one differs in its kernel, whose symbol ends with `_i32` and whose pointers to floats are pointers to integers;
    the class's own `infer` and `reference` have to be right for both.
    """
    assert cls.kernel is not None
    name, own = f"Integer{cls.name}", cls.lower

    def lower(self: Operator, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        nodes, x = own(self, node, inputs), inputs[0]
        if nodes is None and self.name != name and x is not None and x.dtype == "int32":
            return [replace(node, op=name)]
        return nodes

    cls.lower = lower  # type: ignore[method-assign]
    body: dict[str, object] = {
        "__module__": cls.__module__,
        "__doc__": f"{cls.name} over integers of 32 bits.",
        "name": name,
        "integers_of": cls.name,
        "file": replace(cls.file, versions=(), older={}) if cls.file else None,
        "numerics": replace(cls.numerics, overflow="none") if cls.numerics else None,
        "kernel": _kernel(cls.kernel),
        "gradient": Operator.gradient,
        "no_gradient": "integers have none",
        "samples": lambda self: map(_of_integers, cls.samples(self)),
        "sweep": lambda self: map(_of_integers, cls.sweep(self)),
    }
    register(cls)
    register(cast("type[Operator]", type(name, (cls,), body)))
    return cls


def _kernel(kernel: Kernel) -> Kernel:
    """The kernel over integers."""
    pointers = tuple((name, "int32", written) for name, _, written in kernel.pointers)
    return Kernel(kernel.symbol.removesuffix(FLOATS) + INTEGERS, pointers, kernel.scalars)


def _of_integers(sample: Sample) -> Sample:
    """The sample with the integers that have the bits of its floats: large ones, equal where these are."""
    return replace(sample, inputs=tuple(map(_bits, sample.inputs)), onnx=False)


def _bits(x: Array | None) -> Array | None:
    return x if x is None or x.dtype != np.float32 else x.view(np.int32)
