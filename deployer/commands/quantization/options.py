"""Options of `deployer quantize`; nothing heavy is loaded for them."""

import argparse
from collections.abc import Collection

from deployer.commands.fit_options import TARGET_COLUMN
from deployer.commands.run_options import add_axes
from deployer.commands.values import finite, path, positive
from deployer.quantization.options import METHODS, PERCENT


def add_quantize_options(p: argparse.ArgumentParser, losses: Collection[str]) -> None:
    """The model, its frozen part, samples that calibrate it, and how ranges become scales."""
    p.add_argument("model", type=path, metavar="model.onnx", help="forward model of floats")
    text = "quantize what depends on inputs and on layers that REGEX names alone: it is found in names of their"
    text += " parameters, or in their own (default: the whole model)"
    p.add_argument("--freeze", metavar="REGEX", help=text)
    p.add_argument("-o", "--output", type=path, required=True, metavar="quantized.onnx", help="output file")
    p.add_argument("--force", action="store_true", help="overwrite the output file")
    data = p.add_argument_group("samples that say the ranges of values")
    text = "samples as `deployer fit` takes them; a few hundred suffice"
    data.add_argument("--data", type=path, required=True, metavar="FILE|FOLDER", help=text)
    data.add_argument("--target", type=path, metavar="FILE.npy", help="labels or target of a --data in .npy")
    data.add_argument("--target-column", default="", metavar="NAME", help=TARGET_COLUMN)
    data.add_argument("--samples", type=positive, metavar="N", help="use the first N samples (default: all)")
    text = "one of %(choices)s: measure the float model and the quantized one by it (default: no labels are read)"
    data.add_argument("--loss", choices=losses, metavar="NAME", help=text)
    text = "also measure a metric, as `deployer fit` does; may be repeated"
    data.add_argument("--metric", action="append", default=[], metavar="METRIC", help=text)
    add_axes(data)
    ranges = p.add_argument_group("ranges")
    text = "range of a value: its least and largest number, or the middle share of its numbers (default min-max)"
    ranges.add_argument("--method", choices=METHODS, default=METHODS[0], help=text)
    text = f"that share in percent (default {PERCENT})"
    ranges.add_argument("--percentile", type=finite, metavar="X", help=text)
    weights = ranges.add_mutually_exclusive_group()
    text = "a scale of weights for each output channel (default)"
    weights.add_argument("--per-channel", dest="per_channel", action="store_true", default=True, help=text)
    text = "one scale for each tensor of weights"
    weights.add_argument("--per-tensor", dest="per_channel", action="store_false", help=text)
