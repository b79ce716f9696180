"""One sample of a batch: an operator applied to one sample's part of its operands, as in a batch of one.

A gradient in canonical order is added up sample by sample, so the operators that sum over the samples run once for
each. What they compute and how follows from the operator at the types of a batch of one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from deployer.core.access import Access, Fixed, Operand
from deployer.core.errors import InternalError
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Length, Offset, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, derived, unsupported
from deployer.core.traits.fusion import Fusion
from deployer.core.traits.training import Accumulator

SUFFIX = "@sample"
"""Behind the name of an operator, in the name of its form for one sample."""
SAMPLE, SAMPLES, OUTER = "sample", "samples", "sample_outer"
"""Attributes: number of the sample, of all samples, and per input the elements in front of the samples; 0 if none."""
OWN_MEANS = "own_means"
"""Attribute of the gradient of a mean: number of samples of which each has a mean of its own; no file has it."""
_OWN = (SAMPLE, SAMPLES, OUTER)


@dataclass(frozen=True)
class SampleAxis:
    """Place of the samples in a tensor: `count` of them, `outer` times, each with `inner` consecutive elements."""

    outer: int
    count: int
    inner: int

    def axis(self, shape: Sequence[int]) -> tuple[int, int, int] | None:
        """The axis that has the samples, and the elements on it in front of and inside of them; None if there is none.

        The axis is one of several elements, unless there is one sample.
        """
        before = 1
        for axis, length in enumerate(shape):
            front, rest = divmod(self.outer, before)
            if rest:
                return None
            within, left = divmod(length, front * self.count)
            behind = math.prod(shape[axis + 1 :])
            if not left and within and within * behind == self.inner:
                return axis, front, within
            before *= length
        return None

    def chunk(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of one sample's part of a tensor."""
        found = self.axis(shape)
        if found is None:
            raise InternalError(f"shape {tuple(shape)} has no axis of samples {self}")
        axis, front, within = found
        return (*shape[:axis], front * within, *shape[axis + 1 :])


def one_sample_node(node: Node, name: str, sample: int, count: int, outer: Sequence[int]) -> Node:
    """The node on one sample, by the elements in front of the samples of each input, 0 for an input without samples."""
    own: dict[str, AttrValue] = {SAMPLE: sample, SAMPLES: count, OUTER: tuple(outer)}
    return Node(name, node.op + SUFFIX, node.inputs, node.outputs, {**node.attrs, **own})


def plain(node: Node) -> Node:
    """The node as the operator itself has it, on the operands of a batch of one."""
    return replace(node, op=node.op.removesuffix(SUFFIX), attrs={n: v for n, v in node.attrs.items() if n not in _OWN})


class OneSample(Operator):
    """The form for one sample of the operator `whole`."""

    whole: ClassVar[Operator]
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The operator's, for one sample."""
        if not set(_OWN) <= set(node.attrs):
            raise unsupported(node, "no file may have it", self.whole.name)
        chunks = [kind and self._chunk(node, place, kind) for place, kind in enumerate(inputs)]
        return self.whole.infer(plain(node), chunks)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The operator's, on one sample's part of each operand."""
        parts: list[Array | None] = []
        for place, array in enumerate(inputs):
            samples = None if array is None else _samples(node, place, array.size)
            if array is not None and samples is not None:
                rows = array.reshape(samples.outer, samples.count, samples.inner)
                array = rows[:, node.attr_int(SAMPLE, 0)].reshape(samples.chunk(array.shape))
            parts.append(array)
        return self.whole.reference(plain(node), parts)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """The operator's, with an axis for the sample in each operand that has several."""
        known = {name: types[name] for name in (*node.inputs, *node.outputs) if name}
        samples = dict[str, SampleAxis]()
        for place, name in enumerate(node.inputs):
            found = _samples(node, place, types[name].size) if name else None
            if found is not None:
                known[name], samples[name] = self._chunk(node, place, types[name]), found
        access = self.whole.access(plain(node), known)
        return replace(access, operands=tuple(_with_sample(node, o, samples.get(o.tensor)) for o in access.operands))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The operator's."""
        return _shifted(self.whole.args(*self.cost_form(node, access)), access)

    def model_args(self, node: Node, access: Access, model: KernelModel) -> dict[str, ArgValue]:
        """The operator's."""
        return _shifted(self.whole.model_args(*self.cost_form(node, access), model), access)

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """The operator's."""
        return self.whole.work(*self.cost_form(node, access), tile, model)

    def cost_form(self, node: Node, access: Access) -> tuple[Node, Access]:
        """The operator's node and access, without an axis for the sample."""
        return plain(node), replace(access, operands=tuple(map(_without_sample, access.operands)))

    def _chunk(self, node: Node, place: int, kind: TensorType) -> TensorType:
        samples = _samples(node, place, kind.size)
        return kind if samples is None else TensorType(kind.dtype, samples.chunk(kind.shape))


def _samples(node: Node, place: int, size: int) -> SampleAxis | None:
    """The place of the samples in an input of so many elements, None if it has none."""
    listed, count = node.attr_ints(OUTER, ()), node.attr_int(SAMPLES, 1)
    outer = listed[place] if place < len(listed) else 0
    return SampleAxis(outer, count, size // (outer * count)) if outer else None


def _with_sample(node: Node, operand: Operand, samples: SampleAxis | None) -> Operand:
    """The operand of a batch of one, in the batch: with an axis that a tile touches at the sample's number."""
    if samples is None or operand.mode != "in":
        return operand
    place = _place(operand.view, samples.outer)
    if place is None:
        raise unsupported(node, f"samples of {operand.tensor!r} lie inside of an axis of {operand.view}", "Transpose")
    view, axes, own = operand.view, operand.axes, Fixed(node.attr_int(SAMPLE, 0))
    return replace(
        operand, view=(*view[:place], samples.count, *view[place:]), axes=(*axes[:place], own, *axes[place:])
    )


def _place(view: Sequence[int], outer: int) -> int | None:
    """The first axis with so many elements in front of it."""
    return next((place for place in range(len(view) + 1) if math.prod(view[:place]) == outer), None)


def _sample_axis(operand: Operand) -> int | None:
    return next((place for place, axis in enumerate(operand.axes) if isinstance(axis, Fixed)), None)


def _without_sample(operand: Operand) -> Operand:
    place = _sample_axis(operand)
    if place is None:
        return operand
    view, axes = operand.view, operand.axes
    return replace(operand, view=view[:place] + view[place + 1 :], axes=axes[:place] + axes[place + 1 :])


def _shifted(args: dict[str, ArgValue], access: Access) -> dict[str, ArgValue]:
    """The arguments, with the numbers of axes as the operands have them with an axis for the sample."""
    places = {operand.arg: _sample_axis(operand) for operand in access.operands}

    def shift(value: ArgValue) -> ArgValue:
        if not isinstance(value, Stride | Length | Offset):
            return value
        place = places.get(value.arg)
        return value if place is None or value.axis < place else replace(value, axis=value.axis + 1)

    return {name: shift(value) for name, value in args.items()}


@derived
def one_sample(name: str, operators: Mapping[str, Operator]) -> Operator | None:
    """The form for one sample of the operator that the name begins with; None for other names."""
    whole = operators.get(name.removesuffix(SUFFIX)) if name.endswith(SUFFIX) else None
    if whole is None or whole.kernel is None or isinstance(whole, OneSample):
        return None
    fusion = whole.fusion
    kept = Fusion(epilogue_bias=fusion.epilogue_bias, epilogue_scale=fusion.epilogue_scale) if fusion else None
    members = {
        **{"name": name, "whole": whole, "kernel": whole.kernel, "inplace": whole.inplace},
        **{"execution": whole.execution, "fusion": kept, "training": whole.role(Accumulator)},
    }
    form: type[OneSample] = type(f"{type(whole).__name__}OneSample", (OneSample,), members)
    return form()
