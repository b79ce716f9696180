"""Cost of a call: its work by the cost model of the function that it goes to, at the costs of that function."""

from collections.abc import Mapping
from typing import NamedTuple

from deployer.core.access import Access
from deployer.core.cost import CallCost, call_cost
from deployer.core.ir import Node
from deployer.core.kernel import Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import operator_of
from deployer.core.plan import Step
from deployer.core.target import Target
from deployer.kernel_variants.calls import CostedTiles
from deployer.kernel_variants.conditions import KernelVariant
from deployer.operators.base.work_split import cost_model_of


class CostedWork(NamedTuple):
    """Work of a call, and the `code` that its costs belong to: a kernel, or a variant of it."""

    code: str
    work: Work


def costed_work(
    symbol: str,
    function: KernelVariant | None,
    node: Node,
    access: Access,
    tile: Mapping[str, int],
    model: KernelModel,
) -> CostedWork:
    """The work of a tile by the function for all calls of a kernel, or one for some of them."""
    node, access = operator_of(node).cost_form(node, access)
    if function is None:
        return CostedWork(symbol, operator_of(node).work(node, access, tile, model))
    cost_model = cost_model_of(node, function.work, model)
    return CostedWork(f"{symbol}.{function.name}", cost_model(node, access, tile, model))


def whole_work(node: Node, access: Access, target: Target) -> CostedWork:
    """The work of a call of the node's kernel on whole operands."""
    operator, model = operator_of(node), target.kernel_model
    kernel = operator.kernel
    assert kernel is not None, f"{node.op} has no kernel"
    args = {**operator.args(node, access), **operator.model_args(node, access, model)}
    function = CostedTiles(kernel, access, args, target).of(access.sizes)
    return costed_work(kernel.symbol, function, node, access, access.sizes, model)


class StepCosts:
    """The work of tiles of a step before it is known which of its operands move."""

    def __init__(self, step: Step, target: Target) -> None:
        self.step, self._tiles = step, CostedTiles(step.kernel, step.access, step.args, target)
        self._model = target.kernel_model

    def of(self, tile: Mapping[str, int]) -> CostedWork:
        """The work of a tile of these lengths."""
        step = self.step
        return costed_work(step.kernel.symbol, self._tiles.of(tile), step.node, step.access, tile, self._model)


class CallCosts(dict[tuple[int, ...], CallCost]):
    """Costs of calls by tile lengths, each computed once for all steps of one geometry: their grids have many tiles in
    common."""

    def __init__(self, step: Step, target: Target) -> None:
        super().__init__()
        self.target, self._of = target, StepCosts(step, target).of
        self._names = [d.name for d in step.access.dims]

    def __missing__(self, lengths: tuple[int, ...]) -> CallCost:
        """The cost of a call for a tile of these lengths, in the order of the dims."""
        cost = self[lengths] = call_cost(self.target, *self._of(dict(zip(self._names, lengths, strict=True))))
        return cost
