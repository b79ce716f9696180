"""Libraries of runs and of modules: they go on with the bits of `train`, predict what the module does, and freeze."""

import dataclasses
import importlib
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.sizing.boards import CORES, core_of
from deployer.sizing.emulated import compile_words, link_words, run_program
from DeployTest.firmware.test_library import manifest, ran, state_of
from DeployTest.support.building.command_line import deployer
from DeployTest.support.tolerances import table
from DeployTest.targets.simulators import needs_core

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn, F = torch.nn, torch.nn.functional

PROGRAM = """#include "net.h"
#include <stdio.h>
static net_t model;
static unsigned char image[NET_STATE_BYTES];
int main(int count, char **paths) {
    FILE *data = fopen(paths[1], "rb"), *out = fopen(paths[2], "wb");
    size_t used;
    if (count != 3 || net_init(&model)) return 1;
    for (unsigned pass = 1; fread(net_input_x(&model), 4, NET_INPUT_X_SIZE, data) == NET_INPUT_X_SIZE; pass++) {
        float loss;
        if (!fread(net_input_labels(&model), 4, NET_INPUT_LABELS_SIZE, data)) return 2;
        if (net_train_step(&model, &loss) || (pass % NET_ACCUMULATE == 0 && net_update(&model))) return 3;
        fwrite(&loss, 4, 1, out);
    }
    if (net_save(&model, NET_KEEP_STATE, image, sizeof image, &used)) return 4;
    fwrite(image, 1, used, out);
    return 0;
}
"""
PREDICTION = """#include "net.h"
#include <stdio.h>
static net_t model;
int main(int count, char **paths) {
    FILE *data = fopen(paths[1], "rb"), *out = fopen(paths[2], "wb");
    if (count != 3 || net_init(&model)) return 1;
    while (fread(net_input_INPUT(&model), 4, COUNT, data) == COUNT) {
        if (net_predict(&model)) return 2;
        fwrite(net_output(&model), 4, NET_OUTPUT_SIZE, out);
    }
    return 0;
}
"""


class Net(nn.Module):  # type: ignore[misc,name-defined]
    """A frozen body with running statistics, dropout, and a head that is trained."""

    def __init__(self) -> None:
        """Draw the same weights always."""
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        """The scores."""
        return self.head(self.drop(self.body(x)))


def net(frozen: bool) -> Any:
    """The module in training mode."""
    made = Net().train()
    made.body.requires_grad_(not frozen)
    return made


X, Y = torch.randn((32, 6), generator=torch.Generator().manual_seed(4)), torch.arange(32) % 3


def executed(folder: Path, program: str, data: bytes, place: Path) -> bytes:
    """Run a program that is linked with the library on these data; what it writes."""
    (place / "main.c").write_text(program)
    (place / "data").write_bytes(data)
    sources = [*sorted((folder / "src").glob("*.c")), place / "main.c"]
    flags = ["-O1", "-ffp-contract=off", "-fno-math-errno", f"-I{folder / 'include'}"]
    ran("gcc", "-std=c11", *flags, *sources, "-lm", "-o", place / "main")
    subprocess.run([place / "main", place / "data", place / "out"], check=True)
    return (place / "out").read_bytes()


def passes() -> bytes:
    """The batches of an epoch."""
    return b"".join(X[i : i + 8].numpy().tobytes() + Y[i : i + 8].int().numpy().tobytes() for i in range(0, 32, 8))


@pytest.mark.parametrize("way", ["call", "command", "loop"])
@pytest.mark.parametrize(("optimizer", "frozen"), [("adam", True), ("sgd", False)])
def test_goes_on_with_the_bits_of_train(optimizer: str, frozen: bool, way: str, tmp_path: Path) -> None:
    """An epoch more by the library: the losses, weights, statistics and moments of an epoch more by `train`."""
    settings = {"lr": 0.02, "batch_size": 8, "shuffle": False, "accumulate_grad_batches": 2, "accumulate": "sum"}
    begun, folder = tmp_path / "begun", tmp_path / "lib"
    first = front.train(net(frozen), (X, Y), "cross_entropy", optimizer, epochs=2, folder=begun, **settings)
    if way == "call":
        first.package(folder, name="net")
    elif way == "loop":
        chosen = {name: value for name, value in settings.items() if name not in ("batch_size", "shuffle")}
        step = front.compile_step(net(frozen), "cross_entropy", optimizer, **chosen)
        for i in range(8):
            rows = slice(i % 4 * 8, i % 4 * 8 + 8)
            step(X[rows], Y[rows])
        step.package(folder, name="net")
    else:
        assert deployer("package", begun / "run", "--name", "net", "-o", folder) == 0
    whole = front.train(net(frozen), (X, Y), "cross_entropy", optimizer, epochs=3, folder=tmp_path / "more", **settings)
    content = executed(folder, PROGRAM, passes(), tmp_path)
    losses = np.frombuffer(content, np.float32, 4)
    assert losses.tolist() == [np.float32(x) for x in whole.losses[8:]]
    state = state_of(folder, content[16:])
    expected = whole.weights | {n: x for n, x in whole.buffers.items() if x.dtype == np.float32}
    assert ("body.0.weight" in whole.weights) != frozen
    for name, array in expected.items():
        assert state[name.replace(".", "_")].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("batch", [1, 8, 3])
def test_predicts_what_the_module_does(batch: int, tmp_path: Path) -> None:
    """Batches of any size beside training on eight: the trained module's output in evaluation mode."""
    module = net(True)
    trained = front.train(module, (X, Y), "cross_entropy", lr=0.05, batch_size=8, epochs=2)
    trained.package(tmp_path / "lib", name="net", predict_batch=batch)
    own = "x" if batch == 8 else "predict_x"
    program = PREDICTION.replace("INPUT", own).replace("COUNT", str(batch * 6))
    rows = X[: 32 // batch * batch]
    content = executed(tmp_path / "lib", program, rows.numpy().tobytes(), tmp_path)
    scores = np.frombuffer(content, np.float32).reshape(-1, 3)
    front.load_into(module, trained)
    expected = module.eval().double()(rows.double()).detach().numpy()
    np.testing.assert_allclose(scores, expected, **table()["several"]["float32"])


def test_frozen_parameters_are_constants(tmp_path: Path) -> None:
    """A parameter without requires_grad is in the constants once, has no gradient, and is no part of a state."""
    sizes, states = {}, {}
    for frozen in (True, False):
        folder = tmp_path / str(frozen)
        front.package(net(frozen), "cross_entropy", "sgd", (X[:8], Y[:8]), folder, "net", lr=0.1)
        sizes[frozen] = manifest(folder)["bytes"]
        states[frozen] = {t["name"] for t in manifest(folder)["state"]}
    body = 4 * sum(p.numel() for p in net(True).body.parameters())
    assert sizes[True]["frozen"] - sizes[False]["frozen"] == body
    assert states[False] - states[True] == {"body_0_weight", "body_0_bias", "body_1_weight", "body_1_bias"}
    assert sizes[True]["struct"] < sizes[False]["struct"] - body


def test_a_module_as_it_is(tmp_path: Path) -> None:
    """`package` of a module that nothing trained: its passes are those of `train` from the first one on."""
    front.package(net(False), "cross_entropy", "adam", (X[:8], Y[:8]), tmp_path / "lib", "net", lr=0.02)
    content = executed(tmp_path / "lib", PROGRAM, passes(), tmp_path)
    whole = front.train(net(False), (X, Y), "cross_entropy", "adam", lr=0.02, batch_size=8, shuffle=False)
    assert np.frombuffer(content, np.float32, 4).tolist() == [np.float32(x) for x in whole.losses]
    assert state_of(tmp_path / "lib", content[16:])["head_weight"].tobytes() == whole.weights["head.weight"].tobytes()


def test_an_optimizer_that_begins_anew(tmp_path: Path) -> None:
    """Without the optimizer's state the moments are zero, and take no constants."""
    trained = front.train(net(True), (X, Y), "cross_entropy", "adam", batch_size=8)
    for own in (True, False):
        trained.package(tmp_path / str(own), name="net", optimizer_state=own)
    moved, fresh = (
        state_of(tmp_path / str(own), (tmp_path / str(own) / "weights.bin").read_bytes()) for own in (True, False)
    )
    assert moved["head_weight_first_moment"].any()
    assert not fresh["head_weight_first_moment"].any()
    assert moved["head_weight"].tobytes() == fresh["head_weight"].tobytes()
    assert manifest(tmp_path / "False")["bytes"]["weights"] < manifest(tmp_path / "True")["bytes"]["weights"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"weights": "first"}, "one of best, last"),
        ({"predict_batch": 0}, "1 or more"),
        ({"name": "a b"}, "lower-case letters"),
    ],
)
def test_refused_arguments(given: dict[str, Any], found: str, tmp_path: Path) -> None:
    """Arguments without meaning, with a way out."""
    trained = front.train(net(True), (X, Y), "cross_entropy", batch_size=8, check=False)
    with pytest.raises(OptionProblem) as caught:
        trained.package(tmp_path / "lib", **{"name": "net", **given})
    assert found in str(caught.value)
    assert not (tmp_path / "lib").exists()


def same_files(ours: Path, due: Path) -> None:
    """Every file of two libraries has the same bytes."""
    names = [{p.relative_to(folder) for p in folder.rglob("*") if p.is_file()} for folder in (ours, due)]
    assert names[0] == names[1]
    assert [str(n) for n in names[0] if (ours / n).read_bytes() != (due / n).read_bytes()] == []


@pytest.mark.parametrize("inputs", ["int8", "uint8"])
def test_inputs_of_8_bits_are_those_of_the_command(inputs: str, tmp_path: Path) -> None:
    """A run behind 8 bits gives the library of the command, with bytes as inputs and gradients' memory."""
    model, run = tmp_path / "net.onnx", tmp_path / "net"
    front.quantize(net(True).eval(), (X, Y), model, freeze=["body"], loss="cross_entropy")
    words = {"epochs": 1, "progress": False}
    fitted = importlib.import_module("deployer").fit(model, (X, Y), "cross_entropy", folder=run, **words)
    trained = front.Trained(**{f.name: getattr(fitted, f.name) for f in dataclasses.fields(fitted)})
    trained.package(tmp_path / "ours", name="net", inputs=inputs, predict_after_update=True, predict_batch=32)
    options = ("--inputs", inputs, "--predict-after-update", "--predict-batch", "32")
    assert deployer("package", run, "--name", "net", "-o", tmp_path / "due", *options) == 0
    same_files(tmp_path / "ours", tmp_path / "due")
    assert f"{inputs}_t" in (tmp_path / "ours/include/net.h").read_text()


def test_predictions_after_updates(tmp_path: Path) -> None:
    """A step's library and a module's are the same with the option, and need less memory than without."""
    step = front.compile_step(net(False), "cross_entropy", "sgd", (X[:8], Y[:8]), lr=0.1)
    step.package(tmp_path / "step", name="net", predict_after_update=True, predict_batch=8)
    words = {"name": "net", "lr": 0.1, "predict_batch": 8}
    for name, after in (("module", True), ("plain", False)):
        front.package(
            net(False), "cross_entropy", "sgd", (X[:8], Y[:8]), tmp_path / name, predict_after_update=after, **words
        )
    headers = [(tmp_path / name / "include/net.h").read_bytes() for name in ("step", "module", "plain")]
    assert headers[0] == headers[1] != headers[2]
    assert manifest(tmp_path / "module")["bytes"]["struct"] <= manifest(tmp_path / "plain")["bytes"]["struct"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"inputs": "int8"}, "no input is quantized at once"),
        ({"inputs": "int4"}, "one of int8, uint8"),
        ({"predict_after_update": True}, "predict_after_update has no effect without a loss"),
    ],
)
def test_forms_without_an_effect(given: dict[str, Any], found: str, tmp_path: Path) -> None:
    """A module of floats has no inputs of 8 bits, and a library that only predicts no gradients."""
    with pytest.raises(OptionProblem, match=found):
        front.package(net(True), X, tmp_path / "net", **given)


@pytest.mark.parametrize(
    "given", [{"accumulate_grad_batches": 0}, {"accumulate": "median"}, {"dropout": "maybe"}, {"folder": ""}], ids=str
)
def test_refused_packages_of_modules(given: dict[str, Any], tmp_path: Path) -> None:
    """A module's library is refused before anything is captured, by the name of the argument."""
    options = {"example": (X[:8], Y[:8]), "folder": tmp_path / "lib", "name": "net", **given}
    with pytest.raises(OptionProblem, match=next(iter(given))):
        front.package(net(False), "cross_entropy", **options)
    assert not (tmp_path / "lib").exists()


def test_data_before_the_loss(tmp_path: Path) -> None:
    """The order of `train`, with a batch as its data, gives the same library."""
    front.package(net(False), "mse", "adam", (X[:8], X[:8, :3]), tmp_path / "one", "net")
    for n, loss in enumerate(("mse", F.mse_loss)):
        front.package(net(False), (X[:8], X[:8, :3]), loss, "adam", tmp_path / str(n), "net")
        for path in sorted((tmp_path / "one/src").iterdir()):
            assert (tmp_path / str(n) / "src" / path.name).read_bytes() == path.read_bytes()
    with pytest.raises(OptionProblem, match="the example is given twice"):
        front.package(net(False), (X, X), F.mse_loss, example=(X, X), folder=tmp_path / "lib")
    with pytest.raises(DatasetMismatch, match=r"no labels or target[\s\S]*\(x, x\) for an autoencoder"):
        front.package(net(False), X, F.mse_loss, "adam", tmp_path / "lib")


@pytest.mark.parametrize("batch", [1, 4])
def test_only_predicts(batch: int, tmp_path: Path) -> None:
    """A module without a loss: the library returns its output in evaluation mode."""
    module = net(True)
    library = front.package(module, X, tmp_path / "net", predict_batch=batch)
    assert library.name == "net"
    header = (tmp_path / "net/include/net.h").read_text()
    assert "net_train_step" not in header
    program = PREDICTION.replace("INPUT", "x").replace("COUNT", str(batch * 6))
    content = executed(tmp_path / "net", program, X.numpy().tobytes(), tmp_path)
    scores = np.frombuffer(content, np.float32).reshape(-1, 3)
    expected = module.eval().double()(X.double()).detach().numpy()
    np.testing.assert_allclose(scores, expected, **table()["several"]["float32"])


def test_predicts_of_several_inputs_by_name(tmp_path: Path) -> None:
    """Inputs come as a tuple or by name, and what is no argument, or a setting of training, is refused."""

    class Two(nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any, scale: Any) -> Any:
            return x * scale, x

    by_place: list[Any] = []
    front.package(Two(), (X, X), tmp_path / "one", "net", warn=by_place.append)
    front.package(Two(), example={"scale": X, "x": X}, folder=tmp_path / "two", name="net", warn=by_place.append)
    assert ["first output" in w.cause for w in by_place] == [True, True]
    assert {p.name for p in (tmp_path / "one/src").iterdir()} == {p.name for p in (tmp_path / "two/src").iterdir()}
    with pytest.raises(DatasetMismatch, match=r"not what forward takes[\s\S]*2 arrays[\s\S]*loss="):
        front.package(net(True), (X, Y), tmp_path / "lib")
    with pytest.raises(OptionProblem, match=r"lr has no effect without a loss[\s\S]*loss="):
        front.package(net(True), X, tmp_path / "lib", lr=0.1)
    assert not (tmp_path / "lib").exists()


@pytest.mark.cortex_m
def test_prediction_under_qemu(tmp_path: Path) -> None:
    """The example of a library that predicts gives the first sample's output on a Cortex-M4."""
    needs_core("cortex-m4")
    core, module, folder = core_of("cortex-m4"), net(True), tmp_path / "net"
    front.package(module, X, folder, core=core.name)
    sources = [*sorted((folder / "src").glob("*.c")), folder / "examples/main.c", CORES / "start.c"]
    includes = [f"-I{folder / 'include'}", f"-I{folder / 'examples'}"]
    ran(*compile_words(core), *includes, *sources, *link_words(core), "-lm", "-o", tmp_path / "net.elf")
    printed = [float(line.split()[-1]) for line in run_program(core, tmp_path / "net.elf").splitlines() if line]
    expected = module.eval().double()(X[:1].double()).detach().numpy()[0]
    np.testing.assert_allclose(printed, expected, **table()["several"]["float32"])
