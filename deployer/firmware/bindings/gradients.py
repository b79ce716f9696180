"""Gradients that devices exchange: whether sums over devices are those of one device, and what is printed of them."""

from dataclasses import dataclass

from deployer.core.operator import training_of
from deployer.core.plan import Schedule
from deployer.core.safe_text import CText, c_comment, code
from deployer.core.traits.training import Accumulator
from deployer.firmware import state
from deployer.firmware.sources import source_proof
from deployer.firmware.steps import TRAIN

ANY_ORDER = (
    "Passes of several devices, added in their order, and one update have the bits of the same passes on one device."
)
IN_TURN = (
    "A pass adds several gradients, one after another. The bits of one device: each device adds the image of the one"
    " before it to none of its own, makes its pass, and hands its image on."
)


@dataclass(frozen=True)
class GradientsView:
    """Images of gradients: their kind, bytes, the range of their tensors among those of the state, what sums are."""

    kind: int
    bytes: int
    begin: int
    end: int
    order: CText
    proof: CText


def adds_once(schedule: Schedule) -> bool:
    """Whether each pass adds its finished gradient to the accumulator in one step, as a device that gets it adds it."""
    nodes = [step.node for step in schedule.steps if step.graph == TRAIN]
    known = [(node, training_of(node)) for node in nodes]
    return not any(isinstance(t, Accumulator) and t.continues and node.attr_int(t.continues, 0) for node, t in known)


def gradients_views(layout: state.StateLayout, schedule: Schedule, name: str) -> tuple[GradientsView, ...]:
    """The view of a library whose gradients outlive a pass; none where each pass has its own update."""
    numbers = layout.gradients
    if not numbers:
        return ()
    order = c_comment(ANY_ORDER if adds_once(schedule) else IN_TURN)
    proof = code(source_proof("state.c", name))
    return (GradientsView(state.GRADIENTS, layout.gradient_bytes, numbers.start, numbers.stop, order, proof),)
