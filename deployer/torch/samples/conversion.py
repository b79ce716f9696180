"""Batches of any kind as arrays that a program takes: tensors of PyTorch, numpy arrays, lists; told once of each."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deployer.core.errors import DatasetMismatch, DeployerWarning, Warn
from deployer.core.operator import Array
from deployer.fitting.in_process import DataInput
from deployer.frontend.data_numbers import narrowed

PAIR = 2
"""Length of a batch of inputs and a target."""
KINDS = "fiub"
"""Kinds of numpy's types that a program can take: floats, integers and truths."""


class Conversion:
    """Converts the data of a loop to arrays; `warn` gets one warning per input whose values are copied or rounded."""

    def __init__(self, warn: Warn) -> None:
        self.warn = warn
        self.told: set[str] = set()

    def array(self, value: Any, wanted: DataInput) -> Array:
        """The numbers for a data input, contiguous and in its type.

        DatasetMismatch for what is no array of numbers, for another shape, and for numbers beyond the type.
        """
        array, origin = numbers_of(value, wanted.name)
        place, facts = f"input {wanted.name!r}", [("found", f"{array.dtype}{list(array.shape)}")]
        if array.dtype.kind not in KINDS or (wanted.dtype == "int64" and array.dtype.kind == "f"):
            hint = "class numbers as integers" if array.dtype.kind == "f" else "arrays of numbers"
            raise DatasetMismatch(f"{place} does not hold {wanted.dtype}", facts, hint)
        if origin or (array.dtype.kind == "f" and array.dtype != wanted.dtype):
            self._tell(wanted, origin or f"{array.dtype} tensor")
        if wanted.dtype == "float32":
            array = narrowed(array, "float32", place, facts) if array.dtype != np.float32 else array
        elif array.dtype == np.uint64:
            array = narrowed(array, "int32", place, facts)
        return np.ascontiguousarray(array, wanted.dtype).reshape(array.shape)

    def _tell(self, wanted: DataInput, origin: str) -> None:
        if wanted.name not in self.told:
            self.told.add(wanted.name)
            facts = [("input", wanted.name), ("found", origin), ("taken", wanted.dtype)]
            hint = f"{wanted.dtype} tensors on the CPU, which need no conversion"
            self.warn(DeployerWarning("data is converted in every call", facts, hint))


def numbers_of(value: Any, name: str) -> tuple[Array, str]:
    """The numbers of a value, and what it is where that has to be converted."""
    if isinstance(value, Tensor):
        tensor, origin = value.detach(), ""
        if tensor.is_complex() or tensor.is_quantized:
            raise DatasetMismatch(f"input {name!r} is a {tensor.dtype} tensor", hint="real floats or integers")
        if tensor.layout is not torch.strided:
            tensor, origin = tensor.to_dense(), f"{value.layout} tensor"
        if not tensor.is_cpu:
            tensor, origin = tensor.cpu(), f"tensor on {value.device}"
        if tensor.is_floating_point() and tensor.itemsize < 4:  # also those that numpy does not know
            tensor, origin = tensor.float(), origin or f"{value.dtype} tensor"
        return tensor.numpy(), origin
    if isinstance(value, np.ndarray):
        return value, ""
    try:
        array = np.asarray(value)
    except ValueError as error:
        cause = f"input {name!r} is a {type(value).__name__} of different lengths"
        raise DatasetMismatch(cause, [("cause", str(error)[:200])], "samples of one shape") from None
    if array.dtype.kind not in KINDS:
        hint = "tensors, numpy arrays or lists of numbers"
        raise DatasetMismatch(f"input {name!r} is of type {type(value).__name__}", hint=hint)
    return array, type(value).__name__


def flat(batch: Any) -> Any:
    """A batch ((u, v), y) as (u, v, y), and ({"u": u, "v": v}, y) as a mapping that has the target, too."""
    if not isinstance(batch, list | tuple) or not any(map(is_array, batch)) or all(map(is_array, batch)):
        return batch
    if isinstance(batch[0], Mapping) and len(batch) == PAIR and "target" not in batch[0]:
        return {**batch[0], "target": batch[1]}
    rows = {len(x) for x in batch if is_array(x)}
    nested = [isinstance(x, list | tuple) and all(map(is_array, x)) and {len(y) for y in x} == rows for x in batch]
    return tuple(x for item, inside in zip(batch, nested, strict=True) for x in (item if inside else (item,)))


def is_array(value: Any) -> bool:
    """Whether a value is a tensor or an array that has samples."""
    return len(getattr(value, "shape", ())) > 0


def shape_text(shapes: Sequence[Sequence[int]]) -> str:
    """Shapes as a message has them."""
    return ", ".join(str(list(shape)) for shape in shapes)
