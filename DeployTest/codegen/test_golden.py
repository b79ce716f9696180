"""Generated C and plan against committed goldens; their folder is the case's name. `make golden` rewrites them."""

from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.codegen import generate
from deployer.core.plan import Options
from deployer.frontend import check, parse
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


@pytest.mark.parametrize("name", SMALL)
def test_small_golden(name: str, tmp_path: Path, update_golden: bool) -> None:
    """The C of one graph of few steps, which shows one form of code."""
    model, options = SMALL[name]
    program = check.check_program(parse.read_graphs(model.save(tmp_path / "network.onnx"), None))
    text = generate.generate_files(pipeline.plan_program(program, options)[1])["InferenceNetwork.c"]
    golden = GOLDENS / f"{name}.c"
    if update_golden:
        golden.write_text(text)
    assert golden.is_file(), f"{golden} is missing; `make golden` writes it"
    assert text == golden.read_text(), f"{golden.name} differs"
    assert SHOWN[name] in text, "the case no longer shows what it is there for"
