"""The contract of operators: accuracy and invariance of their kernels, forward and backward, by one function."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from deployer.core.access import Access
from deployer.core.errors import NotDifferentiable, UnsupportedOperator
from deployer.core.ir import Node
from deployer.core.operator import Array, Operator, operator_of, registry
from deployer.core.samples import Sample
from deployer.operators.base.views import Folded
from deployer.testing.bench import BenchStep, bits, lawful, step_of
from deployer.testing.gradients import by_reference, forward_and_backward
from deployer.testing.runs import KernelRuns
from deployer.testing.tolerances import Bound, bound, table

FORWARD, GRADIENT = "forward", "gradient"
SEED = 11
TILES = 128
"""More tiles of one element than this are not run: the innermost dim is halved instead."""


@dataclass(frozen=True)
class Comparison:
    """One judgment on one result of a sample: how many numbers, the largest distance in bounds, and what is wrong."""

    sample: str
    judgment: str
    result: str
    numbers: int
    share: float
    fault: str


@dataclass
class Findings:
    """Comparisons, and the C files that computed the results, by kernel."""

    operator: str
    comparisons: list[Comparison] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    """Gradients that no kernel computes, each with the compiler's own reason."""

    @property
    def faults(self) -> list[str]:
        """A line per broken judgment; an operator of which no number was compared breaks one as well."""
        lines = [
            f"{self.operator}, sample {c.sample!r}: {c.judgment} of {c.result}: {c.fault}"
            for c in self.comparisons
            if c.fault
        ]
        lines += [] if any(c.numbers for c in self.comparisons) else [f"{self.operator}: no number was compared"]
        return lines


def operators() -> list[str]:
    """The names of all operators whose results a target computes."""
    named = [op for name, op in registry().items() if name == op.name]
    return [op.name for op in named if not isinstance(op, Folded)]


def judged(name: str) -> Findings:
    """Judge every sample of an operator: its outputs, then its gradients for a random gradient that arrives.

    Accuracy is the distance of kernels in one tile from the operator's meaning in float64, or in float32 where it has
    to be zero; invariance that other tiles, numbers and orders of cores, and residence change no bit.
    """
    operator = registry()[name]
    findings = Findings(name)
    for sample in operator.samples():
        with placed(operator, sample):
            _check_sample(operator, sample, findings)
    return findings


@contextmanager
def placed(operator: Operator, sample: Sample) -> Iterator[str]:
    """The place of a check, which stands before the text of any assertion."""
    place = f"{operator.name}, sample {sample.label!r}"
    try:
        yield place
    except AssertionError as error:
        text = str(error)
        raise AssertionError(text if text.startswith(place) else f"{place}: {text}") from error


def _check_sample(operator: Operator, sample: Sample, findings: Findings) -> None:
    step = step_of(operator, sample)
    runs, labels = KernelRuns(), step.node.outputs
    outputs = runs(step.node, step.arrays)[: len(labels)]
    expected = operator.reference(step.node, step.arrays)
    wide = operator.reference(step.node, [x if x is None else _wide(x) for x in step.arrays])
    for label, result, rounded, exact in zip(labels, outputs, expected, wide, strict=False):
        allowed = bound(operator, FORWARD, result.dtype, runs.sources.values())
        findings.comparisons.append(_compared((sample.label, FORWARD, label), result, exact, rounded, allowed))
    for variant in _variants(operator):
        findings.comparisons += _same(sample.label, FORWARD, labels, outputs, variant(step.node, step.arrays))
    findings.sources |= runs.sources
    wanted = gradient_inputs(step.node, step.values)
    if wanted:
        try:
            _check_gradients(operator, step, wanted, findings)
        except UnsupportedOperator as error:
            findings.refused.append(f"{sample.label}: {error.cause}")


def _check_gradients(operator: Operator, step: BenchStep, wanted: Sequence[int], findings: Findings) -> None:
    node, values, label = step.node, step.values, step.node.name
    dout = np.random.default_rng(SEED).standard_normal(step.types[node.outputs[0]].shape).astype(np.float32)
    exact = forward_and_backward(node, {n: _wide(x) for n, x in values.items()}, wanted, _wide(dout))[1]
    rounded = forward_and_backward(node, values, wanted, dout)[1]
    runs = KernelRuns()
    gradients = forward_and_backward(node, values, wanted, dout, runs)[1]
    names = [f"d{node.inputs[i]}" for i in wanted]
    for i, name in zip(wanted, names, strict=True):
        allowed = bound(operator, GRADIENT, gradients[i].dtype)
        findings.comparisons.append(_compared((label, GRADIENT, name), gradients[i], exact[i], rounded[i], allowed))
    for variant in _variants(operator):
        others = forward_and_backward(node, values, wanted, dout, variant)[1]
        left, right = ([found[i] for i in wanted] for found in (gradients, others))
        findings.comparisons += _same(label, GRADIENT, names, left, right)
    findings.sources |= runs.sources


def _wide(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def gradient_inputs(node: Node, values: Mapping[str, Array]) -> list[int]:
    """The float inputs whose gradient the operator's rule gives, each alone."""
    shapes = by_reference(node, [values[n] if n else None for n in node.inputs])
    dout = np.zeros(shapes[0].shape, np.float32)
    found = []
    for index, name in enumerate(node.inputs):
        if name and values[name].dtype.kind == "f" and type(operator_of(node)).gradient is not Operator.gradient:
            try:
                forward_and_backward(node, values, [index], dout)
            except NotDifferentiable:
                continue
            found.append(index)
    return found


def _variants(operator: Operator) -> Iterator[KernelRuns]:
    """Other ways to run the same: smallest tiles, halves in whole tensors, and drawn tiles, on one to eight cores."""
    random = np.random.default_rng([SEED, *operator.name.encode()])

    def smallest(access: Access) -> Mapping[str, int]:
        lengths = {d.name: 1 for d in access.dims}
        for d in reversed(access.dims):
            if math.prod(-(-x.size // lengths[x.name]) for x in access.dims) > TILES:
                lengths[d.name] = -(-d.size // 2)
        return lawful(access, lengths)

    def halves(access: Access) -> Mapping[str, int]:
        return lawful(access, {d.name: -(-d.size // 2) for d in access.dims})

    def drawn(access: Access) -> Mapping[str, int]:
        return lawful(access, {d.name: int(random.integers(1, d.size + 1)) for d in access.dims})

    yield KernelRuns(smallest)
    yield KernelRuns(halves, (2, 0, 1), resident=True)
    yield KernelRuns(drawn, tuple(reversed(range(8))))


def _compared(place: tuple[str, str, str], result: Array, exact: Array, rounded: Array, allowed: Bound) -> Comparison:
    """Accuracy, against the meaning in float64, and where nothing is allowed against that in float32.

    NaN is a fault but where the meaning is NaN in float64 as well.
    """
    sample, judgment, label = place

    def because(fault: str, share: float = np.inf) -> Comparison:
        numbers = int(np.count_nonzero(~np.isnan(exact)))
        return Comparison(sample, f"{judgment} accuracy", label, numbers, share, fault)

    if not result.shape == exact.shape == rounded.shape:
        return because(f"{result.shape} instead of {exact.shape}")
    if not result.size:
        return because("nothing is compared")
    values, meaning = result.astype(np.float64), (exact if allowed.rtol else rounded).astype(np.float64)
    undefined = np.isnan(exact)
    if (np.isnan(values) != undefined).any() or (np.isnan(rounded) != undefined).any():
        return because("NaN")
    with np.errstate(invalid="ignore", divide="ignore"):
        distance = np.where((values == meaning) | undefined, 0.0, np.abs(values - meaning))
        noise = np.abs(rounded - exact)
        sizes = np.where(np.isfinite(meaning), np.abs(meaning), 0.0)
        limit = allowed.atol + allowed.rtol * sizes
        if allowed.rtol:
            limit = limit + table()["conditioning"]["rounding"] * noise[np.isfinite(noise)].max(initial=0.0)
        share = np.where(distance == 0, 0.0, distance / limit)
    worst = int(np.argmax(share))
    at = [int(i) for i in np.unravel_index(worst, result.shape)]
    fault = f"element {at} is {result.reshape(-1)[worst]} instead of {meaning.reshape(-1)[worst]}"
    return because(fault if share.max() > 1 else "", float(share.max()))


def _first_other(result: Array, other: Array) -> str:
    """The first element of other bits, with both values."""
    pairs = zip(result.reshape(-1), other.reshape(-1), strict=True)
    number = next(i for i, (one, two) in enumerate(pairs) if bits(one) != bits(two))
    at = [int(i) for i in np.unravel_index(number, result.shape)]
    return f"element {at} is {other.reshape(-1)[number]} instead of {result.reshape(-1)[number]}"


def _same(
    sample: str, judgment: str, labels: Sequence[str], results: Sequence[Array], others: Sequence[Array]
) -> Iterator[Comparison]:
    for label, result, other in zip(labels, results, others, strict=False):
        fault = "" if bits(result) == bits(other) else f"another tiling gives other bits: {_first_other(result, other)}"
        yield Comparison(sample, f"{judgment} invariance", label, result.size, float(bool(fault)), fault)
