"""npz archives: keys, element types, shapes, values, order, and the bytes of the zip file."""

import io
import zipfile

import numpy as np

from deployer import pipeline
from deployer.training import train_graph
from DeployTest.faults.fuzz import bases
from DeployTest.faults.fuzz.draw import Draw
from DeployTest.faults.fuzz.edits.register import edits_of
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.trial import Trial, contained

from .graph import damage
from .training import agree, build, start

Arrays = dict[str, np.ndarray]
KINDS = (
    "float64",
    "float16",
    "int64",
    "int32",
    "uint8",
    "uint64",
    "bool",
    "complex64",
    "U4",
    "S3",
    "M8[s]",
    "O",
    ">f4",
)


@kind(10)
def data(trial: Trial) -> str:
    """inputs.npz or outputs.npz of a training case."""
    train, _ = start(trial)
    draw = trial.draw("which")
    path = train / draw.one(("inputs.npz", "inputs.npz", "outputs.npz"))
    edit_archive(trial, path, draw)
    with contained(trial):
        case = pipeline.load_training(trial.case)
    if trial.build:
        return build(trial)
    assert case.dataset is not None
    if case.dataset.n_batches > 200:
        return "too many passes to interpret"
    agree(case.program, case.dataset)
    return "equal in both precisions"


@kind(2)
def given_data(trial: Trial) -> str:
    """The archive that `train-graph --data` takes."""
    draw = trial.draw("which")
    model = trial.case / "m.onnx"
    model.write_bytes(bases.network(Draw("data"), 0).SerializeToString())
    path = trial.case / "data.npz"
    labels = np.array([[0, 1], [3, 2], [1, 1]])
    np.savez(path, allow_pickle=False, x=draw.array((3, 2, 6)), labels=labels)
    edit_archive(trial, path, draw)
    with contained(trial):
        report = train_graph.build_train_graph(model, "cross_entropy", "sgd", 0.1, "", trial.work, data=path)
    case = pipeline.load_training(report.train)
    assert case.dataset is not None
    agree(case.program, case.dataset)
    return "equal in both precisions"


def edit_archive(trial: Trial, path: "bases.Path", draw: Draw) -> None:
    """Edit the arrays, the bytes, or both."""
    if draw.chance(0.75):
        with np.load(path) as archive:
            arrays = dict(archive)
        trial.edit("archive", arrays)
        path.write_bytes(packed(arrays, draw))
    if draw.chance(0.35):
        path.write_bytes(damage(trial, path.read_bytes()))


def packed(arrays: Arrays, draw: Draw) -> bytes:
    """The zip file, with objects pickled and content compressed or not."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", draw.one((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=True)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())
    return sink.getvalue()


@edits_of("archive")
def key_changed(arrays: Arrays, draw: Draw) -> None:
    """A key removed, renamed, repeated under another name, or moved to the end."""
    if not arrays:
        return
    key = draw.one(list(arrays))
    array = arrays[key]
    match draw.number(0, 3):
        case 0:
            del arrays[key]
        case 1:
            del arrays[key]
            arrays[draw.one((draw.name()[:40], "mb7_arr_0000", "mb1_arr_0009", "arr_0099", "meta_evil"))] = array
        case 2:
            arrays[draw.one(("mb1_arr_0002", "mb2_arr_0000", "mb-1_arr_0000", "extra", "arr_1", "arr_00000"))] = array
        case _:
            arrays[key] = arrays.pop(key)


@edits_of("archive")
def kind_changed(arrays: Arrays, draw: Draw) -> None:
    """Another element type."""
    if not arrays:
        return
    key = draw.one(list(arrays))
    with np.errstate(all="ignore"):
        try:
            arrays[key] = arrays[key].astype(draw.one(KINDS))
        except (TypeError, ValueError, OverflowError, RuntimeError):
            arrays[key] = np.array(["x"], dtype=object)


@edits_of("archive")
def shape_changed(arrays: Arrays, draw: Draw) -> None:
    """Another shape, or no element at all."""
    if not arrays:
        return
    key = draw.one(list(arrays))
    array = arrays[key]
    shapes = ((*array.shape, 1), (1, *array.shape), (-1,), array.shape[::-1], (array.size, 1))
    match draw.number(0, 3):
        case 0:
            arrays[key] = array.reshape(draw.one(shapes))
        case 1:
            arrays[key] = array.reshape(-1)[: draw.number(0, max(array.size - 1, 0))]
        case 2:
            arrays[key] = np.zeros((0, *array.shape[1:]), array.dtype)
        case _:
            arrays[key] = np.concatenate([array.reshape(-1)] * 2)


@edits_of("archive")
def value_changed(arrays: Arrays, draw: Draw) -> None:
    """One element extreme, or all of them."""
    keys = [k for k, a in arrays.items() if a.size and a.dtype.kind in "fiu"]
    if not keys:
        return
    key = draw.one(keys)
    array = arrays[key].copy()
    with np.errstate(all="ignore"):
        value = np.float64(draw.floating()) if array.dtype.kind == "f" else np.array(draw.integer()).astype(np.int64)
        at = slice(None) if draw.chance(0.2) else draw.number(0, array.size - 1)
        array.reshape(-1)[at] = value.astype(array.dtype)
    arrays[key] = array


@edits_of("archive")
def meta_changed(arrays: Arrays, draw: Draw) -> None:
    """Another count of samples, passes, or passes per update."""
    key = draw.one(("meta_data_size", "meta_n_batches", "meta_n_accum"))
    value = draw.one((draw.integer(), draw.number(0, 5)))
    if draw.chance(0.15):
        arrays.pop(key, None)
    else:
        arrays[key] = np.array([value], draw.one((np.int64, np.float64, np.int64)))
