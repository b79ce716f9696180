"""Objectives of training: a loss by name, a function of output and target, or the loss that the module returns."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import Tensor, nn

from deployer.core.errors import GraphProblem, OptionProblem, ShapeMismatch
from deployer.core.operator import losses
from deployer.core.traits.training import Loss
from deployer.training.attached_loss import OWN_LOSS
from deployer.training.settings import Given, split_settings

LossSpec: TypeAlias = str | nn.Module | Callable[..., Tensor]
"""A name, a function of (output, target), or OWN_LOSS."""


@dataclass(frozen=True, eq=False)
class Objective:
    """The loss of a module for data tensors in order: `inputs` go to the module, `targets` to the loss.

    With `keywords` the inputs are arguments by name. `name` is that of a loss of ours, `settings` and `weights` are its
    attributes and class weights. `outputs` gives what metrics compare with the target.
    """

    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    keywords: bool
    function: Callable[[Any, Any], Tensor] | None
    name: str = ""
    settings: dict[str, float] = field(default_factory=dict)
    weights: tuple[float, ...] = ()

    @property
    def data(self) -> tuple[str, ...]:
        """All data tensors."""
        return (*self.inputs, *self.targets)

    def output(self, module: nn.Module, *data: Tensor) -> Any:
        """Run the module on its inputs, the first of the data."""
        count = len(self.inputs)
        if self.keywords:
            return module(**dict(zip(self.inputs, data[:count], strict=True)))
        return module(*data[:count])

    def __call__(self, module: nn.Module, *data: Tensor) -> Tensor:
        """The loss of a batch."""
        output = self.output(module, *data)
        if self.function is None:
            return own_loss(output)
        rest = data[len(self.inputs) :]
        target = rest[0] if len(rest) == 1 else dict(zip(self.targets, rest, strict=True))
        return self.function(output, target)


def objective_of(
    module: nn.Module,
    loss: LossSpec,
    inputs: Sequence[str],
    targets: Sequence[str],
    *,
    keywords: bool = False,
    settings: Given | None = None,
    class_weights: Sequence[float] = (),
) -> Objective:
    """The objective of a loss; `settings` and `class_weights` are those of a loss by name.

    Raises OptionProblem for an unknown name, for settings of a function, and for a loss with parameters of its own.
    """
    names = tuple(inputs), tuple(targets)
    if not isinstance(loss, str):
        _check_function(loss, settings, class_weights)
        return Objective(*names, keywords, loss)
    if loss == OWN_LOSS:
        _check_function(loss, settings, class_weights)
        return Objective((*inputs, *targets), (), keywords, None)
    if loss not in losses():
        hint = f"one of {', '.join((*losses(), OWN_LOSS))}, or a function of output and target"
        raise OptionProblem(f"there is no loss {loss!r}", hint=hint)
    attributes, strange = split_settings(settings or {}, losses()[loss])
    assert not strange, f"settings {strange} are not the loss's"
    weight = torch.tensor(class_weights, dtype=torch.float32) if class_weights else None
    function = _Named(loss, attributes, weight)
    return Objective(*names, keywords, function, loss, attributes, tuple(class_weights))


def _check_function(loss: Any, settings: Given | None, class_weights: Sequence[float]) -> None:
    given = [*(settings or {}), *(["class weights"] if class_weights else [])]
    if given:
        raise OptionProblem(f"{given[0]} has no effect on a loss that is a function", hint="set it in the function")
    parameters = [n for n, p in loss.named_parameters() if p.requires_grad] if isinstance(loss, nn.Module) else []
    if parameters:
        hint = "make the loss a part of the module, which then returns it, and loss='model'"
        raise OptionProblem("the loss has parameters of its own", [("parameters", ", ".join(parameters))], hint)


@dataclass(frozen=True, eq=False)
class _Named:
    """PyTorch's function of a loss, by our name."""

    name: str
    attributes: Mapping[str, float]
    weight: Tensor | None

    def __call__(self, output: Any, target: Tensor) -> Tensor:
        """The mean over the batch."""
        scores = scores_of(output)
        declared = losses()[self.name].role(Loss)
        assert declared is not None
        options: dict[str, Any] = {**self.attributes, **declared.arguments}
        if self.weight is not None:
            if self.weight.shape != scores.shape[1:2]:
                counts = [("weights", str(len(self.weight))), ("classes", str(scores.shape[1:2]))]
                raise OptionProblem("class_weights needs one weight per class", counts, "one for each class")
            options["weight"] = self.weight.to(scores.dtype)
        if declared.class_axis is None:
            target = self._matched(scores, target)
        result = torch_function(self.name)(scores, target, **options)
        assert isinstance(result, Tensor)
        return result

    def _matched(self, scores: Tensor, target: Tensor) -> Tensor:
        """The target as floats in the shape of the scores, axes of one element aside."""
        if target.shape == scores.shape:
            return target.to(scores.dtype)
        own, theirs = ([n for n in x.shape if n != 1] for x in (target, scores))
        if own != theirs:
            facts = [("output", str(list(scores.shape))), ("target", str(list(target.shape)))]
            raise ShapeMismatch(
                f"the target does not have the shape that loss {self.name!r} compares", facts, "equal shapes"
            )
        return target.reshape(scores.shape).to(scores.dtype)


def torch_function(name: str) -> Callable[..., Tensor]:
    """PyTorch's function for a loss of ours."""
    declared = losses()[name].role(Loss)
    assert declared is not None
    spelled = declared.function or name
    found = [getattr(F, n, None) for n in (spelled, f"{spelled}_loss")]
    function = next(f for f in found if callable(f))
    return function  # type: ignore[no-any-return]


def scores_of(output: Any) -> Tensor:
    """The tensor that a loss by name compares: the output, its `logits`, or its first tensor."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping):
        output = [output["logits"]] if "logits" in output else list(output.values())
    found = [x for x in output if isinstance(x, Tensor)] if isinstance(output, list | tuple) else []
    if not found:
        hint = "a loss that is a function of the module's output"
        raise GraphProblem("the module gives no tensor", [("output", type(output).__name__)], hint)
    return found[0]


def flattened(output: Any) -> list[Tensor]:
    """The tensors of an output, in order."""
    if isinstance(output, Tensor):
        return [output]
    items = list(output.values()) if isinstance(output, Mapping) else list(output)
    return [x for item in items if item is not None for x in flattened(item)]


def own_loss(output: Any) -> Tensor:
    """The loss that a module returns: its output, `loss` in it, or the first of several."""
    if isinstance(output, Mapping) and isinstance(output.get("loss"), Tensor):
        return output["loss"]
    if isinstance(getattr(output, "loss", None), Tensor):
        loss: Tensor = output.loss
        return loss
    return scores_of(output)


def arguments_of(module: nn.Module) -> dict[str, bool]:
    """The arguments of a module's forward pass that have a name, in their order, and whether it needs each."""
    arguments = inspect.signature(module.forward).parameters.values()
    return {a.name: a.default is a.empty for a in arguments if a.kind not in (a.VAR_POSITIONAL, a.VAR_KEYWORD)}
