"""Options of `deployer fit` and `deployer export`; nothing heavy is loaded for them."""

import argparse
from typing import Any

from deployer.commands.run_options import add_budget_aliases, add_canonical_batch
from deployer.commands.values import budget, finite, passes, path, positive, seed
from deployer.lr_schedules.windows import ACCUMULATIONS, PARTIAL_ACCUMULATION

SCHEDULE_GROUP = "learning-rate schedule"
TARGET_COLUMN = "target column of a table (default: labels, label, target or y; without a header the last column)"


def add_fit_options(p: argparse.ArgumentParser) -> None:
    """Data, schedule, length, validation and machine of a run over epochs."""
    data = p.add_argument_group("data")
    text = "samples: .npz or .safetensors with an array per graph input and `labels` or `target`; .npy; a table (.csv,"
    text += " .tsv); or a folder with one folder of images (PNG, JPEG) per class"
    data.add_argument("--data", type=path, required=True, metavar="FILE|FOLDER", help=text)
    data.add_argument("--target", type=path, metavar="FILE.npy", help="labels or target of a --data in .npy")
    data.add_argument("--target-column", default="", metavar="NAME", help=TARGET_COLUMN)
    text = "validation set: a fraction of the samples, split off by --seed, or separate samples (default: none)"
    data.add_argument("--validation", metavar="FRACTION|FILE|FOLDER", help=text)
    data.add_argument(
        "--validation-target", type=path, metavar="FILE.npy", help="labels or target of a --validation in .npy"
    )
    data.add_argument("--no-shuffle", action="store_true", help="keep the order of the samples in every epoch")
    data.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="random seed of shuffling, validation split, --init and dropout (default 0)",
    )
    text = "drop the incomplete last batch of an epoch (default: fill it up with the epoch's first samples)"
    data.add_argument("--drop-last", action="store_true", help=text)
    text = "draw the samples of an epoch with replacement, each class as often as any other"
    data.add_argument("--class-balanced", action="store_true", help=text)
    add_length_options(p)
    add_machine_options(p)


def add_length_options(p: argparse.ArgumentParser) -> None:
    """Length of a run, accumulation, metrics, stopping rules, checkpoints and checks."""
    length = p.add_argument_group(f"{SCHEDULE_GROUP} and length")
    length.add_argument("--epochs", type=positive, default=1, metavar="N", help="passes over all samples (default 1)")
    length.add_argument(
        "--n-steps", type=positive, metavar="N", help="total number of forward passes; overrides --epochs"
    )
    length.add_argument(
        "--accumulate-grad-batches",
        type=positive,
        default=1,
        metavar="N",
        help="gradient accumulation: passes per update (default 1)",
    )
    text = "reduction of accumulated gradients; mean is as if the samples were one batch (default sum)"
    length.add_argument("--accumulate", choices=ACCUMULATIONS, default=ACCUMULATIONS[0], help=text)
    text = "incomplete accumulation window at the end of the run: keep it in the checkpoint (skip, default) or apply it"
    length.add_argument(
        "--partial-accumulation", choices=PARTIAL_ACCUMULATION, default=PARTIAL_ACCUMULATION[0], help=text
    )
    text = "early stopping: end after N epochs without improvement of the --monitor metric (default: off)"
    length.add_argument("--patience", type=positive, default=0, metavar="N", help=text)
    text = (
        "also measure a metric: precision, recall, f1, confusion_matrix or top_K of labels, rmse or r2 of floats; may"
    )
    length.add_argument("--metric", action="append", default=[], metavar="METRIC", help=f"{text} be repeated")
    text = "measure the metrics of the training samples, too, at the end of each epoch"
    length.add_argument("--train-metrics", action="store_true", help=text)
    text = "metric of the validation samples that selects the best epoch (default loss)"
    length.add_argument("--monitor", default="loss", metavar="METRIC", help=text)
    length.add_argument(
        "--top",
        type=positive,
        action="append",
        default=[],
        metavar="K",
        help="the same as --metric top_K; may be repeated",
    )
    text = "write the weights of the best epoch as the trained ones (default: those after the last pass)"
    length.add_argument("--restore-best", action="store_true", help=text)
    text = "train only on the first N samples, and fail unless their loss falls below --bound"
    length.add_argument("--overfit", type=positive, metavar="N", help=text)
    length.add_argument(
        "--bound", type=finite, default=0.05, metavar="X", help="loss to reach with --overfit (default 0.05)"
    )
    text = "passes between checkpoints (default: a checkpoint at the end of each epoch)"
    length.add_argument("--checkpoint-every", type=positive, default=0, metavar="N", help=text)
    length.add_argument("--resume", action="store_true", help="resume from the checkpoint in the output folder")
    text = "run frozen layers in front of the trained ones once for each sample, and the others in each epoch"
    length.add_argument("--latent-replay", action="store_true", help=text)
    text = "passes to recompute in float64 from the program's own state (default 8)"
    length.add_argument("--check-passes", type=passes, default=8, metavar="N|all|none", help=text)


def add_machine_options(p: argparse.ArgumentParser) -> None:
    """Target, budgets and cores of a run."""
    machine = p.add_argument_group("machine")
    text = "target to train on; results are bit-identical on all (default: this machine, native code)"
    machine.add_argument("-p", "--platform", default="", metavar="TARGET", help=text)
    text = "memory budget of a level of the target, in bytes; may be repeated (default: the target's budgets)"
    machine.add_argument("--budget", type=budget, action="append", default=[], metavar="LEVEL=BYTES", help=text)
    add_budget_aliases(machine)
    machine.add_argument(
        "--cores", type=positive, metavar="N", help="number of cores per kernel (default: the target's)"
    )
    add_canonical_batch(machine)


def add_export_options(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add the command that writes a model with trained weights."""
    text = "write a forward ONNX model with trained weights"
    p = commands.add_parser("export", help=text, description=text)
    p.add_argument("model", type=path, metavar="model.onnx", help="forward model")
    text = "weights by initializer name: trained.npz, trained.safetensors or a checkpoint of `deployer fit`"
    p.add_argument("--weights", type=path, required=True, metavar="FILE", help=text)
    p.add_argument("-o", "--output", type=path, required=True, metavar="trained.onnx", help="output file")
    p.add_argument("--force", action="store_true", help="overwrite the output file")
