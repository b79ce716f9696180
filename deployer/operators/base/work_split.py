"""Work splits of kernels, found by the kernel's symbol: the work of a call by the general function and by variants.

Those of the deployer lie in `deployer/kernel_models`; a package of operators or targets registers its own. A target's
kernel model names the split of a kernel where it is another one than the deployer's.
"""

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import ClassVar, TypeVar

from deployer.core.access import Access
from deployer.core.errors import InternalError
from deployer.core.ir import Node
from deployer.core.kernel import ArgValue, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Operator, operator_of, registry
from deployer.core.packages import PackageProblem, target_folders, walk
from deployer.core.target import TargetInvalid

Tile = Mapping[str, int]
CostModel = Callable[[Node, Access, Tile, KernelModel], Work]


class WorkSplit:
    """Work split of a kernel: `work` by the general function, `cost_models` of variants by name."""

    kernel: ClassVar[str]
    """Symbol of the kernel."""
    name: ClassVar[str] = ""
    """Name in a target's kernel model that selects this split; empty for the default one."""
    cost_models: ClassVar[Mapping[str, CostModel]] = {}
    """Work by kernel variants; a target's list of variants names them as `work`."""

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """The work of a tile of these lengths by the general function."""
        raise InternalError(f"the work split of {self.kernel} has no work")

    def arguments(self, node: Node, access: Access, model: KernelModel) -> dict[str, ArgValue]:
        """Kernel arguments that the target's kernel model decides. Default: none."""
        return {}


_SPLITS: dict[tuple[str, str], WorkSplit] = {}
C = TypeVar("C", bound=type[WorkSplit])


def register_split(cls: C) -> C:
    """Add a work split to the registry; PackageProblem where the kernel has one of that name already."""
    key = cls.kernel, cls.name
    if key in _SPLITS:
        both: list[type] = [type(_SPLITS[key]), cls]
        facts = [("classes", "\n".join(f"{kind.__module__}.{kind.__qualname__}" for kind in both))]
        raise PackageProblem(f"kernel {cls.kernel} has two work splits {cls.name!r}", facts, "another name for one")
    _SPLITS[key] = cls()
    return cls


def splits_of(symbol: str) -> list[WorkSplit]:
    """All registered work splits of a kernel."""
    _load()
    return [split for (kernel, _), split in sorted(_SPLITS.items()) if kernel == symbol]


def split_of(symbol: str, model: KernelModel) -> WorkSplit | None:
    """The work split of a kernel on a target with this kernel model; None where its operator counts the work."""
    _load()
    _check(model.work_splits)
    return _SPLITS.get((symbol, dict(model.work_splits).get(symbol, "")))


def cost_model_of(node: Node, name: str, model: KernelModel) -> CostModel:
    """Cost model of a kernel variant by name; the operator's `work` if the name is empty."""
    operator = operator_of(node)
    if not name:
        return operator.work
    split = split_of(operator.kernel.symbol, model) if operator.kernel else None
    if split is None or name not in split.cost_models:
        raise TargetInvalid(f"operator {operator.name} has no cost model {name} of kernel variants on this target")
    return split.cost_models[name]


@cache
def _load() -> None:
    registry()
    walk(importlib.import_module("deployer.kernel_models"))
    target_folders()


@cache
def _check(named: tuple[tuple[str, str], ...]) -> None:
    """TargetInvalid where a kernel model names a work split that is not registered."""
    for symbol, name in named:
        if (symbol, name) not in _SPLITS:
            there = ", ".join(repr(other) for kernel, other in sorted(_SPLITS) if kernel == symbol) or "none"
            cause = f"kernel_model.work_splits names {name!r} for kernel {symbol}, which has no such work split"
            raise TargetInvalid(cause, [("there are", there)], "register it in the target's package, or leave it out")


class SplitOperator(Operator):
    """An operator whose work depends on how kernels split it: the work split of its kernel counts it."""

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """The work of a tile, by the kernel's split."""
        return self._split(model).work(node, access, tile, model)

    def model_args(self, node: Node, access: Access, model: KernelModel) -> dict[str, ArgValue]:
        """The arguments that the kernel's split decides."""
        return self._split(model).arguments(node, access, model)

    def _split(self, model: KernelModel) -> WorkSplit:
        found = split_of(self.kernel.symbol, model) if self.kernel else None
        if found is None:
            kernel = self.kernel.symbol if self.kernel else "none"
            cause = f"operator {self.name} leaves its work to the split of its kernel, {kernel}, which has none"
            raise PackageProblem(
                cause, hint="register a WorkSplit for the kernel, or give the operator a work of its own"
            )
        return found
