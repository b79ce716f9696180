"""Windowed operators as generated programs: halos, strides and padding per tile, under the checks of the simulator."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from tolerances import table

from deployer import pipeline
from deployer.interpret import run_inference
from deployer.plan import Options
from deployer.stages import check, parse

pytestmark = [pytest.mark.host, pytest.mark.models]
TOLERANCE = table()["classes"]["default"]["float32"]
CASES = {
    "conv": ("Conv", [(1, 4, 9, 9), (6, 4, 3, 3)], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "conv dilated": ("Conv", [(1, 3, 11, 8), (4, 3, 3, 3)], {"dilations": [2, 1], "pads": [2, 0, 1, 1]}),
    "conv depthwise": ("Conv", [(2, 6, 7, 7), (6, 1, 3, 3)], {"group": 6, "pads": [1, 1, 1, 1]}),
    "grad x strided": ("ConvGradX", [(1, 6, 5, 5), (6, 4, 3, 3)], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "grad x 1x1 strided": ("ConvGradX", [(1, 2, 16, 16), (2, 2, 1, 1)], {"strides": [2, 2]}),
    "grad x 3x3 strided": ("ConvGradX", [(1, 2, 15, 15), (2, 1, 3, 3)], {"strides": [3, 2], "pads": [1, 1, 1, 1]}),
    "grad w": (
        "ConvGradW",
        [(1, 6, 5, 5), (1, 4, 9, 9)],
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]},
    ),
}


@pytest.mark.parametrize("strategy", ["single", "double"])
@pytest.mark.parametrize("l1", [1200, 3000, 20000])
@pytest.mark.parametrize("name", CASES)
def test_tiled(name: str, l1: int, strategy: str, tmp_path: Path) -> None:
    """The same bits for every budget, right to the reference; nothing outside a box is touched."""
    op, shapes, attrs = CASES[name]
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)]
    node = helper.make_node(op, names, ["y"], "node", **attrs)
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], "graph", inputs, [output])
    path = tmp_path / "network.onnx"
    path.write_bytes(helper.make_model(graph, ir_version=10).SerializeToString())
    program = check.run(parse.run(path, None))
    draw = np.random.default_rng(1)
    values = {n: draw.standard_normal(s).astype(np.float32) for n, s in zip(names, shapes, strict=True)}
    wanted = run_inference(program, values, np.float64)["y"]
    found = set()
    for budget, order in ((200000, "early"), (l1, "late")):
        case = pipeline.Case(tmp_path, program, None, values, {}, "")
        tiling, plan = pipeline.plan_program(program, Options("host", strategy, {"L1": budget}))
        pipeline.write_case(case, tiling, plan, tmp_path / f"{budget}")
        pipeline.build_case(plan, tmp_path / f"{budget}")
        result = pipeline.execute(case, plan, tmp_path / f"{budget}", ["--dma-order", order]).arrays["y"]
        np.testing.assert_allclose(result, wanted, **TOLERANCE)
        found.add(result.tobytes())
    assert len(found) == 1
