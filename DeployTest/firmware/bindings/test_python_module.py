"""The module of Python: the bits of `fit`, instances in threads, views, images, errors, types."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployer import pipeline
from deployer.core.errors import OptionProblem
from deployer.core.safe_text import parameter_name
from deployer.firmware.bindings.python_module import REMEDIES, check_module
from DeployTest.firmware import nets
from DeployTest.firmware.bindings.modules import built, imported, module_of
from DeployTest.firmware.test_builds import shown_blocks
from DeployTest.firmware.test_library import packaged, trained
from DeployTest.models import simple_mlp
from DeployTest.support.building.command_line import deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
Array = "np.ndarray[Any, Any]"
SAMPLES, FEATURES, EPOCHS, INSTANCES, WINDOW = 12, 64, 2, 4, 2


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what tests share."""
    return tmp_path_factory.mktemp("modules")


@pytest.fixture(scope="module")
def data(root: Path) -> dict[str, Any]:
    """Samples of the dense net, also as a file."""
    draw = np.random.default_rng(0)
    arrays = {
        "input": draw.standard_normal((SAMPLES, FEATURES)).astype(np.float32),
        "labels": draw.integers(0, 10, SAMPLES).astype(np.int32),
    }
    np.savez(root / "data.npz", **arrays)
    return arrays


@pytest.fixture(scope="module")
def dense(root: Path, data: dict[str, Any]) -> ModuleType:
    """The module of the dense net, with Adam and two passes per update."""
    simple_mlp.generate(root / "dense")
    words = ("--loss", "cross_entropy", "--optimizer", "adam", "--accumulate-grad-batches", WINDOW)
    model = root / "dense/simple_mlp.onnx"
    assert deployer("train-graph", model, *words, "--data", root / "data.npz", "-o", root / "case") == 0
    return module_of("dense", root / "case", root / "library")


@pytest.fixture(scope="module")
def normed(root: Path) -> ModuleType:
    """The module of the net with a norm and dropout, by two passes per update."""
    return module_of("normed", nets.normed_case(root / "normed"), root / "normed_library")


def train(model: Any, data: dict[str, Any], epochs: int = EPOCHS) -> list[float]:
    """Train an instance of the dense net, and return the losses."""
    losses = []
    for _ in range(epochs):
        for index in range(SAMPLES):
            losses.append(model.train_step(*(array[index : index + 1] for array in data.values())))
            if index % WINDOW == WINDOW - 1:
                model.update()
    return losses


def test_bits_of_fit(dense: ModuleType, root: Path, data: dict[str, Any]) -> None:
    """Each weight has the bits that `deployer fit` gives it by the same samples in the same order."""
    words = ("--loss", "cross_entropy", "--optimizer", "adam", "--accumulate-grad-batches", WINDOW, "--no-shuffle")
    ends = ("--data", root / "data.npz", "--epochs", EPOCHS, "-o", root / "run")
    assert deployer("fit", root / "dense/simple_mlp.onnx", *words, *ends) == 0
    with dense.Model() as model, np.load(root / "run/trained.npz") as fitted:
        before = {name: array.copy() for name, array in model.weights.items()}
        losses = train(model, data)
        assert len(model.weights) > 1
        final = {parameter_name(name): array for name, array in fitted.items()}
        assert model.weights.keys() == final.keys()
        for name, array in model.weights.items():
            assert array.tobytes() == final[name].tobytes(), name
            assert array.tobytes() != before[name].tobytes(), name
        assert model.loss == losses[-1]


def test_bits_of_train(normed: ModuleType, root: Path) -> None:
    """Dropout, running statistics and rates by groups: losses and the whole state are those of the usual run."""
    case = root / "normed/normed_train"
    samples = pipeline.load_training(case).dataset
    assert samples is not None
    model = normed.Model()
    losses = []
    for index in range(nets.PASSES):
        losses.append(model.train_step(*samples.sample(index)))
        model.predict(samples.sample(index)[0])
        if index % normed.ACCUMULATE == normed.ACCUMULATE - 1:
            model.update()
    usual = trained(case, root / "usual")
    found = {"loss": np.array(losses, np.float32)} | dict(model.weights) | dict(model.state)
    for name, array in usual.items():
        assert found[name].tobytes() == array.tobytes(), name


def test_threads(dense: ModuleType, data: dict[str, Any]) -> None:
    """Instances in threads, of different samples, have the bits of one after another, and share nothing."""
    draws = [
        {"input": np.roll(data["input"], shift, axis=0), "labels": np.roll(data["labels"], -shift)}
        for shift in range(INSTANCES)
    ]
    one_by_one = [dense.Model() for _ in draws]
    expected = [train(model, draw) for model, draw in zip(one_by_one, draws, strict=True)]
    side_by_side = [dense.Model() for _ in draws]
    with ThreadPoolExecutor(INSTANCES) as pool:
        losses = list(pool.map(train, side_by_side, draws))
    digests = [model.digest() for model in side_by_side]
    assert losses == expected
    assert digests == [model.digest() for model in one_by_one]
    assert len({*digests}) == INSTANCES


def test_threads_of_one_instance(dense: ModuleType, data: dict[str, Any]) -> None:
    """Calls of one instance wait for each other: predictions between its passes change no bit."""
    alone, shared = dense.Model(), dense.Model()
    expected = train(alone, data)
    with ThreadPoolExecutor(2) as pool:
        training = pool.submit(train, shared, data)
        while not training.done():
            assert shared.predict(data["input"][:1]).shape == (1, 10)
    assert training.result() == expected
    assert shared.digest() == alone.digest()


def test_views(dense: ModuleType, data: dict[str, Any]) -> None:
    """Weights are the memory itself: an update shows in them, what is written counts, and they outlive the instance."""
    model, other = dense.Model(), dense.Model()
    view = model.weights["fc1_weight"]
    first = view.copy()
    assert not view.flags.owndata
    train(model, data, 1)
    assert model.weights["fc1_weight"].__array_interface__["data"] == view.__array_interface__["data"]
    assert (view != first).any()
    for name, array in model.weights.items():
        other.weights[name][...] = array
    x = data["input"][:1]
    assert other.predict(x).tobytes() == model.predict(x).tobytes()
    view[...] = 0
    model.weights["fc2_bias"][...] = np.arange(10, dtype=np.float32)
    assert model.predict(x).tolist() != other.predict(x).tolist()
    with pytest.raises(TypeError, match="does not support item assignment"):
        model.weights["fc1_weight"] = first
    model.close()
    assert (view == 0).all()


def test_inputs_in_place(dense: ModuleType, data: dict[str, Any]) -> None:
    """Inputs that are filled by their views are those of calls without arrays; strided arrays are taken as they are."""
    one, two = dense.Model(), dense.Model()
    wide = np.repeat(data["input"][:1], 2, axis=1)[:, ::2]
    assert not wide.flags.c_contiguous
    expected = one.train_step(wide, data["labels"][:1])
    two.inputs["input"][...] = data["input"][:1]
    two.inputs["labels"][...] = data["labels"][:1]
    assert two.train_step() == expected
    assert one.digest() == two.digest()


def test_images(dense: ModuleType, root: Path, data: dict[str, Any]) -> None:
    """An image moves the state between instances and files, as bytes, a view, an array; foreign ones change nothing."""
    model, other = dense.Model(), dense.Model()
    assert model.save() == (root / "library/weights.bin").read_bytes()
    train(model, data)
    image = model.save()
    for form in (image, bytearray(image), memoryview(image), np.frombuffer(image, np.uint8)):
        other = dense.Model()
        other.load(form)
        assert other.digest() == model.digest()
        assert int(other.digest(), 16) == int.from_bytes(image[-8:], "little")
    before = other.digest()
    damaged = bytearray(image)
    damaged[len(damaged) // 2] ^= 1
    for wrong, match in (
        (damaged, "damaged; another copy"),
        (image[:-1], "number of bytes does not fit; the whole image"),
        (b"x" * len(image), "no state of this model; an image that"),
    ):
        with pytest.raises(dense.LibraryError, match=match):
            other.load(wrong)
        assert other.digest() == before
    with pytest.raises(TypeError, match=r"bytes in one piece .*bytes\(image\) copies them"):
        other.load(np.frombuffer(image, np.uint8)[::2])
    with pytest.raises(ValueError, match="kind is 'all'; one of state, weights, changes"):
        other.save("all")
    other.load(dense.Model().save("weights"))
    assert other.weights["fc1_weight"].tobytes() == dense.Model().weights["fc1_weight"].tobytes()


def good(data: dict[str, Any]) -> tuple[Any, Any]:
    """The arguments of a pass."""
    return data["input"][:1], data["labels"][:1]


WRONG: dict[str, tuple[Callable[[Any, Any, Any], object], type[Exception], str]] = {
    "dtype": (lambda m, x, y: m.train_step(x.astype(float), y), TypeError, r"input is float64.*x.astype\(np.float32\)"),
    "labels": (lambda m, x, y: m.train_step(x, y.astype("i8")), TypeError, r"labels is int64.*x.astype\(np.int32\)"),
    "shape": (lambda m, x, y: m.train_step(x[0], y), ValueError, r"shape \(64,\).*\(1, 64\); x.reshape\(1, 64\)"),
    "size": (lambda m, x, y: m.train_step(x[:, :8], y), ValueError, r"\(1, 8\).*\(1, 64\); a batch of that shape"),
    "list": (lambda m, x, y: m.train_step(x.tolist(), y), TypeError, r"input is list.*np.asarray\(x, np.float32\)"),
    "missing": (lambda m, x, y: m.train_step(x), TypeError, "train_step lacks labels; give all"),
    "early": (lambda m, x, y: m.update(), RuntimeError, r"no training pass; call train_step\(\) first"),
    "due": (
        lambda m, x, y: [m.train_step(x, y) for _ in range(WINDOW + 1)],
        RuntimeError,
        r"an update has to come first; call update\(\) first",
    ),
    "index": (lambda m, x, y: m.train_step(x, y + 99), RuntimeError, "out of range.*labels from 0"),
    "loss": (lambda m, x, y: m.train_step(x * np.inf, y), RuntimeError, r"infinite.*drop_passes\(\), then"),
    "rate": (lambda m, x, y: m.set_learning_rate(np.nan), RuntimeError, "no finite number; a finite learning rate"),
    "group": (lambda m, x, y: m.set_learning_rate(0.1, 7), RuntimeError, "no such index; a group below RATES"),
    "closed": (lambda m, x, y: (m.close(), m.train_step(x, y)), ValueError, r"this Model is closed; Model\(\) makes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str, dense: ModuleType, data: dict[str, Any]) -> None:
    """A wrong call is an error with its cause and a way out."""
    call, kind, match = WRONG[name]
    with pytest.raises(kind, match=match):
        call(dense.Model(), *good(data))


def test_a_wrong_argument_fills_nothing(dense: ModuleType, data: dict[str, Any]) -> None:
    """Inputs that are filled stay as they are if another one is refused."""
    model = dense.Model()
    with pytest.raises(TypeError):
        model.train_step(data["input"][:1], data["labels"][:1].astype(np.int64))
    assert (model.inputs["input"] == 0).all()


def test_remedies(dense: ModuleType) -> None:
    """Each remedy belongs to a result of the header, by its text there."""
    header = (dense.FOLDER / "include/dense.h").read_text()
    results = header[header.index("typedef enum {") :].partition("}")[0].splitlines()[1:]
    assert len(dense._REMEDIES) == len(REMEDIES)
    for number, remedy in dense._REMEDIES.items():
        [name] = [name for name, text in REMEDIES.items() if text == remedy]
        assert f"DENSE_ERROR_{name}," in results[number]


def test_shared_library(root: Path, dense: ModuleType, tmp_path: Path) -> None:
    """A missing, foreign or outdated shared library is refused, with the command that builds it."""
    folder = shutil.copytree(root / "library", tmp_path / "my library", ignore=shutil.ignore_patterns("build"))
    module = imported(folder)
    with pytest.raises(FileNotFoundError, match=r"does not exist; build it: make -C '.*/my library' shared"):
        module.Model()
    for wrong in (folder / "README.md", built(packaged("other", root / "case", tmp_path / "o", "--python"))):
        path = wrong if wrong.is_file() else wrong / "build/libother.so"
        with pytest.raises(module.LibraryError, match=r"is no shared library of dense .*; build it: make"):
            module.Model(path)
    built(folder)
    assert module.Model().digest() == dense.Model().digest()
    changed = imported(packaged("dense", root / "case", tmp_path / "second", "--python", "--n-accum", 1))
    with pytest.raises(changed.LibraryError, match=r"was built of other sources than those beside dense\.py"):
        changed.Model(folder / "build/libdense.so")


def test_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's commands, from a model to a program in Python, and its output."""
    monkeypatch.chdir(tmp_path)
    assert followed("python", "train.py") == shown_blocks()["python output"]


def test_page_of_gradients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for devices that exchange gradients."""
    monkeypatch.chdir(tmp_path)
    assert followed("gradients", "devices.py") == "True\n"


def followed(topic: str, program: str) -> str:
    """Follow the page's commands of a topic in this folder, and return the program's output."""
    shown = shown_blocks()
    Path(program).write_text(shown[f"{topic} program"])
    environment = os.environ | {"PYTHONPATH": "digits"}
    commands = shown[f"{topic} commands"].splitlines()
    assert [shlex.split(line)[0] for line in commands] == ["python", "deployer", "make", "PYTHONPATH=digits"]
    simple_mlp.generate(Path("case"))
    assert deployer(*shlex.split(commands[1])[1:]) == 0
    subprocess.run(shlex.split(commands[2]), check=True, capture_output=True)
    words = [sys.executable, *shlex.split(commands[3])[2:]]
    run = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    return run.stdout


@pytest.mark.parametrize("flags", ["-O0", "-O3 -march=native"])
def test_flags(flags: str, root: Path, dense: ModuleType, data: dict[str, Any], tmp_path: Path) -> None:
    """Other optimization gives the same bits."""
    folder = shutil.copytree(root / "library", tmp_path / "library", ignore=shutil.ignore_patterns("build"))
    model, usual = imported(built(folder, f"SHARED_CFLAGS={flags}")).Model(), dense.Model()
    assert train(model, data) == train(usual, data)
    assert model.digest() == usual.digest()


@pytest.mark.slow
def test_cmake(root: Path, dense: ModuleType, data: dict[str, Any], tmp_path: Path) -> None:
    """CMake's target is the same shared library, where the module looks for it."""
    folder = shutil.copytree(root / "library", tmp_path / "library", ignore=shutil.ignore_patterns("build"))
    for words in (["-B", "build"], ["--build", "build", "--target", "dense_shared"]):
        subprocess.run(["cmake", *words], cwd=folder, check=True, capture_output=True)
    model, usual = imported(folder).Model(), dense.Model()
    assert train(model, data) == train(usual, data)
    assert model.digest() == usual.digest()


def test_types(normed: ModuleType, dense: ModuleType, tmp_path: Path) -> None:
    """The modules are typed: mypy accepts them and what follows from them, and finds a wrong call."""
    user = tmp_path / "user.py"
    user.write_text(
        "import numpy as np\nfrom dense import Model\n\n"
        "with Model() as model:\n"
        "    loss: float = model.train_step(np.zeros((1, 64), np.float32), np.zeros(1, np.int32))\n"
        "    scores = model.predict(np.zeros((1, 64), np.float32)) + np.float32(loss)\n"
        "    model.load(model.save('all'))\n"
    )
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    for module in (normed, dense):
        [path] = module.FOLDER.glob("*.py")
        run = subprocess.run([*words, str(path)], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert run.returncode == 0, run.stdout
    shutil.copy(dense.FOLDER / "dense.py", tmp_path)
    run = subprocess.run([*words, str(user)], capture_output=True, text=True, check=False, cwd=tmp_path)
    found = [line.split(": ")[0] for line in run.stdout.splitlines() if ": error: " in line]
    assert found == ["user.py:7"], run.stdout


def test_prediction_library(tmp_path: Path) -> None:
    """A library that only predicts has a class that only predicts, and several outputs are a tuple."""
    weight = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(3, 2), "w")
    nodes = [helper.make_node("MatMul", ["lambda", "w"], ["1st"]), helper.make_node("Relu", ["1st"], ["2nd"])]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("lambda", (2, 3)), ("1st", (2, 2)), ("2nd", (2, 2)))
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    module = module_of("net", tmp_path / "net.onnx", tmp_path / "library")
    x = np.array([[1, 2, 3], [-1, -2, -3]], np.float32)
    first, second = module.Model().predict(lambda_=x)
    expected = x @ np.arange(6, dtype=np.float32).reshape(3, 2)
    assert first.tolist() == expected.tolist()
    assert second.tolist() == np.maximum(expected, 0).tolist()
    assert not hasattr(module.Model, "train_step")


def test_without_the_option(root: Path, tmp_path: Path) -> None:
    """A library without the option has nothing of the module, and is built as before."""
    folder = packaged("dense", root / "case", tmp_path / "plain")
    other, made = root / "library", {"build", "__pycache__"}
    plain, whole = (
        {str(p.relative_to(f)) for p in f.rglob("*") if p.is_file() and not made & {*p.parts}} for f in (folder, other)
    )
    assert {name for name in whole - plain if not name.startswith("python/")} == {"dense.py"}
    assert {"python/dense_build.c", "python/dense_gemm_f32.c"} <= whole
    assert "shared" not in (folder / "Makefile").read_text()
    sources = [name for name in plain if name.startswith("src/")]
    assert all((folder / name).read_bytes() == (other / name).read_bytes() for name in sources)


@pytest.mark.parametrize("name", ["keyword", "lambda", "numpy", "random"])
def test_names(name: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A module that would hide one of Python's, or cannot be imported, is refused with another name."""
    words = ("package", root / "case", "--name", name, "-o", tmp_path / "library", "--python")
    assert f"--name {name}_net, for example; or leave --python out" in refused(capsys, *words)


def test_no_latent_replay() -> None:
    """The ring has no functions in the module."""
    with pytest.raises(OptionProblem, match="no functions for the ring"):
        check_module("net", True)
