"""The `deployer quantize` command: writes a model of 8 bits, and shows how far it is from the float one."""

import argparse
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
from rich.table import Table

from deployer.commands import ending
from deployer.commands.requests import axes_of
from deployer.core.errors import DeployerWarning, FileProblem, OptionProblem
from deployer.core.ir import TensorType
from deployer.core.operator import losses
from deployer.core.traits.training import Loss
from deployer.fitting.data.sources import read_samples
from deployer.fitting.export import check_absent
from deployer.fitting.metrics import named_measure
from deployer.quantization.options import METHODS, Quantization
from deployer.quantization.quantize import ModelToQuantize
from deployer.quantization.report import QuantizedModel
from deployer.running.report import printable
from deployer.running.terminal import Terminal
from deployer.training.order import Samples
from deployer.training.tables import Request


def run_quantize(a: argparse.Namespace, console: Terminal) -> int:
    """Quantize a model, write it and report."""
    check_absent(a.output, a.force)
    if not a.output.parent.is_dir():
        raise FileProblem(f"{a.output.parent} is not a folder", hint="an existing folder")
    given = {} if a.percentile is None else {"percentile": a.percentile}
    if given and a.method == METHODS[0]:
        raise OptionProblem("--percentile has no effect here", hint=f"add --method {METHODS[1]}")
    idle = {"--metric": a.metric, "--target": a.target, "--target-column": a.target_column}
    name = next((name for name, value in idle.items() if value and a.loss is None), "")
    if name:
        raise OptionProblem(f"{name} has no effect here", hint="add the --loss by which outputs and labels are read")
    made = ModelToQuantize(a.model, Quantization(a.freeze, a.method, per_channel=a.per_channel, **given), axes_of(a))
    target, measure = named_measure(a.loss, made.output, a.metric) if a.loss else ({}, None)
    samples = _samples(a, made.inputs, target)
    with console.status("quantize"):
        result = made.write(samples, a.output, measure)
    _tell(result, console)
    return 0


def _samples(a: argparse.Namespace, inputs: Mapping[str, TensorType], target: Mapping[str, TensorType]) -> Samples:
    """The samples of --data, of which --samples are used."""
    request = Request(a.target_column)
    types = {**inputs, **target}
    known = {repr(loss.target) for operator in losses().values() if (loss := operator.role(Loss))}

    def warn(warning: DeployerWarning) -> None:
        if target or dict(warning.facts).get("not read") not in known:  # labels may stay in the file
            ending.tell(str(warning))

    samples = read_samples(a.data, types, "data", a.target, request, warn, tuple(target))
    return samples if a.samples is None else samples.subset(np.arange(min(a.samples, samples.count)))


def _tell(result: QuantizedModel, console: Terminal) -> None:
    """Print the table of layers, and what else is known; as JSON in one line."""
    table = Table("layer", "operator", "SNR dB", "scale", "zero", "weight scales", box=None, header_style="bold")
    for row in result.layers:
        low, high = row.weight_scales or (0.0, 0.0)
        scales = "" if row.weight_scales is None else f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        table.add_row(row.name, row.op, f"{row.snr_db:.1f}", f"{row.scale:.4g}", str(row.zero), scales)
    console.print(table)
    for name, reason in result.float_nodes.items():
        console.print(f"stays float: {name}: {reason}", soft_wrap=True)
    for name, layer in result.folded:
        console.print(f"folded: {name} into {layer}", soft_wrap=True)
    for name, noise in result.output_snr_db.items():
        console.print(f"output {name}: {noise:.1f} dB over {result.samples} samples", soft_wrap=True)
    for name, before in result.float_metrics.items():
        console.print(f"{name}: {before:.4g} of floats, {result.metrics[name]:.4g} of 8 bits")
    share = result.bytes_after / max(result.bytes_before, 1)
    console.print(f"weights: {result.bytes_before} B before, {result.bytes_after} B after ({share:.0%})")
    console.print(f"written: {result.output}", soft_wrap=True)
    console.event("end", printable({**asdict(result), "output": str(result.output)}))
