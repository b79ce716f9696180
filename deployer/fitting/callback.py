"""Hooks into a run over epochs: the interface of callbacks, and a group of them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deployer.core.errors import OptionProblem
from deployer.core.operator import Array
from deployer.fitting.argument_names import meant
from deployer.fitting.checkpoint import CheckpointPlace
from deployer.fitting.history import LOSS, ByName, EpochRow, logs_of
from deployer.training.order import Samples

if TYPE_CHECKING:
    from deployer.fitting.fit import Fitted


class Callback:
    """Hooks into a run; a subclass overrides those that it needs, the default does nothing.

    An exception of a hook ends the run and reaches the caller with its traceback. The last checkpoint stays complete,
    so `resume` continues the run from it; a checkpoint that is due at the end of an epoch is written before
    `on_epoch_end`.

    A subclass may have hooks of Keras instead, with what these mean there, epochs and batches from 0 on:
    `on_train_begin(logs)`, `on_epoch_begin(epoch, logs)`, `on_train_batch_end(batch, logs)`, `on_test_end(logs)`,
    `on_epoch_end(epoch, logs)` and `on_train_end(logs)`. `logs` has the numbers of the row by name: loss, val_loss,
    accuracy, val_accuracy, learning_rate.
    """

    _keras: frozenset[str] = frozenset()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse hooks that nothing would call, or with other arguments than they take."""
        super().__init_subclass__(**kwargs)
        hooks = [name for name in vars(Callback) if name.startswith("on_")]
        for name in [name for name in vars(cls) if name.startswith("on_")]:
            own = vars(cls)[name]
            if name in KERAS and inspect.isfunction(own) and is_of_keras(name, own, name in hooks):
                cls._keras |= {name}
                continue
            cls._keras -= {name}
            if name not in hooks:
                raise no_hook(cls.__name__, name, hooks)
            if inspect.isfunction(own):
                check_arguments(cls.__name__, own, vars(Callback)[name])

    def __getattr__(self, name: str) -> Any:
        """AttributeError for what callbacks elsewhere have, with what does the same here."""
        hint = f"; try {ATTRIBUTES[name]}" if name in ATTRIBUTES else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def on_data(self, place: str, samples: Samples) -> None:
        """Samples were read from a source of that name."""

    def on_tensors(self, lines: Sequence[str]) -> None:
        """Roles of the model's tensors, in lines of text."""

    def on_stage(self, text: str) -> None:
        """A stage of the compiler begins."""

    def on_begin(self, passes: int, per_epoch: int, place: CheckpointPlace) -> None:
        """The run begins, or is resumed, at `place`; it has `passes` in all, `per_epoch` of them in an epoch."""

    def on_message(self, text: str) -> None:
        """Something to know about the run: what early stopping watches, and why it ends the run."""

    def on_epoch_start(self, epoch: int) -> None:
        """An epoch begins, counted from 1."""

    def on_step(self, step: int, loss: float, lr: float) -> None:
        """A pass was made: its number from 1 on, its loss, and the learning rate of its update.

        Passes are made in segments of about half a second, so these calls come in groups.
        """

    def on_segment(self, place: CheckpointPlace, loss: float, lr: float) -> None:
        """A segment was made: the run's progress with its state, the mean loss, and the rate of the next pass."""

    def on_evaluation(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """The validation samples were evaluated after an epoch, counted from 1."""

    def on_epoch_end(self, row: EpochRow) -> None:
        """An epoch has ended: its losses and metrics."""

    def on_checkpoint(self, weights: Mapping[str, Array], is_best: bool) -> None:
        """A checkpoint was written: weights and running statistics by the model's names; of the best epoch so far?"""

    def on_end(self, fitted: "Fitted") -> None:
        """The run has ended and its files are written; not called after an exception."""


def positional(own: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """The arguments of a method that have a place, itself aside; None where it takes any number."""
    given = inspect.signature(own).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in given):
        return None
    return [each for each in given if each.kind not in (each.KEYWORD_ONLY, each.VAR_KEYWORD)][1:]


def check_arguments(owner: str, own: Callable[..., Any], hook: Callable[..., Any]) -> None:
    """Raise OptionProblem for a hook that takes other arguments than it is called with.

    Names are free where the number is right; arguments behind those of the hook need a default.
    """
    found, known = positional(own), list(inspect.signature(hook).parameters)[1:]
    if found is None:
        return
    needed, names, count = [each for each in found if each.default is each.empty], [x.name for x in found], len(known)
    if len(found) < count or len(needed) > count or (len(found) > count and names[:count] != known):
        facts = [("takes", ", ".join(names)), ("is called with", ", ".join(known))]
        cause = f"{owner}.{hook.__name__} takes other arguments"
        raise OptionProblem(cause, facts, signature_of(hook))


def signature_of(hook: Callable[..., Any]) -> str:
    """The form of a hook, and when it is called."""
    documented = (inspect.getdoc(hook) or "").splitlines()[0]
    return f"def {hook.__name__}({', '.join(inspect.signature(hook).parameters)}): {documented}"


def no_hook(owner: str, name: str, hooks: Sequence[str]) -> OptionProblem:
    """The error for a hook that nothing calls, with the one that was probably meant."""
    guess = ELSEWHERE.get(name) or meant(name, hooks)
    hint = "one of these, or a name without on_"
    if guess:
        hint = f"did you mean {guess}? {signature_of(vars(Callback)[guess])}"
    return OptionProblem(f"{owner}.{name} is not a hook: nothing calls it", [("hooks", ", ".join(hooks))], hint)


def is_of_keras(name: str, own: Callable[..., Any], is_ours: bool) -> bool:
    """Whether a method has the arguments of Keras's hook of a name, of which it may leave out the last ones.

    One that we have as well is Keras's if it has `logs`.
    """
    found, known = positional(own), KERAS[name].takes
    if found is None:
        return not is_ours
    needed, names = [each for each in found if each.default is each.empty], [each.name for each in found]
    return len(needed) <= len(known) and "trainer" not in names and (not is_ours or "logs" in names[1:2])


ATTRIBUTES = {
    "model": "on_checkpoint, which has the weights; EarlyStopping, or an exception of a hook, ends a run",
    "trainer": "on_epoch_end, whose row has the epoch's numbers",
    "params": "on_begin, which has the numbers of passes",
}
"""What callbacks elsewhere have, and what does the same here."""
ELSEWHERE = {
    "on_train_begin": "on_begin",
    "on_train_start": "on_begin",
    "on_fit_start": "on_begin",
    "on_train_end": "on_end",
    "on_fit_end": "on_end",
    "on_train_batch_end": "on_step",
    "on_batch_end": "on_step",
    "on_step_end": "on_step",
    "on_log": "on_step",
    "on_train_batch_begin": "on_step",
    "on_train_batch_start": "on_step",
    "on_batch_begin": "on_step",
    "on_batch_start": "on_step",
    "on_step_begin": "on_step",
    "on_evaluate": "on_evaluation",
    "on_test_end": "on_evaluation",
    "on_validation_end": "on_evaluation",
    "on_validation_epoch_end": "on_evaluation",
    "on_train_epoch_end": "on_epoch_end",
    "on_epoch": "on_epoch_end",
    "on_epoch_begin": "on_epoch_start",
    "on_train_epoch_start": "on_epoch_start",
    "on_save": "on_checkpoint",
    "on_save_checkpoint": "on_checkpoint",
}
"""Hooks of other libraries, with the name here."""


@dataclass(frozen=True)
class KerasHook:
    """A hook of Keras: the arguments that it takes, the hook here at which it is called, and with what.

    `values` maps the arguments of the hook here, and the passes of an epoch, to those of Keras.
    """

    takes: tuple[str, ...]
    at: str
    values: Callable[[Sequence[Any], int], tuple[Any, ...]]


BATCH = KerasHook(
    ("batch", "logs"),
    "on_step",
    lambda given, each: ((given[0] - 1) % each, ByName({LOSS: given[1], "learning_rate": given[2]})),
)
KERAS = {
    "on_train_begin": KerasHook(("logs",), "on_begin", lambda given, each: (ByName[float](),)),
    "on_epoch_begin": KerasHook(
        ("epoch", "logs"), "on_epoch_start", lambda given, each: (given[0] - 1, ByName[float]())
    ),
    "on_train_batch_end": BATCH,
    "on_batch_end": BATCH,
    "on_test_end": KerasHook(("logs",), "on_evaluation", lambda given, each: (ByName(given[1]),)),
    "on_epoch_end": KerasHook(
        ("epoch", "logs"), "on_epoch_end", lambda given, each: (given[0].epoch - 1, logs_of(given[0]))
    ),
    "on_train_end": KerasHook(
        ("logs",), "on_end", lambda given, each: (logs_of(given[0].rows[-1]) if given[0].rows else ByName(),)
    ),
}
"""Hooks of Keras that mean something here, by name."""


class CallbackGroup(Callback):
    """Several callbacks, called in their order, each with the hooks that it has."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = tuple(callbacks)
        self.per_epoch = 1

    def pass_on(self, hook: str, arguments: Sequence[Any]) -> None:
        """Call a hook of each, and Keras's in its place."""
        for each in self.callbacks:
            if hook not in each._keras:
                getattr(each, hook)(*arguments)
            for name in each._keras:
                if KERAS[name].at == hook:
                    own = getattr(each, name)
                    found, values = positional(vars_of(each, name)), KERAS[name].values(arguments, self.per_epoch)
                    own(*values if found is None else values[: len(found)])


def vars_of(callback: Callback, name: str) -> Callable[..., Any]:
    """The function of a callback's class by its name."""
    found: Callable[..., Any] = next(vars(kind)[name] for kind in type(callback).__mro__ if name in vars(kind))
    return found


def _of_each(hook: str) -> Callable[..., None]:
    def call(group: CallbackGroup, *arguments: Any) -> None:
        if hook == "on_begin":
            group.per_epoch = max(int(arguments[1]), 1)
        group.pass_on(hook, arguments)

    return call


for _hook in [name for name in vars(Callback) if name.startswith("on_")]:
    setattr(CallbackGroup, _hook, _of_each(_hook))


Callbacks = Callback | Sequence[Callback] | None
"""One callback, several, or none."""


def callback_group(given: Callbacks, first: Callback | None = None) -> CallbackGroup:
    """The callbacks that were given as one, behind the `first`; OptionProblem for what is none, such as a class."""
    several = () if given is None else (given,) if not isinstance(given, list | tuple) else tuple(given)
    for each in several:
        if not isinstance(each, Callback):
            found = each.__name__ if isinstance(each, type) else type(each).__name__
            instance = isinstance(each, type) and issubclass(each, Callback)
            cause = f"callback is {'the class ' if instance else 'a '}{found}, not an instance of a Callback"
            raise OptionProblem(cause, hint=f"{found}()" if instance else "a subclass of deployer.Callback")
    return CallbackGroup([*([first] if first else []), *several])
