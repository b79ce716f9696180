"""Checks of an operator by its samples: meaning, gradient, access, lowered nodes and kernels.

A fault is an AssertionError that names the operator, the sample, the element and both values. `check_operator` makes
all checks.
"""

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.errors import NotDifferentiable
from deployer.core.ir import TensorType
from deployer.core.operator import Array, Operator, file_of, registry
from deployer.core.samples import Sample
from deployer.core.traits.training import Accumulator
from deployer.operators.base.views import Folded
from deployer.testing.bench import BenchStep, kernel_model, step_of
from deployer.testing.contract import judged, placed
from deployer.testing.gradients import DOUT, EvaluatingBuilder, evaluate
from deployer.testing.runtime import run_by_onnx, runtime_module, version_of
from deployer.testing.tolerances import Bound, bound

DIRECTIONS = 4
"""Directions in which a gradient is compared with differences."""
SEED = 7


@dataclass(frozen=True)
class Checked:
    """Number of samples by check, and the checks that were left out, each with its reason."""

    operator: str
    samples: Mapping[str, int]
    skipped: tuple[str, ...]

    def __str__(self) -> str:
        """A line for each check."""
        lines = [f"{self.operator}: {name}, {count} samples" for name, count in self.samples.items()]
        return "\n".join([*lines, *(f"{self.operator}: skipped: {reason}" for reason in self.skipped)])


def operator_named(operator: Operator | type[Operator] | str) -> Operator:
    """The registered operator of a name, a class, or itself; ValueError if there is none."""
    name = operator if isinstance(operator, str) else operator.name
    if name not in registry():
        raise ValueError(f"there is no operator {name!r}: install its package (`deployer operators` lists all)")
    return registry()[name]


def check_operator(operator: Operator | type[Operator] | str, untrained: Collection[int] = ()) -> Checked:
    """Check every sample of an operator; return what was checked, and warn of what was left out.

    Types and reference agree; ONNX Runtime gives the reference, where ONNX has the operator; the gradient is that of
    central differences in float64; access fits the kernel; lowered nodes mean the same; kernels on the host give the
    reference, and the same bits for any tiles, cores and residence, in the operator and in its gradient.

    `untrained` are positions of inputs that the result depends on and that have no gradient.
    """
    operator = operator_named(operator)
    samples = list(operator.samples())
    assert samples, f"{operator.name} has no samples"
    counts: dict[str, int] = {}
    skipped: dict[str, None] = {}
    for sample in samples:
        for name, ran in _checks(operator, sample, untrained):
            counts[name] = counts.get(name, 0) + (not isinstance(ran, str))
            skipped.update({f"{name}: {ran}": None} if isinstance(ran, str) and ran else {})
    trains = type(operator).gradient is not Operator.gradient and any(has_slope(operator, s) for s in samples)
    assert not trains or counts.get("gradient"), f"{operator.name}: the gradient of no input follows from its rule"
    if not isinstance(operator, Folded):
        findings = judged(operator.name)
        assert not findings.faults, "\n".join(findings.faults)
        counts["kernels"] = len(samples)
        skipped.update({f"kernels of the gradient: {reason}": None for reason in findings.refused})
    for reason in skipped:
        warnings.warn(f"{operator.name}: {reason}", stacklevel=2)
    return Checked(operator.name, {n: c for n, c in counts.items() if c}, tuple(skipped))


def _checks(operator: Operator, sample: Sample, untrained: Collection[int]) -> Iterator[tuple[str, bool | str]]:
    """The checks of a sample as they are made: True, or why one is left out; an empty reason if it does not apply."""
    check_types(operator, sample)
    yield "types", True
    if sample.onnx and runtime_module() is None:
        yield "ONNX Runtime", "it is not installed (pip install onnxruntime)"
    elif sample.onnx and not version_of(operator) and file_of(operator).domain:
        yield "ONNX Runtime", f"sample {sample.label!r} has onnx=True, and ONNX has no {operator.name}"
    elif sample.onnx:
        check_runtime(operator, sample)
        yield "ONNX Runtime", True
    if type(operator).gradient is not Operator.gradient and has_slope(operator, sample):
        found = check_gradient(operator, sample, untrained=untrained)
        yield "gradient", bool(found) or f"sample {sample.label!r} has no rule"
    if is_lowered(operator, sample):
        check_lowered(operator, sample)
        yield "lowered nodes", True
    elif operator.kernel is not None:
        check_access(operator, sample)
        yield "access", True


def is_lowered(operator: Operator, sample: Sample) -> bool:
    """Whether other operators stand in the place of the sample's node."""
    step = step_of(operator, sample)
    return not isinstance(operator, Folded) and operator.lower(step.node, step.inputs) is not None


def has_slope(operator: Operator, sample: Sample) -> bool:
    """Whether the result has a slope: integers have none, nor has the NaN that a label outside of all classes gives."""
    step = step_of(operator, sample)
    result = operator.reference(step.node, step.arrays)[0]
    floats = result.dtype == np.float32 and any(kind is not None and kind.dtype == "float32" for kind in step.inputs)
    return floats and not np.isnan(result).any()


def assert_near(place: str, result: Array, expected: Array, allowed: Bound) -> None:
    """Fail where two arrays differ by more than the bound: the message names the first such element and the worst."""
    assert result.shape == expected.shape, f"{place}: shape {result.shape} instead of {expected.shape}"
    close = np.isclose(result, expected, rtol=allowed.rtol, atol=allowed.atol, equal_nan=True)
    if close.all():
        return
    first = tuple(int(i) for i in np.argwhere(~close)[0]) if result.shape else ()
    raise AssertionError(
        f"{place}: element {list(first)} is {result[first]!s} instead of {expected[first]!s}; {np.sum(~close)} of "
        f"{result.size} elements differ by more than {allowed.rtol:g} of their size and {allowed.atol:g}"
    )


def check_types(operator: Operator, sample: Sample) -> None:
    """`infer` and `reference` agree on the shape and dtype of every output."""
    with placed(operator, sample) as place:
        step = step_of(operator, sample)
        inferred = operator.infer(step.node, step.inputs)
        results = operator.reference(step.node, step.arrays)
        wide = not any(x is not None and x.dtype.kind == "f" for x in step.arrays)  # of integers alone: not rounded
        names = ["float32" if wide and r.dtype.kind == "f" else r.dtype.name for r in results]
        found = [TensorType(name, r.shape) for name, r in zip(names, results, strict=True)]
        shown = [", ".join(map(str, types)) for types in (found, inferred)]
        assert found == list(inferred)[: len(results)], f"{place}: the reference gives {shown[0]}, infer {shown[1]}"
        assert len(results) >= len(step.node.outputs), f"{place}: {len(results)} results for {len(step.node.outputs)}"


def check_runtime(operator: Operator, sample: Sample) -> None:
    """The reference is what ONNX Runtime computes."""
    with placed(operator, sample) as place:
        step = step_of(operator, sample)
        results = operator.reference(step.node, step.arrays)
        for name, result, expected in zip(step.node.outputs, results, run_by_onnx(step), strict=False):
            allowed = bound(operator, "forward", result.dtype)
            assert_near(f"{place}: reference of {name} beside ONNX Runtime", result, expected, allowed)


def check_lowered(operator: Operator, sample: Sample) -> None:
    """The nodes of `lower`, each by its reference, give the operator's own reference."""
    with placed(operator, sample) as place:
        step = step_of(operator, sample)
        nodes = operator.lower(step.node, step.inputs)
        assert nodes, f"{place}: lower gives no nodes"
        assert len({n.name for n in nodes}) == len(nodes), f"{place}: two nodes of lower have one name"
        values = evaluate(nodes, step.values)
        for name, expected in zip(step.node.outputs, operator.reference(step.node, step.arrays), strict=False):
            allowed = bound(operator, "forward", expected.dtype)
            assert_near(f"{place}: {name} of lower", values[name], expected, allowed)


def check_access(operator: Operator, sample: Sample) -> None:
    """Operands are the kernel's pointers in order, every scalar has a value, and work is positive.

    An operand that is read and written is an input that an output overwrites, or an accumulator.
    """
    with placed(operator, sample) as place:
        step = step_of(operator, sample)
        assert operator.kernel is not None
        pointers = [name for name, _, _ in operator.kernel.pointers]
        used = [o.arg for o in step.access.operands]
        assert used == [name for name in pointers if name in used], f"{place}: operands {used}, pointers {pointers}"
        accumulator = operator.role(Accumulator)
        places = [*operator.inplace.values(), *([accumulator.buffer] if accumulator else [])]
        both = {operand.tensor for operand in step.access.operands if operand.mode == "inout"}
        overwritten = {step.node.inputs[i] for i in places}
        assert both == overwritten, f"{place}: access reads and writes {both}, inplace says {overwritten}"
        for operand in step.access.operands:
            writes = next(w for name, _, w in operator.kernel.pointers if name == operand.arg)
            assert operand.writes == writes, f"{place}: {operand.arg} is {operand.mode}, its pointer written: {writes}"
            size, view = step.types[operand.tensor].size, int(np.prod(operand.view, dtype=int))
            assert size == view, f"{place}: the view of {operand.arg} has {view} elements, its tensor {size}"
        args, scalars = set(operator.args(step.node, step.access)), {name for name, _ in operator.kernel.scalars}
        assert args == scalars, f"{place}: args gives {sorted(args)}, the kernel has {sorted(scalars)}"
        work = operator.work(step.node, step.access, step.access.sizes, kernel_model())
        assert work.macs + work.elements > 0, f"{place}: no work"
        assert work.parallel > 0, f"{place}: work in no parallel pieces"


def check_gradient(
    operator: Operator, sample: Sample, implied: bool = False, untrained: Collection[int] = ()
) -> list[int]:
    """The rule's nodes, evaluated in float64, give the directional derivatives of the reference.

    Return the inputs whose gradient was compared. `implied` is a loss whose own gradient is absent, which means one.
    """
    with placed(operator, sample) as place:
        step, random = step_of(operator, sample), np.random.default_rng(SEED)
        values = {n: x.astype(np.float64) if x.dtype.kind == "f" else x for n, x in step.values.items()}
        results = operator.reference(step.node, [values[n] if n else None for n in step.node.inputs])
        dout = np.array(1.0) if implied else np.asarray(random.standard_normal(results[0].shape))
        values.update(zip(step.node.outputs, results, strict=False))
        values[DOUT] = dout
        douts = ["" if implied else DOUT, *[""] * (len(step.node.outputs) - 1)]
        types = {**step.types, DOUT: TensorType("float32", dout.shape)}
        indices = [i for i in inputs_with_rule(step, types, douts) if i not in untrained]
        for index, gradient in _gradients(step, types, douts, indices, values).items():
            name = f"{place}: gradient of input {index}"
            shape = step.values[step.node.inputs[index]].shape
            assert gradient.shape == shape, f"{name}: shape {gradient.shape} instead of {shape}"
            alone = _gradients(step, types, douts, [index], values)[index]
            assert_near(f"{name}, where no other is wanted", alone, gradient, Bound(0.0, 0.0))
            _check_slopes(name, step, values, index, gradient, random)
        return indices


def _gradients(
    step: BenchStep,
    types: Mapping[str, TensorType],
    douts: Sequence[str],
    wanted: Sequence[int],
    values: dict[str, Array],
) -> dict[int, Array]:
    """The gradients of the wanted inputs by the rule, in float64."""
    if not wanted:
        return {}
    builder = EvaluatingBuilder(step.node, types, wanted)
    step.operator.gradient(step.node, douts, builder)
    return builder.gradients(values)


def inputs_with_rule(step: BenchStep, types: Mapping[str, TensorType], douts: Sequence[str]) -> list[int]:
    """The float inputs for which the rule works alone."""
    indices = []
    for index, name in enumerate(step.node.inputs):
        if name and types[name].dtype == "float32":
            try:
                step.operator.gradient(step.node, douts, EvaluatingBuilder(step.node, types, [index]))
            except NotDifferentiable:
                continue
            indices.append(index)
    return indices


def _check_slopes(
    name: str, step: BenchStep, values: dict[str, Array], index: int, gradient: Array, random: np.random.Generator
) -> None:
    """Compare with central differences of sum(dout * output 0) along random directions of one input.

    Where they differ, the element that is farthest off is looked for, one after another.
    """
    allowed = bound(step.operator, "gradient", np.dtype(np.float64))
    for _ in range(DIRECTIONS):
        direction = random.standard_normal(gradient.shape)
        slope, expected = float(np.sum(gradient * direction)), _slope(step, values, index, direction)
        if np.isclose(slope, expected, allowed.rtol, allowed.atol, equal_nan=True):
            continue
        single = np.eye(gradient.size).reshape(gradient.size, *gradient.shape)
        differences = np.array([_slope(step, values, index, one) for one in single]).reshape(gradient.shape)
        assert_near(f"{name} beside central differences", gradient, differences, allowed)
        raise AssertionError(f"{name}: along a random direction {slope} instead of {expected} by central differences")


def _slope(step: BenchStep, values: dict[str, Array], index: int, direction: Array) -> float:
    x, dout = values[step.node.inputs[index]], values[DOUT]
    h = 1e-6 * max(1.0, float(np.sqrt(np.abs(x).max(initial=1.0))))
    ends = []
    for side in (h, -h):
        moved = {**values, step.node.inputs[index]: x + side * direction}
        inputs = [moved[n] if n else None for n in step.node.inputs]
        ends.append(float(np.sum(step.operator.reference(step.node, inputs)[0] * dout)))
    return (ends[0] - ends[1]) / (2 * h)
