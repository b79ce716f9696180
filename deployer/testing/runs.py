"""Runs nodes by their C kernels, whatever they are lowered to, and records the source file of each kernel that ran."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from deployer.core.access import Access
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, execution_of, numerics_of, operator_of
from deployer.core.plan import Options
from deployer.core.samples import Sample
from deployer.core.target import TARGETS_DIR, load
from deployer.frontend.rests import Rests
from deployer.kernel_variants.conditions import FOLDER_LIST
from deployer.operators.base.elementwise_dsl import printed_kernels
from deployer.operators.base.views import Folded
from deployer.running.build import COMMON, kernel_source, toolchain
from deployer.testing.bench import run_step, step_of
from deployer.testing.gradients import evaluate

Sizes = Callable[[Access], Mapping[str, int]]


def whole(access: Access) -> Mapping[str, int]:
    """One tile for the whole step."""
    return access.sizes


@dataclass
class KernelRuns:
    """Computes a node as a target does: views by their meaning, all else by kernels, in the tiles that `sizes` gives.

    `resident` says whether kernels find their operands in whole tensors or in packed boxes. `sources` are the C files
    that ran, by kernel, from the folder of targets. The rest of a mean goes from the node that makes it to those that
    read the mean.
    """

    sizes: Sizes = whole
    cores: Sequence[int] = (0,)
    resident: bool = False
    sources: dict[str, str] = field(default_factory=dict)
    _rests: Rests = field(default_factory=Rests)
    _lacking: dict[str, Array] = field(default_factory=dict)

    def __call__(self, node: Node, inputs: Sequence[Array | None]) -> Sequence[Array]:
        """The outputs of a node."""
        operator = operator_of(node)
        if operator.view or isinstance(operator, Folded):
            if operator.view:
                self._rests.see_view(node)
            return operator.reference(node, inputs)
        centre = numerics_of(node).centre
        whole = self._rests.completed(node, centre)
        if whole != node:
            more = [self._lacking.get(name) for name in whole.inputs[len(node.inputs) :]]
            results = self(whole, [*inputs, *more])
            makes = centre is not None and centre.makes
            self._lacking.update(zip(whole.outputs, results, strict=False) if makes else ())
            return results[: len(node.outputs)]
        values = {n: x for n, x in zip(node.inputs, inputs, strict=True) if n and x is not None}
        types = {n: TensorType(x.dtype.name, x.shape) for n, x in values.items()}
        given = [types[n] if n else None for n in node.inputs]
        lowered = operator.lower(node, given)
        if lowered is not None:
            named = evaluate(lowered, values, self)
            return [named[n] if n else np.empty(0, np.float32) for n in node.outputs]
        assert operator.kernel is not None
        absent = {i for i, name in enumerate(node.outputs) if not name}
        assert absent <= {*execution_of(operator).optional_outputs.values()}, (
            f"{node.op}: its kernel leaves out an output"
        )
        step = step_of(operator, Sample(node.name, tuple(inputs), dict(node.attrs), len(node.outputs)), absent)
        if operator.kernel.symbol not in self.sources:
            self.sources[operator.kernel.symbol] = provenance(operator.kernel.symbol)
        resident = [o.arg for o in step.access.operands] if self.resident else []
        found = iter(run_step(step, self.sizes(step.access), self.cores, resident))
        return [next(found) if name else np.empty(0, np.float32) for name in step.node.outputs]


def provenance(symbol: str, target: str = Options().target) -> str:
    """The C file of a kernel on a target, from the folder of targets, or that of a package: a portable one or its own.

    One that is printed from a formula has no file there, and its name alone; one that is made from an entry of a list
    has that of the list, and one of the list of a folder its name behind it.
    """
    if symbol in printed_kernels():
        return f"{symbol}.c"
    source = kernel_source(symbol, toolchain(load(target)), COMMON).place
    place = str(source.relative_to(TARGETS_DIR) if source.is_relative_to(TARGETS_DIR) else source)
    return f"{place}: {symbol}" if source.name == FOLDER_LIST else place
