"""Unknown arguments and options, answered by the name that was probably meant."""

import difflib
import functools
import inspect
from collections.abc import Callable, Collection
from typing import ParamSpec, TypeVar

from deployer.core.errors import OptionProblem

SYNONYMS = {
    "learning_rate": "lr",
    "batch": "batch_size",
    "n_accum": "accumulate_grad_batches",
    "gradient_accumulation_steps": "accumulate_grad_batches",
    "limits": "max_grad_norm",
    "clip_norm": "max_grad_norm",
    "gradient_clip_val": "max_grad_norm",
    "clip_grad_norm": "max_grad_norm",
    "clip_value": "max_grad_value",
    "schedule": "lr_scheduler",
    "scheduler": "lr_scheduler",
    "warm_up": "warmup_steps",
    "warmup": "warmup_steps",
    "groups": "param_groups",
    "params": "param_groups",
    "group": "param_group",
    "free_rates": "any_rate",
    "num_epochs": "epochs",
    "max_epochs": "epochs",
    "n_epochs": "epochs",
    "max_steps": "n_steps",
    "num_train_epochs": "epochs",
    "val_data": "validation",
    "validation_data": "validation",
    "val_loader": "validation",
    "val_dataloader": "validation",
    "val_dataloaders": "validation",
    "eval_dataset": "validation",
    "train_dataset": "data",
    "train_loader": "data",
    "train_dataloader": "data",
    "train_dataloaders": "data",
    "dataloader": "data",
    "criterion": "loss",
    "loss_fn": "loss",
    "callbacks": "callback",
    "restore_best_weights": "restore_best",
    "load_best_model_at_end": "restore_best",
    "metric": "metrics",
    "metric_for_best_model": "monitor",
    "mode": "monitor_mode",
    "greater_is_better": "monitor_mode",
    "verbose": "progress",
    "enable_progress_bar": "progress",
    "progress_bar": "progress",
    "weight": "class_weights",
    "early_stopping_patience": "patience",
    "sampler": "class_balanced",
    "random_seed": "seed",
    "device": "target",
    "checks": "check_passes",
    "every": "checkpoint_every",
    "initial": "init",
    "beta1": "betas",
    "beta2": "betas",
}
"""Names that others use, and the name here."""
BY_OTHER_MEANS = {
    "sample_weight": 'a loss function of (output, target), with target["weights"] from data={"x": ..., "weights": ...}',
    "num_workers": "DataLoader(..., num_workers=...) as data",
    "setting": "an argument for each setting, such as weight_decay",
    "precision": "leave it out: numbers are float32",
}
"""Arguments that others have, and what does the same here."""
CLOSE = 0.7
"""How alike a name has to be to be proposed, from 0 to 1."""
P = ParamSpec("P")
R = TypeVar("R")


def meant(name: str, known: Collection[str]) -> str:
    """The known name that was probably meant by another one; empty where there is none."""
    synonyms = {word: own for word, own in SYNONYMS.items() if own in known}
    if name in synonyms:
        return synonyms[name]
    close = difflib.get_close_matches(name, [*known, *synonyms], 1, CLOSE)
    return synonyms.get(close[0], close[0]) if close else ""


def unknown_argument(function: str, name: str, known: Collection[str]) -> OptionProblem:
    """The error for an argument that a function has not."""
    other = BY_OTHER_MEANS.get(name.removesuffix("s") if name not in BY_OTHER_MEANS else name)
    if other:
        return OptionProblem(f"{function} has no argument {name!r}", hint=other)
    guess = meant(name, known)
    facts = [] if guess else [("arguments", ", ".join(known))]
    return OptionProblem(
        f"{function} has no argument {name!r}", facts, f"did you mean {guess}?" if guess else "one of these"
    )


def named_parameters(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function answer an unknown argument by the name that was probably meant."""
    known = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        strange = [name for name in kwargs if name not in known]
        if strange:
            raise unknown_argument(function.__name__, strange[0], known)
        return function(*args, **kwargs)

    return checked
