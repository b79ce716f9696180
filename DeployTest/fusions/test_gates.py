"""Gated units, Swish of one value times another: one step forward, one backward, and the same bits."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.ir import Program
from deployer.core.operator import registry
from deployer.core.plan import Options
from deployer.core.samples import Sample
from deployer.testing.bench import bits, run_step, step_of
from deployer.verify.program import verify_program
from deployer.verify.reference import run_inference
from DeployTest.support.graphs.fusing import fused
from DeployTest.support.graphs.small_graphs import Model, infer, node, ops, value

pytestmark = [pytest.mark.host, pytest.mark.training]

SHAPE = (3, 37)
MICROSOFT = "com.microsoft"


def swish(alpha: float = 1.0) -> onnx.NodeProto:
    """Swish of `g`."""
    return node("QuickGelu", ("g",), ("s",), "swish", domain=MICROSOFT, alpha=alpha)


def slope(alpha: float = 1.0) -> onnx.NodeProto:
    """The gradient of `g` from that of `s`."""
    return node("QuickGeluGrad", ("ds", "g"), ("dg",), "slope", domain=MICROSOFT, alpha=alpha)


ALL = Options()
WRITTEN_OUT = [node("Sigmoid", ("g",), ("t",), "sigmoid"), node("Mul", ("g", "t"), ("s",), "times")]
PRODUCT = node("Mul", ("s", "u"), ("y",), "product")
DS, DU = node("Mul", ("dy", "u"), ("ds",), "ds"), node("Mul", ("dy", "s"), ("du",), "du")
SWAPPED = node("Mul", ("s", "dy"), ("du",), "du")
LATE = node("Exp", ("h",), ("u",), "late")
BACKWARD = ["y", "dg", "du"]
BOTH = ["SwishProduct", "SwishGateGrads"]
GRAPHS: dict[str, tuple[list[onnx.NodeProto], list[str], list[str]]] = {
    "forward": ([swish(), PRODUCT], ["y"], BOTH[:1]),
    "written out": ([*WRITTEN_OUT, PRODUCT], ["y"], BOTH[:1]),
    "another factor in between": ([swish(), LATE, PRODUCT], ["y"], ["Exp", *BOTH[:1]]),
    "both": ([swish(), PRODUCT, DS, slope(), DU], BACKWARD, BOTH),
    "both in another order": ([*WRITTEN_OUT, LATE, PRODUCT, SWAPPED, DS, slope()], BACKWARD, ["Exp", *BOTH]),
    "slopes": ([swish(1.7), PRODUCT, DU, DS, slope(1.7)], BACKWARD, BOTH),
    "another slope": (
        [swish(1.7), PRODUCT, DS, slope(1.5), DU],
        BACKWARD,
        ["Swish", "Mul", "SwishGateGrad", "Mul"],
    ),
    "another reader": ([swish(), PRODUCT, DS, slope(), DU], [*BACKWARD, "s"], ["Swish", "Mul", "SwishGateGrads"]),
    "a reader in between": (
        [swish(), node("Exp", ("s",), ("e",)), PRODUCT],
        ["y", "e"],
        ["Swish", "Exp", "Mul"],
    ),
    "its square": ([swish(), node("Mul", ("s", "s"), ("y",))], ["y"], ["Swish", "Mul"]),
    "the gradient of g alone": ([swish(), PRODUCT, DS, slope()], ["y", "dg"], ["SwishProduct", "SwishGateGrad"]),
}
"""Nodes, outputs, and the operators that are left."""


def program_of(nodes: list[onnx.NodeProto], outputs: list[str], folder: Path, u: tuple[int, ...] = SHAPE) -> Program:
    """An inference graph whose inputs are what no node makes."""
    made = {name for n in nodes for name in n.output}
    read = dict.fromkeys(name for n in nodes for name in n.input if name not in made)
    inputs = tuple(value(name, u if name == "u" else SHAPE) for name in read)
    return infer(folder, Model(tuple(nodes), inputs, tuple(value(name, None) for name in outputs)))


def same(program: Program, options: Options = ALL) -> Program:
    """The program after fusion, which gives the same float32 results on drawn inputs."""
    fusion, random = fused(program, options), np.random.default_rng(5)
    verify_program(fusion)
    inputs = {n: random.standard_normal(program.tensors[n].type.shape).astype(np.float32) for n in program.data}
    before, after = run_inference(program, inputs), run_inference(fusion, inputs)
    assert {n: bits(x) for n, x in before.items()} == {n: bits(x) for n, x in after.items()}
    return fusion


@pytest.mark.parametrize("name", GRAPHS)
def test_gated_units(name: str, tmp_path: Path) -> None:
    """Swish is computed where it is multiplied, and once more for both gradients, if they belong to it."""
    nodes, outputs, left = GRAPHS[name]
    program = program_of(nodes, outputs, tmp_path)
    assert ops(same(program)) == left
    apart = same(program, Options(disabled_rewrites=("joint",)))
    assert not {*BOTH, "SwishGateGrad"} & {*ops(apart)}


def test_a_factor_of_another_shape_stays(tmp_path: Path) -> None:
    """A row that multiplies Swish is multiplied by a step of its own."""
    assert ops(same(program_of([swish(), PRODUCT], ["y"], tmp_path, u=SHAPE[1:]))) == ["Swish", "Mul"]


def test_kernels_leave_the_same_bits() -> None:
    """Both kernels have the bits of the steps that they stand for, in any tiles."""
    drawn = np.random.default_rng(6).standard_normal((3, 100), np.float32) * np.float32(4)
    dy, u, x = np.ascontiguousarray(drawn)
    attrs: dict[str, float] = {"alpha": 1.7}

    def by(op: str, *inputs: np.ndarray, tile: int = 100, outputs: int = 1, plain: bool = False) -> list[bytes]:
        step = step_of(registry()[op], Sample("bits", inputs, {} if plain else {**attrs}, outputs))
        return [x.tobytes() for x in run_step(step, {"n": tile})]

    def values(found: list[bytes]) -> np.ndarray:
        return np.frombuffer(found[0], np.float32)

    s = values(by("Swish", x))
    product = [(s * u).tobytes()]
    grads = [*by("SwishGrad", dy * u, x), (dy * s).tobytes()]
    for tile in (100, 33):
        assert by("SwishProduct", x, u, tile=tile) == product
        assert by("SwishGateGrads", dy, u, x, tile=tile, outputs=2) == grads
