"""Latent replay in libraries: rings and draws as judged in Python, and the bits of training the whole model."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from deployer.core.operator import Array
from deployer.sizing.boards import core_of
from deployer.sizing.emulated import run_example
from deployer.sizing.objects import compile_library
from DeployTest.firmware import test_flash
from DeployTest.firmware.replay.judge import RINGS, Ring
from DeployTest.firmware.test_library import WARNINGS, manifest, packaged, ran, same_bits, state_of, trained
from DeployTest.models.parts.generator import training_case
from DeployTest.quantization.nets import Net, classifier
from DeployTest.support.building.command_line import deployer
from DeployTest.targets.simulators import needs_core

pytestmark = [pytest.mark.host, pytest.mark.training]
HERE = Path(__file__).parent
CLASSES, SAMPLES, PASSES = 3, 60, 24
ADD, TRAIN, FILL, MOVE = range(4)
FLAGS = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover", *WARNINGS]


def dense(batch: int) -> Net:
    """Two layers and a head."""
    net = Net((12,), batch=batch)
    net.op("Relu", [net.linear("x", "features.0", 12, 16)], "a")
    net.op("Relu", [net.linear("a", "features.1", 16, 7)], "b")
    net.linear("b", "head", 7, CLASSES)
    return net


@dataclass(frozen=True)
class Setting:
    """A library: how its model is made and quantized, its batch, passes per update, slots, policy and seed."""

    net: Callable[[int], Net]
    batch: int
    accumulate: int
    slots: int
    policy: str
    optimizer: str
    seed: int = 0
    quantized: bool = False

    def model(self, folder: Path) -> Path:
        """Write the model."""
        folder.mkdir(parents=True, exist_ok=True)
        path = self.net(self.batch).save(folder / "model.onnx", "head.out")
        if not self.quantized:
            return path
        np.savez(folder / "x.npz", x=samples(self.net(self.batch)))
        words = ("--data", folder / "x.npz", "--freeze", "^features", "-o", folder / "quantized.onnx")
        assert deployer("quantize", path, *words) == 0
        return folder / "quantized.onnx"

    def case(self, folder: Path, x: Array, y: Array) -> Path:
        """Write the case that trains the head of the whole model on samples in this order."""
        model, given = self.model(folder), {"x": x, "labels": y}
        frozen = "head"
        return training_case(
            model, "cross_entropy", frozen, data=given, optimizer=self.optimizer, n_accum=self.accumulate
        ).train

    @property
    def words(self) -> tuple[object, ...]:
        """The options of the replay."""
        given: tuple[object, ...] = ("--latent-replay", self.slots)
        given += () if self.policy == "balanced" else ("--replay-policy", self.policy)
        return (*given, "--replay-seed", self.seed) if self.seed else given


SETTINGS = {
    "dense": Setting(dense, 4, 1, 11, "balanced", "adamw"),
    "images": Setting(classifier, 1, 2, 8, "reservoir", "sgd", seed=4000000000),
    "8 bits": Setting(classifier, 4, 2, 9, "balanced", "sgd", seed=7, quantized=True),
}


def samples(net: Net) -> Array:
    """Inputs that are drawn from the normal distribution."""
    return net.samples(SAMPLES)


def drawn_labels() -> Array:
    """Labels of which some are rare."""
    return np.random.default_rng(5).choice(CLASSES, SAMPLES, p=(0.75, 0.2, 0.05)).astype(np.int32)


def drawn_calls(setting: Setting) -> list[tuple[int, list[int]]]:
    """Adds and passes in any order, of which the first is an add; whole updates in all."""
    draw = np.random.default_rng(17)
    calls, passes = [(ADD, [0])], 0
    while passes < PASSES or passes % setting.accumulate:
        for _ in range(draw.integers(0, 8)):
            calls.append((ADD, [int(draw.integers(SAMPLES))]))
        fresh = [int(n) for n in draw.integers(0, SAMPLES, draw.integers(0, setting.batch + 1))]
        calls.append((TRAIN if draw.integers(2) else FILL, fresh))
        passes += 1
        if draw.integers(4) == 0 and passes % setting.accumulate == 0:
            calls.append((MOVE, []))
    return calls


def judged(setting: Setting, calls: list[tuple[int, list[int]]], y: Array) -> tuple[Ring, list[int]]:
    """The ring after all calls, and the samples of all passes, one behind the other."""
    ring, order = RINGS[setting.policy](setting.slots, [int(n) for n in y], setting.seed), list[int]()
    for call, given in calls:
        if call == ADD:
            ring.add(given[0])
        if call in (TRAIN, FILL):
            order += [*given, *(ring.draw() for _ in range(setting.batch - len(given)))]
    return ring, order


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("name", SETTINGS)
def test_bits(name: str, tmp_path: Path) -> None:
    """Losses, weights and ring after drawn calls are those of the whole model on the samples that the judge draws."""
    setting = SETTINGS[name]
    x, y = samples(setting.net(setting.batch)), drawn_labels()
    folder = packaged("net", setting.case(tmp_path / "case", x, y), tmp_path / "library", *setting.words)
    calls = drawn_calls(setting)
    ring, order = judged(setting, calls, y)
    assert ring.adds > 2 * setting.slots
    (tmp_path / "x").write_bytes(x.tobytes())
    (tmp_path / "y").write_bytes(y.tobytes())
    (tmp_path / "calls").write_text("\n".join(" ".join(map(str, (call, len(n), *n))) for call, n in calls))
    kind = np.int8 if setting.quantized else np.float32
    element = "int8_t" if setting.quantized else "float"
    sizes = [f"-DSAMPLES={SAMPLES}u", f"-DNUMBER_OF_CLASSES={CLASSES}", f"-DLATENT={element}"]
    sources = [*sorted((folder / "src").glob("*.c")), HERE / "check_replay.c"]
    words = ["-std=c11", *FLAGS, "-DNET_ASSERTS", "-ffp-contract=off", *sizes, f"-I{folder}/include"]
    ran("gcc", *words, *sources, "-lm", "-o", tmp_path / "check")
    ran(tmp_path / "check", *(tmp_path / name for name in ("x", "y", "calls", "results")))
    results = (tmp_path / "results").read_bytes()
    rows = {tensor["name"]: tensor["shape"] for tensor in manifest(folder)["state"]}
    size = (len(results) - 4 * len(order) // setting.batch - len((folder / "weights.bin").read_bytes())) // SAMPLES
    latents = np.frombuffer(results[: size * SAMPLES], kind).reshape(SAMPLES, -1)
    losses = np.frombuffer(results, np.float32, len(order) // setting.batch, size * SAMPLES)
    state = state_of(folder, results[size * SAMPLES + losses.nbytes :])
    usual = trained(setting.case(tmp_path / "usual", x[order], y[order]), tmp_path / "run")
    same_bits({"loss": losses, **state}, usual, sorted(usual))
    assert rows["replay.latents"][0] == setting.slots
    held = state["replay.latents"].view(kind)[:, : latents.shape[1]]
    assert held.tobytes() == latents[ring.held].tobytes()
    assert state["replay.labels"].ravel().tolist() == y[ring.held].tolist()
    assert state["replay.counters"].tolist() == ring.counters()


def example_calls(setting: Setting, passes: int) -> list[tuple[int, list[int]]]:
    """The calls of the example: passes with new samples for half of the batch, or in turn, which are then added."""
    calls, following = list[tuple[int, list[int]]](), 0
    for index in range(passes):
        count = setting.batch if index == 0 else (setting.batch + 1) // 2 if setting.batch > 1 else 1 - index % 2
        fresh = [(following + i) % SAMPLES for i in range(count)]
        following += count
        calls += [(TRAIN, fresh), *((ADD, [sample]) for sample in fresh)]
    return calls


CORES = ["cortex-m4", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cortex-m0plus", "cortex-m55"))]


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", SETTINGS)
def test_cores(name: str, core: str, tmp_path: Path) -> None:
    """The example on an emulated core prints what it prints here: the losses of the whole model, as above."""
    needs_core(core)
    setting = SETTINGS[name]
    x, y = samples(setting.net(setting.batch)), drawn_labels()
    folder = packaged("net", setting.case(tmp_path / "case", x, y), tmp_path / "library", *setting.words)
    ran("make", "-s", "-C", folder, f"CFLAGS={' '.join(FLAGS)} -DNET_ASSERTS", "LDFLAGS=-fsanitize=address,undefined")
    printed = ran(folder / "build/net_example")
    lines = [line.split() for line in printed.splitlines()]
    losses = np.array([int(line[2], 16) for line in lines if line[0] == "loss"], np.uint32)
    assert len(losses) >= PASSES // 2
    _, order = judged(setting, example_calls(setting, len(losses)), y)
    usual = trained(setting.case(tmp_path / "usual", x[order], y[order]), tmp_path / "run")
    assert losses.tobytes() == usual["loss"].tobytes()
    files = {path: (folder / path).read_text() for path in manifest(folder)["files"] if not path.endswith(".bin")}
    assert run_example(files, "net", compile_library(files, "net", core_of(core))).printed == printed


def cut_program(folder: Path, state: Path, program: Path, element: str, warnings: Sequence[str] = ()) -> Path:
    """The program that cuts saves of a library, with this source of its images."""
    others = [path for path in sorted((folder / "src").glob("*.c")) if path.name != "net_state.c"]
    sizes = [f"-DLATENT={element}", f"-DNUMBER_OF_CLASSES={CLASSES}u"]
    words = ["-std=c11", "-O2", "-ffp-contract=off", *warnings, *sizes, f"-I{folder}/include", f"-I{folder}/src"]
    ran("gcc", *words, state, *others, HERE / "check_replay_flash.c", "-lm", "-o", program)
    return program


FAULTS = [
    *(test_flash.FAULTS[name] for name in ("the newest slot is written", "the oldest is loaded", "nothing is erased")),
    ("if (model) model->memory", "if (model && tensor < OWN) model->memory"),
    ("i < KEPT; i++) {\n        if (!is_held", "i < OWN; i++) {\n        if (!is_held"),
]
"""Faults of the code that saves: those of states, and a ring that is not read, or not written."""


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("name", SETTINGS)
def test_cuts(name: str, tmp_path: Path) -> None:
    """A power cut at any byte of a save leaves the old ring or the new one, and faults of that code are noticed."""
    setting = replace(SETTINGS[name], slots=3)
    case = setting.case(tmp_path / "case", samples(setting.net(setting.batch)), drawn_labels())
    folder = packaged("net", case, tmp_path / "library", *setting.words)
    source, element = folder / "src/net_state.c", "int8_t" if setting.quantized else "float"
    program = cut_program(folder, source, tmp_path / "check", element, WARNINGS)
    found = re.fullmatch(r"cuts (\d+) lost 0\n", ran(program, 97))
    assert found
    assert int(found[1]) > manifest(folder)["replay"]["bytes"]
    for number, (right, wrong) in enumerate(FAULTS):
        text = source.read_text()
        assert text.count(right) == 1
        (tmp_path / "state.c").write_text(text.replace(right, wrong))
        with pytest.raises(AssertionError, match=r"line |lost"):
            ran(cut_program(folder, tmp_path / "state.c", tmp_path / f"fault_{number}", element), 97)
