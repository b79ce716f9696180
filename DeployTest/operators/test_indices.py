"""Positions, orders and tables by numbers: equal elements, NaN, and numbers that are no row."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from deployer.core.ir import AttrValue
from deployer.core.operator import Array, registry
from deployer.core.samples import Sample
from deployer.operators.movement.padding import SOURCES
from deployer.testing.bench import run_step, step_of
from deployer.testing.runs import KernelRuns
from deployer.testing.runtime import run_by_onnx
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.small_graphs import chain, constant, node

pytestmark = [pytest.mark.host, pytest.mark.kernels]
EQUAL = np.array([[2, 3, 3, 1, 3, 2], [0, 0, 0, 0, 0, 0], [1, 2, 3, 3, 2, 1]], np.float32)


def computed(name: str, sample: Sample) -> list[Array]:
    """Return the kernels' results for a sample, checked against the reference."""
    step = step_of(registry()[name], sample)
    results = [np.asarray(x) for x in KernelRuns()(step.node, step.arrays)]
    for result, meaning in zip(results, step.operator.reference(step.node, step.arrays), strict=False):
        np.testing.assert_array_equal(result, meaning)
    return results


@pytest.mark.parametrize("largest", [0, 1])
def test_of_equal_elements_the_first_comes_first(largest: int) -> None:
    """As in ONNX Runtime, in values and in positions."""
    sample = Sample("equal", (EQUAL,), {"k": 4, "largest": largest}, outputs=2)
    expected = run_by_onnx(step_of(registry()["TopK"], sample))
    for result, other in zip(computed("TopK", sample), expected, strict=True):
        np.testing.assert_array_equal(result, other)


def test_nan_comes_last() -> None:
    """Whatever is asked for, a number goes before NaN."""
    x = np.array([[np.nan, 1, np.nan, 3, 2]], np.float32)
    for largest, order in ((1, [3, 4, 1, 0, 2]), (0, [1, 4, 3, 0, 2])):
        _, places = computed("TopK", Sample("nan", (x,), {"k": 5, "largest": largest}, outputs=2))
        np.testing.assert_array_equal(places, [order])


def test_values_without_positions() -> None:
    """The second output of a node may be absent."""
    [values] = computed("TopK", Sample("values", (EQUAL,), {"k": 2}, outputs=1))
    np.testing.assert_array_equal(values, [[3, 3], [0, 0], [3, 3]])


@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
def test_the_first_nan_is_the_extremum(name: str) -> None:
    """As in numpy."""
    x = np.array([[1, np.nan, 0, np.nan]], np.float32)
    [place] = computed(name, Sample("nan", (x,), {"axis": 1}))
    assert place.item() == 1


@pytest.mark.parametrize("name", ["GatherElements", "ScatterElements", "ScatterRows", "GatherElementsGrad"])
def test_numbers_that_are_no_row(name: str) -> None:
    """Reading an index that is no row gives NaN; writing to one changes nothing."""
    ids = np.array([[4, 0], [-5, -4]], np.int32)
    x, u = np.ones((4, 2), np.float32), np.full((2, 2), 7, np.float32)
    attrs: dict[str, AttrValue] = {"axis": 0}
    samples = {
        "GatherElements": Sample("outside", (x, ids), attrs),
        "ScatterElements": Sample("outside", (x, ids, u), attrs),
        "ScatterRows": Sample("outside", (x, ids[:, 0], u)),
        "GatherElementsGrad": Sample("outside", (u, None, ids), {**attrs, "shape": (4, 2)}),
    }
    [y] = computed(name, samples[name])
    if name == "GatherElements":
        np.testing.assert_array_equal(np.isnan(y), [[True, False], [True, False]])
    else:
        kept = 0.0 if name == "GatherElementsGrad" else 1.0
        assert np.count_nonzero(y != kept) == (0 if name == "ScatterRows" else 1)


def test_a_lost_term_is_noticed() -> None:
    """Terms that go to one element add up in the order of their numbers, not in that of magnitude."""
    terms = np.array([[1e8], [1], [-1e8], [1]], np.float32)
    ids = np.zeros((4, 1), np.int32)
    sample = Sample("order", (terms, None, ids), {"axis": 0, "shape": (2, 1)})
    step = step_of(registry()["GatherElementsGrad"], sample)
    for length in (1, 2, 3, 4):
        [y] = run_step(step, {**step.access.sizes, "k": length})
        np.testing.assert_array_equal(y, [[1], [0]])


@pytest.mark.slow
def test_a_network_trains(tmp_path: Path) -> None:
    """Products, orders, running sums and elements by number, forward and backward in one program of many tiles."""
    draw = np.random.default_rng(4)

    def weight(*shape: int) -> Array:
        return np.asarray(draw.standard_normal(shape) * 0.5, np.float32)

    weights = {"w1": weight(5, 12), "w2": weight(12, 4), "w3": weight(4, 2)}
    ids = np.asarray(draw.integers(0, 12, (6, 12)), np.int64)
    nodes = (
        node("Gemm", ("x", "w1"), ("h",)),
        node("Sin", ("h",), ("s",)),
        node("GatherElements", ("s", "ids"), ("g",), axis=1),
        node("CumSum", ("g", "axis"), ("c",), reverse=1),
        node("TopK", ("c", "k"), ("t", "places"), axis=0),
        node("ReduceProd", ("t",), ("p",), axes=[0], keepdims=1),
        node("Add", ("c", "p"), ("q",)),
        node("Gemm", ("q", "w2"), ("r",)),
        node("Atan", ("r",), ("a",)),
        node("Gemm", ("a", "w3"), ("y",)),
    )
    numbers = {"ids": ids, "axis": np.array(1, np.int64), "k": np.array([3], np.int64)}
    constants = tuple(constant(name, array) for name, array in {**weights, **numbers}.items())
    model = chain(*nodes, x=(6, 5), initializers=constants)
    model.save(tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", x=weight(3, 6, 5), target=weight(3, 6, 2))
    words = ["--loss", "mse", "--lr", 0.05, "--data", tmp_path / "data.npz", "--n-steps", 4, "-o", tmp_path]
    assert deployer("train-graph", tmp_path / "model.onnx", *words) == 0
    assert deployer("train", "-t", tmp_path / "model_train", "-o", tmp_path / "c", "--l1", 1600) == 0
    text = (tmp_path / "c" / "TrainingNetwork.c").read_text()
    assert all(
        f"{name}_f32" in text for name in ("scatter_elements", "reduce_prod_grad", "top_k", "cum_sum", "sin_grad")
    )


@pytest.mark.parametrize("mode", SOURCES)
def test_pads_of_elements(mode: str) -> None:
    """Elements of X come into its pads from where numpy takes them, for all pads that may be."""
    for size in range(1, 6):
        most = size - 1 if mode == "reflect" else size
        for before, after in product(range(most + 1), repeat=2):
            expected = np.pad(np.arange(size), (before, after), mode)
            np.testing.assert_array_equal(SOURCES[mode](np.arange(-before, size + after), size), expected)
