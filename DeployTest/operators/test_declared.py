"""Operators of one declaration: odd values as ONNX Runtime's, jumps where they are said to be, and their C."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deployer.codegen.generate import kernel_files
from deployer.core.errors import InternalError
from deployer.core.ir import AttrValue, Node
from deployer.core.operator import Array, file_of, numerics_of, registry
from deployer.core.samples import Sample
from deployer.expressions.derivative import derivative
from deployer.expressions.formula import Attr, choose, maximum, minimum
from deployer.expressions.functions import APPROXIMATIONS, FLOATS
from deployer.expressions.tree import FUNCTIONS, Number, Var, call, calls
from deployer.expressions.values import evaluate
from deployer.operators.base.elementwise_dsl import (
    BOOLS,
    INTEGERS,
    BroadcastElementwise,
    ElementwiseFormula,
    Pointwise,
    X,
)
from deployer.testing.bench import run_step, step_of
from deployer.testing.runtime import run_by_onnx
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.small_graphs import chain, constant, node
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.kernels]
DECLARED = {name: op for name, op in registry().items() if isinstance(op, ElementwiseFormula)}
FORWARD = {name: op for name, op in DECLARED.items() if not op.declared_by}


def _is_of_one(operator: ElementwiseFormula) -> bool:
    """Whether the operator has one operand, which is a float or a truth."""
    return len(operator.operands) == 1 and operator.operands[0].kind != "int"


POINTWISE = [name for name, op in FORWARD.items() if isinstance(op, Pointwise) and _is_of_one(op)]
ODD = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        3.0,
        -3.0,
        1e-40,
        -1e-40,
        20.0,
        -20.0,
        89.0,
        -89.0,
        -104.0,
        8388609.0,
        3e9,
        -3e9,
        1e30,
        -1e30,
        3.4e38,
        -3.4e38,
        np.inf,
        -np.inf,
        np.nan,
    ],
    np.float32,
)

WHOLE = np.array([0, 1, -1, 2, -2, 7, -7, 31, 32, 33, 255, 2**31 - 1, -(2**31)], np.int32)


def _odd(operator: ElementwiseFormula) -> list[Array]:
    """Odd values of each operand: of one all of them, of several each beside each."""
    odd = {"float": ODD, "bool": np.array([0, 1], np.int32), "int": WHOLE}
    values = [odd[x.kind] for x in operator.operands]
    return [np.ascontiguousarray(grid.reshape(-1)) for grid in np.meshgrid(*values, indexing="ij")]


def _first(operator: ElementwiseFormula) -> dict[str, AttrValue]:
    """The attributes of the operator's first sample."""
    return next(attrs for _, attrs in operator.sample_attributes())


@pytest.mark.parametrize("name", sorted(FORWARD))
def test_odd_values_are_those_of_onnxruntime(name: str) -> None:
    """Zeros, halves, subnormals, overflows, infinities and NaN, by the meaning and by the kernel."""
    operator = FORWARD[name]
    step = step_of(operator, Sample("odd", tuple(_odd(operator)), _first(operator), len(operator.formulas())))
    meanings, results = operator.reference(step.node, step.arrays), run_step(step, step.access.sizes)
    for meaning, result in zip(meanings, results, strict=True):
        _agree(operator, result, meaning)
    if not file_of(operator).versions:
        return
    [meaning] = meanings
    [expected] = run_by_onnx(step)
    assert_close(name, meaning, np.asarray(expected, meaning.dtype))


def _agree(operator: ElementwiseFormula, result: Array, meaning: Array) -> None:
    """Kernel and formula: bit for bit, signs of zeros included, where no function is called that is approximated."""
    assert_close(operator.name, result, meaning)
    called = {part.function.header for part in calls(*operator.formulas())}
    if not called & APPROXIMATIONS:
        np.testing.assert_array_equal(result, meaning)
        numbers = ~np.isnan(meaning)
        np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(meaning)[numbers])


@pytest.mark.parametrize("name", sorted(set(DECLARED) - set(FORWARD)))
def test_odd_values_of_backward_passes(name: str) -> None:
    """The kernel is the formula there, too."""
    operator = DECLARED[name]
    forward = FORWARD[operator.declared_by]
    values = dict(zip((x.name for x in forward.operands), _odd(forward), strict=True))
    [values["y"]] = forward.reference(Node("odd", forward.name, (), (), _first(forward)), list(values.values()))
    values["dy"] = np.linspace(-2, 2, values["y"].size, dtype=np.float32)
    step = step_of(operator, Sample("odd", tuple(values[x.name] for x in operator.operands)))
    [meaning], [result] = operator.reference(step.node, step.arrays), run_step(step, step.access.sizes)
    _agree(operator, result, meaning)


@pytest.mark.parametrize("name", POINTWISE)
def test_kinks_are_declared(name: str) -> None:
    """On a fine grid value and slope jump at the declared places, and nowhere else."""
    operator, found = FORWARD[name], False
    for _, attrs in operator.sample_attributes():
        node = Node("fine", operator.name, (), (), attrs)
        x = np.linspace(-4.0003, 4.0007, 2**16)
        x = x[~np.isnan(operator.reference(node, [x])[0]) & (np.abs(x) > 0.05 * _singular(operator, node))]
        value = operator.reference(node, [x])[0]
        slope = _slope(operator, node, x)
        jumps = (_jumps(value) | _jumps(slope)) & (np.diff(x) < 1e-3)
        decision_boundaries = numerics_of(node).decision_boundaries(node, [x])
        declared = (
            np.any([row.margins < 1e-3 for row in decision_boundaries], axis=0)
            if decision_boundaries
            else np.zeros(x.size, bool)
        )
        assert not (jumps & ~declared[:-1]).any(), f"{attrs}: a jump at {x[:-1][jumps & ~declared[:-1]][:3]}"
        found |= bool(jumps.any())
    assert bool(operator.non_differentiable) == found


def _slope(operator: ElementwiseFormula, node: Node, x: Array) -> Array:
    """The derivative at each point."""
    gradient = operator.backward.get("x")
    if gradient is None:
        return np.zeros_like(x)
    given = {"x": x, "y": operator.reference(node, [x])[0], "dy": np.ones_like(x)}
    return evaluate(gradient.formula, given, operator.values(node))


def _singular(operator: ElementwiseFormula, node: Node) -> bool:
    """Whether value or slope is infinite at 0."""
    zero = np.zeros(1)
    return bool(np.isinf([operator.reference(node, [zero])[0], _slope(operator, node, zero)]).any())


def _jumps(values: Array) -> Array:
    """Between which neighbours the difference is large, also beside the differences before and behind."""
    size = np.abs(np.diff(values))
    beside = np.maximum(np.append(size[1:], 0), np.append(0, size[:-1]))
    return np.asarray((size > 1e-2) & (size > 5 * beside))


def test_borders_are_beside_the_kink() -> None:
    """An element's border is the nearest, and its turned value lies beyond it."""
    node, x = Node("node", "LeakyRelu", (), ()), np.array([0.25, -0.5, 1e-30])
    [row] = numerics_of(node).decision_boundaries(node, [x])
    np.testing.assert_array_equal(row.margins, np.abs(x))
    assert ((row.flipped < 0) == (x > 0)).all()
    assert (np.abs(row.flipped) < 1e-30).all()


def test_operands_choose_the_function() -> None:
    """No two functions of a name take the same operands, and each is found by its own."""
    leaves = {"float": X, "bool": BOOLS[0], "int": INTEGERS[0], "word": Var("n")}
    for functions in FUNCTIONS.values():
        assert len({f.operands for f in functions}) == len(functions)
        for function in functions:
            found = call(function.name, *(leaves[kind] for kind in function.operands))
            assert (found.function, found.kind) == (function, function.kind)


POINTS = {name: np.array([-0.9, -0.35, 0.35, 0.55]) for name in ("asin", "acos", "atanh")}
POINTS["acosh"] = np.array([1.3, 1.7, 2.2])
"""Arguments of functions that not all numbers have."""


@pytest.mark.parametrize("name", [f.name for f in FLOATS if {*f.operands, f.kind} == {"float"}])
def test_derivatives_of_functions(name: str) -> None:
    """Each rule against a difference in float64, for every operand alone and all of them as one."""
    kinds = FUNCTIONS[name][0].operands
    points = POINTS.get(name, np.array([0.35, 0.55, 1.7, 2.2]))
    for place in range(len(kinds) + 1):
        others = [0.9 + number / 3 for number in range(len(kinds))]
        formula = call(name, *(X if place in (n, len(kinds)) else other for n, other in enumerate(others)))
        slope = evaluate(derivative(formula, X), {"x": points}, {})
        ends = [evaluate(formula, {"x": points + side}, {}) for side in (1e-6, -1e-6)]
        assert_close(f"slope of {name}", np.broadcast_to(slope, points.shape), (ends[0] - ends[1]) / 2e-6)


def test_gradient_of_what_is_not_chosen() -> None:
    """Infinite slopes of what is not chosen do not reach the result, as 0 times infinity would."""
    formula = derivative(choose(X > 0.0, call("sqrt", X), 0.0), X)
    np.testing.assert_array_equal(evaluate(formula, {"x": np.array([-1.0, 0.0, 0.25])}, {}), [0.0, 0.0, 1.0])


def test_bounds_and_equals() -> None:
    """A clipped value has the slope of what is inside; equal operands share it."""
    clipped = derivative(minimum(1.0, maximum(0.0, 2.0 * X)), X)
    np.testing.assert_array_equal(evaluate(clipped, {"x": np.array([-1.0, 0.25, 2.0])}, {}), [0.0, 2.0, 0.0])


def test_kinds_are_checked() -> None:
    """A truth is no number, and a call has as many operands as its function."""
    for wrong in (lambda: (X > 0.0) + 1.0, lambda: call("exp", X, X), lambda: choose(X, X, X)):
        with pytest.raises(InternalError, match="takes"):
            wrong()


def test_values_round_as_the_kernel() -> None:
    """An attribute is a float32 also where the meaning is in float64."""
    assert float(evaluate(Attr("a") * 1.0, {"x": np.zeros(1)}, {"a": 0.1})) == float(np.float32(0.1))
    assert evaluate(Number(0.1) * X, {"x": np.ones(1)}, {})[0] == 0.1


def test_parts_are_computed_once() -> None:
    """A common subexpression of a formula is one value in the C, and its work counts once."""
    kernel = DECLARED["MishGrad"].kernel
    assert kernel is not None
    text = kernel_files(kernel)["mish_grad_f32.c"]
    assert text.count("tanhf_f32") == text.count("softplusf_f32") == text.count("sigmoidf_f32") == 1


def test_both_forms_are_used() -> None:
    """Kernels of equal operands take a length alone, those that broadcast have four loops."""
    for form, scalars in ((Pointwise, 1), (BroadcastElementwise, 4)):
        kernels = [op.kernel for op in DECLARED.values() if isinstance(op, form) and op.kernel]
        assert kernels
        assert all(sum(name.startswith("n") for name, _ in k.scalars) >= scalars for k in kernels)


@pytest.mark.slow
def test_a_network_trains(tmp_path: Path) -> None:
    """Activations with attributes and slopes, extremes and a choice by a truth, in one program."""
    draw = np.random.default_rng(3)

    def weight(*shape: int) -> Array:
        return np.asarray(draw.standard_normal(shape) * 0.5, np.float32)

    weights = {"w1": weight(3, 6), "b1": weight(6), "w2": weight(6, 6), "slope": weight(6), "w3": weight(6, 2)}
    nodes = (
        node("Gemm", ("x", "w1", "b1"), ("h",)),
        node("Sigmoid", ("h",), ("s",)),
        node("Gemm", ("s", "w2"), ("c",)),
        node("PRelu", ("c", "slope"), ("p",)),
        node("Swish", ("c",), ("q",), alpha=1.5),
        node("Less", ("p", "h"), ("below",)),
        node("Not", ("below",), ("above",)),
        node("Where", ("above", "q", "s"), ("chosen",)),
        node("Max", ("p", "q", "b1"), ("most",)),
        node("Mean", ("chosen", "most"), ("m",)),
        node("Gemm", ("m", "w3"), ("y",)),
    )
    constants = tuple(constant(name, array) for name, array in weights.items())
    model = replace(chain(*nodes, x=(4, 3), initializers=constants), opsets=(("", 24),))
    model.save(tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", x=weight(3, 4, 3), target=weight(3, 4, 2))
    words = ["--loss", "mse", "--lr", 0.05, "--data", tmp_path / "data.npz", "--n-steps", 4, "-o", tmp_path]
    assert deployer("train-graph", tmp_path / "model.onnx", *words) == 0
    assert deployer("train", "-t", tmp_path / "model_train", "-o", tmp_path / "c", "--l1", 1500) == 0
    assert "where_f32" in (tmp_path / "c" / "TrainingNetwork.c").read_text()
