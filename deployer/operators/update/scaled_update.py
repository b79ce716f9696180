"""Updates by a gradient times one number, as clipping by the norm has it: the product needs no memory.

An optimizer has such an update if a subclass of ScaledUpdate names it and there is a kernel `scaled_<symbol>`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from deployer.core.access import Access, Broadcast, Operand
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Kernel, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, mismatch, operator_of
from deployer.core.traits.fusion import Fusion
from deployer.core.traits.training import Optimizer
from deployer.operators.base.operands import arrays, operands

SCALE = "scale"
"""The pointer of a kernel that reads the number."""
PREFIX = "scaled_"
"""Before the symbol of the optimizer's kernel."""


class ScaledUpdate(Operator):
    """The update `of` an optimizer whose gradient is multiplied by a number first; the product is rounded to float32.

    Inputs are those of the optimizer and, last, the number.
    """

    of: ClassVar[Operator]
    kernel: ClassVar[Kernel]
    no_gradient = "it is an optimizer"

    def __init_subclass__(cls, of: type[Operator], **more: Any) -> None:
        """Take the name, the kernel and the states from the optimizer."""
        super().__init_subclass__(**more)
        assert of.kernel is not None, f"{of.name} has no kernel"
        cls.of, cls.name, cls.inplace = of(), f"Scaled{of.name}", of.inplace
        pointers = (*of.kernel.pointers, (SCALE, "float32", False))
        cls.kernel = replace(of.kernel, symbol=PREFIX + of.kernel.symbol, pointers=pointers)
        name = cls.name
        cls.fusion = Fusion(fused_update=of.name, updating=lambda *nodes: _updating(name, *nodes))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of the optimizer's results; the number is one float32."""
        *others, scale = operands(node, inputs, len(self.kernel.pointers))
        if scale.dtype != "float32" or scale.size != 1:
            raise mismatch(node, "the factor of the gradient is not one float32 number", inputs)
        return self.of.infer(_plain(node), others)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The optimizer's results for the gradient times the number."""
        *others, scale = arrays(inputs, len(inputs))
        place = _gradient(self.of)
        others[place] = np.asarray(others[place] * scale.reshape(()))
        return self.of.reference(_plain(node), others)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """The optimizer's access, and the number beside it."""
        plain = self.of.access(_plain(node), types)
        scale = Operand(SCALE, node.inputs[-1], "in", (1,), (Broadcast(),))
        return replace(plain, operands=(*plain.operands, scale))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The optimizer's arguments."""
        return self.of.args(_plain(node), access)

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """The optimizer's work, and an operation per element."""
        work = self.of.work(_plain(node), access, tile, model)
        return replace(work, elements=work.elements + tile["n"])


def _plain(node: Node) -> Node:
    """The node without the number."""
    return replace(node, inputs=node.inputs[:-1])


def _gradient(operator: Operator) -> int:
    """The position of the gradient among an optimizer's inputs."""
    declared = operator.role(Optimizer)
    assert declared is not None, f"{operator.name} is not an optimizer"
    return declared.gradient


def _updating(name: str, producer: Node, update: Node, types: Mapping[str, TensorType]) -> Node | None:
    """The update of that name by the factors of the product that is its gradient; None if neither is one number."""
    fusion, kind = operator_of(producer).fusion, types[producer.outputs[0]]
    if fusion is None or not fusion.is_product or producer.attrs or len(producer.inputs) != 2:
        return None
    pairs = (producer.inputs, producer.inputs[::-1])
    found = next(((g, scale) for g, scale in pairs if types[g] == kind and types[scale].size == 1), None)
    place = _gradient(operator_of(update))
    if found is None or kind != types[update.inputs[place]]:
        return None
    gradient, scale = found
    inputs = (*update.inputs[:place], gradient, *update.inputs[place + 1 :], scale)
    return Node("", name, inputs, (), dict(update.attrs))
