"""Objectives of training: a loss by name, a function of output and target, or the loss that the module returns."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import Tensor, nn

from deployer.core.errors import GraphProblem, OptionProblem, ShapeMismatch
from deployer.core.operator import loss_role, losses
from deployer.core.traits.training import Loss
from deployer.fitting.argument_names import meant
from deployer.training.attached_loss import OWN_LOSS
from deployer.training.settings import Given, split_settings

LossSpec: TypeAlias = str | nn.Module | Callable[..., Tensor]
"""A name, a function of (output, target), or OWN_LOSS."""


@dataclass(frozen=True, eq=False)
class Objective:
    """The loss of a module for data tensors in order: `inputs` go to the module, `targets` to the loss.

    With `keywords` the inputs are arguments by name. `name` is that of a loss of ours, `settings` and `weights` are its
    attributes and class weights. With `weighted` the last target is a weight for each sample. Data of the names in
    `bools` are integers for a program, and bools for the module and for a function that is the loss.
    """

    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    keywords: bool
    function: Callable[[Any, Any], Tensor] | None
    name: str = ""
    settings: dict[str, float] = field(default_factory=dict)
    weights: tuple[float, ...] = ()
    weighted: bool = False
    bools: frozenset[str] = frozenset()

    @property
    def data(self) -> tuple[str, ...]:
        """All data tensors."""
        return (*self.inputs, *self.targets)

    def output(self, module: nn.Module, *data: Tensor) -> Any:
        """Run the module on its inputs, the first of the data."""
        given = self._typed(self.inputs, data[: len(self.inputs)])
        return module(**dict(zip(self.inputs, given, strict=True))) if self.keywords else module(*given)

    def __call__(self, module: nn.Module, *data: Tensor) -> Tensor:
        """The loss of a batch."""
        output = self.output(module, *data)
        if self.function is None:
            return own_loss(output)
        rest = data[len(self.inputs) :]
        if self.weighted:
            return self.function(output, rest)
        rest = rest if self.name else self._typed(self.targets, rest)
        target = rest[0] if len(rest) == 1 else dict(zip(self.targets, rest, strict=True))
        return self.function(output, target)

    def _typed(self, names: Sequence[str], data: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(x.bool() if name in self.bools else x for name, x in zip(names, data, strict=True))


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
        guess = meant(loss, [*losses(), OWN_LOSS])
        hint = f"one of {', '.join((*losses(), OWN_LOSS))}, or a function of output and target"
        hint = f"did you mean {guess}? It is {hint}" if guess else hint
        raise OptionProblem(f"there is no loss {loss!r}", hint=hint)
    attributes, strange = split_settings(settings or {}, losses()[loss])
    assert not strange, f"settings {strange} are not the loss's"
    function = named_loss(loss, attributes, class_weights)
    return Objective(*names, keywords, function, loss, attributes, tuple(class_weights))


def named_loss(
    name: str, attributes: Mapping[str, float], class_weights: Sequence[float] = (), weighted: bool = False
) -> Callable[[Any, Any], Tensor]:
    """The function of output and target that a loss by its name is, or of output and (target, weights of samples)."""
    weight = torch.tensor(class_weights, dtype=torch.float32) if len(class_weights) else None
    function = _Named(name, attributes, weight)
    return _Weighted(function) if weighted else function


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
        return self.of(scores_of(output), target, self.declared.arguments)

    @property
    def declared(self) -> Loss:
        """The declaration of the loss."""
        return loss_role(self.name)

    def of(self, scores: Tensor, target: Tensor, arguments: Mapping[str, str]) -> Tensor:
        """PyTorch's function with these arguments."""
        declared = self.declared
        options: dict[str, Any] = {**self.attributes, **arguments}
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


@dataclass(frozen=True, eq=False)
class _Weighted:
    """A loss by name with a weight for each sample: the weighted sum, divided by what the loss itself divides by.

    So weights of 1 give the loss itself.
    """

    loss: _Named

    def __call__(self, output: Any, rest: Sequence[Tensor]) -> Tensor:
        """The weighted mean of a batch; `rest` are the target and the weights."""
        target, weights = rest
        scores = scores_of(output)
        each = self.loss.of(scores, target, {"reduction": "none"})
        weights = weights.to(each.dtype)
        if weights.shape != each.shape:
            if weights.numel() != len(each):
                facts = [("weights", str(list(weights.shape))), ("losses", str(list(each.shape)))]
                raise ShapeMismatch("sample_weight fits neither samples nor losses", facts, "one for each sample")
            weights = weights.reshape(-1, *[1] * (each.dim() - 1))
        return (each * weights).sum() / self._divisor(each, target)

    def _divisor(self, each: Tensor, target: Tensor) -> Any:
        """The divisor of the loss: samples, elements, or labels that count, by their class weights."""
        declared, weight = self.loss.declared, self.loss.weight
        if declared.class_axis is None:
            return len(each) if declared.arguments else each.numel()
        ignored = self.loss.attributes.get("ignore_index", IGNORED)
        counted = target != ignored
        if weight is None:
            return counted.sum()
        return (weight.to(each.dtype)[torch.where(counted, target, 0)] * counted).sum()


IGNORED = -100
"""The label that PyTorch ignores by default."""


def torch_function(name: str) -> Callable[..., Tensor]:
    """PyTorch's function for a loss of ours."""
    spelled = loss_role(name).function or name
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


def takes_any_number(module: nn.Module) -> bool:
    """Whether a module's forward pass takes any number of arguments."""
    arguments = inspect.signature(module.forward).parameters.values()
    return any(a.kind is a.VAR_POSITIONAL for a in arguments)
