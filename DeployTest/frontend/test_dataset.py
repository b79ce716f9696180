"""inputs.npz and outputs.npz: what fits is converted, what does not is named."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.errors import DatasetMismatch, DeployerError, FileProblem
from deployer.core.files.arrays import Arrays, read_npz
from deployer.frontend import check, parse
from deployer.frontend.dataset import data_inputs, load, load_inference
from deployer.verify.reference import run_inference
from DeployTest.support.graphs.small_graphs import (
    BUFFER,
    DATA,
    INT64,
    TRAIN,
    Case,
    Model,
    constant,
    infer,
    node,
    raises,
    value,
)

pytestmark = [pytest.mark.host, pytest.mark.training]

LABELLED = Case(
    train=replace(
        TRAIN,
        nodes=(
            TRAIN.nodes[0],
            node("SoftmaxCrossEntropyLoss", ("y", "t"), ("loss", "log_prob"), ignore_index=-1),
            node("SoftmaxCrossEntropyLossGrad", ("log_prob", "t"), ("y_grad",), ignore_index=-1),
            *TRAIN.nodes[3:],
        ),
        inputs=(TRAIN.inputs[0], value("t", (2,), INT64), *TRAIN.inputs[2:]),
    ),
    arrays={"arr_0001": np.array([0, 3]), "mb1_arr_0001": np.array([-1, 2])},
)


def fails(case: Case, folder: Path, kind: type[DeployerError], *texts: str, **options: int) -> None:
    """Loading the case raises the error, with all these texts in what the user sees."""
    program = case.program(folder)
    with pytest.raises(kind) as caught:
        load(case.dataset(folder), program, **options)
    for text in (*texts, "try"):
        assert text in str(caught.value)


def test_load(tmp_path: Path) -> None:
    program = Case().program(tmp_path)
    folder = Case().dataset(tmp_path)
    dataset = load(folder, program)
    assert (len(dataset.samples), dataset.n_batches, dataset.n_accum, dataset.updates) == (2, 4, 2, 2)
    assert data_inputs(folder) == 2
    assert [a.shape for a in dataset.sample(3)] == [(2, 3), (2, 4)]
    assert dataset.sample(3) is dataset.samples[1]
    assert dataset.expected_losses == (0.0,) * 4
    assert set(dataset.weights) == set(dataset.expected_weights) == {"w"}


def test_one_sample_tells_no_number_of_data_inputs(tmp_path: Path) -> None:
    one = {"meta_data_size": np.array([1], np.int32)}
    case = Case(drop=("mb1_arr_0000", "mb1_arr_0001"), arrays=one)
    program = case.program(tmp_path)
    folder = case.dataset(tmp_path)
    assert data_inputs(folder) is None
    assert len(load(folder, program).samples) == 1


def test_wide_types_become_narrow(tmp_path: Path) -> None:
    case = replace(LABELLED, arrays={**LABELLED.arrays, "arr_0000": np.full((2, 3), 0.1)})
    dataset = load(case.dataset(tmp_path), case.program(tmp_path))
    assert [a.dtype for a in dataset.samples[0]] == [np.float32, np.int32]


@pytest.mark.parametrize(
    ("steps", "accum", "losses", "weights"),
    [(None, None, 4, 1), (4, 2, 4, 1), (2, None, 2, 0), (8, None, 4, 0), (None, 1, 1, 0), (None, 4, 2, 0)],
)
def test_overrides_keep_the_gold_that_still_holds(
    tmp_path: Path, steps: int | None, accum: int | None, losses: int, weights: int
) -> None:
    program = Case().program(tmp_path)
    dataset = load(Case().dataset(tmp_path), program, n_steps=steps, n_accum=accum)
    assert (dataset.n_batches, dataset.n_accum) == (steps or 4, accum or 2)
    assert (len(dataset.expected_losses), len(dataset.expected_weights)) == (losses, weights)


def test_absent_accumulation_is_one_and_the_flag_array_is_optional(tmp_path: Path) -> None:
    case = Case(drop=("meta_n_accum", "arr_0003"))
    assert load(case.dataset(tmp_path), case.program(tmp_path)).n_accum == 1


def test_missing_and_extra_arrays(tmp_path: Path) -> None:
    fails(Case(drop=("arr_0002",)), tmp_path, DatasetMismatch, "'arr_0002', for 'w', is missing", "float32[4,3]")
    fails(Case(drop=("mb1_arr_0001",)), tmp_path, DatasetMismatch, "'mb1_arr_0001', for 't', is missing")
    for key in ("arr_0004", "mb1_arr_0002", "mb2_arr_0000"):
        fails(
            Case(arrays={key: np.zeros(1)}),
            tmp_path,
            DatasetMismatch,
            f"holds '{key}'",
            "x, t, w, lazy_reset_grad",
        )
    fails(Case(drop=("meta_n_batches",)), tmp_path, DatasetMismatch, "no meta_n_batches", "--n-steps")


def test_shapes_and_dtypes(tmp_path: Path) -> None:
    wrong = Case(arrays={"arr_0002": np.zeros((3, 4), "f4")})
    fails(
        wrong,
        tmp_path,
        DatasetMismatch,
        "'arr_0002', for 'w',",
        "another shape",
        "float32[4,3]",
        "float32[3, 4]",
    )
    wrong = Case(arrays={"mb1_arr_0000": np.zeros((2, 3), np.int64)})
    fails(wrong, tmp_path, DatasetMismatch, "'mb1_arr_0000', for 'x',", "another dtype", "int64[2, 3]")
    fails(
        Case(arrays={"arr_0000": np.full((2, 3), 1e300)}),
        tmp_path,
        DatasetMismatch,
        "holds 1e+300, beyond float32",
    )


def test_labels(tmp_path: Path) -> None:
    for labels, shown in (([0, 4], "label 4"), ([-2, 0], "label -2")):
        case = replace(LABELLED, arrays={**LABELLED.arrays, "mb1_arr_0001": np.array(labels)})
        fails(case, tmp_path, DatasetMismatch, shown, "sample 1 of 't'", "0 to 3")
    case = replace(LABELLED, arrays={**LABELLED.arrays, "arr_0001": np.array([1 << 40, 0])})
    fails(case, tmp_path, DatasetMismatch, f"holds {1 << 40}, beyond int32")


@pytest.mark.parametrize("count", [0, -1])
def test_counts_must_be_positive(tmp_path: Path, count: int) -> None:
    for key in ("meta_n_batches", "meta_n_accum", "meta_data_size"):
        fails(
            Case(arrays={key: np.array([count])}),
            tmp_path,
            DatasetMismatch,
            f"{key} is not a positive integer",
            str(count),
        )
    fails(Case(), tmp_path, DatasetMismatch, f"{count} passes with 2 per update make no update", n_steps=count)
    fails(Case(), tmp_path, DatasetMismatch, "4 passes with 5 per update make no update", n_accum=5)


def test_gold(tmp_path: Path) -> None:
    fails(Case(drop=("loss",)), tmp_path, DatasetMismatch, "outputs.npz: 'loss', for 'loss', is missing")
    fails(Case(drop=("w",)), tmp_path, DatasetMismatch, "outputs.npz: 'w', for 'w', is missing")
    fails(
        Case(gold={"w": np.zeros((3, 4), "f4")}),
        tmp_path,
        DatasetMismatch,
        "outputs.npz: 'w'",
        "another shape",
    )
    fails(
        Case(gold={"loss": np.zeros(3, "f4")}),
        tmp_path,
        DatasetMismatch,
        "'loss'",
        "float32[4]",
        "float32[3]",
    )
    case = Case(gold={"frozen": np.zeros(3)})
    assert set(load(case.dataset(tmp_path), case.program(tmp_path)).expected_weights) == {"w"}


def test_damaged_files(tmp_path: Path) -> None:
    program = Case().program(tmp_path)
    folder = Case().dataset(tmp_path)
    for name in ("inputs.npz", "outputs.npz"):
        path, original = folder / name, (folder / name).read_bytes()
        flipped = bytearray(original)
        flipped[150] ^= 255
        for content in (original[: len(original) // 2], b"", b"text", bytes(flipped)):
            path.write_bytes(content)
            with pytest.raises(FileProblem, match="truncated or not an npz") as caught:
                load(folder, program)
            assert f"{len(content)} B" in str(caught.value)
            assert str(path) in str(caught.value)
        path.unlink()
        if name == "inputs.npz":
            with pytest.raises(FileProblem, match=f"{name} does not exist"):
                load(folder, program)
        else:
            assert (load(folder, program).expected_losses, load(folder, program).expected_weights) == ((), {})
        path.write_bytes(original)
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(FileProblem, match="not an npz"):
        read_npz(tmp_path / "one.npy")


def test_results_may_be_absent(tmp_path: Path) -> None:
    """Without outputs.npz the reference says what training and inference come to; the report names it."""
    trained = Case()
    trained.program(tmp_path)
    folder = trained.dataset(tmp_path)
    recorded = pipeline.load_training(folder, learning_rate=0.25)
    (folder / "outputs.npz").unlink()
    alone = pipeline.load_training(folder)
    assert alone.note == "the float64 reference (there is no outputs.npz)"
    assert alone.dataset is not None
    assert recorded.dataset is not None
    assert alone.dataset.expected_losses == recorded.dataset.expected_losses
    np.testing.assert_array_equal(alone.expected["w"], recorded.expected["w"])
    x = {"x1": np.ones(2, np.float32), "x2": np.ones(2, np.float32)}
    sum_case(tmp_path, x, {"y": np.zeros(2, np.float32)})
    (tmp_path / "outputs.npz").unlink()
    case = pipeline.load_inference_case(tmp_path)
    assert case.note == alone.note
    np.testing.assert_array_equal(case.expected["y"], np.full(2, 2, np.float32))


def test_states_may_be_absent(tmp_path: Path) -> None:
    """A record without optimizer state has losses and weights; the float64 reference gives the rest."""
    names = ("w", BUFFER, "m", "v", "n")
    update = node("AdamW", names, ("w_updated", "m_updated", "v_updated"), "step", lr=0.25)
    values = (value(name, None) for name in names[:2])
    states = (value("m", (4, 3)), value("v", (4, 3)), value("n", (1,), INT64))
    outputs = tuple(value(f"{name}_updated", None) for name in "wmv")
    case = Case(optimizer=Model((update,), (*values, *states), outputs))
    case.program(tmp_path)
    found = pipeline.load_training(case.dataset(tmp_path))
    assert found.note == "outputs.npz, and the float64 reference for what it does not record"
    assert not found.expected["w"].any(), "as recorded"
    assert found.expected["m"].any()
    np.testing.assert_array_equal(found.expected["n"], [2])
    with raises(DatasetMismatch, "'w'", "is missing"):
        pipeline.load_training(replace(case, drop=("w",)).dataset(tmp_path))


def sum_case(folder: Path, inputs: Arrays, outputs: Arrays) -> tuple[Arrays, Arrays]:
    """Inputs and gold of `y = x1 * c + x2`, by graph names."""
    nodes = (node("Mul", ("x1", "c"), ("p",)), node("Add", ("p", "x2"), ("y",)))
    values = value("x1", (2,)), value("x2", (2,))
    program = infer(folder, Model(nodes, values, (value("y", None),), (constant("c", np.ones(2, "f4")),)))
    np.savez(folder / "inputs.npz", **inputs)  # type: ignore[arg-type]
    np.savez(folder / "outputs.npz", **outputs)  # type: ignore[arg-type]
    return load_inference(folder, program)


def test_inference_arrays_by_name_then_by_order(tmp_path: Path) -> None:
    a, b, c = (np.full(2, k, np.float64) for k in (1, 2, 3))
    named = {"x2": b, "extra": c, "x1": a}
    ordered = {"arr_0": a, "arr_1": b, "arr_2": c}
    mixed = {"x2": b, "odd": np.zeros(3), "first": a}
    for inputs in (named, ordered, mixed):
        inputs_by_name, gold = sum_case(tmp_path, inputs, {"input": c})
        assert {k: v.tolist() for k, v in inputs_by_name.items()} == {"x1": [1, 1], "x2": [2, 2]}
        assert {k: v.dtype for k, v in gold.items()} == {"y": np.float32}
    with pytest.raises(DatasetMismatch, match="no array for 'x2'"):
        sum_case(tmp_path, {"x1": a, "z": np.zeros(3)}, {"y": c})
    with pytest.raises(DatasetMismatch, match="another shape"):
        sum_case(tmp_path, {"x1": np.zeros(3), "x2": b}, {"y": c})
    with pytest.raises(DatasetMismatch, match="no array for 'y'"):
        sum_case(tmp_path, named, {"y2": np.zeros(3)})


@pytest.mark.parametrize(
    "case",
    [
        "Add/Regular",
        "GEMM/NoBias",
        "GEMM/Regular",
        "GEMM/TransB",
        "MSELoss",
        "ReduceMean/NoKeepDims/AllAxes",
        "Squeeze",
    ],
)
def test_published_operator_cases(case: str) -> None:
    folder = DATA / "operators" / case
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent")
    program = check.check_program(parse.read_graphs(folder / "network.onnx", None))
    inputs, gold = load_inference(folder, program)
    for name, result in run_inference(program, inputs).items():
        np.testing.assert_allclose(result, gold[name], atol=1e-5)
