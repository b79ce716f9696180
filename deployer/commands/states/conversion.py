"""`deployer state`: converts images of libraries to tables, arrays and models, and back."""

import argparse
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from onnx import numpy_helper
from rich.table import Table

from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.core.operator import Array
from deployer.core.safe_text import member_name, parameter_name
from deployer.firmware.images import Image, find_images, newest_image
from deployer.firmware.state import KINDS, STATE
from deployer.firmware.tensors import MANIFEST, PASSES, LibraryManifest, image_arrays, make_image, read_library
from deployer.fitting.export import check_absent, export_arrays, read_weights
from deployer.frontend.model_file import load_model
from deployer.running.output import replace_file
from deployer.running.terminal import Terminal
from deployer.training.samples import npz_bytes

Row = dict[str, str | bool | int | float]
"""What is said of a tensor."""


def run_state(a: argparse.Namespace, console: Terminal) -> int:
    """Do what the command line asks for."""
    return {"show": _show, "export": _export, "import": _import}[a.action](a, console)


def _refuse(a: argparse.Namespace, *names: str) -> None:
    """OptionProblem where an option was given that this use of the command does not have."""
    given = [name for name in names if getattr(a, name)]
    if given:
        raise OptionProblem(f"deployer state {a.action} takes no --{given[0]}", hint=f"leave out --{given[0]}")


def _show(a: argparse.Namespace, console: Terminal) -> int:
    _refuse(a, "output", "model", "kind", "force")
    images = find_images(a.file)
    table = Table("at", "save", "holds", "bytes", "passes", "model", "digest", "", box=None, header_style="bold")
    for image in images:
        save = "" if image.number is None else str(image.number)
        sizes = (str(image.length), str(image.passes), f"{image.identity:016x}", f"{image.digest:016x}")
        table.add_row(str(image.at), save, image.kind_name, *sizes, image.fault or "whole")
    console.print(table)
    rows = list[Row]()
    if a.library or (a.file.parent / MANIFEST).is_file():
        library = _library(a)
        rows = _tensor_rows(image_arrays(newest_image(images, a.file, library.identities), library, a.file), library)
        console.print(_tensor_table(rows))
    else:
        newest_image(images, a.file)  # refuses a file of which nothing is whole
        console.lines("--library DIR, the folder of the library, adds the tensors")
    tensors = [{key: _finite(value) for key, value in row.items()} for row in rows]
    console.event("end", {"images": [_described(image) for image in images], "tensors": tensors})
    return 0


def _finite(value: str | float) -> str | float | None:
    """The value, or None for NaN and infinities, for which JSON has no number."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _library(a: argparse.Namespace) -> LibraryManifest:
    return read_library(a.library or a.file.parent)


def _described(image: Image) -> dict[str, object]:
    numbers = {"at": image.at, "save": image.number, "bytes": image.length, "passes": image.passes}
    digests = {"model": f"{image.identity:016x}", "digest": f"{image.digest:016x}"}
    return {"holds": image.kind_name, **numbers, **digests, "whole": not image.fault, "fault": image.fault}


def _tensor_rows(arrays: Mapping[str, Array], library: LibraryManifest) -> list[Row]:
    """Type, range and mean of each tensor, and how many elements differ from the first ones."""
    rows: list[Row] = []
    for tensor in library.tensors:
        if tensor.name not in arrays:
            continue
        array, first = arrays[tensor.name], library.first[tensor.name]
        changed = int((array.reshape(-1).view("<u4") != first.reshape(-1).view("<u4")).sum())
        wide = array.astype(np.float64)
        with np.errstate(all="ignore"):
            known = (wide.min(), wide.max(), wide.mean()) if array.size else (0.0, 0.0, 0.0)
        numbers: Row = dict(zip(("least", "most", "mean"), map(float, known), strict=True))
        sizes: Row = {"type": str(tensor.type), "weight": tensor.is_weight, "elements": array.size, "changed": changed}
        rows.append({"name": tensor.name, **sizes, **numbers})
    return rows


def _tensor_table(rows: list[Row]) -> Table:
    table = Table("tensor", "type", "weight", "changed", "least", "most", "mean", box=None, header_style="bold")
    for row in rows:
        numbers = [f"{row[key]:.6g}" for key in ("least", "most", "mean")]
        weight = "yes" if row["weight"] else ""
        table.add_row(str(row["name"]), str(row["type"]), weight, f"{row['changed']} of {row['elements']}", *numbers)
    return table


def _written(a: argparse.Namespace) -> Path:
    """Return the output path; raise OptionProblem without one, or if the file exists already."""
    if a.output is None:
        raise OptionProblem(f"deployer state {a.action} writes a file", hint="-o FILE")
    check_absent(a.output, a.force)
    out: Path = a.output
    return out


def _export(a: argparse.Namespace, console: Terminal) -> int:
    _refuse(a, "kind")
    out, library = _written(a), _library(a)
    image = newest_image(find_images(a.file), a.file, library.identities)
    arrays = image_arrays(image, library, a.file)
    if out.suffix.lower() == ".onnx":
        if a.model is None:
            raise OptionProblem("an image has no graph", hint="--model, the forward model whose weights these are")
        names = export_arrays(a.model, arrays, a.file, out)
    elif out.suffix.lower() == ".npz":
        _refuse(a, "model")
        members = {member_name(name): array for name, array in arrays.items()}
        if image.kind == STATE:
            if PASSES in members:
                raise DatasetMismatch(f"a tensor of the model is called {PASSES!r}", hint="an .onnx file")
            members[PASSES] = np.array(image.passes)
        replace_file(out, npz_bytes(members))
        names = tuple(arrays)
    else:
        raise OptionProblem(f"{out} is not an .npz or .onnx", hint="-o FILE with one of these endings")
    console.lines(f"{out}: {len(names)} tensors of {a.file}")
    console.event("end", {"output": str(out), "tensors": list(names)})
    return 0


def _import(a: argparse.Namespace, console: Terminal) -> int:
    _refuse(a, "model")
    out, library, kind = _written(a), _library(a), KINDS.index(a.kind or "weights")
    arrays = _model_arrays(a.file, library) if a.file.suffix.lower() == ".onnx" else read_weights(a.file)
    passes = _passes(a.file, arrays, library.accumulate) if kind == STATE else 0
    content = make_image(kind, arrays, passes, library, a.file)
    replace_file(out, content)
    console.lines(f"{out}: {KINDS[kind]} in {len(content)} bytes, from {a.file}")
    console.event("end", {"output": str(out), "holds": KINDS[kind], "bytes": len(content)})
    return 0


def _model_arrays(path: Path, library: LibraryManifest) -> dict[str, Array]:
    """The initializers of a model that are tensors of the library, by the names that those have."""
    names = {tensor.name for tensor in library.tensors}
    found = {}
    for tensor in load_model(path).graph.initializer:
        known = [name for name in (tensor.name, parameter_name(tensor.name)) if name in names]
        if known:
            found[known[0]] = numpy_helper.to_array(tensor)
    return found


def _passes(path: Path, arrays: Mapping[str, Array], most: int) -> int:
    """The passes that wait for their update, as an archive says it; none if it does not."""
    array = np.asarray(arrays.get(PASSES, 0))
    if array.size != 1 or array.dtype.kind not in "iu" or not 0 <= int(array.reshape(-1)[0]) <= most:
        found = str(array.item()) if array.size == 1 else f"{array.dtype}{list(array.shape)}"
        facts = [("in the file", found), ("passes per update", str(most))]
        raise DatasetMismatch(f"{path}: {PASSES} is not a count of passes", facts)
    return int(array.reshape(-1)[0])
