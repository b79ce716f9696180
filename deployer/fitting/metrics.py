"""Metrics of samples: the loss by its float64 reference, metrics of classes, of values, and functions of a user."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from deployer.core.errors import DatasetMismatch, OptionProblem, ShapeMismatch
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, losses, numerics_of, operator_of
from deployer.core.traits.training import Loss
from deployer.fitting.argument_names import meant
from deployer.fitting.history import ACCURACY, ERROR, LOSS, mean_loss
from deployer.reports.confusion import Confusion, confusion_of
from deployer.training.attached_loss import AttachedLoss
from deployer.training.order import Samples
from deployer.training.problem import TrainGraph
from deployer.training.step_problem import scored_loss

MOST_CLASSES = 1000
"""Predictions of more classes have no confusion matrix in reports."""
CHUNK_BYTES = 1 << 25
"""Bytes of held-out samples that lie in memory at a time."""
PRECISION, RECALL, F1, CONFUSION = "precision", "recall", "f1", "confusion_matrix"
MSE, RMSE, R2 = "mean_squared_error", "rmse", "r2"
OF_CLASSES, OF_VALUES = (ACCURACY, PRECISION, RECALL, F1, CONFUSION), (ERROR, MSE, RMSE, R2)
"""Metrics of losses over labels, besides top_K, and of other losses."""
OF_TRUTHS = (ACCURACY, PRECISION, RECALL, F1)
"""Metrics of losses over truths from 0 to 1, besides those of values."""
TRUE = 0.5
"""A target above it counts as 1."""
RISING = frozenset({ACCURACY, PRECISION, RECALL, F1, R2})
"""Metrics of which more is better, besides top_K."""
ALIASES = {
    "acc": ACCURACY,
    "binary_accuracy": ACCURACY,
    "categorical_accuracy": ACCURACY,
    "sparse_categorical_accuracy": ACCURACY,
    "f1_score": F1,
    "f1_macro": F1,
    "macro_f1": F1,
    "precision_macro": PRECISION,
    "recall_macro": RECALL,
    "root_mean_squared_error": RMSE,
    "r2_score": R2,
    "r_squared": R2,
    "confusion": CONFUSION,
    **{"".join(word[0] for word in name.split("_")): name for name in (ERROR, MSE)},
}
"""Other names of metrics."""
TOP = re.compile(r"top_?([1-9][0-9]{0,8})(?:_acc|_accuracy)?")
MODES = ("min", "max")
"""Whether the best value of a metric is its smallest or its largest."""
Forward = Callable[[list[tuple[Array, ...]]], Array]
"""From batches of the model's inputs to its outputs, batches along the first axis."""
MetricFunction = Callable[[Any, Any], Any]
"""From the model's outputs for all samples and their targets to a number."""


@dataclass(frozen=True)
class MetricChoice:
    """Metrics that a run is asked for besides those that each loss has: names, and functions by name."""

    names: tuple[str, ...] = ()
    functions: Mapping[str, MetricFunction] = field(default_factory=dict)


MetricSpecs: TypeAlias = (
    str | MetricFunction | Sequence[str | MetricFunction] | Mapping[str, MetricFunction] | MetricChoice
)
"""Names of metrics, functions by their own names, or functions by name."""


@dataclass(frozen=True, eq=False)
class Measurements:
    """Metrics of samples: numbers by name, numbers by class, predictions of each class by label.

    `confusion_matrix` is there if it was asked for, `confusion` for reports where there are at most MOST_CLASSES.
    """

    values: dict[str, float] = field(default_factory=dict)
    per_class: dict[str, tuple[float, ...]] = field(default_factory=dict)
    confusion_matrix: tuple[tuple[int, ...], ...] = ()
    confusion: Confusion | None = None


def read_metrics(given: MetricSpecs, top: Sequence[int] = ()) -> MetricChoice:
    """The metrics that are asked for; OptionProblem for an unknown name, and for functions without one."""
    names, functions = [f"top_{k}" for k in top], dict[str, MetricFunction]()
    if isinstance(given, MetricChoice):
        return MetricChoice((*names, *given.names), given.functions)
    if isinstance(given, Mapping):
        items: list[tuple[str, Any]] = list(given.items())
    else:
        listed = [given] if isinstance(given, str) or callable(given) else list(given)
        items = [("", item) for item in listed]
    for name, item in items:
        if isinstance(item, str) and not name:
            names.append(metric_name(item))
        else:
            functions[_function_name(name, item, len(functions) + 1)] = item
    return MetricChoice(tuple(dict.fromkeys(names)), functions)


def metric_name(text: str) -> str:
    """The name of a metric by this or another of its names; OptionProblem where there is none."""
    name = plain_name(text)
    if TOP.fullmatch(name):
        return name
    known = [LOSS, *OF_CLASSES, *OF_VALUES]
    if name not in known:
        guess = meant(text, [*known, *ALIASES])
        facts = [("metrics", ", ".join([*known, "top_K"]))]
        raise OptionProblem(
            f"there is no metric {text!r}", facts, f"did you mean {guess}?" if guess else "one of these"
        )
    return name


def plain_name(text: str) -> str:
    """The name of a metric that is written in another way, such as MAE, f1-score or top5; else the text."""
    word = text.lower().replace("-", "_").replace(" ", "_")
    found = TOP.fullmatch(word)
    name = f"top_{found[1]}" if found else ALIASES.get(word, word)
    return name if found or name in (LOSS, *OF_CLASSES, *OF_VALUES) else text


def _function_name(name: str, function: Any, number: int) -> str:
    """The name of a function, or of its type; one without a name is called by its number."""
    if not callable(function):
        cause = f"metric {name or function!r} is a {type(function).__name__}, neither a name nor a function"
        raise OptionProblem(cause, hint="the name of a metric, or a function of (outputs, targets)")
    name = name or str(getattr(function, "__name__", type(function).__name__))
    name = f"metric_{number}" if name == "<lambda>" else name
    if not (isinstance(name, str) and name.isidentifier()):
        hint = 'metrics={"name": function}, with a name of letters, digits and _'
        raise OptionProblem(f"a metric needs a name, and {name or function!r} is none", hint=hint)
    if name in (LOSS, *OF_CLASSES, *OF_VALUES) or TOP.fullmatch(name):
        hint = f"{name!r} alone for the metric of that name, or another one for the function, such as 'own_{name}'"
        raise OptionProblem(f"metric {name!r} is there already", hint=hint)
    return name


@dataclass(frozen=True)
class Metrics:
    """The metrics of a training problem: its loss, for labels the accuracy, else the error, and those of `choice`.

    Without a node the output is the loss, and nothing else can be measured. What lies `aside` is part of the samples
    and neither input nor target: weights of samples, which count alike here. An element above `decision` is taken for
    1 by a loss over truths.
    """

    node: Node | None
    output: str
    target: str
    constants: Mapping[str, Array]
    class_axis: int | None
    ignored: int | None = None
    choice: MetricChoice = field(default_factory=MetricChoice)
    aside: tuple[str, ...] = ()
    decision: float | None = None

    @property
    def measured(self) -> tuple[str, ...]:
        """All that is measured, by name."""
        if self.node is None:
            return (LOSS,)
        usual = ERROR if self.class_axis is None else ACCURACY
        return tuple(dict.fromkeys((LOSS, usual, *self.choice.names, *self.choice.functions)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all metrics that are one number."""
        return tuple(name for name in self.measured if name != CONFUSION)

    def check(self) -> None:
        """Raise OptionProblem for metrics that this loss cannot have."""
        if self.node is None and (self.choice.names or self.choice.functions):
            name = [*self.choice.names, *self.choice.functions][0]
            cause = f"nothing measures {name!r}: the loss is not one by name, so its outputs and targets are not known"
            raise OptionProblem(cause, hint=f"a loss by its name: {', '.join(losses())}")
        of_values = self.class_axis is None
        truths = OF_TRUTHS if self.decision is not None else ()
        usable = (LOSS, *((*OF_VALUES, *truths) if of_values else OF_CLASSES))
        for name in self.choice.names:
            if name not in usable and (of_values or not TOP.fullmatch(name)):
                needs = "labels, and this loss compares floats" if of_values else "floats, and this loss takes labels"
                facts = [("metrics", ", ".join(usable if of_values else [*usable, "top_K"]))]
                hint = "one of these, or a function of (outputs, targets)"
                raise OptionProblem(f"nothing measures {name!r}: it compares {needs}", facts, hint)

    def is_rising(self, name: str, mode: str = "") -> bool:
        """Whether more of a metric is better; `mode` says it of functions. OptionProblem where it is not known."""
        if mode and mode not in MODES:
            raise OptionProblem(f"monitor_mode is {mode!r}", hint=f"one of {', '.join(MODES)}")
        if name in self.choice.functions:
            if not mode:
                cause = f"monitor is {name!r}, a function, and whether more of it is better is not known"
                raise OptionProblem(cause, hint='monitor_mode="max" or monitor_mode="min"')
            return mode == MODES[1]
        rising = name in RISING or bool(TOP.fullmatch(name))
        if mode and rising != (mode == MODES[1]):
            raise OptionProblem(
                f"monitor_mode is {mode!r}, and of {name!r} {MODES[rising]} is better", hint="leave it out"
            )
        return rising

    def of(self, samples: Samples, forward: Forward) -> Measurements:
        """The metrics over all samples, as if these were one batch; what fills up the last batch does not count."""
        names, outputs, labels = list(samples.types), list[Array](), list[Array]()
        for chunk in _chunks(samples.in_order()):
            no_inputs = (self.target, *self.aside)
            inputs = [tuple(v for n, v in zip(names, sample, strict=True) if n not in no_inputs) for sample in chunk]
            outputs.append(forward(inputs))
            labels += [sample[names.index(self.target)] for sample in chunk if self.target]
        scores, count = np.concatenate(outputs), samples.count
        filled = len(scores) * samples.batch
        if self.node is None:
            return Measurements({LOSS: mean_loss(scores.reshape(len(scores), -1))})
        rows = _joined(scores)
        targets = _joined(np.stack(labels))
        kept = len(rows) * count // filled
        measured = self.compare(rows[:kept], targets[: len(targets) * count // filled])
        if measured.confusion is None:
            return measured
        return replace(measured, confusion=replace(measured.confusion, names=tuple(samples.classes)))

    def compare(self, scores: Array, targets: Array) -> Measurements:
        """The metrics of outputs beside their targets."""
        assert self.node is not None
        if self.class_axis is None and targets.size == scores.size:  # such as [n] beside [n, 1]
            targets = targets.reshape(scores.shape)
        operands = {self.output: scores.astype(np.float64), self.target: targets, **self.constants}
        values = [operands[name] if name else None for name in self.node.inputs]
        found = {LOSS: float(np.asarray(operator_of(self.node).reference(self.node, values)[0]).reshape(-1)[0])}
        if self.class_axis is None:
            truths = {} if self.decision is None else _of_truths(scores > self.decision, targets > TRUE, self.names)
            measured = Measurements(found | _of_values(scores, targets, self.names) | truths)
        else:
            counted = np.ones(targets.shape, bool) if self.ignored is None else targets != self.ignored
            rows = np.moveaxis(scores, self.class_axis, -1)[counted]
            measured = _of_classes(rows, targets[counted], self.measured, found)
        own = {name: number_of(name, f(scores, targets)) for name, f in self.choice.functions.items()}
        return replace(measured, values=measured.values | own)


def metrics_of(graph: TrainGraph, choice: MetricChoice | None = None) -> Metrics:
    """The metrics of a training graph."""
    loss, choice = graph.scored or graph.loss, choice or MetricChoice()
    if not loss.nodes:
        return Metrics(None, graph.model.output, "", {}, None, choice=choice)
    found = metrics_of_loss(loss, choice)
    return replace(found, aside=tuple(name for name in graph.loss.targets if name != found.target))


def metrics_of_loss(loss: AttachedLoss, choice: MetricChoice) -> Metrics:
    """The metrics of a loss by its name."""
    node = loss.nodes[0]
    declared = operator_of(node).role(Loss)
    assert declared is not None, f"{node.op} is not a loss"
    ignored = _ignored(node) if declared.class_axis is not None else None
    output, target = node.inputs[:2]
    axis, decision = declared.class_axis, declared.decision
    return Metrics(node, output, target, loss.constants, axis, ignored, choice, decision=decision)


def named_measure(
    loss: str, output: TensorType, metrics: MetricSpecs = ()
) -> tuple[dict[str, TensorType], Callable[[Array, Mapping[str, Array]], dict[str, float]]]:
    """The target of a loss by its name, for a model with that output, and what measures such outputs of all samples.

    ShapeMismatch where the output does not fit, OptionProblem for metrics that the loss cannot have.
    """
    declared = losses()[loss].role(Loss)
    assert declared is not None, f"{loss} is a loss"
    kind, name = declared.target_type(output), declared.target
    if kind is None:
        facts = [("output", str(output)), ("needs", declared.needs)]
        raise ShapeMismatch(f"the model's output does not fit the loss {loss}", facts, "a loss that takes it, or none")
    found = metrics_of_loss(scored_loss(loss, {}, (), name), read_metrics(metrics))
    found.check()

    def measure(scores: Array, arrays: Mapping[str, Array]) -> dict[str, float]:
        labels = arrays[name].reshape(-1, *kind.shape[1:])
        if found.class_axis is None:
            return found.compare(scores, labels).values
        classes = output.shape[found.class_axis]
        wrong = ((labels < 0) | (labels >= classes)) & (labels != found.ignored)
        if wrong.any():
            facts = [("classes", f"{classes}, of the output {output}"), ("sample", str(int(np.argwhere(wrong)[0][0])))]
            hint = f"labels from 0 to {classes - 1}"
            raise DatasetMismatch(f"{name!r} holds {int(labels[wrong][0])}, which is no class", facts, hint)
        return found.compare(scores, labels).values

    return {name: kind}, measure


def _of_classes(rows: Array, labels: Array, names: Sequence[str], found: dict[str, float]) -> Measurements:
    """Metrics of scores [samples, classes]; the predicted class is the first one with the largest score.

    A sample with a score that is no number has no predicted class. Precision of a class that is never predicted, and
    recall of one without labels, are 0, as is their F1, and all are NaN for a class that has neither. The means are
    those over the other classes.
    """
    ranks, classes = _ranks(rows, labels), rows.shape[-1]
    for name in names:
        if name == ACCURACY or TOP.fullmatch(name):
            most = 1 if name == ACCURACY else int(name.removeprefix("top_"))
            found[name] = float((ranks < most).mean()) if ranks.size else 0.0
    usable = ~np.isnan(rows).any(-1)
    expected, chosen = labels[usable], rows[usable].argmax(-1)
    right, predicted, actual = (
        np.bincount(each, minlength=classes) for each in (expected[expected == chosen], chosen, labels)
    )
    shares = {PRECISION: (right, predicted), RECALL: (right, actual), F1: (2 * right, predicted + actual)}
    seen, per_class = (predicted + actual) > 0, dict[str, tuple[float, ...]]()
    for name in (name for name in shares if name in names):
        over, under = shares[name]
        share = np.where(seen, over / np.maximum(under, 1), np.nan)
        found[name] = float(share[seen].mean()) if seen.any() else float("nan")
        per_class[name] = tuple(share.tolist())
    few = classes <= MOST_CLASSES and usable.any()
    confusion = confusion_of(classes, (), expected, chosen) if few or CONFUSION in names else None
    matrix = confusion.matrix.tolist() if confusion is not None and CONFUSION in names else []
    return Measurements(found, per_class, tuple(map(tuple, matrix)), confusion)


def _of_values(outputs: Array, targets: Array, names: Sequence[str]) -> dict[str, float]:
    """Metrics of floats; R2 is the mean over the elements of an output, and 0 or 1 for one whose targets are equal."""
    wide, targets = outputs.astype(np.float64), targets.astype(np.float64)
    off = wide - targets
    found = {ERROR: float(np.abs(off).mean())}
    if MSE in names:
        found[MSE] = float(np.square(off).mean())
    if RMSE in names:
        found[RMSE] = float(np.sqrt(np.square(off).mean()))
    if R2 in names:
        columns, truth = (x.reshape(len(x), -1) for x in (off, targets))
        left, all_of = (np.square(x).sum(0) for x in (columns, truth - truth.mean(0)))
        same = all_of == 0
        shares = np.where(same, (left == 0).astype(float), 1 - left / np.where(same, 1.0, all_of))
        found[R2] = float(shares.mean()) if len(truth) > 1 else float("nan")
    return found


def _of_truths(chosen: Array, expected: Array, names: Sequence[str]) -> dict[str, float]:
    """Metrics of truths, all elements alike; precision, recall and F1 are those of 1, and 0 where nothing is."""
    right, predicted, actual = (int(x.sum()) for x in (chosen & expected, chosen, expected))
    found = {
        ACCURACY: float((chosen == expected).mean()),
        PRECISION: right / max(predicted, 1),
        RECALL: right / max(actual, 1),
        F1: 2 * right / max(predicted + actual, 1),
    }
    return {name: value for name, value in found.items() if name in names}


def number_of(name: str, value: Any) -> float:
    """The result of a metric's function as a number; OptionProblem where it is none."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        facts = [("returned", f"{type(value).__name__} {value!r:.60}")]
        raise OptionProblem(f"metric {name!r} does not return a number", facts, "one float") from error


def _ignored(node: Node) -> int | None:
    """The label that does not count, as the loss says it for any number of classes."""
    many = {node.inputs[0]: TensorType("float32", (1, 1)), node.inputs[1]: TensorType("int32", (1,))}
    indices = numerics_of(node).indices(node, many)
    return indices.ignored if indices else None


def _chunks(samples: Iterator[tuple[Array, ...]]) -> Iterator[list[tuple[Array, ...]]]:
    """The batches in lists of at most CHUNK_BYTES, or of one."""
    chunk, size = list[tuple[Array, ...]](), 0
    for sample in samples:
        each = sum(array.nbytes for array in sample)
        if chunk and size + each > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(sample)
        size += each
    if chunk:
        yield chunk


def _joined(batches: Array) -> Array:
    """Batches behind one another: the first two axes as one."""
    return batches.reshape(-1, *batches.shape[2:]) if batches.ndim > 1 else batches


def _ranks(scores: Array, labels: Array) -> Array:
    """Return the rank of each label: the number of classes with a larger score, or an equal one and a smaller index.

    A score that is no number is right for no label.
    """
    usable = np.clip(labels, 0, scores.shape[-1] - 1)
    own = np.take_along_axis(scores, usable[..., None], -1)
    earlier = np.arange(scores.shape[-1]) < usable[..., None]
    before: Array = (scores > own) | ((scores == own) & earlier) | np.isnan(scores) | np.isnan(own)
    return np.asarray(before.sum(-1))
