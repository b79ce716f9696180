"""Options of `deployer fit` and `deployer export`; nothing heavy is loaded for them."""

import argparse
from typing import Any

from deployer.commands.values import budget, finite, passes, path, positive, seed
from deployer.lr_schedules.windows import ACCUMULATIONS, LEFTOVERS

REST = ("fill", "drop")
TARGET_COLUMN = "heading of the target in a table (default: labels, label, target or y; without headings the last)"


def add_fit_options(p: argparse.ArgumentParser) -> None:
    """Data, course, validation, machine and output of a run over epochs."""
    data = p.add_argument_group("data")
    text = (
        "samples: .npz or .safetensors with an array per graph input and `labels` or `target`, .npy, a table (.csv, "
        ".tsv), or a folder"
    )
    text += " that has a folder of images, PNG or JPEG, for each class"
    data.add_argument("--data", type=path, required=True, metavar="FILE|FOLDER", help=text)
    data.add_argument("--target", type=path, metavar="FILE.npy", help="labels or target, where --data is an .npy")
    data.add_argument("--target-column", default="", metavar="NAME", help=TARGET_COLUMN)
    text = "share of the samples, drawn by --seed, or a file of others, that is measured, not trained (default: none)"
    data.add_argument("--validation", metavar="SHARE|FILE|FOLDER", help=text)
    data.add_argument("--validation-target", type=path, metavar="FILE.npy", help="as --target, of --validation")
    data.add_argument("--no-shuffle", action="store_true", help="samples in their order, in every epoch")
    data.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="of the shuffled orders, the split, --init and dropout (0)"
    )
    text = "samples of an epoch that fill no batch: fill it up with the first of its order (default), or drop them"
    data.add_argument("--rest", choices=REST, default=REST[0], help=text)
    course = p.add_argument_group("course")
    course.add_argument("--epochs", type=positive, default=1, metavar="N", help="how often all samples are seen (1)")
    course.add_argument("--n-steps", type=positive, metavar="N", help="forward passes in all, whatever --epochs says")
    course.add_argument("--n-accum", type=positive, default=1, metavar="N", help="passes per update (default 1)")
    text = "what an update takes of its passes (default sum); the mean is as if they were one batch"
    course.add_argument("--accumulate", choices=ACCUMULATIONS, default=ACCUMULATIONS[0], help=text)
    text = "passes behind the last full update of the run: kept in its checkpoint (default), or an update of their own"
    course.add_argument("--leftover", choices=LEFTOVERS, default=LEFTOVERS[0], help=text)
    text = "end after so many epochs in which the watched metric was no better (default: never)"
    course.add_argument("--patience", type=positive, default=0, metavar="N", help=text)
    text = "the metric that says which epoch is best: loss, accuracy, top_K, mean_absolute_error (default loss)"
    course.add_argument("--watch", default="loss", metavar="METRIC", help=text)
    course.add_argument("--top", type=positive, action="append", default=[], metavar="K", help="measure top_K as well")
    text = "train the first N samples alone, and fail unless their loss falls below --bound"
    course.add_argument("--overfit", type=positive, metavar="N", help=text)
    course.add_argument("--bound", type=finite, default=0.05, metavar="X", help="of --overfit (default 0.05)")
    text = "passes between checkpoints (default: one at the end of each epoch)"
    course.add_argument("--checkpoint-every", type=positive, default=0, metavar="N", help=text)
    course.add_argument("--resume", action="store_true", help="go on from the output folder's checkpoint")
    text = "passes that the float64 reference repeats from the program's own state (default 8)"
    course.add_argument("--check-passes", type=passes, default=8, metavar="N|all|none", help=text)
    machine = p.add_argument_group("machine")
    text = "where training runs: the same bits everywhere (default: this machine, at full speed)"
    machine.add_argument("-p", "--platform", default="", metavar="TARGET", help=text)
    text = "limit of a level of the target; may be repeated"
    machine.add_argument("--budget", type=budget, action="append", default=[], metavar="LEVEL=BYTES", help=text)
    machine.add_argument("--cores", type=positive, metavar="N", help="cores that share a kernel")


def add_export_options(commands: "argparse._SubParsersAction[Any]") -> None:
    """The command that writes a model with trained weights."""
    text = "write a forward ONNX model with the weights of a file"
    p = commands.add_parser("export", help=text, description=text)
    p.add_argument("model", type=path, metavar="model.onnx")
    text = "arrays by the names of initializers: trained.npz, trained.safetensors or a checkpoint of `deployer fit`"
    p.add_argument("--weights", type=path, required=True, metavar="FILE", help=text)
    p.add_argument("-o", "--output", type=path, required=True, metavar="trained.onnx", help="the file to write")
    p.add_argument("--force", action="store_true", help="overwrite it, where it is there")
