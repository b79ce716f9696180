"""Generated C and plan against committed goldens; their folder is the case's name. `make golden` rewrites them."""

import re
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.codegen import generate
from deployer.core.plan import Options, Plan
from deployer.frontend import check, parse
from deployer.verify.boxes import lasting
from DeployTest.support.building.cases import HERE, compile_case, load_case
from DeployTest.support.graphs.small_graphs import Model, chain, constant, node

pytestmark = [pytest.mark.host, pytest.mark.training]
GOLDENS = HERE / "goldens"
CASES = [("simple_mlp", "single", 64000), ("simple_mlp", "double", 2000), ("autoencoder", "double", 32000)]
FILES = ("TrainingNetwork.c", "OptimizerNetwork.c", "Network.h", "Harness.c")


@pytest.mark.parametrize(("test", "strategy", "l1"), CASES, ids=[f"{t}-{s}-{n}" for t, s, n in CASES])
def test_golden(test: str, strategy: str, l1: int, models_root: Path, tmp_path: Path, update_golden: bool) -> None:
    """The C is byte for byte what a reviewer last saw."""
    built = compile_case(load_case(test, models_root), tmp_path, strategy, l1)
    folder = GOLDENS / f"{test}-{strategy}-{l1}"
    if update_golden:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / name).write_text((built.directory / name).read_text())
    for name in FILES:
        golden = folder / name
        assert golden.is_file(), f"{golden} is missing; `make golden` writes it"
        assert (built.directory / name).read_text() == golden.read_text(), f"{name} differs from its golden"


def _weights(**shapes: tuple[int, ...]) -> tuple[object, ...]:
    return tuple(constant(name, np.full(shape, 0.5, np.float32)) for name, shape in shapes.items())


CONVOLUTION = chain(
    node("Conv", ("x", "w"), ("y",), kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
    x=(1, 4, 18, 14),
    initializers=_weights(w=(8, 4, 3, 3)),
)
LAYERS = (("x", "u", "a"), ("a", "v", "b"), ("b", "w", "y"))
BLOCKS = chain(
    *(n for i, w, o in LAYERS for n in (node("Gemm", (i, w), (f"{o}_sum",)), node("Relu", (f"{o}_sum",), (o,)))),
    x=(2, 24),
    initializers=_weights(u=(24, 24), v=(24, 24), w=(24, 24)),
)
SMALL: dict[str, tuple[Model, Options]] = {
    "window": (CONVOLUTION, Options("host", "double", {"L1": 3000})),
    "stage": (CONVOLUTION, Options("host", "auto", {"L1": 2200, "L2": 3800}, outermost="L3")),
    "phases": (chain(node("Softmax", ("x",), ("y",)), x=(2, 3000)), Options("host", "double", {"L1": 5000})),
    "shared-function": (BLOCKS, Options("host", "double", {"L1": 2200})),
}
"""What there is to see: a clipped window, a stage from L3, a long row in phases, equal steps in one function."""
SHOWN = {"window": "hal_window(", "stage": "STAGE_", "phases": "reduce_f32", "shared-function": "_like("}


def small_plan(model: Model, options: Options, folder: Path) -> Plan:
    """The plan of a model's one graph."""
    program = check.check_program(parse.read_graphs(model.save(folder / "network.onnx"), None))
    return pipeline.plan_program(program, options)[1]


def small_text(model: Model, options: Options, folder: Path) -> str:
    """The C of a model's one graph."""
    return generate.generate_files(small_plan(model, options, folder))["InferenceNetwork.c"]


@pytest.mark.parametrize("name", SMALL)
def test_small_golden(name: str, tmp_path: Path, update_golden: bool) -> None:
    """The C of one graph of few steps, which shows one form of code."""
    model, options = SMALL[name]
    text = small_text(model, options, tmp_path)
    golden = GOLDENS / f"{name}.c"
    if update_golden:
        golden.write_text(text)
    assert golden.is_file(), f"{golden} is missing; `make golden` writes it"
    assert text == golden.read_text(), f"{golden.name} differs"
    assert SHOWN[name] in text, "the case no longer shows what it is there for"


SUM = chain(node("Add", ("x", "b"), ("y",)), x=(64, 40), initializers=_weights(b=(64, 40)))


@pytest.mark.parametrize(
    ("model", "numbers"),
    [(SUM, ["fill", "use"]), (CONVOLUTION, ["fill", "use", "y_use"])],
    ids=["sum", "sums of tiles"],
)
def test_operands_that_turn_alike_share_numbers(model: Model, numbers: list[str], tmp_path: Path) -> None:
    """Operands that change with each tile have one number of the slot to fill, one of that to use, and one wait.

    An output that several tiles add up turns later.
    """
    text = small_text(model, Options("host", "double", {"L1": 3000}), tmp_path)
    assert re.findall(r"(\w+) \^= 1;", text) == numbers
    assert re.findall(r"(\w+(?:\[\d\])+) = \{", text) == ["in[2][2]", "y_out[2]"]
    assert text.count("hal_dma_wait_all(in[use], 2)") == 1


def layer(kernel: int, pad: int, stride: int) -> Model:
    """A convolution with windows of that size."""
    attributes = {"kernel_shape": [kernel] * 2, "pads": [pad] * 4, "strides": [stride] * 2}
    return chain(
        node("Conv", ("x", "w"), ("y",), **attributes),
        x=(1, 4, 18, 14),
        initializers=_weights(w=(8, 4, kernel, kernel)),
    )


@pytest.mark.parametrize(
    ("kernel", "pad", "stride"), [(1, 0, 1), (1, 0, 2), (3, 0, 1), (3, 0, 2), (3, 1, 1), (3, 1, 2)]
)
def test_boxes_that_begin_with_the_tile_have_no_variable(kernel: int, pad: int, stride: int, tmp_path: Path) -> None:
    """Without padding a box begins at a multiple of the tile's index, and windows at its begin: nothing is clipped.

    What a step sets is what the verifier says does not last, which it derives from all tiles.
    """
    plan = small_plan(layer(kernel, pad, stride), Options("host", "double", {"L1": 2600}), tmp_path)
    text = generate.generate_files(plan)["InferenceNetwork.c"]
    [step] = plan.steps
    assert {d.name for d in step.dims if d.count > 1} & {"oh", "ow"}, "a window is not split"
    assert bool(re.search(r"_low = hal_window", text)) == bool(pad)
    assigned = set(re.findall(r"args->(\w+) = ", text))
    lasts = {name for name, value in step.args.items() if lasting(step, value) is not None}
    assert not assigned & lasts
    assert assigned >= step.args.keys() - lasts
    assert bool(assigned & {"top", "left"}) == bool(pad)
