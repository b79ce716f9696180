"""A forward model with trained weights: the file as it was, but for the content of initializers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, numpy_helper

from deployer.core.errors import DatasetMismatch, FileProblem, OptionProblem
from deployer.core.files.arrays import read_npz
from deployer.core.operator import Array
from deployer.core.safe_text import member_name, parameter_name
from deployer.fitting.checkpoint import STATE
from deployer.fitting.safetensors import read_safetensors
from deployer.frontend.model_file import load_model
from deployer.frontend.reader import is_literal
from deployer.running.output import replace_file
from deployer.training.tensors.edits import FLOATS, hoist, literals_out, split_merged
from deployer.training.tensors.matching import by_key, copy_of
from deployer.training.tensors.origins import is_invented

LOSS = "loss"
"""The array of a dump beside the weights."""


def read_weights(path: Path) -> dict[str, Array]:
    """The arrays of a file by name: an npz archive, a safetensors file, or the state of a checkpoint."""
    if path.suffix.lower() != ".safetensors":
        return read_npz(path, "the path of trained weights")
    arrays, metadata = read_safetensors(path)
    if "format" in metadata and "place" in metadata:
        return {name.removeprefix(STATE): array for name, array in arrays.items() if name.startswith(STATE)}
    return arrays


def export_weights(model: Path, weights: Path, out: Path, force: bool = False) -> tuple[str, ...]:
    """Write the model to `out` with the arrays of a file, as `export_arrays` does; FileProblem if that is damaged."""
    check_absent(out, force)
    return export_arrays(model, read_weights(weights), weights, out)


def check_absent(out: Path, force: bool) -> None:
    """OptionProblem where a file is there and nobody asked for its end."""
    if out.exists() and not force:
        raise OptionProblem(f"{out} exists", hint="another -o, or --force to overwrite it")


def export_arrays(model: Path, arrays: Mapping[str, Array], weights: Path, out: Path) -> tuple[str, ...]:
    """Write the model to `out` with each initializer for which there is an array of the file `weights`; their names.

    An array belongs to the initializer of its name, or of the name that it has in training graphs and archives.
    FileProblem for damaged files, DatasetMismatch where shapes differ or no array belongs to the model.
    """
    proto = load_model(model)
    names = {tensor.name for tensor in proto.graph.initializer}
    inside = load_model(model)
    moved = {*hoist(inside), *split_merged(inside), *(n.output[0] for n in inside.graph.node if is_literal(n))}
    moved |= {tensor.name for tensor in inside.graph.initializer}
    if any(_key(name, arrays) is not None for name in moved - names):
        proto = inside
        literals_out(proto, {name for name in moved if _key(name, arrays) is not None})
    before = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer if t.data_type in FLOATS}
    written = []
    for tensor in proto.graph.initializer:
        key = _key(tensor.name, arrays)
        if key is None:
            continue
        old, new = numpy_helper.to_array(tensor), arrays[key]
        if old.shape != new.shape and _is_prefix(new.shape, old):
            new = np.broadcast_to(new, old.shape)
        if old.shape != new.shape and not old.size == new.size == 1:
            facts = [("in the model", str(list(old.shape))), ("in the file", str(list(new.shape)))]
            raise DatasetMismatch(f"{weights}: {key!r} has another shape than the initializer", facts)
        if not np.can_cast(new.dtype, old.dtype, "same_kind"):
            facts = [("in the model", str(old.dtype)), ("in the file", str(new.dtype))]
            raise DatasetMismatch(f"{weights}: {key!r} has another type than the initializer", facts)
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(new.astype(old.dtype).reshape(old.shape), name))
        written.append(name)
    if not written:
        facts = [("initializers", ", ".join(t.name for t in proto.graph.initializer)), ("arrays", ", ".join(arrays))]
        raise DatasetMismatch(f"{weights} has no array for an initializer of {model}", facts, "weights of this model")
    written += _copies(proto, before, written)
    if not out.parent.is_dir():
        raise FileProblem(f"{out.parent} is not a folder", hint="an existing folder")
    replace_file(out, proto.SerializeToString(deterministic=True))
    return tuple(written)


def _key(name: str, arrays: Mapping[str, Array]) -> str | None:
    """The name of an initializer's array, if there is one."""
    return next((key for key in (name, member_name(name), parameter_name(name)) if key in arrays), None)


def _is_prefix(shape: tuple[int, ...], array: Array) -> bool:
    """Whether an array of that shape is what an exporter repeated along axes of another one, which training did not."""
    if len(shape) != array.ndim or any(a not in (1, b) for a, b in zip(shape, array.shape, strict=True)):
        return False
    first = array[tuple(slice(0, length) for length in shape)]
    return bool((array == first).all())


def _copies(proto: ModelProto, before: Mapping[str, Array], written: Sequence[str]) -> list[str]:
    """Write tensors that were copies of written ones under an exporter's names, as tied weights may be; their names."""
    new = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer if tensor.name in written}
    found = []
    for names in by_key(before).values():
        sources = [name for name in names if name in new]
        for tensor in proto.graph.initializer if sources else ():
            if tensor.name not in names or tensor.name in new or not is_invented(tensor.name):
                continue
            copy = copy_of(sources[0], before[sources[0]], before[tensor.name])
            if copy is not None:
                name, array = tensor.name, np.ascontiguousarray(copy.made(new[sources[0]]))
                tensor.CopyFrom(numpy_helper.from_array(array.astype(before[name].dtype), name))
                found.append(name)
    return found
