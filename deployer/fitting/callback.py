"""Hooks into a run over epochs: the interface of callbacks, and a group of them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deployer.core.errors import OptionProblem
from deployer.core.operator import Array
from deployer.fitting.argument_names import meant
from deployer.fitting.checkpoint import CheckpointPlace
from deployer.fitting.history import EpochRow
from deployer.training.order import Samples

if TYPE_CHECKING:
    from deployer.fitting.fit import Fitted


class Callback:
    """Hooks into a run; a subclass overrides those that it needs, the default does nothing.

    An exception of a hook ends the run and reaches the caller with its traceback. The last checkpoint stays complete,
    so `resume` continues the run from it; a checkpoint that is due at the end of an epoch is written before
    `on_epoch_end`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse hooks that nothing would call."""
        super().__init_subclass__(**kwargs)
        hooks = [name for name in vars(Callback) if name.startswith("on_")]
        for name in vars(cls):
            if name.startswith("on_") and name not in hooks:
                guess = ELSEWHERE.get(name) or meant(name, hooks)
                facts = [("hooks", ", ".join(hooks))]
                hint = f"did you mean {guess}?" if guess else "one of these, or a name without on_"
                raise OptionProblem(f"{cls.__name__}.{name} is not a hook: nothing calls it", facts, hint)
            if name in hooks and inspect.isfunction(vars(cls)[name]):
                check_arguments(cls.__name__, vars(cls)[name], vars(Callback)[name])

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


def check_arguments(owner: str, own: Callable[..., Any], hook: Callable[..., Any]) -> None:
    """Raise OptionProblem for a hook that takes other arguments than it is called with, such as Keras's `logs`.

    Names are free where the number is right; arguments behind those of the hook need a default.
    """
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    given = inspect.signature(own).parameters.values()
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in given):
        return
    found, known = [each for each in given if each.kind not in several], list(inspect.signature(hook).parameters)
    needed = [each for each in found if each.default is each.empty]
    names, count = [each.name for each in found], len(known)
    if len(found) < count or len(needed) > count or (len(found) > count and names[1:count] != known[1:]):
        facts = [("takes", ", ".join(names[1:])), ("is called with", ", ".join(known[1:]))]
        documented = (inspect.getdoc(hook) or "").splitlines()[0]
        hint = f"def {hook.__name__}({', '.join(known)}): {documented}"
        raise OptionProblem(f"{owner}.{hook.__name__} takes other arguments", facts, hint)


ELSEWHERE = {
    "on_train_begin": "on_begin",
    "on_train_start": "on_begin",
    "on_train_end": "on_end",
    "on_train_batch_end": "on_step",
    "on_batch_end": "on_step",
    "on_step_end": "on_step",
    "on_evaluate": "on_evaluation",
    "on_test_end": "on_evaluation",
    "on_validation_end": "on_evaluation",
    "on_validation_epoch_end": "on_evaluation",
    "on_train_epoch_end": "on_epoch_end",
    "on_epoch": "on_epoch_end",
    "on_save_checkpoint": "on_checkpoint",
}
"""Hooks of other libraries, with the name here."""


class CallbackGroup(Callback):
    """Several callbacks, called in their order."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = tuple(callbacks)


def _of_each(hook: str) -> Callable[..., None]:
    def call(group: CallbackGroup, *arguments: Any) -> None:
        for each in group.callbacks:
            getattr(each, hook)(*arguments)

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
