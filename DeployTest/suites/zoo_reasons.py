"""Why a right run of a net is not within 1e-5 of PyTorch's: a decision that turned, or gradients that are rounding.

Neither is believed before it accounts for all there is: a run of PyTorch, or of the float64 reference, with that one
thing changed has to be within the tolerances. Needs torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.operator import Array
from deployer.judging import judge_of
from deployer.pipeline import expectation
from deployer.running.run import Outcome
from deployer.verify.tolerances import TOLERANCES
from deployer.verify.verdict import Expected
from DeployTest.suites.zoo_torch import Trained
from DeployTest.support.building.cases import Built

States = Sequence[Mapping[str, Array]]
Again = Callable[[States, Mapping[str, Array]], Trained]
"""PyTorch's run once more, with entries under masks as they are after each step in a list of states."""
WHOSE = "PyTorch's run"


@dataclass(frozen=True)
class Run:
    """A run in generated C: the module's names of what the program trains, the case, and what came out."""

    names: Mapping[str, str]
    built: Built
    outcome: Outcome

    def states(self) -> list[dict[str, Array]]:
        """The parameters after each step, by the module's names."""
        rows = [*(self.outcome.states[index] for index in sorted(self.outcome.states)), self.outcome.arrays]
        count = len(self.outcome.losses)
        return [{of: state[name] for name, of in self.names.items()} for state in rows[-count:]]


def turned(run: Run, gold: Trained) -> str:
    """The units whose decision turned in either run, where these account for the difference; else empty."""
    judge = judge_of(run.built.case, run.built.plan, run.outcome, TOLERANCES.weight)
    assert judge is not None
    arrays = {name: gold.weights[of].reshape(run.outcome.arrays[name].shape) for name, of in run.names.items()}
    known = expectation(run.built.case, run.built.plan)
    initial = {name: known.initial[name] for name in arrays}
    expected = Expected(WHOSE, tuple(gold.losses), arrays, initial, known.updates)
    checks = judge.explain_trajectory(judge.checks(), expected, run.outcome.losses, run.outcome.arrays)
    return "; ".join(map(str, checks.explained)) if checks.trajectory_explained else ""


def left_to_rounding(states: States, losses: Sequence[float], gold: Trained, again: Again) -> str:
    """The entries that rounding of their gradients may move further than the tolerance, where they account for the
    difference; else empty. The run had these losses, and these parameters after each step by the module's names.

    Each must be no further off than rounding explains; and PyTorch's run with these entries as they are here agrees in
    all others, and in the losses.
    """
    ours = {name: x.reshape(gold.weights[name].shape) for name, x in states[-1].items()}
    apart = {name: np.abs(x - gold.weights[name]) for name, x in ours.items()}
    masks = {name: gold.open[name] | (gold.reach[name] > TOLERANCES.weight) for name in ours}
    if any((apart[name] > gold.reach[name])[mask].any() for name, mask in masks.items()):
        return ""
    same = again(states, masks)
    loss = max(abs(a - b) for a, b in zip(losses, same.losses, strict=True))
    weight = max(float(np.abs(x - same.weights[name])[~masks[name]].max(initial=0.0)) for name, x in ours.items())
    if not (loss <= TOLERANCES.loss and weight <= TOLERANCES.weight):
        return ""
    compared = {name: apart[name] * (masks[name] & ~gold.open[name]) for name in ours}
    if max(float(x.max(initial=0.0)) for x in compared.values()) <= TOLERANCES.weight:
        compared = {name: apart[name] * masks[name] for name in ours}
    worst = max(ours, key=lambda name: float(compared[name].max(initial=0.0)))
    place = np.unravel_index(int(np.argmax(compared[worst])), apart[worst].shape)
    entry = f"{worst}{[int(i) for i in place]} by {apart[worst][place]:.1e}, at most {gold.reach[worst][place]:.1e}"
    count = sum(int(mask.sum()) for mask in masks.values())
    entries = f"{count} entries" if count > 1 else "an entry"
    return (
        f"rounding of gradients may move {entries} by more than the tolerance, and moved {entry}; with that as in this "
        f"run losses differ by {loss:.1e}, weights by {weight:.1e}"
    )
