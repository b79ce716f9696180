"""Lengths for axes that a file leaves open: of the first axis of all inputs, and of axes by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import ModelProto, TensorShapeProto, ValueInfoProto

from deployer.core.errors import OptionProblem

Axis = TensorShapeProto.Dimension


@dataclass(frozen=True)
class Axes:
    """`batch` is the length of the first axis of inputs where the file does not say it, `lengths` is that of axes by
    their names in the file.
    """

    batch: int | None = None
    lengths: Mapping[str, int] = field(default_factory=dict)

    def fix(self, model: ModelProto) -> None:
        """Write the lengths into the model, wherever an axis has one of these names.

        Raises OptionProblem for a length that no input takes, and for two lengths of one axis.
        """
        if self == NO_AXES:
            return
        constants = {tensor.name for tensor in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in constants]
        lengths, first = dict(self.lengths), [axes[0] for value in inputs if (axes := _axes(value)) and _open(axes[0])]
        named = {axis.dim_param for value in inputs for axis in _axes(value)}
        listing = [("open axes", ", ".join(f"{value.name}{shown(value)}" for value in inputs) or "none")]
        for name in lengths:
            if name not in named:
                raise OptionProblem(f"--axis {name} names no axis of an input", listing, "a name that an input has")
        if self.batch is not None:
            if not first:
                raise OptionProblem(
                    "--batch has no effect here", listing, "leave it out: all first axes have fixed lengths"
                )
            for axis in first:
                if axis.dim_param and lengths.setdefault(axis.dim_param, self.batch) != self.batch:
                    cause = f"axis {axis.dim_param!r} has the lengths {lengths[axis.dim_param]} and {self.batch}"
                    raise OptionProblem(cause, listing, "leave out --batch or --axis")
                axis.dim_value = self.batch
        for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
            for axis in _axes(value):
                if _open(axis) and axis.dim_param in lengths:
                    axis.dim_value = lengths[axis.dim_param]


NO_AXES = Axes()


def shown(value: ValueInfoProto) -> str:
    """The shape as the file has it, with names or question marks for axes without length."""
    return f"[{','.join(str(axis.dim_param or '?') if _open(axis) else str(axis.dim_value) for axis in _axes(value))}]"


def _axes(value: ValueInfoProto) -> list[Axis]:
    return list(value.type.tensor_type.shape.dim)


def _open(axis: Axis) -> bool:
    return not axis.HasField("dim_value") or axis.dim_value < 0
