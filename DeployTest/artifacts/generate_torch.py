"""Training artifacts that ONNX Runtime makes of PyTorch modules, with its own results; see generate.py."""

import argparse
import io
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import generate
import numpy as np
import onnx
import onnxruntime
import torch
import torch_nets

TOKENS = 20


def exported(module: torch.nn.Module, x: torch.Tensor) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """The module in training mode as a forward model, whose input is `x`, and the shape of its output.

    The exporter does not know all lengths, and the target's are copied from the output.
    """
    with torch.no_grad():
        shape = tuple(module(x).shape)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (x,),
            file,
            input_names=["x"],
            training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
            opset_version=generate.OPSET,
            dynamo=False,
        )
    model = onnx.load_from_string(file.getvalue())
    for dim, length in zip(model.graph.output[0].type.tensor_type.shape.dim, shape, strict=True):
        dim.dim_value = length
    return model, shape


def write_case(folder: Path, name: str, row: dict[str, Any]) -> None:
    """Artifacts, data and results of a net as the table trains it."""
    torch.manual_seed(1 + list(generate.TABLE["torch_nets"]).index(name))
    draw = np.random.default_rng(200)
    module = torch_nets.NETS[name]().train()
    shape = (generate.PASSES, generate.BATCH, *row["x"])
    ids = row.get("ids", False)
    x = draw.integers(0, TOKENS, shape) if ids else draw.standard_normal(shape).astype(np.float32)
    model, scores = exported(module, torch.from_numpy(x[0]))
    held = {tensor.name for tensor in model.graph.initializer}
    frozen = row.get("frozen", "^$")
    trained = [n for n, _ in module.named_parameters() if n in held and not re.search(frozen, n)]
    rest = [n for n in held if n not in trained]
    labels = row["loss"] == "CrossEntropyLoss"
    size = (generate.PASSES, scores[0], *scores[2:]) if labels else (generate.PASSES, *scores)
    target = draw.integers(0, scores[1], size) if labels else draw.random(size).astype(np.float32)
    optimizer = row["optimizer"]
    rate = generate.TABLE["rates"][optimizer]
    case = generate.Case(model, trained, sorted(rest), row["loss"], optimizer, rate, row.get("clip", 0.0))
    case.write(folder, x, target)


def main() -> None:
    """Write all cases, or those named, below the folder that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path, help="folder for the cases, one folder each")
    parser.add_argument("names", nargs="*", help="nets, by default all")
    options = parser.parse_args()
    onnxruntime.set_default_logger_severity(generate.QUIET)
    table = generate.TABLE["torch_nets"]
    for name in options.names or table:
        write_case(options.out / f"torch_{name}", name, table[name])


if __name__ == "__main__":
    sys.exit(main())
