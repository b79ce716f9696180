"""Effect of rounding on a pass: float32 passes in which every result is slightly perturbed.

Most passes magnify rounding little, and the bounds of `same_state.py` are far beyond it. But where a model is sure of a
sample, say, the gradient is what is left of 1 - 1, and the rounding of that 1 is a large part of it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from deployer.core.ir import Node
from deployer.core.operator import Array, numerics_of, operator_of
from deployer.verify import verdict
from deployer.verify.reference import Memory, run_pass
from deployer.verify.same_state import OnePass, Rounding
from deployer.verify.tolerances import TOLERANCES

PROBES = 4
LARGEST_WHOLE = 2.0**22
"""Whole numbers up to here are places, counts and masks, which do not round, and which what follows may choose by."""
FEW = 16
"""So many values are searched for without sorting."""
MOST_SORTED = 4096
"""Of so many values together sorting is faster than a table of hashes."""
SLOTS, MOST_SLOT_BITS = 16, 24
"""Slots of a hash table for each value in it, and the bits of the number of all at most."""
MULTIPLIER = np.uint32(2654435761)
"""2^32 divided by the golden ratio, for hashes."""
SPREAD = 3.0
"""An error may be so many times the largest of all probes."""


def with_rounding(actual: OnePass, reference: OnePass) -> OnePass:
    """The pass with what rounding may do to each tensor that it changes, estimated by probes.

    No decision flips in a probe: an operand that would cross a boundary has its value in float64.
    """
    operands = _decisive_operands(reference)
    rounding, of_loss = {name: Rounding() for name in reference.after}, Rounding()
    for loss, after in _disturbed_passes(actual, operands):
        of_loss = of_loss.or_more(verdict.minus(np.array(loss), np.array(reference.loss)))
        for name, values in reference.after.items():
            rounding[name] = rounding[name].or_more(verdict.minus(verdict.wide(after[name]), verdict.wide(values)))
    tensors = {name: value.times(SPREAD) for name, value in rounding.items()}
    return replace(actual, rounding=tensors, loss_rounding=SPREAD * of_loss.largest)


def held_pass(actual: OnePass, reference: OnePass) -> OnePass:
    """One float32 pass from the same state in which every result is a little off, and no decision flips."""
    noise = np.random.default_rng([0, actual.index, PROBES])
    loss, after = _disturbed(actual, _decisive_operands(reference), noise, {})
    return replace(actual, loss=loss, after=after)


def disturbed_passes(actual: OnePass) -> list[OnePass]:
    """Float32 passes from the same state in which every result is a little off, and decisions flip as they may."""
    return [replace(actual, loss=loss, after=after) for loss, after in _disturbed_passes(actual, {})]


def _disturbed_passes(
    actual: OnePass, decisive: Mapping[str, Mapping[int, Array]]
) -> Iterator[tuple[float, dict[str, Array]]]:
    """The losses and end states of all probes."""
    exact: dict[tuple[str, str], Array] = {}
    for probe in range(PROBES):
        yield _disturbed(actual, decisive, np.random.default_rng([probe, actual.index, PROBES]), exact)


def rounded_results(node: Node, results: Sequence[Array]) -> list[str]:
    """The names of a node's results whose rounding a pass feels: those of a view do not round.

    Nor does a mean that comes with its rest: any number near the mean is as good with the rest that belongs to it.
    """
    if operator_of(node).view:
        return []
    centre = numerics_of(node).centre
    mean = node.outputs[centre.mean] if centre is not None and centre.makes else ""
    return [name for name, _ in zip(node.outputs, results, strict=False) if name and name != mean]


def _decisive_operands(reference: OnePass) -> dict[str, dict[int, Array]]:
    """The operands that decide at boundaries in the float64 pass, by node and place."""
    found = dict[str, dict[int, Array]]()
    for node in reference.program.nodes:
        operands = reference.deciding.get(node.name)
        for boundaries in numerics_of(node).decision_boundaries(node, operands) if operands else ():
            operand = operands[boundaries.operand] if operands else None
            assert operand is not None
            found.setdefault(node.name, {})[boundaries.operand] = operand
    return found


def _disturbed(
    actual: OnePass,
    decisive: Mapping[str, Mapping[int, Array]],
    noise: np.random.Generator,
    exact: dict[tuple[str, str], Array],
) -> tuple[float, dict[str, Array]]:
    """The loss of a float32 pass in which each result of the training graph is a bit off besides, and its end state.

    `exact` has masks of elements that do not round, which the first probe finds for all.
    """
    memory = actual.memory(np.float32)
    training = {id(node) for node in actual.program.graphs[0].nodes}

    def hold(node: Node, memory: Memory) -> None:
        for place, right in decisive.get(node.name, {}).items():
            name = node.inputs[place]
            inputs = memory.operands(node)
            inputs[place] = right
            values = memory[name].reshape(-1).copy()
            off = np.abs(verdict.minus(values, right.reshape(-1)))
            for boundaries in (b for b in numerics_of(node).decision_boundaries(node, inputs) if b.operand == place):
                competitors = boundaries.elements if boundaries.competitors is None else boundaries.competitors
                may_flip = off[boundaries.elements] + off[competitors] >= boundaries.margins
                for elements in (boundaries.elements[may_flip], competitors[may_flip]):
                    values[elements] = right.reshape(-1)[elements]
            memory[name] = values.reshape(right.shape)

    def disturb(node: Node, results: Sequence[Array]) -> None:
        for name in rounded_results(node, results) if id(node) in training else ():
            values = memory[name]
            if values.dtype == np.float32:
                key = node.name, name
                if key not in exact:
                    exact[key] = _exact(node, memory, name)
                if not exact[key].all():
                    memory[name] = _noisy(values, exact[key], noise)

    loss = run_pass(actual.program, actual.dataset, memory, actual.index, disturb, hold)
    return loss, {name: memory[name].copy() for name in actual.after}


def _noisy(values: Array, exact: Array, noise: np.random.Generator) -> Array:
    """Values in float32 that are a bit off, but for exact ones."""
    flat = values.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        shared = math.sqrt(float(np.square(flat).sum()) / flat.size)
        if not math.isfinite(shared):
            shared = verdict.root_mean_square([values.astype(np.float64)])
        off: Array = np.abs(flat) * np.float32(TOLERANCES.rounded)
        off += np.float32(TOLERANCES.shared * shared)
        off *= 2 * noise.random(flat.size, np.float32) - 1
        off[exact] = 0
        off += flat
    return off.reshape(values.shape)


def _exact(node: Node, memory: Memory, name: str) -> Array:
    """Mask of the elements of a result that did not round: whole numbers, and those of an operand, with either sign.

    What follows may compare a selection, such as the largest element, with what it was selected from.
    """
    own, values = memory.program.layout(name)[0], np.abs(memory[name].reshape(-1))
    exact: Array = (values == np.rint(values)) & (values < LARGEST_WHOLE)
    if exact.all():
        return exact
    operands = [memory[n].reshape(-1) for n in set(node.inputs) if n and memory.program.layout(n)[0] != own]
    known = [operand for operand in operands if operand.dtype == np.float32]
    if known:
        exact |= _members(values, np.abs(known[0] if len(known) == 1 else np.concatenate(known)))
    return exact


def _members(values: Array, known: Array) -> Array:
    """Mask of the float32 values that are among known ones."""
    return (_by_sorting if values.size + known.size <= MOST_SORTED else _by_hashes)(values, known)


def _by_sorting(values: Array, known: Array) -> Array:
    """The mask by what both have in common; most often that is nothing, or everything."""
    known, ascending = np.sort(known), np.sort(values)
    common: Array = known.take(known.searchsorted(ascending), mode="clip") == ascending
    if common.all() or not common.any():
        return common
    shared = ascending[common]
    return np.asarray(shared.take(shared.searchsorted(values), mode="clip") == values)


def _by_hashes(values: Array, known: Array) -> Array:
    """The mask by a table of hashes, which tells most others apart."""
    bits = min(max(12, (SLOTS * known.size).bit_length()), MOST_SLOT_BITS)
    slots = np.zeros(1 << bits, bool)
    slots[known.view(np.uint32) * MULTIPLIER >> np.uint32(32 - bits)] = True
    among: Array = slots[values.view(np.uint32) * MULTIPLIER >> np.uint32(32 - bits)]
    if among.any():
        candidates = values[among]
        if candidates.size <= FEW:
            among[among] = (known[:, None] == candidates).any(0)
        else:
            known = np.sort(known)
            among[among] = known[np.minimum(np.searchsorted(known, candidates), known.size - 1)] == candidates
    return among
