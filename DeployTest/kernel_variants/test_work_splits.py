"""Work splits of kernels: found by the kernel's symbol, and another one where a target's kernel model names it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from deployer.core.access import Access
from deployer.core.ir import Node
from deployer.core.kernel import Kernel, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import registry
from deployer.core.packages import PackageProblem
from deployer.core.plan import Options
from deployer.core.target import TargetInvalid, load
from deployer.operators.base import work_split
from deployer.operators.base.work_split import SplitOperator, Tile, WorkSplit, register_split, split_of, splits_of
from deployer.pipeline import plan_program
from deployer.testing.bench import kernel_model, step_of
from DeployTest.support.graphs.small_graphs import Model, infer, node, value

pytestmark = [pytest.mark.host, pytest.mark.kernels]
MODEL = kernel_model()


class ByRows(WorkSplit):
    """Products whose rows cores share."""

    kernel, name = "gemm_f32", "by_rows"

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """All products of the rows."""
        return Work(tile["m"] * tile["n"] * tile["k"], 0, tile["m"], "rows")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A split of a package."""
    splits_of("gemm_f32")
    monkeypatch.setattr(work_split, "_SPLITS", dict(work_split._SPLITS))
    register_split(ByRows)
    work_split._check.cache_clear()
    yield
    work_split._check.cache_clear()


def test_every_split_is_used() -> None:
    """Each SplitOperator has a work split for its kernel, and each split belongs to the kernel of such an operator."""
    symbols = {op.kernel.symbol for op in registry().values() if op.kernel and isinstance(op, SplitOperator)}
    splits_of("")
    assert symbols == {kernel for kernel, _ in work_split._SPLITS}
    assert all(split_of(symbol, MODEL) for symbol in symbols)


@pytest.mark.usefixtures("registered")
def test_a_target_names_another_split() -> None:
    """Operators, and planning by the target's kernel model, count the work by it; other targets do not."""
    operator = registry()["Gemm"]
    step = step_of(operator, next(iter(operator.samples())))
    tile = step.access.sizes
    model = replace(MODEL, work_splits=(("gemm_f32", "by_rows"),))
    expected = Work(tile["m"] * tile["n"] * tile["k"], 0, tile["m"], "rows")
    assert operator.work(step.node, step.access, tile, model) == expected
    assert operator.work(step.node, step.access, tile, MODEL) != expected
    assert operator.model_args(step.node, step.access, model) == {}


@pytest.mark.usefixtures("registered")
def test_two_splits_of_one_name() -> None:
    """A second split of a kernel under a name in use is a package's fault, which names both classes."""
    with pytest.raises(PackageProblem, match="kernel gemm_f32 has two work splits 'by_rows'") as found:
        register_split(ByRows)
    assert "ByRows" in str(found.value)


@pytest.mark.parametrize(("kernel", "there"), [("gemm_f32", "''"), ("relu_f32", "none")])
def test_a_split_that_is_not_registered(kernel: str, there: str) -> None:
    """A kernel model that names one is the target's fault, whatever kernel is asked for, with the names there are."""
    model = replace(MODEL, work_splits=((kernel, "by_bricks"),))
    with pytest.raises(TargetInvalid, match=f"names 'by_bricks' for kernel {kernel}") as found:
        split_of("conv_f32", model)
    assert there in str(found.value)


def test_a_variant_without_its_cost_model(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A target whose split lacks the cost model of a variant in its list is refused when a step takes the variant."""
    net = Model(
        (node("Conv", ("x", "w"), ("y",), "layer"),),
        (value("x", (1, 16, 4, 8)), value("w", (8, 16, 1, 1))),
        (value("y", (1, 8, 4, 8)),),
    )
    _, plan = plan_program(infer(tmp_path_factory.mktemp("net"), net), Options("siracusa"))
    assert plan.steps[0].variant == "pointwise"
    costs = work_split.cost_model_of
    assert costs(Node("y", "Conv", ("x", "w"), ("y",)), "matrix", load("siracusa").kernel_model)
    with pytest.raises(TargetInvalid, match="operator Conv has no cost model bricks"):
        costs(Node("y", "Conv", ("x", "w"), ("y",)), "bricks", load("siracusa").kernel_model)


def test_an_operator_without_a_split() -> None:
    """An operator that leaves its work to a split which nobody registered is a package's fault, with both ways out."""

    class Other(type(registry()["Gemm"])):  # type: ignore[misc]
        kernel = Kernel("other_f32", (), ())

    step = step_of(registry()["Gemm"], next(iter(registry()["Gemm"].samples())))
    with pytest.raises(PackageProblem, match="leaves its work to the split of its kernel, other_f32, which has none"):
        Other().work(step.node, step.access, step.access.sizes, MODEL)
