"""Choice of the passes that are compared from the program's own state, and the moments of its dumps."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line shows the numbers below, and waits for nothing else
    from deployer.core.ir import Program
    from deployer.core.plan import Home, Plan, RunOptions

FIRST_CHECKS = 64
"""So many passes are checked by default."""
STATES_BYTES = 256 << 20
"""By default no more passes are checked than dumps of this size hold."""
_GOLDEN = 2654435769
"""2^32 divided by the golden ratio: its multiples modulo 2^32 are spread evenly."""


def usual_checks(passes: int, each: int) -> int:
    """The number of passes that are checked by default, by the bytes of a state; a pass needs two of them at most."""
    return min(passes, FIRST_CHECKS, max(STATES_BYTES // max(2 * each, 1), 1))


def state_bytes(program: "Program", accumulated: bool) -> int:
    """The bytes of what a pass or an update changes and the next one reads; accumulators, where they outlive a pass."""
    changed = {program.storage(name) for node in program.nodes for name in node.outputs if name}
    names = {program.storage(name) for name in program.weights} & changed
    names |= {program.storage(name) for name in program.accumulators} if accumulated else set()
    return sum(program.tensors[name].type.bytes for name in names)


def state_homes(plan: "Plan") -> "tuple[Home, ...]":
    """Homes of what a pass or an update changes and the next one reads: weights, and accumulators that outlive it."""
    changed = {o.storage for s in plan.steps for o in s.operands if o.mode != "in"}
    weights = dict.fromkeys(plan.storage_of[name] for name in plan.weights)
    return (*(plan.home(name) for name in weights if name in changed), *plan.accumulators)


def checked_passes(passes: int, count: int) -> tuple[int, ...]:
    """The indices of `count` of the passes, always the same ones: the first, the last, one of each part in between.

    The place within a part varies, so that no number of passes per update is in step with it.
    """
    if count >= passes:
        return tuple(range(passes))
    intervals = [(i * passes // count, (i + 1) * passes // count) for i in range(count)]
    inner = [
        start + ((i * _GOLDEN) % (1 << 32)) * (end - start) // (1 << 32) for i, (start, end) in enumerate(intervals)
    ]
    return tuple([*inner[:-1], passes - 1] if count > 1 else inner[:1])


def moments(running: "RunOptions") -> tuple[int, ...]:
    """The passes before which a program dumps its state.

    The state before the first pass is the case's, and the one after the last is among the results.
    """
    passes = {moment for index in checked_passes(running.passes, running.checked) for moment in (index, index + 1)}
    return tuple(sorted(passes - {0, running.passes}))
