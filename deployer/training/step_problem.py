"""A training problem out of a step model: a file that computes loss, gradients and new states, as PyTorch made them.

A step model is an ONNX file whose first output is the loss. Its metadata say, under the key STEP, which value is the
gradient of which initializer, and which is the next value of which state.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from deployer.core.errors import FileProblem, OptionProblem
from deployer.core.files.reading import damage, parse_json
from deployer.core.ir import CONSTANT, FROZEN, STATE, TRAINED, AttrValue, GraphNames, Node
from deployer.core.operator import Array, losses
from deployer.core.safe_text import json_line, parameter_name
from deployer.core.traits.training import Loss
from deployer.frontend.model_file import load_model
from deployer.operators.movement.casting import Assign
from deployer.training import forward
from deployer.training.attached_loss import AttachedLoss
from deployer.training.autodiff import Backward
from deployer.training.forward import Forward
from deployer.training.tensors.decisions import Decision

STEP, TRAINED_NAMES = "deployer.step", "deployer.trained"
"""Keys of metadata: of a step, and of the parameters that a forward model trains."""
ASSIGN = Assign.name
"""The operator by which a state becomes its next value, unless the one that computes it does so itself."""


@dataclass(frozen=True)
class StepRecord:
    """The record of a step in a file's metadata: values by initializer, targets, and the loss where it has a name.

    `gradients` and `states` map initializers to values of the graph, `frozen` are the module's parameters that are not
    trained, `share` is the input that the gradient begins with, if there is one. `targets` are the data that the model
    itself does not take; `settings` and `class_weights` are the loss's. `counts` has the module's counters of passes,
    which the graph lacks, as they were.
    """

    gradients: dict[str, str]
    states: dict[str, str] = field(default_factory=dict)
    frozen: tuple[str, ...] = ()
    share: str = ""
    loss: str = ""
    settings: dict[str, float] = field(default_factory=dict)
    class_weights: tuple[float, ...] = ()
    targets: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The metadata."""
        return json_line(asdict(self))


def with_record(model: ModelProto, record: StepRecord) -> ModelProto:
    """The model with metadata, in place."""
    kept = [entry for entry in model.metadata_props if entry.key != STEP]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    model.metadata_props.add(key=STEP, value=record.text)
    return model


def read_record(path: Path) -> StepRecord | None:
    """Read the record of a step; None where a file is no step model, FileProblem for metadata that are invalid."""
    entries = [entry.value for entry in load_model(path).metadata_props if entry.key == STEP]
    if not entries:
        return None
    with damage(f"{path} has metadata {STEP!r} that are invalid", "save the step again"):
        return StepRecord(**_checked(parse_json(entries[0])))


def with_trained(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """The forward model with the names of the module's trained parameters as metadata, in place."""
    model.metadata_props.add(key=TRAINED_NAMES, value=json_line(list(names)))
    return model


def read_trained(path: Path) -> str:
    """An expression for the parameters that a captured forward model trains; empty where a file does not say it."""
    entries = [entry.value for entry in load_model(path).metadata_props if entry.key == TRAINED_NAMES]
    if not entries:
        return ""
    with damage(f"{path} has metadata {TRAINED_NAMES!r} that are invalid", "save it again"):
        names = parse_json(entries[0])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError("no list of names")
    return f"^(?:{'|'.join(map(re.escape, names))})$" if names else ""


def _checked(given: Any) -> dict[str, Any]:
    """The fields in the types that they have; TypeError otherwise. Files of older versions have no counts."""
    given = {"counts": {}} | given
    tables, lists, words = (
        ("gradients", "states", "settings", "counts"),
        ("frozen", "class_weights", "targets"),
        ("share", "loss"),
    )
    for name in tables:
        if not all(isinstance(k, str) and isinstance(v, str | int | float) for k, v in dict(given[name]).items()):
            raise TypeError(f"{name} is not a table")
    for name in lists:
        given[name] = tuple(given[name])
        if not all(isinstance(value, str | float | int) for value in given[name]):
            raise TypeError(f"{name} is no list of names or numbers")
    for name in words:
        if not isinstance(given[name], str):
            raise TypeError(f"{name} is not a word")
    if not all(type(count) is int for count in given["counts"].values()):
        raise TypeError("counts are whole numbers")
    return {name: given[name] for name in (*tables, *lists, *words)}


def chosen_parameters(source: Forward, record: StepRecord, path: Path) -> tuple[str, ...]:
    """The parameters that have a gradient, in file order; FileProblem where names do not fit the graph."""
    produced = {name for node in source.raw.nodes for name in node.outputs}
    pairs = [*record.gradients.items(), *record.states.items()]
    lost = [name for name, _ in pairs if name not in source.raw.constants]
    lost += [value for _, value in pairs if value not in produced]
    lost += [name for name in (*record.targets, *filter(None, [record.share])) if name not in source.inputs]
    if lost or not record.gradients:
        cause = f"{path} names {lost[0]!r} in its metadata, which its graph lacks" if lost else f"{path} trains nothing"
        raise FileProblem(cause, hint="save the step again")
    return tuple(name for name in source.raw.constants if name in record.gradients)


@dataclass(frozen=True)
class StepPieces:
    """The parts of a training graph that a step model gives."""

    model: Forward
    loss: AttachedLoss
    trained: dict[str, str]
    states: dict[str, str]
    backward: Backward
    scored: AttachedLoss | None


def step_parts(source: Forward, record: StepRecord, parameters: Sequence[str]) -> StepPieces:
    """The parts for these parameters, with names that C can have."""
    names = GraphNames({n for node in source.raw.nodes for n in (*node.inputs, *node.outputs)} | set(source.inputs))
    names.reserved |= {node.name for node in source.raw.nodes} | set(source.raw.constants)
    new = {n: n if n == parameter_name(n) else names.fresh(parameter_name(n)) for n in (*parameters, *record.states)}
    model = forward.renamed(source, {old: name for old, name in new.items() if old != name})
    gradients = {new[name]: record.gradients[name] for name in parameters}
    return StepPieces(
        model,
        AttachedLoss(model.raw.outputs[0], targets={name: model.inputs[name] for name in record.targets}),
        {new[name]: name for name in parameters},
        {new[name]: name for name in record.states},
        Backward((), {}, {}, gradients),
        _scored(record, model),
    )


def tensor_fates(source: Forward, record: StepRecord, parameters: Collection[str]) -> Iterator[Decision]:
    """Yield the fate of each float tensor of the file, and why."""
    for name, constant in source.raw.constants.items():
        if name in parameters:
            yield Decision(name, constant.shape, TRAINED, "the module's parameter, with a gradient")
        elif name in record.states:
            yield Decision(name, constant.shape, STATE, "a buffer that each step writes")
        elif name in record.frozen or name in record.gradients:
            yield Decision(name, constant.shape, FROZEN, "the module's parameter, frozen or without a gradient")
        elif constant.dtype == "float32":
            yield Decision(name, constant.shape, CONSTANT, "a number or a buffer of the module that no step writes")


def _scored(record: StepRecord, model: Forward) -> AttachedLoss | None:
    """The loss by its name, as metrics take it of scores and the target; None where it has no name.

    Behind the target there may be weights of the samples, which metrics leave out.
    """
    if record.loss not in losses() or not record.targets:
        return None
    target = record.targets[0]
    found = scored_loss(record.loss, record.settings, record.class_weights, target)
    return replace(found, targets={target: model.inputs[target]})


def scored_loss(
    name: str, settings: Mapping[str, AttrValue], class_weights: Sequence[float], target: str
) -> AttachedLoss:
    """A loss by its name of `scores` and a target."""
    operator = losses()[name]
    declared = operator.role(Loss)
    assert declared is not None, f"{name} is a loss"
    inputs, constants = ["scores", target], dict[str, Array]()
    if class_weights and declared.weights is not None:
        inputs += [""] * (declared.weights + 1 - len(inputs))
        inputs[declared.weights] = "class_weights"
        constants["class_weights"] = np.array(class_weights, np.float32)
    node = Node("scored", operator.name, tuple(inputs), declared.outputs, {**declared.attrs, **settings})
    return AttachedLoss(declared.outputs[0], (node,), {}, constants)


def check_options(path: Path, record: StepRecord, loss: str, given: Mapping[str, Any]) -> None:
    """Raise OptionProblem for options that a step model has decided already."""
    if loss not in ("model", record.loss):
        facts = [("loss", record.loss or "a function of the module's")]
        raise OptionProblem(
            f"{path} holds a whole training step, and --loss {loss} has no effect", facts, "--loss model"
        )
    set_anyway = [name for name, value in given.items() if value]
    if set_anyway:
        cause = f"{path} holds a whole training step, and {set_anyway[0]} has no effect"
        raise OptionProblem(cause, hint="set it where the step is captured")
