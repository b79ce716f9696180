"""Names of arguments: those of other libraries are taken, unknown ones answered by the name that was meant."""

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from typing import ParamSpec, TypeVar

from deployer.core.errors import OptionProblem

TAKEN_AS = {
    "learning_rate": "lr",
    "train_batch_size": "batch_size",
    "per_device_train_batch_size": "batch_size",
    "bs": "batch_size",
    "gradient_accumulation_steps": "accumulate_grad_batches",
    "accumulation_steps": "accumulate_grad_batches",
    "accum_steps": "accumulate_grad_batches",
    "grad_accum_steps": "accumulate_grad_batches",
    "grad_accumulation_steps": "accumulate_grad_batches",
    "max_norm": "max_grad_norm",
    "clip_norm": "max_grad_norm",
    "clip_grad_norm": "max_grad_norm",
    "gradient_clip_val": "max_grad_norm",
    "grad_clip": "max_grad_norm",
    "clip_grad": "max_grad_norm",
    "gradient_clip": "max_grad_norm",
    "grad_clip_norm": "max_grad_norm",
    "gradient_clip_norm": "max_grad_norm",
    "gradient_clipping": "max_grad_norm",
    "clip_value": "max_grad_value",
    "scheduler": "lr_scheduler",
    "lr_scheduler_type": "lr_scheduler",
    "scheduler_interval": "lr_scheduler_interval",
    "interval": "lr_scheduler_interval",
    "num_epochs": "epochs",
    "n_epochs": "epochs",
    "n_epoch": "epochs",
    "max_epochs": "epochs",
    "num_train_epochs": "epochs",
    "max_steps": "n_steps",
    "steps": "n_steps",
    "num_steps": "n_steps",
    "total_steps": "n_steps",
    "iterations": "n_steps",
    "num_iterations": "n_steps",
    "max_iter": "n_steps",
    "train_data": "data",
    "train_dataset": "data",
    "train_loader": "data",
    "train_dataloader": "data",
    "train_dataloaders": "data",
    "dataloader": "data",
    "val_data": "validation",
    "validation_data": "validation",
    "val_dataset": "validation",
    "val_loader": "validation",
    "val_dataloader": "validation",
    "val_dataloaders": "validation",
    "valid_data": "validation",
    "valid_dataset": "validation",
    "valid_loader": "validation",
    "validation_dataset": "validation",
    "validation_loader": "validation",
    "eval_data": "validation",
    "eval_dataset": "validation",
    "eval_loader": "validation",
    "eval_dataloader": "validation",
    "validation_split": "validation",
    "val_split": "validation",
    "valid_pct": "validation",
    "criterion": "loss",
    "loss_fn": "loss",
    "loss_func": "loss",
    "loss_function": "loss",
    "opt": "optimizer",
    "optim": "optimizer",
    "opt_func": "optimizer",
    "wd": "weight_decay",
    "class_weight": "class_weights",
    "sample_weights": "sample_weight",
    "callbacks": "callback",
    "cbs": "callback",
    "metric": "metrics",
    "mode": "monitor_mode",
    "metric_for_best_model": "monitor",
    "monitor_metric": "monitor",
    "early_stopping_patience": "patience",
    "early_stopping_rounds": "patience",
    "restore_best_weights": "restore_best",
    "load_best_model_at_end": "restore_best",
    "verbose": "progress",
    "progress_bar": "progress",
    "enable_progress_bar": "progress",
    "random_state": "seed",
    "random_seed": "seed",
    "save_dir": "folder",
    "output_dir": "folder",
    "default_root_dir": "folder",
    "directory": "folder",
    "out_dir": "folder",
    "output": "folder",
    "path": "folder",
    "prefix": "name",
    "library_name": "name",
    "overwrite": "force",
    "num_threads": "cores",
    "n_threads": "cores",
    "threads": "cores",
    "n_jobs": "cores",
    "example_input": "example",
    "example_inputs": "example",
    "example_input_array": "example",
    "sample_input": "example",
    "model": "module",
    "target": "core",
    "board": "core",
    "mcu": "core",
    "cpu": "core",
}
"""Names of other libraries for an argument that is the same here; they are taken, unless a function has such a name."""
SYNONYMS = {
    "batch": "batch_size",
    "n_accum": "accumulate_grad_batches",
    "limits": "max_grad_norm",
    "schedule": "lr_scheduler",
    "warm_up": "warmup_steps",
    "warmup": "warmup_steps",
    "groups": "param_groups",
    "params": "param_groups",
    "group": "param_groups",
    "free_rates": "any_rate",
    "greater_is_better": "monitor_mode",
    "weight": "class_weights",
    "sampler": "class_balanced",
    "checks": "check_passes",
    "every": "checkpoint_every",
    "initial": "init",
    "clip": "max_grad_norm",
    "beta1": "betas",
    "beta2": "betas",
    **TAKEN_AS,
}
"""Names that others use, and the name here."""
RESUME = "resume=True, with folder=... of the run that goes on and a larger number of epochs"
HERE = "leave it out: the generated code runs on this machine; train takes another target"
FLOAT32 = "leave it out: numbers are float32"
LOADED = "leave it out, or DataLoader(..., num_workers=..., pin_memory=...) as data"
COLLATED = "DataLoader(..., collate_fn=...) as data"
TOGETHER = "data=(x, y), or validation=(x, y)"
VALIDATED = "leave it out: batches of validation have batch_size samples, too"
LOGS = "callback=..., one of deployer.loggers"
CYCLE = "lr_scheduler=torch.optim.lr_scheduler.OneCycleLR(optimizer, ...)"
FREEZES = 'parameter.requires_grad_(False) before the call, or param_groups=[{"params": names, "frozen": True}]'
EACH_LOSS = "callback=..., whose on_step gets each loss; run.losses has them all"
STOPPING = ("early_stopping", "early_stop")
"""Arguments for early stopping: its patience, or its callback."""
EACH_EPOCH = "leave it out: validation follows every epoch"
SAME_BITS = "leave it out: the same seed gives the same bits"
STOPS = "patience=..., or callback=EarlyStopping(patience=...)"
SAVES = 'callback=ModelCheckpoint("best.pt"), or folder="run", which keeps checkpoints'
PASSES = "leave it out: an epoch is one round over the data; n_steps=... bounds the passes of the run"
BY_OTHER_MEANS = {
    "sample_weight": "deployer.torch.train(..., sample_weight=...), or step(x, y, weights) of compile_step",
    "pos_weight": "a loss of torch.nn with pos_weight=..., as loss",
    "num_workers": LOADED,
    "workers": LOADED,
    "pin_memory": LOADED,
    "persistent_workers": LOADED,
    "setting": "an argument for each setting, such as weight_decay",
    "precision": FLOAT32,
    "amp": FLOAT32,
    "use_amp": FLOAT32,
    "mixed_precision": FLOAT32,
    "fp16": FLOAT32,
    "bf16": FLOAT32,
    "dtype": FLOAT32,
    "quantize": FLOAT32,
    "quantization": FLOAT32,
    "device": HERE,
    "devices": HERE,
    "gpus": HERE,
    "use_gpu": HERE,
    "num_nodes": HERE,
    "gpu": HERE,
    "accelerator": HERE,
    "strategy": HERE,
    "ckpt_path": RESUME,
    "checkpoint": RESUME,
    "resume_from_checkpoint": RESUME,
    "resume_from": RESUME,
    "warmup_ratio": "warmup_steps=..., a number of updates",
    "initial_epoch": RESUME,
    "start_epoch": RESUME,
    "log_every_n_steps": EACH_LOSS,
    "log_interval": EACH_LOSS,
    "log_every": EACH_LOSS,
    "print_every": EACH_LOSS,
    "check_val_every_n_epoch": EACH_EPOCH,
    "val_check_interval": EACH_EPOCH,
    "validation_freq": EACH_EPOCH,
    "eval_step": EACH_EPOCH,
    "eval_strategy": EACH_EPOCH,
    "evaluation_strategy": EACH_EPOCH,
    "validation_step": EACH_EPOCH,
    "limit_val_batches": EACH_EPOCH,
    "eval_batch_size": VALIDATED,
    "val_batch_size": VALIDATED,
    "validation_batch_size": VALIDATED,
    "per_device_eval_batch_size": VALIDATED,
    "deterministic": SAME_BITS,
    "benchmark": SAME_BITS,
    "early_stopping": STOPS,
    "early_stop": STOPS,
    "min_delta": "callback=EarlyStopping(patience=..., min_delta=...)",
    "enable_checkpointing": SAVES,
    "save_step": SAVES,
    "save_best": SAVES,
    "save_best_only": SAVES,
    "save_path": SAVES,
    "save_every": SAVES,
    "save_strategy": SAVES,
    "save_total_limit": SAVES,
    "checkpoint_dir": SAVES,
    "checkpoint_path": SAVES,
    "steps_per_epoch": PASSES,
    "limit_train_batches": PASSES,
    "compute_metric": "metrics=..., names or functions of outputs and targets",
    "collate_fn": COLLATED,
    "data_collator": COLLATED,
    "tokenizer": COLLATED,
    "test_data": "run.evaluate(data) after the run",
    "test_dataset": "run.evaluate(data) after the run",
    "test_loader": "run.evaluate(data) after the run",
    "logging_step": EACH_LOSS,
    "logger": LOGS,
    "log_dir": LOGS,
    "logging_dir": LOGS,
    "x": TOGETHER,
    "y": TOGETHER,
    "inputs": TOGETHER,
    "label": TOGETHER,
    "x_val": TOGETHER,
    "y_val": TOGETHER,
    "max_lr": CYCLE,
    "pct_start": CYCLE,
    "lr_lambda": "lr_scheduler=..., a function from the update, from 0 on, to the factor of lr",
    "warmup_epoch": "warmup_steps=..., a number of updates",
    "freeze": FREEZES,
    "num_classes": "leave it out: the module's output says how many there are",
    "fast_dev_run": "n_steps=1",
    "overfit_batches": "overfit=..., a number of samples",
}
"""Arguments that others have, and what does the same here."""
OWNERS: dict[str, set[str]] = {}
"""The names of the functions that have an argument."""
AS_HERE: dict[str, tuple[str, ...]] = {
    "device": ("cpu", "cpu:0", "auto"),
    "accelerator": ("cpu", "auto"),
    "devices": ("1", "auto"),
    "gpus": ("0",),
    "gpu": ("false",),
    "use_gpu": ("false",),
    "num_nodes": ("1",),
    "strategy": ("auto",),
    "num_workers": ("0",),
    "workers": ("0",),
    "pin_memory": ("false",),
    "persistent_workers": ("false",),
    "precision": ("32", "32-true", "fp32", "float32", "full", "torch.float32"),
    "dtype": ("float32", "torch.float32", "<class 'numpy.float32'>"),
    "amp": ("false",),
    "use_amp": ("false",),
    "mixed_precision": ("false", "no"),
    "fp16": ("false",),
    "bf16": ("false",),
    "quantize": ("false",),
    "quantization": ("false",),
    "deterministic": ("true",),
    "benchmark": ("false",),
    "check_val_every_n_epoch": ("1",),
    "validation_freq": ("1",),
    "val_check_interval": ("1.0",),
    "eval_strategy": ("epoch",),
    "evaluation_strategy": ("epoch",),
    "limit_train_batches": ("1.0",),
    "limit_val_batches": ("1.0",),
    "min_delta": ("0", "0.0"),
    "initial_epoch": ("0",),
    "start_epoch": ("0",),
    "ckpt_path": (),
    "checkpoint": (),
    "resume_from": (),
    "resume_from_checkpoint": (),
    "logger": ("false",),
    "enable_checkpointing": ("false",),
    "fast_dev_run": ("false",),
    "overfit_batches": ("0", "0.0"),
    "num_sanity_val_steps": ("0",),
    "enable_model_summary": ("false",),
    "sync_batchnorm": ("false",),
    "profiler": (),
    "verbose": ("0", "false"),
    "progress_bar": ("false",),
}
"""Arguments that others have, and the values, as text, that say what is done here anyway: these are taken, and None."""
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
    cause = f"{function} has no argument {name!r}"
    if name in AS_HERE and name not in BY_OTHER_MEANS:
        return OptionProblem(cause, hint="leave it out")
    other = BY_OTHER_MEANS.get(name.removesuffix("s") if name not in BY_OTHER_MEANS else name)
    if other:
        needed = [argument for argument in re.findall(r"(?:^|[ ,])(\w+)=", other) if argument in OWNERS]
        owners = OWNERS[needed[0]] if needed and needed[0] not in known else ()
        return OptionProblem(cause, hint=f"{other}: arguments of {' and '.join(sorted(owners))}" if owners else other)
    guess, own = meant(name, known), TAKEN_AS.get(name, name)
    if own in OWNERS and (name in TAKEN_AS or not guess):
        return OptionProblem(cause, hint=f"leave it out: {own} is an argument of {' and '.join(sorted(OWNERS[own]))}")
    facts = [] if guess else [("arguments", ", ".join(known))]
    return OptionProblem(cause, facts, f"did you mean {guess}?" if guess else "one of these")


def named_parameters(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function take other libraries' names, and answer an unknown one by the name that was probably meant."""
    places = tuple(inspect.signature(function).parameters)
    known = tuple(name for name in places if name != "self")
    for name in known:
        OWNERS.setdefault(name, set()).add(function.__name__)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given = named_here(function.__name__, kwargs, known)
        for name in places[: len(args)]:
            if name in given:
                hint = f"one of them; validation samples are validation=, and the order is {', '.join(known[:4])}"
                raise OptionProblem(f"{function.__name__} gets {name} twice, by its place and by name", hint=hint)
        return function(*args, **given)  # type: ignore[arg-type]

    return checked


def named_here(function: str, given: Mapping[str, object], known: Collection[str]) -> dict[str, object]:
    """The arguments by their names here; OptionProblem for one that is unknown, and for one that is given twice."""
    found = dict[str, object]()
    for name, value in given.items():
        own = name if name in known else TAKEN_AS.get(name, name)
        if own not in known and name in AS_HERE and said_here(name, value):
            continue
        if own not in known and name in STOPPING and "patience" in known:
            own, value = stopping(name, value)
            if not own:
                continue
        if own not in known:
            raise unknown_argument(function, name, known)
        if own in found:
            raise OptionProblem(f"{function} gets {own} twice: {name} is another name of it", hint=f"{own} alone")
        found[own] = value
    return found


def said_here(name: str, value: object) -> bool:
    """Whether a value says what is done here anyway; OptionProblem for another one of a name that has some."""
    if value is None or str(value).lower() in AS_HERE[name]:
        return True
    if not AS_HERE[name] or name not in BY_OTHER_MEANS:
        return False
    taken = ", ".join(AS_HERE[name])
    raise OptionProblem(f"{name} is {value!r}, and nothing here does that", [("taken", taken)], BY_OTHER_MEANS[name])


def stopping(name: str, value: object) -> tuple[str, object]:
    """The argument that early stopping is, and its value: a number of epochs, or a callback; no name where it is off.

    OptionProblem for another value.
    """
    if value is None or value is False:
        return "", None
    if isinstance(value, int) and value is not True:
        return "patience", value
    if hasattr(value, "on_epoch_end"):
        return "callback", value
    raise OptionProblem(f"{name} is {value!r}, and how many epochs it waits is not known", hint=STOPS)


def choice_of(text: str, known: Collection[str]) -> str:
    """The name of a loss or an optimizer that is written in another way, such as CrossEntropyLoss; else the text."""
    plain = {name.replace("_", ""): name for name in known}
    word = text.lower().replace("_", "")
    return next((plain[each] for each in (word, word.removesuffix("loss")) if each in plain), text)
