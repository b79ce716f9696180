"""From a module to a library of C that only predicts: its forward pass in evaluation mode, weights as constants."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from deployer import pipeline
from deployer.core.errors import DatasetMismatch, DeployerWarning, OptionProblem, Warn
from deployer.core.plan import Options
from deployer.firmware.sources import library_rules
from deployer.sizing.library_folder import Library, write_library
from deployer.sizing.needs import model_material
from deployer.torch.boards.packaging import LibraryOptions, resized
from deployer.torch.objectives import arguments_of, flattened, scores_of, takes_any_number
from deployer.torch.samples.conversion import numbers_of
from deployer.torch.step import StepWalk
from deployer.torch.tracing.trace import trace_forward
from deployer.training.samples import npz_bytes

MODEL, INPUTS = "network.onnx", "inputs.npz"


def write_prediction_library(
    module: nn.Module, example: Any, folder: Path, options: LibraryOptions, warn: Warn
) -> Library:
    """Write a library that predicts; `example` are the module's inputs, whose samples the library's example predicts.

    DatasetMismatch where they are not the module's arguments; a warning where it has more outputs than one.
    """
    name, core = options.checked()
    tensors, keywords = _inputs(module, example)
    tensors = {n: resized(x, options.predict_batch) for n, x in tensors.items()}
    counts = list[int]()

    def scores(module: nn.Module, *given: Tensor) -> Tensor:
        output = module(**dict(zip(tensors, given, strict=True))) if keywords else module(*given)
        counts[:] = [len(flattened(output))]
        return scores_of(output)

    model: onnx.ModelProto = StepWalk(trace_forward(module, scores, tensors)).outputs()
    if counts[0] > 1:
        facts = [("outputs", str(counts[0]))]
        warn(DeployerWarning("the library returns logits, or the module's first output, alone", facts))
    planned = Options(target=library_rules().target, budgets=dict(options.budgets or {}) or None)
    with tempfile.TemporaryDirectory(prefix="deployer-") as scratch:
        place = Path(scratch) / name
        place.mkdir()
        onnx.save(model, place / MODEL)
        arrays = {x.name: t.numpy() for x, t in zip(model.graph.input, tensors.values(), strict=True)}
        (place / INPUTS).write_bytes(npz_bytes(arrays))
        case = pipeline.load_inference_case(place, warn=warn)
        made = model_material(case, name, planned, inputs=options.form.inputs)
    return write_library(made, folder, core, options.compiled, options.force, python=options.python)


def _inputs(module: nn.Module, example: Any) -> tuple[dict[str, Tensor], bool]:
    """The inputs by the names of arguments, floats as float32, and whether they are passed by name."""
    known, by_name = arguments_of(module), isinstance(example, Mapping)
    if isinstance(example, Mapping):
        names, given = list(map(str, example)), list(example.values())
    else:
        given = list(example) if isinstance(example, tuple | list) else [example]
        names = [*known, *(f"input_{i}" for i in range(len(known), len(given)))][: len(given)]
    needed = [n for n, is_needed in known.items() if is_needed]
    strange = not takes_any_number(module) and not {*names} <= known.keys()
    if strange or not {*needed} <= {*names}:
        facts = [("arguments", ", ".join(known)), ("found", ", ".join(names) if by_name else f"{len(given)} arrays")]
        hint = "example=x, the inputs alone; with loss=... a batch (x, y), and a library that trains"
        raise DatasetMismatch("the example is not what forward takes", facts, hint)
    found = dict[str, Tensor]()
    for name, value in zip(names, given, strict=True):
        array, _ = numbers_of(value, name)
        tensor = torch.from_numpy(array)
        tensor = tensor.float() if tensor.is_floating_point() else tensor.long()
        if not tensor.dim() or not len(tensor):
            raise OptionProblem(f"input {name!r} of the example has no samples", hint="samples along the first axis")
        found[str(name)] = tensor
    return found, by_name
