"""Gradients that devices exchange: their sum and one update have the bits of all passes on one device."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest

from deployer.training.train_graph import build_train_graph
from DeployTest.firmware import nets
from DeployTest.firmware.bindings.modules import module_of
from DeployTest.models import simple_mlp, transformer

pytestmark = [pytest.mark.host, pytest.mark.training]
DEVICES, BATCH, ROUNDS = 4, 3, 3
STATISTICS = {"mean", "var"}
"""Running statistics of the norm."""
ADAM = {"n_accum": DEVICES, "optimizer": "adam", "learning_rate": 0.01}


def conv_case(folder: Path) -> Path:
    """A convolution with a norm by the statistics of its batch, whose running statistics are kept; no dropout."""
    folder.mkdir()
    model = onnx.load(nets.normed_model(folder / "conv.onnx", "input"))
    [drop] = [node for node in model.graph.node if node.op_type == "Dropout"]
    drop.CopyFrom(onnx.helper.make_node("Identity", drop.input[:1], drop.output, "drop"))
    onnx.save(model, folder / "conv.onnx")
    return build_train_graph(
        folder / "conv.onnx", "cross_entropy", "adam", 0.01, "", folder, n_accum=DEVICES, statistics=True
    ).train


CASES: dict[str, Callable[[Path], Path]] = {
    "mlp": lambda folder: simple_mlp.generate(folder, batch=BATCH, **ADAM),
    "conv": conv_case,
    "former": lambda folder: transformer.generate(folder, batch=BATCH, tokens=6, width=8, hidden=8, **ADAM),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what tests share."""
    return tmp_path_factory.mktemp("gradients")


@pytest.fixture(scope="module")
def mlp(root: Path) -> ModuleType:
    """The module of the dense net."""
    return module_of("mlp", CASES["mlp"](root / "mlp"), root / "library")


def batches(model: Any, seed: int) -> list[list[Any]]:
    """Inputs of a pass of each device: floats and class numbers."""
    draw = np.random.default_rng(seed)
    return [
        [
            draw.standard_normal(x.shape).astype(x.dtype)
            if x.dtype == np.float32
            else draw.integers(0, 4, x.shape, x.dtype)
            for x in model.inputs.values()
        ]
        for _ in range(DEVICES)
    ]


def alone(model: Any, passes: Sequence[Sequence[Any]]) -> None:
    """All passes and an update on one device."""
    for given in passes:
        model.train_step(*given)
    model.update()


def together(devices: Sequence[Any], server: Any, passes: Sequence[Sequence[Any]]) -> None:
    """A pass of each device from the server's weights, their sum in order, and the server's update."""
    for device, given in zip(devices, passes, strict=True):
        device.load(server.save())
        device.train_step(*given)
    for device in devices:
        server.add_gradients(device.get_gradients())
    server.update()


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("case", CASES)
def test_sum_of_devices(case: str, tmp_path: Path) -> None:
    """Weights and the optimizer's state are those of one device, over several updates.

    Running statistics are no gradients: of those of a norm each device has its own, and passes do not read them.
    """
    module = module_of(case, CASES[case](tmp_path / "case"), tmp_path / "library")
    one, server, devices = module.Model(), module.Model(), [module.Model() for _ in range(DEVICES)]
    first = {name: array.copy() for name, array in one.weights.items()}
    own = STATISTICS if case == "conv" else set()
    assert own <= first.keys()
    for number in range(ROUNDS):
        passes = batches(one, number)
        alone(one, passes)
        together(devices, server, passes)
        for name in (one.weights.keys() | one.state.keys()) - own:
            known = one.weights[name] if name in one.weights else one.state[name]
            found = server.weights[name] if name in one.weights else server.state[name]
            assert found.tobytes() == known.tobytes(), (number, name)
    assert all((first[name] != one.weights[name]).any() for name in first)


def test_order_counts(mlp: ModuleType) -> None:
    """Added in another order, sums have other bits: the order of devices is part of the result."""
    one, server, devices = mlp.Model(), mlp.Model(), [mlp.Model() for _ in range(DEVICES)]
    passes = batches(one, 0)
    alone(one, passes)
    together(devices[::-1], server, passes[::-1])
    assert server.digest() != one.digest()


def handed_on(module: ModuleType, passes: Sequence[Sequence[Any]]) -> Any:
    """The last of as many devices as passes, of which each goes on with the sum of the one before it."""
    image = b""
    for given in passes:
        device = module.Model()
        if image:
            device.add_gradients(image)
        device.train_step(*given)
        image = device.get_gradients()
    device.update()
    return device


def test_sum_that_is_handed_on(mlp: ModuleType) -> None:
    """The running sum may be handed on from device to device, and then has the bits of one device, too."""
    one, passes = mlp.Model(), batches(mlp.Model(), 0)
    alone(one, passes)
    assert handed_on(mlp, passes).digest() == one.digest()


def test_dropout_by_its_counter(tmp_path: Path) -> None:
    """Dropout draws by the number of the pass, which is a state: devices that set it draw what one device does."""
    module = module_of("normed", nets.normed_case(tmp_path / "case"), tmp_path / "library")
    one, server, devices = module.Model(), module.Model(), [module.Model() for _ in range(module.ACCUMULATE)]
    passes = batches(one, 0)[: module.ACCUMULATE]
    alone(one, passes)
    for number, device in enumerate(devices):
        device.state["pass"][...] = number
    together_without_load(devices, server, passes)
    for name in one.weights.keys() - STATISTICS:
        assert server.weights[name].tobytes() == one.weights[name].tobytes(), name


def together_without_load(devices: Sequence[Any], server: Any, passes: Sequence[Sequence[Any]]) -> None:
    """The same from the weights that devices have."""
    for device, given in zip(devices, passes, strict=True):
        device.train_step(*given)
        server.add_gradients(device.get_gradients())
    server.update()


def test_canonical_batches_go_in_turn(tmp_path: Path) -> None:
    """With gradients sample by sample, sums of whole passes differ; the running sum, handed on, has all bits."""
    case = CASES["mlp"](tmp_path / "case")
    module = module_of("mlp", case, tmp_path / "library", "--canonical-batch")
    one, passes = module.Model(), batches(module.Model(), 0)
    alone(one, passes)
    server, devices = module.Model(), [module.Model() for _ in range(DEVICES)]
    together_without_load(devices, server, passes)
    assert server.digest() != one.digest()
    assert "each device adds the image" in (module.FOLDER / "include/mlp.h").read_text().replace("\n * ", " ")
    assert handed_on(module, passes).digest() == one.digest()


def test_refusals(mlp: ModuleType, tmp_path: Path) -> None:
    """Foreign, damaged, truncated and surplus gradients, and those of a bad pass, change nothing."""
    model, given = mlp.Model(), batches(mlp.Model(), 0)[0]
    with pytest.raises(mlp.LibraryError, match="no training pass"):
        model.get_gradients()
    model.train_step(*given)
    image, before = model.get_gradients(), model.digest()
    other = module_of("mlp", simple_mlp.generate(tmp_path / "case", batch=BATCH, n_accum=2), tmp_path / "library")
    stranger = other.Model()
    stranger.train_step(*given)
    damaged = bytearray(image)
    damaged[len(image) // 2] ^= 1
    for wrong, match in (
        (stranger.get_gradients(), "no state of this model"),
        (model.save(), "no state of this model"),
        (bytes(damaged), "damaged"),
        (image[:-4], "number of bytes does not fit"),
        (image + b"0000", "number of bytes does not fit"),
        (b"", "pointer is null|number of bytes does not fit"),
    ):
        with pytest.raises(mlp.LibraryError, match=match):
            model.add_gradients(wrong)
        assert model.digest() == before
    with pytest.raises(mlp.LibraryError, match="no state of this model"):
        model.load(image)
    for _ in range(DEVICES - 1):
        model.add_gradients(image)
    full = model.digest()
    with pytest.raises(mlp.LibraryError, match=r"an update has to come first; call update\(\)"):
        model.add_gradients(image)
    assert model.digest() == full
    spoilt = mlp.Model()
    with pytest.raises(mlp.LibraryError, match="infinite"):
        spoilt.train_step(*(x * np.inf if x.dtype == np.float32 else x for x in given))
    for call in (spoilt.get_gradients, lambda: spoilt.add_gradients(image)):
        with pytest.raises(mlp.LibraryError, match="infinite"):
            call()


def test_passes_are_counted(mlp: ModuleType) -> None:
    """An image of several passes counts as many: two of half an update are a whole one."""
    one, passes = mlp.Model(), batches(mlp.Model(), 0)
    halves = [mlp.Model(), mlp.Model()]
    for index, given in enumerate(passes):
        halves[index * 2 // DEVICES].train_step(*given)
    halves[0].add_gradients(halves[1].get_gradients())
    with pytest.raises(mlp.LibraryError, match="update has to come first"):
        halves[0].train_step(*passes[0])
    halves[0].update()
    alone(one, passes)
    for name, array in one.weights.items():
        np.testing.assert_allclose(halves[0].weights[name], array, rtol=1e-4)


def test_one_pass_per_update_has_none(tmp_path: Path) -> None:
    """Gradients of a pass with an update of its own do not outlive it, so there are no such functions."""
    module = module_of("mlp", simple_mlp.generate(tmp_path / "case"), tmp_path / "library")
    assert not hasattr(module.Model, "add_gradients")
    assert "gradients(" not in (module.FOLDER / "include/mlp.h").read_text()
